"""What doctor finds in types, spare indexes, states nobody named and keys of the server: each broken and cured."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from qops.doctor.checks_types import DAY
from qops.doctor.facts import Facts, TableFacts, Unknown
from qops.doctor.row_facts import Attempts, Overdue, Sample
from qops.doctor.states import read_strays
from qops.doctor.type_facts import (
    AttemptRoom,
    Doubtful,
    Moments,
    Spare,
    SpareFacts,
    Stray,
    StrayFacts,
    TypeFacts,
    Width,
)
from tests.accounts import account
from tests.conftest import Database, fresh_database, run_here
from tests.queues import ARTICLE, ARTICLE_TOML, GUIDE, GUIDE_TOML, RECIPE, RECIPE_TOML, fill, init, write_config
from tests.test_doctor import HEALTHY, cure, examine, findings, of, result
from tests.test_doctor_privileges import role
from tests.test_doctor_rows import find_and_cure

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CAUTION = (
    "-- first see that no worker names such an index, in FORCE INDEX or USE INDEX: a statement that does then fails "
    "(1176), also while it is INVISIBLE"
)
MINE = ("time-range", "attempts-type", "text-width", "redundant-indexes", "unknown-states")
STATES = "'pending','running','done','failed','scheduled'"


@pytest.fixture
def queue(own_server: Any) -> Iterator[Database]:
    with fresh_database(own_server) as database:
        init(database)
        yield database


def run_advice(database: Database, remedy: str) -> None:
    """Run the SQL of a remedy that leaves the decision to people."""
    with database.connect(database="", autocommit=True) as session, session.cursor() as cursor:
        for line in remedy.splitlines():
            if line.startswith(("-- SET ", "-- UPDATE ")):
                cursor.execute(line.removeprefix("-- ").removesuffix(";"))


@pytest.mark.parametrize(
    ("table", "config"), [(GUIDE, GUIDE_TOML), (RECIPE, RECIPE_TOML), (ARTICLE, ARTICLE_TOML)], ids=["g", "r", "a"]
)
def test_queues_of_the_field_have_none_of_these(own_server: Any, tmp_path: Path, table: str, config: str) -> None:
    """The tables of the three queues of the field pass all of these checks as they are."""
    path = str(write_config(tmp_path, config))
    with fresh_database(own_server) as database:
        database.execute(table)
        document = examine(database, "--config", path, *(word for id_ in MINE for word in ("--only", id_)))
        assert findings(document) == {}


def test_a_status_without_a_state_is_found_and_given_it(queue: Database) -> None:
    """An ENUM that lacks a configured member is one finding, and `init --repair` appends it to both tables."""
    for table in ("jobs", "jobs_archive"):
        queue.execute(f"ALTER TABLE {table} MODIFY status ENUM('pending','running','done','failed') NOT NULL")
    document = examine(queue)
    found = {id_: status for id_, status in findings(document).items() if status != "skipped"}
    assert found == {"storage-engine": "critical"}
    assert of(document, "storage-engine")["remedy"] == "qops init --repair"
    cure(queue, document, "storage-engine")
    assert findings(examine(queue)) == {}
    assert f"enum({STATES})" in str(queue.rows("SHOW COLUMNS FROM jobs LIKE 'status'"))


@pytest.mark.breaks("time-range")
def test_times_near_the_end_of_a_timestamp_are_found(queue: Database) -> None:
    """A time in the last year of a TIMESTAMP is a warning that names the rows; ordinary ones show the range."""
    fill(queue, 5)
    document = examine(queue)
    assert findings(document) == {}
    assert "2038-01-19 03:14:07 UTC" in of(document, "time-range")["observed"]
    fill(queue, 2, status="'scheduled'", id="100 + n", available_at="'2038-01-01'")
    document = examine(queue)
    assert findings(document) == {"time-range": "warning"}
    assert "available_at: 2 (id 101, 102)" in of(document, "time-range")["observed"]
    assert all(line.startswith("-- ") for line in of(document, "time-range")["remedy"].splitlines())
    queue.execute("UPDATE jobs SET available_at = NOW(6) + INTERVAL 1 YEAR WHERE status = 'scheduled'")
    assert findings(examine(queue)) == {}


def test_datetimes_beyond_2038_are_no_finding(own_server: Any, tmp_path: Path) -> None:
    """A DATETIME has no such end, and a whole number beside it is told with its own."""
    path = str(write_config(tmp_path, ARTICLE_TOML))
    with fresh_database(own_server) as database:
        database.execute(ARTICLE.replace("attempts INT", "reserved_at INT UNSIGNED NULL,\n  attempts INT"))
        database.execute("INSERT INTO job_queue VALUES (1, '{}', 'ready', '2041-01-01', NULL, NULL, 0)")
        check = of(examine(database, "--config", path, "--only", "time-range"), "time-range")
        assert check["status"] == "pass"
        assert "reserved_at int unsigned is none of qops's; if it counts seconds it ends in 2106" in check["observed"]


@pytest.mark.breaks("attempts-type")
def test_attempts_that_overflow_are_found_and_widened(queue: Database, tmp_path: Path) -> None:
    """A TINYINT is enough for few attempts; a job that may be tried more often is a warning, and the ALTERs cure it."""
    for table in ("jobs", "jobs_archive"):
        queue.execute(f"ALTER TABLE {table} MODIFY attempts TINYINT NOT NULL DEFAULT 0 COMMENT 'tries'")
    fill(queue, 5)
    assert findings(examine(queue)) == {}
    config = str(write_config(tmp_path, "[queues.jobs]\nmax_attempts = 200\n"))
    assert findings(examine(queue, "--config", config)) == {"attempts-type": "warning"}
    fill(queue, 1, id="100", max_attempts="200")
    found = find_and_cure(queue, "attempts-type", "warning")
    assert "tinyint, which ends at 127" in found["observed"]
    assert "1 (id 100)" in found["observed"]
    assert queue.rows("SHOW FULL COLUMNS FROM jobs LIKE 'attempts'")[0][1:] == (
        "int",
        None,
        "NO",
        "",
        "0",
        "",
        "select,insert,update,references",
        "tries",
    )
    assert findings(examine(queue, "--config", config)) == {}


@pytest.mark.parametrize(
    ("column", "kind"), [("claimed_by", "VARCHAR(10)"), ("last_error", "VARCHAR(50) DEFAULT 'none'")]
)
@pytest.mark.breaks("text-width")
def test_a_narrow_text_is_found_and_widened(queue: Database, column: str, kind: str) -> None:
    """A column too narrow for worker names or errors is a warning, and the ALTERs widen it in both tables."""
    for table in ("jobs", "jobs_archive"):
        queue.execute(f"ALTER TABLE {table} MODIFY {column} {kind}")
    found = find_and_cure(queue, "text-width", "warning")
    assert f"{column} varchar(" in found["observed"]
    assert queue.rows(f"SHOW COLUMNS FROM jobs LIKE '{column}'")[0][4] == ("none" if "none" in kind else None)


@pytest.mark.parametrize(
    ("index", "why"),
    [
        ("more_idx (status, priority DESC)", "first part of claim_idx"),
        ("twin_idx (status, lease_until)", "first part of lease_idx"),
        ("made_idx (claimed_by), ADD KEY wide_idx (claimed_by, id)", "first part of wide_idx"),
        ("up_idx (status, priority, id)", "not its order"),
        ("unseen_idx (status, created_at) INVISIBLE", "invisible"),
    ],
    ids=["left part", "the same", "of another", "wrong direction", "invisible"],
)
@pytest.mark.breaks("redundant-indexes")
def test_a_redundant_index_is_found_and_dropped(queue: Database, index: str, why: str) -> None:
    """An index that another one replaces, or that nothing can read, is exactly one finding, and the DROP ends it."""
    queue.execute(f"ALTER TABLE jobs ADD KEY {index}")
    found = find_and_cure(queue, "redundant-indexes", "warning")
    assert why in found["observed"]
    name = index.partition(" ")[0]
    caution, drop = found["remedy"].splitlines()
    assert caution == CAUTION
    assert drop == f"DROP INDEX `{name}` ON `{queue.name}`.`jobs`;"


@pytest.mark.parametrize(
    "change", ["ADD KEY a_twin (status, priority DESC, id)", "ADD KEY z_twin (status, priority DESC)"]
)
def test_claims_that_name_their_index_go_on(queue: Database, change: str) -> None:
    """Of several indexes for the claim the one that claims name, and that doctor advises to name, is never given up."""
    queue.execute(f"ALTER TABLE jobs {change}")
    named = queue.queue().claim_index
    claim = f"SELECT id FROM jobs FORCE INDEX ({named}) WHERE status = 'pending' LIMIT 1 FOR UPDATE SKIP LOCKED"
    found = find_and_cure(queue, "redundant-indexes", "warning")
    assert f"DROP INDEX `{named}`" not in found["remedy"]
    queue.rows(claim)
    assert queue.queue().claim_index == named


@pytest.mark.parametrize(
    "change",
    [
        "ADD UNIQUE KEY one (claimed_by, id), ADD UNIQUE KEY two (claimed_by)",
        "ADD KEY k (claimed_by), ADD KEY wider (claimed_by, id), ADD FOREIGN KEY (claimed_by) REFERENCES w (name)",
        "ADD KEY for_the_application (status, claimed_by)",
        "ADD KEY first_letters (claimed_by(4)), ADD KEY whole (claimed_by)",
        "ADD KEY computed ((LOWER(claimed_by)))",
    ],
    ids=["unique", "foreign key", "an application's", "prefix", "expression"],
)
def test_an_index_that_somebody_may_need_is_no_finding(queue: Database, change: str) -> None:
    """Keys, what foreign keys rest on, and what other statements may read are not to be dropped."""
    queue.execute("CREATE TABLE w (name VARCHAR(64) PRIMARY KEY)")
    queue.execute(f"ALTER TABLE jobs {change}")
    document = examine(queue)
    assert findings(document) == {}
    assert ("for_the_application" in of(document, "redundant-indexes")["observed"]) == ("application" in change)


def test_reads_of_a_doubtful_index_are_counted(queue: Database) -> None:
    """Of an index on the status that qops does not need the reads are told, or the GRANT that shows them."""
    queue.execute("ALTER TABLE jobs ADD KEY z_idx (status, claimed_by)")
    fill(queue, 3)
    document = examine(queue, "--only", "redundant-indexes")
    assert "0 rows were read by it" in of(document, "redundant-indexes")["observed"]
    queue.rows("SELECT id FROM jobs FORCE INDEX (z_idx) WHERE status = 'pending'")
    document = examine(queue, "--only", "redundant-indexes")
    assert "3 rows were read by it" in of(document, "redundant-indexes")["observed"]
    with account(queue, "SELECT ON {db}.*") as limited:
        check = of(examine(limited, "--only", "redundant-indexes"), "redundant-indexes")
        assert check["status"] == "unknown"
        queue.execute(check["remedy"].removesuffix(";"))
        assert findings(examine(limited, "--only", "redundant-indexes")) == {}


@pytest.mark.breaks("unknown-states")
def test_a_status_that_no_state_has_is_found_and_ended(queue: Database, tmp_path: Path) -> None:
    """Rows with another ENUM member, or with none, are a warning with ids; naming the member or the UPDATE ends it."""
    for table in ("jobs", "jobs_archive"):
        queue.execute(f"ALTER TABLE {table} MODIFY status ENUM({STATES},'lost  job') NOT NULL DEFAULT 'pending'")
    fill(queue, 3, status="'done'", finished_at="NOW(6)")
    assert findings(examine(queue)) == {}
    fill(queue, 2, id="100 + n", status="'lost  job'")
    with queue.connect(autocommit=True) as session, session.cursor() as cursor:
        cursor.execute("SET SESSION sql_mode = ''")
        cursor.execute("INSERT IGNORE INTO jobs (id, status, payload) VALUES (200, 'nonsense', '{}')")
    document = examine(queue)
    assert findings(document) == {"unknown-states": "warning"}
    check = of(document, "unknown-states")
    assert check["observed"] == "'lost  job': 2 (id 101, 102); '': 1 (id 200)"
    names = ", ".join(f"{name} = ['{name}']" for name in ("pending", "running", "failed", "scheduled"))
    config = write_config(tmp_path, f"[queues.jobs]\nstates = {{ {names}, done = ['done', 'lost  job'] }}\n")
    document = examine(queue, "--config", str(config))
    assert of(document, "unknown-states")["observed"] == "'': 1 (id 200)"
    run_advice(queue, check["remedy"])
    assert findings(examine(queue)) == {}
    assert queue.value("SELECT COUNT(*) FROM jobs WHERE status = 'failed' AND finished_at IS NOT NULL") == 3


@pytest.mark.parametrize(
    ("kind", "values", "shown"),
    [
        ("VARCHAR(20) NULL", ("'DONE'", "'cancelled'", "NULL"), "'cancelled': 1 (id 12); NULL: 1 (id 13)"),
        ("VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin", ("'Done'",), "'Done': 1 (id 11)"),
    ],
)
def test_states_in_a_text_are_compared_as_the_column_compares(
    own_server: Any, tmp_path: Path, kind: str, values: tuple[str, ...], shown: str
) -> None:
    """A text status is judged by its collation, and NULL is a value that no state has."""
    path = str(write_config(tmp_path, RECIPE_TOML))
    with fresh_database(own_server) as database:
        database.execute(RECIPE.replace("VARCHAR(20) NOT NULL", kind))
        rows = [
            *(f"({n}, 't', 'queued')" for n in range(1, 11)),
            *(f"({11 + n}, 't', {v})" for n, v in enumerate(values)),
        ]
        database.execute(f"INSERT INTO jobs VALUES {', '.join(rows)}")
        document = examine(database, "--config", path, "--only", "unknown-states")
        assert findings(document) == {"unknown-states": "warning"}
        assert of(document, "unknown-states")["observed"] == shown
        run_advice(database, of(document, "unknown-states")["remedy"])
        assert findings(examine(database, "--config", path, "--only", "unknown-states")) == {}


def test_states_are_found_without_reading_the_rows(queue: Database) -> None:
    """However many rows a state has, one of each value is read, and of unknown ones up to a bound."""
    for table in ("jobs", "jobs_archive"):
        queue.execute(f"ALTER TABLE {table} MODIFY status VARCHAR(20) NOT NULL DEFAULT 'pending'")
    fill(queue, 20_000)
    fill(queue, 3_000, id="100000 + n", status="'odd'")
    queue.execute("TRUNCATE performance_schema.events_statements_summary_by_digest")
    document = examine(queue, "--only", "unknown-states")
    assert of(document, "unknown-states")["observed"].startswith("'odd': at least 1000 (id 100001, 100002, 100003, ")
    steps = queue.value(
        "SELECT SUM(sum_rows_examined) FROM performance_schema.events_statements_summary_by_digest "
        "WHERE schema_name = %s AND digest_text LIKE '%%ORDER BY %%`status` LIMIT ?'",
        (queue.name,),
    )
    assert 0 < steps <= 10


def test_jobs_that_were_claimed_beyond_their_limit_are_found(queue: Database) -> None:
    """Running jobs with more attempts than they may have are a warning; at the limit, or just once, they are none."""
    held = {"status": "'running'", "claimed_by": "'w'", "lease_until": "NOW(6) + INTERVAL 1 HOUR"}
    fill(queue, 1, attempts="5", **held)
    fill(queue, 1, attempts="1", max_attempts="0", **held)
    assert findings(examine(queue)) == {}
    fill(queue, 1, attempts="6", **held)
    document = examine(queue)
    assert findings(document) == {"attempts-counted": "warning"}
    assert "running although their attempts were used up: 1 (id 3)" in of(document, "attempts-counted")["observed"]
    queue.execute("UPDATE jobs SET lease_until = NOW(6) - INTERVAL 2 MINUTE WHERE id = 3")
    find_and_cure(queue, "expired-leases", "warning")
    assert queue.value("SELECT status FROM jobs WHERE id = 3") == "failed"


def test_expired_jobs_at_their_limit_without_a_failed_state(own_server: Any, tmp_path: Path) -> None:
    """Where such jobs cannot become failed the remedy says so, and names what has them tried again."""
    path = str(write_config(tmp_path, ARTICLE_TOML))
    with fresh_database(own_server) as database:
        database.execute(ARTICLE)
        database.execute(
            "INSERT INTO job_queue VALUES (1, '{}', 'processing', NOW(), UTC_TIMESTAMP() - INTERVAL 1 HOUR, 5)"
        )
        options = ("--config", path, "--only", "expired-leases")
        lines = of(examine(database, *options), "expired-leases")["remedy"].splitlines()
        assert lines[0] == f"qops requeue --expired --config {path}"
        assert run_here(*shlex.split(lines[0])[1:], "--url", database.url).code == 1
        assert findings(examine(database, *options)) == {"expired-leases": "warning"}
        again = lines[-1].rpartition(": ")[2]
        assert run_here(*shlex.split(again)[1:], "--url", database.url).code == 0
        assert findings(examine(database, *options)) == {}


@pytest.mark.parametrize("name", ["jobs", "it's; rm"])
def test_every_command_names_its_queue(own_server: Any, tmp_path: Path, name: str) -> None:
    """With several queues each command of a remedy names this one as a shell takes it, and the file if it was named."""
    path = str(write_config(tmp_path, f'[queues."{name}"]\ntable = "jobs"\n[queues.other]\ntable = "other"\n'))
    quoted = f" --queue {shlex.quote(name)}"
    with fresh_database(own_server) as database:
        named, found = ("--queue", name), f" --config {shlex.quote(path)}{quoted}"
        document = examine(database, *named)  # the file is in the working folder
        assert of(document, "storage-engine")["remedy"] == f"qops init{quoted}"
        document = examine(database, "--config", path, *named)
        assert of(document, "storage-engine")["remedy"] == f"qops init{found}"
        cure(database, document, "storage-engine")
        assert findings(examine(database, *named)) == {}
        fill(database, 1, status="'scheduled'", available_at="NOW(6) - INTERVAL 2 MINUTE")
        database.execute("ALTER TABLE jobs_archive DROP COLUMN last_error")
        document = examine(database, *named)
        assert of(document, "scheduled-promotion")["remedy"] == f"qops promote{quoted}"
        assert of(document, "archive-drift")["remedy"].splitlines()[0] == f"qops init --repair{quoted}"
        for id_ in ("scheduled-promotion", "archive-drift"):
            cure(database, document, id_)
        assert findings(examine(database, *named)) == {}


@pytest.mark.parametrize(
    "privilege", ["TRIGGER ON {db}.*", "TRIGGER ON *.*", "ALL ON {db}.*", "TRIGGER ON {db}.jobs", "SELECT ON {db}.*"]
)
def test_triggers_are_seen_through_an_active_role(queue: Database, privilege: str) -> None:
    """TRIGGER through a role counts where the role is active, on the tables that it is for, and not otherwise."""
    queue.execute("CREATE TRIGGER change_it BEFORE INSERT ON jobs_archive FOR EACH ROW SET NEW.last_error = 'x'")
    status = "unknown" if privilege.endswith(".jobs") or privilege.startswith("SELECT") else "warning"
    only = ("--only", "triggers")
    with (
        role(queue, privilege.replace("{db}", f"`{queue.name}`")) as name,
        account(queue, "SELECT, INSERT, UPDATE, DELETE ON {db}.*") as limited,
    ):
        queue.execute(f"GRANT '{name}' TO '{limited.user}'@'%'")
        assert findings(examine(limited, *only)) == {"triggers": "unknown"}
        queue.execute(f"SET DEFAULT ROLE '{name}' TO '{limited.user}'@'%'")
        document = examine(limited, *only)
        assert findings(document) == {"triggers": status}
        if status == "unknown":
            tables = ["jobs_archive"] if privilege.endswith(".jobs") else ["jobs", "jobs_archive"]
            lines = of(document, "triggers")["remedy"].splitlines()
            assert [table for table in ("jobs", "jobs_archive") if f"`{table}` TO" in str(lines)] == tables
            for line in lines:
                queue.execute(line.removesuffix(";"))
            assert findings(examine(limited, *only)) == {"triggers": "warning"}


def test_partial_revokes_leave_holes_in_a_role(queue: Database) -> None:
    """With partial revokes a global TRIGGER through a role counts as far as nothing was revoked from it."""
    only = ("--only", "triggers")
    queue.execute("SET GLOBAL partial_revokes = ON")
    try:
        with role(queue, "TRIGGER ON *.*") as name, account(queue, "SELECT ON {db}.*") as limited:
            queue.execute(f"GRANT '{name}' TO '{limited.user}'@'%'")
            queue.execute(f"SET DEFAULT ROLE '{name}' TO '{limited.user}'@'%'")
            assert findings(examine(limited, *only)) == {}
            queue.execute(f"REVOKE TRIGGER ON `{queue.name}`.* FROM '{name}'")
            assert findings(examine(limited, *only)) == {"triggers": "unknown"}
    finally:
        queue.execute("SET GLOBAL partial_revokes = OFF")


@pytest.mark.parametrize("table", ["jobs", "jobs_archive"])
def test_a_primary_key_that_the_server_made_up_is_found_and_replaced(queue: Database, table: str) -> None:
    """A generated invisible primary key is a warning, and the ALTER puts the id in its place."""
    definition = queue.rows(f"SHOW CREATE TABLE {table}")[0][1]
    definition = definition.replace("  PRIMARY KEY (`id`),\n", "").replace(" AUTO_INCREMENT", "", 1)
    queue.execute(f"DROP TABLE {table}")
    with queue.connect(autocommit=True) as session, session.cursor() as cursor:
        cursor.execute("SET SESSION sql_generate_invisible_primary_key = ON")
        cursor.execute(definition)
    document = examine(queue, "--only", "primary-key")
    assert findings(document) == {"primary-key": "warning"}
    assert repr(table) in of(document, "primary-key")["observed"]
    cure(queue, document, "primary-key")
    assert findings(examine(queue)) == {}


# Each check with literals: no server


def typed(**parts: Any) -> Facts:
    assert isinstance(HEALTHY.types, TypeFacts)
    return replace(HEALTHY, types=replace(HEALTHY.types, **parts))


def spare(*doubtful: Doubtful, uptime: int = DAY, **parts: Any) -> Facts:
    return replace(HEALTHY, spare=SpareFacts(doubtful=doubtful, uptime_seconds=uptime, **parts))


TWO = Sample(2, 2, bounded=False, ids=("4", "7"))
ZONED = Moments((("lease_until", "timestamp(6)"),), ("lease_until",))
UNREAD_INDEX = Doubtful("z (status, claimed_by)", 0, "DROP INDEX …;")
GENERATED = TableFacts("jobs", exists=True, primary_key=("my_row_id",), generated_keys=(("jobs", "ALTER …;"),))


@pytest.mark.parametrize(
    ("id_", "facts", "status", "remedy"),
    [
        ("time-range", typed(moments=Moments()), "pass", None),
        ("time-range", typed(moments=replace(ZONED, seen=())), "pass", None),
        ("time-range", typed(moments=replace(ZONED, late=(("lease_until", TWO),))), "warning", "--"),
        ("time-range", typed(moments=replace(ZONED, days_left=729)), "warning", "--"),
        ("time-range", typed(moments=Moments(others=("reserved_at int",))), "pass", None),
        ("attempts-type", typed(attempts=None), "pass", None),
        ("attempts-type", typed(attempts=AttemptRoom("tinyint", 127, 5, Sample())), "pass", None),
        ("attempts-type", typed(attempts=AttemptRoom("tinyint", 127, 128, Sample(), ("ALTER;",))), "warning", "--"),
        ("attempts-type", typed(attempts=AttemptRoom("tinyint", 127, 5, TWO)), "warning", "--"),
        ("text-width", typed(widths=(Width("claimed_by", "char(16)", 16, 16, "x"),)), "pass", None),
        ("text-width", typed(widths=(Width("last_error", "char(9)", 9, 100, "x", ("ALTER;",)),)), "warning", "--"),
        ("redundant-indexes", spare(spare=(Spare("a (b)", "why", "DROP INDEX …;"),)), "warning", f"{CAUTION}\nDROP"),
        ("redundant-indexes", spare(UNREAD_INDEX), "warning", f"{CAUTION}\n--"),
        ("redundant-indexes", spare(UNREAD_INDEX, uptime=DAY - 1), "pass", None),
        ("redundant-indexes", spare(replace(UNREAD_INDEX, reads=1)), "pass", None),
        ("redundant-indexes", spare(replace(UNREAD_INDEX, reads=None)), "pass", None),
        ("redundant-indexes", replace(HEALTHY, spare=SpareFacts((), Unknown("denied", "GRANT;"))), "unknown", "GRANT"),
        ("unknown-states", replace(HEALTHY, strays=StrayFacts((Stray("'x'", TWO, "UPDATE …;"),), 6)), "warning", "--"),
        ("unknown-states", replace(HEALTHY, strays=StrayFacts((), 50, more=True)), "pass", None),
        ("unknown-states", replace(HEALTHY, strays=Unknown("no index")), "unknown", None),
        ("primary-key", replace(HEALTHY, table=replace(GENERATED, engine="InnoDB")), "warning", "--"),
    ],
)
@pytest.mark.literal
def test_a_check_judges_literal_facts(id_: str, facts: Facts, status: str, remedy: str | None) -> None:
    """From the facts alone follow the status and the kind of remedy."""
    found = result(facts, id_)
    assert found.status == status
    assert found.observed
    assert found.remedy is None if remedy is None else found.remedy.startswith(remedy)


@pytest.mark.parametrize("naming", ["", " --queue 'my jobs'"])
def test_the_queue_is_named_in_one_place(naming: str) -> None:
    """A command on its own line or at the end of a comment gets the options, prose does not."""
    assert not isinstance(HEALTHY.rows, Unknown)
    overdue = Overdue(TWO, 60, "qops resume\nqops requeue --expired\n-- what qops leaves: qops requeue --expired")
    attempts = Attempts(Sample(), Sample(), "", "[queues.jobs]", TWO)
    rows = replace(HEALTHY.rows, expired=overdue, attempts=attempts)
    facts = replace(HEALTHY, rows=rows, naming=naming)
    assert result(facts, "expired-leases").remedy == (
        f"qops resume{naming}\nqops requeue --expired{naming}\n-- what qops leaves: qops requeue --expired{naming}"
    )
    assert result(facts, "attempts-counted").remedy.endswith(f"qops requeue --expired{naming}")


def test_an_empty_label_is_named_once(own_server: Any, tmp_path: Path) -> None:
    """An ENUM that has the empty text among its labels does not have those rows twice in the finding."""
    with fresh_database(own_server) as database:
        database.execute(GUIDE.replace("'failed')", "'failed','')"))
        database.execute("INSERT INTO jobs (status, payload) VALUES ('', '{}')")
        document = examine(database, "--config", str(write_config(tmp_path, GUIDE_TOML)))
        assert of(document, "unknown-states")["observed"] == "'': 1 (id 1)"


def test_an_index_dropped_meanwhile_costs_one_check(own_server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """An index that is gone when doctor comes to read along it makes that unknown, and the rest is still told."""
    with fresh_database(own_server) as database:
        init(database)

        def drop_first(connection: Any, queue: Any) -> Any:
            for index in queue.indexes:
                if index.name != "PRIMARY":
                    database.execute(f"DROP INDEX {index.name} ON jobs")
            return read_strays(connection, queue)

        monkeypatch.setattr("qops.doctor.collect.read_strays", drop_first)
        document = examine(database)
        assert of(document, "unknown-states")["status"] == "unknown"
        assert "doesn't exist" in of(document, "unknown-states")["observed"]
        assert of(document, "claim-index")["status"] == "pass"
