"""Time on this machine: how long things took, and waiting that a signal can end.

The only import of `time`. What is due, expired or old is decided by the database's clock, never by this one.
"""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

from contextlib import contextmanager


@dataclass
class Stop:
    """A request to stop, set by a signal and read by loops between batches and while they wait."""

    event: threading.Event = field(default_factory=threading.Event)
    signum: int = 0

    @property
    def requested(self) -> bool:
        """Whether somebody asked to stop."""
        return self.event.is_set()

    def request(self, signum: int = 0) -> None:
        """Ask to stop; `signum` is the signal that asked."""
        self.signum = signum
        self.event.set()


@contextmanager
def stop_on_signals() -> Iterator[Stop]:
    """Yield a Stop that SIGINT and SIGTERM set; a second signal ends the process at once (128 + n).

    The handlers of before come back at the end.
    """
    stop = Stop()

    def handle(signum: int, _frame: FrameType | None) -> None:
        if stop.requested:
            os._exit(128 + signum)
        stop.request(signum)

    before = {signum: signal.signal(signum, handle) for signum in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)


def monotonic() -> float:
    """Seconds on a clock that never goes back; only differences mean something."""
    return time.monotonic()


def sleep(seconds: float, stop: Stop) -> bool:
    """Rest for `seconds` or until asked to stop; return whether asked to stop."""
    if seconds <= 0:
        return stop.requested
    return stop.event.wait(seconds)


def backoff(attempt: int, *, base: float, limit: float) -> float:
    """Seconds to wait before retry `attempt` (0, 1, …): doubling, capped, and jittered over its upper half."""
    ceiling = min(limit, base * 2.0**attempt)
    return random.uniform(ceiling / 2, ceiling)  # noqa: S311 - spreading load, not a secret
