"""Two connections at work where no rest is wanted: each batch stays whole, and the counts are what really moved."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from qops.errors import Misconfigured, Unavailable
from qops.lanes import gravest
from tests.accounts import account
from tests.conftest import Database, Ran, run_here, start_process, wait_until
from tests.queues import fill, init
from tests.workload import all_rows, check_moves, check_nothing_open

if TYPE_CHECKING:
    from collections.abc import Callable

RUN = ("archive", "--pause", "0s", "--format", "json")


@pytest.fixture
def queue(database: Database) -> Database:
    """Return a queue with 60 finished jobs, ids 1 to 60, and some others."""
    init(database)
    fill(database, 60, status="'done'", finished_at="NOW(6)")
    fill(database, 20)
    return database


def taken(queue: Database, id_: int) -> str:
    """Return an INSERT that holds `id_` in the archive until its transaction ends, so that a copy waits for it."""
    return (
        "INSERT INTO jobs_archive (id, status, priority, payload, attempts, max_attempts) "
        f"VALUES ({id_}, 'done', 0, '{{}}', 0, 0)"
    )


def waiters(queue: Database) -> list[int]:
    """Return the connections that wait for a row lock in this schema."""
    return [
        pid
        for (pid,) in queue.rows(
            "SELECT DISTINCT t.processlist_id FROM performance_schema.data_lock_waits w "
            "JOIN performance_schema.threads t ON t.thread_id = w.requesting_thread_id WHERE t.processlist_db = %s",
            [queue.name],
        )
    ]


@pytest.mark.parametrize(("pause", "lanes"), [("0s", 2), ("1ms", 1)])
def test_two_batches_are_under_way_where_no_rest_is_wanted(queue: Database, pause: str, lanes: int) -> None:
    """With --pause 0s two connections have a batch each; with any rest it is one. Afterwards neither is left."""
    before, _ = all_rows(queue)
    with closing(queue.connect()) as other, closing(other.cursor()) as cursor:
        for id_ in (5, 15):
            cursor.execute(taken(queue, id_))
        process = start_process("archive", "--batch", "10", "--pause", pause, "--format", "json", url=queue.url)
        wait_until(lambda: len(waiters(queue)) == lanes, what=f"{lanes} batches that wait")
        other.rollback()
    out, err = process.communicate(timeout=60)
    ran = Ran(process.returncode, out, err)
    assert (ran.code, ran.json["archived"], ran.json["batches"]) == (0, 60, 6), ran
    check_moves(before, *all_rows(queue))
    check_nothing_open(queue)


@pytest.mark.parametrize(("id_", "moved"), [(5, range(11, 21)), (15, range(1, 11))])
def test_the_other_batch_is_counted_when_one_fails(queue: Database, id_: int, moved: range) -> None:
    """A row of the archive that stays locked ends the run (75); the batch beside it is committed and counted."""
    before, _ = all_rows(queue)
    with closing(queue.connect()) as other, closing(other.cursor()) as cursor:
        cursor.execute(taken(queue, id_))
        ran = run_here(*RUN, "--batch", "10", "--url", queue.url)
        other.rollback()
    assert (ran.code, ran.json["archived"], ran.json["stopped_by"]) == (75, 10, "error"), ran
    assert set(all_rows(queue)[1]) == set(moved)
    check_moves(before, *all_rows(queue))


@pytest.mark.parametrize("lane", [0, 1])
def test_a_killed_connection_costs_only_its_batch(queue: Database, lane: int) -> None:
    """KILL of either connection: 69, the batch of the other is counted, and nothing is left open."""
    before, _ = all_rows(queue)
    with closing(queue.connect()) as other, closing(other.cursor()) as cursor:
        for id_ in (5, 15):
            cursor.execute(taken(queue, id_))
        process = start_process(*RUN, "--batch", "10", url=queue.url)
        wait_until(lambda: len(waiters(queue)) == 2, what="two batches that wait")
        queue.execute(f"KILL {sorted(waiters(queue))[lane]}")
        other.rollback()
    out, err = process.communicate(timeout=60)
    ran = Ran(process.returncode, out, err)
    assert (ran.code, ran.json["error"]["kind"], ran.json["archived"]) == (69, "unavailable", 10), ran
    assert check_moves(before, *all_rows(queue))["archived"] == 10
    check_nothing_open(queue)


def test_an_account_with_one_connection_works_with_one(queue: Database) -> None:
    """Where the server grants no second connection the run goes on with its own."""
    with account(queue, "ALL ON {db}.*", "PROCESS ON *.*") as mine:
        queue.execute(f"ALTER USER '{mine.user}'@'%' WITH MAX_USER_CONNECTIONS 1")
        ran = run_here(*RUN, "--batch", "10", "--url", mine.url)
    assert (ran.code, ran.json["archived"], ran.json["batches"]) == (0, 60, 6), ran


@pytest.mark.parametrize("limit", [1, 9, 10, 11, 19, 20, 21, 59, 61])
def test_a_limit_is_exact_with_two_connections(queue: Database, qops: Callable[..., Ran], limit: int) -> None:
    """Never a job more than --limit is moved, and never a batch larger than --batch."""
    ran = qops(*RUN, "--batch", "10", "--limit", str(limit))
    reached = "limit" if limit <= 60 else "done"
    assert (ran.code, ran.json["archived"], ran.json["stopped_by"]) == (0, min(limit, 60), reached), ran
    assert ran.json["batches"] == -(-min(limit, 60) // 10)


def test_the_fate_of_each_batch_is_told() -> None:
    """Two connections that are lost in the same way are said once, two batches whose fate is unknown twice."""
    lost = [Unavailable("lost"), Unavailable("lost")]
    assert str(gravest(lost)) == "lost"
    unknown = [Unavailable("lost; 5 rows"), Unavailable("lost; 5 rows")]
    for error in unknown:
        error.in_commit = True
    assert str(gravest(unknown)) == "lost; 5 rows; and beside it: lost; 5 rows"
    assert isinstance(gravest([Unavailable("lost"), Misconfigured("a bug")]), Misconfigured)
