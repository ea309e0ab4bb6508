"""`qops requeue`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from qops.cli.command import Invocation
from qops.cli.confirm import confirm
from qops.cli.options import Batch, DryRun, Limit, Progress, Reason, Yes
from qops.errors import UsageError
from qops.report import Report, Table

if TYPE_CHECKING:
    from qops.requeue.result import Result


def requeue(  # noqa: PLR0913 - one parameter an option of the contract
    invocation: Invocation,
    *,
    job_ids: Annotated[list[str] | None, typer.Argument(metavar="[JOB_ID]...", show_default=False)] = None,
    failed: Annotated[bool, typer.Option("--failed", help="all failed jobs")] = False,
    expired: Annotated[bool, typer.Option("--expired", help="all running jobs whose lease has passed")] = False,
    limit: Limit = None,
    batch: Batch = None,
    reset_attempts: Annotated[
        bool, typer.Option("--reset-attempts", help="start counting anew: also jobs at their limit")
    ] = False,
    reason: Reason = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    progress: Progress = None,
) -> Report:
    """Put failed or expired jobs back to pending, within their attempt limits."""
    from dataclasses import replace

    from qops.clock import stop_on_signals
    from qops.requeue.result import Options
    from qops.requeue.run import requeue as run

    ids = tuple(dict.fromkeys(job_ids or ()))
    if (bool(ids), failed, expired).count(True) != 1:
        raise UsageError("give job ids, or --failed, or --expired: exactly one of the three")
    options = Options(
        ids=ids,
        failed=failed,
        expired=expired,
        limit=limit,
        batch=batch or Options.batch,
        reset_attempts=reset_attempts,
        reason=reason,
        dry_run=dry_run,
    )
    invocation = invocation.showing_progress(progress)
    server, settings = invocation.server(), invocation.settings.queue
    with stop_on_signals() as stop:

        def plan() -> int:
            return run(server, settings, replace(options, dry_run=True), stop, invocation.events).requeued

        if not dry_run:
            confirm(f"requeue jobs of queue {settings.name!r}", plan, yes=yes, always=reset_attempts)
        result = run(server, settings, options, stop, invocation.events)
    return _report(result)


def _report(result: Result) -> Report:
    if result.dry_run:
        line = f"would look at {result.requeued} jobs of queue {result.queue!r}; attempts are judged under the row lock"
        return Report(result.document(), (), (line,))
    lines = [f"put back {result.requeued} jobs of queue {result.queue!r}, {result.elapsed_seconds:.1f} s"]
    notes = (
        (result.exhausted, "have used up their attempts (see --reset-attempts)"),
        (result.locked, "are held by other sessions and were passed over"),
        (result.changed, "had another state by the time their row was locked"),
        (len(result.conflicts), "conflict with another row's unique key and stay"),
    )
    lines += [f"  {number} {text}" for number, text in notes if number]
    tables = []
    if result.results:
        reasons = {entry["id"]: entry["reason"] for entry in result.not_eligible}
        rows = tuple((v.id, v.result, reasons.get(v.id, "")) for v in result.results)
        tables.append(Table(("id", "result", "reason"), rows))
    return Report(result.document(), tuple(tables), tuple(lines), result.exit_code, result.failure)
