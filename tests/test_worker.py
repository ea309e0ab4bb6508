"""The worker's protocol on the default queue, between real sessions."""

from __future__ import annotations

import json
import multiprocessing
import threading
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest

from qops.clock import Stop
from qops.errors import ConnectionLost, Misconfigured, PrivilegeMissing, TryLater
from qops.explain import explain
from qops.privileges import grants_for
from qops.statements import worker as st
from qops.worker import Job, JobNotFound, LeaseLost, NotClaimable, RowLocked, Worker, open_worker, retry_backoff, run
from tests.accounts import account
from tests.conftest import Database, wait_until
from tests.queues import contents, counts, fill, init

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.conftest import Ran

SESSION = (
    "SELECT @@transaction_isolation, @@time_zone, @@autocommit, @@innodb_lock_wait_timeout, @@lock_wait_timeout, "
    "@@sql_mode, CONNECTION_ID()"
)


@pytest.fixture
def jobs(database: Database) -> Database:
    """Return a schema with the default queue, made by `qops init`."""
    init(database)
    return database


@pytest.fixture
def worker(jobs: Database) -> Iterator[Worker]:
    with Worker(jobs.server(), jobs.queue(), "worker-17") as worker:
        yield worker


@pytest.fixture
def other(jobs: Database) -> Iterator[Any]:
    """Return another session, at the server's defaults, in a transaction from its first statement on."""
    connection = jobs.connect()
    with connection.cursor() as cursor:
        yield cursor
    connection.close()


def claimed(worker: Worker) -> Job:
    job = worker.claim()
    assert job is not None
    return job


def row(database: Database, job_id: int, columns: str = "status, claimed_by, attempts, last_error") -> tuple[Any, ...]:
    (found,) = database.rows(f"SELECT {columns} FROM jobs WHERE id = %s", (job_id,))
    return found


def connection_id(worker: Worker) -> int:
    return int(worker.session.connection.exec_driver_sql("SELECT CONNECTION_ID()").scalar_one())


def read_rows(worker: Worker) -> int:
    """Return how many rows and index entries the worker's session has read."""
    status = worker.session.connection.exec_driver_sql("SHOW SESSION STATUS LIKE 'Handler\\_read\\_%%'")
    return sum(int(value) for _, value in status)


@contextmanager
def waiting_for_lock(database: Database, work: Callable[[], Any]) -> Iterator[Any]:
    """Run `work` in a thread and yield its future once it waits for a row lock."""

    def waits() -> bool:
        return bool(
            database.value(
                "SELECT COUNT(*) FROM performance_schema.data_locks WHERE object_schema = %s "
                "AND lock_status = 'WAITING'",
                (database.name,),
            )
        )

    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(work)
        wait_until(lambda: waits() or future.done(), what="a lock wait")
        yield future
        future.result(timeout=30)


# Enqueue and claim


def test_a_job_goes_from_enqueue_to_done(jobs: Database, worker: Worker) -> None:
    """What was enqueued is claimed once, marked and leased, and done when the worker says so."""
    job_id = worker.enqueue({"to": 4711}, priority=3)
    job = claimed(worker)
    assert (job.id, job.json(), job.attempts, job.max_attempts, job.claimed_by) == (
        job_id,
        {"to": 4711},
        1,
        5,
        "worker-17",
    )
    running = "status, claimed_by, attempts, TIMESTAMPDIFF(SECOND, NOW(6), lease_until)"
    assert row(jobs, job_id, running) == ("running", "worker-17", 1, 299)
    assert 298 < (job.seconds_left or 0) <= 300
    assert worker.claim() is None
    worker.complete(job)
    done = "status, claimed_by, attempts, lease_until, finished_at BETWEEN created_at AND NOW(6)"
    assert row(jobs, job_id, done) == ("done", "worker-17", 1, None, 1)


def test_jobs_are_claimed_by_priority_then_id(jobs: Database, worker: Worker) -> None:
    """A batch comes in the queue's order, and marks exactly the jobs that came."""
    ids = [worker.enqueue(n, priority=n % 3) for n in range(9)]
    expected = sorted(ids, key=lambda i: (-((i - ids[0]) % 3), i))
    batch = worker.claim_batch(5)
    assert [job.id for job in batch] == expected[:5]
    assert {job.attempts for job in batch} == {1}
    assert counts(jobs) == {"running": 5, "pending": 4}
    assert [job.id for job in worker.claim_batch(100)] == expected[5:]
    assert worker.claim_batch(100) == []


def test_a_locked_job_is_passed_over(jobs: Database, worker: Worker, other: Any) -> None:
    """A claim neither waits for a row that somebody holds nor takes it."""
    fill(jobs, 3)
    other.execute("SELECT id FROM jobs WHERE id = 1 FOR UPDATE")
    assert [job.id for job in worker.claim_batch(3)] == [2, 3]
    other.connection.rollback()
    assert claimed(worker).id == 1


def test_a_job_whose_time_has_not_come_is_not_claimed(jobs: Database, worker: Worker) -> None:
    """A pending job with a time ahead stays, whatever its priority."""
    fill(jobs, 2, priority="IF(n = 1, 9, 0)", available_at="NOW(6) + INTERVAL IF(n = 1, 3600, 0) SECOND")
    assert [job.id for job in worker.claim_batch(5)] == [2]
    with pytest.raises(NotClaimable, match="time has not come"):
        worker.claim_job(1)


def test_an_empty_claim_leaves_nothing_open(jobs: Database, worker: Worker) -> None:
    """After an empty claim the table is free at once, for DDL too."""
    assert worker.claim() is None
    jobs.execute("SET SESSION lock_wait_timeout = 1")
    jobs.execute("ALTER TABLE jobs ADD COLUMN more INT")


@pytest.mark.parametrize("number", [0, -1, 1_000_000])
def test_a_batch_is_bounded(worker: Worker, number: int) -> None:
    """A batch of none, and one without bounds, are refused."""
    with pytest.raises(ValueError, match="batch"):
        worker.claim_batch(number)


def _work(url: str, name: str) -> list[int]:
    """Claim and complete until nothing is left; three threads with a worker each."""

    def one(number: int) -> list[int]:
        mine: list[int] = []
        with open_worker(f"{name}-{number}", url=url) as worker:
            while batch := worker.claim_batch(1 + number):
                mine += [job.id for job in batch]
                for job in batch:
                    worker.complete(job)
        return mine

    with ThreadPoolExecutor(3) as pool:
        return [job_id for part in pool.map(one, range(3)) for job_id in part]


def test_no_job_is_claimed_twice(jobs: Database) -> None:
    """Nine workers in three processes share 600 jobs, each of which is claimed and completed exactly once."""
    fill(jobs, 600, priority="n % 4")
    with ProcessPoolExecutor(3, multiprocessing.get_context("spawn")) as pool:
        parts = list(pool.map(_work, [jobs.url] * 3, ["a", "b", "c"]))
    ids = sorted(job_id for part in parts for job_id in part)
    assert ids == list(range(1, 601))
    assert counts(jobs) == {"done": 600}
    assert jobs.value("SELECT MAX(attempts) FROM jobs") == 1


def test_a_claim_reads_what_it_takes(jobs: Database, worker: Worker) -> None:
    """A claim goes along claim_idx without a sort, and reads about as many rows as it takes, whatever else is there."""
    fill(jobs, 3000, status="'done'", priority="n % 7", finished_at="NOW(6)")
    fill(jobs, 3000, priority="n % 7")
    jobs.execute("ANALYZE TABLE jobs")
    session = worker.session.connection
    claim = st.select_claim(worker.queue, worker.queue.columns["payload"])
    (line,) = explain(session, claim, {"limit": 20})
    assert (line.key, line.sorts) == ("claim_idx", False)
    worker.session.rollback()
    worker.claim_batch(20)
    before = read_rows(worker)
    assert len(worker.claim_batch(20)) == 20
    assert read_rows(worker) - before <= 5 * 20


@pytest.mark.parametrize("pending", [2, 20, 100])
def test_a_claim_on_a_small_table_leaves_the_rest_to_others(jobs: Database, worker: Worker, pending: int) -> None:
    """While one worker's claim is uncommitted, the next finds a job too, however few there are."""
    fill(jobs, pending, priority="n % 3")
    jobs.execute("ANALYZE TABLE jobs")
    first = worker.session.query(worker.statements.select_claim, limit=1)
    with Worker(jobs.server(), jobs.queue(), "worker-18") as second:
        taken = second.claim()
    worker.session.rollback()
    assert len(first) == 1
    assert taken is not None
    assert taken.id != first[0][0]


# What can be enqueued


def test_a_delayed_job_waits_and_is_promoted_by_a_claim(jobs: Database, worker: Worker) -> None:
    """A delay schedules a job; a worker that finds nothing promotes it when its time has come, and claims it."""
    job_id = worker.enqueue("[]", delay_seconds=60)
    assert row(jobs, job_id, "status, TIMESTAMPDIFF(SECOND, NOW(6), available_at)") == ("scheduled", 59)
    assert worker.claim() is None
    jobs.execute("UPDATE jobs SET available_at = NOW(6)")
    assert claimed(worker).id == job_id


def test_a_busy_worker_promotes_as_well(jobs: Database, worker: Worker) -> None:
    """Due jobs become pending also while a worker always finds others, within about a second."""
    fill(jobs, 5000)
    fill(jobs, 3, status="'scheduled'", available_at="NOW(6) + INTERVAL 1 SECOND")
    assert claimed(worker)
    assert counts(jobs)["scheduled"] == 3

    def promoted() -> bool:
        claimed(worker)
        return "scheduled" not in counts(jobs)

    wait_until(promoted, seconds=10)


def test_promotion_waits_for_nobody(jobs: Database, worker: Worker, other: Any) -> None:
    """Due jobs that others hold are passed over, and rows of other jobs that are locked hold nothing up."""
    fill(jobs, 4, status="'scheduled'", available_at="NOW(6) - INTERVAL 1 SECOND")
    fill(jobs, 4, status="'done'")
    for job_id in (2, 5, 6, 7, 8):
        other.execute("SELECT id FROM jobs WHERE id = %s FOR UPDATE", (job_id,))
    assert [job.id for job in worker.claim_batch(10)] == [1, 3, 4]
    assert row(jobs, 2)[0] == "scheduled"


def test_a_paused_queue_is_not_promoted(jobs: Database, worker: Worker, qops: Callable[..., Ran]) -> None:
    """While the brake is on workers go on claiming, but due jobs stay scheduled; afterwards they are promoted."""
    fill(jobs, 2, status="IF(n = 1, 'scheduled', 'pending')")
    assert qops("pause").code == 0
    assert claimed(worker).id == 2
    assert worker.claim() is None
    assert row(jobs, 1)[0] == "scheduled"
    assert qops("resume").code == 0
    wait_until(lambda: worker.claim() is not None, seconds=10)


def test_promotion_can_be_left_to_others(jobs: Database) -> None:
    """With promote=False a worker leaves scheduled jobs alone."""
    fill(jobs, 1, status="'scheduled'")
    with Worker(jobs.server(), jobs.queue(), "w", promote=False) as worker:
        assert worker.claim() is None
    assert counts(jobs) == {"scheduled": 1}


@pytest.mark.parametrize("seconds", [4e8, 1e11])
def test_a_time_beyond_the_column_is_refused(jobs: Database, worker: Worker, seconds: float) -> None:
    """A delay, a time or a lease past 2038 is refused, naming column and limit, and nothing is stored."""
    with pytest.raises(Misconfigured, match=r"'available_at'.*2038-01-19 03:14:07") as raised:
        worker.enqueue(1, delay_seconds=seconds)
    assert raised.value.exit_code == 78
    with pytest.raises(Misconfigured, match="'available_at'"):
        worker.enqueue(1, available_at="2041-01-01")
    assert counts(jobs) == {}
    fill(jobs, 1)
    with (
        Worker(jobs.server(), jobs.queue(), "w", lease_seconds=seconds) as long,
        pytest.raises(Misconfigured, match=r"'lease_until'.*2038-01-19 03:14:07"),
    ):
        long.claim()
    assert counts(jobs) == {"pending": 1}


def test_times_that_no_calendar_has_are_refused(worker: Worker) -> None:
    """An infinite, negative or missing number of seconds never reaches the server."""
    for seconds in (float("inf"), float("nan"), 1e15):
        with pytest.raises(ValueError, match="no time"):
            worker.enqueue(1, delay_seconds=seconds)
    with pytest.raises(ValueError, match="not negative"):
        worker.enqueue(1, delay_seconds=-1)


def test_other_columns_are_given_by_role_or_name(jobs: Database, worker: Worker) -> None:
    """enqueue() fills any column of the table, and names one that it does not know, or has twice."""
    jobs.execute("ALTER TABLE jobs ADD COLUMN tenant VARCHAR(20), ADD COLUMN `50% off` INT")
    with Worker(jobs.server(), jobs.queue(), "w") as wider:
        job_id = wider.enqueue({"a": "%s"}, tenant="x%sy", max_attempts=2, id=77, **{"50% off": 5})
    assert job_id == 77
    assert row(jobs, 77, "payload, tenant, max_attempts, `50%% off`") == ('{"a": "%s"}', "x%sy", 2, 5)
    with pytest.raises(Misconfigured, match="did you mean 'priority'"):
        worker.enqueue(1, prioritat=3)
    with pytest.raises(Misconfigured, match="not both"):
        worker.enqueue(1, delay_seconds=5, available_at="2030-01-01")


def test_payloads_of_any_kind(jobs: Database, worker: Worker) -> None:
    """Text and bytes are stored as the JSON they are, everything else as JSON; it comes back as it went in."""
    for payload, expected in (
        ({"ü": ["😀", None, 1.5]}, {"ü": ["😀", None, 1.5]}),
        ('{"a":1}', {"a": 1}),
        (b"[1, 2]", [1, 2]),
        (0, 0),
    ):
        worker.enqueue(payload)
        assert claimed(worker).json() == expected
    for wrong in (float("nan"), "no JSON"):
        with pytest.raises(ValueError, match="JSON"):
            worker.enqueue(wrong)
    assert counts(jobs) == {"running": 4}


def test_a_time_with_a_zone_means_that_instant(jobs: Database, worker: Worker) -> None:
    """An available_at with a zone is stored as its instant, and the job is scheduled."""
    east = datetime(2030, 5, 1, 14, 0, tzinfo=timezone(timedelta(hours=2)))
    job_id = worker.enqueue(1, available_at=east)
    assert row(jobs, job_id, "status, UNIX_TIMESTAMP(available_at)") == ("scheduled", east.timestamp())


# The fence


def test_a_heartbeat_extends_the_lease(jobs: Database) -> None:
    """A heartbeat lets the lease end lease_seconds from now, by the server's clock."""
    fill(jobs, 1)
    with Worker(jobs.server(), jobs.queue(), "w", lease_seconds=30) as worker:
        job = claimed(worker)
        before = jobs.value("SELECT lease_until FROM jobs")
        renewed = worker.heartbeat(job)
        assert jobs.value("SELECT lease_until FROM jobs") > before
        assert renewed == job
        assert (job.seconds_left or 0) < (renewed.seconds_left or 0) <= 30
        worker.complete(renewed)


FINISH: dict[str, Callable[[Worker, Job], object]] = {
    "complete": lambda worker, job: worker.complete(job),
    "archive": lambda worker, job: worker.complete(job, archive=True),
    "fail": lambda worker, job: worker.fail(job, "x"),
    "fail for good": lambda worker, job: worker.fail(job, "x", retry=False),
    "heartbeat": lambda worker, job: worker.heartbeat(job),
}


@pytest.mark.parametrize("how", FINISH)
def test_a_lost_lease_stops_the_worker(jobs: Database, worker: Worker, how: str, qops: Callable[..., Ran]) -> None:
    """Once another session has put the job back, the first worker changes nothing and is told so."""
    fill(jobs, 1)
    job = claimed(worker)
    jobs.execute("UPDATE jobs SET lease_until = NOW(6) - INTERVAL 1 SECOND")
    assert qops("requeue", "--expired").code == 0
    before = contents(jobs, "jobs")
    with pytest.raises(LeaseLost, match="job 1 is not held by 'worker-17' any more"):
        FINISH[how](worker, job)
    with Worker(jobs.server(), jobs.queue(), "worker-18") as second:
        again = claimed(second)
        assert again.attempts == 2
        with pytest.raises(LeaseLost):
            FINISH[how](worker, job)
        assert row(jobs, 1) == ("running", "worker-18", 2, None)
        second.complete(again)
    assert contents(jobs, "jobs") != before
    assert jobs.value("SELECT COUNT(*) FROM jobs_archive") == 0


@pytest.mark.parametrize("how", FINISH)
def test_a_lease_that_has_passed_is_lost(jobs: Database, worker: Worker, how: str) -> None:
    """Nothing is written after the lease has passed, even if nobody has put the job back yet."""
    fill(jobs, 1)
    job = claimed(worker)
    jobs.execute("UPDATE jobs SET lease_until = NOW(6) - INTERVAL 1 SECOND")
    before = contents(jobs, "jobs")
    with pytest.raises(LeaseLost):
        FINISH[how](worker, job)
    assert contents(jobs, "jobs") == before


def test_two_processes_of_one_name_are_told_apart(jobs: Database, worker: Worker, qops: Callable[..., Ran]) -> None:
    """A worker that comes back from the dead cannot finish the job that its successor of the same name has claimed."""
    fill(jobs, 1)
    old = claimed(worker)
    jobs.execute("UPDATE jobs SET lease_until = NOW(6) - INTERVAL 1 SECOND")
    qops("requeue", "--expired")
    with Worker(jobs.server(), jobs.queue(), "worker-17") as successor:
        new = claimed(successor)
        with pytest.raises(LeaseLost):
            worker.complete(old)
        successor.complete(new)
    assert row(jobs, 1)[0] == "done"


def test_a_finished_job_cannot_be_finished_again(jobs: Database, worker: Worker) -> None:
    """The second complete, and a fail after complete, are told that the job is not theirs."""
    fill(jobs, 1)
    job = claimed(worker)
    worker.complete(job)
    before = contents(jobs, "jobs")
    for finish in FINISH.values():
        with pytest.raises(LeaseLost):
            finish(worker, job)
    assert contents(jobs, "jobs") == before


@pytest.mark.parametrize("zone", ["+00:00", "+09:00", "SYSTEM"])
def test_the_guides_claim_typed_by_hand_is_understood(jobs: Database, worker: Worker, zone: str) -> None:
    """A claim typed in a session of any time zone has the lease that it means: qops sees it valid and sees it pass."""
    fill(jobs, 2)
    connection = jobs.connect()
    with connection.cursor() as cursor:
        cursor.execute("SET SESSION time_zone = %s", (zone,))
        cursor.execute("START TRANSACTION")
        cursor.execute(
            "SELECT id, payload FROM jobs WHERE status = 'pending' ORDER BY priority DESC, id LIMIT 1 "
            "FOR UPDATE SKIP LOCKED"
        )
        assert cursor.fetchall() == ((1, '{"n": 1}'),)
        cursor.execute(
            "UPDATE jobs SET status = 'running', claimed_by = 'worker-17', "
            "lease_until = NOW(6) + INTERVAL 5 MINUTE WHERE id = 1"
        )
        cursor.execute("COMMIT")
        by_hand = Job(1, None, 0, 5, "worker-17")
        with Worker(jobs.server(), jobs.queue(), "worker-17", lease_seconds=300) as same:
            same.heartbeat(by_hand)
        cursor.execute("SELECT TIMESTAMPDIFF(SECOND, NOW(6), lease_until) FROM jobs WHERE id = 1")
        assert cursor.fetchall() == ((299,),)
        assert claimed(worker).id == 2
        cursor.execute("UPDATE jobs SET lease_until = NOW(6) - INTERVAL 1 SECOND WHERE id = 1")
        cursor.execute("COMMIT")
        with pytest.raises(LeaseLost):
            worker.complete(by_hand)
        cursor.execute("UPDATE jobs SET lease_until = NOW(6) + INTERVAL 10 SECOND WHERE id = 1")
        cursor.execute("COMMIT")
        worker.complete(by_hand)
    connection.close()
    assert row(jobs, 1)[0] == "done"


# Complete and fail


def test_complete_can_move_the_job_to_the_archive(jobs: Database, worker: Worker) -> None:
    """With archive=True the row is in the archive as a done one, column by column what it was, and nowhere else."""
    fill(jobs, 1, payload="JSON_OBJECT('text', 'ü😀')", last_error="'earlier'", priority="4")
    job = claimed(worker)
    kept = "id, priority, payload, claimed_by, available_at, attempts, max_attempts, last_error, created_at"
    before = contents(jobs, "jobs", kept)
    worker.complete(job, archive=True)
    assert contents(jobs, "jobs_archive", kept) == before
    assert counts(jobs) == {}
    assert jobs.rows("SELECT status, lease_until, finished_at BETWEEN created_at AND NOW(6) FROM jobs_archive") == [
        ("done", None, 1)
    ]


def test_a_job_that_the_archive_has_already_is_not_lost(jobs: Database, worker: Worker) -> None:
    """If the archive holds the id, nothing moves, the message says so, and the job can still be completed in place."""
    fill(jobs, 1)
    job = claimed(worker)
    jobs.execute("INSERT INTO jobs_archive SELECT * FROM jobs")
    with pytest.raises(Misconfigured, match="already holds a job 1"):
        worker.complete(job, archive=True)
    assert row(jobs, 1)[0] == "running"
    worker.complete(job)
    assert row(jobs, 1)[0] == "done"


def test_an_archive_that_a_trigger_fills_gets_a_done_job(jobs: Database, worker: Worker) -> None:
    """With archive_by = "trigger" the owner's trigger sees a done row go, and qops writes no copy of its own."""
    jobs.execute(
        "CREATE TRIGGER keep BEFORE DELETE ON jobs FOR EACH ROW INSERT INTO jobs_archive (id, status, priority, "
        "payload, attempts, max_attempts, finished_at) VALUES (OLD.id, OLD.status, OLD.priority, OLD.payload, 0, 0, "
        "OLD.finished_at)"
    )
    fill(jobs, 1)
    queue = jobs.queue()
    queue = replace(queue, settings=replace(queue.settings, archive_by="trigger"))
    with Worker(jobs.server(), queue, "w") as owner:
        owner.complete(claimed(owner), archive=True)
    assert jobs.rows("SELECT id, status, finished_at IS NULL FROM jobs_archive") == [(1, "done", 0)]
    assert counts(jobs) == {}


def test_a_missing_archive_is_named(jobs: Database) -> None:
    """complete(archive=True) without an archive table says which one and how to make it; the job stays running."""
    jobs.execute("DROP TABLE jobs_archive")
    fill(jobs, 1)
    with Worker(jobs.server(), jobs.queue(), "w") as worker:
        job = claimed(worker)
        with pytest.raises(Misconfigured, match=r"jobs_archive' doesn't exist.*qops init"):
            worker.complete(job, archive=True)
        worker.complete(job)


def test_a_failed_job_is_tried_again_until_its_attempts_are_used_up(jobs: Database, worker: Worker) -> None:
    """Each failure schedules the next attempt after its backoff; the last one is final, and keeps its error."""
    job_id = worker.enqueue([], max_attempts=3)
    for attempt in (1, 2):
        job = claimed(worker)
        assert job.attempts == attempt
        assert worker.fail(job, f"error {attempt}", backoff_seconds=60) == "scheduled"
        assert row(jobs, job_id) == ("scheduled", None, attempt, f"error {attempt}")
        waits = "lease_until, finished_at, TIMESTAMPDIFF(SECOND, NOW(6), available_at)"
        assert row(jobs, job_id, waits) == (None, None, 59)
        assert worker.claim() is None
        jobs.execute("UPDATE jobs SET available_at = NOW(6)")
    assert worker.fail(claimed(worker), RuntimeError("error 3")) == "failed"
    assert row(jobs, job_id) == ("failed", "worker-17", 3, "error 3")
    assert row(jobs, job_id, "lease_until, finished_at IS NULL") == (None, 0)


def test_without_a_backoff_the_workers_own_is_asked(jobs: Database) -> None:
    """The worker's backoff is asked with the number of the failure, and its answer is what the job waits."""
    asked: list[int] = []

    def backoff(tries: int) -> float:
        asked.append(tries)
        return 0.0

    fill(jobs, 1)
    with Worker(jobs.server(), jobs.queue(), "w", backoff=backoff) as worker:
        worker.fail(claimed(worker), "1")
        worker.fail(claimed(worker), "2")
    assert asked == [1, 2]


def test_the_backoff_doubles_up_to_an_hour() -> None:
    """5 s, 10 s, 20 s … an hour, each jittered over its upper half."""
    for tries, ceiling in ((1, 5), (2, 10), (5, 80), (11, 3600), (1000, 3600)):
        waits = [retry_backoff(tries) for _ in range(50)]
        assert ceiling / 2 <= min(waits) < max(waits) <= ceiling


def test_a_hopeless_job_fails_at_once(jobs: Database, worker: Worker) -> None:
    """retry=False gives up although there are attempts left."""
    fill(jobs, 1)
    assert worker.fail(claimed(worker), "no such customer", retry=False) == "failed"
    assert row(jobs, 1) == ("failed", "worker-17", 1, "no such customer")


def test_a_limit_that_was_lowered_meanwhile_counts(jobs: Database, worker: Worker) -> None:
    """The limit that is in the row when the job fails decides, not the one that was there at the claim."""
    fill(jobs, 1)
    job = claimed(worker)
    jobs.execute("UPDATE jobs SET max_attempts = 1")
    assert worker.fail(job, "x", backoff_seconds=1) == "failed"


@pytest.mark.parametrize("column", ["TEXT", "VARCHAR(10)", "VARCHAR(10) CHARACTER SET latin1", "TINYTEXT"])
def test_no_error_text_is_too_much_for_its_column(jobs: Database, column: str) -> None:
    """A message that is too long, or has characters that the column cannot hold, is cut to what fits."""
    jobs.execute(f"ALTER TABLE jobs MODIFY last_error {column}")
    fill(jobs, 1)
    with Worker(jobs.server(), jobs.queue(), "w") as worker:
        assert worker.fail(claimed(worker), "😀\udce4" + 70_000 * "ü", backoff_seconds=60) == "scheduled"
    stored = row(jobs, 1, "last_error")[0]
    assert stored.startswith("??" if "latin1" in column else "😀?")
    assert len(stored) >= 10


def test_an_error_without_words_is_named(jobs: Database, worker: Worker) -> None:
    """An exception without a message leaves its name."""
    fill(jobs, 1)
    worker.fail(claimed(worker), KeyboardInterrupt(), backoff_seconds=60)
    assert row(jobs, 1)[3] == "KeyboardInterrupt"


# One given job


def test_a_given_job_is_claimed(jobs: Database, worker: Worker) -> None:
    """claim_job() takes that job and no other."""
    fill(jobs, 3)
    assert worker.claim_job(2).id == 2
    assert jobs.rows("SELECT id FROM jobs WHERE status = 'running'") == [(2,)]
    worker.complete(worker.claim_job(3))


def test_a_given_job_that_is_locked_is_refused_at_once(jobs: Database, worker: Worker, other: Any) -> None:
    """While another session holds the row, RowLocked comes without a wait; afterwards the job can be had."""
    fill(jobs, 1)
    other.execute("SELECT id FROM jobs WHERE id = 1 FOR UPDATE")
    with pytest.raises(RowLocked, match="job 1 is locked by another session") as raised:
        worker.claim_job(1)
    assert raised.value.__cause__
    assert raised.value.__cause__.args[0] == 3572
    other.connection.rollback()
    assert worker.claim_job(1).id == 1


def test_a_given_job_behind_an_alter_is_refused_too(jobs: Database, other: Any) -> None:
    """Where NOWAIT ends in 1205 (it does not cover metadata locks), that is RowLocked as well, and not repeated."""
    fill(jobs, 1)
    other.execute("SELECT COUNT(*) FROM jobs")
    altering = jobs.connect()
    retried: list[int] = []

    def alter() -> None:
        with altering.cursor() as cursor:
            cursor.execute("SET SESSION lock_wait_timeout = 30")
            cursor.execute("ALTER TABLE jobs ADD COLUMN more INT")

    pending = (
        "SELECT COUNT(*) FROM performance_schema.metadata_locks WHERE object_schema = %s AND lock_status = 'PENDING'"
    )
    with Worker(jobs.server(), jobs.queue(), "w", on_retry=retried.append) as worker, ThreadPoolExecutor(1) as pool:
        future = pool.submit(alter)
        wait_until(lambda: jobs.value(pending, (jobs.name,)) == 1, what="the ALTER waiting")
        with pytest.raises(RowLocked) as raised:
            worker.claim_job(1)
        other.connection.rollback()
        future.result(timeout=30)
        assert raised.value.__cause__
        assert raised.value.__cause__.args[0] == 1205
        assert retried == []
        assert worker.claim_job(1).id == 1
    altering.close()


def test_a_given_job_that_is_not_ready_is_named_with_its_state(jobs: Database, worker: Worker) -> None:
    """claim_job() says what state the job is in, or that there is none."""
    fill(jobs, 1, status="'done'")
    with pytest.raises(NotClaimable, match="job 1 is 'done', not pending"):
        worker.claim_job(1)
    with pytest.raises(JobNotFound, match="no job 2"):
        worker.claim_job(2)


# Trouble


def test_a_deadlock_victim_repeats_the_whole_transaction(jobs: Database, other: Any) -> None:
    """The worker, chosen as the victim in the middle of moving a job, moves it all the same, once."""
    fill(jobs, 1)
    retried: list[int] = []
    with Worker(jobs.server(), jobs.queue(), "w", on_retry=retried.append) as worker:
        job = claimed(worker)
        # The other side weighs more, so that the server chooses the worker, and it holds the place in the archive.
        other.execute("CREATE TABLE heavy (id INT PRIMARY KEY)")
        other.execute(
            "INSERT INTO heavy WITH RECURSIVE n AS (SELECT 1 i UNION SELECT i + 1 FROM n WHERE i < 900) TABLE n"
        )
        other.execute(
            "INSERT INTO jobs_archive (id, status, priority, payload, attempts, max_attempts) "
            "VALUES (1, 'done', 0, '[]', 1, 5)"
        )
        with waiting_for_lock(jobs, lambda: worker.complete(job, archive=True)):
            other.execute("UPDATE jobs SET priority = 9 WHERE id = 1")
            other.connection.rollback()
    assert retried == [1213]
    assert counts(jobs) == {}
    assert jobs.rows("SELECT id, status, priority FROM jobs_archive") == [(1, "done", 0)]


def test_a_lock_that_does_not_clear_ends_in_try_later(jobs: Database, worker: Worker, other: Any) -> None:
    """A finish that waits for a lock in vain is undone and told to try later; the job is still the worker's."""
    fill(jobs, 1)
    job = claimed(worker)
    worker.session.connection.exec_driver_sql("SET SESSION innodb_lock_wait_timeout = 1")
    worker.session.commit()
    other.execute("SELECT id FROM jobs WHERE id = 1 FOR UPDATE")
    with pytest.raises(TryLater):
        worker.complete(job)
    other.connection.rollback()
    worker.complete(job)
    assert row(jobs, 1)[0] == "done"


def test_a_killed_connection_is_replaced(jobs: Database, worker: Worker) -> None:
    """The call after a kill works on a new connection, which has the session settings of qops."""
    fill(jobs, 1)
    assert worker.claim() is not None
    before = worker.session.connection.exec_driver_sql(SESSION).one()
    worker.session.rollback()
    assert before[:3] == ("READ-COMMITTED", "+00:00", 0)
    jobs.execute(f"KILL {before[-1]}")
    job_id = worker.enqueue([])
    after = worker.session.connection.exec_driver_sql(SESSION).one()
    worker.session.rollback()
    assert after[:-1] == before[:-1]
    assert after[-1] != before[-1]
    assert claimed(worker).id == job_id
    attribute = (
        "SELECT attr_value FROM performance_schema.session_connect_attrs "
        "WHERE processlist_id = %s AND attr_name = 'program_name'"
    )
    assert jobs.value(attribute, (after[-1],)) == "qops"


def test_a_connection_killed_before_commit_costs_nothing(jobs: Database, worker: Worker, other: Any) -> None:
    """A finish whose connection dies while it waits for a lock is undone by the server and done again, once."""
    fill(jobs, 1)
    job = claimed(worker)
    mine = connection_id(worker)
    worker.session.rollback()
    other.execute("SELECT id FROM jobs WHERE id = 1 FOR UPDATE")
    with waiting_for_lock(jobs, lambda: worker.complete(job)):
        jobs.execute(f"KILL {mine}")
        other.connection.rollback()
    assert row(jobs, 1) == ("done", "worker-17", 1, None)
    assert connection_id(worker) != mine


def test_a_session_that_lost_its_isolation_level_claims_nothing(jobs: Database, worker: Worker) -> None:
    """A claim at another isolation level, as behind a proxy, is rolled back and says so."""
    fill(jobs, 1)
    worker.session.connection.exec_driver_sql("SET SESSION transaction_isolation = 'REPEATABLE-READ'")
    worker.session.rollback()
    with pytest.raises(Misconfigured, match="REPEATABLE-READ although qops set READ COMMITTED"):
        worker.claim()
    assert counts(jobs) == {"pending": 1}


def test_a_session_in_autocommit_takes_nobodys_job(jobs: Database, worker: Worker) -> None:
    """Where a lost transaction lets two sessions see the same row, the second one marks nothing and says why."""
    fill(jobs, 1)
    first = worker.session
    assert worker.claim_batch(1)
    jobs.execute("UPDATE jobs SET status = 'pending'")
    rows = first.query(worker.statements.select_claim, limit=1)
    first.rollback()  # what autocommit does after every statement
    with Worker(jobs.server(), jobs.queue(), "thief") as thief:
        assert thief.claim() is not None
    with pytest.raises(Misconfigured, match="1 rows were locked and 0 could be marked"):
        worker.transaction(lambda session: worker._mark(session, rows, 0.0))
    assert row(jobs, 1)[1] == "thief"


def test_little_privilege_is_enough(jobs: Database) -> None:
    """SELECT, INSERT and UPDATE on the table do for all but archive=True, which names the GRANT that is missing."""
    fill(jobs, 1, status="'scheduled'")
    with account(jobs, "SELECT, INSERT, UPDATE ON {db}.jobs") as limited:
        server = limited.server().for_command(grants_for("worker", limited.settings().queue))
        with Worker(server, limited.queue(), "w") as worker:
            worker.enqueue(1)
            first, second = worker.claim_batch(5)
            with pytest.raises(PrivilegeMissing, match=r"GRANT DELETE ON .*`jobs` TO"):
                worker.complete(replace(first), archive=True)
            worker.complete(first)
            worker.fail(second, "x")


@pytest.mark.parametrize("name", ["", "w" * 65])
def test_a_name_has_to_fit_its_column(jobs: Database, name: str) -> None:
    """An empty name and one that the owner's column would cut are refused before anything is claimed."""
    with pytest.raises(Misconfigured, match="1 to 64 characters"):
        Worker(jobs.server(), jobs.queue(), name)


def test_a_lease_has_to_last(jobs: Database) -> None:
    """A lease of no time is refused."""
    with pytest.raises(ValueError, match="lease_seconds"):
        Worker(jobs.server(), jobs.queue(), "w", lease_seconds=0)


def test_a_closed_worker_leaves_no_session(jobs: Database) -> None:
    """After the block the worker's session is gone from the server."""
    with Worker(jobs.server(), jobs.queue(), "w") as worker:
        worker.claim()
        mine = connection_id(worker)
    gone = "SELECT COUNT(*) = 0 FROM performance_schema.threads WHERE processlist_id = %s"
    wait_until(lambda: jobs.value(gone, (mine,)), what="the end of the session")


# The loop


def test_the_loop_works_until_it_is_stopped(jobs: Database, worker: Worker) -> None:
    """The loop completes what its handler returns from, fails what it raises at, and stops between jobs."""
    fill(jobs, 20)
    stop = Stop()
    seen: list[int] = []

    def handle(job: Job) -> None:
        seen.append(job.json()["n"])
        if len(seen) == 15:
            stop.request()
        if seen[-1] == 3:
            raise ValueError("three")

    tally = run(worker, handle, stop, batch=5)
    assert seen == list(range(1, 16))
    assert (tally.completed, tally.failed, tally.lost) == (14, 1, 0)
    assert counts(jobs) == {"done": 14, "scheduled": 1, "pending": 5}
    assert row(jobs, 3) == ("scheduled", None, 1, "ValueError: three")


def test_the_loop_waits_when_idle_and_takes_what_comes(jobs: Database, worker: Worker) -> None:
    """An idle loop finds a job that is enqueued later, and ends soon after it is told to."""
    stop, done = Stop(), threading.Event()
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(run, worker, lambda _job: done.set(), stop, archive=True)
        jobs.execute("INSERT INTO jobs (payload) VALUES ('[]')")
        assert done.wait(20)
        wait_until(lambda: jobs.value("SELECT COUNT(*) FROM jobs_archive") == 1)
        stop.request()
        assert future.result(timeout=20).completed == 1


def test_the_loop_survives_a_lost_lease(jobs: Database, worker: Worker, capsys: pytest.CaptureFixture[str]) -> None:
    """A job that was given to somebody else meanwhile is reported and left alone; the loop goes on."""
    fill(jobs, 2)
    stop = Stop()

    def handle(job: Job) -> None:
        if job.id == 1:
            jobs.execute("UPDATE jobs SET claimed_by = 'other' WHERE id = 1")
        else:
            stop.request()

    tally = run(worker, handle, stop)
    assert (tally.completed, tally.failed, tally.lost) == (1, 0, 1)
    assert row(jobs, 1) == ("running", "other", 1, None)
    assert "job 1 is not held" in capsys.readouterr().err


def test_the_loop_renews_leases_between_the_jobs_of_a_batch(jobs: Database) -> None:
    """A job of a batch that waited half its lease for its turn has its lease renewed before it is worked on."""
    fill(jobs, 2)
    stop, left = Stop(), []

    def handle(job: Job) -> None:
        left.append(job.seconds_left or 0)
        if job.id == 1:
            wait_until(lambda: (job.seconds_left or 0) < 1.4, what="more than half of the lease")
        stop.request()

    with Worker(jobs.server(), jobs.queue(), "w", lease_seconds=3) as worker:
        tally = run(worker, handle, stop, batch=2)
    assert tally.completed == 2
    assert left[1] > 2


def test_the_loop_waits_for_a_server_that_is_away(jobs: Database, worker: Worker) -> None:
    """A connection that is killed again and again does not end the loop."""
    fill(jobs, 30)
    stop, done = Stop(), []

    def handle(job: Job) -> None:
        done.append(job.id)
        jobs.execute(f"KILL {connection_id(worker)}")
        if len(done) == 30:
            stop.request()

    tally = run(worker, handle, stop)
    assert (tally.completed, tally.lost) == (30, 0)
    assert counts(jobs) == {"done": 30}


def test_what_no_waiting_cures_ends_the_loop(jobs: Database) -> None:
    """A missing privilege is raised, not waited for."""
    with (
        account(jobs, "SELECT ON {db}.jobs") as limited,
        Worker(limited.server(), limited.queue(), "w") as worker,
        pytest.raises(PrivilegeMissing),
    ):
        run(worker, print, Stop())


def test_a_worker_is_configured_like_the_command_line(jobs: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """open_worker() takes the QOPS_ variables, and its arguments before them."""
    monkeypatch.setenv("QOPS_URL", jobs.url)
    with open_worker("w", lease_seconds=5) as worker:
        worker.enqueue(json.dumps({"x": 1}))
        assert claimed(worker).json() == {"x": 1}
    with pytest.raises(Misconfigured, match="nowhere"):
        open_worker("w", queue="nowhere")
    assert issubclass(ConnectionLost, Exception)
