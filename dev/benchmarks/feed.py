"""What a job costs on its way into the archive: moved later, by its worker at once, or by a trigger on DELETE."""

from __future__ import annotations

import statistics
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from dev.benchmarks.archive_case import SCHEMA, Case, Tables, qops
from dev.benchmarks.archivers import BATCH
from dev.benchmarks.control import SERVER_OPTIONS
from dev.benchmarks.cycle import Bench, claim_and_complete, median_slice
from dev.benchmarks.measure import Table, interleave, ratio, setting
from dev.benchmarks.tables import Variant
from dev.server import private_server
from qops.worker import open_worker

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from dev.benchmarks.cycle import Slice, Work
    from dev.server import Server

WORKERS = (1, 4)
_LEAD_SECONDS = 1.0  # to read the configuration, look at the tables and do a first job
LATER, AT_ONCE, TRIGGER_THERE, TRIGGER_AT_ONCE, BARE, BARE_AT_ONCE = (
    "complete",
    "complete and archive",
    "complete, a trigger there",
    "complete and archive, by a trigger",
    "bare driver: complete.sql",
    "bare driver: complete_archive.sql",
)
BASE = {BARE: BARE, BARE_AT_ONCE: BARE}  # all others are held against LATER
_COLUMNS = (
    "id, status, priority, payload, claimed_by, lease_until, available_at, attempts, max_attempts, last_error, "
    "created_at, finished_at"
)
_TRIGGER = f"""
CREATE TRIGGER fill_archive AFTER DELETE ON jobs FOR EACH ROW
INSERT INTO jobs_archive ({_COLUMNS}) VALUES ({", ".join(f"OLD.{name}" for name in _COLUMNS.split(", "))})"""  # noqa: S608
_COPY_DONE = f"""
INSERT INTO jobs_archive ({_COLUMNS})
SELECT id, 'done', priority, payload, claimed_by, NULL, available_at, attempts, max_attempts, last_error, created_at,
       NOW(6)
FROM jobs WHERE id = %s"""  # noqa: S608 - all written here
_HOLD = (
    "SELECT id FROM jobs WHERE id = %s AND status = 'running' AND claimed_by = %s AND lease_until >= NOW(6) FOR UPDATE"
)
_BY_TRIGGER = '[queues.jobs]\narchive_by = "trigger"\n'
_PLAIN, _TRIGGERED = Variant("feed_copy"), Variant("feed_trigger")


@dataclass(frozen=True)
class Cleaned:
    """One run of `qops archive`: rows a second, and what each row cost the server, its purge included."""

    rate: float
    cpu: float
    redo: float


def run(*, quick: bool) -> list[Table]:
    """Return what completing costs each way, what archiving costs, and the two together for each job."""
    jobs, rounds, seconds = (2_000, 2, 0.3) if quick else (20_000, 5, 0.8)
    case = Case("feed", 5_000 if quick else 60_000, 500, 1_000)
    with (
        private_server(SERVER_OPTIONS) as server,
        ProcessPoolExecutor(max(WORKERS)) as pool,
        tempfile.TemporaryDirectory() as folder,
    ):
        config = Path(folder, "trigger.toml")
        config.write_text(_BY_TRIGGER, encoding="utf-8")
        Path(folder, "copy.toml").write_text("", encoding="utf-8")
        bench = Bench(server, pool, jobs)
        bench.control.durable(on=True)
        for variant in (_PLAIN, _TRIGGERED):
            _create(bench, server, variant)
        ways = _ways(folder)
        slices = {
            workers: interleave(
                {
                    name: partial(bench.slice, work, of, workers, seconds, lead=_LEAD_SECONDS)
                    for name, (of, work) in ways.items()
                },
                rounds,
            )
            for workers in WORKERS
        }
        cleaned = _clean(server, case, str(config), 3 if not quick else 2)
        notes = (setting(server), _NOTE.format(rounds=rounds, seconds=seconds, rows=case.done))
    return [_price(slices[1], cleaned, notes), _completing(slices), _archiving(cleaned)]


_NOTE = (
    "Durable (`innodb_flush_log_at_trx_commit=1, sync_binlog=1`, a binary log of rows). Medians; ratios round by "
    "round, with the middle half. Claim and complete: one job after the other with no work between, a transaction "
    "each, the Worker class and its checks, {rounds} rounds of {seconds:g} s; the bare driver sends the statements of "
    "`sql/` without looking at tables or triggers. Archiving: `qops archive --pause 0s`, {rows:,} done jobs, the whole "
    "process. CPU and redo are the server's for each job, with the purge of what was left behind."
)


def _create(bench: Bench, server: Server, variant: Variant) -> None:
    bench.control.run(f"CREATE DATABASE {variant.name}")
    qops("init", url=f"{server.url}{variant.name}").run()
    bench.fill(variant)
    if variant is _TRIGGERED:
        bench.control.run(_TRIGGER)


def _ways(folder: str) -> Mapping[str, tuple[Variant, Work]]:
    copy, trigger = (str(Path(folder, f"{name}.toml")) for name in ("copy", "trigger"))
    at_once = Variant(_PLAIN.name, complete=_HOLD)
    return {
        LATER: (_PLAIN, partial(_work, copy, False)),
        AT_ONCE: (_PLAIN, partial(_work, copy, True)),
        TRIGGER_THERE: (_TRIGGERED, partial(_work, trigger, False)),
        TRIGGER_AT_ONCE: (_TRIGGERED, partial(_work, trigger, True)),
        BARE: (_PLAIN, claim_and_complete),
        BARE_AT_ONCE: (at_once, partial(claim_and_complete, after=(_COPY_DONE, "DELETE FROM jobs WHERE id = %s"))),
    }


def _work(config: str, archive: bool, server: Server, variant: Variant, start: float, end: float) -> int:  # noqa: FBT001
    """Claim and complete jobs one by one from `start` to `end` (monotonic seconds), after a first one before.

    Raises RuntimeError where there is no job, or it was not ready at the start.
    """
    jobs = 0
    with open_worker("bench", url=f"{server.url}{variant.name}", config=config) as worker:

        def one() -> None:
            job = worker.claim()
            if job is None:
                raise RuntimeError(f"{variant.name}: no job is left to claim")
            worker.complete(job, archive=archive)

        one()  # opens the connection and looks at both tables
        if time.monotonic() > start:
            raise RuntimeError(f"a worker needed more than {_LEAD_SECONDS} s to get ready")
        time.sleep(max(0.0, start - time.monotonic()))
        while not jobs or time.monotonic() < end:
            one()
            jobs += 1
    return jobs


def _clean(server: Server, case: Case, config: str, rounds: int) -> dict[str, list[Cleaned]]:
    """Return the archiver's runs, with copies of its own and with the trigger's."""
    tables = Tables(server)
    tables.make(case)
    ways = {LATER: (), TRIGGER_THERE: ("--config", config)}
    return interleave({name: partial(_archive, tables, case, options) for name, options in ways.items()}, rounds)


def _archive(tables: Tables, case: Case, options: Sequence[str]) -> Cleaned:
    tables.reset(case)
    control = tables.control
    control.run(f"USE {SCHEMA}")
    if options:
        control.run(_TRIGGER)
    program = qops("archive", "--pause", "0s", "--batch", str(BATCH), "--quiet", *options, url=tables.url)
    cpu, redo = control.cpu(), control.redo()
    started = time.monotonic()
    program.run()
    seconds = time.monotonic() - started
    control.purged(60)
    tables.check(case)
    return Cleaned(case.done / seconds, (control.cpu() - cpu) / case.done, (control.redo() - redo) / case.done)


def _completing(slices: Mapping[int, Mapping[str, Sequence[Slice]]]) -> Table:
    rows = [
        [name, *(cell for workers in WORKERS for cell in _rates(slices[workers], name)), *_cost(slices[1][name])]
        for name in slices[1]
    ]
    heads = [head for n in WORKERS for head in (f"jobs/s, {n} worker{'s' if n > 1 else ''}", "x")]
    note = "x is against `complete`, for the bare driver against its own."
    return Table("Feed: claim and complete", ("", *heads, "server CPU a job", "redo a job"), rows, (note,))


def _rates(slices: Mapping[str, Sequence[Slice]], name: str) -> tuple[str, str]:
    rates, base = ([one.rate for one in slices[key]] for key in (name, BASE.get(name, LATER)))
    return f"{statistics.median(rates):,.0f}", ratio(rates, base)


def _cost(slices: Sequence[Slice]) -> tuple[str, str]:
    middle = median_slice(slices)
    return _microseconds(middle.cpu), _bytes(middle.redo)


def _archiving(cleaned: Mapping[str, Sequence[Cleaned]]) -> Table:
    names = {LATER: "qops copies and deletes", TRIGGER_THERE: "qops deletes, a trigger copies"}
    base = [one.rate for one in cleaned[LATER]]
    rows = [
        [
            names[way],
            f"{statistics.median(one.rate for one in mine):,.0f}",
            ratio([one.rate for one in mine], base),
            _microseconds(statistics.median(one.cpu for one in mine)),
            _bytes(statistics.median(one.redo for one in mine)),
        ]
        for way, mine in cleaned.items()
    ]
    return Table("Feed: archiving", ("", "rows/s", "x", "server CPU a row", "redo a row"), rows, ())


def _price(
    slices: Mapping[str, Sequence[Slice]], cleaned: Mapping[str, Sequence[Cleaned]], notes: Sequence[str]
) -> Table:
    """Add up what a job costs the server from its claim to its place in the archive."""

    def total(part: Callable[[Slice | Cleaned], float], way: str, *, later: bool) -> float:
        here = statistics.median(part(one) for one in slices[way])
        return here + (statistics.median(part(one) for one in cleaned[way]) if later else 0.0)

    ways = {
        "moved later by qops archive": (LATER, True),
        "by its worker, in one transaction": (AT_ONCE, False),
        "deleted later by qops archive, a trigger copies": (TRIGGER_THERE, True),
        "deleted by its worker, a trigger copies": (TRIGGER_AT_ONCE, False),
    }
    rows = []
    for name, (way, later) in ways.items():
        cpu, redo = (
            [total(part, one, later=moved) for one, moved in ((way, later), (LATER, True))]
            for part in (lambda one: one.cpu, lambda one: one.redo)
        )
        rows.append([name, *_against(_microseconds, *cpu), *_against(_bytes, *redo)])
    columns = ("from claim to archive", "server CPU a job", "x", "redo a job", "x")
    return Table("Feed: the price of a job", columns, rows, notes)


def _against(say: Callable[[float], str], value: float, base: float) -> tuple[str, str]:
    return say(value), f"**{value / base:.2f}**"


def _microseconds(seconds: float) -> str:
    return f"{1e6 * seconds:,.0f} µs"


def _bytes(value: float) -> str:
    return f"{value:,.0f} bytes"
