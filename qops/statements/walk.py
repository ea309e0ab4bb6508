"""A walk through the rows of one status value along an index, which never looks back.

Ids are read without locks and locked by primary key. Locking by the primary key alone matters: SKIP LOCKED on a
secondary index keeps the index entries of the rows that it skips locked, and their owner's next UPDATE then
waits for us. The hint matters too: without it a statement with a long IN list reads the whole of a small table
and waits for rows that are not on the list.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from qops.columns import TIMES
from qops.db import quote_name
from qops.statements.common import by_ids, by_primary_key, choose_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qops.indexes import Index
    from qops.queue import QueueTable
    from qops.queue_settings import StateValue


UNORDERED = frozenset({"enum", "set", "bit", "float", "json", "geometry"})


@dataclass(frozen=True)
class Past:
    """A time column whose moment has come: `role` lies at least `microseconds` in the past."""

    role: str
    microseconds: int = 0


@dataclass(frozen=True)
class Step:
    """One key part of a walk."""

    column: sa.Column[Any]
    descending: bool = False


@dataclass(frozen=True)
class Walk:
    """A way through the rows with one status value (None: with any): along `index`, by `steps`, the last is the id.

    `also` are predicates to which no index leads: what finds rows must not look for them in one statement, what locks
    rows asserts them.
    """

    value: StateValue | None
    index: str
    steps: tuple[Step, ...]
    past: Past | None = None
    also: tuple[sa.ColumnElement[bool], ...] = field(default=(), compare=False)


def choose_walk(
    queue: QueueTable, value: StateValue | None, *, by: str | None = None, past: Past | None = None
) -> Walk:
    """Return the walk for one status value: by status and the time in role `by` where an index has them.

    Otherwise by any index that begins with the status, and without one along the primary key. For any status
    (`value` None): by the time where an index begins with it.
    """
    fixed = () if value is None else (queue.columns["status"].name,)
    timed = (queue.columns[by].name,) if by and queue.has(by) else ()
    for head in ((*fixed, *timed), fixed):
        index = _first(queue, head, len(fixed)) if head else None
        if index:
            return Walk(value, index.name, _steps(queue, index, len(fixed)), past)
    return Walk(value, "PRIMARY", (Step(queue.id),), past)


def _first(queue: QueueTable, head: tuple[str, ...], fixed: int) -> Index | None:
    """Return the first visible index that begins with `head` and can be walked.

    Not along expressions and prefixes, nor along types of which a value that was read does not lead back to its place:
    members of an ENUM or SET lie in the order of their numbers and are compared as text, bits are read as bytes, and a
    FLOAT is not equal to what is printed of it.
    """
    kinds = {name.lower(): fact.data_type for name, fact in queue.facts.items()}
    for index in queue.indexes:
        if index.visible and index.begins_with(*head) and all(part.column and not part.prefix for part in index.parts):
            steps = _up_to_id([str(part.column).lower() for part in index.parts[fixed:]], queue.id.name.lower())
            if not any(kinds.get(name) in UNORDERED for name in steps):
                return index
    return None


def _up_to_id(names: list[str], id_: str) -> list[str]:
    return names[: names.index(id_)] if id_ in names else names


def _steps(queue: QueueTable, index: Index, fixed: int) -> tuple[Step, ...]:
    """Return the steps of an index after its `fixed` parts, up to the id, which InnoDB appends to every index."""
    by_name = {column.name.lower(): column for column in queue.table.columns}
    steps: list[Step] = []
    for part in index.parts[fixed:]:
        steps.append(Step(by_name[str(part.column).lower()], part.descending))
        if steps[-1].column is queue.id:
            return tuple(steps)
    return (*steps, Step(queue.id))


def selection(queue: QueueTable, walk: Walk) -> sa.ColumnElement[bool]:
    """Return the predicate that the walk's rows meet: state, and time by the server's clock."""
    met = [] if walk.value is None else [queue.columns["status"] == walk.value]
    if walk.past:
        moment = queue.in_time(walk.past.role, -walk.past.microseconds)
        met.append(queue.columns[walk.past.role] <= moment)
    return sa.and_(sa.true(), *met)


def chosen(queue: QueueTable, walk: Walk) -> sa.ColumnElement[bool]:
    """Return the whole predicate of rows that were found: the walk's, and what was asked for beside it."""
    return sa.and_(selection(queue, walk), *walk.also)


def next_keys(queue: QueueTable, walk: Walk, after: Sequence[Any] | None, limit: int) -> sa.Select[Any]:
    """Read the keys of the next `limit` rows after the key `after` (None: from the start), without locks.

    The row's key is all steps' values in order; the id is the last of them.
    """
    query = sa.select(*(_as_key(queue, step) for step in walk.steps)).where(selection(queue, walk))
    if after is not None:
        query = query.where(_beyond(walk.steps, after))
    order = [step.column.desc() if step.descending else step.column for step in walk.steps]
    return force_index(query.order_by(*order).limit(limit), queue, walk.index)


def _as_key(queue: QueueTable, step: Step) -> sa.ColumnElement[Any]:
    """Return a step's value in a form that leads back to its row.

    Times are read as text: the driver would make objects of them, which takes most of a batch's time in the client,
    and make None of a zero date, from which the walk would start again.
    """
    of_time = queue.facts[step.column.name].data_type in TIMES
    return sa.cast(step.column, sa.CHAR) if of_time else step.column


def _beyond(steps: Sequence[Step], key: Sequence[Any]) -> sa.ColumnElement[bool]:
    """Return the predicate "comes after `key` in the walk": intervals of one index, in its order."""
    step, value = steps[0], key[0]
    further = _past(step, value)
    if len(steps) == 1:
        return further
    same = step.column.is_(None) if value is None else step.column == value
    return sa.or_(further, sa.and_(same, _beyond(steps[1:], key[1:])))


def _past(step: Step, value: Any) -> sa.ColumnElement[bool]:  # noqa: ANN401 - any column's value
    """Return "past `value`" in one key part; NULL comes first in an ascending part and last in a descending one."""
    column = step.column
    if not step.descending:
        return column.is_not(None) if value is None else column > value
    if value is None:
        return sa.false()
    return sa.or_(column < value, column.is_(None))


def lock_rows(queue: QueueTable, walk: Walk, ids: Sequence[Any], *columns: sa.ColumnElement[Any]) -> sa.Select[Any]:
    """Lock those of `ids` that still meet the walk's predicate and that nobody else holds."""
    query = choose_rows(queue, sa.select(queue.id, *columns).where(chosen(queue, walk)), ids)
    return by_primary_key(query, queue).with_for_update(skip_locked=True)


def count_meeting(queue: QueueTable, walk: Walk, ids: Sequence[Any]) -> sa.Select[Any]:
    """Count those of `ids` that meet the walk's predicate, whoever holds them."""
    query = sa.select(sa.func.count()).select_from(queue.table).where(by_ids(queue, ids), chosen(queue, walk))
    return by_primary_key(query, queue)


def wait_for_rows(queue: QueueTable, walk: Walk, ids: Sequence[Any]) -> sa.Select[Any]:
    """Read those of `ids` that meet the walk's predicate once nobody holds them; waits up to the lock timeout."""
    query = sa.select(queue.id).where(by_ids(queue, ids), selection(queue, walk))
    return by_primary_key(query, queue).with_for_update(read=True)


def count_selected(queue: QueueTable, walk: Walk, bound: int) -> sa.Select[Any]:
    """Count, up to `bound`, the rows that meet the walk's predicate."""
    rows = sa.select(sa.literal(1)).select_from(queue.table).where(selection(queue, walk)).limit(bound)
    return sa.select(sa.func.count()).select_from(force_index(rows, queue, walk.index).subquery())


def force_index(query: sa.Select[Any], queue: QueueTable, index: str) -> sa.Select[Any]:
    """Have `query` go along `index`; a percent sign is halved twice, by SQLAlchemy in hints and by the driver."""
    return query.with_hint(queue.table, f"FORCE INDEX ({quote_name(index).replace('%', '%%%%')})", "mysql")
