"""The worker's protocol. See `qops.worker.protocol.Worker`."""

from qops.db import RowLocked
from qops.worker.job import Job, JobNotFound, LeaseLost, NotClaimable, retry_backoff
from qops.worker.loop import Tally, run
from qops.worker.opening import open_worker
from qops.worker.protocol import Worker

__all__ = [
    "Job",
    "JobNotFound",
    "LeaseLost",
    "NotClaimable",
    "RowLocked",
    "Tally",
    "Worker",
    "open_worker",
    "retry_backoff",
    "run",
]
