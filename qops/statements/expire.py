"""What expire sends besides its walks: reads of slices where no index knows the age, and deletes by id."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from qops.statements.walk import Past, Walk, force_index, selection

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qops.queue import QueueTable


FIRST_DAY: sa.ColumnElement[Any] = sa.literal_column("'1970-01-02 00:00:00'")  # before it there is only the zero date


def read_slice(
    table: QueueTable,
    past: Past,
    after: Any | None,  # noqa: ANN401 - whatever the id column holds
    limit: int,
) -> sa.Select[Any]:
    """Read the next `limit` rows by primary key, whatever their age: (id, old). `old` is NULL without a time."""
    old = table.columns[past.role] <= table.in_time(past.role, -past.microseconds)
    judged = sa.case((dated(table, past.role), old), else_=sa.null())
    return _next(table, (judged.label("old"),), after, limit)


def dated(table: QueueTable, role: str) -> sa.ColumnElement[bool]:
    """Return the predicate "it has a time": a zero date is none, though it is less than any."""
    return table.columns[role] >= FIRST_DAY


def read_entries(ledger: QueueTable, seconds: int, after: int | None, limit: int) -> sa.Select[Any]:
    """Read the next `limit` entries of the ledger by id, with what decides about them.

    `begun` and `ended` say whether it began, and whether it was over, at least `seconds` ago. An entry that nobody
    closed was over when it began, a pause when its time had come; a pause that is in force never was.
    """
    named = ledger.table.columns
    moment = sa.func.timestampadd(sa.text("SECOND"), -seconds, sa.func.now(sa.text("6")))
    unclosed = sa.case((named["command"] == "pause", named["expires_at"]), else_=named["started_at"])
    ended = sa.func.coalesce(named["finished_at"], unclosed)
    columns = (
        named["command"],
        named["queue"],
        named["outcome"],
        named["summary"],
        (named["started_at"] <= moment).label("begun"),
        sa.func.coalesce(ended <= moment, 0).label("ended"),
    )
    return _next(ledger, columns, after, limit)


def _next(
    table: QueueTable,
    columns: Sequence[sa.ColumnElement[Any]],
    after: Any | None,  # noqa: ANN401 - whatever the id column holds
    limit: int,
) -> sa.Select[Any]:
    query = sa.select(table.id, *columns).order_by(table.id).limit(limit)
    return force_index(query if after is None else query.where(table.id > after), table, "PRIMARY")


def count_timeless(archive: QueueTable, walk: Walk, role: str, bound: int) -> sa.Select[Any]:
    """Count, up to `bound`, the rows that have no time in `role`, along the walk's index."""
    column = archive.columns[role]
    return _count(archive, walk, sa.or_(column.is_(None), column < FIRST_DAY), bound)


def count_old(archive: QueueTable, walk: Walk, past: Past, bound: int) -> sa.Select[Any]:
    """Count, up to `bound`, the rows whose time has come, along the walk's index."""
    return _count(archive, walk, sa.and_(dated(archive, past.role), selection(archive, walk)), bound)


def _count(archive: QueueTable, walk: Walk, condition: sa.ColumnElement[bool], bound: int) -> sa.Select[Any]:
    rows = sa.select(sa.literal(1)).select_from(archive.table).where(condition).limit(bound)
    return sa.select(sa.func.count()).select_from(force_index(rows, archive, walk.index).subquery())
