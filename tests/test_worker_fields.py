"""The worker's protocol on three queues as they are found in the field, by configuration alone."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from qops.errors import ConnectionLost, Misconfigured
from qops.worker import Job, LeaseLost, Worker
from tests.conftest import wait_until
from tests.queues import ARTICLE, ARTICLE_TOML, GUIDE, GUIDE_TOML, RECIPE, RECIPE_TOML, write_config

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.conftest import Database, Ran


class Field:
    """A queue of the field on a schema of its own, and workers for it."""

    def __init__(self, database: Database, table: str, config: Path, stack: ExitStack) -> None:
        database.execute(table)
        self.database, self._config, self._stack = database, config, stack

    def worker(self, name: str = "w", **options: Any) -> Worker:
        """Return a worker that is closed when the test ends."""
        queue = self.database.queue(self._config)
        return self._stack.enter_context(Worker(self.database.server(), queue, name, **options))

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        return self.database.rows(sql)


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def guide(database: Database, clean_environment: Path, stack: ExitStack) -> Field:
    return Field(database, GUIDE, write_config(clean_environment, GUIDE_TOML), stack)


@pytest.fixture
def recipe(database: Database, clean_environment: Path, stack: ExitStack) -> Field:
    field = Field(database, RECIPE, write_config(clean_environment, RECIPE_TOML), stack)
    database.execute("INSERT INTO jobs VALUES (1, 'one', 'queued'), (2, 'two', 'queued')")
    database.execute("CREATE TABLE ledger (id INT PRIMARY KEY, amount INT NOT NULL)")
    return field


@pytest.fixture
def article(database: Database, clean_environment: Path, stack: ExitStack) -> Field:
    return Field(database, ARTICLE, write_config(clean_environment, ARTICLE_TOML), stack)


class RollBackError(Exception):
    """What ends a block that is to be rolled back."""


def claimed(worker: Worker) -> Job:
    job = worker.claim()
    assert job is not None
    return job


# Guide: states pending, running, done, failed; an owner and a lease; no attempts, no times


def test_guide_a_job_goes_from_enqueue_to_done(guide: Field) -> None:
    """The Worker serves the table: what it does not have is None, and the lease is the guide's."""
    worker = guide.worker("worker-17", lease_seconds=300)
    job_id = worker.enqueue({"to": 1}, priority=2)
    job = claimed(worker)
    assert (job.id, job.json(), job.attempts, job.max_attempts, job.claimed_by) == (
        job_id,
        {"to": 1},
        None,
        None,
        "worker-17",
    )
    leased = "SELECT status, claimed_by, TIMESTAMPDIFF(SECOND, NOW(6), lease_until) FROM jobs"
    assert guide.rows(leased) == [("running", "worker-17", 299)]
    worker.complete(worker.heartbeat(job))
    assert guide.rows(leased) == [("done", "worker-17", None)]


@pytest.mark.parametrize("options", [{}, {"backoff_seconds": 5}, {"retry": False}])
def test_guide_a_failure_is_final(guide: Field, options: dict[str, Any]) -> None:
    """Without attempts and a place to wait a failed job is failed at once."""
    worker = guide.worker()
    worker.enqueue([])
    assert worker.fail(claimed(worker), "boom", **options) == "failed"
    assert guide.rows("SELECT status, lease_until FROM jobs") == [("failed", None)]


def test_guide_its_fence_is_owner_state_and_lease(guide: Field) -> None:
    """A job that was put back and claimed by another cannot be finished by the first worker."""
    first, second = guide.worker("a"), guide.worker("b")
    first.enqueue([])
    old = claimed(first)
    guide.database.execute("UPDATE jobs SET status = 'pending', claimed_by = NULL, lease_until = NULL")
    new = claimed(second)
    for finish in (first.complete, first.heartbeat, lambda job: first.fail(job, "x")):
        with pytest.raises(LeaseLost):
            finish(old)
    second.complete(new)


def test_guide_a_job_is_archived_by_the_worker(guide: Field) -> None:
    """History goes to jobs_archive, as a done row."""
    guide.database.execute("CREATE TABLE jobs_archive LIKE jobs")
    guide.database.execute("ALTER TABLE jobs_archive ADD COLUMN archived_at TIMESTAMP(6) DEFAULT CURRENT_TIMESTAMP(6)")
    worker = guide.worker()
    worker.enqueue({"x": 1})
    worker.complete(claimed(worker), archive=True)
    assert guide.rows("SELECT COUNT(*) FROM jobs") == [(0,)]
    archived = "SELECT status, payload, lease_until, archived_at IS NULL FROM jobs_archive"
    assert guide.rows(archived) == [("done", '{"x": 1}', None, 0)]


def test_guide_what_it_lacks_is_named(guide: Field) -> None:
    """A delay needs available_at, and the message says so (78)."""
    with pytest.raises(Misconfigured, match=r"enqueue with a delay needs .*role 'available_at'") as raised:
        guide.worker().enqueue([], delay_seconds=5)
    assert raised.value.exit_code == 78
    assert guide.rows("SELECT COUNT(*) FROM jobs") == [(0,)]


# Recipe: states queued and done; the row lock is the claim


def test_recipe_its_schedule(recipe: Field) -> None:
    """A claims 1; B, not waiting, claims 2; A commits 1 done; B rolls back; B claims 2 again and commits it done."""
    a, b = recipe.worker("a"), recipe.worker("b")

    def in_b(in_a: ExitStack) -> None:
        with b.hold() as (_, second):
            assert second
            assert second.id == 2
            in_a.close()
            assert recipe.rows("SELECT id, state FROM jobs ORDER BY id") == [(1, "done"), (2, "queued")]
            raise RollBackError

    with ExitStack() as in_a:
        _, first = in_a.enter_context(a.hold())
        assert first
        assert (first.id, first.payload) == (1, "one")
        with pytest.raises(RollBackError):
            in_b(in_a)
    assert recipe.rows("SELECT id, state FROM jobs ORDER BY id") == [(1, "done"), (2, "queued")]
    with b.hold() as (_, again):
        assert again
        assert again.id == 2
    assert recipe.rows("SELECT id, state FROM jobs ORDER BY id") == [(1, "done"), (2, "done")]
    with b.hold() as (_, nothing):
        assert nothing is None


def test_recipe_a_session_typed_by_hand_and_a_worker_pass_each_other(recipe: Field) -> None:
    """The recipe's own transaction and the Worker's hold respect each other's rows."""
    worker, connection = recipe.worker(), recipe.database.connect()
    with connection.cursor() as cursor:
        # At REPEATABLE READ it would also lock the gap into which the other job's new state goes.
        cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
        cursor.execute("BEGIN")
        cursor.execute("SELECT id, task FROM jobs WHERE state = 'queued' ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED")
        assert cursor.fetchall() == ((1, "one"),)
        with worker.hold() as (_, job):
            assert job
            assert job.id == 2
        cursor.execute("UPDATE jobs SET state = 'done' WHERE id = 1")
        cursor.execute("COMMIT")
    connection.close()
    assert recipe.rows("SELECT state FROM jobs") == [("done",), ("done",)]


def test_recipe_the_work_is_in_the_same_transaction(recipe: Field) -> None:
    """What the block wrote is there if the job is done, and gone if it is not."""
    worker = recipe.worker()
    with worker.hold() as (connection, job):
        assert job
        connection.execute(sa.text("INSERT INTO ledger VALUES (:id, 10)"), {"id": job.id})
        assert recipe.rows("SELECT COUNT(*) FROM ledger") == [(0,)]
    assert recipe.rows("SELECT id, amount FROM ledger") == [(1, 10)]
    with pytest.raises(RollBackError):
        _book_in_vain(worker)
    assert recipe.rows("SELECT id FROM ledger") == [(1,)]
    assert recipe.rows("SELECT id, state FROM jobs ORDER BY id") == [(1, "done"), (2, "queued")]


def _book_in_vain(worker: Worker) -> None:
    with worker.hold() as (connection, job):
        assert job
        connection.execute(sa.text("INSERT INTO ledger VALUES (:id, 10)"), {"id": job.id})
        raise RollBackError


@pytest.mark.parametrize("end", ["COMMIT", "ROLLBACK", "CREATE TABLE t (id INT)"])
def test_recipe_a_transaction_that_ended_inside_is_noticed(recipe: Field, end: str) -> None:
    """If the block ends the transaction, the row was free for others: LeaseLost, and the job is not marked."""
    worker = recipe.worker()
    with pytest.raises(LeaseLost, match="the transaction that held job 1 ended inside"), worker.hold() as held:
        held[0].execute(sa.text(end))
    assert recipe.rows("SELECT id, state FROM jobs ORDER BY id") == [(1, "queued"), (2, "queued")]
    with worker.hold() as (_, job):
        assert job
        assert job.id == 1


def test_recipe_a_deadlock_is_told_even_if_the_block_hides_it(recipe: Field) -> None:
    """A block that is a deadlock's victim and goes on regardless does not get its job marked as done."""
    recipe.database.execute("INSERT INTO ledger VALUES (1, 0), (2, 0)")
    other = recipe.database.connect()
    with other.cursor() as cursor:
        # Heavier than the block, so that the server chooses the block.
        cursor.execute("CREATE TABLE heavy (id INT PRIMARY KEY)")
        cursor.execute(
            "INSERT INTO heavy WITH RECURSIVE n AS (SELECT 1 i UNION SELECT i + 1 FROM n WHERE i < 900) SELECT i FROM n"
        )
        cursor.execute("UPDATE ledger SET amount = 1 WHERE id = 2")
        with pytest.raises(LeaseLost, match="a deadlock"):
            _hide_a_deadlock(recipe, cursor)
        other.rollback()
    other.close()
    assert recipe.rows("SELECT id, state FROM jobs ORDER BY id") == [(1, "queued"), (2, "queued")]
    assert recipe.rows("SELECT amount FROM ledger") == [(0,), (0,)]


def _hide_a_deadlock(recipe: Field, other: Any) -> None:
    """Hold a job, lock ledger 1 and ask for 2 while `other` has 2 and asks for 1; take no notice of the error."""
    waiting = "SELECT COUNT(*) FROM performance_schema.data_locks WHERE object_schema = %s AND lock_status = 'WAITING'"
    with recipe.worker().hold() as (connection, _):
        connection.execute(sa.text("UPDATE ledger SET amount = 2 WHERE id = 1"))
        with ThreadPoolExecutor(1) as pool:
            future = pool.submit(other.execute, "UPDATE ledger SET amount = 1 WHERE id = 1")
            wait_until(lambda: recipe.database.value(waiting, (recipe.database.name,)) == 1)
            with pytest.raises(sa.exc.OperationalError) as raised:
                connection.execute(sa.text("UPDATE ledger SET amount = 2 WHERE id = 2"))
            assert raised.value.orig
            assert raised.value.orig.args[0] == 1213
            future.result(timeout=30)


def _connection_id(connection: sa.Connection) -> int:
    return int(connection.execute(sa.text("SELECT CONNECTION_ID()")).scalar_one())


def test_recipe_a_session_that_dies_lets_go(recipe: Field) -> None:
    """A connection killed in the block is told as lost; the job can be claimed again, also by the same worker."""
    worker = recipe.worker()
    with pytest.raises(ConnectionLost), worker.hold() as (connection, job):
        recipe.database.execute(f"KILL {_connection_id(connection)}")
    with worker.hold() as (connection, job):
        assert job
        assert job.id == 1
        mine = _connection_id(connection)
    recipe.database.execute(f"KILL {mine}")
    with worker.hold() as (_, job):
        assert job
        assert job.id == 2


def test_recipe_nothing_else_of_the_worker_runs_meanwhile(recipe: Field) -> None:
    """Another call inside the block would end its transaction, so it is refused; the block goes on."""
    worker = recipe.worker()
    with worker.hold() as (_, job):
        assert job
        with pytest.raises(RuntimeError, match="holds a row"):
            worker.enqueue("three", id=3)
        with pytest.raises(RuntimeError, match="holds a row"), worker.hold():
            pass
    assert recipe.rows("SELECT id, state FROM jobs ORDER BY id") == [(1, "done"), (2, "queued")]
    worker.enqueue("three", id=3)


def test_recipe_what_it_lacks_is_named(recipe: Field) -> None:
    """There is no running state to claim into, no id by itself, and no time to wait for."""
    worker = recipe.worker()
    with pytest.raises(Misconfigured, match=r"claim needs .*state 'running'"):
        worker.claim()
    with pytest.raises(Misconfigured, match="give each job its id"):
        worker.enqueue("three")
    with pytest.raises(Misconfigured, match="role 'available_at'"):
        worker.enqueue("three", id=3, delay_seconds=1)
    with pytest.raises(Misconfigured, match="role 'priority'"):
        worker.enqueue("three", id=3, priority=1)
    assert worker.enqueue("three", id=3) == 3
    assert recipe.rows("SELECT task, state FROM jobs WHERE id = 3") == [("three", "queued")]


def test_default_queue_a_row_can_be_held_too(guide: Field) -> None:
    """hold() works where there is a running state as well: pending to done in one transaction."""
    worker = guide.worker()
    worker.enqueue([])
    with worker.hold() as (_, job):
        assert job
        assert guide.rows("SELECT status FROM jobs") == [("pending",)]
    assert guide.rows("SELECT status FROM jobs") == [("done",)]


# Article: states ready, processing, done; DATETIME with a clock; attempts counted by requeue; no owner


def test_article_batches_in_order_of_time(article: Field) -> None:
    """Twenty jobs come in order of available_at and id, those of the future not, and attempts are not touched."""
    worker = article.worker()
    for number in range(25):
        worker.enqueue(number, id=100 - number, available_at=f"2024-01-01 00:00:{number // 2:02}")
    worker.enqueue(["later"], id=1, available_at="2099-01-01")
    batch = worker.claim_batch(20)
    expected = sorted(range(25), key=lambda number: (number // 2, 100 - number))[:20]
    assert [job.json() for job in batch] == expected
    assert {job.attempts for job in batch} == {0}
    assert {job.max_attempts for job in batch} == {5}
    assert len(worker.claim_batch(20)) == 5
    assert worker.claim_batch(20) == []


def test_article_a_new_job_is_ready_at_once(article: Field) -> None:
    """A DATETIME without fractions does not put a job up to half a second into the future."""
    worker = article.worker()
    for number in range(1, 30):
        worker.enqueue(number, id=number)
        assert claimed(worker).id == number


def test_article_done_only_while_the_lease_holds(article: Field, qops: Callable[..., Ran]) -> None:
    """A job whose lease passed goes back with one more attempt, and its first worker cannot finish it any more."""
    first, second = article.worker("a"), article.worker("b")
    first.enqueue([], id=1)
    old = claimed(first)
    article.database.execute("UPDATE job_queue SET lease_until = UTC_TIMESTAMP() - INTERVAL 2 SECOND")
    with pytest.raises(LeaseLost):
        first.complete(old)
    assert qops("requeue", "--expired").code == 0
    assert article.rows("SELECT status, attempts FROM job_queue") == [("ready", 1)]
    new = claimed(second)
    assert new.attempts == 1
    with pytest.raises(LeaseLost):
        first.complete(old)
    second.complete(second.heartbeat(new))
    assert article.rows("SELECT status, attempts, lease_until FROM job_queue") == [("done", 1, None)]


def test_article_its_own_statement_understands_the_lease(article: Field) -> None:
    """What the article's workers type finds the lease that the Worker wrote, in a session at +00:00."""
    worker = article.worker()
    worker.enqueue([], id=1)
    claimed(worker)
    connection = article.database.connect()
    with connection.cursor() as cursor:
        cursor.execute("SET SESSION time_zone = '+00:00'")
        done = "UPDATE job_queue SET status = 'done' WHERE id = 1 AND status = 'processing' AND lease_until >= NOW()"
        assert cursor.execute(done) == 1
    connection.rollback()
    connection.close()


def test_article_a_failed_job_waits_and_counts(article: Field) -> None:
    """Without a scheduled state a failed job is ready again after its backoff, with one more attempt."""
    worker = article.worker()
    worker.enqueue([], id=1)
    assert worker.fail(claimed(worker), "x", backoff_seconds=60) == "pending"
    waits = "SELECT status, attempts, lease_until, TIMESTAMPDIFF(SECOND, UTC_TIMESTAMP(), available_at) FROM job_queue"
    ((status, attempts, lease_until, seconds),) = article.rows(waits)
    assert (status, attempts, lease_until) == ("ready", 1, None)
    assert 58 <= seconds <= 61
    assert worker.claim() is None


def test_article_at_the_limit_there_is_no_state_for_it(article: Field) -> None:
    """Where the owner has no failed state, the last failure is refused by name and the job stays as it is."""
    worker = article.worker()
    worker.enqueue([], id=1, attempts=4)
    job = claimed(worker)
    with pytest.raises(Misconfigured, match=r"fail needs .*state 'failed'"):
        worker.fail(job, "x")
    assert article.rows("SELECT status, attempts FROM job_queue") == [("processing", 4)]
    worker.complete(job)


def test_article_with_a_failed_state_the_last_attempt_ends_there(
    database: Database, clean_environment: Path, stack: ExitStack
) -> None:
    """Where the owner agrees to a failed state, the last attempt ends in it and is counted."""
    config = write_config(clean_environment, ARTICLE_TOML + 'failed = "failed"\n')
    field = Field(database, ARTICLE, config, stack)
    worker = field.worker()
    worker.enqueue([], id=1, attempts=4)
    assert worker.fail(claimed(worker), "x") == "failed"
    assert field.rows("SELECT status, attempts, lease_until FROM job_queue") == [("failed", 5, None)]


def test_article_another_clock(database: Database, clean_environment: Path, stack: ExitStack) -> None:
    """With clock = "+08:00" times are written and judged as sessions at that offset do."""
    config = write_config(clean_environment, ARTICLE_TOML.replace('"utc"', '"+08:00"'))
    field = Field(database, ARTICLE, config, stack)
    worker = field.worker(lease_seconds=300)
    worker.enqueue([], id=1)
    job = claimed(worker)
    connection = database.connect()
    with connection.cursor() as cursor:
        cursor.execute("SET SESSION time_zone = '+08:00'")
        cursor.execute("SELECT TIMESTAMPDIFF(SECOND, NOW(), lease_until), available_at <= NOW() FROM job_queue")
        ((seconds, ready),) = cursor.fetchall()
    connection.close()
    assert 298 <= seconds <= 300
    assert ready == 1
    worker.complete(job)


def test_article_without_a_clock_times_are_refused(
    database: Database, clean_environment: Path, stack: ExitStack
) -> None:
    """A DATETIME does not say its zone: the claim refuses (78) and explains the choice."""
    config = write_config(clean_environment, ARTICLE_TOML.replace('clock = "utc"', ""))
    worker = Field(database, ARTICLE, config, stack).worker()
    with pytest.raises(Misconfigured, match='set clock = "utc"') as raised:
        worker.claim()
    assert raised.value.exit_code == 78


def test_article_times_beyond_2038(article: Field) -> None:
    """A DATETIME takes what a TIMESTAMP could not."""
    worker = article.worker(lease_seconds=40 * 365 * 86_400)
    worker.enqueue([], id=1)
    worker.enqueue([], id=2, delay_seconds=30 * 365 * 86_400)
    job = claimed(worker)
    assert article.rows("SELECT lease_until > '2060-01-01' FROM job_queue WHERE id = 1") == [(1,)]
    assert worker.claim() is None
    worker.complete(job)
