"""Each check finds what it is about and nothing else, and its remedy cures it when run as printed."""

from __future__ import annotations

import re
import shlex
import time
from contextlib import closing, contextmanager
from dataclasses import fields, replace
from threading import Thread
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import MySQLdb
import pytest

from qops.children import Children
from qops.doctor.audit import BY_ID, CHECKS, Audit, audit
from qops.doctor.facts import (
    Access,
    Clock,
    Drift,
    DriftFacts,
    Facts,
    IndexFacts,
    Link,
    Missing,
    PlanFacts,
    Replication,
    Roles,
    ServerFacts,
    Session,
    TableFacts,
    Transaction,
    Unknown,
    Wanted,
)
from qops.doctor.model import Check, passed
from qops.doctor.report import report
from qops.doctor.row_facts import (
    Attempts,
    ChildFacts,
    Delayed,
    Finished,
    Increment,
    LinkFacts,
    Maintenance,
    Overdue,
    RowFacts,
    Sample,
    TriggerFacts,
)
from qops.doctor.traffic_facts import Sent, Traffic
from qops.doctor.type_facts import AttemptRoom, Moments, SpareFacts, StrayFacts, TypeFacts
from qops.purge import Blocker, PurgeLag
from tests.conftest import Database, Ran, fresh_database, run_here, run_process, wait_until
from tests.queues import (
    ARTICLE,
    ARTICLE_TOML,
    GUIDE,
    GUIDE_TOML,
    RECIPE,
    RECIPE_TOML,
    fill,
    init,
    write_config,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path


def dependents(id_: str) -> set[str]:
    """Return the checks that are skipped where this one is critical."""
    direct = {check.id for check in CHECKS if id_ in check.after}
    return direct.union(*map(dependents, direct))


TABLE_CHECKS = dependents("storage-engine")


@pytest.fixture
def queue(own_server: Any) -> Iterator[Database]:
    with fresh_database(own_server) as database:
        init(database)
        try:
            yield database
        finally:
            database.execute("RESET PERSIST")


def examine(database: Database, *options: str) -> dict[str, Any]:
    """Return the JSON document of an audit."""
    ran = run_here("doctor", "--url", database.url, "--format", "json", *options)
    assert "error" not in ran.json, ran.out
    assert ran.code == {"ok": 0, "unknown": 1, "warning": 1, "critical": 2}[ran.json["verdict"]]
    document: dict[str, Any] = ran.json
    return document


def findings(document: dict[str, Any]) -> dict[str, str]:
    """Return the status of each check that did not pass."""
    return {check["id"]: check["status"] for check in document["checks"] if check["status"] != "pass"}


def of(document: dict[str, Any], id_: str) -> dict[str, Any]:
    return next(check for check in document["checks"] if check["id"] == id_)


def cure(database: Database, document: dict[str, Any], id_: str, *options: str) -> None:
    """Run a remedy as it stands: a qops command, or SQL as root in a session without a schema; comments do nothing."""
    session = database.connect(database="", autocommit=True)
    for line in of(document, id_)["remedy"].splitlines():
        if line.startswith("qops "):
            ran = run_here(*shlex.split(line)[1:], "--url", database.url, *options)
            assert ran.code == 0, ran.err
        elif not line.startswith("--"):
            session.cursor().execute(line.removesuffix(";"))
    session.close()


def advised(document: dict[str, Any], id_: str) -> list[str]:
    """Return the SQL that a finding advises: what follows the last colon of each comment."""
    lines = [line.removeprefix("-- ") for line in of(document, id_)["remedy"].splitlines()]
    return [match[1] for line in lines if (match := re.search(r": ([A-Z].*);$", line))]


@contextmanager
def session(database: Database, *statements: str) -> Iterator[int]:
    """Yield the id of a session that ran `statements` and is still there."""
    connection = database.connect()
    try:
        with connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
                cursor.fetchall()
        yield connection.thread_id()
    finally:
        connection.close()


# The document and the command line


def test_a_new_queue_on_a_read_committed_server_has_no_finding(queue: Database) -> None:
    """What `qops init` makes passes every check."""
    document = examine(queue)
    assert findings(document) == {}
    assert (document["verdict"], document["queue"]) == ("ok", "jobs")


def test_the_document_has_the_documented_keys(database: Database) -> None:
    """Every documented key is there, and every check has a stable id of the list."""
    init(database)
    document = examine(database)
    assert set(document) == {"verdict", "queue", "server", "checks"}
    assert document["server"] == {
        "version": database.value("SELECT VERSION()"),
        "flavor": "MySQL",
        "host": database.host,
        "port": database.port,
    }
    for check in document["checks"]:
        assert set(check) == {"id", "title", "status", "observed", "expected", "why", "remedy"}
        assert check["status"] in {"pass", "warning", "critical", "unknown", "skipped"}
        assert check["title"]
        assert check["why"]
    assert [check["id"] for check in document["checks"]] == [check.id for check in CHECKS]


def test_the_table_shows_which_server_answered(database: Database, qops: Callable[..., Ran]) -> None:
    """Host name, port, socket, server id and account are shown, so that nobody audits another server."""
    init(database)
    shown = qops("doctor").out
    for variable in ("@@hostname", "@@port", "@@socket", "@@server_uuid", "CURRENT_USER()"):
        assert str(database.value(f"SELECT {variable}")) in shown
    local = database.url.replace("127.0.0.1", "localhost")
    assert run_here("doctor", "--url", local, "--format", "json").json["server"]["port"] == database.port


def test_only_and_skip_choose(queue: Database, tmp_path: Path) -> None:
    """`--only` and `--skip` are exact, [doctor] skip works as --skip does, and what passes first is not reported."""
    assert [c["id"] for c in examine(queue, "--only", "claim-plan", "--only", "clock")["checks"]] == [
        "claim-plan",
        "clock",
    ]
    everything = {check.id for check in CHECKS}
    assert {c["id"] for c in examine(queue, "--skip", "clock")["checks"]} == everything - {"clock"}
    config = str(write_config(tmp_path, '[doctor]\nskip = ["sql-mode"]\n'))
    assert {c["id"] for c in examine(queue, "--config", config)["checks"]} == everything - {"sql-mode"}


@pytest.mark.parametrize(
    ("options", "verdict", "statuses"),
    [
        (("--only", "claim-index"), "critical", {"storage-engine": "critical", "claim-index": "skipped"}),
        (("--only", "claim-plan"), "critical", {"storage-engine": "critical", "claim-plan": "skipped"}),
        (("--only", "claim-index", "--skip", "storage-engine"), "unknown", {"claim-index": "skipped"}),
        (("--only", "claim-plan", "--skip", "storage-engine"), "unknown", {"claim-plan": "skipped"}),
        (("--only", "sql-mode"), "ok", {"sql-mode": "pass"}),
    ],
)
def test_a_check_that_could_not_be_made_is_no_all_clear(
    database: Database, *, options: tuple[str, ...], verdict: str, statuses: dict[str, str]
) -> None:
    """A wanted check that was skipped never gives "ok", and what is the cause is reported, or named if left out."""
    database.execute("CREATE TABLE jobs (id INT PRIMARY KEY)")  # without a status
    document = examine(database, *options)
    assert document["verdict"] == verdict
    assert {one["id"]: one["status"] for one in document["checks"]} == statuses
    for one in document["checks"]:
        if one["status"] == "skipped":
            assert one["observed"].startswith("storage-engine is critical")
            assert ("status" in one["observed"]) == ("storage-engine" not in statuses)


def test_without_the_cause_the_rest_is_no_all_clear(queue: Database) -> None:
    """`--skip` of the check that fails leaves its dependents unknown: exit 1."""
    queue.execute("DROP TABLE jobs")
    document = examine(queue, "--skip", "storage-engine")
    assert document["verdict"] == "unknown"
    assert {id_ for id_, status in findings(document).items() if status == "skipped"} == TABLE_CHECKS


def test_nothing_to_check_is_a_usage_error(qops: Callable[..., Ran], tmp_path: Path) -> None:
    """Where all that was asked for is left out again, nothing was checked, and that is exit 64."""
    assert qops("doctor", "--only", "clock", "--skip", "clock").code == 64
    every = ", ".join(f'"{check.id}"' for check in CHECKS)
    assert qops("doctor", "--config", str(write_config(tmp_path, f"[doctor]\nskip = [{every}]\n"))).code == 64


@pytest.mark.parametrize("option", ["--only", "--skip", "--explain"])
def test_an_unknown_check_is_a_usage_error(qops: Callable[..., Ran], option: str) -> None:
    """A misspelt id is exit 64 and names the nearest."""
    ran = qops("doctor", option, "claim-idnex", "--format", "json")
    assert ran.code == 64
    assert "'claim-index'" in ran.json["error"]["message"]


@pytest.mark.parametrize(
    "text",
    [
        'skip = ["sql_mode"]',
        "skip = 'sql-mode'",
        "long_transaction = 5",
        "long_transaction = 'x'",
        "purge_lag = 'x'",
        "purge_lag = 0",
        "purge_lag = true",
        "grace = '0s'",
        "ids_used = 0.99",
        "ids_used = '80%'",
        "delayed_pending = 1001",
        "finished_rows = 1.5",
        "skipp = []",
    ],
)
def test_a_wrong_section_is_refused(qops: Callable[..., Ran], tmp_path: Path, text: str) -> None:
    """What is wrong in [doctor] is exit 78."""
    assert qops("doctor", "--config", str(write_config(tmp_path, f"[doctor]\n{text}\n"))).code == 78


def test_list_and_explain_need_no_server() -> None:
    """The checks are listed, and each is explained, without a connection."""
    url = "mysql://nobody@127.0.0.1:1/nothing"
    listed = run_here("doctor", "--url", url, "--list", "--format", "json")
    assert [check["id"] for check in listed.json["checks"]] == [check.id for check in CHECKS]
    for check in CHECKS:
        explained = run_here("doctor", "--url", url, "--explain", check.id)
        assert explained.code == 0
        assert all(words in explained.out for words in (check.why, check.how, check.cure))


@pytest.mark.parametrize(("fail_on", "code"), [("warning", 1), ("critical", 0), ("never", 0)])
def test_fail_on_decides_what_counts(queue: Database, fail_on: str, code: int) -> None:
    """A warning is exit 1 unless only critical findings, or none, shall count."""
    queue.execute("DROP INDEX lease_idx ON jobs")
    ran = run_here("doctor", "--url", queue.url, "--fail-on", fail_on, "--format", "json")
    assert (ran.code, ran.json["verdict"]) == (code, "warning")


# Each check on the real server: broken, found, cured


@pytest.mark.breaks
@pytest.mark.parametrize(
    ("id_", "setting", "value", "status"),
    [
        ("isolation-level", "transaction_isolation", "'REPEATABLE-READ'", "warning"),
        ("binlog-format", "binlog_format", "'STATEMENT'", "critical"),
        ("sql-mode", "sql_mode", "''", "warning"),
        ("sql-mode", "sql_mode", "'ANSI_QUOTES'", "warning"),
        ("deadlock-logging", "innodb_print_all_deadlocks", "ON", "warning"),
    ],
)
def test_a_server_setting_is_found_and_cured(
    queue: Database, *, id_: str, setting: str, value: str, status: str
) -> None:
    """A setting of the server that hurts is exactly one finding, which its remedy ends."""
    before = queue.value(f"SELECT @@GLOBAL.{setting}")
    queue.execute(f"SET GLOBAL {setting} = {value}")
    try:
        document = examine(queue)
        assert findings(document) == {id_: status}
        cure(queue, document, id_)
        assert findings(examine(queue)) == {}
    finally:
        queue.execute(f"SET GLOBAL {setting} = %s", (before,))


@pytest.mark.breaks("read-only")
def test_a_read_only_server_is_found(queue: Database) -> None:
    """A server that takes no writes is critical; what an account may do is then not to be tried."""
    queue.execute("SET GLOBAL super_read_only = ON")
    try:
        document = examine(queue)
        assert findings(document) == {"read-only": "critical", "privileges": "skipped"}
        assert "read-only is critical" in of(document, "privileges")["observed"]
        for statement in advised(document, "read-only"):
            queue.execute(statement)
        assert findings(examine(queue)) == {}
    finally:
        queue.execute("SET GLOBAL read_only = OFF")


@pytest.mark.breaks("purge-lag")
def test_a_reader_that_holds_up_purge_is_found_and_ended(queue: Database, tmp_path: Path) -> None:
    """Beyond the limit purge lag is a finding that names the holder; the KILL ends it."""
    config = str(write_config(tmp_path, "[doctor]\npurge_lag = 50\n"))
    queue.execute("CREATE TABLE other (id INT PRIMARY KEY, v INT)")
    queue.execute("INSERT INTO other VALUES (1, 0)")
    repeatable = "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ"
    with session(queue, repeatable, "START TRANSACTION", "SELECT * FROM other") as holder:
        for _ in range(100):
            queue.execute("UPDATE other SET v = v + 1")
        document = examine(queue, "--config", config)
        assert findings(document) == {"purge-lag": "warning"}
        assert of(document, "purge-lag")["remedy"] == f"KILL {holder};"
        cure(queue, document, "purge-lag")
    wait_until(lambda: not findings(examine(queue, "--config", config)), what="purge")


@pytest.mark.breaks("long-transactions")
def test_a_transaction_that_is_open_for_long_is_found_and_ended(queue: Database, tmp_path: Path) -> None:
    """A transaction older than [doctor] long_transaction is a finding that names it; the KILL ends it."""
    config = str(write_config(tmp_path, '[doctor]\nlong_transaction = "1s"\n'))
    queue.execute("CREATE TABLE other (id INT PRIMARY KEY)")
    queue.execute("INSERT INTO other VALUES (1)")
    with session(queue, "START TRANSACTION", "SELECT * FROM other FOR UPDATE") as holder:
        wait_until(lambda: findings(examine(queue, "--config", config)), what="a transaction of a second")
        document = examine(queue, "--config", config)
        assert findings(document) == {"long-transactions": "warning"}
        assert f"connection {holder} " in of(document, "long-transactions")["observed"]
        assert "FOR UPDATE" in of(document, "long-transactions")["observed"]
        cure(queue, document, "long-transactions")
        wait_until(lambda: not findings(examine(queue, "--config", config)), what="the end of it")


def test_an_emoji_in_a_running_statement_hides_no_transaction(queue: Database, tmp_path: Path) -> None:
    """InnoDB's list of transactions cannot be read while such a statement runs; the old transaction is found."""
    config = str(write_config(tmp_path, '[doctor]\nlong_transaction = "1s"\n'))
    queue.execute("CREATE TABLE other (id INT PRIMARY KEY)")
    queue.execute("INSERT INTO other VALUES (1)")
    with session(queue, "START TRANSACTION", "SELECT * FROM other FOR UPDATE") as holder:
        wait_until(lambda: findings(examine(queue, "--config", config)), what="a transaction of a second")
        runner = queue.connect(autocommit=True)
        pid = runner.thread_id()
        thread = Thread(target=lambda: runner.cursor().execute("SELECT SLEEP(4), '\U0001f600' FROM other"))
        thread.start()
        state = "SELECT state FROM performance_schema.processlist WHERE id = %s"
        wait_until(lambda: queue.value(state, (pid,)) == "User sleep", what="the statement")
        document = examine(queue, "--config", config)
        with pytest.raises(MySQLdb.Error):
            queue.rows("SELECT * FROM information_schema.innodb_trx")
        thread.join()
        runner.close()
    assert findings(document)["long-transactions"] == "warning"
    assert f"connection {holder} " in of(document, "long-transactions")["observed"]


@pytest.mark.parametrize(
    ("statements", "found"),
    [
        (("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ", "SELECT * FROM jobs LIMIT 1"), True),
        (("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ", "SELECT 1"), False),
        (("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ", "SELECT * FROM jobs LIMIT 1"), True),
        (
            (
                "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
                "SET TRANSACTION ISOLATION LEVEL READ COMMITTED",
                "SELECT * FROM jobs LIMIT 1",
            ),
            False,
        ),
    ],
    ids=["session", "never used the table", "one transaction", "better than its session"],
)
def test_a_worker_at_another_isolation_level_is_found(
    queue: Database, *, statements: Sequence[str], found: bool
) -> None:
    """A session that used the table is judged by its last transaction; one that did not is none of our business."""
    with session(queue, *statements) as worker:
        document = examine(queue)
        assert findings(document) == ({"worker-isolation": "warning"} if found else {})
        assert (f"{worker} (root@" in of(document, "worker-isolation")["observed"]) == found
    wait_until(lambda: not findings(examine(queue)), what="the end of the session")


def test_qops_itself_is_no_worker(queue: Database) -> None:
    """A session of qops that has read the table is not counted, however it got its isolation level."""
    with queue.server().session() as connection:
        connection.exec_driver_sql("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        connection.exec_driver_sql("SELECT * FROM jobs LIMIT 1")
        assert findings(examine(queue)) == {}


@pytest.mark.breaks("storage-engine")
def test_a_missing_table_is_found_and_created(queue: Database) -> None:
    """Without the table there is one critical finding, its dependents are skipped, and `qops init` cures it."""
    queue.execute("DROP TABLE jobs")
    document = examine(queue)
    assert findings(document) == {"storage-engine": "critical", **dict.fromkeys(TABLE_CHECKS, "skipped")}
    cure(queue, document, "storage-engine")
    assert findings(examine(queue)) == {}


@pytest.mark.breaks("storage-engine")
def test_another_engine_is_found_and_converted(own_server: Any, tmp_path: Path) -> None:
    """A table without row locks is critical, its dependents are skipped, and the ALTER cures it."""
    config = str(write_config(tmp_path, '[queues.jobs]\norder = ["id"]\n'))  # MyISAM has no descending index
    with fresh_database(own_server) as database:
        init(database, "--config", config)
        assert findings(examine(database, "--config", config)) == {}
        database.execute("ALTER TABLE jobs ENGINE = MyISAM")
        document = examine(database, "--config", config)
        assert findings(document) == {"storage-engine": "critical", **dict.fromkeys(TABLE_CHECKS, "skipped")}
        cure(database, document, "storage-engine")
        assert findings(examine(database, "--config", config)) == {}


@pytest.mark.breaks("storage-engine")
def test_a_table_that_does_not_fit_the_configuration_is_found_and_repaired(queue: Database) -> None:
    """A missing column is named, its dependents are skipped, and the repair cures it."""
    queue.execute("ALTER TABLE jobs DROP COLUMN last_error")
    document = examine(queue)
    assert findings(document) == {"storage-engine": "critical", **dict.fromkeys(TABLE_CHECKS, "skipped")}
    assert "last_error" in of(document, "storage-engine")["observed"]
    cure(queue, document, "storage-engine")
    assert findings(examine(queue)) == {}


@pytest.mark.breaks("primary-key")
def test_a_missing_primary_key_is_found_and_added(own_server: Any, tmp_path: Path) -> None:
    """Without a primary key the finding is critical, and the ALTER cures it; one of the archive is its drift."""
    config = str(write_config(tmp_path, ARTICLE_TOML))
    with fresh_database(own_server) as database:
        database.execute(ARTICLE)
        init(database, "--config", config, "--repair")
        for table, change, id_, status in (
            ("job_queue", "", "primary-key", "critical"),
            ("job_queue", ", MODIFY id BIGINT NULL", "primary-key", "critical"),
            ("job_queue", ", ADD PRIMARY KEY (attempts, id)", "primary-key", "warning"),
            ("job_queue_archive", "", "archive-drift", "warning"),
            ("job_queue_archive", ", ADD PRIMARY KEY (attempts, id)", "archive-drift", "warning"),
        ):
            database.execute(f"ALTER TABLE {table} DROP PRIMARY KEY{change}")
            document = examine(database, "--config", config)
            differing = {"archive-drift": "warning"} if "NULL" in change else {}  # from the archive's id
            assert findings(document) == {id_: status, **differing}
            cure(database, document, id_, "--config", config)
            assert findings(examine(database, "--config", config)) == {}


@pytest.mark.breaks("claim-index")
@pytest.mark.parametrize(
    ("change", "word"),
    [
        ("DROP INDEX claim_idx", "no index"),
        ("DROP INDEX claim_idx, ADD KEY only_status (status)", "only_status (status)"),
        ("DROP INDEX claim_idx, ADD KEY claim_idx (status, priority, id)", "claim_idx (status, priority, id)"),
        ("DROP INDEX claim_idx, ADD KEY claim_idx (priority DESC, status, id)", "claim_idx (priority DESC"),
        ("DROP INDEX claim_idx, ADD KEY claim_idx (status, (priority * -1), id)", "an expression"),
        ("DROP INDEX claim_idx, ADD KEY claim_idx ((CAST(status AS CHAR(20))), priority DESC, id)", "an expression"),
        ("ALTER INDEX claim_idx INVISIBLE", "invisible"),
    ],
    ids=["missing", "status only", "wrong direction", "wrong order", "functional", "functional first", "invisible"],
)
def test_a_claim_index_of_another_shape_is_found_and_made(queue: Database, change: str, word: str) -> None:
    """An index that does not give the claim's order is critical, the plan is skipped, and the remedy cures it."""
    queue.execute(f"ALTER TABLE jobs {change}")
    document = examine(queue)
    assert findings(document) == {"claim-index": "critical", "claim-plan": "skipped"}
    assert word in of(document, "claim-index")["observed"]
    cure(queue, document, "claim-index")
    document = examine(queue)
    redundant = {"only_status (status)": "claim-index", "claim_idx (status, priority, id)": "redundant-indexes"}.get(
        word
    )
    if redundant:  # now there is one more
        assert findings(document) == {redundant: "warning"}
        cure(queue, document, redundant)
        document = examine(queue)
    assert findings(document) == {}


def test_a_prefix_gives_no_order(own_server: Any, tmp_path: Path) -> None:
    """An index on the first characters of a text status does not serve the claim."""
    with fresh_database(own_server) as database:
        database.execute(RECIPE.replace("KEY (state, id)", "KEY part (state(4), id)"))
        config = str(write_config(tmp_path, RECIPE_TOML))
        document = examine(database, "--config", config)
        assert findings(document)["claim-index"] == "critical"
        assert "part (state (prefix), id)" in of(document, "claim-index")["observed"]
        cure(database, document, "claim-index")
        assert "claim-index" not in findings(examine(database, "--config", config))


def test_an_index_that_is_read_backwards_serves(own_server: Any, tmp_path: Path) -> None:
    """The same order in the other direction is as good where the optimizer goes along it."""
    config = str(write_config(tmp_path, GUIDE_TOML))
    with fresh_database(own_server) as database:
        database.execute(GUIDE.replace("(status, priority DESC, id)", "(status DESC, priority, id DESC)"))
        fill(database, 2000)
        database.execute("ANALYZE TABLE jobs")
        document = examine(database, "--config", config)
        assert of(document, "claim-index")["status"] == "pass"
        assert "Backward index scan" in of(document, "claim-plan")["observed"]
        assert of(document, "claim-plan")["status"] == "pass"


@pytest.mark.breaks("claim-plan")
def test_a_plan_that_sorts_is_found(own_server: Any, tmp_path: Path) -> None:
    """Two values of the ready state cannot be read in one order: critical, with the plan; with one value it passes."""
    one = RECIPE_TOML.replace("recipe", "one")
    two = RECIPE_TOML.replace('"queued"', '["queued", "again"]')
    config = str(write_config(tmp_path, f"{one}\n{two}"))
    with fresh_database(own_server) as database:
        database.execute(RECIPE)
        values = ", ".join(f"({n}, 't', '{'queued' if n % 2 else 'again'}')" for n in range(1, 2001))
        database.execute(f"INSERT INTO jobs VALUES {values}")
        database.execute("ANALYZE TABLE jobs")
        for queue in ("one", "recipe"):
            init(database, "--config", config, "--queue", queue)
        document = examine(database, "--config", config, "--queue", "recipe")
        assert findings(document) == {"claim-plan": "critical"}
        assert "Using filesort" in of(document, "claim-plan")["observed"]
        lines = of(document, "claim-plan")["remedy"].splitlines()
        assert all(line.startswith("--") for line in lines)
        with database.connect(database="").cursor() as cursor:
            cursor.execute(lines[0].removeprefix("-- "))
            assert "Using filesort" in str(cursor.fetchall())
        database.execute("UPDATE jobs SET state = 'queued' WHERE state = 'again'")  # one value, as advised
        assert findings(examine(database, "--config", config, "--queue", "one")) == {}


@pytest.mark.breaks
@pytest.mark.parametrize(
    ("index", "id_"),
    [("lease_idx", "lease-index"), ("finished_idx", "archive-index"), ("available_idx", "archive-drift")],
)
def test_a_missing_maintenance_index_is_found_and_made(queue: Database, index: str, id_: str) -> None:
    """Without the index the finding is a warning, and the remedy makes it."""
    queue.execute(f"DROP INDEX {index} ON jobs")
    document = examine(queue)
    assert findings(document) == {id_: "warning"}
    cure(queue, document, id_)
    assert findings(examine(queue)) == {}


@pytest.mark.breaks("archive-drift")
@pytest.mark.parametrize(
    "change",
    ["DROP COLUMN last_error", "MODIFY last_error TEXT COLLATE utf8mb4_unicode_ci", "MODIFY claimed_by VARCHAR(20)"],
)
def test_an_archive_that_differs_is_found_and_repaired(queue: Database, change: str) -> None:
    """A difference between the tables is a warning that names the column, and the remedy ends it."""
    queue.execute(f"ALTER TABLE jobs_archive {change}")
    document = examine(queue)
    assert findings(document) == {"archive-drift": "warning"}
    assert change.split()[1 if change.startswith("MODIFY") else 2] in of(document, "archive-drift")["observed"]
    cure(queue, document, "archive-drift")
    assert findings(examine(queue)) == {}


def test_a_missing_archive_is_created_by_plain_init(queue: Database) -> None:
    """A missing table is no repair: `qops init` creates it."""
    queue.execute("DROP TABLE jobs_archive")
    document = examine(queue)
    assert findings(document) == {"archive-drift": "warning"}
    assert of(document, "archive-drift")["remedy"] == "qops init"
    cure(queue, document, "archive-drift")
    assert findings(examine(queue)) == {}


def test_a_change_that_is_left_to_people_runs_as_it_is_printed(queue: Database) -> None:
    """What `qops init` does not do, because it blocks writers, names its schema and cures the difference."""
    queue.execute("ALTER TABLE jobs_archive ENGINE = MyISAM")
    document = examine(queue)
    assert findings(document) == {"archive-drift": "warning"}
    assert f"`{queue.name}`.`jobs_archive`" in of(document, "archive-drift")["remedy"]
    cure(queue, document, "archive-drift")
    assert findings(examine(queue)) == {}


@pytest.mark.breaks("clock")
def test_a_datetime_without_a_clock_is_found(own_server: Any, tmp_path: Path) -> None:
    """Where nobody says what a DATETIME means the finding is critical, and what compares it is skipped."""
    with fresh_database(own_server) as database:
        database.execute(ARTICLE)
        config = str(write_config(tmp_path, ARTICLE_TOML))
        init(database, "--config", config, "--repair")
        write_config(tmp_path, ARTICLE_TOML.replace('clock = "utc"\n', ""))
        document = examine(database, "--config", config)
        assert findings(document) == {"clock": "critical", **dict.fromkeys(dependents("clock"), "skipped")}
        assert 'clock = "utc"' in of(document, "clock")["remedy"]
        write_config(tmp_path, ARTICLE_TOML)
        assert findings(examine(database, "--config", config)) == {}


@pytest.mark.parametrize(
    ("table", "config"), [(GUIDE, GUIDE_TOML), (RECIPE, RECIPE_TOML), (ARTICLE, ARTICLE_TOML)], ids=["g", "r", "a"]
)
def test_queues_of_the_field_are_examined_by_configuration_alone(
    own_server: Any, tmp_path: Path, table: str, config: str
) -> None:
    """Nothing is unknown, nothing is skipped, the claim is served, and what is missing can be made."""
    with fresh_database(own_server) as database:
        database.execute(table)
        path = str(write_config(tmp_path, config))
        document = examine(database, "--config", path)
        assert set(findings(document)) <= {"lease-index", "archive-drift"}
        assert run_here("init", "--url", database.url, "--config", path, "--quiet").code == 0
        if "lease-index" in findings(document):
            cure(database, document, "lease-index")
        assert findings(examine(database, "--config", path)) == {}


def test_every_statement_is_a_transaction_of_its_own(own_server: Any) -> None:
    """Doctor holds neither a transaction nor a read view from one statement to the next, as the server recorded it."""
    with fresh_database(own_server) as database:
        init(database)
        fill(database, 20, status="'done'", finished_at="NOW(6)")
        enable = (
            "UPDATE performance_schema.setup_consumers SET enabled = %s WHERE name = 'events_transactions_history_long'"
        )
        database.execute(enable, ("YES",))
        try:
            database.execute("TRUNCATE TABLE performance_schema.events_transactions_history_long")
            assert findings(examine(database)) == {}
            kinds = dict(
                database.rows(
                    "SELECT autocommit, COUNT(*) FROM performance_schema.events_transactions_history_long "
                    "WHERE thread_id <> ps_current_thread_id() GROUP BY autocommit"
                )
            )
        finally:
            database.execute(enable, ("NO",))
    assert kinds.keys() == {"YES"}
    assert kinds["YES"] > 20


def test_a_pending_alter_is_reported_within_seconds(queue: Database) -> None:
    """Behind a waiting ALTER the audit ends, and what needs the table's metadata lock is unknown, with the reason."""
    connection = queue.connect()
    alter = connection.cursor()
    alter.execute("SET SESSION lock_wait_timeout = 60")
    with session(queue, "START TRANSACTION", "SELECT * FROM jobs"):
        begun = run_in_background(queue, connection, "ALTER TABLE jobs ADD COLUMN x INT")
        ran = run_process("doctor", "--format", "json", url=queue.url, timeout=30)
        queue.execute(f"KILL {begun}")
    assert ran.json["verdict"] == "unknown", findings(ran.json)
    assert findings(ran.json)["claim-plan"] == "unknown"
    assert "metadata lock" in of(ran.json, "claim-plan")["observed"]
    assert of(ran.json, "binlog-format")["status"] == "pass"


@pytest.mark.parametrize(
    ("statement", "kept"),
    [
        ("LOCK TABLES jobs WRITE", "claim-plan"),
        ("LOCK TABLES jobs_archive WRITE", "auto-increment"),
        ("LOCK TABLES qops_runs WRITE", "expired-leases"),
        ("FLUSH TABLES WITH READ LOCK", "privileges"),
    ],
)
def test_a_lock_of_tables_is_reported_within_seconds(queue: Database, statement: str, kept: str) -> None:
    """One wait, not one for each question: what needs the lock is unknown, and the remedy shows who holds it."""
    with closing(queue.connect()) as connection, connection.cursor() as cursor:
        cursor.execute(statement)
        begun = time.monotonic()
        document = examine(queue)
        took = time.monotonic() - begun
        found = findings(document)
        assert found[kept] == "unknown"
        assert set(found.values()) == {"unknown"}
        assert all("metadata lock" in of(document, id_)["observed"] for id_ in found)
        assert took < 10  # one lock_wait_timeout of 3 s, and the machine's own pace
        holders = [row[0] for row in queue.rows(of(document, kept)["remedy"].removesuffix(";"))]
        assert connection.thread_id() in holders
    assert findings(examine(queue)) == {}


def run_in_background(database: Database, connection: Any, statement: str) -> int:
    """Start a statement that waits for the metadata lock of `jobs`, and return its connection's id."""
    pid: int = connection.thread_id()

    def run() -> None:
        try:
            connection.query(statement)
        except MySQLdb.Error:
            connection.close()

    Thread(target=run, daemon=True).start()
    state = "SELECT state FROM performance_schema.processlist WHERE id = %s"
    wait_until(lambda: "metadata lock" in str(database.value(state, (pid,))), what="the wait")
    return pid


# Each check with literals: no server


HEALTHY_LINKS = LinkFacts(ChildFacts(Children((), complete=True)), TriggerFacts())
HEALTHY_ROWS = RowFacts(
    expired=Overdue(Sample(), 60, "qops requeue --expired"),
    due=Overdue(Sample(), 60, "qops promote"),
    delayed=Delayed(Sample(3, 40, ids=("1", "2", "3")), "UPDATE …;"),
    finished=Finished("done", 12, 100_000, 3, "qops archive"),
    increment=Increment("bigint unsigned", 90, 2**64 - 1, 80, "ALTER …;"),
    attempts=Attempts(Sample(), Sample(), "UPDATE …;", "[queues.jobs]"),
)
HEALTHY = Facts(
    queue="jobs",
    server=ServerFacts("MySQL", "8.4.6", (8, 4, 6), "db", 3306, comment="MySQL Community Server - GPL"),
    variables={
        "transaction_isolation": "READ-COMMITTED",
        "log_bin": "ON",
        "binlog_format": "ROW",
        "sql_mode": "STRICT_TRANS_TABLES",
        "read_only": "OFF",
        "super_read_only": "OFF",
        "innodb_print_all_deadlocks": "OFF",
        "performance_schema": "ON",
        "innodb_lock_wait_timeout": "50",
    },
    table=TableFacts("jobs", exists=True, engine="InnoDB", primary_key=("id",), identified=True),
    indexes=IndexFacts(
        claim=Wanted("claim", "status, priority DESC, id", "claim", ("claim_idx",), "CREATE INDEX …;"),
        maintenance=(
            Wanted(
                "lease_until", "status, lease_until", "requeue --expired", ("lease_idx",), "CREATE INDEX l ON jobs (a);"
            ),
            Wanted(
                "finished_at",
                "status, finished_at",
                "archive --older-than",
                ("fin_idx",),
                "CREATE INDEX f ON jobs (b);",
            ),
        ),
    ),
    plan=PlanFacts("ref", "claim_idx", "Using where", "SELECT 1"),
    clock=Clock((("lease_until", "timestamp(6)"),), None),
    drift=DriftFacts(),
    links=HEALTHY_LINKS,
    rows=HEALTHY_ROWS,
    purge=PurgeLag(unpurged_transactions=3, history_list_length=40, read_views=0),
    transactions=(),
    sessions=(Session(7, "app@host", "READ COMMITTED"),),
    access=(Access("archive", ()),),
    roles=Roles(),
    autocommit_claims=(),
    clock_uses=(),
    traffic=Traffic((Sent("SELECT …", 40, sent=40, examined=41, claims=True),)),
    late=Sample(0, 40),
    lock_errors=(),
    purge_counter="enabled",
    link=Link(remote=False, cipher=None),
    replication=Replication(),
    types=TypeFacts(Moments((("lease_until", "timestamp(6)"),), ("lease_until",)), AttemptRoom("int", 2**31 - 1, 5)),
    spare=SpareFacts(),
    strays=StrayFacts(looked_at=5),
    maintenance=Maintenance(archived_seconds=300.0, is_due=False),
)
WANTED = HEALTHY.indexes
assert isinstance(WANTED, IndexFacts)
NEED = Missing("DELETE", "table", "delete jobs", "DELETE command denied", "GRANT DELETE …;", optional=False)
HELD = PurgeLag(60_000, 60_000, 1, 90, Blocker(9, "bi@host", 90, "SELECT 1"))


def with_variables(**values: str) -> Facts:
    assert not isinstance(HEALTHY.variables, Unknown)
    return replace(HEALTHY, variables={**HEALTHY.variables, **values})


def server(version: str, numbers: tuple[int, ...], flavor: str = "MySQL", comment: str = "") -> Facts:
    return replace(HEALTHY, server=ServerFacts(flavor, version, numbers, "db", 3306, comment=comment))


def result(facts: Facts, id_: str) -> Any:
    """Return the result of one check."""
    (wanted,) = (one for one in audit(facts, [id_]).results if one.id == id_)
    return wanted


def test_healthy_facts_pass_every_check() -> None:
    """No check finds anything in facts of a healthy server, and none needs more than these."""
    assert {one.status for one in audit(HEALTHY).results} == {"pass"}
    assert audit(HEALTHY).verdict == "ok"


@pytest.mark.literal
@pytest.mark.parametrize(
    ("id_", "facts", "status", "remedy"),
    [
        ("server-version", server("5.7.44", (5, 7, 44)), "critical", "--"),
        ("server-version", server("10.11.6", (10, 11, 6), "MariaDB"), "critical", "--"),
        ("server-version", server("8.0.11-TiDB-v7.5.0", (8, 0, 11), comment="TiDB Server"), "critical", "--"),
        ("server-version", server("8.0.39", (8, 0, 39)), "warning", "--"),
        ("server-version", server("8.4.2", (8, 4, 2)), "warning", "--"),
        ("server-version", server("9.0.1", (9, 0, 1)), "warning", "--"),
        ("server-version", server("8.0.40", (8, 0, 40)), "pass", None),
        ("server-version", server("8.4.3", (8, 4, 3)), "pass", None),
        ("server-version", server("9.1.0", (9, 1, 0)), "pass", None),
        ("server-version", server("26.1.0", (26, 1, 0)), "pass", None),
        ("isolation-level", with_variables(transaction_isolation="SERIALIZABLE"), "warning", "SET PERSIST"),
        ("worker-isolation", replace(HEALTHY, sessions=(Session(7, None, "SERIALIZABLE"),)), "warning", "--"),
        ("binlog-format", with_variables(binlog_format="STATEMENT"), "critical", "SET PERSIST"),
        ("binlog-format", with_variables(binlog_format="STATEMENT", log_bin="OFF"), "pass", None),
        ("binlog-format", with_variables(binlog_format="MIXED"), "pass", None),
        ("binlog-format", replace(HEALTHY, variables={"log_bin": "ON"}), "pass", None),
        ("read-only", with_variables(read_only="ON"), "critical", "--"),
        ("read-only", with_variables(read_only="ON", innodb_read_only="ON"), "critical", "-- connect"),
        ("sql-mode", with_variables(sql_mode="ANSI"), "warning", "SET PERSIST"),
        ("deadlock-logging", with_variables(innodb_print_all_deadlocks="ON"), "warning", "SET PERSIST"),
        ("performance-schema", with_variables(performance_schema="OFF"), "warning", "--"),
        ("purge-lag", replace(HEALTHY, purge=HELD), "warning", "KILL 9;"),
        ("purge-lag", replace(HEALTHY, purge=replace(HELD, blocker=None)), "warning", "--"),
        ("purge-lag", replace(HEALTHY, purge=PurgeLag(unknown="GRANT PROCESS …;")), "unknown", "GRANT PROCESS"),
        (
            "long-transactions",
            replace(HEALTHY, transactions=(Transaction(4, "a@b", 61, "READ COMMITTED", 1, 2, None),)),
            "warning",
            "KILL 4;",
        ),
        (
            "long-transactions",
            replace(HEALTHY, transactions=(Transaction(4, "a@b", 59, "READ COMMITTED", 1, 2, None),)),
            "pass",
            None,
        ),
        ("storage-engine", replace(HEALTHY, table=TableFacts("jobs", exists=False)), "critical", "qops init"),
        (
            "storage-engine",
            replace(HEALTHY, table=TableFacts("jobs", exists=True, engine="MyISAM", convert="ALTER …;")),
            "critical",
            "ALTER",
        ),
        (
            "storage-engine",
            replace(HEALTHY, table=TableFacts("jobs", exists=True, engine="InnoDB", problem="no column 'x'")),
            "critical",
            "--",
        ),
        (
            "primary-key",
            replace(HEALTHY, table=TableFacts("jobs", exists=True, engine="InnoDB", add_key="ALTER …;")),
            "critical",
            "ALTER",
        ),
        (
            "primary-key",
            replace(
                HEALTHY,
                table=TableFacts("jobs", exists=True, engine="InnoDB", primary_key=("day", "id"), add_key="CREATE …;"),
            ),
            "warning",
            "CREATE",
        ),
        (
            "claim-index",
            replace(HEALTHY, indexes=replace(WANTED, claim=replace(WANTED.claim, serving=()))),
            "critical",
            "CREATE INDEX",
        ),
        (
            "claim-index",
            replace(
                HEALTHY,
                indexes=replace(WANTED, claim=replace(WANTED.claim, serving=()), hidden=(("c", "ALTER INDEX …;"),)),
            ),
            "critical",
            "ALTER INDEX",
        ),
        (
            "claim-index",
            replace(HEALTHY, indexes=replace(WANTED, redundant=(("s (status)", "DROP INDEX …;"),))),
            "warning",
            "DROP INDEX",
        ),
        (
            "claim-plan",
            replace(HEALTHY, plan=PlanFacts("ref", "claim_idx", "Using where; Using filesort", "SELECT 1")),
            "critical",
            "--",
        ),
        ("claim-plan", replace(HEALTHY, plan=PlanFacts("ALL", None, "", "SELECT 1")), "critical", "--"),
        (
            "lease-index",
            replace(HEALTHY, indexes=replace(WANTED, maintenance=(replace(WANTED.maintenance[0], serving=()),))),
            "warning",
            "CREATE INDEX l",
        ),
        ("lease-index", replace(HEALTHY, indexes=replace(WANTED, maintenance=())), "pass", None),
        (
            "archive-index",
            replace(HEALTHY, indexes=replace(WANTED, maintenance=(replace(WANTED.maintenance[1], serving=()),))),
            "warning",
            "CREATE INDEX f",
        ),
        (
            "archive-drift",
            replace(HEALTHY, drift=DriftFacts((Drift("a.x", "int", "missing"),), (), repairable=True)),
            "warning",
            "qops init --repair",
        ),
        ("archive-drift", replace(HEALTHY, drift=DriftFacts((Drift("a.x", "int", "text"),))), "warning", "--"),
        ("clock", replace(HEALTHY, clock=Clock((("lease_until", "datetime"),), None)), "critical", "--"),
        ("clock", replace(HEALTHY, clock=Clock((("lease_until", "datetime"),), "utc")), "pass", None),
        ("clock", replace(HEALTHY, clock=Clock((), None)), "pass", None),
        ("privileges", replace(HEALTHY, access=(Access("archive", (NEED,)),)), "warning", "GRANT DELETE"),
        (
            "privileges",
            replace(HEALTHY, access=(Access("archive", (NEED,)),), roles=Roles(("r@%",), "SET DEFAULT ROLE ALL TO x;")),
            "warning",
            "SET DEFAULT ROLE",
        ),
        (
            "privileges",
            replace(HEALTHY, access=(Access("archive", (replace(NEED, optional=True),)),)),
            "pass",
            None,
        ),
    ],
)
def test_a_check_judges_literal_facts(id_: str, facts: Facts, status: str, remedy: str | None) -> None:
    """From the facts alone follow the status and the kind of remedy."""
    found = result(facts, id_)
    assert found.status == status
    assert found.observed
    if remedy is None:
        assert found.remedy is None
    else:
        assert found.remedy.startswith(remedy)


def test_a_fact_that_was_not_read_is_unknown_and_never_passes() -> None:
    """Without any fact but the server's, no other check passes, and each says why and what helps."""
    nothing = Unknown("denied", "GRANT …;")
    names = [field.name for field in fields(Facts) if field.name not in {"queue", "server", "limits", "roles"}]
    blind = replace(HEALTHY, **dict.fromkeys(names, nothing))  # type: ignore[arg-type]
    results = {one.id: one for one in audit(blind).results}
    assert results.pop("server-version").status == "pass"
    assert {one.status for one in results.values()} == {"unknown"}
    assert {(one.observed, one.remedy) for one in results.values()} == {("denied", "GRANT …;")}
    assert audit(blind).verdict == "unknown"


def test_another_product_skips_everything_else() -> None:
    """On a server that is no MySQL one check is critical and all others are skipped with the reason."""
    found = audit(server("10.11.6", (10, 11, 6), "MariaDB"))
    statuses = {one.id: one.status for one in found.results}
    assert statuses.pop("server-version") == "critical"
    assert set(statuses.values()) == {"skipped"}
    observed = {one.observed for one in found.results if one.status == "skipped"}
    assert observed == {"server-version is critical"}
    assert "MariaDB 10.11.6" in str(found.results[0].observed)


def test_a_skipped_check_skips_its_own_dependents() -> None:
    """What rests on a skipped check is skipped too: the claim's plan without a table."""
    facts = replace(HEALTHY, table=TableFacts("jobs", exists=False))
    statuses = {one.id: one.status for one in audit(facts).results}
    assert {id_ for id_, status in statuses.items() if status == "skipped"} == TABLE_CHECKS


def test_a_check_that_crashes_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    """An exception in one check is reported as unknown, and the others run."""

    def broken(_facts: Facts) -> Any:
        raise ZeroDivisionError("oh")

    check = Check("sql-mode", "t", "warning", "w", broken, how="h", cure="c")
    monkeypatch.setitem(BY_ID, "sql-mode", check)
    found = audit(HEALTHY, ["sql-mode", "clock"])
    assert isinstance(found, Audit)
    assert [one.status for one in found.results] == ["unknown", "pass"]
    assert "ZeroDivisionError: oh" in str(found.results[0].observed)


def test_the_table_says_a_cause_once() -> None:
    """What may not be seen is said at one check and each GRANT printed once; no row is wider than a screen."""
    denied = Unknown(
        "SELECT command denied to user 'a'@'b' for table 'jobs'", "GRANT SELECT ON `app`.`jobs` TO 'a'@'%';"
    )
    names = (
        "table",
        "indexes",
        "plan",
        "clock",
        "drift",
        "links",
        "rows",
        "types",
        "spare",
        "strays",
        "traffic",
        "late",
        "maintenance",
    )
    refusal = f"{denied.reason}, at length: {'x' * 60}"
    grants = [denied.remedy, "GRANT UPDATE …;"]
    access = tuple(
        Access(command, tuple(Missing("", "table", "do", refusal, str(one), optional=False) for one in grants))
        for command in ("archive", "requeue", "promote")
    )
    blind = replace(HEALTHY, **dict.fromkeys(names, denied), access=access)  # type: ignore[arg-type]
    shown = report(audit(blind), "warning")
    rows = {id_: observed for id_, _, observed in shown.tables[1].rows}
    assert rows["storage-engine"] == denied.reason
    assert {rows[id_] for id_ in TABLE_CHECKS - {"privileges"}} == {"as storage-engine"}
    assert max(len(observed) for observed in rows.values()) <= 120
    text = "\n".join(shown.lines)
    assert [text.count(line) for line in (*map(str, grants), refusal)] == [1, 1, 1]
    assert f"archive, requeue, promote cannot do: {refusal}" in text


def test_every_prerequisite_exists_and_severities_are_known() -> None:
    """Checks rest on checks that there are, ids are unique, and each can be told from its id."""
    assert len(BY_ID) == len(CHECKS)
    for check in CHECKS:
        assert check.severity in {"warning", "critical"}
        assert set(check.after) <= set(BY_ID)
    assert passed("a", "b").status == "pass"


@pytest.mark.parametrize(("schema", "table"), [("jobs-prod", "my jobs"), ("q%d`s", "a.b%s`:x"), ("select", "order")])
def test_names_that_need_quoting(own_server: Any, tmp_path: Path, schema: str, table: str) -> None:
    """Names with spaces, quotes, percent signs and reserved words go through doctor, its remedies and health."""
    config = str(write_config(tmp_path, f'[queues.odd]\ntable = "{table}"\n'))
    with fresh_database(own_server, name=schema) as database:
        quoted = replace(database, name=quote(schema, safe=""))
        assert run_here("init", "--url", quoted.url, "--config", config, "--quiet").code == 0
        database.execute(f"DROP INDEX claim_idx ON `{table.replace('`', '``')}`")
        document = examine(quoted, "--config", config)
        assert findings(document) == {"claim-index": "critical", "claim-plan": "skipped"}
        cure(database, document, "claim-index")
        assert findings(examine(quoted, "--config", config)) == {}
        ran = run_here("health", "--url", quoted.url, "--config", config, "--format", "json")
        assert ran.json["depth"]["pending"] == 0
