"""Batch after batch along a walk: what speaks against the next one is asked before it, and a rest comes after it.

`follow` does it all for one batch at a time; who does several at once asks with `hold` and rests with `rest`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from qops.batches import Batches, Outcome
from qops.clock import monotonic, sleep
from qops.errors import Misconfigured, PrivilegeMissing
from qops.ledger import Paused
from qops.throttle import Throttled, Waits, highest_pressure, hold

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import sqlalchemy as sa

    from qops.brake import BrakeCheck
    from qops.ending import Ending
    from qops.events import Events
    from qops.pace import Pace
    from qops.statements.walk import Walk
    from qops.throttle import Throttle

Key = tuple[Any, ...] | None


class Round(Outcome, Protocol):
    """What one batch did, and how the walk goes on."""

    @property
    def key(self) -> Key:
        """Where it goes on; None: it did not come to any row."""

    @property
    def seen(self) -> int:
        """Rows that it came to."""

    @property
    def ended(self) -> bool:
        """Whether nothing is left after it."""


R = TypeVar("R", bound=Round)


@dataclass
class Rounds:
    """The rounds of one run. `pause` None rests as the pace says; `until` is when the run has to end, by monotonic().

    `max_wait` is the longest wait for one throttle, in seconds; `room` says how many rows the run may still take.
    `waited` and `retries` count what came in between.
    """

    batches: Batches
    pace: Pace
    brake: BrakeCheck
    throttles: Sequence[Throttle]
    events: Events
    max_wait: float
    pause: float | None = None
    until: float = math.inf
    room: Callable[[], float] = lambda: math.inf
    waited: Waits = field(default_factory=Waits)
    retries: int = 0

    def follow(
        self,
        walk: Walk,
        work: Callable[[Key, int, sa.Connection], R],
        count: Callable[[R], None],
        *,
        key: Key = None,
    ) -> tuple[Key, str | None]:
        """Do `work(key, size, connection)` from `key` on, a transaction each, and `count` what it did.

        Returns the last key and why the run stops, None where the walk was followed to its end. Raises as the brake,
        the throttles and the batches do.
        """
        while True:
            if reason := self.hold():
                return key, reason
            started = monotonic()
            batch = self.batches.run(walk, partial(self._sized, work, key), count, self.count_retry)
            key = batch.key or key
            if batch.ended:
                return key, None
            if reason := self.rest(monotonic() - started, batch.seen):
                return key, reason

    def hold(self) -> str | None:
        """Wait until nothing speaks against the next batch; return why there is none, None to go on with it."""
        try:
            self._wait()
        except Throttled:
            if self._left <= 0:
                return "runtime"
            raise
        return self._why_stop()

    def rest(self, seconds: float, rows: int) -> str | None:
        """Rest after a batch of `rows` that took `seconds`; return why there is no other, None to go on."""
        self.pace.took(seconds, rows)
        if reason := self._why_stop():
            return reason
        pause = self.pace.rest(highest_pressure(self.throttles)) if self.pause is None else self.pause
        sleep(min(pause, self._left), self.batches.stop)
        return None

    @property
    def size(self) -> int:
        """The most rows that the next batch may take."""
        return int(min(self.pace.size, self.room()))

    def _sized(self, work: Callable[[Key, int, sa.Connection], R], key: Key, session: sa.Connection) -> R:
        """Do the work in the size that is right now: it may be smaller at the second try."""
        return work(key, self.size, session)

    def _wait(self) -> None:
        """Wait until nothing speaks against the next batch, which is a small one then."""
        before = self.waited.total
        # The brake is asked first, also each time that a wait is over.
        hold(
            (self.brake, *self.throttles),
            let_go=self.batches.connection.rollback,
            max_wait=min(self.max_wait, self._left),
            stop=self.batches.stop,
            events=self.events,
            waited=self.waited,
        )
        if self.waited.total > before:
            self.pace.suffer()

    def _why_stop(self) -> str | None:
        if self.batches.stop.requested:
            return "signal"
        if self.room() <= 0:
            return "limit"
        return "runtime" if self._left <= 0 else None

    @property
    def _left(self) -> float:
        """The seconds that the run may still take."""
        return self.until - monotonic()

    def count_retry(self, code: int) -> None:
        """Count a batch that is repeated, and make the next ones smaller."""
        self.retries += 1
        self.pace.suffer()
        self.events.detail(f"the batch was rolled back by error {code} and is repeated")


def why_stopped(ending: Ending, reached: str | None) -> str:
    """Return why a run stopped, in a word; `reached` is what its rounds said, None if they came to their end."""
    if ending.failure and ending.failure.kind == "signal":
        return "signal"
    if isinstance(ending.error, Paused):
        return "paused"
    if isinstance(ending.error, Throttled):
        return "throttle"
    if isinstance(ending.error, Misconfigured | PrivilegeMissing):
        return "refused"  # the tables, or a right or a setting that it rests on, have changed since it began
    return "error" if ending.error else reached or "done"
