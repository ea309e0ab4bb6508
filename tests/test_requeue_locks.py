"""Requeue beside others: what is being committed wins, and each named job has one answer."""

from __future__ import annotations

import json
import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa
from sqlalchemy import event

from tests.conftest import run_here, start_process, wait_until
from tests.queues import counts, fill, init

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.conftest import Database, Ran


@pytest.fixture
def queue(database: Database) -> Database:
    init(database)
    return database


@contextmanager
def before_the_lock(act: Callable[[], object]) -> Iterator[None]:
    """Do `act` right before the first statement that locks jobs: the moment between reading and locking."""
    todo = [act]

    def watch(*arguments: Any) -> None:
        sql = str(arguments[2])
        if todo and "jobs" in sql and "FOR UPDATE" in sql:
            todo.pop()()

    event.listen(sa.Engine, "before_cursor_execute", watch)
    try:
        yield
    finally:
        event.remove(sa.Engine, "before_cursor_execute", watch)
    assert not todo


FINISHES = "UPDATE jobs SET status = 'done', lease_until = NULL, finished_at = NOW(6) WHERE id = 2 AND claimed_by = 'w'"
EXTENDS = "UPDATE jobs SET lease_until = NOW(6) + INTERVAL 1 HOUR WHERE id = 2 AND claimed_by = 'w'"
OTHERS = "UPDATE jobs SET claimed_by = 'v' WHERE id = 2"


def expired(queue: Database) -> None:
    fill(queue, 3, status="'running'", claimed_by="'w'", lease_until="NOW(6) - INTERVAL 1 MINUTE", attempts="1")


@pytest.mark.parametrize(("said", "state", "owner"), [(FINISHES, "done", "w"), (EXTENDS, "running", "w")])
def test_what_is_committed_before_the_lock_wins(
    queue: Database, qops: Callable[..., Ran], said: str, state: str, owner: str
) -> None:
    """A completion or heartbeat between reading and locking: the job keeps its new state and is counted as changed."""
    expired(queue)
    with before_the_lock(lambda: queue.execute(said)):
        ran = qops("requeue", "--expired", "--format", "json")
    assert (ran.json["requeued"], ran.json["changed"], ran.json["locked"]) == (2, 1, 0)
    assert queue.rows("SELECT status, claimed_by FROM jobs WHERE id = 2") == [(state, owner)]


@pytest.mark.parametrize(("said", "state"), [(FINISHES, "done"), (EXTENDS, "running")])
def test_what_is_being_committed_wins(queue: Database, qops: Callable[..., Ran], said: str, state: str) -> None:
    """A completion or heartbeat in an open transaction: its job is passed over, and named it is locked, by whom."""
    expired(queue)
    worker = queue.connect()
    worker.cursor().execute(said)
    named = qops("requeue", "2", "--format", "json")
    ran = qops("requeue", "--expired", "--format", "json")
    worker.commit()
    assert (named.code, named.json["locked"]) == (1, 1)
    assert named.json["results"] == [{"id": 2, "result": "locked", "held_by": worker.thread_id()}]
    assert (ran.json["requeued"], ran.json["locked"]) == (2, 1)
    assert queue.value("SELECT status FROM jobs WHERE id = 2") == state
    worker.close()


def test_the_owner_is_asked_again(queue: Database, qops: Callable[..., Ran]) -> None:
    """A job that changes hands between reading and locking is not put back for its old owner."""
    expired(queue)
    with before_the_lock(lambda: queue.execute(OTHERS)):
        ran = qops("requeue", "--expired", "--worker", "w", "--format", "json")
    assert (ran.json["requeued"], ran.json["changed"]) == (2, 1)
    assert queue.rows("SELECT status, claimed_by FROM jobs WHERE id = 2") == [("running", "v")]


def test_a_named_job_that_changes_meanwhile_says_so(queue: Database, qops: Callable[..., Ran]) -> None:
    """A named job that finishes after the run began is `changed`, with both states in the reason."""
    expired(queue)
    with before_the_lock(lambda: queue.execute(FINISHES)):
        ran = qops("requeue", "1", "2", "--format", "json")
    assert [one["result"] for one in ran.json["results"]] == ["requeued", "changed"]
    assert (ran.code, ran.json["changed"]) == (1, 1)
    assert "done" in ran.json["not_eligible"][0]["reason"]


def test_a_conflict_is_an_answer_of_its_own(queue: Database, qops: Callable[..., Ran]) -> None:
    """Of named jobs the one that would break a unique key stays; the server's words are on stderr."""
    queue.execute(
        "ALTER TABLE jobs ADD live INT AS (IF(status = 'pending', priority, NULL)) STORED, ADD UNIQUE live_idx (live)"
    )
    fill(queue, 3, status="IF(n = 3, 'pending', 'failed')", priority="IF(n = 3, 2, n)")
    ran = qops("requeue", "1", "2", "2", "--format", "json")
    assert [(one["id"], one["result"]) for one in ran.json["results"]] == [(1, "requeued"), (2, "conflict")]
    assert (ran.code, ran.json["conflicts"]) == (1, [2])
    assert "live_idx" in ran.err


def test_who_holds_a_job_needs_a_privilege(queue: Database, qops: Callable[..., Ran]) -> None:
    """An account that may not see locks gets null for held_by, and the GRANT on stderr."""
    fill(queue, 1, status="'failed'")
    user = f"h{queue.name}"
    queue.execute(f"CREATE USER '{user}'@'%' IDENTIFIED BY 'pw'")
    holder = queue.connect()
    try:
        queue.execute(f"GRANT SELECT, UPDATE ON jobs TO '{user}'@'%'")
        holder.cursor().execute("SELECT id FROM jobs FOR UPDATE")
        url = f"mysql://{user}:pw@{queue.host}:{queue.port}/{queue.name}"
        ran = qops("requeue", "1", "--url", url, "--format", "json")
    finally:
        holder.close()
        queue.execute(f"DROP USER '{user}'@'%'")
    assert ran.json["results"] == [{"id": 1, "result": "locked", "held_by": None}]
    assert "GRANT SELECT ON performance_schema" in ran.err


@pytest.mark.parametrize(("signum", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_it_between_batches_and_the_rest_is_taken_up(
    queue: Database, qops: Callable[..., Ran], signum: int, code: int
) -> None:
    """Stopped half way: what was counted is what changed, the entry is closed, and a second run takes the rest."""
    fill(queue, 20_000, status="'failed'", finished_at="NOW(6)")
    process = start_process("requeue", "--failed", "--batch", "50", "--format", "json", url=queue.url)
    some = "SELECT EXISTS (SELECT 1 FROM jobs WHERE status = 'pending')"
    wait_until(lambda: queue.value(some) == 1)
    process.send_signal(signum)
    out, err = process.communicate(timeout=30)
    assert process.returncode == code, err
    done = json.loads(out)["requeued"]
    assert 0 < done < 20_000
    assert counts(queue) == {"pending": done, "failed": 20_000 - done}
    assert queue.rows("SELECT outcome, summary->>'$.requeued' FROM qops_runs") == [("signal", str(done))]
    rest = qops("requeue", "--failed", "--format", "json")
    assert (rest.code, rest.json["requeued"]) == (0, 20_000 - done)


def test_the_brake_stops_a_spread_that_is_under_way(queue: Database) -> None:
    """Paused in the middle from elsewhere: 75, the jobs that are scheduled stay scheduled, the others failed."""
    fill(queue, 20_000, status="'failed'", finished_at="NOW(6)")
    arguments = ("requeue", "--failed", "--spread", "1ms", "--batch", "50", "--format", "json")
    process = start_process(*arguments, url=queue.url)
    wait_until(lambda: queue.value("SELECT EXISTS (SELECT 1 FROM jobs WHERE status = 'scheduled')") == 1)
    assert run_here("pause", "--url", queue.url).code == 0
    process.communicate(timeout=30)
    assert process.returncode == 75
    scheduled = counts(queue)["scheduled"]
    assert 0 < scheduled < 20_000
    assert run_here("promote", "--url", queue.url).code == 75
    assert counts(queue) == {"scheduled": scheduled, "failed": 20_000 - scheduled}
    assert queue.value("SELECT outcome FROM qops_runs WHERE command = 'requeue'") == "paused"
