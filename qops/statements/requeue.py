"""What requeue and promote send: transitions of jobs that the caller holds locked by id."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from qops.statements.common import by_ids, cleared, expired, primary_hint, set_roles

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qops.queue import QueueTable


def situation(queue: QueueTable) -> list[sa.ColumnElement[Any]]:
    """Return what decides about a job: status, attempts, its limit, and whether its lease has passed (1 or 0)."""
    null: sa.ColumnElement[Any] = sa.null()
    lapsed = null
    if queue.has("lease_until") and queue.has_state("running"):
        lapsed = sa.case((expired(queue), 1), else_=0)
    return [
        queue.columns["status"].label("status"),
        queue.columns.get("attempts", null).label("attempts"),
        queue.columns.get("max_attempts", null).label("max_attempts"),
        lapsed.label("expired"),
    ]


def lock_one(queue: QueueTable, id_: Any) -> sa.Select[Any]:  # noqa: ANN401 - whatever the id column holds
    """Lock one named job at once or fail (3572), with its situation."""
    return sa.select(queue.id, *situation(queue)).where(queue.id == id_).with_for_update(nowait=True)


def look_at(queue: QueueTable, id_: Any) -> sa.Select[Any]:  # noqa: ANN401 - whatever the id column holds
    """Read one named job's situation, without a lock."""
    return sa.select(queue.id, *situation(queue)).where(queue.id == id_)


def put_back(queue: QueueTable, ids: Sequence[Any], *, count_attempt: bool, reset_attempts: bool) -> sa.Update:
    """Make locked jobs pending: no owner, no lease, no finish time; attempts kept, counted or reset."""
    values: dict[str, Any] = {
        "status": queue.value("pending"),
        **cleared(queue, "claimed_by", "lease_until", "finished_at"),
    }
    if queue.has("attempts"):
        if reset_attempts:
            values["attempts"] = 0
        elif count_attempt:
            values["attempts"] = queue.columns["attempts"] + 1
    return _hinted(queue, set_roles(queue, by_ids(queue, ids), values))


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


def in_archive(queue: QueueTable, id_: Any) -> sa.Select[Any]:  # noqa: ANN401 - whatever the id column holds
    """Look whether the archive holds a job."""
    return sa.select(sa.literal(1)).where(queue.archive.columns[queue.id.name] == id_)


def _hinted(queue: QueueTable, update: sa.Update) -> sa.Update:
    return update.prefix_with(*primary_hint(queue))
