"""What goes wrong where rows are archived, altered, lost or stuck, is noticed and named, and the rest moves."""

from __future__ import annotations

import os
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from dev.server import private_server
from qops.errors import Misconfigured
from qops.worker import Worker
from tests.accounts import account
from tests.conftest import Database, fresh_database, run_here, run_process, start_process, wait_until
from tests.queues import contents, counts, fill, init, write_config

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import Ran

TRIGGER_MODE = '[queues.jobs]\narchive_by = "trigger"\n'
COPY = "CREATE TRIGGER keep AFTER DELETE ON jobs FOR EACH ROW "
FILL = f"{COPY} INSERT INTO jobs_archive (id, status, priority, payload) VALUES (OLD.id, OLD.status, 0, OLD.payload)"
SIGNAL = "SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'needed by accounting'"


def when(condition: str, then: str) -> str:
    """Return a trigger's body."""
    return f"BEGIN IF {condition} THEN {then}; END IF; END"


@pytest.fixture
def queue(database: Database) -> Database:
    """Return the default queue with 12 finished jobs, each with its id as priority."""
    init(database)
    fill(database, 12, status="'done'", finished_at="NOW(6)", priority="n")
    return database


def refused(ran: Ran) -> list[Any]:
    return [row["id"] for row in ran.json["refused"]]


def check_whole(database: Database, before: dict[int, tuple[object, ...]]) -> None:
    """Each job is in one of the two tables, and as it was."""
    live, archived = contents(database, "jobs"), contents(database, "jobs_archive")
    assert not live.keys() & archived.keys()
    assert live | archived == before


# Rows that object, one by one


OBJECTIONS = {
    "a trigger's own number": f"CREATE TRIGGER t BEFORE DELETE ON jobs FOR EACH ROW "
    f"{when('OLD.id = 3', SIGNAL + ', MYSQL_ERRNO = 9999')}",
    "a number that the client keeps to itself": f"CREATE TRIGGER t BEFORE DELETE ON jobs FOR EACH ROW "
    f"{when('OLD.id = 3', SIGNAL + ', MYSQL_ERRNO = 5001')}",
    "not found": "CREATE TRIGGER t BEFORE DELETE ON jobs FOR EACH ROW " + when("OLD.id = 3", "SIGNAL SQLSTATE '02000'"),
    "a table that is not there": f"{COPY} {when('OLD.id = 3', 'INSERT INTO nowhere VALUES (1)')}",
    "a query with several rows": "CREATE TRIGGER t BEFORE DELETE ON jobs FOR EACH ROW "
    f"{when('OLD.id = 3', 'SET @x = (SELECT id FROM jobs_archive)')}",
    "a copy that a trigger alters": "CREATE TRIGGER t BEFORE INSERT ON jobs_archive FOR EACH ROW "
    f"{when('NEW.id = 3', 'SET NEW.priority = 77')}",
    "a copy that a trigger takes away": f"{COPY} {when('OLD.id = 3', 'DELETE FROM jobs_archive WHERE id = 3')}",
    "a CHECK": "ALTER TABLE jobs_archive ADD CHECK (id <> 3)",
    "a foreign key of the archive": "ALTER TABLE jobs_archive ADD twin BIGINT UNSIGNED AS (IF(id = 3, 99, NULL)) "
    "STORED, ADD FOREIGN KEY (twin) REFERENCES jobs_archive (id)",
    "no partition": "ALTER TABLE jobs_archive PARTITION BY LIST (id) "
    "(PARTITION p VALUES IN (1, 2, 4, 5, 6, 7, 8, 9, 10, 11, 12))",
    "an index on an expression": "ALTER TABLE jobs_archive ADD UNIQUE KEY ((CAST(IF(id = 3, 'x', id) AS UNSIGNED)))",
}


@pytest.mark.parametrize("objection", OBJECTIONS.values(), ids=OBJECTIONS)
def test_one_row_that_objects_costs_only_itself(queue: Database, qops: Callable[..., Ran], objection: str) -> None:
    """Whatever keeps job 3 from its way, by whatever number: it stays and is named (1), and the others move."""
    before = contents(queue, "jobs")
    queue.execute(objection)
    ran = qops("archive", "--format", "json")
    assert (ran.code, ran.json["archived"], refused(ran)) == (1, 11, [3]), ran.out
    check_whole(queue, before)


def test_a_row_too_large_for_the_archive_stays(queue: Database, qops: Callable[..., Ran]) -> None:
    """A row that the archive's pages cannot hold beside its further columns is named; the others move."""
    queue.execute("SET SESSION innodb_strict_mode = OFF")
    queue.execute("ALTER TABLE jobs " + ", ".join(f"ADD c{n} VARBINARY(255) NOT NULL DEFAULT ''" for n in range(31)))
    queue.execute("DROP TABLE jobs_archive")
    queue.execute("CREATE TABLE jobs_archive LIKE jobs")
    wide = (f"ADD e{n} CHAR(255) CHARACTER SET latin1 NOT NULL DEFAULT '{'x' * 255}'" for n in range(3))
    queue.execute(f"ALTER TABLE jobs_archive {', '.join(wide)}")
    queue.execute(f"UPDATE jobs SET {', '.join(f'c{n} = REPEAT(1, 255)' for n in range(31))} WHERE id = 3")
    ran = qops("archive", "--format", "json")
    assert (ran.code, ran.json["archived"], refused(ran)) == (1, 11, [3]), ran.out
    assert "too large" in ran.json["refused"][0]["reason"]


def test_a_trigger_that_cannot_work_is_told_once(queue: Database, qops: Callable[..., Ran]) -> None:
    """Where every row objects alike, for a reason that is none of rows, the run ends (78) with the server's words."""
    before = contents(queue, "jobs")
    queue.execute(f"{COPY} UPDATE jobs SET priority = 0 WHERE id = OLD.id")
    ran = qops("archive", "--format", "json")
    assert (ran.code, ran.json["archived"], ran.json["refused"]) == (78, 0, [])
    assert "trigger" in ran.json["error"]["message"]
    check_whole(queue, before)


def test_copies_are_completed_beside_rows_that_object(queue: Database, qops: Callable[..., Ran]) -> None:
    """What an interrupted copy left is finished whatever else is wrong in the batch, and each trouble is named.

    Jobs 1 to 7 have copies, that of 2 with other content; 3 is needed by a child, 6 by a trigger, and 9 does not fit.
    """
    before = contents(queue, "jobs")
    queue.execute("INSERT INTO jobs_archive SELECT * FROM jobs WHERE id <= 7")
    queue.execute("UPDATE jobs_archive SET priority = 99 WHERE id = 2")
    queue.execute("ALTER TABLE jobs_archive ADD CHECK (id <> 9)")
    queue.execute("CREATE TABLE child (job BIGINT UNSIGNED PRIMARY KEY, FOREIGN KEY (job) REFERENCES jobs (id))")
    queue.execute("INSERT INTO child VALUES (3)")
    queue.execute(f"CREATE TRIGGER t BEFORE DELETE ON jobs FOR EACH ROW {when('OLD.id = 6', SIGNAL)}")
    ran = qops("archive", "--format", "json")
    assert (ran.code, ran.json["archived"], ran.json["reconciled"]) == (1, 4, 4), ran.out
    reasons = {row["id"]: row["reason"] for row in ran.json["refused"]}
    assert sorted(reasons) == [2, 3, 6, 9]
    assert "other content" in reasons[2]
    assert "child" in reasons[3]
    assert "needed by accounting" in reasons[6]
    assert "Check" in reasons[9]
    assert contents(queue, "jobs") == {id_: before[id_] for id_ in (2, 3, 6, 9)}
    archived = contents(queue, "jobs_archive")
    assert {id_: row for id_, row in archived.items() if id_ != 2} == {
        id_: row for id_, row in before.items() if id_ not in {2, 9}
    }


# Triggers


@pytest.mark.parametrize(
    "body",
    [
        "UPDATE jobs_archive SET payload = '{}' WHERE id = OLD.id",
        "UPDATE jobs_archive SET priority = IF(id = 3, 99, priority), last_error = NULL",
        "CALL spoil(OLD.id)",
    ],
)
def test_a_trigger_that_alters_copies_after_the_delete_is_noticed(
    queue: Database, qops: Callable[..., Ran], body: str
) -> None:
    """What a trigger does to a copy once its row is gone counts as well: such a row stays as it was."""
    before = contents(queue, "jobs")
    queue.execute(
        "CREATE PROCEDURE spoil (job BIGINT) REPLACE INTO jobs_archive (id, status, payload, priority, "
        "attempts, max_attempts) VALUES (job, 'done', '{}', 0, 0, 0)"
    )
    queue.execute(COPY + body)
    ran = qops("archive", "--format", "json")
    assert ran.code in {1, 78}, ran.out
    check_whole(queue, before)


@pytest.mark.parametrize("target", ["jobs_archive", "`jobs_archive`", "{db}.jobs_archive", "IGNORE INTO jobs_archive"])
def test_a_trigger_that_fills_the_archive_is_recognised(
    queue: Database, qops: Callable[..., Ran], clean_environment: Path, target: str
) -> None:
    """While qops is to copy it refuses (78) and says what to set; with that set the trigger's copies count."""
    names = "id, status, priority, payload, attempts, max_attempts"
    values = ", ".join(f"OLD.{name.strip()}" for name in names.split(","))
    into = target if "INTO" in target else f"INTO {target}"
    queue.execute(f"{COPY} INSERT {into.replace('{db}', queue.name)} ({names}) VALUES ({values})")
    ran = qops("archive", "--format", "json")
    assert ran.code == 78
    assert 'archive_by = "trigger"' in ran.json["error"]["message"]
    assert "`keep`" in ran.json["error"]["message"]
    assert counts(queue) == {"done": 12}
    write_config(clean_environment, TRIGGER_MODE)
    assert qops("archive", "--format", "json").json["archived"] == 12
    assert counts(queue, "jobs_archive") == {"done": 12}


@pytest.mark.parametrize(
    "body",
    [
        "INSERT INTO jobs_archive_log (id) VALUES (OLD.id)",
        "INSERT INTO log (id) VALUES (OLD.id) /* INSERT INTO jobs_archive */",
        "INSERT INTO log SELECT id FROM jobs_archive WHERE id = OLD.id",
    ],
)
def test_a_trigger_for_other_purposes_is_not_taken_for_one(
    queue: Database, qops: Callable[..., Ran], body: str
) -> None:
    """A log of deletions is no archive: the run goes on, with the copies compared."""
    before = contents(queue, "jobs")
    queue.execute("CREATE TABLE log (id BIGINT UNSIGNED)")
    queue.execute("CREATE TABLE jobs_archive_log LIKE log")
    queue.execute(COPY + body)
    ran = qops("archive", "--format", "json")
    assert (ran.code, ran.json["archived"]) == (0, 12), ran.out
    check_whole(queue, before)


def test_a_trigger_that_should_archive_and_is_not_there_stops_the_run(
    queue: Database, qops: Callable[..., Ran], clean_environment: Path
) -> None:
    """`archive_by = "trigger"` without a DELETE trigger would only delete: 78 before the first row."""
    write_config(clean_environment, TRIGGER_MODE)
    queue.execute("CREATE TRIGGER t BEFORE INSERT ON jobs FOR EACH ROW SET NEW.priority = 1")
    ran = qops("archive", "--dry-run", "--format", "json")
    assert ran.code == 78
    assert "no DELETE trigger" in ran.json["error"]["message"]


def test_a_trigger_that_skips_a_row_keeps_it(
    queue: Database, qops: Callable[..., Ran], clean_environment: Path
) -> None:
    """Where the trigger archives all but one, that one stays and is named; the others are gone."""
    write_config(clean_environment, TRIGGER_MODE)
    insert = "INSERT INTO jobs_archive SELECT * FROM jobs WHERE id = OLD.id"
    queue.execute(f"CREATE TRIGGER keep BEFORE DELETE ON jobs FOR EACH ROW {when('OLD.id <> 3', insert)}")
    ran = qops("archive", "--format", "json")
    assert (ran.code, ran.json["archived"], refused(ran)) == (1, 11, [3]), ran.out
    assert counts(queue) == {"done": 1}


def test_a_trigger_that_comes_during_a_run_is_seen(queue: Database) -> None:
    """From the next batch on copies are compared: a row that a new trigger would alter stays and is named."""
    before = contents(queue, "jobs")
    process = start_process("archive", "--batch", "4", "--pause", "3s", "--format", "json", url=queue.url)
    wait_until(lambda: counts(queue, "jobs_archive") == {"done": 4})
    queue.execute(
        f"CREATE TRIGGER t BEFORE INSERT ON jobs_archive FOR EACH ROW {when('NEW.id = 7', 'SET NEW.priority = 0')}"
    )
    out, err = process.communicate(timeout=60)
    assert process.returncode == 1, out + err
    assert '"archived": 11' in out
    assert set(contents(queue, "jobs")) == {7}
    check_whole(queue, before)


@pytest.mark.parametrize(
    "change",
    [
        "ALTER TABLE jobs_archive ENGINE = BLACKHOLE",
        "ALTER TABLE jobs_archive DROP PRIMARY KEY",
        "RENAME TABLE jobs_archive TO kept; CREATE VIEW jobs_archive AS SELECT * FROM kept",
        FILL,
    ],
)
def test_an_archive_that_changes_its_nature_during_a_run_ends_it(queue: Database, change: str) -> None:
    """Another engine, a key less, a view, a trigger that fills it: the next batch is rolled back, 78."""
    process = start_process("archive", "--batch", "4", "--pause", "3s", "--format", "json", url=queue.url)
    wait_until(lambda: counts(queue, "jobs_archive") == {"done": 4})
    for statement in change.split("; "):
        queue.execute(statement)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 78, out + err
    assert counts(queue) == {"done": 8}


def test_triggers_that_may_be_hidden_are_a_warning(queue: Database, qops: Callable[..., Ran]) -> None:
    """Without TRIGGER the run works, compares, and says so on stderr; with TRIGGER on both tables it is silent."""
    grants = ("SELECT, DELETE ON {db}.jobs", "SELECT, INSERT ON {db}.jobs_archive", "ALL ON {db}.qops_runs")
    with account(queue, *grants, "PROCESS ON *.*") as limited:
        ran = qops("archive", "--url", limited.url, "--limit", "5", "--format", "json")
        assert (ran.code, ran.json["archived"]) == (0, 5), ran.err
        assert "TRIGGER" in ran.err
        for table in ("jobs", "jobs_archive"):
            queue.execute(f"GRANT TRIGGER ON {table} TO '{limited.user}'@'%'")
        ran = qops("archive", "--url", limited.url, "--format", "json")
        assert (ran.code, ran.json["archived"]) == (0, 7), ran.err
        assert "TRIGGER" not in ran.err


def test_a_worker_compares_what_it_archives_where_triggers_act(queue: Database) -> None:
    """complete(archive=True) refuses a copy that a trigger alters, also one that came during the worker's life."""
    with Worker(queue.server(), queue.queue(), "w") as worker:
        for _ in range(3):
            worker.enqueue({"a": 1})
        first, second, third = worker.claim_batch(3)
        worker.complete(first, archive=True)
        queue.execute(
            "CREATE TRIGGER t BEFORE INSERT ON jobs_archive FOR EACH ROW "
            f"{when(f'NEW.id = {second.id}', 'SET NEW.priority = 77')}"
        )
        with pytest.raises(Misconfigured, match="0 arrived unchanged"):
            worker.complete(second, archive=True)
        worker.complete(third, archive=True)
    assert counts(queue)["running"] == 1
    assert queue.rows("SELECT id, status, payload->>'$.a' FROM jobs_archive") == [
        (first.id, "done", "1"),
        (third.id, "done", "1"),
    ]


@pytest.mark.parametrize(
    "change",
    [
        "ALTER TABLE jobs ADD result INT DEFAULT 7, ADD note INT DEFAULT 8 INVISIBLE",
        "ALTER TABLE jobs_archive MODIFY created_at TIMESTAMP(0) NOT NULL DEFAULT CURRENT_TIMESTAMP",
    ],
)
def test_a_worker_notices_what_changed_before_its_first_archive(queue: Database, change: str) -> None:
    """What a worker knows of the tables is as old as the worker: after a migration it archives nothing unlooked."""
    with Worker(queue.server(), queue.queue(), "w") as worker:
        worker.enqueue({})
        (job,) = worker.claim_batch(1)
        queue.execute(change)
        with pytest.raises(Misconfigured, match="altered since this worker began"):
            worker.complete(job, archive=True)
        worker.complete(job)
    assert counts(queue) == {"done": 13}
    assert counts(queue, "jobs_archive") == {}


# Two tables that differ


CURED = [
    "DROP COLUMN attempts",
    "MODIFY last_error VARCHAR(10)",
    "MODIFY last_error TEXT COLLATE utf8mb4_unicode_ci",
    "CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci",
    "MODIFY claimed_by VARCHAR(64) CHARACTER SET latin1",
    "MODIFY finished_at TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6)",
    "MODIFY finished_at DATETIME(6)",
    "MODIFY status ENUM('failed', 'done', 'pending', 'running', 'scheduled') NOT NULL",
    "MODIFY priority INT UNSIGNED NOT NULL",
    "RENAME COLUMN priority TO Priority",
    "DROP COLUMN priority, ADD priority INT AS (1) VIRTUAL",
    "DROP COLUMN priority, ADD priority INT AS (1) STORED",
    "ADD tenant INT NOT NULL",
    "DROP PRIMARY KEY",
    "DROP PRIMARY KEY, ADD PRIMARY KEY (id, status)",
    "ENGINE = MyISAM",
]


@pytest.mark.parametrize("change", CURED)
def test_the_alter_that_is_printed_ends_the_difference(queue: Database, qops: Callable[..., Ran], change: str) -> None:
    """78, nothing moved, and the SQL in the message, run as it stands, lets the next run move all unchanged."""
    queue.execute(f"ALTER TABLE jobs_archive {change}")
    before = contents(queue, "jobs")
    ran = qops("archive", "--format", "json")
    assert (ran.code, ran.json["error"]["kind"]) == (78, "configuration"), ran.out
    assert contents(queue, "jobs") == before
    with closing(queue.connect(autocommit=True)) as client, closing(client.cursor()) as cursor:
        for line in ran.json["error"]["message"].splitlines()[1:]:
            cursor.execute(line)
    assert qops("archive", "--format", "json").json["archived"] == 12
    assert contents(queue, "jobs_archive") == before


def test_an_alter_that_would_cut_what_is_archived_fails_instead(queue: Database, qops: Callable[..., Ran]) -> None:
    """The printed SQL narrows no value that is in the archive already, however lax the client's sql_mode is."""
    queue.execute("ALTER TABLE jobs_archive MODIFY claimed_by VARCHAR(200) COLLATE utf8mb4_bin")
    queue.execute("INSERT INTO jobs_archive SELECT * FROM jobs WHERE id = 1")
    queue.execute("UPDATE jobs_archive SET claimed_by = REPEAT('w', 100), id = 99")
    lines = qops("archive", "--format", "json").json["error"]["message"].splitlines()[1:]
    with closing(queue.connect(sql_mode="")) as client, closing(client.cursor()) as cursor:
        cursor.execute(lines[0])
        with pytest.raises(Exception, match="claimed_by"):
            cursor.execute(lines[1])
    assert queue.value("SELECT LENGTH(claimed_by) FROM jobs_archive") == 100


@pytest.mark.parametrize(
    "change",
    [
        "MODIFY payload JSON NOT NULL FIRST",
        "MODIFY priority BIGINT NOT NULL",
        "MODIFY claimed_by TEXT",
        "MODIFY last_error LONGTEXT INVISIBLE",
        "MODIFY status ENUM('pending', 'running', 'done', 'failed', 'scheduled', 'expunged') NOT NULL",
        "MODIFY finished_at TIMESTAMP(6) NULL ON UPDATE CURRENT_TIMESTAMP(6)",
        "ADD archived_at TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6)",
        "ADD day DATE AS (DATE(finished_at)) STORED NOT NULL, ADD KEY (day)",
        "PARTITION BY HASH (id) PARTITIONS 3",
    ],
)
def test_differences_that_change_nothing_do_not_stop_a_run(
    queue: Database, qops: Callable[..., Ran], change: str
) -> None:
    """Another order, more room, further columns, partitions: neither the archiver nor init objects, all arrives."""
    before = contents(queue, "jobs")
    queue.execute(f"ALTER TABLE jobs_archive {change}")
    queue.execute(
        "INSERT INTO jobs_archive (id, status, priority, payload, created_at, finished_at, available_at, "
        "attempts, max_attempts) SELECT id, status, priority, payload, created_at, finished_at, "
        "available_at, attempts, max_attempts FROM jobs WHERE id <= 4"
    )
    ran = qops("archive", "--format", "json")
    assert (ran.code, ran.json["archived"], ran.json["reconciled"]) == (0, 8, 4), ran.out
    assert contents(queue, "jobs_archive") == before
    assert qops("init", "--format", "json").json["drift"] == []


def test_values_computed_on_both_sides_have_to_be_computed_alike(queue: Database, qops: Callable[..., Ran]) -> None:
    """An archive that would compute another value refuses the run; as a plain column it keeps the queue's."""
    queue.execute("ALTER TABLE jobs ADD twice INT AS (priority * 2) STORED, ADD day DATE AS (DATE(created_at)) VIRTUAL")
    queue.execute("ALTER TABLE jobs_archive ADD twice INT AS (priority * 3) STORED, ADD day DATE AS (DATE(created_at))")
    ran = qops("archive", "--format", "json")
    assert ran.code == 78
    assert "'twice' is computed otherwise" in ran.json["error"]["message"]
    assert "day" not in ran.json["error"]["message"]
    assert qops("init", "--format", "json").json["drift"][0]["object"] == "jobs_archive.twice"
    for line in ran.json["error"]["message"].splitlines()[1:]:
        queue.execute(line)
    assert qops("archive").code == 0
    assert queue.value("SELECT COUNT(*) FROM jobs_archive WHERE twice = priority * 2") == 12


def test_a_looser_collation_drops_no_row(queue: Database, qops: Callable[..., Ran]) -> None:
    """Names that the archive's collation calls equal: refused for the collation, then for the key, and never lost."""
    queue.execute("ALTER TABLE jobs ADD name VARCHAR(20) COLLATE utf8mb4_bin")
    queue.execute("ALTER TABLE jobs_archive ADD name VARCHAR(20) COLLATE utf8mb4_unicode_ci, ADD UNIQUE (name)")
    queue.execute("UPDATE jobs SET name = ELT(id, 'Jose', 'José', 'bar', 'bar ', 'BAR')")
    assert qops("doctor", "--only", "archive-drift", "--format", "json").json["checks"][0]["status"] == "warning"
    ran = qops("archive", "--format", "json")
    assert ran.code == 78
    assert "utf8mb4_unicode_ci" in ran.json["error"]["message"]
    queue.execute("ALTER TABLE jobs MODIFY name VARCHAR(20) COLLATE utf8mb4_unicode_ci")
    before = contents(queue, "jobs", "id, name")
    ran = qops("archive", "--format", "json")
    assert (ran.code, ran.json["archived"], refused(ran)) == (1, 9, [2, 4, 5])
    assert contents(queue, "jobs", "id, name") | contents(queue, "jobs_archive", "id, name") == before


def test_ids_of_two_collations_are_not_held_together(
    database: Database, qops: Callable[..., Ran], clean_environment: Path
) -> None:
    """Where a trigger archives only the id has to be alike: text of two collations is 78 with the ALTER, not 1267."""
    database.execute("CREATE TABLE q (id VARCHAR(9) PRIMARY KEY, status VARCHAR(9) NOT NULL, KEY (status))")
    database.execute("CREATE TABLE q_archive (id VARCHAR(9) COLLATE utf8mb4_unicode_ci PRIMARY KEY)")
    database.execute("CREATE TRIGGER t AFTER DELETE ON q FOR EACH ROW INSERT INTO q_archive VALUES (OLD.id)")
    database.execute("INSERT INTO q VALUES ('a', 'done'), ('b', 'done')")
    write_config(clean_environment, '[queues.q]\narchive_by = "trigger"\n')
    ran = qops("archive", "--format", "json")
    assert ran.code == 78
    for line in ran.json["error"]["message"].splitlines()[1:]:
        database.execute(line)
    database.execute("INSERT INTO q_archive VALUES ('b')")
    dry = qops("archive", "--dry-run", "--format", "json").json["plan"]["statements"]
    assert [text.split()[0] for text in dry] == ["SELECT", "SELECT", "DELETE", "SELECT"]
    ran = qops("archive", "--format", "json")
    assert (ran.code, ran.json["archived"], refused(ran)) == (1, 1, ["b"])


def test_columns_in_mixed_case_are_found(database: Database, qops: Callable[..., Ran], clean_environment: Path) -> None:
    """Keys and indexes on names such as `finishedAt` serve as any other: the walk is the index's, rows move."""
    database.execute(
        "CREATE TABLE Tasks (Id INT PRIMARY KEY, State VARCHAR(9) NOT NULL, finishedAt TIMESTAMP NULL, "
        "KEY by_end (State, finishedAt))"
    )
    database.execute("CREATE TABLE Tasks_archive LIKE Tasks")
    database.execute("INSERT INTO Tasks VALUES (1, 'done', NOW()), (2, 'done', NOW()), (3, 'pending', NULL)")
    write_config(
        clean_environment,
        '[queues.q]\ntable = "Tasks"\narchive_table = "Tasks_archive"\n'
        '[queues.q.columns]\nid = "id"\nstatus = "state"\nfinished_at = "finishedAt"\n',
    )
    plan = qops("archive", "--dry-run", "--format", "json").json["plan"]
    assert plan["explain"][0]["key"] == "by_end"
    assert qops("archive", "--format", "json").json["archived"] == 2


def test_hidden_numbers_are_not_given_anew(clean_environment: Path) -> None:
    """A key that the server made by itself and does not show is never numbered again in the archive: 78.

    Such a key is made where a table has no primary key; its id then is no key, or one that takes NULL.
    """
    options = ["--sql-generate-invisible-primary-key=ON"]
    with private_server(options=options) as server, fresh_database(server) as database:
        database.execute("SET GLOBAL show_gipk_in_create_table_and_information_schema = OFF")
        write_config(clean_environment, "[queues.q]\n")
        for key in ("KEY (id)", "UNIQUE (id)"):
            database.execute("DROP TABLE IF EXISTS q, q_archive")
            database.execute(f"CREATE TABLE q (id INT, status VARCHAR(9) NOT NULL, KEY (status), {key})")
            database.execute("CREATE TABLE q_archive (id INT PRIMARY KEY, status VARCHAR(9) NOT NULL)")
            database.execute("INSERT INTO q VALUES (5, 'done'), (6, 'pending'), (7, 'done')")
            assert database.rows("SELECT my_row_id FROM q") == [(1,), (2,), (3,)]
            ran = run_here("archive", "--url", database.url, "--format", "json")
            assert ran.code == 78, ran.out
            assert "may not mean one job" in ran.json["error"]["message"]


def test_a_number_of_the_servers_own_is_copied_where_both_tables_have_it(
    database: Database, qops: Callable[..., Ran], clean_environment: Path
) -> None:
    """A visible `my_row_id` is a column as any other: named where the archive lacks it, and copied as it is."""
    database.execute("SET SESSION sql_generate_invisible_primary_key = ON")
    database.execute("CREATE TABLE q (id INT NOT NULL, status VARCHAR(9) NOT NULL, KEY (status))")
    database.execute("SET SESSION sql_generate_invisible_primary_key = OFF")
    database.execute("CREATE TABLE q_archive (id INT PRIMARY KEY, status VARCHAR(9) NOT NULL)")
    database.execute("INSERT INTO q VALUES (5, 'pending'), (6, 'done'), (7, 'done')")
    write_config(clean_environment, "[queues.q]\n")
    ran = qops("archive", "--format", "json")
    assert ran.code == 78
    assert "'my_row_id' is missing" in ran.json["error"]["message"]
    for line in ran.json["error"]["message"].splitlines()[1:]:
        database.execute(line)
    assert qops("archive", "--format", "json").json["archived"] == 2
    assert database.rows("SELECT my_row_id, id FROM q_archive ORDER BY 1") == [(2, 6), (3, 7)]


# Characters, bytes and words


def test_every_byte_and_character_survives_a_latin1_server() -> None:
    """On a server and a schema in latin1: all bytes and characters arrive, nothing on stderr, names are printed."""
    blob = bytes(range(256)) + os.urandom(65_536)
    text = "😀 ﬁ שלום\u202e bar \x00 \\ ' \" %s ` --"
    options = ["--character-set-server=latin1"]
    with private_server(options=options) as server, fresh_database(server, charset="latin1") as database:
        init(database)
        for table in ("jobs", "jobs_archive"):
            database.execute(f"ALTER TABLE {table} ADD raw_bytes LONGBLOB")
        database.execute(
            "INSERT INTO jobs (status, payload, last_error, claimed_by, raw_bytes) "
            "VALUES ('done', JSON_OBJECT('t', %s), %s, '😀', %s), ('pending', '{}', NULL, NULL, NULL)",
            [text, text, blob],
        )
        columns = "id, status, payload, last_error, claimed_by, created_at"
        before = contents(database, "jobs", columns)
        ran = run_process("archive", "--format", "json", url=database.url, env={"LC_ALL": "C", "PYTHONUTF8": "0"})
        assert (ran.code, ran.err) == (0, "")
        assert contents(database, "jobs_archive", columns) == {1: before[1]}
        assert database.value("SELECT raw_bytes FROM jobs_archive") == blob
        assert database.value("SELECT last_error FROM jobs_archive") == text
        database.execute("UPDATE jobs SET status = 'done'")
        database.execute(
            "CREATE TRIGGER t BEFORE DELETE ON jobs FOR EACH ROW SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'no 😀'"
        )
        for output in ("json", "table"):
            ran = run_process("archive", "--format", output, url=database.url, env={"LC_ALL": "C"})
            assert ran.code == 1
            assert "Traceback" not in ran.err


def test_a_dry_run_counts_states_as_the_run_does(
    database: Database, qops: Callable[..., Ran], clean_environment: Path
) -> None:
    """A state written `DONE` is the state for a collation without case, and another one for a binary collation."""
    write_config(clean_environment, '[queues.q.columns]\nfinished_at = "finished_at"\n')
    for collation, moved in (("utf8mb4_0900_ai_ci", 2), ("utf8mb4_bin", 1)):
        database.execute("DROP TABLE IF EXISTS q, q_archive")
        database.execute(
            f"CREATE TABLE q (id INT PRIMARY KEY, status VARCHAR(9) COLLATE {collation} NOT NULL, "
            "finished_at TIMESTAMP NULL, KEY (status, finished_at))"
        )
        database.execute("CREATE TABLE q_archive LIKE q")
        database.execute(
            "INSERT INTO q VALUES (1, 'done', '2020-01-01'), (2, 'DONE', '2020-01-01'), (3, 'done', NULL), "
            "(4, 'done', NOW()), (5, 'running', '2020-01-01')"
        )
        dry = qops("archive", "--older-than", "30d", "--dry-run", "--format", "json").json
        ran = qops("archive", "--older-than", "30d", "--format", "json")
        assert (dry["plan"]["rows"], ran.json["archived"], ran.code) == (moved, moved, 1)
        assert (dry["undated"], ran.json["undated"]) == (1, 1)
        assert {id_ for (id_,) in database.rows("SELECT id FROM q")} >= {3, 4, 5}


DOCUMENT = (
    "WITH RECURSIVE s AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM s WHERE n < 60000) "
    "SELECT 'done', JSON_ARRAYAGG(n / 7e0), NOW(6) FROM s"
)


def test_json_whose_text_exceeds_a_packet_is_not_taken_for_identical() -> None:
    """A document of 780 KB whose text has more than max_allowed_packet bytes, and another one under its id: refused."""
    with private_server(options=["--max-allowed-packet=1M"]) as server, fresh_database(server) as database:
        init(database)
        database.execute("SET SESSION cte_max_recursion_depth = 100000")
        database.execute(f"INSERT INTO jobs (status, payload, finished_at) {DOCUMENT}")
        database.execute("INSERT INTO jobs_archive SELECT * FROM jobs")
        database.execute("UPDATE jobs_archive SET payload = JSON_SET(payload, '$[0]', 'different')")
        ran = run_process("archive", "--format", "json", url=database.url)
        assert database.value("SELECT COUNT(*) FROM jobs") == 1, ran
        assert (ran.code, ran.json["reconciled"], len(ran.json["refused"])) == (1, 0, 1)


def test_a_job_whose_id_another_has_too_is_refused(
    database: Database, clean_environment: Path, qops: Callable[..., Ran]
) -> None:
    """Where the primary key only begins with the id, an id may stand for two jobs: neither is lost, and it is said."""
    database.execute(
        "CREATE TABLE jobs (id BIGINT NOT NULL, tenant CHAR(1) NOT NULL, status VARCHAR(16) NOT NULL, "
        "PRIMARY KEY (id, tenant), KEY (status, id))"
    )
    database.execute("CREATE TABLE jobs_archive (id BIGINT PRIMARY KEY, tenant CHAR(1) NOT NULL, status VARCHAR(16))")
    write_config(clean_environment, "[queues.jobs]\n")
    done = ", ".join(f"({id_}, 'B', 'done')" for id_ in range(1, 41))
    database.execute(f"INSERT INTO jobs VALUES {done}, (5, 'A', 'pending'), (25, 'A', 'running')")
    before = set(database.rows("SELECT * FROM jobs"))
    for _ in range(2):
        ran = qops("archive", "--pause", "0s", "--format", "json")
        assert (ran.code, [row["id"] for row in ran.json["refused"]]) == (1, [5, 25]), ran
        live, archived = (database.rows(f"SELECT * FROM {table}") for table in ("jobs", "jobs_archive"))
        assert (len(live), len(archived), set(live) | set(archived)) == (4, 38, before)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("ENUM('low','high')", "1 + n % 2"),
        ("SET('z','a')", "1 + n % 3"),
        ("BIT(8)", "n % 7"),
        ("FLOAT", "n / 7"),
        ("DOUBLE", "n / 7"),
        ("DECIMAL(9,3)", "n / 7"),
        ("DATE", "DATE(20260101 + n % 20)"),
    ],
)
def test_whatever_lies_between_the_state_and_the_id_in_an_index_every_job_is_come_to_once(
    database: Database, clean_environment: Path, qops: Callable[..., Ran], kind: str, value: str
) -> None:
    """An index that orders by more than the state is walked to its end where that can be told, or another way is taken.

    Half of the jobs stay, because the archive holds their ids: none of them is met twice.
    """
    database.execute(
        f"CREATE TABLE jobs (id BIGINT PRIMARY KEY, status VARCHAR(16) NOT NULL, w {kind}, KEY claim (status, w, id))"
    )
    database.execute(f"CREATE TABLE jobs_archive (id BIGINT PRIMARY KEY, status VARCHAR(16) NOT NULL, w {kind})")
    write_config(clean_environment, "[queues.jobs]\n")
    numbers = "WITH RECURSIVE s AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM s WHERE n < 60)"
    database.execute(f"INSERT INTO jobs {numbers} SELECT n, 'done', {value} FROM s")
    database.execute("INSERT INTO jobs_archive SELECT id, 'failed', w FROM jobs WHERE id % 2")
    ran = qops("archive", "--batch", "1", "--pause", "0s", "--format", "json")
    assert (ran.code, ran.json["archived"], ran.json["stopped_by"]) == (1, 30, "done"), ran
    assert sorted(row["id"] for row in ran.json["refused"]) == list(range(1, 61, 2))


def test_rows_are_found_by_a_unique_index_where_the_primary_key_begins_with_another_column(
    database: Database, clean_environment: Path, qops: Callable[..., Ran]
) -> None:
    """A worker's locked row elsewhere in the table is not waited for, because nothing reads the whole table."""
    for table in ("jobs", "jobs_archive"):
        database.execute(
            f"CREATE TABLE {table} (tenant INT NOT NULL, id BIGINT NOT NULL, status VARCHAR(16) NOT NULL, "
            "PRIMARY KEY (tenant, id), UNIQUE KEY uid (id), KEY (status, id))"
        )
    write_config(clean_environment, "[queues.jobs]\n")
    numbers = "WITH RECURSIVE s AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM s WHERE n < 900)"
    database.execute(f"INSERT INTO jobs {numbers} SELECT n % 3, n, IF(n % 3, 'done', 'running') FROM s")
    with closing(database.connect()) as worker, closing(worker.cursor()) as cursor:
        cursor.execute("SELECT * FROM jobs WHERE tenant = 0 FOR UPDATE")
        ran = qops("archive", "--format", "json")
        worker.rollback()
    assert (ran.code, ran.json["archived"], ran.json["retries"]) == (0, 600, 0), ran


DEFAULTS = ("range_optimizer_max_mem_size = 30000", "max_execution_time = 1", "wait_timeout = 1")


@pytest.mark.parametrize("variable", DEFAULTS)
def test_a_servers_defaults_do_not_reach_into_a_run(variable: str) -> None:
    """Memory for long lists, a limit for SELECT, and how long a session may be idle: qops has its own."""
    with private_server(options=[]) as server, fresh_database(server) as database:
        init(database)
        fill(database, 9_000, status="IF(n % 3, 'done', 'pending')", finished_at="NOW(6)")
        worker = database.connect()
        worker.cursor().execute("SELECT id FROM jobs WHERE id = 4500 FOR UPDATE")
        database.execute(f"SET GLOBAL {variable}")
        options = ("--pause", "1.5s", "--limit", "2000", "--format", "json")
        ran = run_process("archive", *options, url=database.url)
        worker.close()
    assert (ran.code, ran.json["archived"], ran.json["retries"]) == (0, 2_000, 0), ran
