"""A queue's statements, made from its mapping; executes nothing.

Every transition repeats what it relies on (state, lease, owner) or is given ids that the caller holds locked.
Times come from the server's clock. The `:name` parameters are documented at each function; intervals are
whole microseconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qops.queue import QueueTable

LEASE = sa.bindparam("lease_microseconds", type_=sa.BigInteger())
LIMIT = sa.bindparam("limit", type_=sa.Integer())


def claimable(queue: QueueTable) -> sa.ColumnElement[bool]:
    """Return the predicate "a worker could claim this now"."""
    ready = queue.in_state("pending")
    if queue.has("available_at"):
        ready = sa.and_(ready, queue.columns["available_at"] <= queue.now("available_at"))
    return ready


def select_claim(queue: QueueTable, *columns: sa.ColumnElement[Any]) -> sa.Select[Any]:
    """Lock the next `:limit` ready jobs in the queue's order, passing over rows that others hold."""
    return (
        sa.select(queue.id, *columns)
        .where(claimable(queue))
        .order_by(*queue.order)
        .limit(LIMIT)
        .with_for_update(skip_locked=True)
    )


def select_job(queue: QueueTable, *columns: sa.ColumnElement[Any]) -> sa.Select[Any]:
    """Lock the job `:id` at once or fail (3572), whatever its state."""
    return sa.select(queue.id, *columns).where(queue.id == sa.bindparam("id")).with_for_update(nowait=True)


def mark_running(queue: QueueTable, ids: Sequence[Any] | None = None) -> sa.Update:
    """Mark locked jobs as running for `:worker` until `:lease_microseconds` from now; by `ids` or `:id`."""
    values: dict[str, Any] = {"status": queue.value("running")}
    if queue.has("claimed_by"):
        values["claimed_by"] = sa.bindparam("worker")
    if queue.has("lease_until"):
        values["lease_until"] = queue.in_time("lease_until", LEASE)
    if queue.has("attempts") and queue.settings.attempts_counted == "claim":
        values["attempts"] = queue.columns["attempts"] + 1
    return _update(queue, by_ids(queue, ids) if ids is not None else queue.id == sa.bindparam("id"), values)


def by_ids(queue: QueueTable, ids: Sequence[Any], table: sa.Table | None = None) -> sa.ColumnElement[bool]:
    """Return the predicate "exactly these ids", on the queue's table or on another with the same id column."""
    column = queue.id if table is None else table.columns[queue.id.name]
    return column == ids[0] if len(ids) == 1 else column.in_(ids)


def _update(queue: QueueTable, condition: sa.ColumnElement[bool], values: dict[str, Any]) -> sa.Update:
    """Return an UPDATE that sets roles, in a fixed order, where `condition` holds."""
    return (
        sa.update(queue.table)
        .where(condition)
        .ordered_values(*((queue.columns[role], value) for role, value in values.items()))
    )
