"""One bad row costs only itself: halve the rows until the one that objects is alone."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy import exc

from qops.db import (
    DENIED,
    DUPLICATE,
    EXHAUSTED,
    INTERRUPTED,
    LOST,
    NOWAIT,
    READ_ONLY,
    RETRYABLE,
    STATEMENT_BINLOG,
    SYNTAX,
    errno,
    prose,
)
from qops.errors import Misconfigured

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

NO_SAVEPOINT = 1305  # the server has undone the whole transaction: nothing is locked any more
OF_THE_SERVER = RETRYABLE | LOST | EXHAUSTED | READ_ONLY | DENIED | INTERRUPTED | SYNTAX | {0, NOWAIT, NO_SAVEPOINT}
OF_THE_SERVER |= {STATEMENT_BINLOG}
OF_THE_CLIENT = range(2000, 3000)
MALFORMED = 2027  # how MariaDB's library reports a number that it takes for one of a client, such as SIGNAL's 5001

# What is certainly wrong with single rows: duplicate key, foreign keys, values and rows that do not fit, a trigger or
# CHECK that objects. Beyond the server's own numbers it can only be a trigger's.
ROW_TROUBLE = frozenset({
    DUPLICATE, 1048, 1118, 1264, 1265, 1292, 1364, 1365, 1366, 1406, 1451, 1452, 1526, 1643, 1644, 1690, 1713,
    MALFORMED, 3140, 3751, 3752, 3819,
})  # fmt: skip
BEYOND_THE_SERVER = 10_000
SEVERAL = 10  # so many rows that all object alike are the table's trouble, not theirs


class Unequal(Misconfigured):
    """What was done to rows did not come out as it must, for some of them; `reason` is what is said of one."""

    def __init__(self, message: str, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


RowError = exc.DBAPIError | Unequal
ROW_ERRORS = (exc.DBAPIError, Unequal)


def is_row_trouble(error: BaseException) -> bool:
    """Whether an error of ROW_ERRORS may be about some of the rows: not locks, resources, privileges, the connection.

    A trigger can raise any number, so what is left out is named, and not what is let in.
    """
    code = errno(error)
    return isinstance(error, Unequal) or code == MALFORMED or code not in OF_THE_SERVER | set(OF_THE_CLIENT)


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
    except ROW_ERRORS as error:
        if is_row_trouble(error):
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
    savepoint. `refuse(id, reason)` hears of each row that objects, with the server's sentence. Raises the error
    where each of several rows objects alike and the error is none that single rows are known for: a trigger that
    cannot work is better told once.
    """
    failed: list[tuple[list[Any], RowError]] = []
    done = _halve(connection, ids, act, failed)
    refused = [(part[0], error) for part, error in failed if len(part) == 1]
    kinds = {errno(error) for _, error in refused}
    alike = len(refused) >= SEVERAL and len(kinds) == 1
    if not done and alike and not kinds & ROW_TROUBLE and max(kinds) < BEYOND_THE_SERVER:
        raise failed[0][1]
    for id_, error in refused:
        refuse(id_, _reason(error))
    return done


def _halve(
    connection: sa.Connection,
    ids: list[Any],
    act: Callable[[list[Any]], None],
    failed: list[tuple[list[Any], RowError]],
) -> list[Any]:
    """Do `act` for `ids` or for parts of them, and note every part that failed, the largest first."""
    if not ids:
        return []
    try:
        with undo_row_trouble(connection):
            act(ids)
    except ROW_ERRORS as error:
        if not is_row_trouble(error):
            raise
        failed.append((ids, error))
        if len(ids) == 1:
            return []
        middle = len(ids) // 2
        first = _halve(connection, ids[:middle], act, failed)
        return first + _halve(connection, ids[middle:], act, failed)
    return ids


def _reason(error: RowError) -> str:
    if isinstance(error, Unequal):
        return error.reason
    if errno(error) == MALFORMED:
        return f"the server raised an error whose number the client library does not pass on (error {MALFORMED})"
    return f"{prose(error)} (error {errno(error)})"
