"""Putting failed jobs back, against one UPDATE, and what is left to workers meanwhile; then many large ones."""

from __future__ import annotations

import json
import os
import signal
import statistics
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import MySQLdb

from dev.benchmarks.archive_case import SCHEMA, qops
from dev.benchmarks.control import SERVER_OPTIONS, Control
from dev.benchmarks.measure import Table, Target, interleave, ratio, ratios, setting, targets
from dev.benchmarks.tables import CLAIM_ONLY, connect
from dev.server import private_server

if TYPE_CHECKING:
    from collections.abc import Callable

    from dev.server import Server

WORKERS = 4
NAIVE, QOPS = "one UPDATE", "qops requeue --failed"
_UPDATE = (
    "UPDATE jobs SET status = 'pending', claimed_by = NULL, lease_until = NULL, finished_at = NULL "
    "WHERE status = 'failed'"
)
# The failed jobs are the older ones: once they are pending again they come first in the claim's order.
_FILL = """
INSERT INTO jobs (status, priority, payload, attempts, last_error, finished_at)
WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %(failed)s + %(pending)s)
SELECT IF(i <= %(failed)s, 'failed', 'pending'), 0, JSON_OBJECT('job', i, 'text', REPEAT('x', %(bytes)s)),
       i <= %(failed)s, IF(i <= %(failed)s, CONCAT('connection refused by ', i), NULL),
       IF(i <= %(failed)s, NOW(6) - INTERVAL 1 DAY + INTERVAL 10000 * i MICROSECOND, NULL)
  FROM n"""


@dataclass(frozen=True)
class Done:
    """Rows a second, and what the workers reached meanwhile: claims a second, and half of their claims' seconds."""

    rate: float
    claims: float
    p50: float


class Queue:
    """The default tables in a schema of their own, filled anew before each run."""

    def __init__(self, server: Server) -> None:
        """Have qops create the tables."""
        self.control = Control(server)
        self.server, self.url = server, f"{server.url}{SCHEMA}"
        self.control.run(f"CREATE DATABASE {SCHEMA}")
        self.control.run(f"USE {SCHEMA}")
        qops("init", url=self.url).run()

    def fill(self, failed: int, pending: int, payload: int) -> None:
        """Put failed and pending jobs into the empty table, and let the server come to rest."""
        self.control.run("TRUNCATE jobs")
        self.control.cursor.execute(_FILL, {"failed": failed, "pending": pending, "bytes": payload})
        self.control.run("ANALYZE TABLE jobs")
        self.control.settle()

    def naive(self) -> float:
        """Put all back in one statement; return the seconds."""
        connection = connect(self.server, SCHEMA)
        begun = time.monotonic()
        connection.cursor().execute(_UPDATE)
        connection.commit()
        seconds = time.monotonic() - begun
        connection.close()
        return seconds

    def careful(self) -> float:
        """Have qops put all back; return the seconds of its run, without what its process needs to start."""
        return float(json.loads(qops("requeue", "--failed", url=self.url).run())["elapsed_seconds"])


def run(*, quick: bool) -> list[Table]:
    """Return the targets with what was reached, then the numbers."""
    failed, rounds, many = (20_000, 2, 20_000) if quick else (200_000, 3, 300_000)
    with private_server(SERVER_OPTIONS) as server, ProcessPoolExecutor(WORKERS) as pool:
        queue = Queue(server)
        ways = {NAIVE: queue.naive, QOPS: queue.careful}
        found = interleave({name: partial(_beside, queue, pool, failed, way) for name, way in ways.items()}, rounds)
        size = _many(queue, pool, many)
        notes = (setting(server), "Durable settings, a binary log of rows, the default tables of `qops init`.")
    mine, naive = found[QOPS], found[NAIVE]
    reached = [
        Target("rows/s x one UPDATE", 0.9, ratios([one.rate for one in mine], [one.rate for one in naive])),
        Target("claims/s x beside one UPDATE", 3, ratios([one.claims for one in mine], [one.claims for one in naive])),
        Target("300,000 of 2 KB: MB at most", 100, [size.peak / 1e6, size.second_peak / 1e6], most=True),
    ]
    rows = [
        [
            name,
            f"{statistics.median(one.rate for one in these):,.0f}",
            ratio([one.rate for one in these], [one.rate for one in naive]),
            f"{statistics.median(one.claims for one in these):,.0f}",
            ratio([one.claims for one in these], [one.claims for one in naive]),
            f"{1000 * statistics.median(one.p50 for one in these):.1f} ms",
        ]
        for name, these in found.items()
    ]
    note = (
        f"{failed:,} failed jobs become pending while {WORKERS} workers claim and complete others as fast as they can; "
        f"{rounds} rounds."
    )
    columns = ("", "rows/s", f"x {NAIVE}", "claims/s meanwhile", f"x {NAIVE}", "a claim's p50")
    large = (
        f"{many:,} failed jobs with 2 KB of payload, `--spread 30m`, stopped by SIGINT about half way and run again, "
        "beside the same workers."
    )
    parts = [
        ["first run, stopped", f"{size.first:,}", f"{size.peak / 1e6:.0f} MB"],
        ["second run", f"{size.second:,}", f"{size.second_peak / 1e6:.0f} MB"],
        ["claims/s meanwhile", f"{size.claims:,.0f}", ""],
    ]
    return [
        targets("Requeue: targets", reached, *notes),
        Table("Beside workers", columns, rows, (note,)),
        Table("Many large jobs", ("", "jobs", "memory at most"), parts, (large,)),
    ]


def _beside(queue: Queue, pool: ProcessPoolExecutor, failed: int, way: Callable[[], float]) -> Done:
    """Put all failed jobs back beside the workers."""
    queue.fill(failed, 100_000, 150)
    flag = _flag(queue)
    futures = [pool.submit(_work, queue.server, number, str(flag)) for number in range(WORKERS)]
    begun = time.monotonic()
    seconds = way()
    ended = time.monotonic()
    flag.unlink()
    # What the process of qops needs to start is nobody's rows and nobody's claims.
    claims = [took for future in futures for at, took in future.result() if ended - seconds <= at <= ended >= begun]
    if queue.control.number("SELECT COUNT(*) FROM jobs WHERE status = 'failed'"):
        raise RuntimeError("failed jobs are left")
    return Done(failed / seconds, len(claims) / seconds, statistics.median(claims))


def _flag(queue: Queue) -> Path:
    """Create the file at whose end the workers go home."""
    flag = Path(f"/tmp/qops-bench-{os.getpid()}-{queue.server.port}")  # noqa: S108 - empty, and gone again
    flag.touch()
    return flag


def _work(server: Server, number: int, flag: str) -> list[tuple[float, float]]:
    """Claim and complete jobs while the flag is there; return when each claim ended, and its seconds."""
    connection = connect(server, SCHEMA)
    cursor, worker = connection.cursor(), f"worker-{number}"
    select, update = CLAIM_ONLY.claim
    claims = []
    while os.path.exists(flag):  # noqa: PTH110 - cheaper
        begun = time.monotonic()
        try:
            cursor.execute(select)
            ((job, _payload),) = cursor.fetchall()
            cursor.execute(update, (worker, job))
            connection.commit()
            claims.append((time.monotonic(), time.monotonic() - begun))
            cursor.execute(CLAIM_ONLY.complete, (job, worker))
            connection.commit()
        except MySQLdb.Error:
            connection.rollback()
    connection.close()
    return claims


@dataclass(frozen=True)
class Size:
    """Jobs of both runs, the most memory of each in bytes, and claims a second meanwhile."""

    first: int
    second: int
    peak: int
    second_peak: int
    claims: float


def _many(queue: Queue, pool: ProcessPoolExecutor, many: int) -> Size:
    queue.fill(many, 100_000, 2_000)
    flag = _flag(queue)
    futures = [pool.submit(_work, queue.server, number, str(flag)) for number in range(WORKERS)]
    begun = time.monotonic()
    first, peak = _spread(queue, many // 2)
    second, second_peak = _spread(queue, None)
    seconds = time.monotonic() - begun
    flag.unlink()
    claims = sum(len(future.result()) for future in futures)
    if first + second != many or queue.control.number("SELECT COUNT(*) FROM jobs WHERE status = 'scheduled'") != many:
        raise RuntimeError(f"{first} and {second} of {many} jobs were put back")
    return Size(first, second, peak, second_peak, claims / seconds)


def _spread(queue: Queue, until: int | None) -> tuple[int, int]:
    """Run requeue with a spread, to its end or until so many are scheduled; return its count and its peak in bytes."""
    arguments = ("requeue", "--failed", "--spread", "30m", "--url", queue.url, "--format", "json")
    process = subprocess.Popen([sys.executable, "-m", "qops", *arguments], stdout=subprocess.PIPE)
    while until is not None and process.poll() is None:
        if queue.control.number("SELECT COUNT(*) FROM jobs WHERE status = 'scheduled'") >= until:
            process.send_signal(signal.SIGINT)
            break
        time.sleep(0.05)
    if process.stdout is None:
        raise RuntimeError("no stdout")
    out = process.stdout.read()
    _, _, usage = os.wait4(process.pid, 0)
    return int(json.loads(out)["requeued"]), usage.ru_maxrss * 1024
