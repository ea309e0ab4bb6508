"""One bad row costs only itself: halve the rows until the one that objects is alone."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy import exc

from qops.db import DUPLICATE, errno, prose

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# What can be wrong with one row: duplicate key, foreign keys, values that do not fit, a trigger or CHECK that
# objects. Anything else is the server's trouble and ends the batch.
ROW_TROUBLE = frozenset({
    DUPLICATE, 1048, 1264, 1265, 1292, 1364, 1366, 1406, 1451, 1452, 1526, 1644, 1690, 3140, 3819,
})  # fmt: skip


@contextmanager
def undo_row_trouble(connection: sa.Connection) -> Iterator[None]:
    """Undo what is done inside, and nothing before it, where rows object; the error comes through in any case.

    SQLAlchemy's own savepoints roll back to themselves after every error. After a deadlock the server has
    undone the whole transaction and knows no savepoint any more, so its answer (1305) would stand in for the
    deadlock, which is repeated, where 1305 is not. The one name serves every depth: a savepoint is not needed
    again once another of its name was set.
    """
    connection.execute(sa.text("SAVEPOINT qops_rows"))
    try:
        yield
    except exc.DBAPIError as error:
        if errno(error) in ROW_TROUBLE:
            connection.execute(sa.text("ROLLBACK TO SAVEPOINT qops_rows"))
        raise


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
        with undo_row_trouble(connection):
            act(ids)
    except exc.DBAPIError as error:
        if errno(error) not in ROW_TROUBLE:
            raise
        if len(ids) == 1:
            refuse(ids[0], f"{prose(error)} (error {errno(error)})")
            return []
        middle = len(ids) // 2
        first = each_or_all(connection, ids[:middle], act, refuse)
        return first + each_or_all(connection, ids[middle:], act, refuse)
    return ids
