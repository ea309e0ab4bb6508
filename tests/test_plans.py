"""Every statement goes along its index and reads little more than it acts on, however much lies beside it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from qops.ahead import Place, look_ahead
from qops.archive.batch import move_batch
from qops.explain import explain
from qops.guard import check_tables
from qops.limits import MAX_BATCH
from qops.pick import pick
from qops.promote import promote_batch
from qops.requeue.judge import Judge
from qops.requeue.result import Outcome
from qops.statements import archive as archiving
from qops.statements import requeue as requeueing
from qops.statements import worker as working
from qops.statements.common import delete_ids
from qops.statements.walk import Past, Walk, choose_walk, count_selected, lock_rows, next_keys
from qops.worker import Worker
from qops.worker.promotion import BATCH as PROMOTED_AT_ONCE
from tests.accounts import account
from tests.conftest import Database, fresh_database, run_here
from tests.measure import plan_of, reads, spent_by
from tests.queues import ARTICLE, ARTICLE_TOML, GUIDE, GUIDE_TOML, RECIPE, RECIPE_TOML, fill, init, write_config

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import sqlalchemy as sa

    from dev import server as throwaway
    from qops.queue import QueueTable

DONE, SCHEDULED, DUE, PENDING, RUNNING, EXPIRED, FAILED = 500_000, 20_000, 1_500, 5_000, 500, 120, 3_000
BATCH = 200


@pytest.fixture(scope="module")
def big(main_server: throwaway.Server) -> Iterator[Database]:
    """Give the default queue with half a million finished jobs below and above the others, 100 of them undated."""
    with fresh_database(main_server) as database:
        init(database)
        finished = "IF(n <= 50, NULL, NOW(6) - INTERVAL IF(n > 100, n + 3600, n) SECOND)"
        half = {"status": "'done'", "priority": "n % 7", "finished_at": finished}
        fill(database, DONE // 2, **half)
        due = f"NOW(6) + INTERVAL IF(n <= {DUE}, -1, 86400) SECOND"
        fill(database, SCHEDULED, status="'scheduled'", priority="n % 7", available_at=due)
        fill(database, PENDING, priority="n % 7")
        lease = f"NOW(6) + INTERVAL IF(n <= {EXPIRED}, -n, 86400) SECOND"
        fill(database, RUNNING, status="'running'", attempts="1", claimed_by="'w'", lease_until=lease)
        fill(database, FAILED, status="'failed'", attempts="1", finished_at="NOW(6) - INTERVAL n SECOND")
        fill(database, DONE // 2, **half)
        yield database


@pytest.fixture
def session(big: Database) -> Iterator[sa.Connection]:
    """Give a session of qops whose changes are undone."""
    with big.server().session() as connection:
        yield connection
        connection.rollback()


WALKS = {
    "archive": ("done", "finished_at", None, "finished_idx"),
    "archive --older-than": ("done", "finished_at", Past("finished_at", 1_800_000_000), "finished_idx"),
    "archive --state failed": ("failed", "finished_at", None, "finished_idx"),
    "requeue --failed": ("failed", "finished_at", None, "finished_idx"),
    "requeue --expired": ("running", "lease_until", Past("lease_until"), "lease_idx"),
    "promote": ("scheduled", "available_at", Past("available_at"), "available_idx"),
}
walks = pytest.mark.parametrize("name", WALKS)


def walk_of(queue: QueueTable, name: str) -> Walk:
    """Return the walk that a command takes."""
    state, by, past, _ = WALKS[name]
    return choose_walk(queue, queue.value(state), by=by, past=past)


def rows_of(session: sa.Connection, query: sa.Select[Any]) -> list[Any]:
    return list(session.execute(query).all())


@walks
@pytest.mark.parametrize("passed", [0, 30, 70], ids="after {}".format)
def test_a_selection_goes_along_its_index(big: Database, session: sa.Connection, name: str, passed: int) -> None:
    """From its start and later on a selection uses the index made for it, sorts nothing and reads what it returns."""
    queue = big.queue()
    walk, index = walk_of(queue, name), WALKS[name][3]
    key = tuple(rows_of(session, next_keys(queue, walk, None, passed))[-1]) if passed else None
    query = next_keys(queue, walk, key, BATCH)
    (line,) = explain(session, query)
    assert (line.key, line.sorts) == (index, False)
    assert line.access in {"ref", "range"}
    spent, found = reads(session, partial(rows_of, session, query))
    assert len(found) == (EXPIRED - passed if name == "requeue --expired" else BATCH)
    assert spent <= len(found) + 5


@walks
def test_a_walk_meets_every_row_once(big: Database, session: sa.Connection, name: str) -> None:
    """Batch after batch a walk visits each of its rows exactly once, the undated ones too, and then ends."""
    queue = big.queue()
    walk = walk_of(queue, name)
    expected = session.execute(count_selected(queue, walk, DONE + 1)).scalar_one()
    sizes = [37, 29, *[97] * 50, *[100_000] * 6]
    key: tuple[Any, ...] | None = None
    seen: list[Any] = []
    while keys := rows_of(session, next_keys(queue, walk, key, sizes.pop(0))):
        seen += [row[-1] for row in keys]
        key = tuple(keys[-1])
    assert len(seen) == len(set(seen)) == expected > 0


@walks
def test_a_batch_reads_little_more_than_it_locks(big: Database, session: sa.Connection, name: str) -> None:
    """Selecting and locking reads each row in the index and once more by primary key, early and late in a walk."""
    queue = big.queue()
    walk = walk_of(queue, name)
    key = None
    for _ in range(2):
        spent, picked = reads(session, partial(pick, session, queue, walk, key, 60))
        assert len(picked.ids) == 60
        assert spent <= 2 * 60 + 6
        key = picked.key


def test_an_archive_batch_reads_a_small_multiple_of_its_rows(big: Database, session: sa.Connection) -> None:
    """Select, lock and copy, delete, in the middle of half a million: three reads a row, and some of the dictionary."""
    queue = big.queue()
    walk = walk_of(queue, "archive")
    key = tuple(rows_of(session, next_keys(queue, walk, None, 100_000))[-1])
    guard = check_tables(big.server(), session, queue)
    spent, place = reads(session, partial(look_ahead, session, queue, walk, Place(key), BATCH, BATCH))
    more, batch = reads(session, partial(move_batch, session, guard, walk, place.ids))
    assert len(batch.moved) == BATCH
    assert spent + more <= 3 * BATCH + 300


def test_the_largest_batch_is_still_read_by_primary_key(big: Database, session: sa.Connection) -> None:
    """10,000 ids are within what the range optimizer takes on; beyond it, it would scan and lock the table."""
    queue = big.queue()
    walk = walk_of(queue, "archive")
    ids = [key[-1] for key in rows_of(session, next_keys(queue, walk, None, MAX_BATCH))]
    for statement in (lock_rows(queue, walk, ids), delete_ids(queue, ids), archiving.copy_ids(queue, ids)):
        lines = [line for line in plan_of(session, statement) if line.table == "jobs"]
        assert [(line.access, line.key) for line in lines] == [("range", "PRIMARY")]


def test_requeue_and_promote_read_a_small_multiple_of_their_rows(big: Database, session: sa.Connection) -> None:
    """Select, lock, update: four reads a row."""
    queue = big.queue()
    spent, promoted = reads(session, partial(promote_batch, queue, walk_of(queue, "promote"), None, BATCH, session))
    assert len(promoted.moved) == BATCH
    assert spent <= 4 * BATCH + 10
    outcome = Outcome()

    def put_back() -> None:
        walk = walk_of(queue, "requeue --failed")
        picked = pick(session, queue, walk, None, BATCH, *requeueing.situation(queue))
        Judge(queue, reset_attempts=False).transition(session, picked.rows, outcome)

    spent, _ = reads(session, put_back)
    assert outcome.requeued == BATCH
    assert spent <= 4 * BATCH + 10


def test_a_claim_reads_what_it_takes(big: Database, session: sa.Connection) -> None:
    """Half a million finished and 20,000 scheduled jobs cost a claim nothing: along claim_idx, unsorted, row by row."""
    queue = big.queue()
    claim = working.select_claim(queue, queue.columns["payload"])
    (line,) = explain(session, claim, {"limit": 1})
    assert (line.key, line.sorts, line.access) == ("claim_idx", False, "ref")
    for limit in (1, 10, 100):
        spent, rows = reads(session, lambda limit=limit: session.execute(claim, {"limit": limit}).all())  # type: ignore[misc]
        session.rollback()
        assert len(rows) == limit
        assert spent <= limit + 3


def test_the_worker_reads_a_small_multiple_of_what_it_takes(big: Database) -> None:
    """Claiming with promotion on the way, heartbeat, complete and fail cost what the jobs in hand cost."""
    with Worker(big.server(), big.queue(), "w-plans") as worker:
        worker.claim_batch(2)  # also prepares what is prepared once
        connection = worker.session.connection
        worker._promotion._next_busy = 0.0  # type: ignore[union-attr]
        spent, jobs = reads(connection, partial(worker.claim_batch, 10))
        assert len(jobs) == 10
        assert spent <= 6 * (PROMOTED_AT_ONCE + 10)
        assert reads(connection, partial(worker.heartbeat, jobs[1]))[0] <= 3
        assert reads(connection, partial(worker.complete, jobs[0]))[0] <= 3
        assert reads(connection, partial(worker.fail, jobs[1], "x"))[0] <= 3
        # What guards the way to the archive reads the data dictionary (all foreign keys there are), never the tables.
        worker.complete(jobs[2], archive=True)
        guarding, _ = reads(connection, partial(worker.archive_guard(connection).recheck, connection))
        spent, _ = reads(connection, partial(worker.complete, jobs[3], archive=True))
        assert guarding <= 2_000
        assert spent <= guarding + 100


def test_the_workers_promotion_goes_along_the_index(big: Database, session: sa.Connection) -> None:
    """The worker's one statement reads due jobs by their index and finds them by primary key, without sorting."""
    queue = big.queue()
    lines = plan_of(session, working.promote_due(queue, walk_of(queue, "promote")), limit=10)
    assert not any(line.sorts for line in lines)
    assert [line.key for line in lines if line.table == "jobs"] == ["PRIMARY", "available_idx"]


@pytest.mark.parametrize(
    ("arguments", "bound"),
    [
        (("archive", "--dry-run"), 100_500),
        (("archive", "--dry-run", "--older-than", "90000000s"), 500),
        (("archive", "--dry-run", "--state", "failed"), FAILED + 500),
        (("promote", "--dry-run"), DUE + 500),
        (("requeue", "--expired", "--dry-run"), EXPIRED + 500),
        (("requeue", "--failed", "--dry-run"), FAILED + 500),
    ],
    ids=str,
)
def test_a_dry_run_reads_what_it_counts_up_to_a_bound(big: Database, arguments: tuple[str, ...], bound: int) -> None:
    """Looking is bounded and writes nothing, not even an entry in the ledger."""
    with account(big, "ALL ON {db}.*", "PROCESS ON *.*") as mine:
        before = spent_by(big, mine.user)
        ran = run_here(*arguments, "--url", mine.url, "--format", "json")
        assert ran.code == 0, ran.err
        assert (spent_by(big, mine.user) - before).examined <= bound
    assert big.value("SELECT COUNT(*) FROM qops_runs") == 0


def test_finished_jobs_above_many_pending_ones_are_found_at_once(database: Database) -> None:
    """200,000 pending jobs with low ids cost the archiver nothing, and a run with nothing to do is cheap."""
    init(database)
    fill(database, 200_000)
    fill(database, 2_000, status="'done'", finished_at="NOW(6)")
    with account(database, "ALL ON {db}.*", "PROCESS ON *.*") as mine:
        before = spent_by(database, mine.user)
        arguments = ("archive", "--url", mine.url, "--batch", "500", "--pause", "0s", "--format", "json")
        ran = run_here(*arguments)
        assert (ran.code, ran.json["archived"], ran.json["batches"]) == (0, 2_000, 4), ran.err
        after = spent_by(database, mine.user)
        assert (after - before).examined < 4 * 2_000  # found, copied under a lock, deleted
        assert run_here(*arguments).json["archived"] == 0
        idle = spent_by(database, mine.user) - after
        assert idle.examined < 1_000  # all of them the dictionary's
        # Logging in, the session's settings, the ledger, and what keeps an archive from losing anything.
        assert idle.statements <= 25


def test_what_else_is_in_the_schema_costs_nothing(database: Database) -> None:
    """A hundred more tables beside the queue do not make a run read more of the dictionary."""
    init(database)
    with account(database, "ALL ON {db}.*", "PROCESS ON *.*") as mine:
        reads = []
        for _ in range(2):
            for command in ("archive", "expire"):
                assert run_here(command, "--url", mine.url).code == 0
            before = spent_by(database, mine.user)
            for command in ("archive", "expire", "requeue --failed", "promote"):
                assert run_here(*command.split(), "--url", mine.url).code == 0
            reads.append((spent_by(database, mine.user) - before).reads)
            for number in range(100):
                database.execute(f"CREATE TABLE IF NOT EXISTS other_{number} (id INT PRIMARY KEY)")
    assert reads[1] - reads[0] < 100


@pytest.mark.parametrize(
    ("ddl", "toml", "insert"),
    [
        (
            GUIDE,
            GUIDE_TOML,
            "INSERT INTO jobs (id, status, priority, payload) {} SELECT n, IF(n % 2, 'done', 'pending'), n % 5, '{{}}'",
        ),
        (RECIPE, RECIPE_TOML, "INSERT INTO jobs {} SELECT n, 'x', IF(n % 2, 'done', 'queued')"),
        (
            ARTICLE,
            ARTICLE_TOML,
            "INSERT INTO job_queue {} SELECT n, '{{}}', IF(n % 2, 'done', 'ready'), DATE(20260101 + n % 7), NULL, 0",
        ),
    ],
    ids=["guide", "recipe", "article"],
)
def test_the_fields_queues_are_walked_along_their_own_index(
    database: Database, clean_environment: Path, ddl: str, toml: str, insert: str
) -> None:
    """With the one index that its owner has, descending or not, every batch reads its rows and visits each once."""
    config = write_config(clean_environment, toml)
    database.execute(ddl)
    database.execute("SET SESSION cte_max_recursion_depth = 10000000")
    numbers = "WITH RECURSIVE s AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM s WHERE n < 20000)"
    database.execute(insert.format(numbers) + " FROM s")
    queue = database.queue(config)
    with database.server().session() as connection:
        walk = choose_walk(queue, queue.value("done"), by="finished_at")
        assert walk.index != "PRIMARY"
        key, seen = None, []
        while True:
            query = next_keys(queue, walk, key, 1_009)
            assert not any(line.sorts for line in explain(connection, query))
            spent, keys = reads(connection, partial(rows_of, connection, query))
            assert spent <= len(keys) + 5
            seen += [row[-1] for row in keys]
            if len(keys) < 1_009:
                break
            key = tuple(keys[-1])
        assert sorted(seen) == list(range(1, 20_000, 2))
