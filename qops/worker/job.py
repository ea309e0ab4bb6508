"""A claimed job, what can be wrong with one, and how long a failed one waits for its next attempt."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from qops.clock import backoff, monotonic
from qops.errors import ATTENTION, QopsError

BACKOFF_BASE_SECONDS = 5.0
BACKOFF_LIMIT_SECONDS = 3600.0
LONGEST_SECONDS = 1e11  # three thousand years


class LeaseLost(QopsError):
    """The job is not in this worker's hands any more: nothing was written, and its work must not be reported done."""

    exit_code = ATTENTION
    kind = "lease-lost"


class JobNotFound(QopsError):
    """There is no such job in the queue's table."""

    exit_code = ATTENTION
    kind = "not-found"


class NotClaimable(QopsError):
    """The job exists, but it is not a pending one whose time has come."""

    exit_code = ATTENTION
    kind = "not-claimable"


@dataclass(frozen=True)
class Job:
    """A job in a worker's hands. `attempts` counts this one too; what the queue has no column for is None.

    `payload` is what the column holds: text for a JSON column, see `json`.
    """

    id: Any
    payload: Any
    attempts: int | None = None
    max_attempts: int | None = None
    claimed_by: str | None = None
    lease_ends: float | None = field(default=None, compare=False)

    def json(self) -> Any:  # noqa: ANN401 - any document
        """Return the payload, read as JSON."""
        return json.loads(self.payload)

    @property
    def fence(self) -> dict[str, Any]:
        """The parameters by which a statement finds the job only while it is held."""
        return {"id": self.id, "worker": self.claimed_by, "attempts": self.attempts}

    @property
    def seconds_left(self) -> float | None:
        """Seconds until the lease passes, None without one; negative afterwards.

        Counted on this machine's monotonic clock from before the lease was written, so it errs on the safe side
        and needs no agreement between this machine's clock and the server's.
        """
        return None if self.lease_ends is None else self.lease_ends - monotonic()


def retry_backoff(tries: int) -> float:
    """Seconds that a job waits after its `tries`-th failure: 5 s, doubling up to an hour.

    Jittered over the upper half of that, so that what failed together does not come back together.
    """
    return backoff(min(tries - 1, 60), base=BACKOFF_BASE_SECONDS, limit=BACKOFF_LIMIT_SECONDS)


def microseconds(seconds: float) -> int:
    """Return whole microseconds, which is what the server is given; ValueError where no calendar reaches so far."""
    if not abs(seconds) <= LONGEST_SECONDS:
        raise ValueError(f"{seconds} seconds is no time that a column could hold")
    return round(seconds * 1_000_000)
