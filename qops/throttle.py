"""Reasons to wait, and the one loop that waits.

A throttle is a function that gives a reason or None; it never sleeps. Waiting holds no transaction, no lock and
no read view, ends at once when asked to stop, and has a bound.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from qops.clock import Stop, monotonic, sleep
from qops.errors import PrivilegeMissing, TryLater
from qops.purge import find_blocker, read_purge

if TYPE_CHECKING:
    from collections.abc import Sequence

    import sqlalchemy as sa

    from qops.events import Events

DEFAULT_PURGE_LAG = 50_000  # committed transactions
POLL_SECONDS = 1.0
SAY_EVERY_SECONDS = 30.0


class Throttled(TryLater):
    """A reason to wait did not clear in time."""


@dataclass(frozen=True)
class Reason:
    """Why to wait: `name` for counting, `message` for people, with who causes it."""

    name: str
    message: str


Throttle = Callable[[], Reason | None]


class PurgeLagThrottle:
    """Wait while more than `limit` committed transactions wait for purge; go on below half of it.

    `limit` None is the default, which only warns, once, where the lag cannot be read. Raises PrivilegeMissing
    where a limit was asked for and cannot be read.
    """

    def __init__(self, connection: sa.Connection, limit: int | None, events: Events) -> None:
        self.connection = connection
        self.limit = DEFAULT_PURGE_LAG if limit is None else limit
        self.asked = limit is not None
        self.events = events
        self.waiting = False
        self.blind = False

    def __call__(self) -> Reason | None:
        """Return why to wait now, or None."""
        if self.blind:
            return None
        lag = read_purge(self.connection, name_blocker=False)
        self.connection.rollback()
        if lag.unpurged_transactions is None:
            if self.asked:
                raise PrivilegeMissing(f"--max-purge-lag was asked for, but the lag cannot be read: {lag.unknown}")
            self.events.warn(f"purge lag is not watched: {lag.unknown}")
            self.blind = True
            return None
        threshold = self.limit // 2 if self.waiting else self.limit
        self.waiting = lag.unpurged_transactions > threshold
        if not self.waiting:
            return None
        holder = find_blocker(self.connection, lag.read_views) if lag.read_views else None
        self.connection.rollback()
        cause = (
            f"; the oldest read view seems to be held by connection {holder.connection_id} ({holder.user}) for "
            f"{holder.seconds} s: {holder.statement or 'idle'}"
            if holder
            else ""
        )
        return Reason(
            "purge-lag",
            f"purge lag: {lag.unpurged_transactions} committed transactions wait for purge "
            f"(limit {self.limit}, resuming at {self.limit // 2}){cause}",
        )


def hold(
    throttles: Sequence[Throttle], *, max_wait: float, stop: Stop, events: Events, waited: dict[str, float]
) -> None:
    """Return when no throttle has a reason or a stop was requested; add the seconds to `waited` by reason.

    Raises Throttled (75) after `max_wait` seconds, naming the reason that did not clear.
    """
    begun = monotonic()
    said = begun - SAY_EVERY_SECONDS
    while not stop.requested:
        reason = next(filter(None, (throttle() for throttle in throttles)), None)
        if reason is None:
            return
        now = monotonic()
        if now - begun >= max_wait:
            raise Throttled(f"waited {now - begun:.0f} s, and it did not clear: {reason.message}")
        if now - said >= SAY_EVERY_SECONDS:
            events.inform(f"waiting: {reason.message}")
            said = now
        sleep(min(POLL_SECONDS, max_wait - (now - begun)), stop)
        waited[reason.name] = waited.get(reason.name, 0.0) + (monotonic() - now)
