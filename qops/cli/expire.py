"""`qops expire`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from qops.cli.command import Invocation
from qops.cli.confirm import Plan, confirm
from qops.cli.options import Batch, DryRun, Yes, duration_option
from qops.report import Report, Table

if TYPE_CHECKING:
    from qops.expire.result import Result


def expire(  # noqa: PLR0913 - one parameter an option
    invocation: Invocation,
    *,
    older_than: Annotated[
        float | None, duration_option("archived jobs that finished this long ago  [default: none, only the ledger]")
    ] = None,
    batch: Batch = None,
    allow_cascade: Annotated[
        bool, typer.Option("--allow-cascade", help="also where deletes reach rows of other tables")
    ] = False,
    assume_no_children: Annotated[
        bool, typer.Option("--assume-no-children", help="do not insist on seeing foreign keys")
    ] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> Report:
    """Delete archived jobs past their retention, and old entries of the ledger."""
    from dataclasses import replace

    from qops.archive.options import choose
    from qops.clock import stop_on_signals
    from qops.expire.result import Options
    from qops.expire.run import expire as run

    limits = choose({}, invocation.settings, dry_run=dry_run)
    options = Options(
        older_than=older_than,
        batch=batch or Options.batch,
        max_purge_lag=limits.max_purge_lag,
        max_replica_lag=limits.max_replica_lag,
        read_view=limits.read_view,
        replicas=limits.replicas,
        max_wait=limits.max_wait,
        allow_cascade=allow_cascade,
        assume_no_children=assume_no_children,
        dry_run=dry_run,
    )
    server, settings = invocation.server(), invocation.settings.queue
    with stop_on_signals() as stop:

        def plan() -> Plan:
            planned = run(server, settings, replace(options, dry_run=True), stop, invocation.events)
            return Plan(planned.expired, _report(planned, older_than).lines)

        if older_than is not None and not dry_run:
            confirm(f"delete archived jobs of queue {settings.name!r} for good", plan, yes=yes)
        result = run(server, settings, options, stop, invocation.events)
    return _report(result, options.older_than)


def _report(result: Result, older_than: float | None) -> Report:
    from qops.counting import words

    verb = "would delete" if result.dry_run else "deleted"
    end = "" if result.dry_run else f", {result.elapsed_seconds:.1f} s; stopped by: {result.stopped_by}"
    if older_than is None:
        lines = [f"archived jobs of queue {result.queue!r} stay: no age was given (--older-than){end}"]
    else:
        lines = [f"{verb} {words(result.expired, 'archived job')} of queue {result.queue!r}{end}"]
    entries = f"of the ledger {verb.removesuffix(' delete')} be deleted" if result.dry_run else "of the ledger deleted"
    notes = (
        (result.ledger_expired or 0, f"entry {entries}", f"entries {entries}"),
        (result.locked, "is held by another session", "are held by other sessions and were passed over"),
        (result.undated, "has no finish time and stays", "have no finish time and stay"),
        (len(result.refused), "cannot be deleted and stays", "cannot be deleted and stay"),
    )
    for number, one, several in notes:
        if number:
            lines.append(f"  {words(number).rpartition(' ')[0]} {one if number == 1 else several}")
    lines += [f"  waited {wait.seconds:.1f} s for {wait.reason}" for wait in result.throttles]
    tables = []
    if result.refused:
        tables.append(Table(("id", "reason"), tuple((row["id"], row["reason"]) for row in result.refused), "refused"))
    return Report(result.document(), tuple(tables), tuple(lines), result.exit_code, result.failure)
