"""Workers at a steady pace, and how long a claim takes them while somebody archives beside them."""

from __future__ import annotations

import os
import statistics
import subprocess
import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import MySQLdb

from dev.benchmarks.archive_case import SCHEMA, qops
from dev.benchmarks.archive_rates import DURABILITY
from dev.benchmarks.archivers import BULK_MODE, pt_archiver
from dev.benchmarks.measure import Table, Target, interleave, ratio, ratios
from dev.benchmarks.tables import CLAIM_ONLY, connect
from qops.db import DEADLOCK, LOCK_TIMEOUT

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from concurrent.futures import ProcessPoolExecutor

    from dev.benchmarks.archive_case import Case, Program, Tables
    from dev.server import Server

WORKERS = 8
CLAIMS_A_SECOND = 800
_LEAD_SECONDS = 0.2
_BEGUN_SECONDS = 30.0
ALONE, PACED = "no archiver", "qops, default pacing"
_ARCHIVED = "SELECT COUNT(*) FROM jobs_archive"


@dataclass(frozen=True)
class Shift:
    """What one worker saw: how long each claim took in seconds, and the errors it met, by number."""

    claims: Sequence[float]
    errors: Sequence[int]


@dataclass(frozen=True)
class Slice:
    """What all workers saw together: claims a second, quantiles of a claim's seconds, errors by number.

    `archived` is how many jobs a second the archiver moved meanwhile.
    """

    rate: float
    p50: float
    p99: float
    archived: float
    errors: Counter[int]


def beside(
    tables: Tables, case: Case, pool: ProcessPoolExecutor, rounds: int, seconds: float
) -> tuple[list[Table], list[Target]]:
    """Return what the workers notice of each archiver, and what they may notice of qops."""
    server = tables.control.server
    programs = {
        ALONE: None,
        PACED: qops("archive", "--quiet", url=tables.url),
        "qops, --pause 0s": qops("archive", "--quiet", "--pause", "0s", url=tables.url),
        "pt-archiver, bulk": pt_archiver(server, *BULK_MODE),
    }
    rows, targets = [], []
    for name, on in DURABILITY.items():
        tables.control.durable(on=on)
        slices = interleave(
            {who: partial(_slice, tables, pool, case, program, seconds) for who, program in programs.items()}, rounds
        )
        rows += [_row(f"{who}, {name}", mine, slices[ALONE]) for who, mine in slices.items()]
        mine, alone = slices[PACED], slices[ALONE]
        targets += [
            Target(f"foreground, {name}: claims/s", 0.95, ratios([a.rate for a in mine], [a.rate for a in alone])),
            Target(f"foreground, {name}: p99", 1.5, ratios([a.p99 for a in mine], [a.p99 for a in alone]), most=True),
            Target(f"foreground, {name}: errors", 0, [sum(one.errors.values()) for one in mine], most=True),
        ]
    note = (
        f"{WORKERS} workers, {CLAIMS_A_SECOND} claims a second together (claim, then complete, a transaction each), "
        f"for {seconds:g} s beside an archiver on {case.done:,} done jobs; {rounds} rounds. A claim's time is from its "
        "SELECT to the end of its COMMIT."
    )
    columns = ("", "claims/s", "x alone", "p50", "p99", "p99 x alone", "jobs archived/s", "deadlocks, timeouts, others")
    return [Table("Foreground", columns, rows, (note,))], targets


def _row(name: str, slices: Sequence[Slice], alone: Sequence[Slice]) -> list[str]:
    errors = sum((one.errors for one in slices), Counter())
    others = errors.total() - errors[DEADLOCK] - errors[LOCK_TIMEOUT]
    return [
        name,
        f"{statistics.median(one.rate for one in slices):,.0f}",
        ratio([one.rate for one in slices], [one.rate for one in alone]),
        f"{1000 * statistics.median(one.p50 for one in slices):.1f} ms",
        f"{1000 * statistics.median(one.p99 for one in slices):.1f} ms",
        ratio([one.p99 for one in slices], [one.p99 for one in alone]),
        f"{statistics.median(one.archived for one in slices):,.0f}",
        f"{errors[DEADLOCK]}, {errors[LOCK_TIMEOUT]}, {others}",
    ]


def _slice(tables: Tables, pool: ProcessPoolExecutor, case: Case, archiver: Program | None, seconds: float) -> Slice:
    """Let the workers work for so long, with the archiver at work all the while, on tables made anew.

    Raises RuntimeError if the archiver has nothing left to do before the end.
    """
    tables.reset(case)
    server = tables.control.server
    with _archiving(tables, archiver):
        start = time.monotonic() + _LEAD_SECONDS
        before = tables.control.number(_ARCHIVED)
        futures = [pool.submit(_work, server, number, start, start + seconds) for number in range(WORKERS)]
        shifts = [future.result() for future in futures]
        archived = tables.control.number(_ARCHIVED) - before
    claims = [claim for shift in shifts for claim in shift.claims]
    percent = statistics.quantiles(claims, n=100)
    errors = Counter(error for shift in shifts for error in shift.errors)
    return Slice(len(claims) / seconds, percent[49], percent[98], archived / (seconds + _LEAD_SECONDS), errors)


def _work(server: Server, number: int, start: float, end: float) -> Shift:
    """Claim and complete a job whenever one is due, from `start` to `end` (monotonic seconds)."""
    connection = connect(server, SCHEMA)
    cursor, worker = connection.cursor(), f"worker-{os.getpid()}"
    select, update = CLAIM_ONLY.claim
    every = WORKERS / CLAIMS_A_SECOND
    due = start + every * number / WORKERS
    claims, errors = [], []
    while due < end and (now := time.monotonic()) < end:
        time.sleep(max(0.0, due - now))
        due += every
        begun = time.monotonic()
        try:
            cursor.execute(select)
            ((job, _payload),) = cursor.fetchall()
            cursor.execute(update, (worker, job))
            connection.commit()
            claims.append(time.monotonic() - begun)
            cursor.execute(CLAIM_ONLY.complete, (job, worker))
            connection.commit()
        except MySQLdb.Error as error:
            errors.append(error.args[0])
            connection.rollback()
    connection.close()
    return Shift(claims, errors)


@contextmanager
def _archiving(tables: Tables, program: Program | None) -> Iterator[None]:
    """Have an archiver at work from before the block to its end, then stop it with SIGTERM."""
    if program is None:
        yield
        return
    process = subprocess.Popen(
        program.command, env=dict(program.environment), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        end = time.monotonic() + _BEGUN_SECONDS
        while tables.control.number("SELECT EXISTS (SELECT 1 FROM jobs_archive)") == 0 and time.monotonic() < end:
            time.sleep(0.01)
        yield
        if process.poll() is not None:
            raise RuntimeError(f"{' '.join(program.command)} ended with {process.poll()} before the workers did")
    finally:
        process.terminate()
        process.wait()
