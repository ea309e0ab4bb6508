"""Where nothing is wrong doctor finds nothing, however much goes on."""

from __future__ import annotations

import subprocess
import sys
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from dev.server import private_server
from tests.calm_crew import LINES, NAMES
from tests.conftest import Database, fresh_database, wait_until
from tests.queues import ARTICLE, ARTICLE_TOML, GUIDE, GUIDE_TOML, RECIPE, RECIPE_TOML, init, write_config
from tests.test_doctor import examine, findings, of

if TYPE_CHECKING:
    from collections.abc import Iterator

ROUNDS = 10
ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def committed() -> Iterator[Any]:
    """Give a server whose sessions are at READ COMMITTED, without what other tests left behind."""
    with private_server(options=["--transaction-isolation=READ-COMMITTED"]) as server:
        yield server


@contextmanager
def at_work(database: Database, folder: Path) -> Iterator[None]:
    """Let the crew work for the length of a `with`; all of it must live to the end."""
    command = [sys.executable, "-m", "tests.calm_crew", database.url, str(folder)]
    errors = folder / "errors"
    with errors.open("w", encoding="utf-8") as file:
        crew = subprocess.Popen(command, cwd=ROOT, stderr=file)
    try:
        wait_for_all(folder, [0] * len(NAMES))
        yield
    finally:
        (folder / "stop").touch()
        try:
            crew.wait(timeout=30)
        finally:
            crew.kill()
        said = errors.read_text(encoding="utf-8")
        assert not said, said
    assert crew.returncode == 0


def wait_for_all(folder: Path, before: list[int]) -> None:
    """Wait until each of the crew but the slow keeper has done another round; fail if one has said why it ended."""

    def moved() -> bool:
        assert not (folder / "errors").stat().st_size
        done = zip(NAMES, rounds(folder), before, strict=True)
        return all(now > then or name.startswith("keeper") for name, now, then in done)

    wait_until(moved, what="another round of everybody")


def rounds(folder: Path) -> list[int]:
    """Return how many rounds of work each of the crew has done."""
    return [(folder / name).stat().st_size if (folder / name).exists() else 0 for name in NAMES]


def test_a_queue_at_work_has_no_finding(committed: Any, tmp_path: Path) -> None:
    """Workers of both kinds, producers, reports, other tables, a backup of those and maintenance: no false alarm."""
    with fresh_database(committed) as database, fresh_database(committed, name=f"{database.name}_b") as other:
        init(database)
        database.execute("CREATE TABLE jobs_extra (id INT PRIMARY KEY, v INT)")
        database.execute(f"INSERT INTO jobs_extra VALUES {', '.join(f'({n}, 0)' for n in range(10))}")
        other.execute("CREATE TABLE jobs (id INT PRIMARY KEY)")
        with at_work(database, tmp_path):
            for _ in range(ROUNDS):
                before = rounds(tmp_path)
                document = examine(database)
                assert (findings(document), document["verdict"]) == ({}, "ok"), document
                wait_for_all(tmp_path, before)
            wait_until(lambda: rounds(tmp_path)[-1] > len(LINES), what="each of the keeper's commands")
        seen = str(of(document, "worker-isolation")["observed"])
        assert int(seen.split(maxsplit=1)[0]) >= 4, seen  # both workers by hand, the producer, the application
        # All of it did happen.
        states = dict(database.rows("SELECT status, COUNT(*) FROM jobs_archive GROUP BY status"))
        assert states["done"] > 0
        assert database.value("SELECT COUNT(*) FROM jobs WHERE status = 'failed'") > 0
        assert findings(examine(database)) == {}


GUIDE_WORKER = (
    "START TRANSACTION",
    "SELECT id, payload FROM jobs WHERE status = 'pending' ORDER BY priority DESC, id LIMIT 1 FOR UPDATE SKIP LOCKED",
    (
        "UPDATE jobs SET status = 'running', claimed_by = 'worker-17', lease_until = NOW(6) + INTERVAL 5 MINUTE "
        "WHERE id = 1"
    ),
    "COMMIT",
)
RECIPE_WORKER = (
    "BEGIN",
    "SELECT id, task FROM jobs WHERE state = 'queued' ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED",
    "UPDATE jobs SET state = 'done' WHERE id = 1",
    "COMMIT",
)
ARTICLE_WORKER = (
    "SET SESSION time_zone = '+00:00'",
    "BEGIN",
    (
        "SELECT id, payload FROM job_queue WHERE status = 'ready' AND available_at <= NOW() ORDER BY available_at, id "
        "LIMIT 20 FOR UPDATE SKIP LOCKED"
    ),
    "UPDATE job_queue SET status = 'processing', lease_until = NOW() + INTERVAL 1 MINUTE WHERE id IN (1, 2)",
    "COMMIT",
    "UPDATE job_queue SET status = 'done' WHERE id = 1 AND status = 'processing' AND lease_until >= NOW()",
    "COMMIT",
)


@pytest.mark.parametrize(
    ("table", "config", "jobs", "worker"),
    [
        (GUIDE, GUIDE_TOML, "INSERT INTO jobs (payload) VALUES ('{}'), ('{}'), ('{}')", GUIDE_WORKER),
        (RECIPE, RECIPE_TOML, "INSERT INTO jobs VALUES (1, 't', 'queued'), (2, 't', 'queued')", RECIPE_WORKER),
        (
            ARTICLE,
            ARTICLE_TOML,
            (
                "INSERT INTO job_queue (id, payload, status, available_at) VALUES (1, '{}', 'ready', UTC_TIMESTAMP()), "
                "(2, '{}', 'ready', UTC_TIMESTAMP())"
            ),
            ARTICLE_WORKER,
        ),
    ],
    ids=["guide", "recipe", "article"],
)
def test_queues_of_the_field_at_work_have_no_finding(
    committed: Any, tmp_path: Path, *, table: str, config: str, jobs: str, worker: tuple[str, ...]
) -> None:
    """Workers that type what those queues' documents say are right, in the middle of a claim and after it."""
    path = str(write_config(tmp_path, config))
    with fresh_database(committed) as database, ExitStack() as stack:
        database.execute(table)
        init(database, "--config", path, "--repair")
        database.execute(jobs)
        connection = database.connect()
        stack.callback(connection.close)
        for statement in worker:
            with connection.cursor() as cursor:
                cursor.execute(statement)
                cursor.fetchall()
            assert findings(examine(database, "--config", path)) == {}, statement
