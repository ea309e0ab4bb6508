"""What requeue and promote send: transitions of jobs that the caller holds locked by id."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from qops.statements.common import by_ids, cleared, expired, primary_hint, set_roles

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qops.queue import QueueTable


LAST_TIMESTAMP, LAST_DATETIME = "2038-01-19 03:14:07.999999", "9999-12-31 23:59:59.999999"


def situation(queue: QueueTable) -> list[sa.ColumnElement[Any]]:
    """Return what decides about a job: status, attempts, its limit, whether its lease has passed, and `early`.

    `expired` and `early`, whether its time has not come yet, are 1 or 0; NULL where the queue cannot tell.
    """
    null: sa.ColumnElement[Any] = sa.null()
    lapsed = early = null
    if queue.has("lease_until") and queue.has_state("running"):
        lapsed = sa.case((expired(queue), 1), else_=0)
    if queue.has("available_at") and queue.tells_time("available_at"):
        early = sa.case((queue.columns["available_at"] > queue.now("available_at"), 1), else_=0)
    return [
        queue.columns["status"].label("status"),
        queue.columns.get("attempts", null).label("attempts"),
        queue.columns.get("max_attempts", null).label("max_attempts"),
        lapsed.label("expired"),
        early.label("early"),
    ]


def lock_one(queue: QueueTable, id_: Any, *columns: sa.ColumnElement[Any]) -> sa.Select[Any]:  # noqa: ANN401 - as the id column
    """Lock one named job at once or fail (3572) and return `columns` of it, the id first."""
    return look_at(queue, id_, *columns).with_for_update(nowait=True)


def look_at(queue: QueueTable, id_: Any, *columns: sa.ColumnElement[Any]) -> sa.Select[Any]:  # noqa: ANN401 - as above
    """Read `columns` of one named job, the id first, without a lock."""
    return sa.select(queue.id, *columns).where(queue.id == id_)


def look_at_all(queue: QueueTable, ids: Sequence[Any]) -> sa.Select[Any]:
    """Read the situation of several named jobs, without locks."""
    query = sa.select(queue.id, *situation(queue)).where(by_ids(queue, ids))
    return query.prefix_with(*primary_hint(queue))


def put_back(
    queue: QueueTable,
    ids: Sequence[Any],
    *,
    count_attempt: bool,
    reset_attempts: bool,
    state: str = "pending",
    available_at: sa.ColumnElement[Any] | None = None,
) -> sa.Update:
    """Give locked jobs another state: no owner, no lease, no finish time; attempts kept, counted or reset.

    `available_at` None: their time stays as it is.
    """
    values: dict[str, Any] = {
        "status": queue.value(state),
        **cleared(queue, "claimed_by", "lease_until", "finished_at"),
    }
    if available_at is not None:
        values["available_at"] = available_at
    if queue.has("attempts"):
        if reset_attempts:
            values["attempts"] = 0
        elif count_attempt:
            values["attempts"] = queue.columns["attempts"] + 1
    return _hinted(queue, set_roles(queue, by_ids(queue, ids), values))


def sometime(queue: QueueTable, delay: int, spread: int) -> sa.ColumnElement[Any]:
    """Return an instant from `delay` on, another for each row, evenly over `spread` (both microseconds).

    In whole units of what available_at can store, so that storing it moves none out of the window.
    """
    unit = 10 ** (6 - (queue.facts[queue.columns["available_at"].name].precision or 0))
    first = -(-delay // unit) * unit
    steps = spread // unit
    if not steps:
        return queue.in_time("available_at", first)
    jitter: sa.ColumnElement[int] = sa.func.floor(sa.func.rand() * (steps + 1)) * unit
    # RAND() is a DOUBLE, and so would be the sum.
    return queue.in_time("available_at", sa.cast(first + jitter, sa.BigInteger()))


def latest(queue: QueueTable, microseconds: int) -> sa.Select[Any]:
    """Say whether available_at can hold the instant `microseconds` from now: 1, 0, or NULL for beyond any time."""
    fact = queue.facts[queue.columns["available_at"].name]
    end = LAST_TIMESTAMP if fact.data_type == "timestamp" else LAST_DATETIME
    return sa.select(queue.in_time("available_at", microseconds) <= sa.literal_column(f"TIMESTAMP'{end}'"))


def give_up(queue: QueueTable, ids: Sequence[Any], reason: str, *, count_attempt: bool) -> sa.Update:
    """Make locked, expired jobs failed, with a reason; no owner, no lease."""
    values: dict[str, Any] = {"status": queue.value("failed"), **cleared(queue, "claimed_by", "lease_until")}
    if queue.has("finished_at"):
        values["finished_at"] = queue.now("finished_at")
    values["last_error"] = reason
    if queue.has("attempts") and count_attempt:
        values["attempts"] = queue.columns["attempts"] + 1
    return _hinted(queue, set_roles(queue, by_ids(queue, ids), values))


def promote(queue: QueueTable, ids: Sequence[Any]) -> sa.Update:
    """Make locked, due jobs pending."""
    return _hinted(queue, set_roles(queue, by_ids(queue, ids), {"status": queue.value("pending")}))


def _hinted(queue: QueueTable, update: sa.Update) -> sa.Update:
    return update.prefix_with(*primary_hint(queue))
