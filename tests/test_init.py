"""`qops init` creates what is missing, names what differs, and changes what is there only with --repair."""

from __future__ import annotations

import signal
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import MySQLdb
import pytest

from dev.server import client_command, private_server
from tests.conftest import Database, Ran, fresh_database, run_here, run_process, start_process, wait_until
from tests.queues import ARTICLE, ARTICLE_TOML, GUIDE, GUIDE_TOML, fill, write_config
from tests.test_schema import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from dev.server import Server

Command = Any
TABLES = ["jobs", "jobs_archive", "qops_runs"]
BARE_RECIPE = "CREATE TABLE jobs (id INT PRIMARY KEY, task VARCHAR(100), state VARCHAR(20) NOT NULL) ENGINE=InnoDB"
BARE_RECIPE_TOML = """
[queues.recipe]
table = "jobs"
order = ["id"]
columns = { status = "state", payload = "task" }
states = { pending = "queued", done = "done" }
"""


def tables(database: Database) -> list[str]:
    return sorted(name for (name,) in database.rows("SHOW TABLES"))


def init(*options: str) -> Ran:
    return run_here("init", "--format", "json", *options)


def done(ran: Ran) -> list[tuple[str, str]]:
    """Return what a run applied."""
    return [(action["action"], action["object"]) for action in ran.json["actions"] if action["applied"]]


def drift(ran: Ran) -> list[str]:
    """Return the objects that differ."""
    return [one["object"] for one in ran.json["drift"]]


@pytest.fixture
def made(database: Database, monkeypatch: pytest.MonkeyPatch) -> Database:
    """Return a schema in which `qops init` has run."""
    monkeypatch.setenv("QOPS_URL", database.url)
    ran = init()
    assert (ran.code, ran.json["drift"]) == (0, []), ran.err
    return database


def account(database: Database, name: str, *grants: str) -> Database:
    """Return the schema as seen by a new account with `grants` on it."""
    user = f"{name}_{database.name}"[:32]
    database.execute(f"CREATE USER `{user}`@'%' IDENTIFIED BY 'secret'")
    for grant in grants:
        database.execute(grant.format(schema=f"`{database.name}`", user=f"`{user}`@'%'"))
    return Database(database.name, database.host, database.port, database.admin, user, "secret")


@pytest.fixture(autouse=True)
def drop_accounts(database: Database) -> Iterator[None]:
    yield
    users = database.rows("SELECT user FROM mysql.user WHERE user LIKE %s", (f"%{database.name[:20]}%",))
    for (user,) in users:
        database.execute(f"DROP USER `{user}`@'%'")


def test_everything_is_created_once(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first run creates queue, archive and ledger; the second finds nothing to do and changes nothing."""
    monkeypatch.setenv("QOPS_URL", database.url)
    ran = init()
    assert ran.code == 0
    assert done(ran) == [("create-table", name) for name in TABLES]
    assert set(ran.json) == {"queue", "actions", "drift"}
    assert ran.json["queue"] == "jobs"
    before = shown(database)
    again = init()
    assert (again.code, again.json) == (0, {"queue": "jobs", "actions": [], "drift": []})
    assert shown(database) == before
    assert database.queue().states["scheduled"] == ("scheduled",)


def test_the_tables_are_as_promised(made: Database) -> None:
    """Types, defaults, order of the states, engine and character set are those of the design."""
    columns = made.rows(
        "SELECT column_name, column_type, is_nullable, column_default FROM information_schema.columns "
        "WHERE table_schema = %s AND table_name = 'jobs' ORDER BY ordinal_position",
        (made.name,),
    )
    now = "CURRENT_TIMESTAMP(6)"
    assert columns == [
        ("id", "bigint unsigned", "NO", None),
        ("status", "enum('pending','running','done','failed','scheduled')", "NO", "pending"),
        ("priority", "int", "NO", "0"),
        ("payload", "json", "NO", None),
        ("claimed_by", "varchar(64)", "YES", None),
        ("lease_until", "timestamp(6)", "YES", None),
        ("available_at", "timestamp(6)", "NO", now),
        ("attempts", "int unsigned", "NO", "0"),
        ("max_attempts", "int unsigned", "NO", "5"),
        ("last_error", "text", "YES", None),
        ("created_at", "timestamp(6)", "NO", now),
        ("finished_at", "timestamp(6)", "YES", None),
    ]
    archive = made.rows(
        "SELECT column_name, column_type, is_nullable, collation_name FROM information_schema.columns "
        "WHERE table_schema = %s AND table_name = 'jobs_archive' ORDER BY ordinal_position",
        (made.name,),
    )
    assert [row[:3] for row in archive] == [row[:3] for row in columns]
    assert {row[3] for row in archive} == {None, "utf8mb4_0900_ai_ci"}
    indexes = made.rows("SHOW INDEX FROM jobs_archive WHERE key_name <> 'PRIMARY'")
    assert [row[4] for row in indexes] == ["finished_at"]
    assert made.rows("SELECT @@sql_mode") is not None
    engines = made.rows("SELECT engine FROM information_schema.tables WHERE table_schema = %s", (made.name,))
    assert set(engines) == {("InnoDB",)}


def test_names_limits_and_states_are_the_configured_ones(
    database: Database, qops: Callable[..., Ran], tmp_path: Path
) -> None:
    """Tables are created under the configured names, with the configured roles, states, limit and order."""
    write_config(
        tmp_path,
        """
        [queues.mail]
        table = "mails"
        archive_table = "mails_old"
        max_attempts = 3
        order = ["created_at desc", "id"]
        columns = { status = "state", priority = false, last_error = "trouble" }
        states = { pending = ["new", "again"], running = "busy", done = "sent" }
        """,
    )
    ran = init()
    assert (ran.code, ran.json["queue"]) == (0, "mail")
    assert tables(database) == ["mails", "mails_old", "qops_runs"]
    create = shown(database)["mails"]
    assert "`state` enum('new','busy','sent','again') NOT NULL DEFAULT 'new'" in create
    assert "`max_attempts` int unsigned NOT NULL DEFAULT '3'" in create
    assert "KEY `claim_idx` (`state`,`created_at` DESC,`id`)" in create
    assert "`trouble` text" in create
    assert "priority" not in create
    assert "available_idx" not in create  # there is no scheduled state
    assert init().code == 0


def test_eight_at_once_make_one_queue(database: Database) -> None:
    """Of eight runs that start together all succeed, and the result is that of one."""
    processes = [start_process("init", "--format", "json", url=database.url) for _ in range(8)]
    ended = [(process.communicate(timeout=120), process.returncode) for process in processes]
    assert [code for _, code in ended] == [0] * 8, ended
    assert tables(database) == TABLES
    assert run_process("init", "--format", "json", url=database.url).json["actions"] == []


def test_eight_repairs_at_once_make_one_repair(database: Database) -> None:
    """Eight repairs that race for the same columns and indexes all end well, and each index is there once."""
    database.execute(GUIDE)
    processes = [start_process("init", "--repair", "--format", "json", url=database.url) for _ in range(8)]
    ended = [(process.communicate(timeout=150), process.returncode) for process in processes]
    assert {code for _, code in ended} <= {0, 75}, ended
    assert run_process("init", "--repair", url=database.url).code == 0
    names = database.rows(
        "SELECT DISTINCT index_name FROM information_schema.statistics WHERE table_schema = %s AND table_name = 'jobs'",
        (database.name,),
    )
    assert sorted(name for (name,) in names) == ["PRIMARY", "available_idx", "claim_idx", "finished_idx", "lease_idx"]


@pytest.mark.parametrize("reached", [1, 2, 3])
def test_a_killed_run_is_finished_by_the_next(database: Database, reached: int) -> None:
    """After SIGKILL at any table the next run completes the queue."""
    process = start_process("init", url=database.url)
    wait_until(lambda: len(tables(database)) >= reached or process.poll() is not None)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=30)
    ran = run_process("init", "--format", "json", url=database.url)
    assert (ran.code, ran.json["drift"], tables(database)) == (0, [], TABLES)


def test_a_killed_repair_is_finished_by_the_next(database: Database) -> None:
    """After SIGKILL in the middle of the repair of a filled table the next repair ends it."""
    database.execute(GUIDE)
    fill(database, 50_000)
    process = start_process("init", "--repair", url=database.url)
    building = "SELECT COUNT(*) FROM performance_schema.processlist WHERE db = %s AND info LIKE 'CREATE INDEX%%'"
    wait_until(lambda: database.value(building, (database.name,)) or process.poll() is not None)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=30)
    wait_until(lambda: not database.value(building, (database.name,)), what="the end of the orphaned statement")
    ran = run_process("init", "--repair", "--format", "json", url=database.url)
    assert (ran.code, ran.json["drift"]) == (0, []), ran.err


ONLINE = [
    ("ALTER TABLE jobs DROP COLUMN finished_at", ["jobs.finished_at", "jobs.finished_idx_2"]),
    ("ALTER TABLE jobs DROP KEY finished_idx, DROP COLUMN payload", ["jobs.payload", "jobs.finished_idx"]),
    (
        "ALTER TABLE jobs MODIFY status ENUM('pending','running','done','failed') NOT NULL DEFAULT 'pending'",
        ["jobs.status"],
    ),
    (
        "ALTER TABLE jobs MODIFY status VARCHAR(7) NOT NULL;\nALTER TABLE jobs_archive MODIFY status VARCHAR(7)",
        ["jobs.status"],
    ),
    ("ALTER TABLE jobs DROP KEY claim_idx", ["jobs.claim_idx"]),
    (
        "ALTER TABLE jobs DROP KEY claim_idx, ADD KEY claim_idx (status, priority, id)",
        ["jobs.claim_idx_2"],
    ),
    ("ALTER TABLE jobs DROP KEY claim_idx, ADD KEY (status)", ["jobs.claim_idx"]),
    ("ALTER TABLE jobs DROP KEY claim_idx, ADD KEY other ((priority + 0), id)", ["jobs.claim_idx"]),
    ("ALTER TABLE jobs ALTER INDEX claim_idx INVISIBLE", ["jobs.claim_idx"]),
    ("ALTER TABLE jobs DROP KEY lease_idx", ["jobs.lease_idx"]),
    ("ALTER TABLE jobs DROP KEY available_idx", ["jobs.available_idx"]),
    ("ALTER TABLE jobs ALTER INDEX finished_idx INVISIBLE", ["jobs.finished_idx"]),
    ("ALTER TABLE jobs MODIFY id BIGINT UNSIGNED NOT NULL, DROP PRIMARY KEY", ["jobs.PRIMARY"]),
    (
        "ALTER TABLE jobs MODIFY id BIGINT UNSIGNED NOT NULL, DROP PRIMARY KEY, ADD n INT AUTO_INCREMENT PRIMARY KEY",
        ["jobs.id_idx", "jobs_archive.n"],
    ),
    ("ALTER TABLE jobs_archive DROP COLUMN last_error, DROP COLUMN status", ["jobs_archive.last_error"]),
    (
        "ALTER TABLE jobs ADD tag VARCHAR(40) NOT NULL;\nALTER TABLE jobs_archive ADD tag VARCHAR(20) NOT NULL",
        ["jobs_archive.tag"],
    ),
    ("ALTER TABLE jobs_archive MODIFY claimed_by VARCHAR(64) NOT NULL", ["jobs_archive.claimed_by"]),
    ("ALTER TABLE jobs_archive MODIFY status ENUM('pending','running') NOT NULL", ["jobs_archive.status"]),
    ("ALTER TABLE jobs_archive DROP PRIMARY KEY", ["jobs_archive.PRIMARY"]),
    ("ALTER TABLE qops_runs DROP COLUMN reason, DROP COLUMN expires_at", ["qops_runs.reason"]),
    ("ALTER TABLE qops_runs DROP KEY queue_idx", ["qops_runs.queue_idx"]),
]


@pytest.mark.parametrize(("spoil", "objects"), ONLINE, ids=[spoil[12:60] for spoil, _ in ONLINE])
def test_drift_is_named_left_alone_and_repaired_on_demand(made: Database, spoil: str, objects: list[str]) -> None:
    """What is missing is named with exit 78 and unchanged; --repair adds it online and then nothing is missing."""
    made.script(spoil)
    before = shown(made)
    found = init()
    assert found.code == 78
    assert set(objects) <= set(drift(found))
    assert done(found) == []
    assert found.json["error"]["exit"] == 78
    assert found.json["error"]["kind"] == "configuration"
    assert shown(made) == before
    repaired = init("--repair")
    assert (repaired.code, repaired.json["drift"]) == (0, []), repaired.err
    assert {action["object"] for action in repaired.json["actions"]} >= set(objects)
    assert all(action["applied"] for action in repaired.json["actions"])
    assert init().json == {"queue": "jobs", "actions": [], "drift": []}
    made.queue()


def test_a_table_that_takes_no_more_instant_columns_gets_it_in_place(made: Database) -> None:
    """Where INSTANT has used up its row versions the column is added INPLACE, still online."""
    made.execute("ALTER TABLE jobs DROP KEY finished_idx, DROP COLUMN finished_at")
    made.execute("ALTER TABLE jobs_archive DROP COLUMN finished_at")
    with pytest.raises(MySQLdb.Error, match="row versions"):
        use_up_row_versions(made)
    ran = init("--repair")
    assert ran.code == 0
    added = {a["object"]: a["sql"] for a in ran.json["actions"]}
    assert added["jobs.finished_at"].endswith("ALGORITHM=INPLACE, LOCK=NONE;")
    assert added["jobs_archive.finished_at"].endswith("ALGORITHM=INSTANT;")


def use_up_row_versions(database: Database) -> None:
    for _ in range(200):
        database.execute("ALTER TABLE jobs ADD COLUMN passing INT, ALGORITHM=INSTANT")
        database.execute("ALTER TABLE jobs DROP COLUMN passing, ALGORITHM=INSTANT")


def test_people_see_what_differs_and_the_sql_that_cures_it(made: Database, qops: Callable[..., Ran]) -> None:
    """In a table each difference is a row, and the SQL that was not run follows under a comment that says why."""
    made.execute("ALTER TABLE jobs DROP KEY claim_idx")
    made.execute("ALTER TABLE jobs_archive MODIFY last_error TEXT COLLATE utf8mb4_unicode_ci")
    ran = qops("init")
    lines = ran.out.splitlines()
    rows = [" ".join(line.split()) for line in lines if line.startswith("jobs.claim_idx")]
    assert rows == ["jobs.claim_idx index on (status, priority DESC, id) missing"]
    index = "CREATE INDEX `claim_idx` ON `jobs` (`status`, `priority` DESC, `id`) ALGORITHM=INPLACE LOCK=NONE;"
    alter = "ALTER TABLE `jobs_archive` MODIFY COLUMN `last_error` text COLLATE utf8mb4_0900_ai_ci NULL;"
    assert lines[-4:] == [
        "-- qops init --repair runs this, online:",
        index,
        "-- blocks writers while it runs, so qops leaves it to you:",
        alter,
    ]
    assert "qops init --repair" in ran.err


BY_HAND = [
    (
        "ALTER TABLE jobs DROP KEY claim_idx, ADD KEY (status), ENGINE=MyISAM",
        "jobs",
        "ALTER TABLE `jobs` ENGINE=InnoDB;",
    ),
    (
        "ALTER TABLE jobs MODIFY claimed_by VARCHAR(64) NOT NULL DEFAULT 'x' COMMENT 'it''s'",
        "jobs.claimed_by",
        "`claimed_by` varchar(64) COLLATE utf8mb4_0900_ai_ci NULL COMMENT 'it''s' DEFAULT 'x';",
    ),
    ("ALTER TABLE jobs MODIFY lease_until DATETIME(6)", "jobs.lease_until", None),
    ("ALTER TABLE jobs MODIFY attempts VARCHAR(9)", "jobs.attempts", None),
    (
        "ALTER TABLE jobs_archive MODIFY last_error TEXT COLLATE utf8mb4_unicode_ci",
        "jobs_archive.last_error",
        "ALTER TABLE `jobs_archive` MODIFY COLUMN `last_error` text COLLATE utf8mb4_0900_ai_ci NULL;",
    ),
    (
        "ALTER TABLE jobs_archive MODIFY last_error TEXT CHARACTER SET latin1",
        "jobs_archive.last_error",
        "ALTER TABLE `jobs_archive` MODIFY COLUMN `last_error` text COLLATE utf8mb4_0900_ai_ci NULL;",
    ),
    (
        "ALTER TABLE jobs_archive MODIFY attempts SMALLINT UNSIGNED NOT NULL DEFAULT 7",
        "jobs_archive.attempts",
        "ALTER TABLE `jobs_archive` MODIFY COLUMN `attempts` int unsigned NOT NULL DEFAULT '7';",
    ),
    (
        "ALTER TABLE jobs_archive MODIFY claimed_by VARCHAR(20)",  # from 64 characters on it has two length bytes
        "jobs_archive.claimed_by",
        "`claimed_by` varchar(64) COLLATE utf8mb4_0900_ai_ci NULL;",
    ),
    ("ALTER TABLE jobs_archive MODIFY attempts BIGINT NOT NULL", "jobs_archive.attempts", None),
    ("ALTER TABLE jobs_archive MODIFY finished_at TIMESTAMP(3) NULL", "jobs_archive.finished_at", "MODIFY"),
    ("ALTER TABLE jobs_archive MODIFY finished_at DATETIME(6)", "jobs_archive.finished_at", None),
    ("ALTER TABLE jobs_archive ADD COLUMN shard INT NOT NULL", "jobs_archive.shard", "`shard` int NULL;"),
]


@pytest.mark.parametrize(("spoil", "name", "sql"), BY_HAND, ids=[spoil[12:60] for spoil, _, _ in BY_HAND])
def test_what_cannot_be_done_online_stays_reported(made: Database, spoil: str, name: str, sql: str | None) -> None:
    """--repair leaves what would block writers or change data, exits 78, and prints SQL that cures it if it can."""
    made.script(spoil)
    before = shown(made)
    ran = init("--repair")
    assert ran.code == 78
    assert name in drift(ran)
    assert shown(made) == before
    by_hand = [action for action in ran.json["actions"] if action["action"] == "by-hand" and action["object"] == name]
    if sql is None:
        assert by_hand == []
        return
    (action,) = by_hand
    assert sql in action["sql"]
    assert not action["applied"]
    made.execute(action["sql"])
    assert name not in drift(init())


def test_more_in_the_archive_than_in_the_queue_is_no_drift(made: Database) -> None:
    """Columns and indexes that the owner added to the archive or the queue's index list are left alone."""
    made.execute(
        "ALTER TABLE jobs_archive ADD archived_at TIMESTAMP NULL, ADD note INT NOT NULL DEFAULT 1, ADD KEY (note)"
    )
    made.execute("ALTER TABLE jobs ADD KEY mine (claimed_by)")
    assert init().json == {"queue": "jobs", "actions": [], "drift": []}


@pytest.mark.parametrize("archive_by", ["copy", "trigger"])
def test_an_index_for_expire_is_advice_and_added_on_demand(made: Database, tmp_path: Path, archive_by: str) -> None:
    """An archive without an index by finish time is no drift; `init` says what that costs, and --repair adds it."""
    write_config(tmp_path, f'[queues.jobs]\narchive_by = "{archive_by}"\n')
    made.execute("ALTER TABLE jobs_archive DROP INDEX finished_idx, ADD KEY other (status, finished_at)")
    ran = init()
    assert (ran.code, drift(ran)) == (0, [])
    assert "qops expire" in ran.err
    assert done(init("--repair")) == [("add-index", "jobs_archive.finished_idx")]
    assert init().json["actions"] == []


def test_a_column_of_the_owner_is_archived_too(made: Database) -> None:
    """A column that the owner added to the queue is missing in the archive until --repair adds it there."""
    made.execute(
        "ALTER TABLE jobs ADD tenant VARCHAR(20) CHARACTER SET latin1 NOT NULL, ADD day DATE AS (DATE(created_at))"
    )
    assert set(drift(init())) == {"jobs_archive.tenant", "jobs_archive.day"}
    assert init("--repair").code == 0
    facts = database_column(made, "jobs_archive", "tenant")
    assert facts == ("varchar(20)", "latin1_swedish_ci", "YES")


def database_column(database: Database, table: str, column: str) -> tuple[Any, ...]:
    (row,) = database.rows(
        "SELECT column_type, collation_name, is_nullable FROM information_schema.columns "
        "WHERE table_schema = %s AND table_name = %s AND column_name = %s",
        (database.name, table, column),
    )
    return row


def test_an_archive_filled_by_a_trigger_is_its_owners(made: Database, tmp_path: Path) -> None:
    """With archive_by = "trigger" the archive's columns are the trigger's business."""
    made.execute("ALTER TABLE jobs_archive DROP COLUMN payload")
    write_config(tmp_path, '[queues.jobs]\narchive_by = "trigger"\n')
    assert init().code == 0


def test_a_default_queue_needs_a_clock_for_datetime(made: Database, tmp_path: Path) -> None:
    """A DATETIME that is compared with the clock is drift until `clock` says what it means."""
    for table in ("jobs", "jobs_archive"):
        made.execute(f"ALTER TABLE {table} MODIFY lease_until DATETIME(6) NULL")
    assert drift(init()) == ["jobs.lease_until"]
    write_config(tmp_path, '[queues.jobs]\nclock = "utc"\n')
    assert init().code == 0


def test_the_guides_table_is_adopted_as_it_is(database: Database, qops: Callable[..., Ran], tmp_path: Path) -> None:
    """The guide's table needs nothing but an archive of its columns; an index for leases is advice, not drift."""
    database.execute(GUIDE)
    write_config(tmp_path, GUIDE_TOML)
    before = shown(database)["jobs"]
    ran = init()
    assert (ran.code, drift(ran)) == (0, [])
    assert done(ran) == [("create-table", "jobs_archive"), ("create-table", "qops_runs")]
    assert [a["object"] for a in ran.json["actions"] if not a["applied"]] == ["jobs.lease_idx"]
    assert "requeue --expired" in ran.err
    assert shown(database)["jobs"] == before
    queue = database.queue()
    assert list(queue.archive_facts) == list(queue.facts)
    assert [f.column_type for f in queue.archive_facts.values()] == [f.column_type for f in queue.facts.values()]
    assert done(init("--repair")) == [("add-index", "jobs.lease_idx")]
    assert init().json["actions"] == []


def test_the_articles_table_is_adopted_as_it_is(database: Database, qops: Callable[..., Ran], tmp_path: Path) -> None:
    """The article's table needs an archive and the ledger, and its own claim index serves."""
    database.execute(ARTICLE)
    write_config(tmp_path, ARTICLE_TOML)
    before = shown(database)["job_queue"]
    ran = init()
    assert (ran.code, drift(ran)) == (0, [])
    assert done(ran) == [("create-table", "job_queue_archive"), ("create-table", "qops_runs")]
    assert shown(database)["job_queue"] == before


def test_the_recipes_table_lacks_an_index_on_its_state(
    database: Database, qops: Callable[..., Ran], tmp_path: Path
) -> None:
    """The recipe's claim reads all finished rows until --repair adds (state, id); everything else is as it is."""
    database.execute(BARE_RECIPE)
    write_config(tmp_path, BARE_RECIPE_TOML)
    ran = init()
    assert (ran.code, drift(ran)) == (78, ["jobs.claim_idx"])
    assert tables(database) == TABLES
    assert done(init("--repair")) == [("add-index", "jobs.claim_idx")]
    assert "KEY `claim_idx` (`state`,`id`)" in shown(database)["jobs"]
    assert init().code == 0


def test_a_named_role_and_state_are_needed_others_are_not(
    database: Database, qops: Callable[..., Ran], tmp_path: Path
) -> None:
    """Of an adopted table exactly what the configuration names is missing; other default roles are fine."""
    database.execute(GUIDE)
    write_config(
        tmp_path,
        '[queues.jobs]\ncolumns = { attempts = "tries", finished_at = "ended" }\n'
        'states = { pending = "pending", running = "running", done = "done", scheduled = "later" }\n',
    )
    assert drift(init()) == ["jobs.tries", "jobs.ended", "jobs.status", "jobs.finished_idx"]
    assert init("--repair").code == 0
    assert database_column(database, "jobs", "status")[0] == "enum('pending','running','done','failed','later')"
    assert database_column(database, "jobs_archive", "status")[0].endswith("'later')")


def test_a_repair_keeps_rows_and_definitions(database: Database, qops: Callable[..., Ran]) -> None:
    """Appending a state keeps default, comment and rows of the status column."""
    database.execute(GUIDE.replace("DEFAULT 'pending'", "DEFAULT 'done' COMMENT 'it''s 100%'"))
    fill(database, 10, status="ELT(1 + n MOD 4, 'pending', 'running', 'done', 'failed')")
    before = database.rows("SELECT id, status, priority, payload FROM jobs")
    assert init("--repair").code == 0
    assert database.rows("SELECT id, status, priority, payload FROM jobs") == before
    assert "DEFAULT 'done' COMMENT 'it''s 100%'" in shown(database)["jobs"].replace("100%%", "100%")


@pytest.mark.parametrize(
    "other",
    [
        "CREATE TABLE jobs (id INT PRIMARY KEY, title TEXT)",
        "CREATE TABLE jobs (job_id INT PRIMARY KEY, status INT)",
        "CREATE TABLE jobs_archive (number INT PRIMARY KEY)",
        "CREATE TABLE qops_runs (id INT PRIMARY KEY, distance INT)",
        "CREATE VIEW jobs AS SELECT 1 AS id, 'pending' AS status",
    ],
)
@pytest.mark.parametrize("options", [(), ("--repair",), ("--dry-run",)])
def test_a_table_of_another_application_is_refused(
    database: Database, qops: Callable[..., Ran], other: str, options: tuple[str, ...]
) -> None:
    """Nothing at all is created or changed where one of the names is taken by something else."""
    database.execute(other)
    before = shown(database)
    ran = init(*options)
    assert (ran.code, set(ran.json)) == (78, {"error"})
    assert "qops.toml" in ran.err or "[queues.jobs]" in ran.err or "ledger" in ran.err
    assert shown(database) == before


@pytest.mark.parametrize("archive", ["jobs", "qops_runs"])
def test_one_table_cannot_be_two(database: Database, qops: Callable[..., Ran], tmp_path: Path, archive: str) -> None:
    """A queue that is its own archive, or whose archive is the ledger, is a mistake in the configuration."""
    write_config(tmp_path, f'[queues.jobs]\narchive_table = "{archive}"\n')
    assert init("--repair").code == 78
    assert tables(database) == []


def test_a_dry_run_prints_sql_that_runs(database: Database, qops: Callable[..., Ran]) -> None:
    """The printed script, pasted into MySQL's client, makes what `qops init` would have made."""
    dry = qops("init", "--dry-run")
    assert dry.code == 0
    assert tables(database) == []
    assert paste(database, dry.out) == 0
    pasted = shown(database)
    assert qops("init", "--format", "json").json["actions"] == []
    for name in TABLES:
        database.execute(f"DROP TABLE {name}")
    qops("init")
    assert shown(database) == pasted


def test_a_dry_run_of_a_repair_prints_sql_that_repairs(database: Database, qops: Callable[..., Ran]) -> None:
    """The script of --repair --dry-run changes nothing by itself and everything when pasted."""
    database.execute(GUIDE)
    before = shown(database)
    dry = qops("init", "--dry-run", "--repair")
    assert dry.code == 78
    assert shown(database) == before
    assert "SET SESSION lock_wait_timeout = 1;" in dry.out
    assert paste(database, dry.out) == 0
    ran = init()
    assert (ran.code, ran.json["actions"]) == (0, [])


def test_a_dry_run_without_repair_changes_no_existing_table(database: Database, qops: Callable[..., Ran]) -> None:
    """Without --repair the script creates missing tables, and what a repair would do is a comment in it."""
    database.execute(GUIDE)
    before = shown(database)["jobs"]
    assert paste(database, qops("init", "--dry-run").out) == 0
    assert tables(database) == TABLES
    assert shown(database)["jobs"] == before


def paste(database: Database, script: str) -> int:
    """Run a script in MySQL's own client, no database selected, and return its exit code."""
    client = client_command()
    if client is None:
        pytest.skip("there is no MySQL client here")
    login = [f"--host={database.host}", f"--port={database.port}", f"--user={database.user}"]
    ran = subprocess.run([*client, *login], input=script, capture_output=True, text=True, check=False)
    assert not ran.stderr, ran.stderr
    return ran.returncode


def test_create_alone_is_enough_for_the_first_run(database: Database) -> None:
    """An account with CREATE and INDEX makes the queue; to compare it later it needs SELECT, and is told so."""
    restricted = account(database, "c", "GRANT CREATE, INDEX ON {schema}.* TO {user}")
    ran = run_here("init", "--url", restricted.url, "--format", "json")
    assert (ran.code, len(done(ran))) == (0, 3), ran.err
    again = run_here("init", "--url", restricted.url, "--format", "json")
    assert again.code == 77
    assert "GRANT SELECT, CREATE, ALTER, INDEX ON" in again.json["error"]["message"]
    assert init("--url", database.url).code == 0


def test_indexes_are_repaired_without_alter(database: Database) -> None:
    """SELECT and INDEX are enough to add an index to the queue's table."""
    assert init("--url", database.url).code == 0
    database.execute("ALTER TABLE jobs DROP KEY claim_idx")
    restricted = account(database, "i", "GRANT SELECT, INDEX ON {schema}.* TO {user}")
    ran = init("--url", restricted.url, "--repair")
    assert (ran.code, done(ran)) == (0, [("add-index", "jobs.claim_idx")]), ran.err


@pytest.mark.parametrize(
    ("grants", "options"),
    [
        (("GRANT SELECT ON {schema}.* TO {user}",), ()),
        (("GRANT SELECT, CREATE ON {schema}.* TO {user}",), ("--repair",)),
    ],
)
def test_a_missing_privilege_is_named_with_the_grant(
    database: Database, grants: tuple[str, ...], options: tuple[str, ...]
) -> None:
    """Without the privilege for a statement the exit is 77, the GRANT is in the message, and the plan is shown."""
    database.execute(GUIDE)
    restricted = account(database, "p", *grants)
    ran = init("--url", restricted.url, *options)
    assert ran.code == 77
    assert f"ON `{database.name.replace('_', chr(92) + '_')}`.* TO" in ran.json["error"]["message"]
    assert ran.json["actions"]
    assert database_column(database, "jobs", "status")[0] == "enum('pending','running','done','failed')"


def test_the_documented_grants_are_enough_for_a_repair(database: Database) -> None:
    """An account with exactly the privileges that a refusal names repairs a table that lacks everything."""
    database.execute(GUIDE)
    restricted = account(database, "r", "GRANT SELECT, CREATE, ALTER, INDEX ON {schema}.* TO {user}")
    ran = init("--url", restricted.url, "--repair")
    assert (ran.code, ran.json["drift"]) == (0, []), ran.err


def test_a_column_out_of_sight_is_not_taken_for_missing_for_ever(database: Database) -> None:
    """Where a column exists that the account may not see, the run ends with 77 and says so."""
    assert init("--url", database.url).code == 0
    seen = ", ".join(f"SELECT ({column})" for column in ("id", "status", "priority", "payload", "lease_until"))
    restricted = account(
        database,
        "h",
        f"GRANT {seen} ON {{schema}}.jobs TO {{user}}",
        "GRANT ALTER, INDEX, CREATE ON {schema}.jobs TO {user}",
        "GRANT SELECT ON {schema}.jobs_archive TO {user}",
        "GRANT SELECT ON {schema}.qops_runs TO {user}",
    )
    ran = init("--url", restricted.url, "--repair")
    assert ran.code == 77, ran.err
    assert "may not see it; an administrator can run:\nGRANT " in ran.json["error"]["message"]
    assert init("--url", database.url).json == {"queue": "jobs", "actions": [], "drift": []}


def held(database: Database) -> Any:
    """Open a transaction that has read the queue's table and then does nothing."""
    session = database.connect()
    cursor = session.cursor()
    cursor.execute("SELECT COUNT(*) FROM jobs")
    cursor.fetchall()
    return session


def test_a_repair_gives_up_soon_on_a_table_in_use(made: Database) -> None:
    """An idle transaction makes --repair end with 75 within seconds, naming it, and others wait a second at most."""
    made.execute("ALTER TABLE jobs DROP KEY claim_idx")
    fill(made, 1)
    holder = held(made)
    slowest = 0.0
    over = threading.Event()

    def work() -> None:
        nonlocal slowest
        session = made.connect(autocommit=True)
        while not over.is_set():
            started = time.monotonic()
            session.cursor().execute("UPDATE jobs SET priority = priority + 1")
            slowest = max(slowest, time.monotonic() - started)
            over.wait(0.01)
        session.close()

    worker = threading.Thread(target=work)
    worker.start()
    started = time.monotonic()
    try:
        ran = init("--repair")
    finally:
        over.set()
        worker.join()
    elapsed = time.monotonic() - started
    assert ran.code == 75
    assert f"KILL {holder.thread_id()};" in ran.json["error"]["message"]
    assert drift(ran) == ["jobs.claim_idx"]
    assert elapsed < 20
    assert slowest < 3
    holder.close()
    assert init("--repair").code == 0


def test_a_repair_does_not_queue_behind_a_transaction_that_lasts(made: Database) -> None:
    """Where a transaction has held the table for long, --repair does not even ask for the lock."""
    made.execute("ALTER TABLE jobs DROP KEY claim_idx")
    holder = held(made)
    age = (
        "SELECT MAX(timer_wait) / 1e12 FROM performance_schema.events_transactions_current AS e "
        "JOIN performance_schema.threads AS t USING (thread_id) WHERE t.processlist_id = %s"
    )
    wait_until(lambda: made.value(age, (holder.thread_id(),)) > 3.2)
    seen = []
    over = threading.Event()

    def watch() -> None:
        session = made.connect(autocommit=True)
        cursor = session.cursor()
        while not over.is_set():
            cursor.execute(
                "SELECT COUNT(*) FROM performance_schema.processlist WHERE db = %s AND info LIKE 'CREATE INDEX%%'",
                (made.name,),
            )
            seen.append(cursor.fetchone()[0])
        session.close()

    watcher = threading.Thread(target=watch)
    watcher.start()
    ran = init("--repair")
    over.set()
    watcher.join()
    holder.close()
    assert ran.code == 75
    assert seen
    assert not any(seen)


def test_who_holds_the_table_may_be_out_of_sight(made: Database) -> None:
    """An account that cannot see metadata locks is told what it would take, with the same exit."""
    made.execute("ALTER TABLE jobs DROP KEY claim_idx")
    holder = held(made)
    restricted = account(made, "m", "GRANT SELECT, INDEX, ALTER ON {schema}.* TO {user}")
    ran = init("--url", restricted.url, "--repair")
    holder.close()
    assert ran.code == 75
    assert "performance_schema.metadata_locks" in ran.json["error"]["message"]


def test_a_signal_stops_between_statements(database: Database) -> None:
    """SIGTERM while a repair waits for a lock ends it with 143 and the usual document."""
    database.execute(GUIDE)
    holder = held(database)
    process = start_process("init", "--repair", "--format", "json", url=database.url)
    sessions = "SELECT COUNT(*) FROM information_schema.processlist WHERE db = %s"
    wait_until(lambda: database.value(sessions, (database.name,)) > 2 or process.poll() is not None)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=30)
    holder.close()
    ran = Ran(process.returncode, out, err)
    assert ran.code == 143, err
    assert ran.json["error"] == {"exit": 143, "kind": "signal", "message": ran.json["error"]["message"]}
    assert "jobs.available_at" in drift(ran)


@pytest.fixture(scope="module")
def odd_server() -> Iterator[Server]:
    """Return a server with unusual defaults: names without case, latin1, ANSI quotes, primary keys demanded."""
    options = [
        "--lower-case-table-names=1",
        "--character-set-server=latin1",
        "--sql-mode=ANSI,ONLY_FULL_GROUP_BY,STRICT_TRANS_TABLES,NO_ZERO_DATE,NO_ZERO_IN_DATE",
        "--sql-require-primary-key=ON",
        "--explicit-defaults-for-timestamp=OFF",
        "--default-storage-engine=MyISAM",
    ]
    with private_server(options) as server:
        yield server


def test_odd_server_defaults_do_not_matter(odd_server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Charset, quoting, timestamps, engine and case of names are stated, so a server's defaults change nothing."""
    with fresh_database(odd_server, "Odd-DB", charset="latin1") as database:
        monkeypatch.setenv("QOPS_URL", database.url)
        write_config(tmp_path, '[queues.jobs]\ntable = "Jobs"\narchive_table = "Old`Jobs"\n')
        assert init().code == 0
        assert init().json == {"queue": "jobs", "actions": [], "drift": []}
        assert tables(database) == ["jobs", "old`jobs", "qops_runs"]
        (tmp_path / "same").mkdir()
        same = write_config(tmp_path / "same", '[queues.jobs]\ntable = "Jobs"\narchive_table = "jobs"\n')
        assert init("--config", str(same)).code == 78
        collations = database.rows(
            "SELECT DISTINCT collation_name FROM information_schema.columns WHERE table_schema = DATABASE() "
            "AND table_name <> 'qops_runs' AND collation_name IS NOT NULL"
        )
        assert collations == [("utf8mb4_0900_ai_ci",)]
        updates = "SELECT COUNT(*) FROM information_schema.columns WHERE table_schema = DATABASE() AND extra LIKE %s"
        assert database.value(updates, ("%on update%",)) == 0
        database.execute("ALTER TABLE `old``jobs` DROP COLUMN last_error")
        database.execute("ALTER TABLE jobs DROP KEY claim_idx")
        holder = database.connect()
        holder.cursor().execute("SELECT * FROM jobs")
        ran = init("--repair")
        assert (ran.code, f"KILL {holder.thread_id()}" in ran.err) == (75, True), ran.err
        holder.close()
        assert init("--repair").code == 0
        dry = run_here("init", "--dry-run", "--queue", "jobs")
        assert dry.out == "-- queue 'jobs' has all it needs\n"
        for name in ("jobs", "old``jobs", "qops_runs"):
            database.execute(f"DROP TABLE `{name}`")
        assert paste(database, run_here("init", "--dry-run").out) == 0
        assert init().json["actions"] == []


def test_a_read_only_server_is_unavailable(odd_server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that takes no writes ends `init` with 69, and the statements that were to run are shown."""
    with fresh_database(odd_server) as database:
        monkeypatch.setenv("QOPS_URL", database.url)
        database.execute("SET GLOBAL super_read_only = ON")
        ran = init()
        dry = init("--dry-run")
        database.execute("SET GLOBAL super_read_only = OFF")
        database.execute("SET GLOBAL read_only = OFF")
        assert (ran.code, ran.json["error"]["kind"]) == (69, "unavailable")
        assert done(ran) == []
        assert (dry.code, len(dry.json["actions"])) == (0, 3)


def test_a_latin1_schema_stores_every_character(main_server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a latin1 schema the tables still hold emoji, in queue and archive alike."""
    with fresh_database(main_server, charset="latin1") as database:
        monkeypatch.setenv("QOPS_URL", database.url)
        assert init().code == 0
        database.execute("INSERT INTO jobs (payload, last_error, status) VALUES ('{}', %s, 'done')", ("😀ﬁ",))
        database.execute("INSERT INTO jobs_archive SELECT * FROM jobs")
        assert database.rows("SELECT last_error FROM jobs_archive") == [("😀ﬁ",)]
        database.execute("INSERT INTO qops_runs (command, queue, reason) VALUES ('pause', 'jobs', %s)", ("😀",))


def test_success_is_silent_under_cron(database: Database) -> None:
    """With --quiet a run that succeeds prints nothing, on either stream."""
    ran = run_process("init", "--quiet", url=database.url)
    assert (ran.code, ran.out, ran.err) == (0, "", "")


def test_parallel_queues_share_one_ledger(database: Database, tmp_path: Path) -> None:
    """Two queues of one schema are created side by side, with one ledger."""
    config = write_config(tmp_path, '[queues.mail]\ntable = "mail"\n[queues.report]\ntable = "report"\n')
    with ThreadPoolExecutor(2) as pool:
        ran = list(
            pool.map(
                lambda name: run_process("init", "--config", str(config), "--queue", name, url=database.url),
                ("mail", "report"),
            )
        )
    assert [one.code for one in ran] == [0, 0]
    assert tables(database) == ["mail", "mail_archive", "qops_runs", "report", "report_archive"]
