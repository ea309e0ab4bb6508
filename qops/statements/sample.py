"""Look at the first rows of a state, never at more than a bound, whatever they look like."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from qops.statements.walk import force_index, selection

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qops.queue import QueueTable
    from qops.statements.walk import Walk


def first_rows(
    queue: QueueTable,
    walk: Walk,
    wanted: sa.ColumnElement[bool],
    bound: int,
    order: Sequence[sa.ColumnElement[Any]] = (),
) -> sa.Subquery:
    """Return the first `bound` rows of a walk: `id`, and in `hit` whether they are `wanted`.

    A moment in the walk restricts what is looked at only where its index serves it.
    """
    served = walk.past is not None and walk.steps[0].column is queue.columns[walk.past.role]
    met = selection(queue, walk) if served else queue.columns["status"] == walk.value
    hit = sa.case((wanted, 1), else_=0).label("hit")
    rows = sa.select(queue.id.label("id"), hit).where(met).order_by(*order).limit(bound)
    return force_index(rows, queue, walk.index).subquery()


def count_hits(rows: sa.Subquery) -> sa.Select[Any]:
    """Count the rows that were looked at (`examined`), and those among them that are wanted (`found`)."""
    return sa.select(sa.func.count().label("examined"), sa.func.coalesce(sa.func.sum(rows.c.hit), 0).label("found"))


def name_hits(rows: sa.Subquery, limit: int) -> sa.Select[Any]:
    """Return the least ids of the rows that are wanted."""
    return sa.select(rows.c.id).where(rows.c.hit == 1).order_by(rows.c.id).limit(limit)
