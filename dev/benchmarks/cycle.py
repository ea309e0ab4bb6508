"""Workers that take jobs through a table, and what a slice of their time costs the server."""

from __future__ import annotations

import dataclasses
import math
import os
import statistics
import time
from pathlib import Path
from typing import TYPE_CHECKING

from dev.benchmarks.tables import connect, create

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import ProcessPoolExecutor

    from dev.benchmarks.tables import Variant
    from dev.server import Server

    Work = Callable[[Server, Variant, float, float], int]

SERVER_OPTIONS = (
    "--innodb-buffer-pool-size=2G",
    "--loose-innodb-redo-log-capacity=1G",
    "--binlog-format=ROW",
    # The history length then says what there is to purge, and not what there was.
    "--innodb-purge-rseg-truncate-frequency=1",
)
_FILL = """
INSERT INTO jobs (status, priority, payload)
WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %s)
SELECT %s, i MOD 10, JSON_OBJECT('job', i, 'text', REPEAT('x', 100)) FROM n"""
_ENQUEUE = "INSERT INTO jobs (priority, payload) VALUES (%s, %s)"
_PAYLOAD = '{"job": 1, "text": "' + 100 * "x" + '"}'
_HISTORY = "SELECT count FROM information_schema.innodb_metrics WHERE name = 'trx_rseg_history_len'"
_PURGE_SECONDS = 1.0
_LEAD_SECONDS = 0.05


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


def claim_and_complete(server: Server, variant: Variant, start: float, end: float) -> int:
    """Claim and complete jobs one by one from `start` to `end` (monotonic seconds); return how many, one at least."""
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
        connection = connect(server)
        connection.autocommit(True)
        self._cursor = connection.cursor()
        self._cursor.execute("SET SESSION sql_log_bin = 0, cte_max_recursion_depth = 4294967295")

    def create(self, variant: Variant) -> None:
        """Create the variant's table with its pending jobs and half as many done ones."""
        create(self._cursor, variant)
        self._cursor.execute(_FILL, (self._jobs // 2, "done"))
        self._cursor.execute(_FILL, (self._jobs, "pending"))
        self._cursor.execute("ANALYZE TABLE jobs")
        self._cursor.fetchall()

    def durable(self, *, on: bool) -> None:
        """Switch the wait for the disk at every commit on or off, for the redo log and the binary log."""
        self._cursor.execute("SET GLOBAL innodb_flush_log_at_trx_commit = %s", (1 if on else 2,))
        self._cursor.execute("SET GLOBAL sync_binlog = %s", (int(on),))

    def slice(self, work: Work, variant: Variant, workers: int, seconds: float) -> Slice:
        """Let the workers work for so long, after the purge of all that was before."""
        self._purged()
        cpu, redo = self._cpu(), self._redo()
        start = time.monotonic() + _LEAD_SECONDS
        futures = [self._pool.submit(work, self._server, variant, start, start + seconds) for _ in range(workers)]
        jobs = sum(future.result() for future in futures)
        self._purged()
        result = Slice(jobs / seconds, (self._cpu() - cpu) / jobs, (self._redo() - redo) / jobs)
        if work is claim_and_complete:
            self._cursor.execute(f"USE `{variant.name}`")
            self._cursor.execute(_FILL, (jobs, "pending"))
        return result

    def _purged(self) -> None:
        end = time.monotonic() + _PURGE_SECONDS
        while self._value(_HISTORY) > 0 and time.monotonic() < end:
            time.sleep(0.02)

    def _redo(self) -> int:
        return self._value("SHOW GLOBAL STATUS LIKE 'Innodb_redo_log_current_lsn'")

    def _cpu(self) -> float:
        if self._server.pid is None:
            return math.nan
        stat = Path(f"/proc/{self._server.pid}/stat").read_text(encoding="utf-8")
        user, system = stat.rpartition(")")[2].split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")

    def _value(self, query: str) -> int:
        self._cursor.execute(query)
        return int(self._cursor.fetchall()[0][-1])
