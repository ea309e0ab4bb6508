"""The tables that archivers empty: finished jobs among live ones, the same for everybody, made anew for every run."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dev.benchmarks.control import Control

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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
        qops("init", url=self.url).run()
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
class Program:
    """A program to run as its own process."""

    command: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))

    def run(self) -> str:
        """Run it to its end and return its stdout. Raises RuntimeError unless that is a 0."""
        done = subprocess.run(self.command, env=dict(self.environment), capture_output=True, text=True, check=False)
        self.ended(done.returncode, done.stdout + done.stderr)
        return done.stdout

    def ended(self, code: int, said: str) -> None:
        """Raise RuntimeError with what it said unless it ended with 0."""
        if code != 0:
            raise RuntimeError(f"{' '.join(self.command)} ended with {code}: {said}")


def qops(*arguments: str, url: str) -> Program:
    """Return qops as its own process, answering in JSON."""
    return Program([sys.executable, "-m", "qops", *arguments, "--url", url, "--format", "json"])
