"""What every topic shares: interleaved rounds, medians, ratios, and the markdown table they end in."""

from __future__ import annotations

import os
import platform
import random
import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import MySQLdb

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from dev.server import Server

T = TypeVar("T")


@dataclass(frozen=True)
class Table:
    """What a topic found, with the notes without which its numbers say nothing."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str]

    def markdown(self) -> str:
        """Return the whole of it as markdown."""
        lines = (self.columns, ["---"] * len(self.columns), *self.rows)
        table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
        return "\n\n".join((f"### {self.title}", *self.notes, table))


@dataclass(frozen=True)
class Target:
    """What has to come out: the median of the ratios `found`, one a round, is at least `bound`, or at the `most`."""

    what: str
    bound: float
    found: Sequence[float]
    most: bool = False

    @property
    def met(self) -> bool:
        """Whether it came out, to the two digits that are shown."""
        median = round(statistics.median(self.found), 2)
        return median <= self.bound if self.most else median >= self.bound

    def row(self) -> list[str]:
        """Return what is wanted beside what was found."""
        wanted = f"{'≤' if self.most else '≥'} {self.bound:g}"
        return [self.what, wanted, middle(self.found), "met" if self.met else "**missed**"]


def targets(title: str, rows: Sequence[Target], *notes: str) -> Table:
    """Return the table that holds targets against what was found."""
    return Table(title, ("target", "wanted", "found", ""), [one.row() for one in rows], notes)


def interleave(cases: Mapping[str, Callable[[], T]], rounds: int) -> dict[str, list[T]]:
    """Run every case once a round, in another order each time, and return each case's results by round.

    Whatever else the machine does is then shared by all, and the results of one round can be compared.
    """
    order = list(cases)
    shuffle = random.Random(rounds).shuffle  # noqa: S311 - the same orders in every run
    results: dict[str, list[T]] = {name: [] for name in order}
    for _ in range(rounds):
        shuffle(order)
        for name in order:
            results[name].append(cases[name]())
    return results


def ratios(values: Sequence[float], base: Sequence[float]) -> list[float]:
    """Return the ratios round by round."""
    return [value / other for value, other in zip(values, base, strict=True)]


def middle(values: Sequence[float]) -> str:
    """Return the median, and between which two values the middle half lies."""
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return f"**{statistics.median(values):.2f}** ({low:.2f} to {high:.2f})"


def ratio(values: Sequence[float], base: Sequence[float]) -> str:
    """Return the median of the ratios round by round, and between which two the middle half of them lies."""
    return middle(ratios(values, base))


def setting(server: Server) -> str:
    """Name what was measured and where: server and driver with their versions, processor, cores, memory, kernel."""
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return (
        f"MySQL {server.version}, mysqlclient {'.'.join(map(str, MySQLdb.version_info[:3]))}, "
        f"Python {platform.python_version()}; {next(models, platform.machine())}, {os.cpu_count()} cores, "
        f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB, Linux {platform.release()}."
    )
