"""Batches: transactions that take rows out of a walk, and the truth about one whose COMMIT was not answered."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from qops.db import Server, transact
from qops.errors import QopsError
from qops.statements.walk import Walk, wait_for_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import sqlalchemy as sa

    from qops.clock import Stop
    from qops.queue import QueueTable

ATTEMPTS = 5
LOOKS = 3  # each waits for the lock timeout, because the server may still be at that COMMIT


class Outcome(Protocol):
    """What one batch did."""

    @property
    def moved(self) -> Sequence[Any]:
        """The ids of the rows that do not meet the walk's predicate any more."""


B = TypeVar("B", bound=Outcome)


class Fate(Enum):
    """Whether a batch happened; the values are how it is said."""

    COMMITTED = "was committed and is counted"
    UNDONE = "was rolled back"
    UNKNOWN = "may or may not have been committed: that could not be found out"


@dataclass(frozen=True)
class Batches:
    """The batches of one run, one after the other on its connection, each tried up to `attempts` times.

    `asks_level`: the work asserts the isolation level itself.
    """

    server: Server
    connection: sa.Connection
    queue: QueueTable
    stop: Stop
    attempts: int = ATTEMPTS
    asks_level: bool = False

    def run(
        self,
        walk: Walk,
        work: Callable[[sa.Connection], B],
        count: Callable[[B], None],
        on_retry: Callable[[int], None] | None = None,
    ) -> B:
        """Do `work` as one batch of `walk`, `count` what it did, and return it.

        Raises as `transact` does. When COMMIT failed or its answer was lost, the batch is looked for and counted
        if it happened, and the error's message says what became of it.
        """
        tried: list[B] = []

        def noted(session: sa.Connection) -> B:
            tried.append(work(session))
            return tried[-1]

        try:
            done = transact(
                self.server,
                self.connection,
                noted,
                attempts=self.attempts,
                stop=self.stop,
                on_retry=on_retry,
                asks_level=self.asks_level,
            )
        except QopsError as error:
            ids = tried[-1].moved if tried and error.in_commit else ()
            if ids:
                fate = self._find_fate(walk, ids)
                if fate is Fate.COMMITTED:
                    count(tried[-1])
                error.args = (f"{error}; the last batch ({len(ids)} rows) {fate.value}",)
            raise
        count(done)
        return done

    def _find_fate(self, walk: Walk, ids: Sequence[Any]) -> Fate:
        """Look whether rows have left the walk, on a new connection if the old one is gone.

        They are read with a shared lock, which waits for a COMMIT that is under way. Where some have left and
        others have not, somebody else has changed them since, and nothing can be told.
        """
        rows = wait_for_rows(self.queue, walk, ids)
        try:
            left = transact(
                self.server, self.connection, lambda session: len(session.execute(rows).all()), attempts=LOOKS
            )
        except QopsError:
            return Fate.UNKNOWN
        if left == len(ids):
            return Fate.UNDONE
        return Fate.UNKNOWN if left else Fate.COMMITTED
