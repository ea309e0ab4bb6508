"""The move itself: the ids that are locked are the ids that are copied are the ids that are deleted, and it is counted.

Runs inside the caller's transaction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from qops.errors import Misconfigured
from qops.isolate import Unequal
from qops.statements import archive as st

if TYPE_CHECKING:
    from collections.abc import Sequence

    import sqlalchemy as sa

    from qops.guard import Guard


def copy_and_delete(connection: sa.Connection, guard: Guard, ids: Sequence[Any]) -> None:
    """Copy and delete `ids`, and compare what was locked, what arrived and what went.

    Where triggers may act on either table the copies are compared byte by byte, and once more after the DELETE with
    what they were before it. Raises Unequal where a count differs; where a DELETE may reach further rows of this
    table, it is Misconfigured, because the rows cannot be tried one by one then.
    """
    if guard.queue.settings.archive_by == "trigger":
        gone = connection.execute(st.delete_ids(guard.queue, ids)).rowcount
        arrived = connection.execute(st.count_archived(guard.queue, ids)).scalar_one()
        _compare(guard, len(ids), arrived, gone)
        return
    arrived = connection.execute(st.copy_ids(guard.queue, ids)).rowcount
    if guard.verify:
        arrived = sum(bool(same) for _, same in connection.execute(st.twins(guard.queue, ids)))
    delete_copied(connection, guard, ids, arrived)


def delete_copied(connection: sa.Connection, guard: Guard, ids: Sequence[Any], arrived: int) -> None:
    """Delete `ids`, of which `arrived` have their copies, and see to it that those stay as they are.

    Raises as `copy_and_delete` does.
    """
    before = connection.execute(st.fingerprint(guard.queue, ids)).one() if guard.verify else None
    gone = connection.execute(st.delete_ids(guard.queue, ids)).rowcount
    after = connection.execute(st.fingerprint(guard.queue, ids)).one() if guard.verify else None
    _compare(guard, len(ids), arrived if before == after else 0, gone)


def _compare(guard: Guard, locked: int, arrived: int, gone: int) -> None:
    if locked == arrived == gone:
        return
    queue, look = guard.queue, "look for triggers on both tables"
    message = (
        f"queue {queue.name!r}: {locked} rows were locked, {arrived} arrived unchanged in {queue.archive.name!r} "
        f"and {gone} were deleted, so the batch was rolled back; {look}"
    )
    if guard.allow_cascade:
        raise Misconfigured(message)
    raise Unequal(message, f"it did not arrive unchanged in {queue.archive.name}, or was not deleted; {look}")
