"""Archived jobs come back as pending, whole, each in one transaction; what cannot come back stays archived."""

from __future__ import annotations

import json
import os
import pty
import random
import signal
import subprocess
import sys
import time
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from qops.worker import open_worker
from tests.accounts import account
from tests.conftest import Database, Ran, run_here, run_process, start_process, wait_until
from tests.queues import (
    ARTICLE,
    ARTICLE_TOML,
    COLUMNS,
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
from tests.workload import check_nothing_open

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SEED = int(os.environ.get("QOPS_TEST_SEED", str(random.randrange(10**6))))  # noqa: S311 - no secret
KEPT = "id, priority, payload, available_at, max_attempts, last_error, created_at"


@pytest.fixture
def queue(database: Database) -> Database:
    init(database)
    return database


def archive_jobs(queue: Database, number: int, **values: str) -> None:
    """Finish jobs and have them archived."""
    columns = {
        "status": "'done'",
        "priority": "n",
        "attempts": "5",
        "claimed_by": "'w'",
        "lease_until": "NOW(6)",
        "last_error": "CONCAT('once it failed ', n)",
        "available_at": "NOW(6) - INTERVAL n DAY",
        "finished_at": "NOW(6) - INTERVAL n HOUR",
    } | values
    fill(queue, number, **columns)
    assert run_here("archive", "--url", queue.url).code == 0
    assert counts(queue) == {}


def restore(qops: Callable[..., Ran], *words: str) -> Ran:
    return qops("restore", *words, "--format", "json")


def results(ran: Ran) -> dict[Any, str]:
    return {one["id"]: one["result"] for one in ran.json["results"]}


def test_jobs_come_back_whole_and_can_be_done_again(queue: Database, qops: Callable[..., Ran]) -> None:
    """Restored jobs are pending, nobody's, unfinished and untried; all else is byte for byte as it was archived."""
    emoji = "CHAR(0xF09F9880 USING utf8mb4)"
    archive_jobs(queue, 3, payload=f"JSON_OBJECT('big', 9007199254740993, 'float', 1e0, 'text', {emoji})")
    before = contents(queue, "jobs_archive", KEPT)
    ran = restore(qops, "1", "3")
    assert (ran.code, ran.json["restored"], results(ran)) == (0, 2, {1: "restored", 3: "restored"})
    assert contents(queue, "jobs", KEPT) == {id_: before[id_] for id_ in (1, 3)}
    assert contents(queue, "jobs_archive", KEPT) == {2: before[2]}
    state = "SELECT DISTINCT status, claimed_by, lease_until, attempts, finished_at FROM jobs"
    assert queue.rows(state) == [("pending", None, None, 0, None)]
    with open_worker("w", url=queue.url) as worker:
        job = worker.claim()
        assert job is not None
        worker.complete(job)
    assert qops("archive").code == 0
    assert counts(queue) == {"pending": 1}
    assert counts(queue, "jobs_archive") == {"done": 2}


def test_every_named_job_gets_one_answer(queue: Database, qops: Callable[..., Ran]) -> None:
    """Restored, conflict, locked and not found: one answer an id, named twice or not, and the exit is 1."""
    archive_jobs(queue, 5)
    fill(queue, 1, id="2")
    fill(queue, 1, id="70")
    before = contents(queue, "jobs_archive")
    with closing(queue.connect()) as holder:
        holder.cursor().execute("SELECT id FROM jobs_archive WHERE id = 4 FOR UPDATE")
        ran = restore(qops, "1", "2", "4", "99", "70", "1")
    assert ran.code == 1
    assert results(ran) == {1: "restored", 2: "conflict", 4: "locked", 99: "not_found", 70: "not_found"}
    document = ran.json
    assert (document["restored"], document["conflicts"], document["not_found"], document["locked"]) == (
        1,
        [2],
        [99, 70],
        [4],
    )
    reasons = {one["id"]: one["reason"] for one in document["results"]}
    assert "jobs" in reasons[70]
    assert contents(queue, "jobs_archive") == {id_: row for id_, row in before.items() if id_ != 1}
    assert queue.rows("SELECT command, outcome, summary->'$.restored', arguments->>'$.ids[1]' FROM qops_runs")[-1] == (
        "restore",
        "done",
        "1",
        "2",
    )


@pytest.mark.parametrize("word", ["1x", "x", "1.0", "0x1", " 1", "1e0", ""])
def test_a_word_that_is_no_id_is_refused(queue: Database, qops: Callable[..., Ran], word: str) -> None:
    """What MySQL would take for a number is no id: 64, and nothing is restored, also not the ids beside it."""
    archive_jobs(queue, 2)
    assert restore(qops, "1", word).code == 64
    assert counts(queue) == {}
    assert qops("restore").code == 64


def test_a_unique_key_conflict_costs_only_its_job(queue: Database, qops: Callable[..., Ran]) -> None:
    """A job whose key another one has by now stays archived, with the server's words; the others come back."""
    archive_jobs(queue, 3)
    queue.execute("ALTER TABLE jobs ADD UNIQUE one_each (priority)")
    fill(queue, 1, id="9", priority="2")
    ran = restore(qops, "1", "2", "3")
    assert (ran.code, ran.json["restored"], ran.json["conflicts"]) == (1, 2, [2])
    assert "one_each" in ran.json["results"][1]["reason"]
    assert counts(queue, "jobs_archive") == {"done": 1}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("ALTER TABLE jobs MODIFY last_error VARCHAR(5)", "last_error"),
        ("ALTER TABLE jobs MODIFY priority TINYINT NOT NULL", "priority"),
        ("ALTER TABLE jobs MODIFY available_at TIMESTAMP NOT NULL", "as it was archived"),
        ("ALTER TABLE jobs ADD CHECK (priority < 100)", "constraint"),
        ("ALTER TABLE jobs MODIFY last_error TEXT CHARACTER SET latin1", "last_error"),
        (
            "CREATE TRIGGER t BEFORE INSERT ON jobs FOR EACH ROW SET NEW.priority = NEW.priority + 1",
            "as it was archived",
        ),
        (
            "CREATE TRIGGER t BEFORE INSERT ON jobs FOR EACH ROW SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'not now'",
            "not now",
        ),
        (
            "CREATE TRIGGER t BEFORE DELETE ON jobs_archive FOR EACH ROW SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO=5001",
            "",
        ),
    ],
)
def test_a_job_that_would_arrive_changed_stays(
    queue: Database, qops: Callable[..., Ran], change: str, words: str
) -> None:
    """A narrower column, a coarser time, a constraint or a trigger: a conflict with the reason; nothing changes."""
    archive_jobs(queue, 1, priority="1000", last_error="'naïve 😀 text'")
    queue.execute(change)
    before = contents(queue, "jobs_archive")
    ran = restore(qops, "1")
    assert (ran.code, ran.json["restored"], ran.json["conflicts"]) == (1, 0, [1]), ran
    assert words in ran.json["results"][0]["reason"]
    assert contents(queue, "jobs_archive") == before
    assert counts(queue) == {}


def test_generated_columns_are_made_anew(queue: Database, qops: Callable[..., Ran]) -> None:
    """A column that the queue computes is not copied; one that only the archive has does not stand in the way."""
    queue.execute("ALTER TABLE jobs ADD day DATE AS (DATE(created_at)) STORED")
    queue.execute("ALTER TABLE jobs_archive ADD day DATE, ADD archived_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP")
    archive_jobs(queue, 1)
    assert restore(qops, "1").code == 0
    assert queue.rows("SELECT day = DATE(created_at) FROM jobs") == [(1,)]


def test_an_archive_that_lacks_a_column_is_refused(
    queue: Database, qops: Callable[..., Ran], clean_environment: Path
) -> None:
    """Where a trigger archives only part of a job, it cannot come back whole: 78 that names the column."""
    write_config(clean_environment, '[queues.jobs]\narchive_by = "trigger"\n')
    queue.execute("ALTER TABLE jobs_archive DROP COLUMN payload")
    fill(queue, 1, status="'done'")
    queue.execute(
        "INSERT INTO jobs_archive (id, status, priority, attempts, max_attempts) SELECT id, status, 1, 1, 1 FROM jobs"
    )
    queue.execute("DELETE FROM jobs")
    ran = restore(qops, "1")
    assert ran.code == 78
    assert "'payload'" in ran.json["error"]["message"]
    assert counts(queue, "jobs_archive") == {"done": 1}


def test_where_a_trigger_archives_jobs_come_back_as_well(
    queue: Database, qops: Callable[..., Ran], clean_environment: Path
) -> None:
    """With archive_by = "trigger" a job comes back, and the trigger archives it again."""
    write_config(clean_environment, '[queues.jobs]\narchive_by = "trigger"\n')
    values = ", ".join(f"OLD.{name.strip()}" for name in COLUMNS.split(","))
    queue.execute(
        f"CREATE TRIGGER keep AFTER DELETE ON jobs FOR EACH ROW INSERT INTO jobs_archive ({COLUMNS}) VALUES ({values})"
    )
    archive_jobs(queue, 2)
    assert restore(qops, "2").code == 0
    queue.execute("UPDATE jobs SET status = 'done'")
    assert qops("archive").code == 0
    assert counts(queue, "jobs_archive") == {"done": 2}


@pytest.mark.parametrize("effect", ["CASCADE", "SET NULL", "RESTRICT"])
def test_children_of_the_archive_are_not_touched(queue: Database, qops: Callable[..., Ran], effect: str) -> None:
    """A foreign key that would delete or change other rows refuses the run (78); one that forbids it, its job (1)."""
    archive_jobs(queue, 2)
    queue.execute(
        f"CREATE TABLE child (job BIGINT UNSIGNED, FOREIGN KEY (job) REFERENCES jobs_archive (id) ON DELETE {effect})"
    )
    queue.execute("INSERT INTO child VALUES (1)")
    ran = restore(qops, "1", "2")
    assert queue.rows("SELECT job FROM child") == [(1,)]
    if effect == "RESTRICT":
        assert (ran.code, results(ran)) == (1, {1: "conflict", 2: "restored"})
    else:
        assert ran.code == 78
        assert "child" in ran.json["error"]["message"]
        assert "--allow-cascade" not in ran.json["error"]["message"]
        assert counts(queue) == {}


def test_the_brake_stops_it(queue: Database, qops: Callable[..., Ran]) -> None:
    """A paused queue: 75 with the usual document, and nothing comes back."""
    archive_jobs(queue, 2)
    qops("pause")
    ran = restore(qops, "1", "2")
    assert (ran.code, ran.json["restored"], ran.json["error"]["exit"]) == (75, 0, 75)
    assert counts(queue) == {}


def test_an_account_that_sees_no_foreign_keys_is_told(queue: Database) -> None:
    """Without PROCESS it is refused (77) with the GRANT, unless --assume-no-children."""
    archive_jobs(queue, 1)
    with account(queue, "SELECT, INSERT ON {db}.jobs", "SELECT, DELETE ON {db}.jobs_archive") as limited:
        ran = run_here("restore", "1", "--url", limited.url, "--format", "json")
        assert ran.code == 77
        assert "GRANT PROCESS" in ran.json["error"]["message"]
        ran = run_here("restore", "1", "--assume-no-children", "--url", limited.url, "--format", "json")
        assert (ran.code, ran.json["restored"]) == (0, 1), ran
        assert "qops_runs" in ran.err


@pytest.mark.parametrize(("answer", "code", "back"), [("y\n", 1, 2), ("\n", 1, 0)])
def test_on_a_terminal_it_asks(queue: Database, answer: str, code: int, back: int) -> None:
    """More than one job: it says which stay and asks on a terminal, and Enter means no (1)."""
    archive_jobs(queue, 2)
    leader, follower = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "qops", "restore", "1", "2", "99", "--url", queue.url],
        stdin=follower,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    os.close(follower)
    os.write(leader, answer.encode())
    _, err = process.communicate(timeout=30)
    os.close(leader)
    assert (process.returncode, sum(counts(queue).values())) == (code, back), err
    assert b"job 99 stays: it is not in jobs_archive" in err


def test_one_job_is_not_asked_about(queue: Database) -> None:
    """One job that is there, or --yes: no question, also on a terminal."""
    archive_jobs(queue, 3)
    leader, follower = pty.openpty()
    ran = run_process("restore", "1", "99", url=queue.url, stdin=follower)
    assert (ran.code, counts(queue)) == (1, {"pending": 1})
    assert run_process("restore", "2", "3", "--yes", url=queue.url, stdin=follower).code == 0
    os.close(leader)
    os.close(follower)


# The queues of the field


def test_the_guides_jobs_come_back(database: Database, qops: Callable[..., Ran], clean_environment: Path) -> None:
    """Guide: no attempts, no times; pending without owner and lease."""
    write_config(clean_environment, GUIDE_TOML)
    database.execute(GUIDE)
    init(database)
    database.execute(
        "INSERT INTO jobs (status, priority, payload, claimed_by, lease_until) "
        "VALUES ('done', 7, JSON_OBJECT('a', 1.0), 'w', NOW(6))"
    )
    assert qops("archive").code == 0
    assert restore(qops, "1").code == 0
    assert database.rows("SELECT id, status, priority, payload, claimed_by, lease_until FROM jobs") == [
        (1, "pending", 7, '{"a": 1.0}', None, None)
    ]
    assert database.value("SELECT COUNT(*) FROM jobs_archive") == 0


def test_the_recipes_jobs_come_back(database: Database, qops: Callable[..., Ran], clean_environment: Path) -> None:
    """Recipe: `state` becomes `queued` again, the task is as it was, also where the id is 0."""
    write_config(clean_environment, RECIPE_TOML)
    database.execute(RECIPE)
    init(database)
    database.execute("INSERT INTO jobs VALUES (0, 'zero', 'done'), (5, 'five', 'done')")
    assert qops("archive").code == 0
    assert restore(qops, "5", "0").code == 0
    assert database.rows("SELECT * FROM jobs ORDER BY id") == [(0, "zero", "queued"), (5, "five", "queued")]


def test_the_articles_jobs_come_back(database: Database, qops: Callable[..., Ran], clean_environment: Path) -> None:
    """Article: `ready`, no lease, no attempts, its time kept."""
    write_config(clean_environment, ARTICLE_TOML)
    database.execute(ARTICLE)
    init(database)
    database.execute("INSERT INTO job_queue VALUES (8, '{}', 'done', '2026-01-02 03:04:05', UTC_TIMESTAMP(), 4)")
    assert qops("archive").code == 0
    assert restore(qops, "8").code == 0
    assert database.rows("SELECT id, status, CAST(available_at AS CHAR), lease_until, attempts FROM job_queue") == [
        (8, "ready", "2026-01-02 03:04:05", None, 0)
    ]


# Whatever ends it


@pytest.mark.parametrize("way", ["SIGKILL", "SIGTERM", "KILL", "KILL QUERY"])
def test_whatever_ends_it_nothing_is_lost(queue: Database, way: str) -> None:
    """Struck at a random moment: every job is in one of the tables, whole, and the counts are what really moved."""
    print(f"QOPS_TEST_SEED={SEED}")  # noqa: T201 - to repeat it
    chance = random.Random(SEED)  # noqa: S311 - no secret
    archive_jobs(queue, 400)
    before = contents(queue, "jobs_archive", KEPT)
    names = [str(n) for n in range(1, 401)]
    process = start_process("restore", *names, "--format", "json", url=queue.url)
    wait_until(lambda: queue.value("SELECT COUNT(*) FROM jobs") > 2, what="the first jobs")
    time.sleep(chance.uniform(0, 0.3))
    if way.startswith("SIG"):
        process.send_signal(signal.Signals[way])
    else:
        connection = queue.value("SELECT MAX(connection_id) FROM qops_runs WHERE command = 'restore'")
        queue.execute(f"{way} {connection}")
    out, err = process.communicate(timeout=60)
    check_nothing_open(queue)
    live, archived = contents(queue, "jobs", KEPT), contents(queue, "jobs_archive", KEPT)
    assert not set(live) & set(archived)
    assert live | archived == before
    assert "Traceback" not in err
    if way != "SIGKILL":
        codes = {"SIGTERM": 143, "KILL": 69, "KILL QUERY": 75}
        document = json.loads(out)
        assert process.returncode in {codes[way], 0}, err
        assert document["restored"] == len(live)
        assert queue.rows("SELECT summary->'$.restored' FROM qops_runs WHERE command = 'restore'") == [
            (str(len(live)),)
        ]


def test_an_id_that_is_being_inserted_is_locked(queue: Database, qops: Callable[..., Ran]) -> None:
    """Where another session has inserted the id or its key and not committed, the job stays archived, as locked."""
    archive_jobs(queue, 2)
    with closing(queue.connect()) as other:
        other.cursor().execute("INSERT INTO jobs (id, payload) VALUES (1, '{}')")
        ran = restore(qops, "1", "2")
        assert (ran.code, results(ran)) == (1, {1: "locked", 2: "restored"})
        other.commit()
    assert results(restore(qops, "1")) == {1: "conflict"}


def test_two_at_once_restore_each_job_once(queue: Database) -> None:
    """Two runs over the same ids: each job comes back once, and each run says of the others why not."""
    archive_jobs(queue, 60)
    names = [str(n) for n in range(1, 61)]
    processes = [
        start_process("restore", *order, "--format", "json", url=queue.url) for order in (names, list(reversed(names)))
    ]
    ended = [json.loads(process.communicate(timeout=60)[0]) for process in processes]
    assert all(document["restored"] + len(document["not_found"] + document["locked"]) == 60 for document in ended)
    assert counts(queue) == {"pending": sum(document["restored"] for document in ended)}
    assert sum(counts(queue).values()) + sum(counts(queue, "jobs_archive").values()) == 60
