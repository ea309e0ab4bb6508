"""A reading of the queue is exact or says that it is not, bounded, and ends in findings with a next command."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from dev.server import private_server
from qops.health import depth
from tests.accounts import account
from tests.conftest import Database, Ran, fresh_database, run_here, run_process, wait_until
from tests.queues import ARTICLE, ARTICLE_TOML, GUIDE, GUIDE_TOML, RECIPE, RECIPE_TOML, fill, init, write_config

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

KEYS = {
    "verdict": None,
    "queue": None,
    "taken_at": None,
    "paused": None,
    "depth": {"pending", "ready", "delayed", "running", "expired", "failed", "done"},
    "oldest_ready_seconds": None,
    "longest_running_seconds": None,
    "throughput": {"claimed_per_minute", "finished_per_minute"},
    "purge": {"unpurged_transactions", "history_list_length", "read_views", "oldest_view_seconds", "blocker"},
    "locks": {"waiting", "longest_wait_seconds"},
    "archive": {"last_success_at", "last_outcome"},
    "size": {"table_bytes", "index_bytes", "free_bytes"},
    "findings": None,
    "unknown": None,
}
GUIDE_ROWS = """
INSERT INTO jobs (status, payload, lease_until) VALUES
  ('pending', '1', NULL), ('running', '1', NOW(6) - INTERVAL 1 SECOND), ('done', '1', NULL), ('failed', '1', NULL)
"""
ARTICLE_ROWS = """
INSERT INTO job_queue (id, payload, status, available_at, lease_until) VALUES
  (1, '1', 'ready', UTC_TIMESTAMP() - INTERVAL 1 MINUTE, NULL),
  (2, '1', 'ready', UTC_TIMESTAMP() + INTERVAL 1 HOUR, NULL),
  (3, '1', 'processing', UTC_TIMESTAMP(), UTC_TIMESTAMP() - INTERVAL 1 MINUTE),
  (4, '1', 'ready', '2041-01-01', NULL)
"""
NOTHING = {"pending": 0, "ready": 0, "delayed": 0, "running": 0, "expired": 0, "failed": 0, "done": 0}


@pytest.fixture
def queue(database: Database) -> Database:
    init(database)
    return database


def read(database: Database, *options: str) -> dict[str, Any]:
    """Return the JSON document of a reading."""
    ran = run_here("health", "--url", database.url, "--format", "json", *options)
    assert "error" not in ran.json, ran.out
    document: dict[str, Any] = ran.json
    return document


def findings(document: dict[str, Any]) -> dict[str, str]:
    return {finding["id"]: finding["level"] for finding in document["findings"]}


def needs(document: dict[str, Any]) -> dict[str, str]:
    return {one["metric"]: one["needs"] for one in document["unknown"]}


@contextmanager
def holding(database: Database, *statements: str) -> Iterator[Any]:
    """Yield a session that ran `statements` in a transaction and keeps it open."""
    connection = database.connect()
    try:
        with connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
                cursor.fetchall()
        yield connection
    finally:
        connection.close()


@contextmanager
def waiting(database: Database, statement: str) -> Iterator[int]:
    """Yield the connection id of a session that waits in `statement` for something another holds."""
    connection = database.connect()
    pid = connection.thread_id()

    def run() -> None:
        try:
            with connection.cursor() as cursor:
                cursor.execute("SET SESSION lock_wait_timeout = 60, innodb_lock_wait_timeout = 60")
                cursor.execute(statement)
        except Exception:  # noqa: BLE001, S110 - it is killed at the end
            pass

    thread = threading.Thread(target=run)
    thread.start()
    state = "SELECT state FROM performance_schema.processlist WHERE id = %s"
    try:
        wait_until(
            lambda: database.value(state, (pid,)) not in {"", None, "starting", "init"},
            what="the wait",
        )
        yield pid
    finally:
        database.execute(f"KILL {pid}")
        thread.join()
        connection.close()


def test_the_document_has_the_documented_keys(queue: Database, qops: Callable[..., Ran]) -> None:
    """Every documented key is there, whatever could be measured."""
    ran = qops("health", "--format", "json", "--fail-on", "never")
    assert ran.code == 0
    assert set(ran.json) == set(KEYS)
    for key, inner in KEYS.items():
        if inner:
            assert set(ran.json[key]) == inner
    assert ran.json["queue"] == "jobs"
    assert ran.json["taken_at"].endswith("Z")
    assert ran.json["paused"] is False
    assert ran.json["depth"] == NOTHING
    assert ran.json["oldest_ready_seconds"] is None
    assert ran.json["size"]["table_bytes"] > 0


def test_a_new_queue_on_a_quiet_server_is_ok() -> None:
    """A fresh queue has no finding, and what can be known is known: exit 0."""
    with private_server() as server, fresh_database(server) as database:
        init(database)
        ran = run_here("health", "--url", database.url, "--format", "json")
        assert (ran.json["verdict"], ran.json["findings"], ran.code) == ("ok", [], 0)
        assert set(needs(ran.json)) == {"throughput"}
        quiet = run_process("health", "--quiet", url=database.url)
        assert (quiet.code, quiet.out, quiet.err) == (0, "", "")


def test_depth_is_exact_at_once(queue: Database) -> None:
    """Statistics that are a day old do not matter: counts follow every change."""
    queue.execute("ANALYZE TABLE jobs")
    assert read(queue)["depth"]["ready"] == 0
    fill(queue, 5000)
    assert read(queue)["depth"]["ready"] == 5000
    queue.execute("DELETE FROM jobs ORDER BY id LIMIT 4000")
    document = read(queue)
    assert (document["depth"]["ready"], document["depth"]["pending"]) == (1000, 1000)


def test_each_state_is_counted_as_documented(queue: Database) -> None:
    """Delayed are scheduled jobs and pending ones of the future; expired jobs are running ones as well."""
    fill(queue, 3)
    fill(queue, 4, available_at="NOW(6) + INTERVAL 1 HOUR")
    fill(queue, 5, status="'scheduled'", available_at="NOW(6) + INTERVAL 1 HOUR")
    fill(queue, 6, status="'running'", lease_until="NOW(6) + INTERVAL 1 HOUR")
    fill(queue, 7, status="'running'", lease_until="NOW(6) - INTERVAL 1 SECOND")
    fill(queue, 8, status="'failed'", finished_at="NOW(6)")
    fill(queue, 9, status="'done'", finished_at="NOW(6)")
    assert read(queue)["depth"] == {
        "pending": 7,
        "ready": 3,
        "delayed": 9,
        "running": 13,
        "expired": 7,
        "failed": 8,
        "done": 9,
    }


def test_ages_are_those_of_the_oldest_by_the_servers_clock(queue: Database) -> None:
    """The oldest ready job counts from when it could be claimed; a delayed one has not begun to wait."""
    fill(queue, 3, available_at="NOW(6) - INTERVAL n * 100 SECOND")
    fill(queue, 1, available_at="NOW(6) + INTERVAL 1 HOUR", created_at="NOW(6) - INTERVAL 1 DAY")
    fill(queue, 1, status="'running'", lease_until="NOW(6)+INTERVAL 1 HOUR", available_at="NOW(6)-INTERVAL 50 SECOND")
    document = read(queue)
    assert 300 <= document["oldest_ready_seconds"] < 330
    assert 50 <= document["longest_running_seconds"] < 80


def test_a_count_that_stops_at_its_bound_says_so(queue: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exactly as many as the bound is exact; one more is "at least"."""
    monkeypatch.setattr(depth, "BOUND", 50)
    fill(queue, 50, status="'done'", finished_at="NOW(6)")
    fill(queue, 51)
    assert read(queue)["depth"] | {"done": 50, "ready": {"at_least": 50}, "pending": {"at_least": 50}} == {
        **NOTHING,
        "done": 50,
        "ready": {"at_least": 50},
        "pending": {"at_least": 50},
    }


@pytest.mark.parametrize("index", [True, False], ids=["timed index", "claim index only"])
def test_delayed_jobs_do_not_turn_a_reading_into_a_scan(
    queue: Database, monkeypatch: pytest.MonkeyPatch, *, index: bool
) -> None:
    """With thousands of delayed jobs on top, the rows examined stay near the bound, and nothing is invented."""
    monkeypatch.setattr(depth, "BOUND", 100)
    fill(queue, 8000, priority="9", available_at="NOW(6) + INTERVAL 1 HOUR")
    fill(queue, 2, priority="1")
    if not index:
        queue.execute("DROP INDEX available_idx ON jobs")
    before = examined(queue)
    document = read(queue)
    assert examined(queue) - before < 3000
    if index:
        assert document["depth"]["ready"] == 2
        assert document["oldest_ready_seconds"] is not None
    else:
        assert document["depth"]["ready"] is None
        assert document["oldest_ready_seconds"] is None
        assert {"depth.ready", "oldest_ready_seconds"} <= set(needs(document))
    assert document["depth"]["delayed"] == {"at_least": 100}


def examined(database: Database) -> int:
    """Return how many rows all statements in this schema have examined so far."""
    return int(
        database.value(
            "SELECT COALESCE(SUM(sum_rows_examined), 0) FROM performance_schema.events_statements_summary_by_digest "
            "WHERE schema_name = %s AND digest_text LIKE 'SELECT `anon%%'",
            (database.name,),
        )
    )


@pytest.mark.parametrize(
    ("table", "config", "insert", "expected", "lacking"),
    [
        (
            GUIDE,
            GUIDE_TOML,
            GUIDE_ROWS,
            {"pending": 1, "ready": 1, "delayed": None, "running": 1, "expired": 1, "failed": 1, "done": 1},
            {"depth.delayed", "oldest_ready_seconds", "longest_running_seconds"},
        ),
        (
            RECIPE,
            RECIPE_TOML,
            "INSERT INTO jobs VALUES (1,'a','done'), (2,'b','queued'), (3,'c','queued')",
            {"pending": 2, "ready": 2, "delayed": None, "running": None, "expired": None, "failed": None, "done": 1},
            {"depth.delayed", "depth.running", "depth.expired", "depth.failed", "oldest_ready_seconds"},
        ),
        (
            ARTICLE,
            ARTICLE_TOML,
            ARTICLE_ROWS,
            {"pending": 3, "ready": 1, "delayed": 2, "running": 1, "expired": 1, "failed": None, "done": 0},
            {"depth.failed"},
        ),
    ],
    ids=["guide", "recipe", "article"],
)
def test_queues_of_the_field_are_read_by_configuration_alone(
    database: Database,
    tmp_path: Path,
    table: str,
    config: str,
    insert: str,
    expected: dict[str, Any],
    lacking: set[str],
) -> None:
    """Numbers that the queue can have are there; of the others it says which role or state it lacks."""
    database.execute(table)
    database.execute(insert)
    document = read(database, "--config", str(write_config(tmp_path, config)))
    assert document["depth"] == expected
    missing = {metric: text for metric, text in needs(document).items() if metric in lacking}
    assert set(missing) == lacking
    assert all("does not have" in text for text in missing.values())
    assert document["verdict"] != "unknown"
    assert needs(document)["paused"].endswith("qops init")


def test_without_an_index_on_the_state_only_the_newest_rows_are_read(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A small table is counted exactly; in a large one what was not seen is unknown, not zero."""
    database.execute(RECIPE.replace(", KEY (state, id)", ""))
    values = ", ".join(f"({n}, 't', '{'done' if n <= 90 else 'queued'}')" for n in range(1, 101))
    database.execute(f"INSERT INTO jobs VALUES {values}")
    config = str(write_config(tmp_path, RECIPE_TOML))
    assert read(database, "--config", config)["depth"]["done"] == 90
    monkeypatch.setattr(depth, "BOUND", 5)
    document = read(database, "--config", config)
    assert document["depth"]["ready"] == {"at_least": 5}
    assert document["depth"]["done"] is None
    assert "begins with 'state'" in needs(document)["depth.done"]
    assert document["verdict"] == "unknown"


def test_several_values_of_a_state_are_added_up(database: Database, tmp_path: Path) -> None:
    """A state that is written as two values is counted over both."""
    database.execute(RECIPE)
    database.execute("INSERT INTO jobs VALUES (1,'a','done'), (2,'b','gone'), (3,'c','gone'), (4,'d','queued')")
    config = write_config(tmp_path, RECIPE_TOML.replace('done = "done"', 'done = ["done", "gone"]'))
    assert read(database, "--config", str(config))["depth"]["done"] == 3


def test_a_datetime_without_a_clock_is_refused(database: Database, tmp_path: Path) -> None:
    """A DATETIME is not compared with the clock before somebody says what it means: exit 78 with the choice."""
    database.execute(ARTICLE)
    config = write_config(tmp_path, ARTICLE_TOML.replace('clock = "utc"\n', ""))
    ran = run_here("health", "--url", database.url, "--config", str(config), "--format", "json")
    assert ran.code == 78
    assert "clock" in ran.json["error"]["message"]


def test_zero_dates_do_no_harm(queue: Database) -> None:
    """A zero date has no age, and nothing fails."""
    fill(queue, 1)
    queue.execute("SET SESSION sql_mode = ''")
    queue.execute("UPDATE jobs SET finished_at = 0, available_at = 0, lease_until = 0")
    document = read(queue)
    assert document["depth"]["ready"] == 1
    assert document["oldest_ready_seconds"] is None


def test_findings_say_what_to_type(queue: Database, qops: Callable[..., Ran]) -> None:
    """Old, expired and many failed jobs are findings by the default thresholds, with the command that helps."""
    fill(queue, 1, available_at="NOW(6) - INTERVAL 2 HOUR")
    fill(queue, 1, status="'running'", lease_until="NOW(6) - INTERVAL 1 SECOND")
    fill(queue, 100, status="'failed'")
    ran = qops("health", "--format", "json")
    assert (ran.code, ran.json["verdict"]) == (2, "critical")
    wanted = {"oldest-ready": "critical", "expired": "warning", "failed": "warning"}
    assert wanted.items() <= findings(ran.json).items()
    text = {finding["id"]: finding["message"] for finding in ran.json["findings"]}
    assert text["expired"].endswith("qops requeue --expired")
    assert "qops requeue --failed" in text["failed"]
    assert "oldest-ready" in qops("health").out


def test_thresholds_are_configured(queue: Database, tmp_path: Path) -> None:
    """A threshold in [health] replaces the default, and false turns it off."""
    fill(queue, 5, available_at="NOW(6) - INTERVAL 10 MINUTE")
    config = write_config(
        tmp_path, "[health]\nready = 5\nready_critical = 6\noldest_ready = false\noldest_ready_critical = false\n"
    )
    found = findings(read(queue, "--config", str(config)))
    assert found.get("ready") == "warning"
    assert "oldest-ready" not in found


@pytest.mark.parametrize(
    ("line", "part"),
    [
        ("oldest_redy = '5m'", "oldest_ready"),
        ("oldest_ready = 5", "90s"),
        ("oldest_ready = '5 minutes'", "duration"),
        ("failed = '5'", "whole number"),
    ],
)
def test_a_wrong_threshold_is_refused(queue: Database, tmp_path: Path, line: str, part: str) -> None:
    """An unknown key names the nearest, a wrong value says what it must be: exit 78."""
    config = write_config(tmp_path, f"[health]\n{line}\n")
    ran = run_here("health", "--url", queue.url, "--config", str(config), "--format", "json")
    assert ran.code == 78
    assert part in ran.json["error"]["message"]


@pytest.mark.parametrize(("fail_on", "code"), [("warning", 1), ("critical", 0), ("never", 0)])
def test_fail_on_decides_what_counts(queue: Database, tmp_path: Path, fail_on: str, code: int) -> None:
    """A warning is exit 1 unless only critical findings, or none, shall count."""
    fill(queue, 1, status="'running'", lease_until="NOW(6) - INTERVAL 1 SECOND")
    config = str(write_config(tmp_path, "[health]\nread_view = false\n"))
    ran = run_here(
        "health", "--url", queue.url, "--config", config, "--fail-on", fail_on, "--format", "json", "--quiet"
    )
    assert (ran.code, ran.json["verdict"]) == (code, "warning")


def test_an_unknown_level_is_a_usage_error(qops: Callable[..., Ran]) -> None:
    """`--fail-on sometimes` is exit 64."""
    assert qops("health", "--fail-on", "sometimes").code == 64


def test_a_pause_and_the_archivers_runs_are_shown(queue: Database, qops: Callable[..., Ran]) -> None:
    """The brake is a warning; a run that went well is the last success, a later one that did not is a finding."""
    assert qops("archive").code == 0
    document = read(queue)
    assert document["archive"]["last_outcome"] == "done"
    success = document["archive"]["last_success_at"]
    assert success.endswith("Z")
    assert qops("pause", "--reason", "migration").code == 0
    fill(queue, 1, status="'done'", finished_at="NOW(6)")
    assert qops("archive").code == 75
    document = read(queue)
    assert document["paused"] is True
    assert findings(document)["paused"] == "warning"
    assert "migration" in str(document["findings"])
    assert document["archive"] == {"last_success_at": success, "last_outcome": "paused"}
    assert "archive" not in findings(document)  # that a run stopped is what a pause is for
    assert qops("resume").code == 0
    assert read(queue)["paused"] is False
    queue.execute("UPDATE qops_runs SET outcome = 'error' WHERE command = 'archive' ORDER BY id DESC LIMIT 1")
    assert findings(read(queue))["archive"] == "warning"


def test_a_row_lock_wait_on_this_queue_is_counted_and_others_are_not(queue: Database) -> None:
    """Who waits for a row of the queue's table is seen; who waits for another table is not this queue's trouble."""
    fill(queue, 2)
    queue.execute("CREATE TABLE other (id INT PRIMARY KEY)")
    queue.execute("INSERT INTO other VALUES (1)")
    with (
        holding(queue, "SELECT * FROM other FOR UPDATE"),
        waiting(queue, "SELECT * FROM other FOR UPDATE"),
    ):
        assert read(queue)["locks"] == {"waiting": 0, "longest_wait_seconds": None}
        with (
            holding(queue, "SELECT * FROM jobs WHERE id = 1 FOR UPDATE"),
            waiting(queue, "UPDATE jobs SET priority = 3 WHERE id = 1"),
            waiting(queue, "UPDATE jobs SET priority = 4 WHERE id = 1"),
        ):
            wait_until(lambda: read(queue)["locks"]["waiting"] == 2, what="two waiters")
            assert read(queue)["locks"]["longest_wait_seconds"] > 0


def test_a_pending_alter_is_reported_within_seconds(queue: Database, tmp_path: Path) -> None:
    """Behind a waiting ALTER the reading ends, says what it could not read and why, and counts the waiters."""
    fill(queue, 1)
    config = write_config(tmp_path, "[health]\nmetadata_lock_wait = '0s'\n")
    with holding(queue, "SELECT * FROM jobs"), waiting(queue, "ALTER TABLE jobs ADD COLUMN x INT"):
        ran = run_process("health", "--format", "json", "--config", str(config), url=queue.url, timeout=20)
    assert ran.json["depth"]["pending"] is None
    assert "metadata lock" in needs(ran.json)["depth"]
    assert ran.json["locks"]["waiting"] >= 1
    assert findings(ran.json)["metadata-lock-wait"] == "warning"
    assert ran.code == 1


def test_an_account_without_process_is_told_the_grant(queue: Database) -> None:
    """Without PROCESS purge is unknown and the rest is read; the GRANT as printed makes it known."""
    with account(queue, "SELECT ON {db}.*", "SELECT ON performance_schema.*") as limited:
        document = read(limited)
        assert document["purge"]["unpurged_transactions"] is None
        assert document["depth"] == NOTHING
        assert document["locks"]["waiting"] == 0
        queue.execute(needs(document)["purge"].removesuffix(";"))
        assert read(limited)["purge"]["unpurged_transactions"] is not None


def test_an_account_without_performance_schema_is_told_the_grant(queue: Database) -> None:
    """With PROCESS alone locks are unknown, not zero; the GRANT as printed makes them known."""
    with account(queue, "SELECT ON {db}.*", "PROCESS ON *.*") as limited:
        ran = run_here("health", "--url", limited.url, "--format", "json")
        assert ran.code == 1
        assert ran.json["locks"] == {"waiting": None, "longest_wait_seconds": None}
        assert ran.json["purge"]["unpurged_transactions"] is not None
        queue.execute(needs(ran.json)["locks"].removesuffix(";"))
        assert read(limited)["locks"]["waiting"] == 0


def test_an_account_that_may_not_read_the_ledger_is_told_the_grant(queue: Database) -> None:
    """Whether the queue is paused is then unknown, not "no"."""
    with account(queue, "SELECT ON {db}.jobs", "PROCESS ON *.*", "SELECT ON performance_schema.*") as limited:
        document = read(limited)
        assert document["paused"] is None
        assert f"GRANT SELECT ON `{queue.name}`.`qops_runs`" in needs(document)["paused"]
        assert document["verdict"] in {"unknown", "warning"}


def test_an_account_that_may_not_read_the_table_gets_the_grant(queue: Database) -> None:
    """Without SELECT on the queue's table there is nothing to say: exit 77 with the GRANT."""
    with account(queue, "SELECT ON {db}.jobs_archive") as limited:
        ran = run_here("health", "--url", limited.url, "--format", "json")
    assert ran.code == 77
    assert f"GRANT SELECT ON `{queue.name}`.`jobs` TO" in ran.json["error"]["message"]


def test_without_performance_schema_nothing_is_taken_for_zero() -> None:
    """Where performance_schema is OFF its tables are empty; lock waits are then unknown."""
    with private_server(options=["--performance-schema=OFF"]) as server, fresh_database(server) as database:
        init(database)
        document = read(database)
        assert document["locks"]["waiting"] is None
        assert "performance_schema = ON" in needs(document)["locks"]
        assert document["verdict"] == "unknown"
        assert document["depth"] == NOTHING


def test_free_space_is_explained(database: Database) -> None:
    """Archived rows leave a large file with free space: a notice says why and how to rebuild it; nothing does it.

    The verdict is none the worse.
    """
    init(database)
    database.execute("ALTER TABLE jobs ADD blob_data LONGBLOB")
    for _ in range(5):
        fill(database, 400, blob_data="REPEAT('x', 50000)", status="'done'")
    database.execute("ALTER TABLE jobs_archive ADD blob_data LONGBLOB")
    database.execute("ANALYZE TABLE jobs")
    assert run_here("archive", "--url", database.url, "--quiet").code == 0
    wait_until(lambda: "free-space" in findings(read(database)), what="purge and InnoDB's statistics", seconds=60)
    document = read(database)
    assert findings(document)["free-space"] == "notice"
    (message,) = (finding["message"] for finding in document["findings"] if finding["id"] == "free-space")
    assert "does not shrink" in message
    assert message.endswith("OPTIMIZE TABLE `jobs`;")
    database.rows(message.rsplit(": ", 1)[1])
    assert read(database)["size"]["free_bytes"] < 16 * 1024 * 1024


def test_a_reading_leaves_nothing_open(queue: Database) -> None:
    """While a reading is idle between two statements, it has no transaction and so no read view."""
    with queue.server().observe() as connection:
        reading = depth.measure_table(connection, queue.queue())
        assert reading.depth.pending == 0
        pid = connection.exec_driver_sql("SELECT CONNECTION_ID()").scalar_one()
        open_ones = queue.rows("SELECT trx_mysql_thread_id FROM information_schema.innodb_trx")
    assert (pid,) not in open_ones


def test_a_restricted_account_sets_nothing_global_or_privileged() -> None:
    """The server's log of a reading has no SET GLOBAL and no session setting that needs a privilege."""
    with private_server() as server, fresh_database(server) as database:
        init(database)
        with account(database, "ALL ON {db}.*", "PROCESS ON *.*", "SELECT ON performance_schema.*") as limited:
            database.execute("SET GLOBAL log_output = 'TABLE'")
            database.execute("SET GLOBAL general_log = ON")
            assert run_here("health", "--url", limited.url).code == 0
            database.execute("SET GLOBAL general_log = OFF")
            sent = [
                str(text)
                for (text,) in database.rows(
                    "SELECT CONVERT(argument USING utf8mb4) FROM mysql.general_log WHERE user_host LIKE %s",
                    (f"{limited.user}%",),
                )
            ]
    assert any("information_schema_stats_expiry" in text for text in sent)
    for text in sent:
        assert "SET GLOBAL" not in text.upper()
        assert "sql_log_bin" not in text
        assert "binlog_format" not in text
