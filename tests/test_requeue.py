"""Putting jobs back: within their limits, judged under the lock, in one answer for each job."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.queues import ARTICLE, ARTICLE_TOML, GUIDE, GUIDE_TOML, counts, fill, init, write_config

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import Database, Ran


@pytest.fixture
def queue(database: Database) -> Database:
    init(database)
    return database


def expired(database: Database, number: int, attempts: str = "1") -> None:
    """Insert running jobs of a dead worker whose lease has passed."""
    fill(
        database,
        number,
        status="'running'",
        claimed_by="'dead'",
        lease_until="NOW(6) - INTERVAL 1 SECOND",
        attempts=attempts,
    )


def test_expired_jobs_go_back_below_the_limit_and_fail_at_it(queue: Database, qops: Callable[..., Ran]) -> None:
    """Expired jobs with 0…4 of 5 attempts become pending with their attempts kept; with 5 and 6 they become failed."""
    expired(queue, 7, attempts="n - 1")
    ran = qops("requeue", "--expired", "--format", "json")
    assert (ran.code, ran.json["requeued"], ran.json["exhausted"]) == (0, 5, 2)
    rows = queue.rows(
        "SELECT attempts, status, claimed_by, lease_until, last_error IS NULL FROM jobs ORDER BY attempts"
    )
    assert rows[:5] == [(n, "pending", None, None, 1) for n in range(5)]
    assert [(attempts, status, has_error) for attempts, status, _, _, has_error in rows[5:]] == [
        (5, "failed", 0),
        (6, "failed", 0),
    ]
    again = qops("requeue", "--expired", "--format", "json").json
    assert (again["requeued"], again["exhausted"]) == (0, 0)


@pytest.mark.parametrize(("own", "attempts", "state"), [("0", 0, "failed"), ("1", 0, "pending"), ("1", 1, "failed")])
def test_the_jobs_own_limit_counts(
    queue: Database, qops: Callable[..., Ran], own: str, attempts: int, state: str
) -> None:
    """`max_attempts` of the row is the limit, also 0 and 1."""
    expired(queue, 1, attempts=str(attempts))
    queue.execute("UPDATE jobs SET max_attempts = %s", [own])
    qops("requeue", "--expired")
    assert counts(queue) == {state: 1}


def test_a_null_limit_is_the_queues(queue: Database, qops: Callable[..., Ran]) -> None:
    """Where max_attempts is NULL, the configured limit (5) holds."""
    queue.execute("ALTER TABLE jobs MODIFY max_attempts INT UNSIGNED NULL")
    expired(queue, 6, attempts="n")
    queue.execute("UPDATE jobs SET max_attempts = NULL")
    qops("requeue", "--expired")
    assert counts(queue) == {"pending": 4, "failed": 2}


def test_a_valid_lease_is_never_taken(queue: Database, qops: Callable[..., Ran]) -> None:
    """A running job whose lease has not passed, or that has none, stays with its owner."""
    expired(queue, 2)
    queue.execute("UPDATE jobs SET lease_until = NOW(6) + INTERVAL 1 HOUR WHERE id = 1")
    queue.execute("UPDATE jobs SET lease_until = NULL WHERE id = 2")
    assert qops("requeue", "--expired", "--format", "json").json["requeued"] == 0
    ran = qops("requeue", "1", "2", "--format", "json")
    assert ran.code == 1
    assert [r["result"] for r in ran.json["results"]] == ["not_eligible", "not_eligible"]
    assert queue.rows("SELECT status, claimed_by FROM jobs") == [("running", "dead")] * 2


def test_failed_jobs_go_back_and_spent_ones_stay(queue: Database, qops: Callable[..., Ran]) -> None:
    """`--failed` puts back those below the limit, clears their finish time, and leaves the others failed."""
    fill(queue, 6, status="'failed'", attempts="n", finished_at="NOW(6)", last_error="'boom'")
    ran = qops("requeue", "--failed", "--format", "json")
    assert (ran.code, ran.json["requeued"], ran.json["exhausted"]) == (0, 4, 2)
    assert queue.rows("SELECT DISTINCT finished_at, last_error FROM jobs WHERE status = 'pending'") == [(None, "boom")]
    assert queue.value("SELECT COUNT(*) FROM jobs WHERE status = 'failed' AND finished_at IS NOT NULL") == 2


def test_reset_attempts_is_the_way_out(queue: Database, qops: Callable[..., Ran]) -> None:
    """`--reset-attempts` puts spent jobs back with no attempts; for more than one without a terminal it needs --yes."""
    fill(queue, 2, status="'failed'", attempts="9")
    ran = qops("requeue", "--failed", "--reset-attempts")
    assert ran.code == 64
    assert counts(queue) == {"failed": 2}
    assert qops("requeue", "--failed", "--reset-attempts", "--yes").code == 0
    assert queue.rows("SELECT status, attempts FROM jobs") == [("pending", 0)] * 2


def test_named_jobs_get_one_answer_each(queue: Database, qops: Callable[..., Ran]) -> None:
    """Requeued, exhausted, not eligible, locked, archived and not found: each id says which, and the exit is 1."""
    fill(queue, 5, status="ELT(n, 'failed', 'failed', 'pending', 'failed', 'done')", attempts="IF(n = 2, 5, 1)")
    assert qops("archive").code == 0
    holder = queue.connect()
    holder.cursor().execute("SELECT id FROM jobs WHERE id = 4 FOR UPDATE")
    ran = qops("requeue", "1", "2", "3", "4", "5", "6", "1", "--format", "json")
    holder.rollback()
    holder.close()
    assert ran.code == 1
    assert {r["id"]: r["result"] for r in ran.json["results"]} == {
        1: "requeued",
        2: "exhausted",
        3: "not_eligible",
        4: "locked",
        5: "archived",
        6: "not_found",
    }
    assert len(ran.json["results"]) == 6
    assert (ran.json["requeued"], ran.json["locked"], ran.json["not_found"]) == (1, 1, [6])
    assert {e["id"]: e["state"] for e in ran.json["not_eligible"]} == {3: "pending", 5: "archived"}


def test_one_named_job_that_is_put_back_is_success(queue: Database, qops: Callable[..., Ran]) -> None:
    """Exit 0 when every named job was put back."""
    fill(queue, 1, status="'failed'")
    assert qops("requeue", "1").code == 0


def test_a_completion_that_is_being_committed_wins(queue: Database, qops: Callable[..., Ran]) -> None:
    """An expired job whose worker holds its row while it finishes is passed over, and ends done."""
    expired(queue, 3)
    worker = queue.connect()
    worker.cursor().execute("UPDATE jobs SET status = 'done', lease_until = NULL WHERE id = 2")
    ran = qops("requeue", "--expired", "--format", "json")
    worker.commit()
    worker.close()
    assert (ran.json["requeued"], ran.json["locked"]) == (2, 1)
    assert queue.rows("SELECT status FROM jobs ORDER BY id") == [("pending",), ("done",), ("pending",)]


def test_a_unique_key_conflict_costs_only_its_row(queue: Database, qops: Callable[..., Ran]) -> None:
    """Where two live jobs may not share a key, the one that would conflict stays failed and is reported."""
    queue.execute(
        "ALTER TABLE jobs ADD live INT AS (IF(status IN ('pending', 'running'), priority, NULL)) STORED, "
        "ADD UNIQUE (live)"
    )
    fill(queue, 4, status="IF(n = 4, 'pending', 'failed')", priority="IF(n = 4, 2, n)")
    ran = qops("requeue", "--failed", "--format", "json")
    assert (ran.json["requeued"], ran.json["conflicts"], ran.code) == (2, [2], 1)


def test_limit_and_batches(queue: Database, qops: Callable[..., Ran]) -> None:
    """`--limit` puts back exactly that many, over several batches."""
    fill(queue, 30, status="'failed'")
    ran = qops("requeue", "--failed", "--limit", "11", "--batch", "4", "--format", "json")
    assert ran.json["requeued"] == 11
    assert counts(queue) == {"failed": 19, "pending": 11}


def test_dry_run_locks_nothing_and_changes_nothing(queue: Database, qops: Callable[..., Ran]) -> None:
    """A plan counts also rows that another session holds, and leaves state and ledger alone."""
    fill(queue, 5, status="'failed'")
    holder = queue.connect()
    holder.cursor().execute("SELECT id FROM jobs FOR UPDATE")
    ran = qops("requeue", "--failed", "--dry-run", "--format", "json")
    holder.rollback()
    holder.close()
    assert (ran.code, ran.json["requeued"], ran.json["dry_run"]) == (0, 5, True)
    assert counts(queue) == {"failed": 5}
    assert queue.value("SELECT COUNT(*) FROM qops_runs") == 0


def test_the_brake_stops_it(queue: Database, qops: Callable[..., Ran]) -> None:
    """A paused queue: exit 75 with the usual document and an error beside it, nothing changed."""
    fill(queue, 2, status="'failed'")
    qops("pause")
    ran = qops("requeue", "--failed", "--format", "json")
    assert (ran.code, ran.json["requeued"], ran.json["error"]["exit"]) == (75, 0, 75)
    assert counts(queue) == {"failed": 2}


@pytest.mark.parametrize(
    "arguments", [(), ("--failed", "--expired"), ("1", "--failed"), ("x",), ("--failed", "--limit", "0")]
)
def test_a_wrong_command_line_is_64(queue: Database, qops: Callable[..., Ran], arguments: tuple[str, ...]) -> None:
    """Exactly one of ids, --failed and --expired; ids are numbers; limits are above 0."""
    assert qops("requeue", *arguments).code == 64


def test_reason_and_counts_are_in_the_ledger(queue: Database, qops: Callable[..., Ran]) -> None:
    """The entry holds who, why, what for and how many."""
    fill(queue, 3, status="'failed'", attempts="n * 2")
    qops("requeue", "--failed", "--reason", "downstream is back")
    ((command, reason, failed, requeued, exhausted, operator),) = queue.rows(
        "SELECT command, reason, arguments->>'$.failed', summary->>'$.requeued', summary->>'$.exhausted', operator "
        "FROM qops_runs"
    )
    assert (command, reason, failed, requeued, exhausted) == ("requeue", "downstream is back", "true", "2", "1")
    assert "root@" in operator


def test_select_and_update_are_enough(queue: Database, qops: Callable[..., Ran]) -> None:
    """An account with only SELECT, UPDATE on the table can requeue; it says that the run is not recorded."""
    fill(queue, 3, status="'failed'")
    user = f"u{queue.name}"
    queue.execute(f"CREATE USER '{user}'@'%' IDENTIFIED BY 'pw'")
    try:
        queue.execute(f"GRANT SELECT, UPDATE ON jobs TO '{user}'@'%'")
        url = f"mysql://{user}:pw@{queue.host}:{queue.port}/{queue.name}"
        ran = qops("requeue", "--failed", "--url", url, "--format", "json")
        assert (ran.code, ran.json["requeued"]) == (0, 3), ran.err
        assert "qops_runs" in ran.err
        queue.execute(f"REVOKE UPDATE ON jobs FROM '{user}'@'%'")
        queue.execute("UPDATE jobs SET status = 'failed'")
        ran = qops("requeue", "--failed", "--url", url, "--format", "json")
        assert ran.code == 77
        assert f"GRANT SELECT, UPDATE ON `{queue.name}`.`jobs` TO '{user}'@'%';" in ran.json["error"]["message"]
    finally:
        queue.execute(f"DROP USER '{user}'@'%'")


@pytest.mark.parametrize(("answer", "code", "left"), [("y\n", 0, {"pending": 3}), ("\n", 1, {"failed": 3})])
def test_on_a_terminal_it_asks_and_the_default_is_no(
    queue: Database, answer: str, code: int, left: dict[str, int]
) -> None:
    """More than one job: the question is asked on a terminal; Enter means no (exit 1) and changes nothing."""
    fill(queue, 3, status="'failed'")
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "qops", "requeue", "--failed", "--url", queue.url],
        stdin=slave,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    os.close(slave)
    os.write(master, answer.encode())
    _, err = process.communicate(timeout=30)
    os.close(master)
    assert (process.returncode, counts(queue)) == (code, left), err


def test_the_guides_queue_has_no_attempts(
    database: Database, qops: Callable[..., Ran], clean_environment: Path
) -> None:
    """Guide: expired jobs go back without a limit, and a warning says so."""
    write_config(clean_environment, GUIDE_TOML)
    database.execute(GUIDE)
    database.execute(
        "INSERT INTO jobs (status, payload, claimed_by, lease_until) "
        "VALUES ('running', '{}', 'w', NOW(6) - INTERVAL 1 SECOND)"
    )
    ran = qops("requeue", "--expired", "--format", "json")
    assert (ran.code, ran.json["requeued"]) == (0, 1)
    assert "without a limit" in ran.err


def test_the_articles_queue_counts_attempts_when_it_puts_back(
    database: Database, qops: Callable[..., Ran], clean_environment: Path
) -> None:
    """Article: an expired job gets one more attempt; at the limit it stays and is named, for want of a failed state."""
    write_config(clean_environment, ARTICLE_TOML)
    database.execute(ARTICLE)
    database.execute(
        "INSERT INTO job_queue VALUES "
        "(1, '{}', 'processing', UTC_TIMESTAMP(), UTC_TIMESTAMP() - INTERVAL 5 SECOND, 0), "
        "(2, '{}', 'processing', UTC_TIMESTAMP(), UTC_TIMESTAMP() - INTERVAL 5 SECOND, 4), "
        "(3, '{}', 'processing', UTC_TIMESTAMP(), UTC_TIMESTAMP() + INTERVAL 60 SECOND, 0)"
    )
    planned = qops("requeue", "--expired", "--dry-run", "--format", "json")
    ran = qops("requeue", "--expired", "--format", "json")
    assert (ran.code, ran.json["requeued"], ran.json["exhausted"]) == (1, 1, 1)
    assert (planned.code, planned.json["not_eligible"]) == (1, ran.json["not_eligible"])
    assert [(entry["id"], entry["state"]) for entry in ran.json["not_eligible"]] == [(2, "running")]
    assert database.rows("SELECT id, status, attempts FROM job_queue ORDER BY id") == [
        (1, "ready", 1),
        (2, "processing", 4),
        (3, "processing", 0),
    ]


def test_an_undeclared_clock_refuses(database: Database, qops: Callable[..., Ran], clean_environment: Path) -> None:
    """A DATETIME that is compared with the clock needs `clock` (78)."""
    write_config(clean_environment, ARTICLE_TOML.replace('clock = "utc"', ""))
    database.execute(ARTICLE)
    ran = qops("requeue", "--expired", "--format", "json")
    assert ran.code == 78
    assert "clock" in ran.json["error"]["message"]
