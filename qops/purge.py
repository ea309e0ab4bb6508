"""How far purge is behind, and who holds it up.

The number is the count of committed transactions that purge has not reached. Neither of the two figures that
InnoDB prints is that number: the history list is truncated lazily and stays at hundreds or thousands after
purge has caught up, and the gap between the transaction counter and the purge position grows by two for each
transaction that writes. The smaller of the list and half the gap is right in both situations.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy import exc

from qops.clock import Stop, sleep
from qops.db import DENIED, UNREADABLE, errno, quote_account, statement

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_POSITION = re.compile(
    r"^Trx id counter (?P<counter>\d+)\n"
    r"Purge done for trx's n:o < (?P<purged>\d+)[^\n]*\n"
    r"History list length (?P<history>\d+)$",
    re.MULTILINE,
)
_LIST_RENEWED_SECONDS = 0.15
REPEATABLE_READ = "REPEATABLE READ"
_READABLE_TRIES = 3
_READ_VIEWS = re.compile(r"^(\d+) read views open inside InnoDB$", re.MULTILINE)


@dataclass(frozen=True)
class Blocker:
    """The likely holder of the oldest read view: its connection, how long in seconds, what it runs or ran last.

    `whole_transaction`: the view lasts until its transaction ends; else until the statement does that is running.
    """

    connection_id: int
    user: str | None
    seconds: int
    statement: str | None
    whole_transaction: bool = field(default=True, compare=False)


@dataclass(frozen=True)
class PurgeLag:
    """Purge as it stands. Every value is None where `unknown` says why it could not be read.

    `oldest_view_seconds` and `blocker` are None as well when no read view is open, or its holder is not to be
    seen; the age is an upper bound, since a transaction can be older than its read view. `purged_below` is the
    number of the transaction that purge has come to, for telling whether it moves.
    """

    unpurged_transactions: int | None = None
    history_list_length: int | None = None
    read_views: int | None = None
    oldest_view_seconds: int | None = None
    blocker: Blocker | None = None
    unknown: str | None = None
    purged_below: int | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Candidate:
    """A transaction that may hold a read view; `certain` when it holds no lock, so that it can only be reading."""

    connection_id: int
    certain: bool
    whole_transaction: bool
    seconds: int
    statement: str | None


def read_purge(connection: sa.Connection, *, name_blocker: bool = True) -> PurgeLag:
    """Return the purge lag of the server behind `connection`, which should be in autocommit (`observe`).

    Its own transaction is not counted among the candidates. A missing PROCESS privilege makes everything None
    and `unknown` the GRANT that helps. Source: InnoDB monitor output, and measurements with each kind of open
    transaction (a plain read at REPEATABLE READ holds a view until its transaction ends, at READ COMMITTED
    until its statement ends; locking statements hold none). Whoever asks often, such as a throttle between
    batches, leaves `name_blocker` for when there is something to say: naming can take 0.2 seconds.
    """
    try:
        text = str(connection.execute(statement("innodb_status")).one()[2])
        lag = parse_status(text)
        if not lag.read_views or not name_blocker:
            return lag
        blocker = find_blocker(connection, lag.read_views)
    except exc.DBAPIError as error:
        if errno(error) not in DENIED:
            raise
        return PurgeLag(unknown=_grant(connection))
    return replace(lag, oldest_view_seconds=blocker.seconds if blocker else None, blocker=blocker)


def parse_status(text: str) -> PurgeLag:
    """Return what InnoDB's report says of purge."""
    position, views = _POSITION.search(text), _READ_VIEWS.search(text)
    if position is None or views is None:
        return PurgeLag(unknown="SHOW ENGINE INNODB STATUS has another form on this server than qops can read")
    gap = max(0, int(position["counter"]) - int(position["purged"]))
    history = int(position["history"])
    return PurgeLag(
        unpurged_transactions=min(history, gap // 2),
        history_list_length=history,
        read_views=int(views[1]),
        purged_below=int(position["purged"]),
    )


def find_blocker(connection: sa.Connection, read_views: int, *, patient: bool = True) -> Blocker | None:
    """Return the likely holder of the oldest of `read_views` read views, None if it is not to be seen.

    InnoDB renews the list of transactions only when nobody has read it for 100 ms, so a `patient` caller has a list
    that accounts for fewer views than there are read once more after such a rest.
    """
    try:
        candidates, connections = _candidates(connection)
        if patient and len(connections) < read_views:
            sleep(_LIST_RENEWED_SECONDS, Stop())
            candidates, connections = _candidates(connection)
    except exc.DBAPIError as error:
        if errno(error) != UNREADABLE:
            raise
        return None
    return choose(candidates, connections, read_views)


def choose(candidates: Sequence[Candidate], connections: Mapping[int, Blocker], read_views: int) -> Blocker | None:
    """Return the oldest candidate, among the certain ones where these account for all read views.

    `connections` are those that exist; a candidate without one is over (InnoDB's list is cached). At READ
    COMMITTED the view is as old as the statement that is running, not as the transaction.
    """
    present = [candidate for candidate in candidates if candidate.connection_id in connections]
    certain = [candidate for candidate in present if candidate.certain]
    eligible = certain if len(certain) >= read_views else present
    blockers = [_blame(candidate, connections[candidate.connection_id]) for candidate in eligible]
    return max(blockers, key=lambda blocker: blocker.seconds, default=None)


def _blame(candidate: Candidate, known: Blocker) -> Blocker:
    seconds = candidate.seconds if candidate.whole_transaction else min(candidate.seconds, known.seconds)
    return replace(
        known,
        seconds=seconds,
        statement=candidate.statement or known.statement,
        whole_transaction=candidate.whole_transaction,
    )


def _candidates(connection: sa.Connection) -> tuple[list[Candidate], dict[int, Blocker]]:
    """Return the transactions that may hold a read view, and their connections as far as they still exist."""
    try:
        candidates = [_of_innodb(row) for row in read_transactions(connection, "read_view_candidates")]
    except exc.DBAPIError as error:
        if errno(error) != UNREADABLE:
            raise
        candidates = _of_statements(connection)
    if not candidates:
        return [], {}
    return candidates, describe_connections(connection, [candidate.connection_id for candidate in candidates])


def read_transactions(
    connection: sa.Connection, name: str, parameters: Mapping[str, Any] | None = None
) -> Sequence[sa.Row[Any]]:
    """Return what query `name` finds in InnoDB's list of transactions.

    The list cannot be read, whatever is asked of it, while a transaction runs a statement with a character beyond
    U+FFFF (3854, measured on 9.7.4); that passes with the statement, so it is tried a few times before the error
    is raised. The query `active_transactions` tells less and always answers.
    """
    for _ in range(_READABLE_TRIES):
        try:
            return connection.execute(statement(name), parameters or {}).all()
        except exc.DBAPIError as error:
            if errno(error) != UNREADABLE:
                raise
            sleep(_LIST_RENEWED_SECONDS, Stop())
    return connection.execute(statement(name), parameters or {}).all()


def _of_innodb(row: Any) -> Candidate:  # noqa: ANN401 - a row of the driver
    return Candidate(
        connection_id=int(row.connection_id),
        certain=row.lock_structs == 0,
        whole_transaction=row.isolation_level == REPEATABLE_READ and not row.single_statement,
        seconds=int(row.seconds),
        statement=row.statement_text,
    )


def _of_statements(connection: sa.Connection) -> list[Candidate]:
    """Return the candidates without InnoDB's help: none is certain. None at all where they may not be seen."""
    try:
        rows = connection.execute(statement("active_transactions")).all()
    except exc.DBAPIError as error:
        if errno(error) not in DENIED:
            raise
        return []
    return [
        Candidate(
            connection_id=int(row.connection_id),
            certain=False,
            whole_transaction=row.isolation_level == REPEATABLE_READ,
            seconds=int(row.seconds),
            statement=row.statement_text,
        )
        for row in rows
        if row.isolation_level == REPEATABLE_READ or (row.isolation_level == "READ COMMITTED" and row.running)
    ]


def describe_connections(connection: sa.Connection, ids: list[int]) -> dict[int, Blocker]:
    """Return user, age of the running statement and statement by connection; from the processlist if need be."""
    query = statement("connections").bindparams(sa.bindparam("ids", expanding=True))
    try:
        rows = connection.execute(query, {"ids": ids}).all()
    except exc.DBAPIError as error:
        if errno(error) not in DENIED:
            raise
        rows = []
    if rows:
        return {
            row.connection_id: Blocker(row.connection_id, row.user, int(row.running_seconds or 0), row.statement_text)
            for row in rows
        }
    return {
        row[0]: Blocker(row[0], f"{row[1]}@{str(row[2]).rpartition(':')[0] or row[2]}", int(row[5] or 0), row[7])
        for row in connection.execute(statement("processlist"))
        if row[0] in ids
    }


def _grant(connection: sa.Connection) -> str:
    account = connection.execute(sa.select(sa.func.current_user())).scalar_one()
    return f"GRANT PROCESS ON *.* TO {quote_account(account)};"
