"""How a run ends: by itself, by an error, by a signal; whatever it is, the run says what it did."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING

from qops.clock import Stop, monotonic
from qops.errors import Failure, QopsError, TryLater
from qops.ledger import Paused

if TYPE_CHECKING:
    from collections.abc import Callable

    from qops.db import Server


@dataclass(frozen=True)
class Ending:
    """Why a run ended early (`failure` None: it did not), the error behind it, and the seconds it took."""

    failure: Failure | None
    error: QopsError | None
    seconds: float

    @property
    def outcome(self) -> str:
        """What the ledger keeps: `done`, `paused`, or the kind of the failure."""
        if isinstance(self.error, Paused) and self.failure and self.failure.kind == self.error.kind:
            return "paused"
        return self.failure.kind if self.failure else "done"


def settle(server: Server, stop: Stop, body: Callable[[], None]) -> Ending:
    """Run `body`, which returns early when `stop` is requested, and return how it ended.

    After a signal a batch that met a lock is not repeated: it was rolled back, and the signal was the reason.
    """
    begun = monotonic()
    error: QopsError | None = None
    try:
        with server.translating():
            body()
    except QopsError as caught:
        error = caught
    failure = Failure.of(error) if error else None
    if stop.requested and (failure is None or failure.exit == TryLater.exit_code):
        name = signal.Signals(stop.signum).name if stop.signum else "request"
        failure = Failure(128 + stop.signum, "signal", f"stopped by {name}; the batch in flight was settled")
    return Ending(failure, error, round(monotonic() - begun, 3))
