"""Requeue over several connections that is stopped or hurt at some moment: it says exactly what it did."""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING

import pytest

from tests.conftest import Database, start_process, wait_until
from tests.queues import fill, init

if TYPE_CHECKING:
    import subprocess

JOBS, BATCH = 6_000, 50
MOVED = "SELECT COUNT(*) FROM jobs WHERE status <> 'failed'"
CONNECTIONS = """
SELECT processlist_id
  FROM performance_schema.session_connect_attrs JOIN performance_schema.threads USING (processlist_id)
 WHERE attr_name = 'program_name' AND attr_value = 'qops' AND processlist_db = DATABASE() ORDER BY processlist_id"""
ENDS = {"SIGINT": 130, "SIGTERM": 143, "SIGKILL": -9, "KILL CONNECTION": 69, "KILL QUERY": 0}


@pytest.fixture
def queue(database: Database) -> Database:
    init(database)
    fill(
        database,
        JOBS,
        status="'failed'",
        attempts="1",
        claimed_by="'w'",
        last_error="'boom'",
        finished_at="NOW(6) - INTERVAL 1 DAY + INTERVAL n SECOND",
    )
    return database


def hurt(database: Database, process: subprocess.Popen[str], how: str) -> None:
    """Hurt a run that is under way; of its connections the newest, if it has several."""
    if how.startswith("SIG"):
        process.send_signal(signal.Signals[how])
    else:
        database.execute(f"{how} {database.rows(CONNECTIONS)[-1][0]}")


@pytest.mark.parametrize("how", ENDS)
def test_what_is_reported_is_what_was_done(queue: Database, how: str) -> None:
    """Whatever happens while several batches are under way, counts and rows agree, and a second run takes the rest."""
    process = start_process("requeue", "--failed", "--batch", str(BATCH), "--format", "json", url=queue.url)
    wait_until(lambda: process.poll() is not None or queue.value(MOVED) >= 12 * BATCH, what="several connections")
    hurt(queue, process, how)
    out, err = process.communicate(timeout=60)
    assert process.returncode == ENDS[how], err
    # What a killed process was at, the server undoes when it notices.
    wait_until(lambda: not queue.rows(CONNECTIONS), what="the end of its connections")
    moved = queue.value(MOVED)
    assert moved % BATCH == 0
    if how != "SIGKILL":
        assert json.loads(out)["requeued"] == moved
    assert queue.value("SELECT COUNT(*) FROM jobs WHERE status = 'pending' AND claimed_by IS NULL") == moved
    again = start_process("requeue", "--failed", "--format", "json", url=queue.url)
    out, err = again.communicate(timeout=60)
    assert (again.returncode, json.loads(out)["requeued"]) == (0, JOBS - moved), err


def test_a_limit_is_exact_over_several_connections(queue: Database) -> None:
    """However many batches are under way at once, no more jobs come back than were asked for."""
    process = start_process(
        "requeue", "--failed", "--batch", str(BATCH), "--limit", "4321", "--format", "json", url=queue.url
    )
    out, err = process.communicate(timeout=60)
    assert (process.returncode, json.loads(out)["requeued"], queue.value(MOVED)) == (0, 4321, 4321), err


def test_batches_that_deadlock_with_each_other_are_done_alone(queue: Database) -> None:
    """A trigger that counts in rows of its own makes batches meet there: the run goes back to one at a time."""
    queue.execute("CREATE TABLE counters (id INT PRIMARY KEY, n INT NOT NULL)")
    queue.execute("INSERT INTO counters VALUES (0, 0), (1, 0), (2, 0), (3, 0), (4, 0), (5, 0), (6, 0)")
    queue.execute(
        "CREATE TRIGGER counts AFTER UPDATE ON jobs FOR EACH ROW "
        "UPDATE counters SET n = n + 1 WHERE id = CRC32(NEW.id) MOD 7"
    )
    process = start_process("requeue", "--failed", "--batch", "50", "--verbose", "--format", "json", url=queue.url)
    out, err = process.communicate(timeout=120)
    assert (process.returncode, json.loads(out)["requeued"], queue.value(MOVED)) == (0, JOBS, JOBS), err
    assert queue.value("SELECT SUM(n) FROM counters") == JOBS
    assert err.count("is repeated") < 15, err
