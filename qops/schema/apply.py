"""Runs the statements of a plan, one by one: patient where a metadata lock is held, kind to those who wait behind.

DDL waits for every transaction that has touched the table, and every new statement on the table then waits for the
DDL. So it asks for a second at most, and does not even ask while it can see a transaction that lasts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy import exc

from qops.clock import Stop, backoff, sleep
from qops.db import DEADLOCK, DENIED, LOCK_TIMEOUT, Server, errno, prose, quote_name, statement
from qops.errors import Misconfigured, TryLater
from qops.schema.result import Action, When

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qops.events import Events

DDL_WAIT_SECONDS = 1  # the shortest that MySQL knows: so long may others queue behind one try
DDL_TRIES = 4
LASTING_SECONDS = 3.0  # a transaction this old will hardly end within the second

TABLE_EXISTS, DUPLICATE_COLUMN, DUPLICATE_KEY_NAME, SECOND_PRIMARY_KEY = 1050, 1060, 1061, 1068
DONE_BY_OTHERS = frozenset({TABLE_EXISTS, DUPLICATE_COLUMN, DUPLICATE_KEY_NAME, SECOND_PRIMARY_KEY})
NOT_ONLINE = frozenset({1800, 1845, 1846, 4092})  # INSTANT is unknown before 8.0.12; no room for another row version
LOG_FULL = 1799  # more was written meanwhile than innodb_online_alter_log_max_size holds
OBJECTIONS = frozenset(
    {1062, 1067, 1069, 1071, 1117, 1118, 1138, 1170, 1178, 1265, 1291, 1292, 1366, 1406, 1586, 3140, 4108}
)
"""What the data or the definition has against a statement; another try would end the same way."""


class Outcome(Enum):
    """What became of an action: this run did it, somebody else had, or the server would not."""

    APPLIED = auto()
    OVERTAKEN = auto()
    REFUSED = auto()


@dataclass(frozen=True)
class Holder:
    """A session that holds a metadata lock on a table, for `seconds`."""

    connection_id: int
    user: str | None
    host: str | None
    command: str | None
    seconds: float
    statement: str | None

    def __str__(self) -> str:
        last = f", last statement: {self.statement}" if self.statement else ""
        return f"connection {self.connection_id} ({self.user}@{self.host}, {self.command}) for {self.seconds:g} s{last}"


@dataclass(frozen=True)
class Applier:
    """Applies actions on one autocommit connection."""

    server: Server
    connection: sa.Connection
    schema: str
    stop: Stop
    events: Events

    def apply(self, action: Action) -> tuple[Outcome, Action]:
        """Run an action and return what became of it, with the statement that did it.

        Raises TryLater (75) naming the holders when the metadata lock could not be had, Misconfigured (78) when
        a table cannot be created, and the family's other errors.
        """
        if action.when is When.REPAIR:
            self.events.inform(f"{action.action} {action.object}: online, which takes a while on a large table")
        for sql in action.alternatives:
            try:
                self._patiently(sql, action)
            except exc.DBAPIError as error:
                code = errno(error)
                if code in NOT_ONLINE:
                    self.events.detail(f"{prose(error)} ({sql})")
                    continue
                if code in DONE_BY_OTHERS:
                    return Outcome.OVERTAKEN, action
                if code in OBJECTIONS:
                    return self._object(action, error)
                if code == LOG_FULL:
                    raise TryLater(f"{action.object}: too much was written meanwhile: {prose(error)}") from error
                raise self.server.translate(error) from error
            if action.when is When.ALWAYS and self._existed_before():
                return Outcome.OVERTAKEN, action
            return Outcome.APPLIED, replace(action, alternatives=(sql,), applied=True)
        self.events.warn(f"{action.object}: this server cannot do it online: {action.sql}")
        return Outcome.REFUSED, action

    def _object(self, action: Action, error: exc.DBAPIError) -> tuple[Outcome, Action]:
        message = f"{action.object}: {prose(error)} (error {errno(error)}); it was to be: {action.sql}"
        if action.when is When.ALWAYS:
            raise Misconfigured(message) from error
        self.events.warn(message)
        return Outcome.REFUSED, action

    def _patiently(self, sql: str, action: Action) -> None:
        """Run one statement, with a few tries at the metadata lock."""
        holders: Sequence[Holder] | None = ()
        for attempt in range(DDL_TRIES):
            if attempt:
                sleep(backoff(attempt, base=0.5, limit=2.0), self.stop)
            if self.stop.requested:
                raise TryLater(f"{action.object}: stopped before it was applied")
            if action.when is When.REPAIR:
                holders = self.holders(action.table)
                if any(holder.seconds >= LASTING_SECONDS for holder in holders or ()):
                    continue
            try:
                self.connection.exec_driver_sql(sql, execution_options={"no_parameters": True})
            except exc.DBAPIError as error:
                if errno(error) not in {LOCK_TIMEOUT, DEADLOCK}:
                    raise
                self.events.detail(f"{action.object}: {prose(error)}")
                holders = self.holders(action.table)
            else:
                return
        raise TryLater(_in_use(action, holders))

    def holders(self, table: str) -> list[Holder] | None:
        """Return who holds a metadata lock on a table, longest first; None if this account may not see it."""
        names = {"schema": self.schema, "table": table}
        try:
            rows = self.connection.execute(statement("metadata_holders"), names).mappings().all()
        except exc.DBAPIError as error:
            if errno(error) in DENIED:
                return None
            raise
        return [Holder(**_plain(row)) for row in rows]

    def _existed_before(self) -> bool:
        """Whether CREATE TABLE IF NOT EXISTS found the table there: it says so in a note."""
        notes = self.connection.exec_driver_sql("SHOW WARNINGS").all()
        return any(note[1] == TABLE_EXISTS for note in notes)


def _plain(row: Any) -> dict[str, Any]:  # noqa: ANN401 - a row of the driver
    return {**row, "seconds": float(row["seconds"] or 0)}


def _in_use(action: Action, holders: Sequence[Holder] | None) -> str:
    """Say which table could not be had, who holds it if that can be seen, and what to do."""
    what = f"{action.object}: table {quote_name(action.table)} is in use"
    if holders is None:
        return (
            f"{what}; who holds it cannot be seen (it takes SELECT on performance_schema.metadata_locks, threads, "
            "events_transactions_current and events_statements_current); see SHOW PROCESSLIST, then try again"
        )
    if not holders:
        return f"{what}; whoever held it has gone by now, so try again"
    who = "; ".join(map(str, holders))
    return f"{what} by {who}; try again when it has ended, or end the first with: KILL {holders[0].connection_id};"
