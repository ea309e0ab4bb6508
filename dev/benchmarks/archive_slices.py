"""Whether a long run keeps its pace: the last of ten slices of one table against the first."""

from __future__ import annotations

import re
import statistics
import subprocess
import time
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import MySQLdb

from dev.benchmarks.archive_case import SCHEMA, qops
from dev.benchmarks.measure import Table, Target, interleave

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dev.benchmarks.archive_case import Case, Tables
    from dev.server import Server

SLICES = 10
_SAID = re.compile(r"archived (\d+) jobs")


@dataclass(frozen=True)
class Pace:
    """Rows a second in each of the ten slices."""

    rates: Sequence[float]

    @property
    def kept(self) -> float:
        """The last slice's pace in parts of the first's."""
        return self.rates[-1] / self.rates[0]


def pace(tables: Tables, case: Case, *, snapshot: bool) -> Pace:
    """Archive the whole table in one run, on request while somebody else holds a read view, and time its batches."""
    tables.reset(case)
    with _snapshot(tables.control.server, wanted=snapshot):
        points = _progress(tables.url)
    tables.check(case)
    return Pace([_rate(points, case.done * part // SLICES, case.done * (part + 1) // SLICES) for part in range(SLICES)])


def long_run(tables: Tables, case: Case, rounds: int) -> tuple[list[Table], list[Target]]:
    """Return the pace of each slice of a long run, and what qops has to keep of it."""
    tables.control.durable(on=True)
    cases = {"nobody reads": False, "a snapshot is held": True}
    paces = interleave({name: partial(pace, tables, case, snapshot=held) for name, held in cases.items()}, rounds)
    rows = [
        [name, *(f"{statistics.median(slices):,.0f}" for slices in zip(*(one.rates for one in mine), strict=True))]
        for name, mine in paces.items()
    ]
    note = f"qops, {case.done:,} done jobs in ten slices, rows/s in each, durable; {rounds} rounds."
    columns = ("", *map(str, range(1, SLICES + 1)))
    kept = [
        Target(f"the last of ten slices in parts of the first, {name}", 0.9, [one.kept for one in mine])
        for name, mine in paces.items()
    ]
    return [Table("A long run", columns, rows, (note,))], kept


def _progress(url: str) -> list[tuple[float, int]]:
    """Run `qops archive` and return, from its first batch on, when it said how many rows were archived."""
    program = qops("archive", "--pause", "0s", "--progress", url=url)
    points = []
    with subprocess.Popen(program.command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr  # noqa: S101 - it is a pipe
        for line in process.stderr:
            said = _SAID.search(line)
            if said:
                points.append((time.monotonic(), int(said[1])))
        program.ended(process.wait(), process.stdout.read() if process.stdout else "")
    return points


def _rate(points: Sequence[tuple[float, int]], first: int, last: int) -> float:
    """Return the rows a second between the batches that passed `first` and `last` rows."""
    (begun, low), (ended, high) = (next(point for point in points if point[1] >= rows) for rows in (first, last))
    return (high - low) / (ended - begun)


@contextmanager
def _snapshot(server: Server, *, wanted: bool) -> Iterator[None]:
    """Hold a read view of the table, as a backup or a report does."""
    connection = MySQLdb.connect(host=server.host, port=server.port, user="root", database=SCHEMA)
    if wanted:
        cursor = connection.cursor()
        cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        cursor.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT")
        cursor.execute("SELECT id FROM jobs LIMIT 1")
        cursor.fetchall()
    yield
    connection.close()
