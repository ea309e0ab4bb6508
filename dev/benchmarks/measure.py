"""What every topic shares: interleaved rounds, medians, ratios, and the markdown table they end in."""

from __future__ import annotations

import dataclasses
import platform
import random
import statistics
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class Table:
    """What a topic found: a table, and the notes without which its numbers say nothing."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str]

    def markdown(self) -> str:
        """Return the whole of it as markdown, the notes behind the table."""
        lines = [self.columns, ["---"] * len(self.columns), *self.rows]
        table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
        return "\n\n".join([f"## {self.title}", table, *self.notes])


def interleave(cases: Mapping[str, Callable[[], T]], rounds: int) -> dict[str, list[T]]:
    """Run every case once a round, in another order each time, and return each case's results by round.

    What else the machine does is then shared by the cases, so the results of one round can be compared.
    The orders are the same from run to run.
    """
    order = list(cases)
    shuffle = random.Random(rounds).shuffle  # noqa: S311 - an order is no secret
    results: dict[str, list[T]] = {name: [] for name in order}
    for _ in range(rounds):
        shuffle(order)
        for name in order:
            results[name].append(cases[name]())
    return results


def ratio(values: Iterable[float], base: Iterable[float]) -> str:
    """Return the median of the ratios round by round, with the lowest and the highest."""
    ratios = [value / other for value, other in zip(values, base, strict=True)]
    return f"**{statistics.median(ratios):.2f}** ({min(ratios):.2f} to {max(ratios):.2f})"


def machine() -> str:
    """Name the machine: processor, cores, kernel, Python."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:  # noqa: PTH123 - read line by line
            model = next((line.partition(":")[2].strip() for line in file if line.startswith("model name")), "")
    except OSError:
        model = ""
    return f"{model or platform.machine()}, {_cores()}, Linux {platform.release()}, Python {platform.python_version()}"
