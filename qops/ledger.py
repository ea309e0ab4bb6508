"""The run ledger and the brake: who changed this queue, when, with what result, and whether it may be changed.

Every run of a command that changes rows is one entry in `qops_runs`: opened and committed before the work, closed
after it, so that a crash leaves an entry that is visibly open. A pause is an entry of its own that stays open
until `resume` closes it or its time has come. Where the table is missing or out of reach, commands work without
it and say so.
"""

from __future__ import annotations

import json
import os
import pwd
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import sqlalchemy as sa

from qops.arguments import bounded, text
from qops.db import NO_SUCH_TABLE, Server, errno, renew, run_whole, transact
from qops.errors import ConnectionLost, Misconfigured, QopsError, TryLater, Unavailable
from qops.privileges import LEDGER_TABLE

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from datetime import datetime

    from qops.events import Events

T = TypeVar("T")

LONGEST_NAME = 255  # characters, as the table's columns have it
OPEN_ATTEMPTS, CLOSE_ATTEMPTS = 2, 3  # each waits for a lock as long as any statement of qops
_COLUMNS = (
    "id",
    "command",
    "queue",
    "arguments",
    "started_at",
    "finished_at",
    "expires_at",
    "outcome",
    "summary",
    "operator",
    "host",
    "connection_id",
    "reason",
)
RUNS = sa.table(LEDGER_TABLE, *(sa.column(name) for name in _COLUMNS))
_NOW = sa.func.now(sa.text("6"))
GOOD = ("done", "limit", "runtime")
"""How a run ends that did what it could."""
PAUSE = "pause"


class LedgerMissing(Misconfigured):
    """The ledger table does not exist in the queue's schema."""

    def __init__(self) -> None:
        super().__init__(f"table {LEDGER_TABLE!r} does not exist; create it with: qops init")


class Paused(TryLater):
    """Somebody put the brake on for this queue."""


@dataclass(frozen=True)
class Brake:
    """A pause in force: since when, until when (None: until resumed), why, and who set it."""

    id: int
    since: datetime
    until: datetime | None
    reason: str | None
    operator: str | None

    def __str__(self) -> str:
        end = f" until {self.until:%Y-%m-%d %H:%M:%S}Z" if self.until else ""
        why = f": {self.reason}" if self.reason else ""
        return f"paused since {self.since:%Y-%m-%d %H:%M:%S}Z{end} by {self.operator or 'somebody'}{why}"


@dataclass(frozen=True)
class Run:
    """One entry of the ledger; `finished_at` is None while it runs, and for ever if it died.

    `started_at` is None only where the table lacks the column.
    """

    id: int
    command: str
    queue: str
    started_at: datetime | None
    finished_at: datetime | None
    outcome: str | None
    summary: Mapping[str, Any] | None
    operator: str | None
    host: str | None
    reason: str | None


@dataclass(frozen=True)
class Entry:
    """An entry that was opened for the running command; `id` is None where the ledger is out of reach."""

    id: int | None


@dataclass(frozen=True)
class Ledger:
    """Where a run is recorded: on the run's own connection, in transactions of their own."""

    server: Server
    connection: sa.Connection
    events: Events

    def open(self, command: str, queue: str, arguments: Mapping[str, Any], reason: str | None = None) -> Entry:
        """Record that a run begins; say so and go on where that cannot be done.

        Raises Unavailable where the server cannot be written to at all: then the work cannot be done either.
        """
        kept = None if reason is None else text(reason)
        entry = sa.insert(RUNS).values(
            command=command, queue=queue, arguments=json.dumps(bounded(arguments)), reason=kept, **_operator()
        )
        made: list[int] = []

        def work(session: sa.Connection) -> None:
            made.append(session.execute(entry).lastrowid)

        try:
            self._write(work, attempts=OPEN_ATTEMPTS)
        except Unavailable as error:
            if error.in_commit:  # It may be there, and this run does not begin.
                self.close(Entry(made[-1]), error.kind, {"error": str(error)})
            raise
        except QopsError as error:
            self.events.warn(f"this run is not recorded in {LEDGER_TABLE}: {error}")
            return Entry(None)
        return Entry(made[-1])

    def close(self, entry: Entry, outcome: str, summary: Mapping[str, Any]) -> None:
        """Record how a run ended; say so where that cannot be done.

        It is tried again where the connection was lost (then on a new one) or the statement was interrupted, which
        is harmless: an entry is closed once.
        """
        if entry.id is None:
            return
        close = (
            sa.update(RUNS)
            .where(RUNS.c.id == entry.id, RUNS.c.finished_at.is_(None))
            .values(finished_at=_NOW, outcome=outcome, summary=json.dumps(bounded(summary)))
        )
        for attempt in range(CLOSE_ATTEMPTS):
            try:
                self._write(lambda session: session.execute(close), attempts=1)
            except QopsError as error:
                if isinstance(error, ConnectionLost | TryLater) and attempt + 1 < CLOSE_ATTEMPTS:
                    continue
                self.events.warn(f"how this run ended is not recorded in {LEDGER_TABLE}: {error}")
            return

    def _write(self, work: Callable[[sa.Connection], object], *, attempts: int) -> None:
        """Write one row, which needs no isolation level, so none is asserted: two statements fewer than `transact`."""
        renew(self.connection)
        run_whole(self.server, self.connection, work, attempts=attempts)


def active_brake(connection: sa.Connection, queue: str) -> Brake | None:
    """Return the pause in force for `queue`, None if there is none.

    Raises LedgerMissing where there is no ledger, and the driver's error where it may not be read.
    """
    query = (
        sa.select(RUNS.c.id, RUNS.c.started_at, RUNS.c.expires_at, RUNS.c.reason, RUNS.c.operator)
        .where(_open_pause(queue))
        .order_by(RUNS.c.id.desc())
        .limit(1)
    )
    row = read(connection, query).first()
    return Brake(row.id, row.started_at, row.expires_at, row.reason, row.operator) if row else None


def last_run(
    connection: sa.Connection,
    queue: str,
    command: str,
    *,
    finished: bool = False,
    outcomes: Collection[str] = (),
) -> Run | None:
    """Return the latest run of `command` on `queue`, None if there was none. Raises as `active_brake` does.

    With `finished` or `outcomes`, the latest that has ended, or has ended in one of these ways.
    """
    names = ("id", "command", "queue", "started_at", "finished_at", "outcome", "summary", "operator", "host", "reason")
    narrower = [RUNS.c.outcome.in_(outcomes)] if outcomes else [RUNS.c.finished_at.is_not(None)] if finished else []
    query = (
        sa.select(*(RUNS.c[name] for name in names))
        .where(RUNS.c.queue == queue, RUNS.c.command == command, *narrower)
        .order_by(RUNS.c.id.desc())
        .limit(1)
    )
    row = read(connection, query).mappings().first()
    return Run(**{**row, "summary": json.loads(row["summary"]) if row["summary"] else None}) if row else None


def set_brake(
    server: Server, connection: sa.Connection, queue: str, *, reason: str | None, seconds: float | None
) -> Brake:
    """Put the brake on for `seconds` (None: until resumed) and return it; a brake already on is replaced."""
    until = None if seconds is None else sa.func.timestampadd(sa.text("MICROSECOND"), round(seconds * 1e6), _NOW)
    arguments = json.dumps({} if seconds is None else {"for_seconds": seconds})
    kept = None if reason is None else text(reason)
    pause = sa.insert(RUNS).values(
        command=PAUSE, queue=queue, arguments=arguments, reason=kept, expires_at=until, **_operator()
    )

    def work(session: sa.Connection) -> Brake:
        _end_pauses(session, queue, "replaced")
        session.execute(pause)
        brake = active_brake(session, queue)
        if brake is None:
            raise Misconfigured("the pause is over before it began; give --for a longer time")
        return brake

    return _write(server, connection, work)


def release_brake(server: Server, connection: sa.Connection, queue: str) -> int:
    """Take the brake off; return how many pauses were in force (0: there was none). Who did it is an entry too."""

    def work(session: sa.Connection) -> int:
        ended = _end_pauses(session, queue, "resumed")
        summary = json.dumps({"released": ended})
        entry = sa.insert(RUNS).values(
            command="resume", queue=queue, arguments="{}", finished_at=_NOW, outcome="done", summary=summary
        )
        session.execute(entry.values(**_operator()))
        return ended

    return _write(server, connection, work)


def _end_pauses(session: sa.Connection, queue: str, outcome: str) -> int:
    ids = session.execute(sa.select(RUNS.c.id).where(_open_pause(queue)).with_for_update()).scalars().all()
    if ids:
        end = sa.update(RUNS).where(RUNS.c.id.in_(ids)).values(finished_at=_NOW, outcome=outcome)
        session.execute(end)
    return len(ids)


def _open_pause(queue: str) -> sa.ColumnElement[bool]:
    return sa.and_(
        RUNS.c.queue == queue,
        RUNS.c.command == PAUSE,
        RUNS.c.finished_at.is_(None),
        sa.or_(RUNS.c.expires_at.is_(None), RUNS.c.expires_at > _NOW),
    )


def read(connection: sa.Connection, query: sa.Select[Any]) -> sa.CursorResult[Any]:
    """Read the ledger. Raises LedgerMissing where there is none, else what the driver raises."""
    try:
        return connection.execute(query)
    except sa.exc.DBAPIError as error:
        if errno(error) == NO_SUCH_TABLE:
            raise LedgerMissing from None
        raise


def _write(server: Server, connection: sa.Connection, work: Callable[[sa.Connection], T]) -> T:
    try:
        return transact(server, connection, work)
    except Misconfigured as error:
        if errno(error.__cause__ or error) == NO_SUCH_TABLE:
            raise LedgerMissing from None
        raise


def _operator() -> dict[str, Any]:
    """Who this is: the account that logged in, the operating system's user, the host and the connection."""
    try:
        user = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        user = str(os.getuid())
    return {
        "operator": sa.func.left(sa.func.concat(sa.func.current_user(), f" ({user})"), LONGEST_NAME),
        "host": socket.gethostname()[:LONGEST_NAME],
        "connection_id": sa.func.connection_id(),
    }
