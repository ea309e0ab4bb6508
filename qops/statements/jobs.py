"""What `qops jobs` and `qops show` send: reads by index, in chunks of a fixed number of rows, without locks.

A filter is a column of what is read, not a condition of reading: so a chunk ends after as many rows as it may examine,
also where none of them is wanted.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from qops.columns import TEXTS
from qops.order import direction
from qops.statements.common import by_ids, by_primary_key
from qops.statements.walk import Step, Walk, choose_walk, next_keys

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qops.queue import QueueTable
    from qops.queue_settings import StateValue

LONGEST_ERROR = 65_535
"""Characters of an error that a list shows."""
LONGEST_PAYLOAD = 65_536
"""Characters (of a binary payload: bytes) that are shown of a payload."""
_BINARY = frozenset({"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"})
_BY_TIME = {"failed": "finished_at", "done": "finished_at", "running": "lease_until", "scheduled": "available_at"}
_NEWEST_FIRST = frozenset({"failed", "done"})
TIME_ROLES = ("lease_until", "available_at", "created_at", "finished_at")


def listing_walk(queue: QueueTable, state: str, value: StateValue) -> Walk | None:
    """Return the way through the jobs with one status value in the order in which people want to see them.

    Finished jobs the newest first, running ones by the end of their leases, scheduled ones by their time, pending ones
    as they are claimed: as far as an index has it. None where no index leads to the jobs of a state.
    """
    if not any(index.begins_with(queue.columns["status"].name) for index in queue.indexes):
        return None
    if state != "pending":
        walk = choose_walk(queue, value, by=_BY_TIME[state])
        return backwards(walk) if state in _NEWEST_FIRST else walk
    first, descending = direction(queue.order[0])
    role = next((role for role, column in queue.columns.items() if column.name == first), None)
    walk = choose_walk(queue, value, by=role)
    head = walk.steps[0]
    return backwards(walk) if head.column.name == first and head.descending != descending else walk


def newest_walk(queue: QueueTable) -> Walk:
    """Return the way through all jobs along the primary key, the newest first."""
    return Walk(None, "PRIMARY", (Step(queue.id, True),))


def backwards(walk: Walk) -> Walk:
    """Return the same way from its other end."""
    return replace(walk, steps=tuple(Step(step.column, not step.descending) for step in walk.steps))


def examine(
    queue: QueueTable,
    walk: Walk,
    after: Sequence[Any] | None,
    limit: int,
    wanted: sa.ColumnElement[bool],
    shown: Sequence[sa.ColumnElement[Any]],
) -> sa.Select[Any]:
    """Read the keys of the next `limit` rows of a walk, whether each is `wanted` (1), and of those `shown`."""
    columns = (sa.case((wanted, column)) for column in shown)
    return next_keys(queue, walk, after, limit).add_columns(sa.case((wanted, 1), else_=0), *columns)


def error_head(queue: QueueTable, length: int) -> sa.ColumnElement[Any]:
    """Return the beginning of a job's error."""
    return sa.func.left(queue.columns["last_error"], length) if queue.has("last_error") else sa.null()


def instant(queue: QueueTable, role: str | None) -> sa.ColumnElement[Any]:
    """Return a time in UTC; NULL where the queue has no such role or it is not known in which zone it was written."""
    return sa.null() if role is None or not queue.has(role) else queue.instant(role)


def facts(queue: QueueTable) -> list[sa.ColumnElement[Any]]:
    """Return what a list shows of a job, labelled by role; NULL for a role that the queue lacks."""
    plain = ("priority", "attempts", "max_attempts", "claimed_by")
    return [
        queue.columns["id"].label("id"),
        queue.columns["status"].label("status"),
        *(queue.columns.get(role, sa.null()).label(role) for role in plain),
        *(instant(queue, role).label(role) for role in TIME_ROLES),
        error_head(queue, LONGEST_ERROR).label("last_error"),
    ]


def read_jobs(queue: QueueTable, ids: Sequence[Any], wanted: sa.ColumnElement[bool]) -> sa.Select[Any]:
    """Read those of `ids` that are `wanted` at the same moment."""
    return by_primary_key(sa.select(*facts(queue)).where(by_ids(queue, ids), wanted), queue)


def read_job(queue: QueueTable, id_: Any) -> sa.Select[Any]:  # noqa: ANN401 - whatever the id column holds
    """Read one job: what a list shows, the beginning of its payload and its size, and what is left of its lease."""
    shown, size = _payload(queue)
    columns = [*facts(queue), shown.label("payload"), size.label("payload_bytes"), _left(queue).label("lease_left")]
    return sa.select(*columns).where(queue.id == id_)


def _payload(queue: QueueTable) -> tuple[sa.ColumnElement[Any], sa.ColumnElement[Any]]:
    """Return a payload's beginning and its length in bytes; both NULL where the queue has none."""
    null: sa.ColumnElement[Any] = sa.null()
    if not queue.has("payload"):
        return null, null
    column: sa.ColumnElement[Any] = queue.columns["payload"]
    kind = queue.facts[queue.columns["payload"].name].data_type
    whole = column if kind in TEXTS | _BINARY else sa.cast(column, sa.CHAR)
    return sa.func.left(whole, LONGEST_PAYLOAD), sa.func.length(whole)


def _left(queue: QueueTable) -> sa.ColumnElement[Any]:
    """Return the microseconds until the lease ends; NULL where there is none or its column does not say when it is."""
    if not queue.has("lease_until") or not queue.tells_time("lease_until"):
        return sa.null()
    unit = sa.text("MICROSECOND")
    return sa.func.timestampdiff(unit, queue.now("lease_until"), queue.columns["lease_until"])
