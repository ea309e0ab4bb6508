"""An open batch locks its own rows and no others, on tables of any size, so that workers go on beside it."""

from __future__ import annotations

import math
from contextlib import closing, contextmanager
from itertools import product
from typing import TYPE_CHECKING, Any

import pytest

from qops.ahead import Place, look_ahead
from qops.archive.batch import move_batch
from qops.guard import check_tables
from qops.pick import pick
from qops.promote import promote_batch
from qops.requeue.judge import Judge
from qops.requeue.result import Outcome
from qops.statements import archive as archiving
from qops.statements import requeue as requeueing
from qops.statements.common import as_run, delete_ids
from qops.statements.walk import Past, Walk, choose_walk, count_meeting, lock_rows, next_keys, wait_for_rows
from qops.worker import Worker
from tests.measure import locked_rows, plan_of
from tests.queues import ARTICLE, ARTICLE_TOML, GUIDE, GUIDE_TOML, RECIPE, RECIPE_TOML, fill, init, write_config

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import sqlalchemy as sa

    from qops.db import Server
    from qops.queue import QueueTable
    from tests.conftest import Database

sizes = pytest.mark.parametrize("number", [3, 30, 300])
STATES = ("done", "pending", "running", "failed", "scheduled")
WALKS = {
    "archive": ("done", "finished_at", None),
    "requeue --failed": ("failed", "finished_at", None),
    "requeue --expired": ("running", "lease_until", Past("lease_until")),
    "promote": ("scheduled", "available_at", Past("available_at")),
}


def mixed(database: Database, number: int) -> None:
    """Make a default queue of `number` jobs in each state, one state after the other by id."""
    init(database)
    fill(
        database,
        number * len(STATES),
        status=f"ELT(1 + n % 5, {', '.join(map(repr, STATES))})",
        priority="n % 3",
        attempts="1",
        available_at="NOW(6) - INTERVAL n SECOND",
        lease_until="IF(n % 5 = 2, NOW(6) - INTERVAL n SECOND, NULL)",
        claimed_by="IF(n % 5 = 2, 'dead', NULL)",
        finished_at="IF(n % 5 IN (0, 3) AND n % 4, NOW(6) - INTERVAL n SECOND, NULL)",
    )


def walk_of(queue: QueueTable, command: str) -> Walk:
    state, by, past = WALKS[command]
    return choose_walk(queue, queue.value(state), by=by, past=past)


def act(server: Server, session: sa.Connection, queue: QueueTable, command: str, limit: int) -> list[Any]:
    """Do one batch of `command` in the open transaction; return the ids that it moved."""
    walk = walk_of(queue, command)
    if command == "archive":
        place = look_ahead(session, queue, walk, Place(), limit, limit)
        return move_batch(session, check_tables(server, session, queue), walk, place.ids).moved
    if command == "promote":
        return promote_batch(queue, walk, None, limit, session).moved
    picked = pick(session, queue, walk, None, limit, *requeueing.situation(queue))
    outcome = Outcome()
    Judge(queue, reset_attempts=False).transition(session, picked.rows, outcome)
    return outcome.moved


@contextmanager
def held(database: Database, where: str) -> Iterator[set[int]]:
    """Lock rows from a session of somebody else's, by primary key; yield their ids."""
    with closing(database.connect()) as holder, closing(holder.cursor()) as cursor:
        ids = [id_ for (id_,) in database.rows(f"SELECT id FROM jobs WHERE {where}")]
        for id_ in ids:
            cursor.execute("SELECT id FROM jobs WHERE id = %s FOR UPDATE", [id_])
        yield set(ids)
        holder.rollback()


@sizes
def test_a_batch_locks_its_rows_and_no_others(database: Database, number: int) -> None:
    """All row locks of an open batch are on its own ids: not on rows beside, skipped or beyond, not on any gap."""
    mixed(database, number)
    queue = database.queue()
    with database.server().session() as session:
        own = session.exec_driver_sql("SELECT CONNECTION_ID()").scalar_one()
        for command, (state, _, _) in WALKS.items():
            for limit in (number, 1 + number // 3):
                with held(database, f"status = '{state}' AND id % 3 = 0") as others:
                    ids = act(database.server(), session, queue, command, limit)
                    assert ids
                    assert not others & set(ids)
                    locks = locked_rows(database, own)
                    session.rollback()
                assert {lock[:3] for lock in locks} == {("jobs", "PRIMARY", "X,REC_NOT_GAP")}
                assert {int(lock[3]) for lock in locks} == set(ids)


@sizes
def test_statements_by_id_stay_on_the_primary_key(database: Database, number: int) -> None:
    """However much of a small table a list of ids is, it is read by primary key and never as a whole."""
    mixed(database, number)
    database.execute("INSERT INTO jobs_archive SELECT * FROM jobs")
    queue = database.queue()
    with database.server().session() as session:
        for command, share in product(WALKS, (1, 2, 3)):
            walk = walk_of(queue, command)
            ids = [key[-1] for key in session.execute(next_keys(queue, walk, None, max(1, number // share)))]
            statements = [
                lock_rows(queue, walk, ids, *requeueing.situation(queue)),
                wait_for_rows(queue, walk, ids),
                count_meeting(queue, walk, ids),
                archiving.copy_ids(queue, ids),
                archiving.lock_and_copy(queue, walk, ids),
                delete_ids(queue, ids),
                archiving.twins(queue, ids),
                requeueing.put_back(queue, ids, count_attempt=True, reset_attempts=False),
                requeueing.give_up(queue, ids, "x", count_attempt=False),
                requeueing.promote(queue, ids),
            ]
            for statement in statements:
                lines = [line for line in plan_of(session, statement) if line.table != "jobs_archive"]
                assert {line.key for line in lines} == {"PRIMARY"}, str(statement)
                assert {line.access for line in lines} <= {"range", "const", "eq_ref"}, str(statement)


@sizes
@pytest.mark.parametrize("gap", [False, True], ids=["whole", "with a gap"])
def test_consecutive_ids_are_moved_without_touching_their_neighbours(
    database: Database,
    number: int,
    gap: bool,  # noqa: FBT001 - a parameter of pytest's
) -> None:
    """The rows right before and after a run of ids may be held by others: nobody waits, and nothing else is locked.

    A run is read as a range that stops at its last row, one with a gap as a list.
    """
    init(database)
    fill(database, 3 * number, status=f"IF((n - 1) DIV {number} = 1, 'done', 'running')", finished_at="NOW(6)")
    gap = gap and number > 3
    if gap:
        database.execute("UPDATE jobs SET status = 'pending' WHERE id = %s", [number + 3])
    wanted = set(range(number + 1, 2 * number + 1)) - ({number + 3} if gap else set())
    queue = database.queue()
    assert (as_run(queue, sorted(wanted)) is None) is gap
    others = f"id IN ({number}, {2 * number + 1}, {number + 3 if gap else 1})"
    with database.server().session() as session, held(database, others):
        own = session.exec_driver_sql("SELECT CONNECTION_ID()").scalar_one()
        for limit in (number, max(2, number // 2)):
            ids = act(database.server(), session, queue, "archive", limit)
            assert len(ids) == min(limit, len(wanted))
            assert set(ids) <= wanted
            locks = locked_rows(database, own)
            session.rollback()
            assert {lock[:3] for lock in locks} == {("jobs", "PRIMARY", "X,REC_NOT_GAP")}
            assert {int(lock[3]) for lock in locks} == set(ids)


def test_ids_that_only_look_like_a_run_are_none(database: Database) -> None:
    """First and last a run's length apart, but others between, twice the same, or no numbers: a list it is."""
    init(database)
    queue = database.queue()
    for ids in ([4, 1, 9, 7], [1, 1, 3], [1, 3], [5], ["1", "2"], [True, 2], []):
        assert as_run(queue, ids) is None
    assert as_run(queue, [3, 1, 2]) == (1, 3, 3)


@sizes
@pytest.mark.parametrize("command", WALKS)
def test_workers_go_on_beside_an_open_batch(database: Database, number: int, command: str) -> None:
    """While a batch is open, jobs are inserted, promoted, claimed, extended, completed and failed without waiting."""
    mixed(database, number)
    queue = database.queue()
    retried: list[int] = []
    with (
        database.server().session() as session,
        Worker(database.server(), queue, "a", promote=False, on_retry=retried.append) as first,
        Worker(database.server(), queue, "b", on_retry=retried.append) as second,
        closing(database.connect(autocommit=True)) as producer,
        closing(producer.cursor()) as cursor,
    ):
        impatient(first, second)
        cursor.execute("SET SESSION innodb_lock_wait_timeout = 1")
        early = first.claim()
        assert early
        assert act(database.server(), session, queue, command, number)
        for priority in range(-1, 4):
            cursor.execute("INSERT INTO jobs (priority, payload) VALUES (%s, '{}')", [priority])
        jobs = second.claim_batch(number + 4)
        assert len(jobs) == number + 4
        first.complete(first.heartbeat(early))
        second.fail(jobs[0], "x")
        second.complete(jobs[1], archive=True)
        session.commit()
    assert retried == []


def impatient(*workers: Worker) -> None:
    """Let workers wait for a lock no longer than a second."""
    for worker in workers:
        worker.session.connection.exec_driver_sql("SET SESSION innodb_lock_wait_timeout = 1")
        worker.session.commit()


def test_what_the_worker_marks_it_finds_by_primary_key(database: Database) -> None:
    """Workers that claim a third of a small table each do not wait for one another, whoever holds what."""
    init(database)
    fill(database, 300)
    queue = database.queue()
    with (
        Worker(database.server(), queue, "a") as first,
        Worker(database.server(), queue, "b") as second,
        held(database, "id % 3 = 0") as others,
    ):
        impatient(first, second)
        taken = [{job.id for job in worker.claim_batch(100)} for worker in (first, second)]
        assert [len(ids) for ids in taken] == [100, 100]
        assert not taken[0] & taken[1]
        assert not others & (taken[0] | taken[1])


@pytest.mark.parametrize("number", [3, 300])
@pytest.mark.parametrize(
    ("table", "ddl", "toml", "insert"),
    [
        (
            "jobs",
            GUIDE,
            GUIDE_TOML,
            "INSERT INTO jobs (id, status, priority, payload) SELECT n, IF(n % 2, 'done', 'pending'), n % 4, '{}'",
        ),
        ("jobs", RECIPE, RECIPE_TOML, "INSERT INTO jobs SELECT n, 'x', IF(n % 2, 'done', 'queued')"),
        (
            "job_queue",
            ARTICLE,
            ARTICLE_TOML,
            "INSERT INTO job_queue SELECT n, '{}', IF(n % 2, 'done', 'ready'), NOW() - INTERVAL n % 7 SECOND, NULL, 0",
        ),
    ],
    ids=["guide", "recipe", "article"],
)
def test_archiving_the_fields_queues_locks_only_its_rows(
    database: Database, clean_environment: Path, number: int, table: str, ddl: str, toml: str, insert: str
) -> None:
    """Along whatever index the owner has, a batch locks its rows alone, and the next batch goes on where it ended."""
    config = write_config(clean_environment, toml)
    database.execute(ddl)
    database.execute(f"CREATE TABLE {table}_archive LIKE {table}")
    numbers = f"WITH RECURSIVE s AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM s WHERE n < {2 * number})"
    database.execute(insert.replace(" SELECT", f" {numbers} SELECT", 1) + " FROM s")
    queue = database.queue(config)
    with database.server().session() as session:
        walk = choose_walk(queue, queue.value("done"), by="finished_at")
        own = session.exec_driver_sql("SELECT CONNECTION_ID()").scalar_one()
        place, size, moved = Place(), 1 + number // 3, []
        guard = check_tables(database.server(), session, queue)
        while (place := place if place.ids else look_ahead(session, queue, walk, place, size, math.inf)).ids:
            moved += move_batch(session, guard, walk, place.ids[:size]).moved
            place = place.behind(size)
            locks = {lock for lock in locked_rows(database, own) if lock[0] == table}
            assert {lock[1:3] for lock in locks} == {("PRIMARY", "X,REC_NOT_GAP")}
            assert {int(lock[3]) for lock in locks} == set(moved)
        assert sorted(moved) == list(range(1, 2 * number, 2))
        session.commit()
