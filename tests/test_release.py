"""Ending the leases of a dead worker: its jobs alone, exactly, and not under the hands of one that finishes them."""

from __future__ import annotations

import os
import pty
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from qops.worker import LeaseLost, open_worker
from tests.accounts import account
from tests.conftest import Database, Ran, run_here, start_process
from tests.measure import spent_by
from tests.queues import (
    ARTICLE,
    ARTICLE_TOML,
    GUIDE,
    GUIDE_TOML,
    RECIPE,
    RECIPE_TOML,
    contents,
    counts,
    fill,
    init,
    write_config,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

OBJECTS = """
CREATE TRIGGER t BEFORE UPDATE ON jobs FOR EACH ROW
IF OLD.id = 2 THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'not this one'; END IF
"""


@pytest.fixture
def queue(database: Database) -> Database:
    init(database)
    return database


def hold(database: Database, number: int, worker: str = "w", **values: str) -> None:
    """Insert running jobs with a valid lease."""
    columns = {"status": "'running'", "claimed_by": f"'{worker}'", "lease_until": "NOW(6) + INTERVAL 1 HOUR"}
    fill(database, number, **(columns | values))


def release(qops: Callable[..., Ran], worker: str = "w", *words: str) -> Ran:
    return qops("release", "--worker", worker, "--format", "json", *words)


def numbers(ran: Ran) -> tuple[int, int, int]:
    return ran.json["released"], ran.json["locked"], ran.json["changed"]


def test_exactly_the_valid_leases_of_the_worker_end(queue: Database, qops: Callable[..., Ran]) -> None:
    """Running jobs of W end now; other names, states, passed and missing leases stay byte for byte as they are."""
    for name in ("w", "W", "ẃ", "w ", "ww"):
        hold(queue, 2, worker=name)
    hold(queue, 1, lease_until="NOW(6) - INTERVAL 1 HOUR")
    hold(queue, 1, lease_until="NULL")
    for state in ("pending", "done", "failed", "scheduled"):
        hold(queue, 1, status=f"'{state}'")
    before = contents(queue, "jobs")
    ran = release(qops)
    assert (ran.code, numbers(ran), ran.json["connections"]) == (0, (2, 0, 0), [])
    after = contents(queue, "jobs")
    mine = sorted(
        row[0]
        for row in queue.rows("SELECT id FROM jobs WHERE lease_until BETWEEN NOW(6) - INTERVAL 1 MINUTE AND NOW(6)")
    )
    assert [job["id"] for job in ran.json["jobs"]] == mine == [1, 2]
    assert all(3500 < job["lease_seconds"] <= 3600 and 0 <= job["age_seconds"] < 60 for job in ran.json["jobs"])
    assert {id_: row for id_, row in after.items() if id_ not in mine} == {
        id_: row for id_, row in before.items() if id_ not in mine
    }
    assert queue.rows("SELECT status, claimed_by FROM jobs WHERE id < 3") == [("running", "w")] * 2
    assert queue.rows(
        "SELECT outcome, summary->'$.released', arguments->>'$.worker' FROM qops_runs WHERE command = 'release'"
    ) == [("done", "2", "w")]


def test_released_jobs_can_be_put_back_at_once(queue: Database, qops: Callable[..., Ran]) -> None:
    """`requeue --expired` right after a release takes the jobs, also where the lease is kept in whole seconds."""
    queue.execute("ALTER TABLE jobs MODIFY lease_until TIMESTAMP NULL")
    hold(queue, 3, lease_until="NOW() + INTERVAL 1 HOUR")
    assert numbers(release(qops)) == (3, 0, 0)
    assert qops("requeue", "--expired", "--format", "json").json["requeued"] == 3


def test_a_worker_that_is_alive_after_all_has_lost_its_jobs(queue: Database, qops: Callable[..., Ran]) -> None:
    """Its connection is named and warned of; then neither heartbeat nor completion finds a job of its any more."""
    fill(queue, 2)
    with open_worker("mail-1 é", url=queue.url) as worker:
        first, second = worker.claim_batch(2)
        number = worker.session.connection.exec_driver_sql("SELECT CONNECTION_ID()").scalar_one()
        worker.session.rollback()
        ran = release(qops, "mail-1 é")
        assert (ran.code, numbers(ran), ran.json["connections"]) == (0, (2, 0, 0), [number])
        assert "alive" in ran.err
        with pytest.raises(LeaseLost):
            worker.heartbeat(first)
        assert qops("requeue", "--expired").code == 0
        for act in (worker.heartbeat, worker.complete):
            with pytest.raises(LeaseLost):
                act(second)
        assert release(qops, "mail-1").json["connections"] == []
    assert counts(queue) == {"pending": 2}


def test_a_hand_typed_completion_wins_until_the_job_is_put_back(queue: Database, qops: Callable[..., Ran]) -> None:
    """A fence of id, owner and state finds its job after the release, and nothing once it was put back."""
    hold(queue, 2)
    fence = (
        "UPDATE jobs SET status = 'done', lease_until = NULL WHERE id = %s AND claimed_by = 'w' AND status = 'running'"
    )
    assert numbers(release(qops)) == (2, 0, 0)
    assert queue.execute(fence, [1]) == 1
    assert qops("requeue", "--expired").code == 0
    assert queue.execute(fence, [2]) == 0
    assert counts(queue) == {"done": 1, "pending": 1}


def test_a_completion_that_is_being_committed_wins(queue: Database, qops: Callable[..., Ran]) -> None:
    """A row that somebody has locked is passed over and counted; the run does not wait for it."""
    hold(queue, 3)
    with closing(queue.connect()) as session:
        session.cursor().execute("UPDATE jobs SET status = 'done', lease_until = NULL WHERE id = 2")
        ran = release(qops)
        assert (ran.code, numbers(ran)) == (0, (2, 1, 0))
        assert ran.json["elapsed_seconds"] < 2
        session.commit()
    assert counts(queue) == {"running": 2, "done": 1}


@contextmanager
def session_of(database: Database, *statements: str, **options: Any) -> Iterator[int]:
    with closing(database.connect(autocommit=True, **options)) as session:
        for statement in statements:
            session.cursor().execute(statement)
        yield int(session.thread_id())


def test_hand_typed_workers_are_recognised_by_what_they_say(queue: Database, qops: Callable[..., Ran]) -> None:
    """A session that ran an UPDATE with the quoted name is believed to be it; no other, and none that reads."""
    hold(queue, 1, worker="it")
    update = "UPDATE jobs SET priority = 1 WHERE claimed_by = '{}'"
    with session_of(queue, update.format("it")) as number, session_of(queue, update.format("it2"), "SELECT 'it'"):
        assert release(qops, "it").json["connections"] == [number]


def test_a_connection_is_recognised_by_host_and_process(queue: Database, qops: Callable[..., Ran]) -> None:
    """A name that consists of the client's host and process number leads to its connections; another number not."""
    with session_of(queue) as number:
        host = queue.value(
            "SELECT SUBSTRING_INDEX(host, ':', 1) FROM information_schema.processlist WHERE id = %s", [number]
        )
        short = host.split(".")[0]
        assert number in release(qops, f"{short}:{os.getpid()}").json["connections"]
        assert number not in release(qops, f"{short}:{os.getpid()}0").json["connections"]


def test_connections_that_cannot_be_seen_are_unknown(queue: Database) -> None:
    """With SELECT and UPDATE alone jobs are released, and `connections` is null, with the GRANT on stderr."""
    hold(queue, 1)
    with account(queue, "SELECT, UPDATE ON {db}.jobs") as limited:
        ran = run_here("release", "--worker", "w", "--format", "json", "--url", limited.url)
    assert (ran.code, numbers(ran), ran.json["connections"]) == (0, (1, 0, 0), None)
    assert "GRANT SELECT ON performance_schema.*" in ran.err


def test_a_row_that_objects_costs_only_itself(queue: Database, qops: Callable[..., Ran]) -> None:
    """A trigger that objects to one row keeps that one; the others are released, and the exit is 1."""
    hold(queue, 3)
    queue.execute(OBJECTS)
    ran = release(qops)
    assert (ran.code, numbers(ran), ran.json["conflicts"]) == (1, (2, 0, 0), [2])


def test_many_running_jobs_are_read_in_slices(queue: Database) -> None:
    """With thousands of running and expired jobs of others it releases exactly its own, and reads no pending or old."""
    hold(queue, 2500, worker="other")
    hold(queue, 2500, worker="other", lease_until="NOW(6) - INTERVAL n SECOND")
    fill(queue, 10_000)
    hold(queue, 1200)
    with account(queue, "SELECT, UPDATE ON {db}.jobs", "SELECT, INSERT, UPDATE ON {db}.qops_runs") as mine:
        queue.execute("ANALYZE TABLE jobs")
        before = spent_by(queue, mine.user)
        ran = run_here("release", "--worker", "w", "--format", "json", "--url", mine.url)
        spent = spent_by(queue, mine.user) - before
    assert (ran.code, numbers(ran), len(ran.json["jobs"])) == (0, (1200, 0, 0), 100)
    assert queue.value("SELECT COUNT(*) FROM jobs WHERE claimed_by = 'other' AND lease_until > NOW(6)") == 2500
    assert spent.examined < 2 * 3700 + 4 * 1200 + 2000  # looked at before and during the run


def on_a_terminal(database: Database, answer: bytes) -> tuple[int, str]:
    leader, follower = pty.openpty()
    process = start_process(
        "release", "--worker", "w", url=database.url, stdin=follower, stderr=follower,
        start_new_session=True, preexec_fn=lambda: os.close(leader),
    )  # fmt: skip
    os.close(follower)
    said = b""
    while b"[y/N]" not in said:
        said += os.read(leader, 1000)
    os.write(leader, answer)
    process.communicate(timeout=60)
    os.close(leader)
    return process.returncode, said.decode()


def test_a_terminal_shows_what_it_holds_and_asks(queue: Database) -> None:
    """Jobs by id with age and lease, then the question; No is the default."""
    hold(queue, 30)
    code, said = on_a_terminal(queue, b"\n")
    assert code == 1
    assert "job 1: created" in said
    assert "and 10 more" in said
    assert "30 jobs?" in said
    assert queue.value("SELECT COUNT(*) FROM jobs WHERE lease_until > NOW(6)") == 30


def test_a_terminal_asks_about_one_job_of_a_worker_that_is_alive(queue: Database) -> None:
    """With a live connection even one job is asked about, after the warning."""
    hold(queue, 1)
    with session_of(queue, "UPDATE jobs SET priority = 1 WHERE claimed_by = 'w'") as number:
        code, said = on_a_terminal(queue, b"y\n")
    assert code == 0
    assert f"alive: connection {number}" in said
    assert queue.value("SELECT COUNT(*) FROM jobs WHERE lease_until > NOW(6)") == 0


def test_the_brake_holds_it(queue: Database, qops: Callable[..., Ran]) -> None:
    """While the queue is paused no lease ends: 75."""
    hold(queue, 1)
    assert qops("pause").code == 0
    ran = release(qops)
    assert (ran.code, ran.json["released"]) == (75, 0)
    assert qops("resume").code == 0
    assert numbers(release(qops)) == (1, 0, 0)


def test_a_queue_without_owners_or_leases_refuses(
    database: Database, qops: Callable[..., Ran], clean_environment: Path
) -> None:
    """Recipe (neither) and article (no owners): 78, naming what is lacking."""
    for sql, toml in ((RECIPE, RECIPE_TOML), (ARTICLE, ARTICLE_TOML)):
        write_config(clean_environment, toml)
        database.execute(sql)
        ran = release(qops)
        assert ran.code == 78
        assert "'claimed_by'" in ran.json["error"]["message"]


def test_the_guides_queue(database: Database, qops: Callable[..., Ran], clean_environment: Path) -> None:
    """Guide: no index on leases, no time of creation; its jobs are released, and their age is unknown."""
    write_config(clean_environment, GUIDE_TOML)
    database.execute(GUIDE)
    hold(database, 3)
    hold(database, 2, worker="other")
    ran = release(qops)
    assert (ran.code, numbers(ran)) == (0, (3, 0, 0))
    assert [job["age_seconds"] for job in ran.json["jobs"]] == [None] * 3


@pytest.mark.parametrize("charset", ["latin1", "utf8mb3", "utf8mb4"])
def test_names_are_compared_byte_by_byte_in_every_character_set(
    queue: Database, qops: Callable[..., Ran], charset: str
) -> None:
    """Also where the column keeps other bytes for a letter than the connection does."""
    queue.execute(f"ALTER TABLE jobs MODIFY claimed_by VARCHAR(64) CHARACTER SET {charset}")
    hold(queue, 1, worker="Jörg")
    hold(queue, 1, worker="Jorg")
    assert numbers(release(qops, "Jörg")) == (1, 0, 0)
