"""Time on this machine: how long things took, and waiting that a signal can end.

The only import of `time`. What is due, expired or old is decided by the database's clock, never by this one.
"""

from __future__ import annotations

import itertools
import os
import random
import signal
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from qops.errors import Terminated

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType


ENDING = (signal.SIGINT, signal.SIGTERM)
GRACE_SECONDS = 1.0


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


_settling: list[Stop] = []


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

    before = {signum: signal.signal(signum, handle) for signum in ENDING}
    _settling.append(stop)
    try:
        yield stop
    finally:
        _settling.remove(stop)
        for signum, handler in before.items():
            signal.signal(signum, handler)


@contextmanager
def interruptible() -> Iterator[None]:
    """Let SIGINT and SIGTERM raise inside, also within `stop_on_signals`: a question must not outlive them."""
    before = {signum: signal.signal(signum, _raise) for signum in ENDING}
    try:
        yield
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)


def _raise(signum: int, frame: FrameType | None) -> None:
    if _is_importing(frame):
        # An exception in the middle of its initialisation crashes the driver's C module (SIGSEGV). Nothing has been
        # done yet and nothing said.
        os._exit(128 + signum)
    raise Terminated if signum == signal.SIGTERM else KeyboardInterrupt


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            return True
        frame = frame.f_back
    return False


def die_on_signals() -> None:
    """See to it, for the whole process, that SIGINT and SIGTERM end it even while it waits for a server.

    Python runs a signal's handler between two steps of its own, and the driver does not come back from a server that
    is frozen. So a thread watches: the second signal ends the process at once, and the first one does after a moment
    unless something is under way that has to be settled (`stop_on_signals`).
    """

    def watch() -> None:
        for seen in itertools.count():
            signum = os.read(reader, 1)[0]
            while signum not in ENDING:
                signum = os.read(reader, 1)[0]
            if seen == 0 and not _settling:
                time.sleep(GRACE_SECONDS)
            if seen > 0 or not _settling:
                os._exit(128 + signum)

    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    signal.signal(signal.SIGTERM, _raise)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # a shell's background job ignores it
        signal.signal(signal.SIGINT, _raise)
    threading.Thread(target=watch, name="signals", daemon=True).start()


def monotonic() -> float:
    """Seconds on a clock that never goes back; only differences mean something."""
    return time.monotonic()


def sleep(seconds: float, stop: Stop) -> bool:
    """Rest for `seconds` or until asked to stop; return whether asked to stop."""
    if seconds <= 0:
        return stop.requested
    return stop.event.wait(min(seconds, threading.TIMEOUT_MAX))


def backoff(attempt: int, *, base: float, limit: float) -> float:
    """Seconds to wait before retry `attempt` (0, 1, …): doubling, capped, and jittered over its upper half."""
    ceiling = min(limit, base * 2.0 ** min(attempt, 64))
    return random.uniform(ceiling / 2, ceiling)  # noqa: S311 - spreading load, not a secret
