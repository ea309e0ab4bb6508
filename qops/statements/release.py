"""What release sends: find the jobs that one worker holds, lock them by id, let their leases end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from qops.statements.common import by_ids, by_primary_key, primary_hint, set_roles
from qops.statements.filters import owned_by
from qops.statements.walk import next_keys

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qops.queue import QueueTable
    from qops.statements.walk import Walk

SECOND = 1_000_000


def leased(queue: QueueTable) -> sa.ColumnElement[bool]:
    """Return the predicate "running, and its lease is valid"."""
    return sa.and_(queue.in_state("running"), queue.columns["lease_until"] >= queue.now("lease_until"))


def next_leased(queue: QueueTable, walk: Walk, after: Sequence[Any] | None, limit: int, worker: str) -> sa.Select[Any]:
    """Read the keys of the next `limit` leased jobs after the key `after`, whoever holds them, without locks.

    After the key: whether it is `worker`'s, the seconds since it was created, the seconds left of its lease.
    """
    age: sa.ColumnElement[Any] = sa.null()
    if queue.has("created_at") and queue.tells_time("created_at"):
        age = _seconds(queue.columns["created_at"], queue.now("created_at"))
    left = _seconds(queue.now("lease_until"), queue.columns["lease_until"])
    keys = next_keys(queue, walk, after, limit).where(leased(queue))
    return keys.add_columns(owned_by(queue, worker).label("own"), age.label("age"), left.label("left"))


def lock_owned(queue: QueueTable, ids: Sequence[Any], worker: str) -> sa.Select[Any]:
    """Lock those of `ids` that `worker` still holds and nobody has locked."""
    query = sa.select(queue.id).where(by_ids(queue, ids), leased(queue), owned_by(queue, worker))
    return by_primary_key(query, queue).with_for_update(skip_locked=True)


def count_owned(queue: QueueTable, ids: Sequence[Any], worker: str) -> sa.Select[Any]:
    """Count those of `ids` that `worker` still holds, whoever has them locked."""
    query = sa.select(sa.func.count()).select_from(queue.table)
    return by_primary_key(query.where(by_ids(queue, ids), leased(queue), owned_by(queue, worker)), queue)


def end_leases(queue: QueueTable, ids: Sequence[Any]) -> sa.Update:
    """Let the leases of locked jobs have ended, by the least that their column can say: they are expired at once."""
    fact = queue.facts[queue.columns["lease_until"].name]
    tick: int = 10 ** (6 - (fact.precision or 0))
    update = set_roles(queue, by_ids(queue, ids), {"lease_until": queue.in_time("lease_until", -tick)})
    return update.prefix_with(*primary_hint(queue))


def _seconds(start: sa.ColumnElement[Any], end: sa.ColumnElement[Any]) -> sa.ColumnElement[Any]:
    return sa.func.timestampdiff(sa.text("MICROSECOND"), start, end) / sa.literal_column(str(SECOND))
