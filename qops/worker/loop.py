"""A loop around a handler: claim, work, complete or fail, and wait a while when nothing is visible."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from qops.clock import Stop, backoff, sleep
from qops.errors import QopsError, TryLater, Unavailable
from qops.worker.job import LeaseLost

if TYPE_CHECKING:
    from collections.abc import Callable

    from qops.worker.job import Job
    from qops.worker.protocol import Worker

IDLE_BASE_SECONDS = 0.05


@dataclass
class Tally:
    """What became of the jobs of one loop. `lost` were finished too late, or could not be reported."""

    completed: int = 0
    failed: int = 0
    lost: int = 0


def run(
    worker: Worker,
    handler: Callable[[Job], object],
    stop: Stop,
    *,
    batch: int = 1,
    archive: bool = False,
    idle_seconds: float = 2.0,
) -> Tally:
    """Work until `stop` is requested and the jobs in hand are finished; return what became of all.

    A job whose handler raises is failed with that exception. A handler that may take longer than the lease
    calls `worker.heartbeat(job)` on its way; between the jobs of a batch the loop does. When fewer jobs came than
    were asked for, the loop does not refill at once but waits, jittered: from 50 ms on, doubling up to
    `idle_seconds` while nothing comes. A server that is away is waited for in the same way. Raises what waiting
    cannot cure: a missing privilege or state.
    """
    tally, empty = Tally(), 0
    while not stop.requested:
        try:
            jobs = worker.claim_batch(batch)
        except (TryLater, Unavailable) as error:
            worker.events.warn(f"cannot claim: {error}")
            jobs = []
        for job in jobs:
            _work(worker, handler, job, tally, archive=archive)
        empty = 0 if jobs else empty + 1
        if len(jobs) < batch:
            sleep(backoff(max(0, empty - 1), base=IDLE_BASE_SECONDS, limit=idle_seconds), stop)
    return tally


def _work(worker: Worker, handler: Callable[[Job], object], job: Job, tally: Tally, *, archive: bool) -> None:
    try:
        left = job.seconds_left
        if left is not None and left < worker.lease_seconds / 2:
            job = worker.heartbeat(job)
        try:
            handler(job)
        except LeaseLost:
            raise
        except Exception as error:  # noqa: BLE001 - whatever a handler raises is the job's failure
            worker.fail(job, f"{type(error).__name__}: {error}")
            tally.failed += 1
        else:
            worker.complete(job, archive=archive)
            tally.completed += 1
    except QopsError as error:
        # The job runs until its lease passes, then it is put back; another try here would not know more.
        tally.lost += 1
        worker.events.warn(f"job {job.id}: {error}")
