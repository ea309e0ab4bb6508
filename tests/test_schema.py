"""What a queue needs is data: the tables, the indexes, and which of those that are there serve as well."""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dev.server import client_command
from qops.indexes import Index, IndexPart
from qops.queue_settings import QueueSettings
from qops.schema import ddl
from qops.schema.indexes import INDEXES, Shape
from qops.schema.queue_table import new_shape
from qops.schema.tables import archive_key, archive_table, ledger_table, queue_table

if TYPE_CHECKING:
    from tests.conftest import Database

SQL = Path(__file__).parent.parent / "sql"
DEFAULT = QueueSettings()
PRIMARY = Index("PRIMARY", unique=True, visible=True, parts=(IndexPart("id", descending=False, prefix=False),))


def create_statements(settings: QueueSettings = DEFAULT) -> dict[str, str]:
    """Return the CREATE TABLE that qops sends for each table."""
    queue = queue_table(settings)
    archive = archive_table(settings, queue.columns)
    by_age = archive_key(settings, archive)
    ledger, keys = ledger_table()
    return {
        "jobs": ddl.to_sql(ddl.CreateTable(queue, new_shape(settings, queue).keys())),
        "jobs_archive": ddl.to_sql(ddl.CreateTable(archive, (by_age,) if by_age else ())),
        "qops_runs": ddl.to_sql(ddl.CreateTable(ledger, keys)),
    }


def normalised(sql: str) -> str:
    """Return SQL without comments, backticks and layout."""
    without_comments = re.sub(r"^--.*$", "", sql, flags=re.MULTILINE)
    return " ".join(without_comments.replace("`", "").split())


@pytest.mark.parametrize("name", ["jobs", "jobs_archive", "qops_runs"])
def test_the_sql_folder_holds_what_qops_sends(name: str) -> None:
    """sql/NAME.sql is, but for comments and layout, the statement of `qops init` for the default queue."""
    assert normalised((SQL / f"{name}.sql").read_text(encoding="utf-8")) == normalised(create_statements()[name])


def test_the_sql_folder_says_what_each_index_is_for_and_what_it_costs() -> None:
    """sql/jobs.sql names every index of the list with the command it serves and its measured cost."""
    text = (SQL / "jobs.sql").read_text(encoding="utf-8")
    for index in INDEXES:
        paragraph = re.split(r"^--(?:   \w+_idx|$)", text.partition(f"--   {index.name} ")[2], flags=re.MULTILINE)[0]
        assert index.command in paragraph
        assert index.cost in paragraph


def test_a_plain_client_runs_the_sql_folder(database: Database) -> None:
    """The three files make the same tables in MySQL's own client as `qops init` does, and can be run again."""
    client = client_command()
    if client is None:
        pytest.skip("there is no MySQL client here")
    login = [f"--host={database.host}", f"--port={database.port}", f"--user={database.user}", database.name]
    for name in ("jobs", "jobs_archive", "qops_runs") * 2:
        script = (SQL / f"{name}.sql").read_text(encoding="utf-8")
        ran = subprocess.run([*client, *login], input=script, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stderr
    by_client = shown(database)
    database.script("DROP TABLE jobs;\nDROP TABLE jobs_archive;\nDROP TABLE qops_runs")
    for statement in create_statements().values():
        database.execute(statement)
    assert shown(database) == by_client


def shown(database: Database) -> dict[str, str]:
    """Return SHOW CREATE TABLE of every table."""
    tables = [name for (name,) in database.rows("SHOW TABLES")]
    return {name: database.rows(f"SHOW CREATE TABLE `{name.replace('`', '``')}`")[0][1] for name in tables}


def shape(*order: str) -> Shape:
    settings = replace(DEFAULT, order=order or None)
    return new_shape(settings, queue_table(settings))


def index(*parts: str) -> Index:
    """Return an index; a part is a column, `column desc`, `column(10)`, or `(expression)`."""
    made = []
    for part in parts:
        name, _, rest = part.partition(" ")
        column = None if name.startswith("(") else name.partition("(")[0]
        made.append(IndexPart(column, descending=rest == "desc", prefix="(" in name and column is not None))
    return Index("some_idx", unique=False, visible=True, parts=tuple(made))


@pytest.mark.parametrize(
    ("parts", "serves"),
    [
        (("status", "priority desc", "id"), True),
        (("STATUS", "Priority desc", "ID"), True),
        (("status", "priority desc"), True),  # InnoDB appends the id
        (("status desc", "priority desc", "id"), True),  # the status is fixed
        (("status", "priority", "id desc"), True),  # read backwards
        (("status", "priority desc", "id", "available_at"), True),
        (("status", "priority", "id"), False),
        (("status", "priority desc", "id desc"), False),
        (("status",), False),
        (("priority desc", "status", "id"), False),
        (("status", "available_at", "priority desc", "id"), False),
        (("status", "(priority + 0)", "id"), False),
        (("status(3)", "priority desc", "id"), False),
        (("status", "priority desc", "claimed_by(3)"), False),
    ],
)
def test_an_index_serves_the_claim_if_it_gives_its_order(parts: tuple[str, ...], *, serves: bool) -> None:
    """Any index counts that gives the claim's order after the status, in either direction, and no other does."""
    assert shape().claims_by(index(*parts), PRIMARY) is serves


@pytest.mark.parametrize(
    "parts",
    [
        "status, priority DESC, id",
        "status, priority DESC",
        "status, priority, id DESC",
        "status, priority, id",
        "status",
    ],
)
def test_the_server_agrees_which_indexes_serve_the_claim(database: Database, parts: str) -> None:
    """MySQL sorts a claim exactly where qops says that the index does not serve it."""
    database.execute(create_statements()["jobs"])
    database.execute(f"ALTER TABLE jobs DROP KEY claim_idx, DROP KEY available_idx, ADD KEY some_idx ({parts})")
    database.execute(
        "INSERT INTO jobs (priority, payload) WITH RECURSIVE s AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM s "
        "WHERE n < 500) SELECT n MOD 7, '{}' FROM s"
    )
    (plan,) = database.rows(
        "EXPLAIN FORMAT=TRADITIONAL SELECT id FROM jobs FORCE INDEX (some_idx) WHERE status = 'pending' "
        "ORDER BY priority DESC, id LIMIT 10 FOR UPDATE SKIP LOCKED"
    )
    described = index(*(part.lower() for part in parts.split(", ")))
    assert ("Using filesort" not in plan[-1]) is shape().claims_by(described, PRIMARY)


def test_what_the_claim_index_serves_needs_no_second_index() -> None:
    """A queue that is claimed in order of available_at promotes along its claim index."""
    keys = shape("available_at", "id").keys()
    assert [key.columns for key in keys] == [
        ("status", "available_at", "id"),
        ("status", "lease_until"),
        ("status", "finished_at"),
    ]


def test_a_queue_without_a_role_or_state_has_no_index_for_it() -> None:
    """Indexes follow the roles and states: none for leases, delays or finish times that the queue lacks."""
    settings = QueueSettings(
        strict=False,
        columns={"lease_until": None, "finished_at": None},
        states={"pending": ("new",), "done": ("done",)},
    )
    table = queue_table(settings)
    assert new_shape(settings, table).keys()[0].name == "claim_idx"
    assert len(new_shape(settings, table).keys()) == 1
    assert "lease_until" not in table.columns


def test_states_become_members_in_order_and_numbers_a_number() -> None:
    """The ENUM holds what qops writes of each state first, then the other values; numbers need no ENUM."""
    words = QueueSettings(strict=False, states={"done": ("ok", "OK", "archived"), "pending": ("it's new",)})
    status = queue_table(words).columns["status"]
    assert ddl.column_sql(status) == "`status` ENUM('it''s new','ok','archived') NOT NULL DEFAULT 'it''s new'"
    numbers = QueueSettings(strict=False, states={"pending": (0,), "done": (2, 3)})
    assert ddl.column_sql(queue_table(numbers).columns["status"]) == "`status` INTEGER NOT NULL DEFAULT 0"
