"""One batch: whole or not at all, repeated when it is a victim, and the truth when its COMMIT is not answered."""

from __future__ import annotations

import re
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from qops import login
from tests.conftest import Database, Ran, start_process, wait_until
from tests.proxy import Wire, broken_wire
from tests.queues import counts, fill, init
from tests.workload import all_rows, check_moves, check_nothing_open, connections, fill_all_states

if TYPE_CHECKING:
    from collections.abc import Callable

COMMANDS = {
    "archived": ("archive", "--batch", "10", "--pause", "1ms"),
    "failed": ("requeue", "--failed", "--batch", "10"),
    "running": ("requeue", "--expired", "--batch", "10"),
    "scheduled": ("promote", "--batch", "10"),
}
COUNTED = {"archived": "archived", "failed": "requeued", "running": "requeued", "scheduled": "promoted"}

FATES = {
    # when the wire breaks, and whether for good: batches that happened, what is said of the last one
    ("before", False): (1, "was rolled back"),
    ("after", False): (2, "was committed and is counted"),
    ("before", True): (1, "could not be found out"),
    ("after", True): (2, "could not be found out"),
}


@pytest.fixture
def queue(database: Database) -> Database:
    init(database)
    return database


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize(("when", "for_good"), FATES)
def test_the_fate_of_a_commit_without_an_answer_is_told(
    queue: Database,
    qops: Callable[..., Ran],
    name: str,
    when: str,
    for_good: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    """A connection lost at COMMIT is 69, and the message says truly whether the batch happened, or that it is unknown.

    The first COMMIT is the ledger's, and before its batches the archiver's reading ahead has one.
    """
    fill_all_states(queue, 400)
    before, _ = all_rows(queue)
    wire = Wire(at=3 + (name == "archived"), when=when, for_good=for_good)
    with broken_wire(queue, wire) as wired:
        ran = qops(*COMMANDS[name], "--url", wired.url, "--format", "json")
    assert wire.cut.is_set()
    check_nothing_open(queue)
    moved = check_moves(before, *all_rows(queue))[name]
    batches, said = FATES[when, for_good]
    assert (ran.code, ran.json["error"]["kind"]) == (69, "unavailable")
    assert moved == 10 * batches
    assert said in ran.json["error"]["message"]
    assert ran.json[COUNTED[name]] == (10 if for_good else moved)
    if for_good:
        assert "not recorded" in ran.err
        assert queue.rows("SELECT finished_at FROM qops_runs") == [(None,)]
    else:
        assert queue.value(f"SELECT summary->>'$.{COUNTED[name]}' FROM qops_runs WHERE finished_at") == str(moved)


def test_a_named_job_whose_commit_was_not_answered_is_named(queue: Database, qops: Callable[..., Ran]) -> None:
    """Jobs that were named are put back one by one: 69, the results so far, and the id whose fate is not known."""
    fill(queue, 3, status="'failed'")
    with broken_wire(queue, Wire(at=3, when="after")) as wired:
        ran = qops("requeue", "3", "2", "1", "--url", wired.url, "--format", "json")
    assert (ran.code, ran.json["requeued"], [row["id"] for row in ran.json["results"]]) == (69, 1, [3])
    assert "whether job 2 was put back is not known" in ran.json["error"]["message"]
    assert queue.rows("SELECT id FROM jobs WHERE status = 'failed'") == [(1,)]


@pytest.mark.parametrize("at", [1, 5], ids=["opening", "closing"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_the_ledgers_own_commits_are_not_the_jobs(
    queue: Database, qops: Callable[..., Ran], at: int, when: str
) -> None:
    """Lost while its entry opens, a run ends with 69 and moves nothing; lost while it closes, it is closed anew."""
    fill(queue, 15, status="'done'")
    with broken_wire(queue, Wire(at=at, when=when)) as wired:
        ran = qops("archive", "--batch", "10", "--pause", "1ms", "--url", wired.url, "--format", "json")
    if at == 1:
        assert ran.code == 69
        assert counts(queue) == {"done": 15}
        seen = [] if when == "before" else [("unavailable", 1)]
        assert queue.rows("SELECT outcome, finished_at IS NOT NULL FROM qops_runs") == seen
        return
    assert (ran.code, ran.json["archived"], ran.err) == (0, 15, "")
    assert queue.rows("SELECT outcome, summary->>'$.archived' FROM qops_runs") == [("done", "15")]


STATEMENTS = ("expires_at", "START TRANSACTION", "FORCE INDEX", "FOR UPDATE")
LOST = [
    *(("archived", said) for said in (*STATEMENTS, "INNODB STATUS", "INSERT INTO `jobs_archive`", "DELETE /*")),
    *((name, said) for name in ("failed", "running", "scheduled") for said in (*STATEMENTS, "UPDATE /*")),
]


@pytest.mark.parametrize(("name", "said"), LOST)
def test_a_connection_lost_anywhere_costs_one_batch(
    queue: Database, qops: Callable[..., Ran], name: str, said: str
) -> None:
    """Lost at the brake, the throttle or any statement of the second batch: 69, one batch done, the entry closed."""
    fill_all_states(queue, 400)
    before, _ = all_rows(queue)
    # The archiver reads ahead in a transaction of its own, and requeue reads first where the failed jobs end.
    reads_ahead = (name, said) in {("archived", "START TRANSACTION"), ("failed", "FORCE INDEX")}
    with broken_wire(queue, Wire(3 if reads_ahead else 2, "after", said)) as wired:
        ran = qops(*COMMANDS[name], "--url", wired.url, "--format", "json")
    check_nothing_open(queue)
    assert (ran.code, ran.json["error"]["kind"]) == (69, "unavailable"), ran
    # The archiver reads the ids for ten batches at once.
    done = 100 if (name, said) == ("archived", "FORCE INDEX") else 10
    assert ran.json[COUNTED[name]] == check_moves(before, *all_rows(queue))[name] == done
    assert queue.value(f"SELECT summary->>'$.{COUNTED[name]}' FROM qops_runs WHERE finished_at") == str(done)


def waiting(queue: Database) -> Callable[[], bool]:
    """Return whether a session in this schema waits for a row lock."""
    return lambda: bool(
        queue.value(
            "SELECT COUNT(*) FROM performance_schema.data_lock_waits w "
            "JOIN performance_schema.threads t ON t.thread_id = w.requesting_thread_id WHERE t.processlist_db = %s",
            [queue.name],
        )
    )


def test_a_deadlock_repeats_the_whole_batch(queue: Database) -> None:
    """A batch that is chosen as the victim is rolled back, repeated as a whole, counted in `retries`, and succeeds.

    The other session has changed more rows, so InnoDB rolls back the batch; it holds a row of the archive that
    the copy runs into, and then asks for a row that the batch holds.
    """
    fill(queue, 1_000, status="'done'", finished_at="NOW(6)")
    fill(queue, 5_000)
    before, _ = all_rows(queue)
    with closing(queue.connect()) as other, closing(other.cursor()) as cursor:
        cursor.execute("SET SESSION transaction_isolation = 'READ-COMMITTED'")
        cursor.execute("UPDATE jobs FORCE INDEX (PRIMARY) SET claimed_by = 'me' WHERE id > 1000")
        cursor.execute(
            "INSERT INTO jobs_archive (id, status, priority, payload, attempts, max_attempts) "
            "VALUES (500, 'done', 0, '{}', 0, 0)"
        )
        process = start_process("archive", "--format", "json", "--verbose", url=queue.url)
        wait_until(waiting(queue), what="the archiver's wait for the row in the archive")
        cursor.execute("SELECT id FROM jobs WHERE id = 1 FOR UPDATE")
        other.rollback()
    out, err = process.communicate(timeout=60)
    ran = Ran(process.returncode, out, err)
    assert (ran.code, ran.json["stopped_by"]) == (0, "done"), err
    assert ran.json["retries"] >= 1
    assert "1213" in ran.err
    assert ran.json["archived"] + ran.json["locked"] == 1_000
    assert ran.json["locked"] <= 1  # the row that the other session may still hold
    queue_rows, archive = all_rows(queue)
    assert len(archive) == ran.json["archived"]
    assert queue_rows | archive == before


def test_a_lock_that_does_not_clear_ends_the_run(
    queue: Database, qops: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a bounded number of repetitions the run ends with 75 and nothing of the batch has happened."""
    monkeypatch.setattr(login, "LOCK_WAIT_SECONDS", 1)
    fill(queue, 20, status="'done'", finished_at="NOW(6)")
    with closing(queue.connect()) as other, closing(other.cursor()) as cursor:
        cursor.execute(
            "INSERT INTO jobs_archive (id, status, priority, payload, attempts, max_attempts) "
            "VALUES (15, 'done', 0, '{}', 0, 0)"
        )
        ran = qops("archive", "--batch", "10", "--pause", "0s", "--format", "json")
        other.rollback()
    assert (ran.code, ran.json["error"]["kind"]) == (75, "try-later")
    assert (ran.json["archived"], ran.json["stopped_by"], ran.json["retries"]) == (10, "error", 4)
    assert counts(queue) == {"done": 10}
    assert counts(queue, "jobs_archive") == {"done": 10}


def test_a_signal_while_waiting_for_a_lock_is_a_signal(queue: Database) -> None:
    """SIGTERM during a lock wait: the batch is rolled back and not repeated, exit 143, not 75."""
    fill(queue, 10, status="'done'", finished_at="NOW(6)")
    with closing(queue.connect()) as other, closing(other.cursor()) as cursor:
        cursor.execute(
            "INSERT INTO jobs_archive (id, status, priority, payload, attempts, max_attempts) "
            "VALUES (5, 'done', 0, '{}', 0, 0)"
        )
        process = start_process("archive", "--format", "json", url=queue.url)
        wait_until(waiting(queue), what="the archiver's wait for the row in the archive")
        process.terminate()
        out, err = process.communicate(timeout=20)
        ran = Ran(process.returncode, out, err)
        other.rollback()
    assert (ran.code, ran.json["archived"], ran.json["stopped_by"]) == (143, 0, "signal"), err
    assert queue.rows("SELECT outcome FROM qops_runs") == [("signal",)]
    check_nothing_open(queue)


def test_no_transaction_is_open_during_a_pause(queue: Database) -> None:
    """Between batches there is a connection and nothing else: no transaction, no lock on a table; SIGTERM ends it."""
    fill(queue, 20, status="'done'", finished_at="NOW(6)")
    process = start_process("archive", "--batch", "5", "--pause", "60s", "--format", "json", url=queue.url)
    wait_until(lambda: counts(queue, "jobs_archive") == {"done": 5})
    (id_,) = connections(queue)
    idle = "SELECT COUNT(*) FROM performance_schema.threads WHERE processlist_id = %s AND processlist_command = 'Sleep'"
    wait_until(lambda: queue.value(idle, [id_]), what="the pause")
    state = (
        "SELECT (SELECT COUNT(*) FROM performance_schema.events_transactions_current x WHERE x.thread_id = t.thread_id "
        "AND x.state = 'ACTIVE'), (SELECT COUNT(*) FROM performance_schema.metadata_locks m "
        "WHERE m.owner_thread_id = t.thread_id AND m.object_type = 'TABLE') "
        "FROM performance_schema.threads t WHERE processlist_id = %s"
    )
    wait_until(lambda: queue.rows(state, [id_]) == [(0, 0)], seconds=2, what="the end of the transaction")
    assert queue.value("SELECT COUNT(*) FROM information_schema.innodb_trx WHERE trx_mysql_thread_id = %s", [id_]) == 0
    process.terminate()
    process.communicate(timeout=10)
    assert process.returncode == 143


TRANSACTION = re.compile(r"(\d+) row lock\(s\)(?:, undo log entries (\d+))?\nMySQL thread id (\d+),")


def test_a_transaction_holds_about_one_batch(queue: Database) -> None:
    """However much there is to do, no transaction has more than two changes and one lock for each row of a batch."""
    fill(queue, 8_100, status="'done'", finished_at="NOW(6)")
    process = start_process("archive", "--batch", "500", "--pause", "0s", "--format", "json", url=queue.url)
    sampled: list[tuple[int, int]] = []
    while process.poll() is None:
        status = queue.rows("SHOW ENGINE INNODB STATUS")[0][2]
        ours = connections(queue)
        sampled += [
            (int(locks), int(undo or 0)) for locks, undo, id_ in TRANSACTION.findall(status) if int(id_) in ours
        ]
    out, err = process.communicate()
    assert Ran(process.returncode, out, err).json["batches"] == 17, err
    assert sampled
    assert 0 < max(undo for _, undo in sampled) <= 2 * 500
    assert max(locks for locks, _ in sampled) <= 500 + 5


@pytest.mark.parametrize("name", COMMANDS)
def test_a_second_run_finds_nothing_to_do(queue: Database, qops: Callable[..., Ran], name: str) -> None:
    """What was moved counts once: a second run reports 0, and the first what a count of the rows says."""
    fill_all_states(queue, 400)
    before, _ = all_rows(queue)
    ran = [qops(*COMMANDS[name], "--format", "json").json[COUNTED[name]] for _ in range(2)]
    moved: dict[str, Any] = check_moves(before, *all_rows(queue))
    assert ran == [moved[name], 0]
    assert moved[name] > 0
