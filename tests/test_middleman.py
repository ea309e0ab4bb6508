"""Behind a cluster or a proxy: a COMMIT that is refused is repeated whole, a session that forgets is noticed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.middleman import Middleman, behind
from tests.queues import counts, fill, init

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.conftest import Database, Ran


@pytest.fixture
def queue(database: Database) -> Database:
    """Return a queue with 30 finished and 30 failed jobs, without a ledger: only batches are committed."""
    init(database)
    database.execute("DROP TABLE qops_runs")
    fill(database, 60, status="IF(n <= 30, 'done', 'failed')", finished_at="NOW(6)")
    return database


@pytest.mark.parametrize("code", [3101, 1213])
def test_a_commit_that_the_group_refuses_is_repeated_whole(
    queue: Database, qops: Callable[..., Ran], code: int
) -> None:
    """Conflicts that surface at COMMIT, after every statement had succeeded, cost time and no row."""
    middleman = Middleman(code=code, refusals=4)
    with behind(queue, middleman) as away:
        archived = qops("archive", "--url", away.url, "--batch", "10", "--format", "json")
        requeued = qops("requeue", "--failed", "--url", away.url, "--batch", "10", "--format", "json")
    assert (archived.code, archived.json["archived"], requeued.code, requeued.json["requeued"]) == (0, 30, 0, 30)
    assert middleman.refused == 4
    assert archived.json["retries"] >= 1
    assert counts(queue) == {"pending": 30}
    assert counts(queue, "jobs_archive") == {"done": 30}


def test_a_group_that_always_refuses_ends_the_run(queue: Database, qops: Callable[..., Ran]) -> None:
    """After a few repeats it is "try later" (75), with nothing moved."""
    with behind(queue, Middleman(code=3101, refusals=1000)) as away:
        ran = qops("archive", "--url", away.url, "--format", "json")
    assert (ran.code, ran.json["archived"]) == (75, 0)
    assert counts(queue)["done"] == 30


@pytest.mark.parametrize("command", [("archive",), ("requeue", "--failed"), ("requeue", "31", "32")])
def test_a_session_that_forgets_its_isolation_level_changes_nothing(
    queue: Database, qops: Callable[..., Ran], command: tuple[str, ...]
) -> None:
    """Where a proxy loses session settings, qops says so (78) before any row is locked."""
    with behind(queue, Middleman(forgets=True)) as away:
        ran = qops(*command, "--url", away.url, "--format", "json")
    assert ran.code == 78, ran.out + ran.err
    assert "REPEATABLE-READ" in ran.json["error"]["message"]
    assert counts(queue) == {"done": 30, "failed": 30}
