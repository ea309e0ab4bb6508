"""The tables that archivers empty: finished jobs among live ones, the same for everybody, made anew for every run."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dev.benchmarks.control import Control

if TYPE_CHECKING:
    from dev.server import Server

SCHEMA = "bench"
_TEMPLATES = "templates"
# Jobs are claimed in order, a hundred a second, and take up to a second: they finish in about the order of their ids.
_FILL = """
INSERT INTO jobs (status, priority, payload, claimed_by, available_at, attempts, created_at, finished_at)
WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %(rows)s),
     some (i, done) AS (
       SELECT i, i <= %(mixed)s AND i * %(done)s DIV %(mixed)s > (i - 1) * %(done)s DIV %(mixed)s FROM n)
SELECT IF(done, 'done', 'pending'), i MOD 10,
       JSON_OBJECT('job', i, 'to', CONCAT('customer', i, '@example.com'), 'text', REPEAT('x', 100 + i MOD 50)),
       IF(done, CONCAT('worker-', i MOD 8), NULL), NOW(6) - INTERVAL 2 DAY, done, NOW(6) - INTERVAL 2 DAY,
       IF(done, NOW(6) - INTERVAL 1 DAY + INTERVAL 10000 * i + FLOOR(1000000 * RAND(1)) MICROSECOND, NULL)
  FROM some"""


@dataclass(frozen=True)
class Case:
    """A queue's table: `done` jobs with `between` live ones among them, evenly, and `beside` more after them."""

    name: str
    done: int
    between: int
    beside: int = 0

    @property
    def live(self) -> int:
        """How many jobs have to be left."""
        return self.between + self.beside


class Tables:
    """The schema `bench` with the default tables of `qops init`, and the templates that they are filled from."""

    def __init__(self, server: Server) -> None:
        """Create the schema and have qops create its tables."""
        self.control = Control(server)
        self.url = f"{server.url}{SCHEMA}"
        self.control.run(f"CREATE DATABASE {SCHEMA}")
        self.control.run(f"CREATE DATABASE {_TEMPLATES}")
        run_qops("init", url=self.url)
        self.control.run(f"USE {SCHEMA}")
        self.control.run(f"CREATE TABLE {_TEMPLATES}.jobs_archive LIKE jobs_archive")

    def make(self, case: Case) -> None:
        """Fill the template of a case, and the table with it."""
        self.control.run("TRUNCATE jobs")
        mixed = case.done + case.between
        self.control.cursor.execute(_FILL, {"rows": mixed + case.beside, "mixed": mixed, "done": case.done})
        self.control.run(f"CREATE TABLE {_TEMPLATES}.{case.name} LIKE jobs")
        self.control.run(f"INSERT INTO {_TEMPLATES}.{case.name} SELECT * FROM jobs")  # noqa: S608 - all written here

    def reset(self, case: Case) -> None:
        """Make both tables anew as the case has them, and let the server come to rest."""
        self.control.run("DROP TABLE jobs, jobs_archive")
        for table, template in (("jobs", case.name), ("jobs_archive", "jobs_archive")):
            self.control.run(f"CREATE TABLE {table} LIKE {_TEMPLATES}.{template}")
        self.control.run(f"INSERT INTO jobs SELECT * FROM {_TEMPLATES}.{case.name}")  # noqa: S608 - as above
        self.control.run("ANALYZE TABLE jobs, jobs_archive")
        self.control.settle()

    def check(self, case: Case) -> None:
        """Raise RuntimeError unless all done jobs, and no others, are in the archive."""
        counts = (
            self.control.number("SELECT COUNT(*) FROM jobs_archive WHERE status = 'done'"),
            self.control.number("SELECT COUNT(*) FROM jobs WHERE status = 'pending'"),
            self.control.number("SELECT (SELECT COUNT(*) FROM jobs) + (SELECT COUNT(*) FROM jobs_archive)"),
        )
        if counts != (case.done, case.live, case.done + case.live):
            raise RuntimeError(f"case {case.name}: archived, live and all rows are {counts}")


@dataclass(frozen=True)
class Timed:
    """Seconds from start to end of the whole process, and its own count of the run in it (None: it has none)."""

    seconds: float
    inside: float | None = None


def run_qops(*arguments: str, url: str) -> tuple[Timed, Any]:
    """Run qops as its own process; return how long it took and its JSON document.

    Raises RuntimeError unless it ends with 0.
    """
    command = [sys.executable, "-m", "qops", *arguments, "--url", url, "--quiet", "--format", "json"]
    started = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    seconds = time.monotonic() - started
    if done.returncode != 0:
        raise RuntimeError(f"qops {' '.join(arguments)} ended with {done.returncode}: {done.stdout} {done.stderr}")
    document = json.loads(done.stdout)
    return Timed(seconds, document.get("elapsed_seconds")), document
