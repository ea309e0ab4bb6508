"""Which connection holds the row lock of one job.

No table says it without reading every lock there is, which takes a second for half a million. So a session of our own
waits for the row, and what it waits for is looked up by index. Others hardly notice: SKIP LOCKED passes the row over
anyhow, the wait ends with the answer and never lasts longer than WAIT_SECONDS (the server sees to that, whatever
becomes of us), and a lock that is granted is gone again with the same statement, because the session is in autocommit.
The waiter has no other lock, so nobody can be in a deadlock with it.
"""

from __future__ import annotations

import threading
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import sqlalchemy as sa

from qops.clock import monotonic
from qops.db import DENIED, DRIVER_ERRORS, NOWAIT, Server, errno, prose, statement
from qops.errors import QopsError
from qops.login import version_tuple
from qops.privileges import Need, grant
from qops.statements.holder import touch
from qops.versions import lock_tables_stall

if TYPE_CHECKING:
    from qops.queue import QueueTable

WAIT_SECONDS = 0.3
LOOK_SECONDS = 0.005
_SEE = Need("SELECT", "performance_schema.*", "see which connection holds a row")


@dataclass(frozen=True)
class Unknown:
    """Why it cannot be said who holds a row; where a privilege is missing, with the GRANT."""

    reason: str


Holder = int | Unknown | None
"""A connection's id; None: nobody holds the row."""


def holder_of(server: Server, queue: QueueTable, id_: Any) -> Holder:  # noqa: ANN401 - whatever the id column holds
    """Return the connection that holds the row of job `id_` now; None: nobody, or there is no such row.

    Never raises the error family or the driver's errors: what stands in the way is Unknown. For several jobs in a row
    use Holders, which opens its sessions once.
    """
    with Holders(server, queue) as holders:
        return holders.of(id_)


@dataclass
class Holders:
    """Finds holders, one job after the other, over sessions of its own that it opens when first asked."""

    server: Server
    queue: QueueTable
    _sessions: ExitStack = field(default_factory=ExitStack)
    _waiter: sa.Connection | None = None
    _watcher: sa.Connection | None = None
    _unknown: Unknown | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def of(self, id_: Any) -> Holder:  # noqa: ANN401 - whatever the id column holds
        """Return who holds the row of job `id_`, as `holder_of` does."""
        if self._unknown:
            return self._unknown
        try:
            return self._find(id_)
        except QopsError as error:
            self._close()
            return Unknown(str(error))
        except DRIVER_ERRORS as error:
            self._close()
            return Unknown(f"{prose(error)} (error {errno(error)})")

    def _find(self, id_: Any) -> Holder:  # noqa: ANN401 - whatever the id column holds
        watcher = self._watcher or self._open()
        if self._unknown:
            return self._unknown
        # A shared lock is kept out by an exclusive one alone; who shares the row is asked where this account may lock.
        for shared in (True, False):
            try:
                watcher.execute(touch(self.queue, id_, shared=shared, wait=False)).all()
            except DRIVER_ERRORS as error:
                if errno(error) == NOWAIT:
                    return self._wait_for(watcher, id_, shared=shared)
                if not shared and errno(error) in DENIED:
                    return None
                raise
        return None

    def _wait_for(self, watcher: sa.Connection, id_: Any, *, shared: bool) -> Holder:  # noqa: ANN401 - as above
        """Wait for a row that is locked, and look meanwhile who is in the way."""
        waiter = self._waiter = self._waiter or self._session()
        number = waiter.execute(sa.text("SELECT CONNECTION_ID()")).scalar_one()
        ended: list[BaseException | None] = []

        def wait() -> None:
            try:
                waiter.execute(touch(self.queue, id_, shared=shared, wait=True)).all()
            except BaseException as error:  # noqa: BLE001 - told to the thread that asked
                ended.append(error)
            else:
                ended.append(None)

        thread = threading.Thread(target=wait, name="holder", daemon=True)
        thread.start()
        try:
            found = self._look(watcher, number, thread)
        finally:
            try:
                if thread.is_alive():
                    watcher.execute(sa.text(f"KILL QUERY {int(number)}"))
            finally:
                thread.join()
            if ended[0] is None:  # a KILL that came too late may still hit its next statement
                waiter.invalidate()
                self._waiter = None
        if found is None and ended[0] is not None:
            return Unknown(f"job {id_} is locked, but by whom could not be seen within {WAIT_SECONDS} s")
        return found

    @staticmethod
    def _look(watcher: sa.Connection, waiter: int, thread: threading.Thread) -> Holder:
        until = monotonic() + WAIT_SECONDS
        while thread.is_alive() and monotonic() < until:
            blocker = watcher.execute(statement("row_blocker"), {"waiter": waiter}).scalar()
            if blocker is not None:
                owner = watcher.execute(statement("transaction_owner"), {"transaction": blocker}).first()
                if owner is not None:
                    return owner.connection_id or Unknown("a transaction without a connection holds it; see XA RECOVER")
            thread.join(LOOK_SECONDS)
        return None

    def _open(self) -> sa.Connection:
        """Open the session that looks, and find out whether there is anything to be seen."""
        watcher = self._watcher = self._session()
        now = watcher.execute(statement("instant")).one()
        if not now.performance_schema:
            self._unknown = Unknown("performance_schema is OFF; set it ON in the server's option file, and restart")
        elif lock_tables_stall(version_tuple(now.version)):
            self._unknown = Unknown(f"MySQL {now.version} can stall while its lock tables are read; upgrade it")
        elif self.queue.id_index is None:
            self._unknown = Unknown("no unique index finds a job by its id, so waiting for it would lock others")
        else:
            try:
                watcher.execute(statement("row_blocker"), {"waiter": 0}).scalar()
            except DRIVER_ERRORS as error:
                if errno(error) not in DENIED:
                    raise
                needed = grant(_SEE, self.queue.settings, now.account, self.queue.schema)
                self._unknown = Unknown(f"{prose(error)}; an administrator can run: {needed}")
        return watcher

    def _session(self) -> sa.Connection:
        """Open a session whose statements end after WAIT_SECONDS, whatever they wait for."""
        session = self._sessions.enter_context(self.server.observe())
        session.execute(sa.text("SET SESSION max_execution_time = :limit"), {"limit": round(WAIT_SECONDS * 1000)})
        return session

    def _close(self) -> None:
        self._waiter = self._watcher = None
        self._sessions.close()
        self._sessions = ExitStack()
