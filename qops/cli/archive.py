"""`qops archive`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from qops.cli.command import Invocation
from qops.cli.options import Batch, DryRun, Limit, Progress, duration_option
from qops.report import Report, Table

if TYPE_CHECKING:
    from qops.archive.result import Result


def archive(  # noqa: PLR0913 - one parameter an option
    invocation: Invocation,
    *,
    batch: Batch = None,
    state: Annotated[str | None, typer.Option(help="done or failed  [default: done]", metavar="S")] = None,
    older_than: Annotated[float | None, duration_option("finished at least this long ago  [default: 0s]")] = None,
    limit: Limit = None,
    max_runtime: Annotated[float | None, duration_option("stop after this time")] = None,
    pause: Annotated[
        float | None, duration_option("rest between batches; 0s: none, and two connections  [default: paces itself]")
    ] = None,
    max_purge_lag: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="wait above this many unpurged transactions  [default: 50000]"),
    ] = None,
    max_replica_lag: Annotated[
        float | None, duration_option("wait above this lag of a server in [replicas]  [default: 10s]")
    ] = None,
    max_wait: Annotated[float | None, duration_option("longest wait for a throttle  [default: 10m]")] = None,
    allow_cascade: Annotated[
        bool | None, typer.Option("--allow-cascade", help="also where deletes reach rows of other tables")
    ] = None,
    assume_no_children: Annotated[
        bool | None, typer.Option("--assume-no-children", help="do not insist on seeing foreign keys")
    ] = None,
    dry_run: DryRun = False,
    progress: Progress = None,
) -> Report:
    """Move finished jobs to the archive table, in small batches."""
    from qops.archive.options import choose
    from qops.archive.run import archive as run
    from qops.clock import stop_on_signals

    given = {
        "batch": batch,
        "state": state,
        "older_than": older_than,
        "limit": limit,
        "max_runtime": max_runtime,
        "pause": pause,
        "max_purge_lag": max_purge_lag,
        "max_replica_lag": max_replica_lag,
        "max_wait": max_wait,
        "allow_cascade": allow_cascade,
        "assume_no_children": assume_no_children,
    }
    options = choose(given, invocation.settings, dry_run=dry_run)
    invocation = invocation.showing_progress(progress)
    with stop_on_signals() as stop:
        result = run(invocation.server(), invocation.settings.queue, options, stop, invocation.events)
    return _report(result)


def _report(result: Result) -> Report:
    from qops.counting import words

    if result.plan:
        statements = ("statements of a batch:", *(f"  {' '.join(text.split())}" for text in result.plan.statements))
        return Report(result.document(), (_plan(result.plan),), statements)
    head = (
        f"archived {words(result.archived)} of queue {result.queue!r} in {words(result.batches, 'batch')}, "
        f"{result.elapsed_seconds:.1f} s; stopped by: {result.stopped_by}"
    )
    lines = [head]
    notes = (
        (result.reconciled, "were in the archive already, identical, and are gone from the queue now"),
        (result.locked, "are held by other sessions and were passed over; the next run takes them"),
        (result.undated, "have no finish time and stay, because an age was asked for"),
        (len(result.refused), "cannot be moved unchanged and stay"),
    )
    lines += [f"  {words(number)} {text}" for number, text in notes if number]
    lines += [f"  waited {wait.seconds:.1f} s for {wait.reason}" for wait in result.throttles]
    tables = []
    if result.refused:
        tables.append(Table(("id", "reason"), tuple((row.id, row.reason) for row in result.refused), "refused"))
    return Report(result.document(), tuple(tables), tuple(lines), result.exit_code, result.failure)


def _plan(plan: Any) -> Table:  # noqa: ANN401 - the domain is loaded on demand
    """Return the plan as a table of facts."""
    rows = [
        ("rows", plan.rows),
        ("batches", plan.batches),
        ("bytes, about", plan.bytes),
        ("oldest", plan.oldest),
        ("newest", plan.newest),
        *(("plan", f"{line['access']} on {line['key']}: {line['extra']}") for line in plan.explain),
        *(("would wait for" if one.waits else "throttle", one.message) for one in plan.throttles),
    ]
    return Table(("dry run", "value"), tuple(rows))
