"""Which jobs of any state a choice by error, worker and age means, and from which time each state's age counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa

from qops.statements.filters import error_contains, owned_by

if TYPE_CHECKING:
    from qops.queue import QueueTable
    from qops.statements.filters import Filters

_AGE_ROLES = {
    "failed": ("finished_at",),
    "done": ("finished_at",),
    "running": ("lease_until",),
    "scheduled": ("available_at", "created_at"),
    "pending": ("available_at", "created_at"),
}


def age_role(queue: QueueTable, state: str) -> str | None:
    """Return the role from which the age of a job in `state` counts, None if the queue has none.

    Finished jobs age from their end, running ones from the end of their lease, the others from when they could be
    claimed.
    """
    return next((role for role in _AGE_ROLES[state] if queue.has(role)), None)


def require_roles(queue: QueueTable, command: str, chosen: Filters) -> None:
    """Raise Misconfigured where the queue lacks what the filter looks at."""
    needed = [("last_error", chosen.error_like), ("claimed_by", chosen.worker)]
    queue.require(command, roles=tuple(role for role, wanted in needed if wanted is not None))


def meets(queue: QueueTable, state: str, chosen: Filters) -> sa.ColumnElement[bool]:
    """Return the predicate that a job in `state` meets; a job without the time that its age counts from does not."""
    met: list[sa.ColumnElement[bool]] = []
    if chosen.error_like is not None:
        met.append(error_contains(queue, chosen.error_like))
    if chosen.worker is not None:
        met.append(owned_by(queue, chosen.worker))
    if chosen.older_than is not None:
        role = age_role(queue, state)
        past = -round(chosen.older_than * 1_000_000)
        met.append(sa.false() if role is None else queue.columns[role] <= queue.in_time(role, past))
    return sa.and_(sa.true(), *met)
