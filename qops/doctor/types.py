"""Whether the columns' types hold what will be written to them: times, attempts, names and errors."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import sqlalchemy as sa

from qops.doctor.sampling import BOUND, sample
from qops.doctor.type_facts import AttemptRoom, Moments, TypeFacts, Width
from qops.schema.facts import read_table
from qops.schema.findings import Findings
from qops.schema.tables import existing_column
from qops.statements.sample import first_rows
from qops.statements.walk import choose_walk, force_index

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from qops.columns import ColumnFact
    from qops.doctor.row_facts import Sample
    from qops.queue import QueueTable

NEAR_THE_END = "2037-01-19 03:14:07"  # a year before a TIMESTAMP ends; sessions of qops are at +00:00
ALMOST_SPENT = 0.9
LEAST = {
    "claimed_by": (16, "the name of a worker, by which it finds its own jobs"),
    "last_error": (100, "the text of an error"),
}
WIDE = "varchar(512)"  # the widest that an index can still hold in four-byte characters is 768
_TIMES = ("available_at", "lease_until", "finished_at", "created_at")
_TIME_NAMES = ("_at", "_until", "_time")
_BITS = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}
_SMALL = frozenset({"tinyint", "smallint"})


def read_types(connection: sa.Connection, queue: QueueTable) -> TypeFacts:
    """Return what the types are, and the rows that come near to what they hold. Raises the driver's errors."""
    return TypeFacts(
        moments=_moments(connection, queue),
        attempts=_attempts(connection, queue),
        widths=tuple(_widths(connection, queue)),
    )


def _moments(connection: sa.Connection, queue: QueueTable) -> Moments:
    columns = {role: _fact(queue, role) for role in _TIMES if queue.has(role)}
    ending = {role: fact for role, fact in columns.items() if fact.data_type == "timestamp"}
    seen, late = [], []
    for role, fact in ending.items():
        ways = list(_ways(queue, role))
        if ways:
            seen.append(fact.name)
            sample = _late(connection, queue, role, ways)
            if sample.found:
                late.append((fact.name, sample))
    days = connection.execute(
        sa.select(sa.func.datediff(sa.literal("2038-01-19"), sa.func.utc_timestamp()))
    ).scalar_one()
    used = {column.name for column in queue.columns.values()}
    others = [
        f"{fact.name} {fact.column_type}"
        for fact in queue.facts.values()
        if fact.name not in used and fact.data_type == "int" and fact.name.lower().endswith(_TIME_NAMES)
    ]
    return Moments(
        columns=tuple((fact.name, fact.column_type) for fact in ending.values()),
        seen=tuple(seen),
        late=tuple(late),
        days_left=int(days),
        others=tuple(others),
    )


def _ways(queue: QueueTable, role: str) -> Iterator[tuple[str, list[sa.ColumnElement[bool]]]]:
    """Yield the indexes, and the equality before each, by which the values of a time are read from their end."""
    status, column = queue.columns["status"], queue.columns[role]
    alone = next((index for index in queue.indexes if index.begins_with(column.name)), None)
    if alone:
        yield alone.name, []
        return
    timed = next((index for index in queue.indexes if index.begins_with(status.name, column.name)), None)
    if timed:
        for values in queue.states.values():
            for value in values:
                yield timed.name, [status == value]


def _late(
    connection: sa.Connection, queue: QueueTable, role: str, ways: Sequence[tuple[str, list[sa.ColumnElement[bool]]]]
) -> Sample:
    late = sa.select(queue.id.label("id"), sa.literal(1).label("hit"))
    late = late.where(queue.columns[role] >= sa.literal(NEAR_THE_END)).limit(BOUND)
    return sample(connection, (force_index(late.where(*equal), queue, index).subquery() for index, equal in ways))


def _attempts(connection: sa.Connection, queue: QueueTable) -> AttemptRoom | None:
    if not queue.has("attempts"):
        return None
    fact, limit = _fact(queue, "attempts"), queue.settings.max_attempts
    unsigned = "unsigned" in fact.column_type.lower()
    end = 2 ** (_BITS[fact.data_type] - (0 if unsigned else 1)) - 1
    room = AttemptRoom(fact.column_type, end, limit)
    if fact.data_type not in _SMALL:
        return room
    beyond = _beyond(connection, queue, end)
    widen: tuple[str, ...] = ()
    if beyond.found or limit > end:
        widen = tuple(_restate(connection, queue, fact.name, f"int{' unsigned' if unsigned else ''}"))
    return replace(room, beyond=beyond, widen=widen)


def _beyond(connection: sa.Connection, queue: QueueTable, end: int) -> Sample:
    """Return the live jobs whose attempts cannot be counted to their limit."""
    wanted: sa.ColumnElement[bool] = queue.columns["attempts"] >= int(end * ALMOST_SPENT)
    if queue.has("max_attempts"):
        wanted = sa.or_(wanted, queue.columns["max_attempts"] > end)
    status = queue.columns["status"].name
    live = (v for state in ("pending", "running") if queue.has_state(state) for v in queue.states[state])
    # Where no index begins with the status, which another check tells, nothing is looked at.
    walks = [
        walk
        for walk in (choose_walk(queue, value) for value in live)
        if any(index.name == walk.index and index.begins_with(status) for index in queue.indexes)
    ]
    return sample(connection, (first_rows(queue, walk, wanted, BOUND) for walk in walks))


def _widths(connection: sa.Connection, queue: QueueTable) -> Iterator[Width]:
    for role, (least, purpose) in LEAST.items():
        if not queue.has(role):
            continue
        fact = _fact(queue, role)
        if fact.length is not None:
            narrow = fact.length < least
            widen = tuple(_restate(connection, queue, fact.name, WIDE)) if narrow else ()
            yield Width(fact.name, fact.column_type, fact.length, least, purpose, widen)


def _restate(connection: sa.Connection, queue: QueueTable, column: str, kind: str) -> Iterator[str]:
    """Yield the statements that give a column another type, in the archive first, so that it never holds less."""
    for name in ([queue.archive.name] if queue.archive_facts else []) + [queue.table.name]:
        facts = read_table(connection, queue.schema, name)
        fact = facts.find(column) if facts else None
        if facts is None or fact is None:
            continue
        findings = Findings(queue.schema)
        if findings.modify(facts, existing_column(replace(fact, column_type=kind), is_id=False)):
            yield findings.actions[0].sql


def _fact(queue: QueueTable, role: str) -> ColumnFact:
    return queue.facts[queue.columns[role].name]
