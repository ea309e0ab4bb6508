"""What several statements share: the predicates of a job's life, and how a list of ids is written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from qops.queue import QueueTable

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


def by_ids(queue: QueueTable, ids: Sequence[Any], table: sa.Table | None = None) -> sa.ColumnElement[bool]:
    """Return the predicate "exactly these ids", on the queue's table or on another with the same id column."""
    column = queue.id if table is None else table.columns[queue.id.name]
    return column == ids[0] if len(ids) == 1 else column.in_(ids)


def set_roles(queue: QueueTable, condition: sa.ColumnElement[bool], values: Mapping[str, Any]) -> sa.Update:
    """Return an UPDATE that sets those roles that the queue has, in a fixed order, where `condition` holds."""
    present = [(queue.columns[role], value) for role, value in values.items() if queue.has(role)]
    return sa.update(queue.table).where(condition).ordered_values(*present)


def cleared(queue: QueueTable, *roles: str) -> dict[str, Any]:
    """Return NULL for those of `roles` whose columns may be NULL; the others keep what means nothing any more."""
    return {role: sa.null() for role in roles if queue.has(role) and queue.facts[queue.columns[role].name].nullable}
