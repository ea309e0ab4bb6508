"""From numbers to findings: what each means to the person on call, and the next command to type."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qops.db import quote_name
from qops.health.depth import least
from qops.health.measure import METADATA_WAITS
from qops.health.snapshot import Finding, Measured, Snapshot
from qops.ledger import GOOD

if TYPE_CHECKING:
    from collections.abc import Iterator

    from qops.health.snapshot import Count
    from qops.health.thresholds import HealthThresholds

FREE_NOTICE_BYTES = 64 * 1024 * 1024
LAST_RUNS = "SELECT * FROM qops_runs WHERE command = 'archive' ORDER BY id DESC LIMIT 5;"
ROW_WAITS = "SELECT * FROM sys.innodb_lock_waits;"
_MEBIBYTE = 1024 * 1024


def judge(measured: Measured, limits: HealthThresholds) -> Snapshot:
    """Return the reading with its findings, the worst first."""
    found = [*_depth(measured, limits), *_age(measured, limits), *_purge(measured, limits), *_locks(measured, limits)]
    found += [*_operation(measured), *_size(measured)]
    order = ("critical", "warning", "notice")
    return Snapshot(measured, tuple(sorted(found, key=lambda finding: order.index(finding.level))))


def _depth(measured: Measured, limits: HealthThresholds) -> Iterator[Finding]:
    depth = measured.table.depth
    texts: tuple[tuple[str, Count, str], ...] = (
        ("ready", depth.ready, "are ready and wait for a worker; start workers, or look at those that run"),
        (
            "expired",
            depth.expired,
            f"are running but their lease has passed, so nobody works on them: {measured.command('requeue --expired')}",
        ),
        (
            "failed",
            depth.failed,
            f"have failed; once the cause is cured, put them back: {measured.command('requeue --failed')}",
        ),
    )
    for name, count, text in texts:
        level = limits.level(name, least(count)) if count is not None else None
        if level:
            yield Finding(name, level, f"{_words(count)} {text}")


def _age(measured: Measured, limits: HealthThresholds) -> Iterator[Finding]:
    seconds = measured.table.oldest_ready_seconds
    level = limits.level("oldest_ready", seconds) if seconds is not None else None
    if level:
        yield Finding(
            "oldest-ready",
            level,
            f"a job has been ready for {seconds:.0f} s: there are too few workers, or none, or they cannot claim; "
            f"check the workers, then: {measured.command('doctor')}",
        )


def _purge(measured: Measured, limits: HealthThresholds) -> Iterator[Finding]:
    purge = measured.purge
    holder = purge.blocker
    who = (
        f"connection {holder.connection_id} ({holder.user or 'unknown user'}), "
        f"{holder.statement or 'whose last statement is unknown'}; end it after asking its owner: "
        f"KILL {holder.connection_id};"
        if holder
        else "a transaction that is not to be seen"
    )
    lag = purge.unpurged_transactions
    level = limits.level("purge_lag", lag) if lag is not None else None
    if level:
        cause = f"; held up by {who}" if purge.read_views else "; no read view is open, so it will catch up by itself"
        yield Finding(
            "purge-lag",
            level,
            f"{lag} committed transactions wait for purge, and every claim steps over what they left{cause}",
        )
    seconds = purge.oldest_view_seconds
    level = limits.level("read_view", seconds) if seconds is not None else None
    if level:
        yield Finding(
            "read-view", level, f"a read view has been open for up to {seconds} s, and purge stands still: {who}"
        )


def _locks(measured: Measured, limits: HealthThresholds) -> Iterator[Finding]:
    locks = measured.locks
    behind = (
        "for the table's metadata lock, and every statement on it waits behind them; "
        f"see who holds it: {METADATA_WAITS}"
    )
    waits = (
        (
            "row-lock-wait",
            "row_lock_wait",
            locks.rows,
            locks.longest_row_wait_seconds,
            f"for a row lock; see who holds it: {ROW_WAITS}",
        ),
        (
            "metadata-lock-wait",
            "metadata_lock_wait",
            locks.metadata,
            locks.longest_metadata_wait_seconds,
            behind,
        ),
    )
    for name, limit, waiting, seconds, text in waits:
        level = limits.level(limit, seconds) if waiting and seconds is not None else None
        if level:
            yield Finding(name, level, f"{_sessions(waiting)}, the longest for {seconds:.1f} s, {text}")


def _sessions(number: int | None) -> str:
    return "1 session waits" if number == 1 else f"{number} sessions wait"


def _operation(measured: Measured) -> Iterator[Finding]:
    if measured.brake:
        yield Finding(
            "paused",
            "warning",
            f"the queue is {measured.brake}; archive, requeue and promote stand still until: "
            f"{measured.command('resume')}",
        )
    outcome = measured.archive.last_outcome
    if outcome and outcome not in {*GOOD, "paused"}:
        last = measured.archive.last_success_at
        since = f"the last good one ended at {last:%Y-%m-%d %H:%M:%S}Z" if last else "there was no good one before"
        yield Finding(
            "archive",
            "warning",
            f"the archiver's last run ended with {outcome!r}, and {since}; see why: {LAST_RUNS}",
        )


def _size(measured: Measured) -> Iterator[Finding]:
    size = measured.size
    if None in {size.table_bytes, size.index_bytes, size.free_bytes}:
        return
    used, free = (size.table_bytes or 0) + (size.index_bytes or 0), size.free_bytes or 0
    if free >= FREE_NOTICE_BYTES and free >= used:
        yield Finding(
            "free-space",
            "notice",
            f"{free // _MEBIBYTE} MiB inside the table's file are free: InnoDB keeps the pages of deleted rows for new "
            "ones, so the file does not shrink. To give them back the table must be rebuilt, which takes time, disk "
            f"and a metadata lock; in a quiet hour: OPTIMIZE TABLE {quote_name(measured.table_name)};",
        )


def _words(count: Count) -> str:
    jobs = f"{least(count)} jobs" if least(count) != 1 else "1 job"
    return f"at least {jobs}" if isinstance(count, dict) else jobs
