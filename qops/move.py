"""The move itself: the ids that are locked are the ids that are copied are the ids that are deleted, and it is counted.

Runs inside the caller's transaction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from qops.db import begin_anew
from qops.errors import Misconfigured
from qops.isolate import ROW_ERRORS, Unequal, is_row_trouble
from qops.statements import archive as st
from qops.statements.common import delete_ids

if TYPE_CHECKING:
    from collections.abc import Sequence

    import sqlalchemy as sa

    from qops.guard import Guard
    from qops.statements.walk import Walk


def move_all(connection: sa.Connection, guard: Guard, walk: Walk, ids: Sequence[Any]) -> bool:
    """Lock and copy `ids` in one statement and delete them, if they are all free and as they were, and none objects.

    Otherwise the transaction is begun anew and the answer is False: then each has to be looked at. Where copies have to
    be compared, or are not ours to make, this is not the way.
    """
    try:
        arrived = connection.execute(st.lock_and_copy(guard.queue, walk, ids)).rowcount
        if arrived < len(ids):
            raise Unequal(f"{arrived} of {len(ids)} rows could be locked", "it is held or has changed")
        delete_copied(connection, guard, ids, arrived)
    except ROW_ERRORS as error:
        if not is_row_trouble(error):
            raise
        begin_anew(connection)
        return False
    return True


def copy_and_delete(connection: sa.Connection, guard: Guard, ids: Sequence[Any]) -> None:
    """Copy and delete `ids`, and compare what was locked, what arrived and what went.

    Where triggers may act on either table the copies are compared byte by byte, and once more after the DELETE with
    what they were before it. Raises Unequal where a count differs; where a DELETE may reach further rows of this
    table, it is Misconfigured, because the rows cannot be tried one by one then.
    """
    if guard.queue.settings.archive_by == "trigger":
        gone = connection.execute(delete_ids(guard.queue, ids)).rowcount
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
    gone = connection.execute(delete_ids(guard.queue, ids)).rowcount
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
