"""Rows a second of every way to archive, one after the other on the same tables, against each other."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from dev.benchmarks.archivers import BULK, PROCEDURE, QOPS, ROW
from dev.benchmarks.measure import Table, Target, interleave, ratio, ratios

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from dev.benchmarks.archive_case import Case, Tables
    from dev.benchmarks.archivers import Timed

DURABILITY = {"durable": True, "relaxed": False}


@dataclass(frozen=True)
class Race:
    """Who runs, how often, and what a process takes with nothing to do, in seconds by name."""

    tables: Tables
    ways: Mapping[str, Callable[[], Timed]]
    rounds: int
    start_up: Mapping[str, float]

    def times(self, case: Case, names: Sequence[str]) -> dict[str, list[Timed]]:
        """Return every way's times by round."""
        return interleave({name: partial(_one, self.tables, case, self.ways[name]) for name in names}, self.rounds)

    def net(self, way: str, timed: Timed) -> float:
        """Return the seconds without those that the process takes with nothing to do."""
        return timed.seconds - self.start_up.get(way, 0.0)


def start_up(tables: Tables, nothing: Case, ways: Mapping[str, Callable[[], Timed]], rounds: int) -> dict[str, float]:
    """Return what each way's process takes on a table without a done job: median seconds."""
    results = interleave({name: partial(_one, tables, nothing, way) for name, way in ways.items()}, rounds)
    return {name: statistics.median(one.seconds for one in times) for name, times in results.items()}


def dense(race: Race, case: Case, few: Case) -> tuple[list[Table], list[Target]]:
    """Return who moves how many of many done jobs, and what qops has to reach there.

    Row by row it takes minutes, so that is run once, durable only, on `few`; its pace does not depend on their number.
    """
    tables, targets = [], []
    for name, on in DURABILITY.items():
        race.tables.control.durable(on=on)
        times = race.times(case, [way for way in race.ways if way != ROW])
        whole = {way: [case.done / one.seconds for one in mine] for way, mine in times.items()}
        net = {way: [case.done / race.net(way, one) for one in mine] for way, mine in times.items()}
        bases = {BULK: 1.5, PROCEDURE: 0.9}
        if on:
            alone = _one(race.tables, few, race.ways[ROW])
            whole[ROW] = [few.done / alone.seconds] * race.rounds
            net[ROW] = [few.done / race.net(ROW, alone)] * race.rounds
            bases = {ROW: 12, **bases}
        rows = [
            [
                way,
                *(cell for rates in (net, whole) for cell in (_rate(rates[way]), *_held(rates, way, bases))),
            ]
            for way in sorted(whole, key=lambda way: statistics.median(whole[way]))
        ]
        note = (
            f"{case.done:,} done jobs of about 300 bytes, {case.between:,} pending ones among them and {case.beside:,} "
            f"after them; {race.rounds} rounds. Rows a second at work, without what a process takes with nothing to do "
            "(see Sparse), then of the whole process."
        )
        once = f" {ROW}: once, on {few.done:,} done jobs, because its pace does not depend on their number."
        over = [f"x {base}" for base in bases]
        columns = ("", "rows/s", *over, "whole process", *over)
        tables.append(Table(f"Dense, {name}", columns, rows, (note + once if on else note,)))
        targets += [
            Target(f"dense, {name}: qops x {base}", bound, ratios(net[QOPS], net[base]))
            for base, bound in bases.items()
        ]
    return tables, targets


def _rate(rates: Sequence[float]) -> str:
    return f"{statistics.median(rates):,.0f}"


def _held(rates: Mapping[str, Sequence[float]], way: str, bases: Iterable[str]) -> list[str]:
    return [ratio(rates[way], rates[base]) for base in bases]


def sparse(race: Race, case: Case) -> tuple[list[Table], list[Target]]:
    """Return who finds few done jobs among many live ones how fast, and what qops has to reach there."""
    rows, targets = [], []
    for name, on in DURABILITY.items():
        race.tables.control.durable(on=on)
        times = race.times(case, (QOPS, BULK, PROCEDURE))
        whole = {way: [1 / one.seconds for one in mine] for way, mine in times.items()}
        net = {way: [1 / race.net(way, one) for one in mine] for way, mine in times.items()}
        rows += [
            [
                f"{way}, {name}",
                f"{1 / statistics.median(whole[way]):.2f} s",
                ratio(whole[way], whole[BULK]),
                f"{1 / statistics.median(net[way]):.2f} s",
                ratio(net[way], net[BULK]),
            ]
            for way in times
        ]
        targets.append(Target(f"sparse, {name}: qops x {BULK}", 2, ratios(net[QOPS], net[BULK])))
    spent = ", ".join(f"{way} {seconds:.2f} s" for way, seconds in race.start_up.items())
    note = (
        f"{case.done:,} done jobs, evenly among {case.between:,} pending ones; {race.rounds} rounds. A run with "
        f"nothing to archive takes: {spent}; the last two columns leave that out."
    )
    columns = ("", "whole process", f"x {BULK}", "start-up left out", f"x {BULK}")
    return [Table("Sparse", columns, rows, (note,))], targets


def _one(tables: Tables, case: Case, way: Callable[[], Timed]) -> Timed:
    tables.reset(case)
    timed = way()
    tables.check(case)
    return timed
