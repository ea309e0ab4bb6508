"""Everything that a reading consists of, read at one time over one connection in autocommit."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from sqlalchemy import exc

from qops.db import DENIED, INTERRUPTED, LOCK_TIMEOUT, UNREADABLE, errno, statement
from qops.health.depth import measure_table
from qops.health.snapshot import Archive, Locks, Measured, Size, TableState, Unknown
from qops.ledger import GOOD, LedgerMissing, active_brake, last_run
from qops.login import LOCK_WAIT_SECONDS, version_tuple
from qops.privileges import LEDGER_TABLE, Need, grant
from qops.purge import PurgeLag, read_purge
from qops.queue import load
from qops.versions import lock_tables_stall

if TYPE_CHECKING:
    from collections.abc import Callable

    import sqlalchemy as sa

    from qops.db import Server
    from qops.queue import QueueTable
    from qops.queue_settings import QueueSettings

T = TypeVar("T")

METADATA_WAITS = "SELECT * FROM sys.schema_table_lock_waits;"
"""How an archiver's run ends that did what it was asked for."""
_SESSIONS = Need("SELECT", "performance_schema.*", "see lock waits")
_LEDGER = Need("SELECT", "ledger", "see the brake and past runs")


def measure(server: Server, settings: QueueSettings) -> Measured:
    """Return one reading of the queue.

    What a missing privilege, a lock or the time limit keeps from being read is unknown. Raises the family's
    errors where nothing can be read: no server, no such table, no SELECT on it.
    """
    with server.observe() as connection:
        now = connection.execute(statement("instant")).one()
        queue = load(connection, settings)
        reader = _Reader(connection, queue, now.account)
        locks = reader.locks(version_tuple(now.version), enabled=bool(now.performance_schema))
        purge = reader.purge()
        table = reader.table()
        brake, paused = reader.brake()
        archive = reader.archive(known=paused is not None)
        size = reader.size()
        reader.lack("throughput", "two readings, some time apart")
        return Measured(
            queue=queue.name,
            naming=settings.naming,
            table_name=settings.table,
            taken_at=now.taken_at,
            table=table,
            purge=purge,
            locks=locks,
            archive=archive,
            size=size,
            paused=paused,
            brake=brake,
            unknown=(*table.unknown, *reader.unknown),
        )


@dataclass
class _Reader:
    """The connection, the queue, and what turned out to be unknown."""

    connection: sa.Connection
    queue: QueueTable
    account: str
    unknown: list[Unknown] = field(default_factory=list)
    blocked: bool = False

    @property
    def _names(self) -> dict[str, str]:
        queue = self.queue
        return {"schema": queue.schema, "table": queue.table.name, "archive": queue.archive.name}

    def need(self, metric: str, needs: str) -> None:
        self.unknown.append(Unknown(metric, needs))

    def lack(self, metric: str, needs: str) -> None:
        self.unknown.append(Unknown(metric, needs, inherent=True))

    def table(self) -> TableState:
        """Count the jobs."""
        read = self._attempt("depth", None, lambda: measure_table(self.connection, self.queue))
        return read or TableState()

    def purge(self) -> PurgeLag:
        """Read how far purge is behind."""
        lag = read_purge(self.connection)
        if lag.unknown:
            self.need("purge", lag.unknown)
        return lag

    def locks(self, version: tuple[int, ...], *, enabled: bool) -> Locks:
        """Count who waits, for row locks and for the metadata lock."""
        if not enabled:
            self.need("locks", "performance_schema = ON in the server's option file, and a restart")
            return Locks()
        query = "server_lock_waits" if lock_tables_stall(version) else "table_lock_waits"
        need = Need("PROCESS", "server", "see lock waits") if lock_tables_stall(version) else _SESSIONS
        rows = self._attempt("locks", need, lambda: self._waits(query))
        metadata = self._attempt("locks", _SESSIONS, self._metadata_waits) if rows else None
        return Locks(*(rows or (None, None)), *(metadata or (None, None)))

    def _waits(self, name: str) -> tuple[int, float | None]:
        query = statement(name)
        names = {key: value for key, value in self._names.items() if f":{key}" in query.text}
        row = self.connection.execute(query, names).one()
        return int(row.waiting), None if row.longest_seconds is None else round(float(row.longest_seconds), 3)

    def _metadata_waits(self) -> tuple[int, float | None] | None:
        if self.connection.execute(statement("mdl_instrument")).scalar() != "YES":
            self.need(
                "locks",
                "UPDATE performance_schema.setup_instruments SET enabled = 'YES' "
                "WHERE name = 'wait/lock/metadata/sql/mdl';",
            )
            return None
        return self._waits("table_metadata_waits")

    def brake(self) -> tuple[str | None, bool | None]:
        """Return what a pause in force says, and whether there is one."""
        try:
            brake = self._attempt("paused", _LEDGER, lambda: (active_brake(self.connection, self.queue.name),))
        except LedgerMissing:
            init = self.queue.settings.command("init")
            self.lack("paused", f"the table {LEDGER_TABLE!r}: {init}")
            self.lack("archive", f"the table {LEDGER_TABLE!r}: {init}")
            return None, None
        if brake is None:
            self.need("archive", self.unknown[-1].needs)
            return None, None
        return (str(brake[0]), True) if brake[0] else (None, False)

    def archive(self, *, known: bool) -> Archive:
        """Return how the archiver's last runs ended."""
        if not known:
            return Archive()
        last = last_run(self.connection, self.queue.name, "archive", finished=True)
        good = last_run(self.connection, self.queue.name, "archive", outcomes=GOOD)
        return Archive(good.finished_at if good else None, last.outcome if last else None)

    def size(self) -> Size:
        """Return the table's size as it is now."""

        def read() -> Size:
            names = {"schema": self.queue.schema, "table": self.queue.table.name}
            row = self.connection.execute(statement("table_size"), names).one()
            return Size(row.table_bytes, row.index_bytes, row.free_bytes)

        return self._attempt("size", None, read) or Size()

    def _attempt(self, metric: str, need: Need | None, read: Callable[[], T]) -> T | None:
        """Return what `read` returns; where it may not, or not now, say what it needs and return None."""
        if self.blocked and need is None:
            self.need(metric, self._metadata_lock())
            return None
        try:
            return read()
        except exc.DBAPIError as error:
            code = errno(error)
            if code in DENIED and need:
                self.need(metric, grant(need, self.queue.settings, self.account, self.queue.schema))
            elif code == LOCK_TIMEOUT:
                self.blocked = True
                self.need(metric, self._metadata_lock())
            elif code == UNREADABLE:
                self.need(metric, "that no running statement has a character outside the Basic Multilingual Plane")
            elif code in INTERRUPTED:
                self.need(metric, "more time than a reading may take: the server is busy")
            else:
                raise
            return None

    def _metadata_lock(self) -> str:
        return (
            f"the metadata lock of table {self.queue.table.name!r}, which did not come within {LOCK_WAIT_SECONDS} s; "
            f"see who holds it: {METADATA_WAITS}"
        )
