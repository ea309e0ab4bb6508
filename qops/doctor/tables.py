"""What is to be known of the queue's tables: keys, indexes and what they serve, differences to what is needed."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from sqlalchemy import exc

from qops.columns import bare_table, require_whole
from qops.db import DENIED, NO_SUCH_TABLE, errno, prose, quote_name
from qops.doctor.facts import Drift, DriftFacts, IndexFacts, TableFacts, Unknown, Wanted
from qops.errors import Misconfigured
from qops.schema import ddl
from qops.schema.facts import read_table
from qops.schema.findings import Findings
from qops.schema.indexes import INDEXES, Shape, columns_of, describe
from qops.schema.plan import make_plan
from qops.schema.result import When
from qops.schema.tables import existing_column

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import sqlalchemy as sa

    from qops.indexes import Index
    from qops.queue import QueueTable
    from qops.queue_settings import QueueSettings
    from qops.schema.facts import TableFacts as SchemaFacts

GENERATED_KEY = "my_row_id"
INDEX_ACTIONS = frozenset({"add-index", "show-index"})


def read_table_facts(connection: sa.Connection, schema: str, settings: QueueSettings) -> TableFacts:
    """Return what the queue's table is, whether or not the configuration fits it."""
    try:
        found = read_table(connection, schema, settings.table)
    except Misconfigured as error:
        return TableFacts(settings.table, exists=True, problem=str(error))
    if found is None:
        return TableFacts(settings.table, exists=False)
    id_ = settings.columns.get("id") or "id"
    return TableFacts(
        name=found.name,
        exists=True,
        engine=found.engine,
        primary_key=tuple(part.column or "" for part in found.primary.parts) if found.primary else (),
        identified=found.identified_by(id_),
        convert=ddl.to_sql(ddl.ConvertEngine(Findings(schema).table(found.name))),
        add_key=_add_key(schema, found, id_),
        generated_keys=tuple(_generated_keys(connection, schema, found, settings)),
    )


def _generated_keys(
    connection: sa.Connection, schema: str, found: SchemaFacts, settings: QueueSettings
) -> Iterator[tuple[str, str]]:
    """Yield the tables whose primary key is the column that the server made up, and what puts the id in its place.

    A server with sql_generate_invisible_primary_key calls that column my_row_id; both have to go in one statement.
    """
    archive = None
    with suppress(Misconfigured):
        archive = read_table(connection, schema, settings.archive_table)
    id_ = settings.columns.get("id") or "id"
    for table in (found, archive):
        primary = table.primary if table else None
        if table is None or primary is None or primary.columns != (GENERATED_KEY,):
            continue
        fact, own = table.find(id_), table.find(GENERATED_KEY)
        if fact is not None and own is not None and "INVISIBLE" in own.extra:
            name, key = f"{quote_name(schema)}.{quote_name(table.name)}", quote_name(fact.name)
            yield (
                table.name,
                f"ALTER TABLE {name} DROP PRIMARY KEY, DROP COLUMN {quote_name(own.name)}, ADD PRIMARY KEY ({key});",
            )


def _add_key(schema: str, found: SchemaFacts, id_: str) -> str | None:
    """Return the statement that makes the id a key: the primary key, or a unique one beside another."""
    fact = found.find(id_)
    if fact is None:
        return None
    column = existing_column(fact, is_id=True)
    table = Findings(schema).table(found.name, column)
    if found.primary is None:
        return ddl.to_sql(ddl.AddPrimaryKey(column, ddl.OFFLINE if fact.nullable else ddl.ONLINE))
    return ddl.to_sql(ddl.CreateIndex(table, ddl.Key(f"{fact.name}_key", (column,), unique=True), ddl.ONLINE))


def read_indexes(connection: sa.Connection, queue: QueueTable) -> IndexFacts:
    """Return which indexes serve the claim and the maintenance, and the statements that make the missing ones."""
    schema = queue.schema
    found = read_table(connection, schema, queue.table.name)
    if found is None:
        raise Misconfigured(f"table {queue.table.name!r} has just been dropped")
    shape = Shape(queue.columns, frozenset(queue.states), queue.order)
    key = shape.claim_key()
    fitting = [index for index in found.indexes if shape.claims_by(index, found.primary)]
    serving = tuple(index.name for index in fitting if index.visible)
    status = queue.columns["status"].name.lower()
    redundant = [i for i in found.indexes if i.columns == (status,) and not i.unique and i.name not in serving]
    similar = [i for i in found.indexes if i.columns[:1] == (status,) or i.name.lower() == key.name.lower()]
    return IndexFacts(
        claim=Wanted("claim", str(key), "claim", serving, _create(schema, found, key)),
        hidden=tuple((describe(index), _show(schema, found, index)) for index in fitting if not index.visible),
        similar=tuple(describe(index) for index in similar),
        redundant=tuple((describe(index), _drop(schema, found, index)) for index in redundant if serving),
        maintenance=tuple(_maintenance(schema, found, shape)),
    )


def _maintenance(schema: str, found: SchemaFacts, shape: Shape) -> Sequence[Wanted]:
    wanted = []
    for index in INDEXES:
        if index.state not in shape.states or index.role not in shape.roles:
            continue
        key = shape.key(index)
        fitting = [one for one in found.indexes if columns_of(one)[:2] == key.columns]
        serving = tuple(one.name for one in fitting if one.visible)
        cure = _show(schema, found, fitting[0]) if fitting and not serving else _create(schema, found, key)
        wanted.append(Wanted(index.role, str(key), index.command, serving, cure))
    return wanted


def _create(schema: str, found: SchemaFacts, key: ddl.Key) -> str:
    """Return the statement that `init --repair` would run: online, under a free name."""
    findings = Findings(schema)
    findings.add_index(found, key)
    return findings.actions[0].sql


def _show(schema: str, found: SchemaFacts, index: Index) -> str:
    findings = Findings(schema)
    findings.show_index(found, index, "visible")
    return findings.actions[0].sql


def _drop(schema: str, found: SchemaFacts, index: Index) -> str:
    return f"DROP INDEX {quote_name(index.name)} ON {quote_name(schema)}.{quote_name(found.name)};"


def why_hidden(connection: sa.Connection, name: str) -> str | None:
    """Return the server's refusal where this account may not read all of a table, or not know whether there is one."""
    try:
        require_whole(connection, bare_table(name))
    except exc.DBAPIError as error:
        if errno(error) in DENIED:
            return prose(error)
        if errno(error) != NO_SUCH_TABLE:
            raise
    return None


def read_drift(connection: sa.Connection, settings: QueueSettings) -> DriftFacts | Unknown:
    """Return the differences that `qops init` finds, and what it leaves to be done by hand.

    What checks of their own are about is left out: the keys of the queue's table, and what its times mean.
    """
    try:
        plan = make_plan(connection, replace(settings, clock=settings.clock or "utc"), repair=False, qualified=True)
    except Misconfigured as error:
        return Unknown(str(error))
    promotion = tuple(f".{index.name}" for index in INDEXES if index.role == "available_at")
    mine = [action for action in plan.actions if action.table.lower() == settings.table.lower()]
    judged = {
        action.object
        for action in mine
        if (action.action in INDEX_ACTIONS and not action.object.endswith(promotion))
        or action.object == f"{action.table}.PRIMARY"
    }
    missing = [Drift(a.object, "a table", "missing") for a in plan.actions if a.action == "create-table"]
    differing = [Drift(d.object, d.expected, d.found) for d in plan.drift if d.object not in judged]
    by_hand = tuple(
        action.sql for action in plan.actions if action.when is When.BY_HAND and action.object not in judged
    )
    cured = {action.object for action in plan.actions if action.when is When.REPAIR}
    return DriftFacts(
        differences=(*missing, *differing),
        by_hand=by_hand,
        creatable=bool(missing),
        repairable=any(drift.object in cured for drift in differing),
    )
