"""How deep the queue is, in one statement: every number belongs to the same instant, and every scan has a bound.

A part is a derived table of one row; the parts are joined into one SELECT. A part examines at most the bound
plus one rows, whatever they look like, so that 200,000 delayed jobs cannot turn a reading into a scan.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from qops.statements.common import expired
from qops.statements.walk import force_index, selection

if TYPE_CHECKING:
    from collections.abc import Mapping

    from qops.queue import QueueTable
    from qops.statements.walk import Walk

Part = sa.Select[Any]
_ONE = "one"


def since(queue: QueueTable) -> str | None:
    """Return the role that says from when a job could be claimed, None if the queue has no such time."""
    return next((role for role in ("available_at", "created_at") if queue.has(role)), None)


def count(queue: QueueTable, walk: Walk, bound: int) -> Part:
    """Count the rows of a walk: `seen`, at most one more than `bound`."""
    rows = sa.select(sa.literal(1).label("one")).select_from(queue.table).where(selection(queue, walk))
    bounded = force_index(rows.limit(bound + 1), queue, walk.index).subquery()
    return sa.select(sa.func.count().label("seen")).select_from(bounded)


def count_delayed(queue: QueueTable, walk: Walk, bound: int) -> Part:
    """Count the rows of a walk by availability whose time has not come: `seen`, at most one more than `bound`."""
    later = queue.columns["available_at"] > queue.now("available_at")
    rows = sa.select(sa.literal(1).label("one")).where(queue.columns["status"] == walk.value, later)
    bounded = force_index(rows.limit(bound + 1), queue, walk.index).subquery()
    return sa.select(sa.func.count().label("seen")).select_from(bounded)


def first_due(queue: QueueTable, walk: Walk) -> Part:
    """Return `waited`: how long the first row of a walk by availability could be claimed, in microseconds."""
    available = queue.columns["available_at"]
    rows = sa.select(available.label("since")).where(selection(queue, walk)).order_by(available).limit(1)
    first = force_index(rows, queue, walk.index).subquery()
    return sa.select(sa.func.max(_age(queue, "available_at", first.c.since)).label("waited"))


def look(queue: QueueTable, walk: Walk, bound: int) -> Part:
    """Look at one row more than `bound` of a status value: `seen`, and the sums of `_sums` over them."""
    columns = _columns(queue)
    rows = sa.select(*columns.values()).where(queue.columns["status"] == walk.value).limit(bound + 1)
    bounded = force_index(rows, queue, walk.index).subquery()
    return sa.select(sa.func.count().label("seen"), *_sums(queue, bounded, sa.true()))


def look_newest(queue: QueueTable, walk: Walk, bound: int) -> Part:
    """Look at the newest rows, one more than `bound`, where no index begins with the status.

    `examined` is how many these are, `seen` how many have the walk's status value; then the sums of `_sums`.
    """
    columns = {**_columns(queue), "status": queue.columns["status"].label("status")}
    bounded = sa.select(*columns.values()).order_by(queue.id.desc()).limit(bound + 1).subquery()
    mine = bounded.c.status == walk.value
    return sa.select(
        sa.func.count().label("examined"),
        _sum(mine, "seen"),
        *_sums(queue, bounded, mine),
    ).select_from(bounded)


def together(parts: Mapping[str, Part]) -> sa.Select[Any]:
    """Return one SELECT of all `parts`; the columns of part P are labelled `P.column`."""
    tables = {name: part.add_columns(sa.literal_column("1").label(_ONE)).subquery() for name, part in parts.items()}
    first, *others = tables.values()
    joined: sa.FromClause = first
    for table in others:
        joined = joined.join(table, table.c[_ONE] == first.c[_ONE])
    columns = [
        column.label(f"{name}.{column.name}")
        for name, table in tables.items()
        for column in table.columns
        if column.name != _ONE
    ]
    return sa.select(*columns).select_from(joined)


def _columns(queue: QueueTable) -> dict[str, sa.ColumnElement[Any]]:
    """Return what is to be known of a row: whether it is due, whether its lease has passed, since when it waits."""
    columns: dict[str, sa.ColumnElement[Any]] = {"due": sa.case((claimable_time(queue), 1), else_=0).label("due")}
    if queue.has("lease_until") and queue.has_state("running"):
        columns["lapsed"] = sa.case((expired(queue), 1), else_=0).label("lapsed")
    role = since(queue)
    if role:
        columns["since"] = queue.columns[role].label("since")
    return columns


def claimable_time(queue: QueueTable) -> sa.ColumnElement[bool]:
    """Return the predicate "its time has come", whatever its state; true where the queue has no such time."""
    if not queue.has("available_at"):
        return sa.true()
    return queue.columns["available_at"] <= queue.now("available_at")


def _sums(queue: QueueTable, rows: sa.Subquery, mine: sa.ColumnElement[bool]) -> list[sa.ColumnElement[Any]]:
    """Return what is summed over rows that are `mine`.

    `due` and `lapsed` are counts, `waited` and `oldest` ages in microseconds of the oldest that is due and of
    the oldest; None where there is none or the queue has no such column.
    """
    sums = [_sum(sa.and_(mine, rows.c.due == 1), "due")]
    if "lapsed" in rows.c:
        sums.append(_sum(sa.and_(mine, rows.c.lapsed == 1), "lapsed"))
    role = since(queue)
    if role:
        due = sa.case((sa.and_(mine, rows.c.due == 1), rows.c.since))
        sums.append(_age(queue, role, sa.func.min(due)).label("waited"))
        sums.append(_age(queue, role, sa.func.min(sa.case((mine, rows.c.since)))).label("oldest"))
    return sums


def _sum(condition: sa.ColumnElement[bool], name: str) -> sa.ColumnElement[Any]:
    return sa.func.coalesce(sa.func.sum(sa.case((condition, 1), else_=0)), 0).label(name)


def _age(queue: QueueTable, role: str, moment: sa.ColumnElement[Any]) -> sa.ColumnElement[Any]:
    """Return the microseconds since `moment`, a value of column `role`; a zero date has no age (NULL)."""
    return sa.func.timestampdiff(sa.text("MICROSECOND"), moment, queue.now(role))
