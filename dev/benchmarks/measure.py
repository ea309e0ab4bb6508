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
        return "\n\n".join((f"## {self.title}", *self.notes, table))


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


def ratio(values: Sequence[float], base: Sequence[float]) -> str:
    """Return the median of the ratios round by round, and between which two the middle half of them lies."""
    ratios = [value / other for value, other in zip(values, base, strict=True)]
    low, _, high = statistics.quantiles(ratios, n=4, method="inclusive")
    return f"**{statistics.median(ratios):.2f}** ({low:.2f} to {high:.2f})"


def setting(server: Server) -> str:
    """Name what was measured and where: server and driver with their versions, processor, cores, kernel."""
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return (
        f"MySQL {server.version}, mysqlclient {'.'.join(map(str, MySQLdb.version_info[:3]))}, "
        f"Python {platform.python_version()}; {next(models, platform.machine())}, {os.cpu_count()} cores, "
        f"Linux {platform.release()}."
    )
