"""A queue as configured, held against the server: what it has, what it lacks, and what its clock says."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from dev import server as throwaway
from qops.columns import require_whole
from qops.db import open_server
from qops.errors import Misconfigured, PrivilegeMissing, QopsError
from qops.queue import QueueTable, load
from qops.queue_settings import STATES
from qops.settings import Flags
from qops.settings import load as load_settings
from tests.accounts import account
from tests.conftest import Database, fresh_database, run_here
from tests.queues import ARTICLE, ARTICLE_TOML, GUIDE, GUIDE_TOML, RECIPE, RECIPE_TOML, init, write_config

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def queue_of(database: Database, folder: Path, toml: str, *tables: str) -> QueueTable:
    """Create tables and load the queue that a qops.toml describes."""
    for table in tables:
        database.execute(table)
    return database.queue(write_config(folder, toml))


def refusal(database: Database, folder: Path, toml: str, *tables: str) -> str:
    """Return why a queue is refused as configuration (78)."""
    with pytest.raises(QopsError) as caught:
        queue_of(database, folder, toml, *tables)
    assert caught.value.exit_code == 78, caught.value
    return str(caught.value)


def order_of(queue: QueueTable, database: Database) -> str:
    """Return the ORDER BY of a queue as it is sent, without the table's name."""
    query = sa.select(queue.id).order_by(*queue.order)
    text = str(query.compile(dialect=database.server().engine.dialect)).partition("ORDER BY ")[2]
    return text.replace(f"`{queue.table.name}`.", "")


# Queues of the field


def test_the_guides_queue(database: Database, tmp_path: Path) -> None:
    """A queue without attempts and times has just the roles its columns have, and the states its ENUM has."""
    queue = queue_of(database, tmp_path, GUIDE_TOML, GUIDE)
    assert set(queue.columns) == {"id", "status", "priority", "payload", "claimed_by", "lease_until"}
    assert set(queue.states) == {"pending", "running", "done", "failed"}
    assert order_of(queue, database) == "`priority` DESC, `id`"
    assert not queue.has("attempts")
    assert not queue.has_state("scheduled")


def test_the_recipes_queue(database: Database, tmp_path: Path) -> None:
    """A queue of three columns with names of its own and two states is understood."""
    queue = queue_of(database, tmp_path, RECIPE_TOML, RECIPE)
    assert {role: column.name for role, column in queue.columns.items()} == {
        "id": "id",
        "status": "state",
        "payload": "task",
    }
    assert queue.states == {"pending": ("queued",), "done": ("done",)}
    assert order_of(queue, database) == "`id`"
    with pytest.raises(Misconfigured, match=r"requeue.*'lease_until'.*'running'"):
        queue.require("requeue", roles=("lease_until", "id"), states=("running", "done"))
    queue.require("archive", roles=("id",), states=("done",))


def test_the_articles_queue(database: Database, tmp_path: Path) -> None:
    """A queue with DATETIME columns, its own order and its own words is understood."""
    queue = queue_of(database, tmp_path, ARTICLE_TOML, ARTICLE)
    assert set(queue.columns) == {"id", "status", "payload", "available_at", "lease_until", "attempts"}
    assert queue.value("running") == "processing"
    assert order_of(queue, database) == "`available_at`, `id`"


def test_the_default_queue_needs_every_column(database: Database) -> None:
    """Without configuration the table must have everything; with an empty section it need not."""
    init(database)
    assert len(database.queue().columns) == 12
    database.execute("ALTER TABLE jobs DROP COLUMN last_error")
    with pytest.raises(Misconfigured, match=r"'last_error'.*qops init --repair"):
        database.queue()


def test_an_empty_section_takes_what_is_there(database: Database, tmp_path: Path) -> None:
    """With a section, a role exists when its column does."""
    init(database)
    database.execute("ALTER TABLE jobs DROP COLUMN last_error")
    queue = queue_of(database, tmp_path, "[queues.jobs]")
    assert not queue.has("last_error")
    assert len(queue.columns) == 11


# Roles

PLAIN = """
CREATE TABLE q (id BIGINT PRIMARY KEY, status VARCHAR(8) NOT NULL, Priority INT, body TEXT,
                due TIMESTAMP(3) NULL, owner VARCHAR(20), tries INT)
"""
NAMES = '[queues.q.columns]\npayload = "body"\navailable_at = "due"\n'


def test_names_are_compared_without_case(database: Database, tmp_path: Path) -> None:
    """Column names know no case in MySQL, so the configuration's do not either; the server's spelling is used."""
    queue = queue_of(database, tmp_path, '[queues.q.columns]\navailable_at = "DUE"', PLAIN)
    assert queue.columns["available_at"].name == "due"
    assert queue.columns["priority"].name == "Priority"
    assert order_of(queue, database) == "`Priority` DESC, `id`"


def test_false_says_that_there_is_no_such_role(database: Database, tmp_path: Path) -> None:
    """`role = false` leaves a column of that name alone."""
    queue = queue_of(database, tmp_path, "[queues.q.columns]\npriority = false", PLAIN)
    assert not queue.has("priority")
    assert order_of(queue, database) == "`id`"


def test_a_column_has_one_role(database: Database, tmp_path: Path) -> None:
    """A column that was named for a role is not taken for another because of its own name."""
    queue = queue_of(database, tmp_path, '[queues.q.columns]\nattempts = "priority"', PLAIN)
    assert queue.columns["attempts"].name == "Priority"
    assert not queue.has("priority")


@pytest.mark.parametrize(
    ("toml", "words"),
    [
        ('[queues.q.columns]\nclaimed_by = "onwer"', ["'onwer'", "'owner'", "'claimed_by'", "[queues.q.columns]"]),
        ('[queues.q.columns]\nlease_until = "tries"', ["'tries'", "int", "'lease_until'", "datetime", "timestamp"]),
        ('[queues.q.columns]\nattempts = "body"', ["'body'", "text", "'attempts'"]),
        ('[queues.q.columns]\nid = "due"', ["'due'", "'id'"]),
        ('[queues.q]\norder = ["prority desc"]', ["'prority'", "'priority'", "order"]),
        ('[queues.q]\norder = ["id descending"]', ["'id descending'", "order"]),
        ('[queues.q]\ntable = "gone"', ["gone", "qops init"]),
        ("[queues.q.states]\npending = 0\ndone = 1", ["'pending'", "0", "varchar(8)"]),
        ('[queues.q.states]\npending = "a"\ndone = "very long"', ["'very long'", "8", "'done'"]),
    ],
)
def test_what_does_not_fit_is_named(database: Database, tmp_path: Path, toml: str, words: list[str]) -> None:
    """A name, type or value that the table does not have is refused with what was meant or what is allowed."""
    message = refusal(database, tmp_path, toml, PLAIN)
    assert all(word in message for word in words), message


@pytest.mark.parametrize("column", ["id", "status"])
def test_id_and_status_are_required(database: Database, tmp_path: Path, column: str) -> None:
    """A table without the column for id or status is refused."""
    other = {"id": "status INT", "status": "id INT"}[column]
    assert repr(column) in refusal(database, tmp_path, "[queues.q]", f"CREATE TABLE q ({other})")


# States


def test_states_may_be_numbers(database: Database, tmp_path: Path) -> None:
    """A numeric status compares with numbers, and words are refused, because MySQL would convert every row."""
    table = "CREATE TABLE q (id INT PRIMARY KEY, status TINYINT NOT NULL)"
    queue = queue_of(database, tmp_path, "[queues.q.states]\npending = 0\nrunning = [1, 4]\ndone = 2", table)
    assert queue.value("running") == 1
    assert [queue.state_of(value) for value in (0, 1, 2, 3, 4)] == ["pending", "running", "done", None, "running"]
    assert "'pending'" in refusal(database, tmp_path, "[queues.q]")


def test_an_enum_must_have_the_members(database: Database, tmp_path: Path) -> None:
    """A state whose value is no member of the ENUM is refused, with the way to append it."""
    table = "CREATE TABLE q (id INT PRIMARY KEY, status ENUM('pending','running','it''s done','FAILED') NOT NULL)"
    message = refusal(database, tmp_path, '[queues.q.states]\npending = "pending"\ndone = "over"', table)
    assert all(word in message for word in ("'over'", "'done'", "qops init --repair"))
    toml = '[queues.q.states]\npending = "pending"\ndone = "it\'s done"\nfailed = "failed"'
    queue = queue_of(database, tmp_path, toml)
    assert set(queue.states) == {"pending", "done", "failed"}
    assert queue.state_of("FAILED") == "failed"


def test_a_list_of_values_is_one_state(database: Database, tmp_path: Path) -> None:
    """Several values mean one state, of which the first is written; other values mean none."""
    toml = '[queues.q.states]\npending = ["new", "retry"]\ndone = "done"'
    queue = queue_of(database, tmp_path, toml, PLAIN)
    database.execute("INSERT INTO q (id, status) VALUES (1, 'new'), (2, 'retry'), (3, 'done'), (4, 'other')")
    with database.server().observe() as connection:
        for states, expected in ((("pending",), [1, 2]), (("done",), [3]), (("pending", "done"), [1, 2, 3])):
            query = sa.select(queue.id).where(queue.in_state(*states)).order_by(queue.id)
            assert connection.execute(query).scalars().all() == expected
    assert queue.value("pending") == "new"
    assert queue.state_of("other") is None
    assert queue.state_of(None) is None


# Order


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ('["priority desc", "id"]', "`Priority` DESC, `id`"),
        ('["PRIORITY DESC", "due ASC"]', "`Priority` DESC, `due`"),
        ('["available_at", "id desc"]', "`due`, `id` DESC"),
        ('["  priority\\t desc "]', "`Priority` DESC"),
    ],
)
def test_an_order_names_roles_or_columns(database: Database, tmp_path: Path, order: str, expected: str) -> None:
    """An item is a role or a column in any case, with or without a direction."""
    assert order_of(queue_of(database, tmp_path, f"[queues.q]\norder = {order}\n{NAMES}", PLAIN), database) == expected


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        ("desc", "`desc`"),
        ("desc desc", "`desc` DESC"),
        ("my desc", "`my desc`"),
        ("my desc desc", "`my desc` DESC"),
        ("my rank asc", "`my rank`"),
        ("a,b desc", "`a,b` DESC"),
        ("it`s", "`it``s`"),
    ],
)
def test_an_order_of_columns_with_odd_names(database: Database, tmp_path: Path, item: str, expected: str) -> None:
    """A column may be called `desc`, or have a direction at the end of its name."""
    table = (
        "CREATE TABLE q (id INT PRIMARY KEY, status VARCHAR(9), `desc` INT, `my desc` INT, `my rank` INT, `a,b` INT, "
        "`it``s` INT)"
    )
    queue = queue_of(database, tmp_path, f'[queues.q]\norder = ["{item}"]', table)
    assert order_of(queue, database) == expected


# Odd names in statements


@pytest.mark.parametrize(
    "name", ["back`tick", "100%", "%s", ":x", "a.b", "or", "it's", 'dou"ble', "(a)", "[a]", "a b", "ä"]
)
def test_a_table_and_its_columns_may_have_any_name(database: Database, tmp_path: Path, name: str) -> None:
    """Names are quoted wherever they stand: reading, comparing, ordering and writing by them works."""
    quoted = f"`{name.replace('`', '``')}`"
    database.execute(
        f"CREATE TABLE {quoted} (`id{quoted[1:]} INT PRIMARY KEY, `st{quoted[1:]} VARCHAR(9), "
        f"`t{quoted[1:]} TIMESTAMP(6) NULL)"
    )
    database.admin.query(f"INSERT INTO {quoted} VALUES (1, 'pending', NULL), (2, 'done', NULL)")
    literal = name.replace("\\", "\\\\").replace('"', '\\"')
    toml = (
        f'[queues.q]\ntable = "{literal}"\norder = ["st{literal} desc"]\n[queues.q.columns]\nid = "id{literal}"\n'
        f'status = "st{literal}"\nlease_until = "t{literal}"'
    )
    queue = queue_of(database, tmp_path, toml)
    with database.server().session() as connection:
        query = sa.select(queue.id, queue.columns["status"]).where(queue.in_state("pending")).order_by(*queue.order)
        assert [tuple(row) for row in connection.execute(query)] == [(1, "pending")]
        status, lease = queue.columns["status"], queue.columns["lease_until"]
        change = (
            sa.update(queue.table)
            .where(queue.id == 2)
            .ordered_values((status, "gone"), (lease, queue.now("lease_until")))
        )
        assert connection.execute(change).rowcount == 1
        row = connection.execute(sa.select(status, lease.is_not(None)).where(queue.id == sa.bindparam("id")), {"id": 2})
        assert tuple(row.one()) == ("gone", 1)


def test_generated_and_invisible_columns(database: Database, tmp_path: Path) -> None:
    """Invisible columns are there; generated ones are told from those with an ordinary default."""
    table = (
        "CREATE TABLE q (id INT PRIMARY KEY, status VARCHAR(9), priority INT AS (id * 2) STORED, body INT INVISIBLE, "
        "created_at TIMESTAMP(6) DEFAULT (NOW(6)), v INT AS (id + 1) VIRTUAL INVISIBLE)"
    )
    queue = queue_of(database, tmp_path, '[queues.q]\narchive_table = "q"', table)
    assert list(queue.facts) == ["id", "status", "priority", "body", "created_at", "v"]
    assert [name for name, fact in queue.facts.items() if fact.generated] == ["priority", "v"]
    assert queue.copied == ("id", "status", "body", "created_at")


LABELS = ["a\\b", "it's", "x\ny", "é", "c,d", "')", "\\'", "r\rz", "tab\t", "a\\n"]


def test_enum_labels_are_read_from_the_type(database: Database, tmp_path: Path) -> None:
    """Whatever the members of an ENUM are, they are known as the application writes them."""
    members = ", ".join(["%s"] * len(LABELS))
    database.execute(f"CREATE TABLE q (id INT PRIMARY KEY, status ENUM({members}) NOT NULL)", LABELS)
    states = "\n".join(f"{state} = {json.dumps(LABELS[2 * i : 2 * i + 2])}" for i, state in enumerate(STATES))
    queue = queue_of(database, tmp_path, f"[queues.q.states]\n{states}")
    assert list(queue.facts["status"].labels) == LABELS
    assert queue.states["done"] == tuple(LABELS[4:6])


# Clocks


@pytest.mark.parametrize(
    ("kind", "clock", "minutes"),
    [
        ("TIMESTAMP(6)", None, 0),
        ("TIMESTAMP(6)", "+08:00", 0),
        ("TIMESTAMP", None, 0),
        ("DATETIME(6)", "utc", 0),
        ("DATETIME", "utc", 0),
        ("DATETIME(3)", "+08:00", 480),
        ("DATETIME(6)", "-05:30", -330),
        ("DATETIME", "+00:00", 0),
        ("DATETIME", "-00:30", -30),
        ("DATETIME(6)", "+14:00", 840),
    ],
)
def test_now_is_what_the_column_stores(
    database: Database, tmp_path: Path, kind: str, clock: str | None, minutes: int
) -> None:
    """The present instant, seen through a column, is the server's in the zone that the queue declares."""
    table = f"CREATE TABLE q (id INT PRIMARY KEY, status VARCHAR(9), lease_until {kind} NULL)"
    queue = queue_of(database, tmp_path, "[queues.q]\n" + (f'clock = "{clock}"' if clock else ""), table)
    database.execute("INSERT INTO q VALUES (1, 'running', NULL)")
    column = queue.columns["lease_until"]
    with database.server().session() as connection:
        connection.execute(sa.update(queue.table).values({column: queue.now("lease_until")}))
        ahead = sa.func.timestampdiff(sa.text("SECOND"), sa.func.utc_timestamp(6), column)
        assert abs(connection.execute(sa.select(ahead)).scalar_one() - minutes * 60) <= 5
        # What was stored now is not later than now, whatever the precision; a second ago is earlier.
        assert connection.execute(sa.select(column <= queue.now("lease_until"))).scalar_one() == 1
        past, future = queue.in_time("lease_until", -2_000_000), queue.in_time("lease_until", 60_000_000)
        assert tuple(connection.execute(sa.select(past < column, column < future)).one()) == (1, 1)


@pytest.mark.parametrize("zone", ["+02:00", "-05:00"])
def test_a_lease_of_a_worker_in_another_zone(database: Database, tmp_path: Path, zone: str) -> None:
    """What a worker at another offset wrote with NOW() is judged right: TIMESTAMP always, DATETIME by its clock."""
    times = "lease_until TIMESTAMP(6) NULL, available_at DATETIME(6) NULL"
    table = f"CREATE TABLE q (id INT PRIMARY KEY, status VARCHAR(9), {times})"
    queue = queue_of(database, tmp_path, f'[queues.q]\nclock = "{zone}"', table)
    with contextlib.closing(database.connect(autocommit=True)) as worker, worker.cursor() as cursor:
        cursor.execute("SET time_zone = %s", (zone,))
        cursor.execute("INSERT INTO q VALUES (1, 'r', NOW(6) + INTERVAL 60 SECOND, NOW(6) + INTERVAL 60 SECOND)")
    with database.server().observe() as connection:
        for role in ("lease_until", "available_at"):
            column = queue.columns[role]
            judged = sa.select(column > queue.now(role), column < queue.in_time(role, 61_000_000))
            assert tuple(connection.execute(judged).one()) == (1, 1)


def test_a_datetime_without_a_clock_is_refused_when_compared(database: Database, tmp_path: Path) -> None:
    """Loading is fine; comparing a DATETIME with the clock, without `clock`, is refused (78) and explained."""
    queue = queue_of(database, tmp_path, ARTICLE_TOML.replace('clock = "utc"', ""), ARTICLE)
    for role in ("lease_until", "available_at"):
        with pytest.raises(Misconfigured) as caught:
            queue.now(role)
        message = str(caught.value)
        assert all(word in message for word in (role, "job_queue", 'clock = "utc"', "+08:00", "[queues.article]"))


# What an account may see


def test_a_table_that_may_not_be_seen(database: Database) -> None:
    """Without any right on the table the answer is a missing privilege (77), not a missing table."""
    init(database)
    with account(database, "CREATE ROUTINE ON {db}.*") as limited, pytest.raises(PrivilegeMissing):
        limited.queue()


def test_columns_that_may_not_be_seen(database: Database, tmp_path: Path) -> None:
    """An account that sees only some columns is told so (77) where one is missing, or a row is moved or judged."""
    init(database)
    with account(database, "SELECT (id, status, lease_until) ON {db}.jobs") as limited:
        with pytest.raises(PrivilegeMissing):
            limited.queue()
        queue = limited.queue(write_config(tmp_path, "[queues.jobs]"))
        assert set(queue.columns) == {"id", "status", "lease_until"}
        with limited.server().session() as connection, pytest.raises(sa.exc.DBAPIError, match="denied"):
            require_whole(connection, queue.table)
        for command in (["archive", "--assume-no-children"], ["requeue", "--expired"]):
            ran = run_here(*command, "--url", limited.url, "--config", str(tmp_path / "qops.toml"), "--format", "json")
            assert (ran.code, ran.json["error"]["kind"]) == (77, "privilege")
            assert "GRANT SELECT" in ran.json["error"]["message"]


def test_no_schema_is_selected(database: Database) -> None:
    """A URL without a schema is configuration that is missing (78)."""
    url = database.url.replace(database.name, "")
    settings = load_settings(Flags(url=url), {})
    with pytest.raises(Misconfigured, match="no database"), open_server(settings.database).observe() as connection:
        load(connection, settings.queue)


@pytest.fixture(scope="module")
def folding() -> Iterator[Database]:
    """Return a schema on a server that folds the case of table names."""
    with throwaway.private_server(["--lower-case-table-names=1"]) as server, fresh_database(server) as database:
        yield database


def test_a_server_that_folds_the_case_of_names(folding: Database, tmp_path: Path) -> None:
    """With lower_case_table_names=1 a table is found however its name is spelled."""
    folding.execute("CREATE TABLE Mail_Jobs (id INT PRIMARY KEY, status VARCHAR(9))")
    queue = queue_of(folding, tmp_path, '[queues.q]\ntable = "MAIL_jobs"\narchive_table = "mail_JOBS"')
    assert set(queue.columns) == {"id", "status"}
    assert queue.archive_facts == queue.facts
    with folding.server().observe() as connection:
        counted: Any = connection.execute(sa.select(sa.func.count()).select_from(queue.table)).scalar_one()
        assert counted == 0
