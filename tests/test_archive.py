"""Archiving moves finished jobs unchanged, counts them, and leaves what it must not touch."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from tests.conftest import Database, Ran, run_process, start_process, wait_until
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
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def queue(database: Database) -> Database:
    """Return the default queue with 50 jobs done, 10 pending, 10 running, 10 failed and 10 scheduled."""
    init(database)
    fill(
        database,
        90,
        status="ELT(1 + n % 9, 'done', 'done', 'done', 'done', 'done', 'pending', 'running', 'failed', 'scheduled')",
        priority="n % 5",
        finished_at="IF(n % 9 < 5, NOW(6) - INTERVAL n MINUTE, NULL)",
        last_error="IF(n % 9 = 7, 'boom', NULL)",
    )
    return database


def test_done_jobs_move_unchanged_and_others_stay(queue: Database, qops: Callable[..., Ran]) -> None:
    """Every done job is in the archive, equal in every column, and no other job was touched."""
    before = contents(queue, "jobs")
    done = {id_ for (id_,) in queue.rows("SELECT id FROM jobs WHERE status = 'done'")}
    ran = qops("archive", "--batch", "7", "--pause", "0s", "--format", "json")
    assert ran.code == 0, ran.err
    assert {k: ran.json[k] for k in ("queue", "archived", "batches", "locked", "stopped_by", "refused")} == {
        "queue": "jobs",
        "archived": 50,
        "batches": 8,
        "locked": 0,
        "stopped_by": "done",
        "refused": [],
    }
    assert contents(queue, "jobs_archive") == {id_: row for id_, row in before.items() if id_ in done}
    assert contents(queue, "jobs") == {id_: row for id_, row in before.items() if id_ not in done}


def test_a_second_run_finds_nothing(queue: Database, qops: Callable[..., Ran]) -> None:
    """Archiving twice reports zero the second time."""
    assert qops("archive").code == 0
    assert qops("archive", "--format", "json").json["archived"] == 0


def test_dry_run_counts_what_a_run_moves_and_changes_nothing(queue: Database, qops: Callable[..., Ran]) -> None:
    """The plan's rows equal the next run's on a quiet table; the plan itself changes neither table nor ledger."""
    before = contents(queue, "jobs")
    ran = qops("archive", "--dry-run", "--older-than", "20m", "--format", "json")
    assert ran.code == 0
    plan = ran.json["plan"]
    assert ran.json["archived"] == 0
    assert contents(queue, "jobs") == before
    assert queue.value("SELECT COUNT(*) FROM qops_runs") == 0
    assert plan["oldest"] < plan["newest"]
    assert all("sort" not in line["extra"] for line in plan["explain"])
    real = qops("archive", "--older-than", "20m", "--format", "json").json
    assert real["archived"] == plan["rows"] > 0


def test_age_is_measured_from_the_finish_and_undated_rows_stay(queue: Database, qops: Callable[..., Ran]) -> None:
    """With an age, a job that finished later or at an unknown time stays; the unknown ones are counted (exit 1)."""
    queue.execute("UPDATE jobs SET created_at = NOW(6) - INTERVAL 90 DAY")
    queue.execute("UPDATE jobs SET finished_at = NULL WHERE status = 'done' ORDER BY id LIMIT 3")
    old = queue.value("SELECT COUNT(*) FROM jobs WHERE status = 'done' AND finished_at < NOW(6) - INTERVAL 30 MINUTE")
    ran = qops("archive", "--older-than", "30m", "--format", "json")
    assert (ran.code, ran.json["archived"], ran.json["undated"]) == (1, old, 3)
    assert counts(queue)["running"] == 10
    ran = qops("archive", "--older-than", "0s", "--format", "json")
    assert (ran.code, ran.json["archived"]) == (0, 50 - old)


def test_limit_stops_the_run(queue: Database, qops: Callable[..., Ran]) -> None:
    """`--limit` moves exactly that many."""
    ran = qops("archive", "--limit", "12", "--batch", "5", "--pause", "0s", "--format", "json")
    assert (ran.json["archived"], ran.json["stopped_by"], ran.json["batches"]) == (12, "limit", 3)


def test_failed_jobs_are_archived_when_asked(queue: Database, qops: Callable[..., Ran]) -> None:
    """`--state failed` moves failed jobs and no others."""
    assert qops("archive", "--state", "failed", "--format", "json").json["archived"] == 10
    assert counts(queue) == {"done": 50, "pending": 10, "running": 10, "scheduled": 10}


def test_failed_jobs_that_nobody_will_retry_are_archived_by_age(queue: Database, qops: Callable[..., Ran]) -> None:
    """`--state failed --older-than 30d` moves what failed so long ago, whatever its attempts; the others stay."""
    fill(queue, 40, id="n + 1000", status="IF(n % 2, 'failed', 'done')", finished_at="NOW(6) - INTERVAL n + 10 DAY")
    queue.execute("UPDATE jobs SET attempts = id % 7 WHERE id > 1000")
    before = contents(queue, "jobs")
    ran = qops("archive", "--state", "failed", "--older-than", "30d", "--format", "json")
    assert (ran.json["archived"], ran.json["undated"]) == (10, 10), ran.err
    gone = {id_ for id_ in before if id_ >= 1020 and id_ % 2}
    assert contents(queue, "jobs_archive") == {id_: before[id_] for id_ in gone}


def test_rows_that_another_session_holds_are_passed_over_and_counted(queue: Database, qops: Callable[..., Ran]) -> None:
    """A locked row stays, is counted in `locked`, does not change the exit code, and nobody waits."""
    held = {id_ for (id_,) in queue.rows("SELECT id FROM jobs WHERE status = 'done' ORDER BY id LIMIT 4")}
    holder = queue.connect()
    cursor = holder.cursor()
    for id_ in held:  # one by one: a query that sorts locks all that it reads
        cursor.execute("SELECT id FROM jobs WHERE id = %s FOR UPDATE", (id_,))
    ran = qops("archive", "--format", "json")
    holder.rollback()
    holder.close()
    assert (ran.code, ran.json["archived"], ran.json["locked"]) == (0, 46, 4)
    assert {id_ for (id_,) in queue.rows("SELECT id FROM jobs WHERE status = 'done'")} == held


def test_identical_copies_are_reconciled(queue: Database, qops: Callable[..., Ran]) -> None:
    """After a crash between a copy and a delete by hand, the copies that are identical are completed."""
    queue.execute("INSERT INTO jobs_archive SELECT * FROM jobs WHERE status = 'done' ORDER BY id LIMIT 20")
    before = contents(queue, "jobs")
    ran = qops("archive", "--format", "json")
    assert (ran.code, ran.json["archived"], ran.json["reconciled"]) == (0, 30, 20)
    archived = contents(queue, "jobs_archive")
    assert len(archived) == 50
    assert all(before[id_] == row for id_, row in archived.items())


def test_a_colliding_id_is_refused_and_the_rest_moves(queue: Database, qops: Callable[..., Ran]) -> None:
    """An archive row with the same id and other content, even by case alone, keeps its job in the queue (exit 1)."""
    queue.execute("INSERT INTO jobs_archive SELECT * FROM jobs WHERE status = 'done' ORDER BY id LIMIT 1")
    queue.execute("UPDATE jobs SET last_error = 'Boom' WHERE status = 'done' ORDER BY id LIMIT 1")
    queue.execute("UPDATE jobs_archive SET last_error = 'boom'")
    ran = qops("archive", "--format", "json")
    assert (ran.code, ran.json["archived"]) == (1, 49)
    ((kept,),) = queue.rows("SELECT id FROM jobs WHERE status = 'done'")
    assert [row["id"] for row in ran.json["refused"]] == [kept]


def test_a_trigger_that_objects_costs_only_its_row(queue: Database, qops: Callable[..., Ran]) -> None:
    """A BEFORE DELETE trigger that raises for one id: that row is refused with the trigger's words, 49 move."""
    target = queue.value("SELECT id FROM jobs WHERE status = 'done' ORDER BY id LIMIT 1 OFFSET 20")
    queue.execute(
        "CREATE TRIGGER keep BEFORE DELETE ON jobs FOR EACH ROW IF OLD.id = "
        f"{target} THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'needed by accounting'; END IF"
    )
    ran = qops("archive", "--format", "json")
    assert (ran.code, ran.json["archived"]) == (1, 49)
    assert ran.json["refused"][0]["id"] == target
    assert "needed by accounting" in ran.json["refused"][0]["reason"]
    assert queue.value("SELECT COUNT(*) FROM jobs_archive WHERE id = %s", [target]) == 0


@pytest.mark.parametrize("effect", ["CASCADE", "SET NULL"])
def test_children_that_a_delete_would_change_refuse_the_run(
    queue: Database, qops: Callable[..., Ran], effect: str
) -> None:
    """A cascading child, even in another schema, refuses the run (78) until --allow-cascade."""
    other = f"{queue.name}_other"
    queue.execute(f"CREATE DATABASE `{other}`")
    try:
        queue.execute(
            f"CREATE TABLE `{other}`.child (id INT PRIMARY KEY, job BIGINT UNSIGNED, "
            f"FOREIGN KEY (job) REFERENCES `{queue.name}`.jobs (id) ON DELETE {effect})"
        )
        for options in ((), ("--dry-run",)):
            ran = qops("archive", "--format", "json", *options)
            assert ran.code == 78
            assert f"{other}/child" in ran.json["error"]["message"]
        assert counts(queue)["done"] == 50
        assert qops("archive", "--allow-cascade", "--format", "json").json["archived"] == 50
    finally:
        queue.execute(f"DROP DATABASE `{other}`")


def test_an_account_that_cannot_see_children_is_told_so(queue: Database, qops: Callable[..., Ran]) -> None:
    """Without PROCESS and without SELECT on everything: 77 with the GRANT, unless --assume-no-children."""
    user = f"u{queue.name}"
    queue.execute(f"CREATE USER '{user}'@'%' IDENTIFIED BY 'pw'")
    try:
        queue.execute(f"GRANT ALL ON `{queue.name}`.* TO '{user}'@'%'")
        url = f"mysql://{user}:pw@{queue.host}:{queue.port}/{queue.name}"
        ran = qops("archive", "--url", url, "--format", "json")
        assert ran.code == 77
        assert f"GRANT PROCESS ON *.* TO '{user}'@'%';" in ran.json["error"]["message"]
        assert counts(queue)["done"] == 50
        assert qops("archive", "--url", url, "--assume-no-children", "--limit", "9").code == 0
        queue.execute(f"GRANT SELECT ON *.* TO '{user}'@'%'")
        assert qops("archive", "--url", url, "--format", "json").json["archived"] == 41
    finally:
        queue.execute(f"DROP USER '{user}'@'%'")


def test_a_restricting_child_costs_only_its_row(queue: Database, qops: Callable[..., Ran]) -> None:
    """A child row with ON DELETE RESTRICT keeps its parent; the others are archived."""
    target = queue.value("SELECT id FROM jobs WHERE status = 'done' ORDER BY id LIMIT 1 OFFSET 20")
    queue.execute(
        "CREATE TABLE child (id INT PRIMARY KEY, job BIGINT UNSIGNED NOT NULL, "
        "CONSTRAINT needs FOREIGN KEY (job) REFERENCES jobs (id) ON DELETE RESTRICT)"
    )
    queue.execute("INSERT INTO child VALUES (1, %s)", [target])
    ran = qops("archive", "--format", "json")
    assert (ran.code, ran.json["archived"]) == (1, 49)
    assert "needs" in ran.json["refused"][0]["reason"]


@pytest.mark.parametrize(
    ("change", "names"),
    [
        ("MODIFY last_error VARCHAR(10)", "last_error"),
        ("DROP COLUMN attempts", "attempts"),
        ("MODIFY last_error TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci", "last_error"),
        ("MODIFY finished_at TIMESTAMP(6) NOT NULL", "finished_at"),
    ],
)
def test_an_archive_that_would_change_data_refuses_the_run(
    queue: Database, qops: Callable[..., Ran], change: str, names: str
) -> None:
    """A missing, narrower, differently collated or stricter column: exit 78 naming it, and nothing moved."""
    queue.execute(f"ALTER TABLE jobs_archive {change}")
    ran = qops("archive", "--format", "json")
    assert ran.code == 78
    assert ran.json["error"]["kind"] == "configuration"
    assert names in ran.json["error"]["message"]
    assert counts(queue)["done"] == 50


def test_generated_columns_are_not_written(queue: Database, qops: Callable[..., Ran]) -> None:
    """A generated column on both sides is skipped; one generated here and plain there is copied."""
    queue.execute(
        "ALTER TABLE jobs ADD day DATE GENERATED ALWAYS AS (DATE(created_at)) STORED, ADD n INT AS (priority + 1)"
    )
    queue.execute("ALTER TABLE jobs_archive ADD day DATE GENERATED ALWAYS AS (DATE(created_at)) STORED, ADD n INT")
    assert qops("archive", "--format", "json").json["archived"] == 50
    assert queue.value("SELECT COUNT(*) FROM jobs_archive WHERE day IS NOT NULL AND n = priority + 1") == 50


@pytest.mark.parametrize(
    ("definition", "value"),
    [
        ("BLOB", "UNHEX(CONCAT(REPEAT('00FF80C3', 15000)))"),
        ("TEXT", "CONCAT('😀', 'ﬁ', CHAR(0), 'שלום', 'bar ')"),
        ("JSON", """'{"a": 6.02214076e23, "b": 1.0, "c": 9007199254740993, "d": {"é": "😀"}}'"""),
        ("TIMESTAMP(3)", "'2026-11-01 05:30:00.123'"),
        ("DOUBLE", "0.1e0 + 0.2e0"),
        ("BIT(5)", "b'10101'"),
    ],
)
def test_values_arrive_byte_by_byte(queue: Database, qops: Callable[..., Ran], definition: str, value: str) -> None:
    """Binary, text, JSON, time and number values are equal by HEX before and after."""
    for table in ("jobs", "jobs_archive"):
        queue.execute(f"ALTER TABLE {table} ADD extra {definition} INVISIBLE")
    queue.execute(f"UPDATE jobs SET extra = {value}")
    query = "SELECT DISTINCT HEX(CAST(extra AS CHAR)), HEX(CAST(extra AS BINARY)) FROM {}"
    before = queue.rows(query.format("jobs"))
    ran = qops("archive")
    assert (ran.code, ran.err) == (0, "")
    assert queue.rows(query.format("jobs_archive")) == before


def test_zero_dates_and_zero_ids_are_kept_as_they_are(queue: Database, qops: Callable[..., Ran]) -> None:
    """A finish time of 0000-00-00 and a job with the id 0 arrive unchanged."""
    queue.execute("SET SESSION sql_mode = 'NO_AUTO_VALUE_ON_ZERO'")
    queue.execute(
        "UPDATE jobs SET id = 0, finished_at = '0000-00-00 00:00:00' WHERE status = 'done' ORDER BY id LIMIT 1"
    )
    assert qops("archive", "--format", "json").json["archived"] == 50
    assert (
        queue.value("SELECT CAST(finished_at AS CHAR) FROM jobs_archive WHERE id = 0") == "0000-00-00 00:00:00.000000"
    )


def test_the_brake_stops_the_run(queue: Database, qops: Callable[..., Ran]) -> None:
    """While the queue is paused nothing moves (exit 75, `paused`); after resume it does."""
    assert qops("pause", "--reason", "incident 7").code == 0
    ran = qops("archive", "--format", "json")
    assert (ran.code, ran.json["archived"], ran.json["stopped_by"]) == (75, 0, "paused")
    assert "incident 7" in ran.json["error"]["message"]
    assert qops("resume").code == 0
    assert qops("archive", "--format", "json").json["archived"] == 50


def test_a_pause_that_has_run_out_stops_nothing(queue: Database, qops: Callable[..., Ran]) -> None:
    """A pause with an end is over by the server's clock, without resume."""
    assert qops("pause", "--for", "200ms").code == 0
    wait_until(lambda: qops("archive", "--format", "json").json["archived"] == 50)


def test_every_run_is_one_entry_in_the_ledger(queue: Database, qops: Callable[..., Ran]) -> None:
    """A run leaves one closed entry with its counts; a run that found nothing leaves one as well."""
    qops("archive")
    qops("archive")
    entries = queue.rows(
        "SELECT command, outcome, summary->>'$.archived', finished_at IS NOT NULL FROM qops_runs ORDER BY id"
    )
    assert entries == [("archive", "done", "50", 1), ("archive", "done", "0", 1)]


def test_without_a_ledger_the_run_works_and_says_so(queue: Database, qops: Callable[..., Ran]) -> None:
    """Where qops_runs does not exist, jobs are archived, with a warning on stderr."""
    queue.execute("DROP TABLE qops_runs")
    ran = qops("archive", "--format", "json")
    assert (ran.code, ran.json["archived"]) == (0, 50)
    assert "qops_runs" in ran.err


def test_an_account_without_delete_gets_the_grant(queue: Database, qops: Callable[..., Ran]) -> None:
    """A missing privilege is exit 77, and the GRANT that is printed makes the next run work."""
    user = f"u{queue.name}"
    queue.execute(f"CREATE USER '{user}'@'%' IDENTIFIED BY 'pw'")
    try:
        queue.execute(f"GRANT SELECT ON jobs TO '{user}'@'%'")
        queue.execute(f"GRANT SELECT ON jobs_archive TO '{user}'@'%'")
        url = f"mysql://{user}:pw@{queue.host}:{queue.port}/{queue.name}"
        ran = qops("archive", "--url", url, "--format", "json")
        assert ran.code == 77, ran.err
        assert counts(queue)["done"] == 50
        grants = [line for line in ran.json["error"]["message"].splitlines() if line.startswith("GRANT")]
        for grant in grants:
            queue.execute(grant.removesuffix(";"))
        assert qops("archive", "--url", url, "--format", "json").json["archived"] == 50
    finally:
        queue.execute(f"DROP USER '{user}'@'%'")


def test_purge_lag_is_waited_for_within_a_bound(queue: Database, qops: Callable[..., Ran]) -> None:
    """With a read view held open, a limit that is exceeded stops the run after --max-wait: 75, nothing archived."""
    holder = queue.connect()
    cursor = holder.cursor()
    cursor.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT")
    for _ in range(40):
        queue.execute("UPDATE jobs SET priority = priority + 1 WHERE status = 'pending'")
    ran = qops("archive", "--max-purge-lag", "5", "--max-wait", "300ms", "--format", "json")
    holder.rollback()
    holder.close()
    assert (ran.code, ran.json["archived"], ran.json["stopped_by"]) == (75, 0, "throttle")
    assert ran.json["throttles"][0]["reason"] == "purge-lag"
    assert ran.json["throttled_seconds"] >= 0.2


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_settles_the_batch_and_prints_the_summary(queue: Database, signum: signal.Signals) -> None:
    """A signal during a pause between batches ends the run at once with 128 + n, and the summary is printed."""
    process = start_process("archive", "--batch", "5", "--pause", "60s", "--format", "json", url=queue.url)
    wait_until(lambda: queue.value("SELECT COUNT(*) FROM jobs_archive") == 5)
    process.send_signal(signum)
    out, err = process.communicate(timeout=20)
    ran = Ran(process.returncode, out, err)
    assert (ran.code, ran.json["archived"], ran.json["stopped_by"]) == (128 + signum, 5, "signal")
    assert queue.rows("SELECT outcome FROM qops_runs") == [("signal",)]
    left = queue.value(
        "SELECT COUNT(*) FROM performance_schema.session_account_connect_attrs a JOIN "
        "information_schema.processlist p ON p.id = a.processlist_id WHERE attr_value = 'qops' AND p.db = %s",
        [queue.name],
    )
    assert left == 0


def test_progress_that_cannot_be_written_does_not_stop_the_work(queue: Database) -> None:
    """A reader of stderr that has gone away costs progress lines, nothing else."""
    process = start_process("archive", "--batch", "5", "--pause", "0s", "--progress", url=queue.url)
    assert process.stderr is not None
    assert process.stdout is not None
    process.stderr.close()
    process.stdout.read()
    process.stdout.close()
    process.wait(timeout=30)
    assert counts(queue, "jobs_archive") == {"done": 50}
    assert "done" not in counts(queue)


def test_quiet_under_cron_prints_nothing(queue: Database) -> None:
    """A successful --quiet run writes nothing to stdout or stderr."""
    ran = run_process("archive", "--quiet", url=queue.url)
    assert (ran.code, ran.out, ran.err) == (0, "", "")


@pytest.mark.parametrize(
    ("table", "ddl", "toml", "insert", "columns", "moved"),
    [
        (
            "jobs",
            GUIDE,
            GUIDE_TOML,
            "INSERT INTO jobs (status, payload) VALUES ('done', '{}'), ('pending', '{}')",
            "id, payload",
            1,
        ),
        (
            "jobs",
            RECIPE,
            RECIPE_TOML,
            "INSERT INTO jobs VALUES (1, 'a', 'done'), (2, 'b', 'queued')",
            "id, task, state",
            1,
        ),
        (
            "job_queue",
            ARTICLE,
            ARTICLE_TOML,
            (
                "INSERT INTO job_queue VALUES (7, '{}', 'done', UTC_TIMESTAMP(), NULL, 1), "
                "(8, '{}', 'ready', UTC_TIMESTAMP(), NULL, 0)"
            ),
            "id, payload, status, available_at, lease_until, attempts",
            1,
        ),
    ],
)
def test_queues_of_the_field_are_archived_by_configuration_alone(
    database: Database,
    qops: Callable[..., Ran],
    clean_environment: Path,
    table: str,
    ddl: str,
    toml: str,
    insert: str,
    columns: str,
    moved: int,
) -> None:
    """Guide, recipe and article: only their done row moves, unchanged; an age is refused by naming the role."""
    write_config(clean_environment, toml)
    database.execute(ddl)
    database.execute(f"CREATE TABLE {table}_archive LIKE {table}")
    database.execute(insert)
    before = contents(database, table, columns)
    ran = qops("archive", "--format", "json")
    assert (ran.code, ran.json["archived"]) == (0, moved), ran.err
    after = contents(database, f"{table}_archive", columns)
    assert len(after) == moved
    assert all(before[id_] == row for id_, row in after.items())
    ran = qops("archive", "--older-than", "1d", "--format", "json")
    assert ran.code == 78
    assert "finished_at" in ran.json["error"]["message"]
