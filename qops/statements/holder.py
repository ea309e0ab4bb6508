"""What finding the holder of a row sends to the queue's table: a lock that is let go of as it is granted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

if TYPE_CHECKING:
    from qops.queue import QueueTable


def touch(queue: QueueTable, id_: Any, *, shared: bool, wait: bool) -> sa.Select[Any]:  # noqa: ANN401 - as the column
    """Lock one job, at once (3572) or after a `wait`; `shared` needs no more than SELECT. For autocommit."""
    query = sa.select(queue.id).where(queue.id == id_)
    return query.with_for_update(read=shared, nowait=not wait)
