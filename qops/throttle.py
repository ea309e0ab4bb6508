"""Reasons to wait, and the one loop that waits.

A throttle is a function that gives a reason or None; it never sleeps. Waiting holds no transaction, no lock and
no read view, ends at once when asked to stop, and has a bound.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from qops.clock import Stop, monotonic, sleep
from qops.errors import TryLater

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from qops.events import Events

POLL_SECONDS = 1.0
SAY_EVERY_SECONDS = 30.0


class Throttled(TryLater):
    """A reason to wait did not clear in time."""


@dataclass(frozen=True)
class Reason:
    """Why to wait: `name` for counting, `message` for people, with who causes it.

    `curable`: whether it goes by waiting alone; None where that cannot be told.
    """

    name: str
    message: str
    curable: bool | None = True


class Throttle(Protocol):
    """Asked between batches. After each call `words` say how things stand, and `pressure` how near the limit is.

    A pressure of 0 is up to half the limit, 1 the limit or beyond it.
    """

    name: str
    words: str
    pressure: float

    def __call__(self) -> Reason | None:
        """Return why to wait now, or None."""


@dataclass(frozen=True)
class Wait:
    """Seconds that a run waited for one reason, what was said of it last, and whether waiting alone can end it."""

    reason: str
    seconds: float
    message: str
    curable: bool | None


@dataclass
class Waits:
    """How long a run has waited for what, in seconds by the reason's name, and the last that was said of each."""

    seconds: dict[str, float] = field(default_factory=dict)
    last: dict[str, Reason] = field(default_factory=dict)

    def add(self, reason: Reason, seconds: float) -> None:
        """Count a wait."""
        self.seconds[reason.name] = self.seconds.get(reason.name, 0.0) + seconds
        self.last[reason.name] = reason

    @property
    def total(self) -> float:
        """All seconds."""
        return sum(self.seconds.values(), 0.0)

    def by_reason(self) -> tuple[Wait, ...]:
        """Return the waits, one a reason."""
        return tuple(
            Wait(name, round(seconds, 3), self.last[name].message, self.last[name].curable)
            for name, seconds in self.seconds.items()
        )


def pressure_of(value: float, limit: float) -> float:
    """Return how near `value` is to `limit`: 0 up to half of it, 1 at and beyond it."""
    half = limit / 2
    if value <= half:
        return 0.0
    return min(1.0, (value - half) / half) if half else 1.0


def highest_pressure(throttles: Iterable[Throttle]) -> float:
    """Return the pressure of the throttle that is nearest to its limit."""
    return max((throttle.pressure for throttle in throttles), default=0.0)


def hold(
    throttles: Sequence[Callable[[], Reason | None]],
    *,
    let_go: Callable[[], object],
    max_wait: float,
    stop: Stop,
    events: Events,
    waited: Waits,
) -> None:
    """Return when no throttle has a reason or a stop was requested; count the seconds in `waited`.

    `let_go` is called before each sleep and ends what asking has opened: a transaction, and metadata locks. Raises
    Throttled (75) after `max_wait` seconds, naming the reason that did not clear.
    """
    begun = monotonic()
    said: float = begun
    subject: tuple[str, bool | None] | None = None
    while not stop.requested:
        reason = next(filter(None, (throttle() for throttle in throttles)), None)
        now = monotonic()
        if reason is None:
            if subject:
                events.inform(f"going on after {now - begun:.0f} s")
            return
        if now - begun >= max_wait:
            waited.add(reason, 0.0)
            raise Throttled(f"waited {now - begun:.0f} s, and it did not clear: {reason.message}")
        let_go()
        if (reason.name, reason.curable) != subject or now - said >= SAY_EVERY_SECONDS:
            events.inform(f"waiting: {reason.message}")
            said, subject = now, (reason.name, reason.curable)
        sleep(min(POLL_SECONDS, max_wait - (now - begun)), stop)
        waited.add(reason, monotonic() - now)
