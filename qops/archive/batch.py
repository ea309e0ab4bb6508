"""One batch: the ids that were locked are the ids that are copied are the ids that are deleted, and it is counted."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sqlalchemy import exc

from qops.archive.result import Refused
from qops.db import DUPLICATE, errno
from qops.errors import Misconfigured
from qops.isolate import ROW_TROUBLE, each_or_all, undo_row_trouble
from qops.pick import pick
from qops.statements import archive as st

if TYPE_CHECKING:
    import sqlalchemy as sa

    from qops.guard import Guard
    from qops.queue import QueueTable
    from qops.statements.walk import Walk


@dataclass
class Batch:
    """The outcome of one batch. `key` is where the walk continues; None means that there was nothing left."""

    key: tuple[Any, ...] | None = None
    seen: int = 0
    archived: int = 0
    reconciled: int = 0
    locked: int = 0
    refused: list[Refused] = field(default_factory=list)
    ids: list[Any] = field(default_factory=list)

    @property
    def moved(self) -> list[Any]:
        """The ids that left the queue, archived now or before."""
        refused = {row.id for row in self.refused}
        return [id_ for id_ in self.ids if id_ not in refused]


def move_batch(connection: sa.Connection, guard: Guard, walk: Walk, after: tuple[Any, ...] | None, limit: int) -> Batch:
    """Move up to `limit` rows that come after the key `after`; runs inside the caller's transaction.

    Raises Misconfigured when the three counts differ or the tables were altered meanwhile: the caller's transaction
    is then rolled back.
    """
    picked = pick(connection, guard.queue, walk, after, limit)
    batch = Batch(key=picked.key, seen=picked.seen, locked=picked.locked, ids=picked.ids)
    if batch.ids:
        guard.recheck(connection)
        _move(connection, guard, batch.ids, batch)
    return batch


def _move(connection: sa.Connection, guard: Guard, ids: list[Any], batch: Batch) -> None:
    """Move locked rows; what the archive already holds is looked at first when it says so, then row by row."""
    queue = guard.queue
    if queue.settings.archive_by == "trigger":
        ids = _not_there(connection, queue, ids, batch)
    if not ids:
        return
    try:
        with undo_row_trouble(connection):
            _copy_and_delete(connection, guard, ids)
    except exc.DBAPIError as error:
        if errno(error) not in ROW_TROUBLE:
            raise
        if errno(error) == DUPLICATE and queue.settings.archive_by == "copy":
            ids = _reconcile(connection, queue, ids, batch)
    else:
        batch.archived += len(ids)
        return
    done = each_or_all(
        connection,
        ids,
        lambda part: _copy_and_delete(connection, guard, part),
        lambda id_, reason: batch.refused.append(Refused(id_, reason)),
    )
    batch.archived += len(done)


def _copy_and_delete(connection: sa.Connection, guard: Guard, ids: list[Any]) -> None:
    """Copy and delete `ids`, and compare what was locked, what arrived and what went.

    Where triggers may act on either table the copies are compared byte by byte, and counted again after the DELETE.
    """
    queue = guard.queue
    if queue.settings.archive_by == "copy":
        arrived = connection.execute(st.copy_ids(queue, ids)).rowcount
        if guard.verify:
            arrived = sum(bool(same) for _, same in connection.execute(st.twins(queue, ids)))
        gone = connection.execute(st.delete_ids(queue, ids)).rowcount
        if guard.verify:
            arrived = min(arrived, connection.execute(st.count_archived(queue, ids)).scalar_one())
    else:
        gone = connection.execute(st.delete_ids(queue, ids)).rowcount
        arrived = connection.execute(st.count_archived(queue, ids)).scalar_one()
    if not len(ids) == arrived == gone:
        raise Misconfigured(
            f"queue {queue.name!r}: {len(ids)} rows were locked, {arrived} arrived unchanged in "
            f"{queue.archive.name!r} and {gone} were deleted, so the batch was rolled back; look for "
            "triggers on both tables"
        )


def _not_there(connection: sa.Connection, queue: QueueTable, ids: list[Any], batch: Batch) -> list[Any]:
    """Refuse what the archive holds already: a trigger that ignores duplicates would let the row vanish."""
    held = [id_ for id_, _ in connection.execute(st.twins(queue, ids))]
    batch.refused += [Refused(id_, f"{queue.archive.name} holds this id already; compare the two rows") for id_ in held]
    return sorted(set(ids) - set(held))


def _reconcile(connection: sa.Connection, queue: QueueTable, ids: list[Any], batch: Batch) -> list[Any]:
    """Finish what an earlier, interrupted copy began: delete rows whose identical copy is there.

    Rows whose id the archive holds with other content are refused. Returns the ids that it does not hold.
    """
    pairs = connection.execute(st.twins(queue, ids)).all()
    same = [id_ for id_, is_same in pairs if is_same]
    other = [id_ for id_, is_same in pairs if not is_same]
    if same:
        gone = connection.execute(st.delete_ids(queue, same)).rowcount
        if gone != len(same):
            raise Misconfigured(f"{gone} of {len(same)} rows with a copy in {queue.archive.name!r} were deleted")
        batch.reconciled += len(same)
    reason = f"{queue.archive.name} already holds this id with other content; compare the two rows, then rename one"
    batch.refused += [Refused(id_, reason) for id_ in other]
    return sorted(set(ids) - set(same) - set(other))
