"""What several statements share: the predicates of a job's life, and how a list of ids is written."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

from qops.db import quote_name

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from qops.columns import ColumnFact
    from qops.queue import QueueTable

_SHORTEST_RUN, _LONG_RUN = 2, 8
LIMIT = sa.bindparam("limit", type_=sa.Integer())


def claimable(queue: QueueTable) -> sa.ColumnElement[bool]:
    """Return the predicate "a worker could claim this now"."""
    ready = queue.in_state("pending")
    if queue.has("available_at"):
        ready = sa.and_(ready, queue.columns["available_at"] <= queue.now("available_at"))
    return ready


def expired(queue: QueueTable) -> sa.ColumnElement[bool]:
    """Return the predicate "running, and its lease has passed"; needs the roles and states it names."""
    return sa.and_(queue.in_state("running"), queue.columns["lease_until"] < queue.now("lease_until"))


def due(queue: QueueTable) -> sa.ColumnElement[bool]:
    """Return the predicate "scheduled, and its time has come"."""
    return sa.and_(queue.in_state("scheduled"), queue.columns["available_at"] <= queue.now("available_at"))


class _Numbers(sa.types.UserDefinedType[Any]):
    """A list of whole numbers, written into the statement at once.

    A thousand bound parameters cost the client three times as much as all else about a statement (1.7 ms against
    0.5 ms, measured).
    """

    cache_ok = True

    def literal_processor(self, dialect: object) -> Callable[[Sequence[int]], str]:  # noqa: ARG002 - as declared there
        """Write numbers, and nothing but numbers."""
        return lambda numbers: f"({', '.join(map(str, map(int, numbers)))})"


class _Ranges(sa.types.UserDefinedType[Any]):
    """A list of runs of ids of one column, written into the statement as ranges of it."""

    cache_ok = True

    def __init__(self, column: str) -> None:
        self.column = column

    def literal_processor(self, dialect: object) -> Callable[[Sequence[Run]], str]:  # noqa: ARG002 - as declared there
        """Write numbers, and nothing but numbers, with the column's name."""
        name = self.column.replace("%", "%%")
        return lambda runs: f"({' OR '.join(f'{name} BETWEEN {int(run.low)} AND {int(run.high)}' for run in runs)})"


class _first_in_order(FunctionElement[bool]):  # noqa: N801 - as SQLAlchemy names functions
    """`column BETWEEN low AND high ORDER BY column LIMIT number`, for a DELETE, whose ORDER BY Core cannot write."""

    inherit_cache = True


@compiles(_first_in_order)
def _write_first_in_order(element: _first_in_order, compiler: Any, **options: Any) -> str:  # noqa: ANN401
    column, low, high, number = (compiler.process(part, **options) for part in element.clauses)
    return f"{column} BETWEEN {low} AND {high} ORDER BY {column} LIMIT {number}"


class Run(NamedTuple):
    """The consecutive numbers from `low` to `high`: ids without a gap between them.

    `BETWEEN … ORDER BY id LIMIT n` over a run is as exact as a list of ids, and faster. Without the LIMIT it locks the
    row after the last.
    """

    low: int
    high: int
    length: int


def as_run(queue: QueueTable, ids: Sequence[Any]) -> Run | None:
    """Return the run that distinct `ids` are, in whatever order; None if they are none, or do not lead the key."""
    if len(ids) < _SHORTEST_RUN or any(type(id_) is not int for id_ in ids) or not queue.id_is_primary:
        return None
    run = Run(min(ids), max(ids), len(set(ids)))
    return run if run.high - run.low + 1 == run.length else None


def runs_of(ids: Sequence[int]) -> list[Run]:
    """Return the runs that ascending numbers consist of."""
    ends = [before for before, id_ in pairwise(ids) if id_ != before + 1]
    starts = [id_ for before, id_ in pairwise(ids) if id_ != before + 1]
    runs = zip([ids[0], *starts], [*ends, ids[-1]], strict=True)
    return [Run(low, high, high - low + 1) for low, high in runs]


def free_rows(queue: QueueTable, query: sa.Select[Any], ids: Sequence[Any]) -> sa.Select[Any]:
    """Return `query` over exactly these ascending ids of the queue's table, those locked by others left out.

    Where they are few long runs they are written as ranges, which are faster than a list. The row behind a range is
    looked at as well; SKIP LOCKED does not wait for it, and READ COMMITTED lets it go at once.
    """
    if queue.id_is_primary and all(type(id_) is int for id_ in ids):
        runs = runs_of(ids)
        if 1 < len(runs) <= len(ids) // _LONG_RUN:
            column = f"{quote_name(queue.table.name)}.{quote_name(queue.id.name)}"
            ranges: sa.ColumnElement[bool] = sa.bindparam(None, runs, type_=_Ranges(column), literal_execute=True)
            return query.where(ranges).with_for_update(skip_locked=True)
    return choose_rows(queue, query, ids).with_for_update(skip_locked=True)


def choose_rows(queue: QueueTable, query: sa.Select[Any], ids: Sequence[Any]) -> sa.Select[Any]:
    """Return `query` over exactly these ids of the queue's table."""
    run = as_run(queue, ids)
    if run is None:
        return query.where(by_ids(queue, ids))
    return query.where(queue.id.between(run.low, run.high)).order_by(queue.id).limit(run.length)


def delete_ids(queue: QueueTable, ids: Sequence[Any]) -> sa.Delete:
    """Delete exactly these rows, which are locked."""
    run = as_run(queue, ids)
    rows = by_ids(queue, ids) if run is None else _first_in_order(queue.id, *map(sa.literal, run))
    return sa.delete(queue.table).where(rows).prefix_with(*primary_hint(queue))


def by_primary_key(query: sa.Select[Any], queue: QueueTable) -> sa.Select[Any]:
    """Have `query` find its rows by their ids, however much of a small table its list is."""
    return query.prefix_with(*primary_hint(queue))


def primary_hint(queue: QueueTable) -> list[sa.TextClause]:
    """Return the optimizer hint that keeps a statement on the index of the ids; it goes right after the verb.

    None where no index finds a row by its id: then the hint would have every row read, and locked.
    """
    if queue.id_index is None:
        return []
    table, index = (
        quote_name(name).replace("\\", "\\\\").replace(":", "\\:") for name in (queue.table.name, queue.id_index)
    )
    return [sa.text(f"/*+ INDEX({table} {'PRIMARY' if queue.id_index == 'PRIMARY' else index}) */")]


def by_ids(queue: QueueTable, ids: Sequence[Any], table: sa.Table | None = None) -> sa.ColumnElement[bool]:
    """Return the predicate "exactly these ids", on the queue's table or on another with the same id column."""
    column: sa.ColumnElement[Any] = queue.id if table is None else table.columns[queue.id.name]
    if len(ids) == 1:
        one: sa.ColumnElement[bool] = column == ids[0]
        return one
    if all(type(id_) is int for id_ in ids):
        numbers = sa.bindparam(None, ids, type_=_Numbers(), literal_execute=True)
        among: sa.ColumnElement[bool] = column.bool_op("IN")(numbers)
        return among
    return column.in_(ids)


def set_roles(queue: QueueTable, condition: sa.ColumnElement[bool], values: Mapping[str, Any]) -> sa.Update:
    """Return an UPDATE that sets those roles that the queue has, in a fixed order, where `condition` holds."""
    present = [(queue.columns[role], value) for role, value in values.items() if queue.has(role)]
    return sa.update(queue.table).where(condition).ordered_values(*present)


def cleared(queue: QueueTable, *roles: str) -> dict[str, Any]:
    """Return NULL for those of `roles` whose columns may be NULL; the others keep what means nothing any more."""
    return {role: sa.null() for role in roles if queue.has(role) and queue.facts[queue.columns[role].name].nullable}


def same_bytes(
    mine: sa.Column[Any], theirs: sa.Column[Any], fact: ColumnFact, their_fact: ColumnFact | None = None
) -> sa.ColumnElement[bool]:
    """Return "identical, byte by byte", which a collation that calls different texts equal does not say.

    JSON whose text is longer than max_allowed_packet is identical to none: the server makes its text empty, with no
    more than a warning (1301), also where what is stored is shorter (measured on 9.7.4).
    """
    text = _as_bytes(mine, fact)
    same: sa.ColumnElement[bool] = text.bool_op("<=>")(_as_bytes(theirs, their_fact or fact))
    return sa.and_(same, sa.or_(mine.is_(None), sa.func.length(text) > 0)) if fact.data_type == "json" else same


def _as_bytes(column: sa.Column[Any], fact: ColumnFact) -> sa.ColumnElement[Any]:
    if fact.data_type == "json":
        return sa.cast(sa.cast(column, sa.CHAR), sa.LargeBinary)
    return sa.cast(column, sa.LargeBinary) if fact.charset else column
