"""One batch: the ids that were locked are the ids that are copied are the ids that are deleted, and it is counted."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from qops.archive.result import Refused
from qops.isolate import ROW_ERRORS, each_or_all, is_row_trouble, undo_row_trouble
from qops.move import copy_and_delete, delete_copied, move_all
from qops.pick import Found, lock
from qops.statements import archive as st

if TYPE_CHECKING:
    from collections.abc import Sequence

    import sqlalchemy as sa

    from qops.guard import Guard
    from qops.queue import QueueTable
    from qops.statements.walk import Walk


@dataclass
class Batch:
    """The outcome of one batch; `ids` were locked."""

    archived: int = 0
    reconciled: int = 0
    locked: int = 0
    refused: list[Refused] = field(default_factory=list)
    ids: Sequence[Any] = ()

    @property
    def moved(self) -> list[Any]:
        """The ids that left the queue, archived now or before."""
        refused = {row.id for row in self.refused}
        return [id_ for id_ in self.ids if id_ not in refused]

    def refuse(self, id_: Any, reason: str) -> None:  # noqa: ANN401 - as the id column
        """Note a row that stays."""
        self.refused.append(Refused(id_, reason))


def move_batch(connection: sa.Connection, guard: Guard, walk: Walk, ids: Sequence[Any]) -> Batch:
    """Move the rows with these ascending ids, as far as they still meet the walk's predicate; one transaction.

    Raises Misconfigured when the three counts differ or the tables were altered meanwhile: the caller's transaction
    is then rolled back.
    """
    guard = guard.recheck(connection)
    if not guard.verify and guard.queue.settings.archive_by == "copy":
        if move_all(connection, guard, walk, ids):
            return Batch(archived=len(ids), ids=ids)
        guard = guard.recheck(connection)
    picked = lock(connection, guard.queue, walk, Found(ids))
    batch = Batch(locked=picked.locked, ids=picked.ids)
    _move(connection, guard, picked.ids, batch)
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
            copy_and_delete(connection, guard, ids)
    except ROW_ERRORS as error:
        if not is_row_trouble(error):
            raise
        if queue.settings.archive_by == "copy":
            ids = _reconcile(connection, guard, ids, batch)
    else:
        batch.archived += len(ids)
        return
    done = each_or_all(connection, ids, partial(copy_and_delete, connection, guard), batch.refuse)
    batch.archived += len(done)


def _not_there(connection: sa.Connection, queue: QueueTable, ids: list[Any], batch: Batch) -> list[Any]:
    """Refuse what the archive holds already: a trigger that ignores duplicates would let the row vanish."""
    held = connection.execute(st.held(queue, ids)).scalars().all()
    batch.refused += [Refused(id_, f"{queue.archive.name} holds this id already; compare the two rows") for id_ in held]
    return sorted(set(ids) - set(held))


def _reconcile(connection: sa.Connection, guard: Guard, ids: list[Any], batch: Batch) -> list[Any]:
    """Finish what an earlier, interrupted copy began: delete rows whose identical copy is there.

    Rows whose id the archive holds with other content are refused. Returns the ids that it does not hold.
    """
    queue = guard.queue
    pairs = connection.execute(st.twins(queue, ids)).all()
    same = [id_ for id_, is_same in pairs if is_same]
    other = [id_ for id_, is_same in pairs if not is_same]
    done = each_or_all(connection, same, lambda part: delete_copied(connection, guard, part, len(part)), batch.refuse)
    batch.reconciled += len(done)
    reason = f"{queue.archive.name} already holds this id with other content; compare the two rows, then rename one"
    batch.refused += [Refused(id_, reason) for id_ in other]
    return sorted(set(ids) - set(same) - set(other))
