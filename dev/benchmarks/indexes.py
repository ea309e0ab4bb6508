"""What each index of the default table costs a job on its way: enqueue, claim, complete.

The yardstick is the guide's table with its one index and its worker's statements; its completion is fenced
like ours. Everything is bare mysqlclient at READ COMMITTED, one job a transaction, no work between claim
and complete.
"""

from __future__ import annotations

import functools
from concurrent.futures import ProcessPoolExecutor
from typing import TYPE_CHECKING

from dev.benchmarks.control import SERVER_OPTIONS
from dev.benchmarks.cycle import Bench, claim_and_complete, enqueue, median_slice
from dev.benchmarks.measure import Table, Target, interleave, ratio, ratios, setting, targets
from dev.benchmarks.tables import DEFAULT, GUIDE, VARIANTS
from dev.server import private_server

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dev.benchmarks.cycle import Slice, Work
    from dev.benchmarks.tables import Variant

    Results = dict[str, list[Slice]]

_SECONDS = 0.4
_SETTINGS: tuple[tuple[str, Work, bool, int], ...] = (
    ("durable, 1 worker", claim_and_complete, True, 1),
    ("durable, 4 workers", claim_and_complete, True, 4),
    ("relaxed, 1 worker", claim_and_complete, False, 1),
    ("relaxed, 4 workers", claim_and_complete, False, 4),
    ("enqueue, durable", enqueue, True, 1),
)


def run(*, quick: bool) -> list[Table]:
    """Return what the default table has to reach, then all rates relative to the guide's table, in each setting."""
    jobs, rounds = (5_000, 2) if quick else (100_000, 10)
    with private_server(SERVER_OPTIONS) as server, ProcessPoolExecutor(4) as pool:
        bench = Bench(server, pool, jobs)
        for variant in (GUIDE, *VARIANTS):
            bench.create(variant)
        measured = [_measure(bench, work, workers, rounds, durable=durable) for _, work, durable, workers in _SETTINGS]
        notes = (setting(server), _NOTE.format(rounds=rounds, seconds=_SECONDS, pending=jobs, done=jobs // 2))
    columns = ("indexes beside `claim_idx`", *(name for name, *_ in _SETTINGS), "server CPU a job", "redo a job")
    rows = [_absolute(measured), *(_relative(variant, measured) for variant in VARIANTS)]
    reached = [
        Target(f"{name}: the default table x the guide's", 0.9, _ratios(results))
        for (name, work, durable, _), results in zip(_SETTINGS, measured, strict=True)
        if durable and work is claim_and_complete
    ]
    return [targets("Indexes: targets", reached), Table("Indexes: enqueue, claim, complete", columns, rows, notes)]


_NOTE = (
    "Jobs a second in parts of the guide's table's: median (and middle half) of {rounds} interleaved rounds of "
    "{seconds} s; {pending:,} pending and {done:,} done jobs in each table. Durable is "
    "`innodb_flush_log_at_trx_commit=1, sync_binlog=1`, relaxed `2, 0`, both with a binary log of rows. "
    "CPU and redo, with the purge, are those of the first column."
)


def _measure(bench: Bench, work: Work, workers: int, rounds: int, *, durable: bool) -> Results:
    """Return each variant's slices by round; the guide's are the medians of three, since all depends on them."""
    bench.control.durable(on=durable)
    cases = {v.name: functools.partial(bench.slice, work, v, workers, _SECONDS) for v in VARIANTS}
    guides = [f"{GUIDE.name} {number}" for number in range(3)]
    cases |= {name: functools.partial(bench.slice, work, GUIDE, workers, _SECONDS) for name in guides}
    results = interleave(cases, rounds)
    rounds_of_three = zip(*(results[name] for name in guides), strict=True)
    return results | {GUIDE.name: [median_slice(three) for three in rounds_of_three]}


def _ratios(results: Results) -> list[float]:
    rates, guide = ([one.rate for one in results[variant.name]] for variant in (DEFAULT, GUIDE))
    return ratios(rates, guide)


def _absolute(measured: Sequence[Results]) -> list[str]:
    guide = [median_slice(results[GUIDE.name]) for results in measured]
    rates = [f"{one.rate:,.0f}/s" for one in guide]
    return ["the guide's table", *rates, f"{1e6 * guide[0].cpu:,.0f} µs", f"{guide[0].redo:,.0f} bytes"]


def _relative(variant: Variant, measured: Sequence[Results]) -> list[str]:
    pairs = [(results[variant.name], results[GUIDE.name]) for results in measured]
    rates = [ratio([one.rate for one in mine], [one.rate for one in guide]) for mine, guide in pairs]
    mine, guide = pairs[0]
    cpu = ratio([one.cpu for one in mine], [one.cpu for one in guide])
    redo = ratio([one.redo for one in mine], [one.redo for one in guide])
    return [variant.label(), *rates, cpu, redo]
