"""What a worker sends: claim, heartbeat, complete, fail. Parameters are named at each function."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from qops.statements.common import LIMIT, by_ids, claimable, set_roles

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qops.queue import QueueTable

LEASE = sa.bindparam("lease_microseconds", type_=sa.BigInteger())


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
    values: dict[str, Any] = {"status": queue.value("running"), "claimed_by": sa.bindparam("worker")}
    if queue.has("lease_until"):
        values["lease_until"] = queue.in_time("lease_until", LEASE)
    if queue.has("attempts") and queue.settings.attempts_counted == "claim":
        values["attempts"] = queue.columns["attempts"] + 1
    return set_roles(queue, by_ids(queue, ids) if ids is not None else queue.id == sa.bindparam("id"), values)
