"""The ledger as it is read: the latest runs of a queue, whatever the command, and what became of open entries.

Bounded by the index on (queue, command, id): a few rows of each command are looked at, whatever the ledger holds.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from qops.db import statement
from qops.ledger import PAUSE, RUNS, Run, read

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from datetime import datetime


@dataclass(frozen=True)
class Recorded(Run):
    """An entry with its arguments. `running`: whether it is under way (a pause: in force); None: not to be seen.

    An entry that is not finished and not running was left open: its run died, or lost the server, before its end.
    """

    arguments: Mapping[str, Any] | None = None
    expires_at: datetime | None = None
    running: bool | None = False

    def document(self) -> dict[str, Any]:
        """Return its object in a JSON document, docs/json.md."""
        return {
            "id": self.id,
            "command": self.command,
            "queue": self.queue,
            "started_at": self.started_at,
            "finished_at": self.finished_at,
            "outcome": self.outcome,
            "summary": self.summary,
            "operator": self.operator,
            "host": self.host,
            "reason": self.reason,
            "arguments": self.arguments,
            "running": self.running,
        }

    @property
    def state(self) -> str:
        """The outcome in a word, also of an entry that has none."""
        if self.outcome is not None or self.finished_at is not None:
            return self.outcome or "finished"
        if self.command == PAUSE:
            return "in force" if self.running else "over"
        return {True: "running", False: "left open", None: "open"}[self.running]


@dataclass(frozen=True)
class _Present:
    """What shows whether the connection of an entry is still there: by id, the user of each that can be seen."""

    now: datetime
    up_since: datetime
    account: str
    users: Mapping[int, str]
    sees_all: bool

    def has(self, row: Mapping[str, Any]) -> bool | None:
        """Whether the run that made the entry still has its connection; None: this account cannot see that."""
        begun, number = row.get("started_at"), row.get("connection_id")
        if begun is not None and begun < self.up_since:
            return False  # connection ids begin anew with the server
        if number is None:
            return None
        if number in self.users:
            return True
        own = str(row.get("operator") or "").startswith(f"{self.account} (")
        return False if own or self.sees_all else None


def latest_runs(connection: sa.Connection, queue: str, limit: int) -> tuple[Recorded, ...]:
    """Return the latest `limit` entries of `queue`, the newest first; a column that the table lacks is None.

    Raises LedgerMissing where there is no ledger, and the driver's error where it may not be read.
    """
    of = [_latest(queue, command, limit) for command in _commands(connection, queue)]
    if not of:
        return ()
    latest = sa.union_all(*of).subquery()
    ids = read(connection, sa.select(latest.c.id).order_by(latest.c.id.desc()).limit(limit)).scalars().all()
    return runs_by_id(connection, ids)


def runs_of(connection: sa.Connection, queue: str, commands: Iterable[str], limit: int) -> tuple[Recorded, ...]:
    """Return the latest `limit` entries of each of `commands`, the newest first. Raises as `latest_runs` does."""
    latest = sa.union_all(*(_latest(queue, command, limit) for command in commands)).subquery()
    return runs_by_id(connection, read(connection, sa.select(latest.c.id)).scalars().all())


def runs_by_id(connection: sa.Connection, ids: Collection[int]) -> tuple[Recorded, ...]:
    """Return these entries, the newest first. Raises as `latest_runs` does."""
    if not ids:
        return ()
    everything = sa.select(sa.text("*")).select_from(RUNS).where(RUNS.c.id.in_(ids)).order_by(RUNS.c.id.desc())
    rows = [{name.lower(): value for name, value in row.items()} for row in read(connection, everything).mappings()]
    present = _look(connection) if any(row.get("finished_at") is None for row in rows) else None
    return tuple(_recorded(row, present) for row in rows)


def _latest(queue: str, command: str, limit: int) -> sa.Select[Any]:
    of = sa.select(RUNS.c.id).where(RUNS.c.queue == queue, RUNS.c.command == command)
    return of.order_by(RUNS.c.id.desc()).limit(limit)


def _commands(connection: sa.Connection, queue: str) -> Iterable[str]:
    """Yield the commands that the queue has entries of, each found by one step into the index."""
    last = ""
    while True:
        following = (
            sa.select(RUNS.c.command)
            .where(RUNS.c.queue == queue, RUNS.c.command > last)
            .order_by(RUNS.c.command)
            .limit(1)
        )
        found = read(connection, following).scalar()
        if found is None:
            return
        yield found
        last = found


def _recorded(row: Mapping[str, Any], present: _Present | None) -> Recorded:
    running: bool | None = False
    if row.get("finished_at") is None and present:
        running = _in_force(row, present) if row["command"] == PAUSE else present.has(row)
    return Recorded(
        id=row["id"],
        command=row["command"],
        queue=row["queue"],
        started_at=row.get("started_at"),
        finished_at=row.get("finished_at"),
        outcome=row.get("outcome"),
        summary=_document(row.get("summary")),
        operator=row.get("operator"),
        host=row.get("host"),
        reason=row.get("reason"),
        arguments=_document(row.get("arguments")),
        expires_at=row.get("expires_at"),
        running=running,
    )


def _in_force(row: Mapping[str, Any], present: _Present) -> bool:
    end = row.get("expires_at")
    return end is None or end > present.now


def _document(text: str | None) -> Any:  # noqa: ANN401 - a JSON document
    return json.loads(text) if text else None


def _look(connection: sa.Connection) -> _Present:
    """Read which connections there are, as far as this account sees them."""
    now = connection.execute(statement("instant")).one()
    up = connection.execute(statement("up_since")).one()
    users = {row.Id: row.User for row in connection.execute(statement("processlist"))}
    name = now.account.rpartition("@")[0]
    others = any(user != name for user in users.values())
    return _Present(now.taken_at, up.up_since, now.account, users, others)
