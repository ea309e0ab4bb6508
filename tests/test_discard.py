"""Giving up on jobs: failed with a reason, unless somebody works on them; one answer for each."""

from __future__ import annotations

import os
import pty
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from qops.worker import LeaseLost, open_worker
from tests.accounts import account
from tests.conftest import Database, Ran, run_here, start_process
from tests.queues import ARTICLE, ARTICLE_TOML, RECIPE, RECIPE_TOML, contents, counts, fill, init, write_config

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

STATES = "ELT(n, 'pending', 'scheduled', 'running', 'running', 'running', 'failed', 'done', 'done')"
LEASES = "ELT(n, NULL, NULL, NOW(6) - INTERVAL 1 SECOND, NOW(6) + INTERVAL 1 HOUR, NULL, NULL, NULL, NULL)"
OBJECTS = """
CREATE TRIGGER t BEFORE UPDATE ON jobs FOR EACH ROW
IF OLD.id = 2 THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'not this one'; END IF
"""
UNTOUCHED = "id, priority, payload, available_at, attempts, max_attempts, created_at"


@pytest.fixture
def queue(database: Database) -> Database:
    init(database)
    return database


def discard(qops: Callable[..., Ran], *words: str, reason: str = "not wanted") -> Ran:
    return qops("discard", *words, "--reason", reason, "--yes", "--format", "json")


def results(ran: Ran) -> dict[Any, str]:
    return {one["id"]: one["result"] for one in ran.json["results"]}


def test_each_state_has_its_answer(queue: Database, qops: Callable[..., Ran]) -> None:
    """Pending, scheduled and expired jobs are failed with the reason; all others stay, each with state and why."""
    fill(queue, 8, status=STATES, lease_until=LEASES, claimed_by="IF(n IN (3, 4, 5), 'w', NULL)", attempts="3")
    before, kept = contents(queue, "jobs"), contents(queue, "jobs", UNTOUCHED)
    queue.execute("INSERT INTO jobs_archive SELECT * FROM jobs WHERE id = 8")
    queue.execute("DELETE FROM jobs WHERE id = 8")
    ran = discard(qops, "1", "2", "3", "4", "5", "6", "7", "8", "99", "1")
    document = ran.json
    assert (ran.code, document["discarded"], document["locked"], document["not_found"]) == (1, 3, 0, [99])
    assert results(ran) == dict.fromkeys((1, 2, 3), "discarded") | dict.fromkeys((4, 5, 6, 7), "not_eligible") | {
        8: "archived",
        99: "not_found",
    }
    assert [(one["id"], one["state"]) for one in document["not_eligible"]] == [
        (4, "running"),
        (5, "running"),
        (6, "failed"),
        (7, "done"),
        (8, "archived"),
    ]
    assert all(one["reason"] for one in document["not_eligible"])
    assert queue.rows(
        "SELECT DISTINCT status, claimed_by, lease_until, last_error, finished_at BETWEEN NOW(6) - INTERVAL 1 MINUTE "
        "AND NOW(6) FROM jobs WHERE id <= 3"
    ) == [("failed", None, None, "not wanted", 1)]
    after = contents(queue, "jobs", UNTOUCHED)
    assert after == {id_: row for id_, row in kept.items() if id_ != 8}
    now = contents(queue, "jobs")
    assert {id_: now[id_] for id_ in (4, 5, 6, 7)} == {id_: before[id_] for id_ in (4, 5, 6, 7)}
    assert queue.rows(
        "SELECT outcome, reason, summary->'$.discarded', arguments->>'$.ids[0]' FROM qops_runs WHERE command='discard'"
    ) == [("done", "not wanted", "3", "1")]


def test_all_discarded_is_exit_0(queue: Database, qops: Callable[..., Ran]) -> None:
    """Where every named job was discarded nothing needs attention; a second time they are failed already."""
    fill(queue, 2)
    assert discard(qops, "1", "2").code == 0
    again = discard(qops, "1")
    assert (again.code, again.json["not_eligible"][0]["state"]) == (1, "failed")


def test_a_locked_job_stays_and_its_holder_is_named(queue: Database, qops: Callable[..., Ran]) -> None:
    """NOWAIT: no waiting for the holder, whose connection is in the answer; the others are discarded."""
    fill(queue, 3)
    with closing(queue.connect()) as holder:
        holder.cursor().execute("SELECT id FROM jobs WHERE id = 2 FOR UPDATE")
        ran = discard(qops, "1", "2", "3")
        number = holder.thread_id()
    assert (ran.code, ran.json["discarded"], ran.json["locked"]) == (1, 2, 1)
    assert ran.json["elapsed_seconds"] < 2
    assert [one["held_by"] for one in ran.json["results"]] == [None, number, None]
    assert counts(queue) == {"failed": 2, "pending": 1}


def test_a_holder_that_cannot_be_seen_is_no_obstacle(queue: Database) -> None:
    """With SELECT and UPDATE on the table alone a job is discarded, and a locked one has no holder but the GRANT."""
    fill(queue, 2)
    with account(queue, "SELECT, UPDATE ON {db}.jobs") as limited, closing(queue.connect()) as holder:
        holder.cursor().execute("SELECT id FROM jobs WHERE id = 2 FOR UPDATE")
        words = ("discard", "1", "2", "--reason", "x", "--yes", "--format", "json", "--url", limited.url)
        ran = run_here(*words)
    assert (ran.code, results(ran)) == (1, {1: "discarded", 2: "locked"})
    assert ran.json["results"][1]["held_by"] is None
    assert "GRANT SELECT ON performance_schema.*" in ran.json["results"][1]["reason"]


def test_a_worker_that_is_alive_keeps_its_job(queue: Database, qops: Callable[..., Ran]) -> None:
    """A valid lease is never taken; one that has passed is, and then its worker has lost the job."""
    fill(queue, 1)
    with open_worker("w", url=queue.url) as worker:
        job = worker.claim()
        assert job is not None
        assert results(discard(qops, "1")) == {1: "not_eligible"}
        worker.heartbeat(job)
        queue.execute("UPDATE jobs SET lease_until = NOW(6) - INTERVAL 1 SECOND")
        assert results(discard(qops, "1")) == {1: "discarded"}
        with pytest.raises(LeaseLost):
            worker.complete(job)
    assert counts(queue) == {"failed": 1}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("CREATE UNIQUE INDEX one_failed ON jobs (status, priority)", "one_failed"),
        (OBJECTS, "not this one"),
    ],
)
def test_a_row_that_objects_costs_only_itself(
    queue: Database, qops: Callable[..., Ran], change: str, words: str
) -> None:
    """A unique key or a trigger: that job stays as it is, with the server's words, and the others are discarded."""
    fill(queue, 3, priority="n")
    fill(queue, 1, id="9", priority="2", status="'failed'")
    queue.execute(change)
    ran = discard(qops, "1", "2", "3")
    assert (ran.code, ran.json["discarded"], ran.json["conflicts"]) == (1, 2, [2])
    assert words in ran.json["results"][1]["reason"]
    assert queue.rows("SELECT status, last_error FROM jobs WHERE id = 2") == [("pending", None)]


@pytest.mark.parametrize("definition", ["VARCHAR(10)", "VARCHAR(10) CHARACTER SET latin1", "TINYTEXT"])
def test_a_reason_is_fitted_to_its_column(queue: Database, qops: Callable[..., Ran], definition: str) -> None:
    """A reason that is too long or has letters which the column lacks is cut, and the ledger has it whole."""
    queue.execute(f"ALTER TABLE jobs MODIFY last_error {definition}")
    fill(queue, 1)
    reason = "läuft 😀 nicht mehr" * 20
    assert discard(qops, "1", reason=reason).code == 0
    assert queue.value("SELECT last_error FROM jobs")[:2] in {"lä", "l?"}
    assert queue.value("SELECT reason FROM qops_runs WHERE command = 'discard'") == reason


@pytest.mark.parametrize(
    "words", [["1"], ["1", "--reason", " "], ["--reason", "x"], ["1x", "--reason", "x"], ["", "--reason", "x"]]
)
def test_a_wrong_command_line(queue: Database, qops: Callable[..., Ran], words: list[str]) -> None:
    """Without ids, without a reason, or with a word that is no id: 64, and nothing changes."""
    fill(queue, 1)
    assert qops("discard", *words).code == 64
    assert counts(queue) == {"pending": 1}


def test_several_jobs_need_a_yes_without_a_terminal(queue: Database, qops: Callable[..., Ran]) -> None:
    """One job is discarded without a question; more than one is 64 until --yes is given."""
    fill(queue, 3)
    assert qops("discard", "1", "--reason", "x").code == 0
    ran = qops("discard", "2", "3", "--reason", "x")
    assert ran.code == 64
    assert "--yes" in ran.err
    assert counts(queue) == {"failed": 1, "pending": 2}
    assert qops("discard", "2", "3", "--reason", "x", "--yes").code == 0


def test_a_terminal_shows_the_plan_and_asks(queue: Database) -> None:
    """What will change, by state, and what will not and why; the answer no changes nothing (1)."""
    fill(queue, 8, status=STATES, lease_until=LEASES)
    leader, follower = pty.openpty()
    process = start_process(
        "discard", "1", "2", "3", "4", "99", "--reason", "x", url=queue.url, stdin=follower, stderr=follower,
        start_new_session=True, preexec_fn=lambda: os.close(leader),
    )  # fmt: skip
    os.close(follower)
    said = b""
    while b"[y/N]" not in said:
        said += os.read(leader, 1000)
    os.write(leader, b"\n")
    process.communicate(timeout=60)
    os.close(leader)
    text = said.decode()
    assert process.returncode == 1
    assert all(words in text for words in ("1 job pending", "1 job scheduled", "1 job running", "job 4", "job 99"))
    assert "3 jobs?" in text
    assert queue.value("SELECT COUNT(*) FROM jobs WHERE last_error IS NOT NULL") == 0


def test_the_brake_holds_it(queue: Database, qops: Callable[..., Ran]) -> None:
    """While the queue is paused nothing is discarded: 75."""
    fill(queue, 1)
    assert qops("pause", "--reason", "incident").code == 0
    ran = discard(qops, "1")
    assert (ran.code, ran.json["discarded"]) == (75, 0)
    assert counts(queue) == {"pending": 1}
    assert qops("resume").code == 0
    assert discard(qops, "1").code == 0


def test_a_queue_without_a_failed_state_refuses(
    database: Database, qops: Callable[..., Ran], clean_environment: Path
) -> None:
    """Recipe and article: 78, naming the state; nothing changes."""
    for sql, toml in ((RECIPE, RECIPE_TOML), (ARTICLE, ARTICLE_TOML)):
        write_config(clean_environment, toml)
        database.execute(sql)
        ran = discard(qops, "1")
        assert ran.code == 78
        assert "'failed'" in ran.json["error"]["message"]


def test_a_queue_without_roles_keeps_the_reason_in_the_ledger(
    database: Database, qops: Callable[..., Ran], clean_environment: Path
) -> None:
    """Where no column keeps errors the job is failed all the same, and a warning says where the reason is."""
    write_config(clean_environment, RECIPE_TOML + 'failed = "bad"\n')
    database.execute(RECIPE)
    init(database)
    database.execute("INSERT INTO jobs VALUES (1, 'x', 'queued')")
    ran = discard(qops, "1", reason="why not")
    assert ran.code == 0
    assert "ledger" in ran.err
    assert database.rows("SELECT state FROM jobs") == [("bad",)]
    assert database.value("SELECT reason FROM qops_runs WHERE command = 'discard'") == "why not"
