"""The files in sql/ for workers: word for word what qops sends, and right as they stand in a plain client."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import MySQLdb
import pytest

from dev.server import client_command
from qops.statements import worker as st
from qops.statements.walk import Past, choose_walk
from qops.worker import LeaseLost, Worker
from qops.worker.statements import Statements
from tests.queues import contents, fill, init

if TYPE_CHECKING:
    from collections.abc import Iterator

    import sqlalchemy as sa

    from qops.queue import QueueTable
    from tests.conftest import Database

SQL = Path(__file__).parents[1] / "sql"
CLAIMED = "id, payload, attempts, max_attempts"
INTO = " INTO @id, @payload, @attempts, @max_attempts"
BATCH = {"limit": 20, "ids": "(1, 2, 3)"}


@pytest.fixture
def client(database: Database) -> Iterator[Any]:
    """Return a session of somebody else's: the server's defaults, autocommit, no FOUND_ROWS."""
    init(database)
    connection = database.connect(autocommit=True)
    yield connection
    connection.close()


def statements(name: str) -> list[str]:
    """Return the statements of a file, without comments."""
    lines = (SQL / f"{name}.sql").read_text(encoding="utf-8").splitlines()
    text = "\n".join(line for line in lines if not line.startswith("--"))
    return [statement.strip() for statement in text.split(";") if statement.strip()]


def run(client: Any, name: str, **variables: Any) -> list[tuple[Any, ...]]:
    """Run a file as it stands, but for `variables` instead of those that it sets first; return its last result."""
    rows: list[tuple[Any, ...]] = []
    with client.cursor() as cursor:
        for statement in statements(name):
            cursor.execute(statement)
            if cursor.description:
                rows = list(cursor.fetchall())
            if statement.startswith("SET @"):
                for variable, value in variables.items():
                    if f"@{variable} =" in statement:
                        cursor.execute(f"SET @{variable} = %s", (value,))
    return rows


def normal(sql: str) -> str:
    """Return a statement without what does not matter: quotes of names, the table before a column, layout, case."""
    sql = re.sub(r"\s+", " ", sql.replace("`", "").replace("jobs.", "")).replace(" AS id", "")
    sql = sql.replace("(attempts + 1)", "attempts + 1")
    return re.sub(r"\s*([(),=])\s*", r"\1", sql).strip().casefold()


def rendered(statement: sa.ClauseElement, dialect: sa.Dialect, **given: Any) -> str:
    """Return what qops sends, with `given` values, fixed ones as literals, and @name for the other parameters."""
    compiled: Any = statement.compile(dialect=dialect)
    values = []
    for name in compiled.positiontup:
        fixed = compiled.params[name]
        value = given.get(name, f"@{name}" if compiled.binds[name].required else fixed)
        text = isinstance(fixed, str) and name not in given
        values.append(f"'{value}'" if text else str(value))
    text = compiled.string.replace("(__[POSTCOMPILE_ids])", "%s")
    return str(text % tuple(values))


def sent(queue: QueueTable, database: Database) -> dict[str, list[tuple[sa.ClauseElement, dict[str, Any]]]]:
    """Return the statements of each file as qops makes them, with the names of parameters that differ."""
    columns = {role: queue.columns[role] for role in ("payload", "priority")}
    job = Statements(queue, database.server().engine.dialect).job_columns
    walk = choose_walk(queue, "scheduled", by="available_at", past=Past("available_at"))
    return {
        "enqueue": [
            (st.enqueue(queue, columns, delayed=False), {}),
            (st.enqueue(queue, columns, delayed=True), {}),
        ],
        "claim": [(st.select_claim(queue, *job), {"limit": 1}), (st.mark_running(queue), {})],
        "claim_batch": [(st.select_claim(queue, *job), BATCH), (st.mark_running(queue, many=True), BATCH)],
        "claim_one": [(st.select_job(queue, *job), {"id": "@wanted"}), (st.mark_running(queue), {})],
        "heartbeat": [(st.heartbeat(queue), {})],
        "complete": [(st.complete(queue), {})],
        "complete_archive": [
            (st.lock_held(queue), {}),
            (st.copy_done(queue), {"id": "@held"}),
            (st.delete_job(queue), {"id": "@held"}),
        ],
        "fail": [(st.retry(queue), {}), (st.give_up(queue), {})],
        "promote": [(st.promote_due(queue, walk), {"limit": 100})],
    }


FILES = ["enqueue", "claim", "claim_batch", "claim_one", "heartbeat", "complete", "complete_archive", "fail", "promote"]


@pytest.mark.parametrize("name", FILES)
def test_a_file_holds_what_qops_sends(client: Any, database: Database, name: str) -> None:
    """Each statement of a file that touches a table is the Worker's, but for INTO and a driver's placeholders."""
    found = [normal(s) for s in statements(name) if re.match("(INSERT|SELECT.*FROM|UPDATE|DELETE)", s, re.DOTALL)]
    found = [re.sub(r" into (@\w+,?)+", "", statement) for statement in found]
    if name == "fail":
        assert found.pop() == normal("SELECT status, attempts, max_attempts, last_error FROM jobs WHERE id = @id")
    queue, dialect = database.queue(), database.server().engine.dialect
    expected = [normal(rendered(s, dialect, **given)) for s, given in sent(queue, database)[name]]
    assert found == expected


def test_a_worker_sends_what_the_files_hold(client: Any, database: Database) -> None:
    """The server saw from a Worker what the files hold, with its values in place of variables and no statement more."""
    values = {
        "@payload": "'[1]'",
        "@priority": "7",
        "@worker": "'worker-17'",
        "@lease_microseconds": "300000000",
        "@id": "1",
        "@attempts": "1",
        "@error": "'no'",
        "@backoff_microseconds": "60000000",
    }

    def filled(name: str) -> list[str]:
        texts = [re.sub(r" into (@\w+,?)+", "", normal(s)) for s in statements(name)]
        for variable, value in values.items():
            texts = [re.sub(rf"{variable}\b", value, text) for text in texts]
        return [text for text in texts if re.match("insert|select.* from|update", text)]

    with Worker(database.server(), database.queue(), "worker-17", promote=False) as worker:
        worker.enqueue([1], priority=7)
        job = worker.claim()
        assert job
        worker.heartbeat(job)
        worker.fail(job, "no", backoff_seconds=60)
        connection_id = worker.session.connection.exec_driver_sql("SELECT CONNECTION_ID()").scalar_one()
        seen = database.rows(
            "SELECT sql_text FROM performance_schema.events_statements_history JOIN performance_schema.threads "
            "USING (thread_id) WHERE processlist_id = %s ORDER BY event_id",
            (connection_id,),
        )
    sent_texts = [normal(text).replace(",@@transaction_isolation", "") for (text,) in seen]
    first = sent_texts.index(filled("enqueue")[0])
    assert sent_texts[first:-1] == [
        filled("enqueue")[0],
        "commit",
        *filled("claim"),
        "commit",
        *filled("heartbeat"),
        "commit",
        filled("fail")[0],
        "commit",
    ]


@pytest.mark.parametrize("name", FILES)
def test_a_file_says_what_it_is(name: str) -> None:
    """Each file opens with its purpose and the versions, shows a sample of what comes out, and fits a terminal."""
    text = (SQL / f"{name}.sql").read_text(encoding="utf-8")
    assert text.startswith("-- ")
    assert "MySQL 8.0 and later" in text
    assert re.search(r"^--    \+-+\+", text, re.MULTILINE)
    assert max(map(len, text.splitlines())) <= 120


def mysql(database: Database, script: str) -> subprocess.CompletedProcess[str]:
    """Run a script in MySQL's own client as `mysql <file` does: in batch mode, with the client's own defaults."""
    client = client_command()
    if client is None:
        pytest.skip("there is no MySQL client here")
    login = [f"--host={database.host}", f"--port={database.port}", f"--user={database.user}", database.name]
    command = [*client, "--no-defaults", "--batch", *([f"--password={database.password}"] if database.password else [])]
    return subprocess.run([*command, *login], input=script, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("name", sorted(path.stem for path in SQL.glob("*.sql")))
def test_the_client_runs_a_file_to_its_end(client: Any, database: Database, name: str) -> None:
    """Every file, run as it stands by MySQL's own client in batch mode, ends with exit code 0: also the last line."""
    fill(database, 3)
    text = (SQL / f"{name}.sql").read_text(encoding="utf-8")
    script = f"{text}\nSELECT 'it ended' AS here;\n"
    ran = mysql(database, script)
    for _ in range(5):
        if "ERROR 3854" in ran.stderr:  # another test's statement with an emoji was just running
            ran = mysql(database, script)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines()[-1] == "it ended"


def test_a_file_that_is_wrong_would_be_noticed(client: Any, database: Database) -> None:
    """The client ends with 1 at a statement that the server refuses, and goes no further."""
    ran = mysql(database, "SELECT 1 FROM jobs;\nSELECT nothing FROM jobs;\nSELECT 'it ended' AS here;\n")
    assert (ran.returncode, "it ended" in ran.stdout) == (1, False)


def test_a_job_goes_its_way_by_files_alone(client: Any, database: Database) -> None:
    """A worker in another language enqueues, claims, extends, fails, promotes, completes and archives by the files."""
    (enqueued,) = run(client, "enqueue")[0]
    assert enqueued == 1  # the ready one; the delayed one is the second
    database.execute("DELETE FROM jobs WHERE id = 2")
    job_id, payload, attempts, max_attempts = run(client, "claim")[0]
    assert (job_id, json.loads(payload), attempts, max_attempts) == (1, {"task": "send", "to": 4711}, 1, 5)
    before = database.value("SELECT lease_until FROM jobs WHERE id = 1")
    assert run(client, "heartbeat") == [(1,)]
    assert database.value("SELECT lease_until FROM jobs WHERE id = 1") > before
    assert run(client, "fail") == [("scheduled", 1, 5, "SMTP 451: try again later")]
    waits = database.value("SELECT TIMESTAMPDIFF(MICROSECOND, NOW(6), available_at) / 1e6 FROM jobs")
    assert 1.5 < waits <= 5.0
    assert run(client, "promote") == [(0,)]
    database.execute("UPDATE jobs SET available_at = NOW(6)")
    assert run(client, "promote") == [(1,)]
    assert run(client, "claim")[0][2] == 2
    assert run(client, "complete") == [(0,)]  # it says attempt 1, and this is the second
    assert run(client, "complete", attempts=2) == [(1,)]
    assert database.rows("SELECT status, lease_until, claimed_by, attempts FROM jobs") == [
        ("done", None, "worker-17", 2)
    ]


def test_claims_by_file_exclude_each_other_and_the_worker(client: Any, database: Database) -> None:
    """What a file has claimed no Worker gets, and the other way round."""
    fill(database, 3)
    assert run(client, "claim")[0][0] == 1
    with Worker(database.server(), database.queue(), "w") as worker:
        held = worker.claim()
        assert held
        assert held.id == 2
    assert run(client, "claim_one", wanted=2)[0][0] is None
    assert run(client, "claim_one", wanted=3)[0][0] == 3
    assert run(client, "claim")[0][0] is None
    owners = database.rows("SELECT id, status, claimed_by FROM jobs ORDER BY id")
    assert owners == [(1, "running", "worker-17"), (2, "running", "w"), (3, "running", "worker-17")]


def test_a_batch_file_marks_pending_jobs_only(client: Any, database: Database) -> None:
    """Run as it stands, with the ids of its example, claim_batch.sql takes no job away from somebody."""
    fill(database, 3)
    database.execute("UPDATE jobs SET status = 'done' WHERE id = 2")
    run(client, "claim_batch")
    assert database.rows("SELECT id, status, attempts FROM jobs ORDER BY id") == [
        (1, "running", 1),
        (2, "done", 0),
        (3, "running", 1),
    ]


def test_claiming_a_locked_job_by_file_fails_at_once(client: Any, database: Database) -> None:
    """claim_one.sql ends with 3572 while another session holds the row."""
    fill(database, 1)
    other = database.connect()
    other.query("SELECT id FROM jobs WHERE id = 1 FOR UPDATE")
    other.store_result()
    with pytest.raises(MySQLdb.OperationalError) as raised:
        run(client, "claim_one")
    assert raised.value.args[0] == 3572
    other.close()


@pytest.mark.parametrize("name", ["heartbeat", "complete", "complete_archive", "fail"])
def test_a_file_changes_nothing_once_the_lease_is_lost(client: Any, database: Database, name: str) -> None:
    """Behind the fence nothing moves: neither after the lease has passed, nor when somebody else has the job."""
    fill(database, 1)
    run(client, "claim")
    database.execute("UPDATE jobs SET lease_until = NOW(6) - INTERVAL 1 SECOND")
    before = contents(database, "jobs")
    run(client, name)
    assert contents(database, "jobs") == before
    database.execute("UPDATE jobs SET lease_until = NOW(6) + INTERVAL 1 HOUR, claimed_by = 'worker-18'")
    before = contents(database, "jobs")
    run(client, name)
    assert contents(database, "jobs") == before
    assert database.value("SELECT COUNT(*) FROM jobs_archive") == 0


def test_the_last_attempt_fails_for_good_by_file(client: Any, database: Database) -> None:
    """fail.sql marks a job failed whose attempts are used up."""
    fill(database, 1, max_attempts="1")
    run(client, "claim")
    assert run(client, "fail")[0][0] == "failed"
    assert database.rows("SELECT finished_at IS NULL, lease_until FROM jobs") == [(0, None)]


def test_a_job_moves_to_the_archive_by_file_as_by_the_worker(client: Any, database: Database) -> None:
    """complete_archive.sql leaves in the archive what the Worker leaves there, and nothing in the queue."""
    fill(database, 2)
    run(client, "claim")
    assert run(client, "complete_archive") == [(1,)]
    with Worker(database.server(), database.queue(), "worker-17") as worker:
        job = worker.claim()
        assert job
        worker.complete(job, archive=True)
        with pytest.raises(LeaseLost):
            worker.complete(job, archive=True)
    assert database.value("SELECT COUNT(*) FROM jobs") == 0
    rows = database.rows(
        "SELECT id, status, claimed_by, lease_until, attempts, finished_at >= created_at FROM jobs_archive ORDER BY id"
    )
    assert rows == [(1, "done", "worker-17", None, 1, 1), (2, "done", "worker-17", None, 1, 1)]


def test_files_work_whatever_collation_the_client_has(client: Any, database: Database) -> None:
    """A user variable compared with a column does not stumble over the connection's collation (1267)."""
    fill(database, 1)
    client.query("SET NAMES utf8mb4 COLLATE utf8mb4_unicode_ci")
    run(client, "claim")
    assert run(client, "heartbeat") == [(1,)]
    assert run(client, "complete") == [(1,)]
