"""Workers that take jobs through a table, and what a slice of their time costs the server."""

from __future__ import annotations

import dataclasses
import os
import statistics
import time
from typing import TYPE_CHECKING

from dev.benchmarks.control import Control
from dev.benchmarks.tables import connect, create

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import ProcessPoolExecutor

    from dev.benchmarks.tables import Variant
    from dev.server import Server

    Work = Callable[[Server, Variant, float, float], int]

_FILL = """
INSERT INTO jobs (status, priority, payload)
WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %s)
SELECT %s, i MOD 10, JSON_OBJECT('job', i, 'text', REPEAT('x', 100)) FROM n"""
_ENQUEUE = "INSERT INTO jobs (priority, payload) VALUES (%s, %s)"
_PAYLOAD = '{"job": 1, "text": "' + 100 * "x" + '"}'
_PURGE_SECONDS = 1.0
_LEAD_SECONDS = 0.05  # to connect


@dataclasses.dataclass(frozen=True)
class Slice:
    """One variant at work: jobs a second; the server's CPU seconds and redo bytes for each of them.

    CPU and redo include the purge of what the jobs left behind; CPU is NaN for a server in a container.
    """

    rate: float
    cpu: float
    redo: float


def median_slice(slices: Sequence[Slice]) -> Slice:
    """Return the medians of rate, CPU and redo, each for itself."""
    rate, cpu, redo = (
        statistics.median(getattr(one, field.name) for one in slices) for field in dataclasses.fields(Slice)
    )
    return Slice(rate, cpu, redo)


def claim_and_complete(server: Server, variant: Variant, start: float, end: float, *, after: Sequence[str] = ()) -> int:
    """Claim and complete jobs one by one from `start` to `end` (monotonic seconds); return how many, one at least.

    `after` are further statements for the job's id in the transaction that completes it.
    """
    connection = connect(server, variant.name)
    cursor, worker = connection.cursor(), f"worker-{os.getpid()}"
    select, update = variant.claim
    time.sleep(max(0.0, start - time.monotonic()))
    jobs = 0
    while not jobs or time.monotonic() < end:
        cursor.execute(select)
        ((job, _payload),) = cursor.fetchall()
        cursor.execute(update, (worker, job))
        connection.commit()
        cursor.execute(variant.complete, (job, worker))
        jobs += cursor.rowcount
        for statement in after:
            cursor.execute(statement, (job,))
        connection.commit()
    connection.close()
    return jobs


def enqueue(server: Server, variant: Variant, start: float, end: float) -> int:
    """Enqueue one job a transaction from `start` to `end` (monotonic seconds); return how many, one at least."""
    connection = connect(server, variant.name)
    cursor = connection.cursor()
    time.sleep(max(0.0, start - time.monotonic()))
    jobs = 0
    while not jobs or time.monotonic() < end:
        cursor.execute(_ENQUEUE, (jobs % 10, _PAYLOAD))
        connection.commit()
        jobs += 1
    connection.close()
    return jobs


class Bench:
    """A server with a database for each variant, and the processes that work there."""

    def __init__(self, server: Server, pool: ProcessPoolExecutor, jobs: int) -> None:
        """Take a server started with SERVER_OPTIONS; every table will start with `jobs` pending ones."""
        self._server, self._pool, self._jobs = server, pool, jobs
        self.control = Control(server)

    def create(self, variant: Variant) -> None:
        """Create the variant's table with its pending jobs and half as many done ones."""
        create(self.control.cursor, variant)
        self.fill(variant)

    def fill(self, variant: Variant) -> None:
        """Fill the variant's table, which is there."""
        self.control.run(f"USE `{variant.name}`")
        self.control.run(_FILL, self._jobs // 2, "done")
        self.control.run(_FILL, self._jobs, "pending")
        self.control.run("ANALYZE TABLE jobs")

    def slice(
        self, work: Work, variant: Variant, workers: int, seconds: float, *, lead: float = _LEAD_SECONDS
    ) -> Slice:
        """Let the workers work for so long, after the purge of all that was before; they have `lead` to get ready."""
        control = self.control
        control.purged(_PURGE_SECONDS)
        start = time.monotonic() + lead
        futures = [self._pool.submit(work, self._server, variant, start, start + seconds) for _ in range(workers)]
        time.sleep(max(0.0, start - time.monotonic()))
        cpu, redo = control.cpu(), control.redo()
        jobs = sum(future.result() for future in futures)
        control.purged(_PURGE_SECONDS)
        result = Slice(jobs / seconds, (control.cpu() - cpu) / jobs, (control.redo() - redo) / jobs)
        if work is not enqueue:
            control.run(f"USE `{variant.name}`")
            control.run(_FILL, jobs, "pending")
        return result
