"""One bad row costs only itself: halve the rows until the one that objects is alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import exc

from qops.db import DUPLICATE, errno

if TYPE_CHECKING:
    from collections.abc import Callable

    import sqlalchemy as sa

# What can be wrong with one row: duplicate key, foreign keys, values that do not fit, a trigger or CHECK that
# objects. Anything else is the server's trouble and ends the batch.
ROW_TROUBLE = frozenset({
    DUPLICATE, 1048, 1264, 1265, 1292, 1364, 1366, 1406, 1451, 1452, 1526, 1644, 1690, 3140, 3819,
})  # fmt: skip


def each_or_all(
    connection: sa.Connection,
    ids: list[Any],
    act: Callable[[list[Any]], None],
    refuse: Callable[[Any, str], None],
) -> list[Any]:
    """Do `act(ids)` for all at once or, where rows object, for all but those; return the ids it was done for.

    Runs inside the caller's transaction, over rows that it holds locked; a part that fails is rolled back to a
    savepoint. `refuse(id, reason)` hears of each row that objects, with the server's sentence.
    """
    if not ids:
        return []
    try:
        with connection.begin_nested():
            act(ids)
    except exc.DBAPIError as error:
        if errno(error) not in ROW_TROUBLE:
            raise
        if len(ids) == 1:
            refuse(ids[0], _sentence(error))
            return []
        middle = len(ids) // 2
        first = each_or_all(connection, ids[:middle], act, refuse)
        return first + each_or_all(connection, ids[middle:], act, refuse)
    return ids


def _sentence(error: exc.DBAPIError) -> str:
    arguments: tuple[Any, ...] = getattr(error.orig, "args", ())
    return f"{arguments[1]} (error {arguments[0]})" if len(arguments) > 1 else str(error.orig)
