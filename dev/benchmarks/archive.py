"""The archiver against its peers and the bare server, in one run, and what the workers beside it notice."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor

from dev.benchmarks import archive_rates, archive_slices, foreground
from dev.benchmarks.archive_case import Case, Tables
from dev.benchmarks.archivers import BATCH, BULK, QOPS, ROW, archivers
from dev.benchmarks.control import SERVER_OPTIONS
from dev.benchmarks.measure import Table, setting, targets
from dev.server import private_server
from dev.server.toolkit import find_tool

_NOTE = (
    "Ratios round by round: the median, and the middle half. Durable is `innodb_flush_log_at_trx_commit=1, "
    "sync_binlog=1`, relaxed `2, 0`, both with a binary log of rows. Everybody works on the default tables of "
    "`qops init`, made anew before each run and left alone until purge and the writing of dirty pages are through; "
    f"batches of {BATCH}, no pause, which for qops means two connections; all others have one. The targets of rates "
    "leave out on both sides what a process takes with nothing to do. pt-archiver is Debian's {version} with "
    f"`--limit {BATCH} --commit-each`, in bulk with `--bulk-insert --bulk-delete` as well, where it loses what changes "
    "between its SELECT and its DELETE. It goes along the primary key: along an index that begins with the status its "
    "bulk mode fails on these tables (it compares the ENUM as a number), and with `--no-ascend` it deleted rows that "
    "it had not copied. The stored procedure goes by ranges of ids and is not safe against changes either; nor is one "
    "transaction, the limit, which nobody could use."
)


def run(*, quick: bool) -> list[Table]:
    """Return the targets with what was reached, then the numbers: dense, sparse, a long run, the foreground."""
    part, rounds = (20, 2) if quick else (1, 3)
    dense = Case("dense", 200_000 // part, 2_000 // part, 20_000 // part)
    few = Case("few", 40_000 // part, 400 // part, 20_000 // part)
    sparse = Case("sparse", 12_000 // part, 500_000 // part)
    long = Case("long_run", 500_000 // part, 5_000 // part, 20_000 // part)
    busy = Case("busy", 60_000 if quick else 250_000, 3_000, 20_000)
    nothing = Case("nothing_done", 0, 1_000)
    with private_server(SERVER_OPTIONS) as server, ProcessPoolExecutor(foreground.WORKERS) as pool:
        tables = Tables(server)
        for case in (dense, few, sparse, long, busy, nothing):
            tables.make(case)
        ways = archivers(tables)
        idle = archive_rates.start_up(tables, nothing, {name: ways[name] for name in (QOPS, ROW, BULK)}, 5)
        race = archive_rates.Race(tables, ways, rounds, idle)
        parts = (
            archive_rates.dense(race, dense, few),
            archive_rates.sparse(race, sparse),
            archive_slices.long_run(tables, long, 2),
            foreground.beside(tables, busy, pool, 2 if quick else 5, 0.5 if quick else 4.0),
        )
        notes = (setting(server), _NOTE.format(version=find_tool("pt-archiver").version))
    reached = targets("Archive: targets", [target for _, found in parts for target in found], *notes)
    return [reached, *(table for some, _ in parts for table in some)]
