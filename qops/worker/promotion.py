"""Promoting due jobs while claiming: bounded, seldom, never in a worker's way, and not while the brake is on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import exc

from qops.clock import monotonic
from qops.db import DENIED, errno
from qops.errors import QopsError
from qops.ledger import LedgerMissing, active_brake
from qops.statements.walk import Past, choose_walk
from qops.statements.worker import promote_due
from qops.worker.session import Prepared, Session, prepare

if TYPE_CHECKING:
    import sqlalchemy as sa

    from qops.worker.protocol import Worker

BATCH = 100  # rows: what a promotion keeps locked for a moment
INTERVAL_SECONDS = 1.0  # for a worker that always finds jobs
EXPENSIVE_SECONDS = 0.1  # a promotion that takes longer than this (it has no index) …
SHARE = 20  # … is not repeated before twenty times as long: at most 5 % of a worker's time
BRAKED_SECONDS = 2.0  # how often a worker looks whether the brake is off again
FAILED_SECONDS = 60.0


class _Braked(Exception):
    """Jobs are due, but the brake is on."""


class Promotion:
    """One worker's part in promoting its queue's due jobs."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._statements: list[Prepared] | None = None
        self._next_idle = self._next_busy = float("-inf")

    def at_intervals(self) -> bool:
        """Promote if it is time for a busy worker to; return whether it looked."""
        if monotonic() < self._next_busy:
            return False
        self.promote()
        return True

    def when_idle(self) -> int:
        """Promote, unless that was just done and is expensive; return how many jobs became pending."""
        return self.promote() if monotonic() >= self._next_idle else 0

    def promote(self) -> int:
        """Make up to BATCH due jobs pending and return how many; a failure is reported and tried again later."""
        rest, promoted, begun = 0.0, 0, monotonic()
        try:
            if self._statements is None:
                self._statements = self._worker.transaction(lambda session: self._prepare(session.connection))
                begun = monotonic()
            statements = self._statements
            promoted = self._worker.transaction(lambda session: self._promote(session, statements))
        except _Braked:
            rest = BRAKED_SECONDS
        except QopsError as error:
            rest = FAILED_SECONDS
            self._statements = None
            self._worker.events.warn(f"due jobs of queue {self._worker.queue.name!r} are not promoted: {error}")
        ended = monotonic()
        if ended - begun > EXPENSIVE_SECONDS:
            rest = max(rest, SHARE * (ended - begun))
        self._next_idle = ended + rest
        more = promoted >= BATCH
        self._next_busy = self._next_idle if more else max(self._next_idle, begun + INTERVAL_SECONDS)
        return promoted

    def _promote(self, session: Session, statements: list[Prepared]) -> int:
        promoted = sum(session.run(statement, limit=BATCH) for statement in statements)
        if promoted and self._braked(session.connection):
            raise _Braked
        return promoted

    def _prepare(self, connection: sa.Connection) -> list[Prepared]:
        queue = self._worker.queue
        past = Past("available_at")
        walks = [choose_walk(queue, v, by="available_at", past=past) for v in queue.states["scheduled"]]
        return [prepare(promote_due(queue, walk), connection.dialect) for walk in walks]

    def _braked(self, connection: sa.Connection) -> bool:
        """Whether the queue is paused; where the ledger is out of reach, nobody can have said so."""
        try:
            return active_brake(connection, self._worker.queue.name) is not None
        except LedgerMissing:
            return False
        except exc.DBAPIError as error:
            if errno(error) in DENIED:
                return False
            raise
