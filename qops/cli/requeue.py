"""`qops requeue`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from qops.cli.command import Invocation
from qops.cli.confirm import Plan, confirm
from qops.cli.options import Batch, DryRun, Limit, Progress, Reason, Yes
from qops.errors import UsageError
from qops.report import Report, Table

if TYPE_CHECKING:
    from qops.requeue.result import Result


def requeue(  # noqa: PLR0913 - one parameter an option
    invocation: Invocation,
    *,
    job_ids: Annotated[
        list[str] | None, typer.Argument(metavar="[JOB_ID]...", help="jobs by id", show_default=False)
    ] = None,
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

        def plan() -> Plan:
            return Plan(run(server, settings, replace(options, dry_run=True), stop, invocation.events).requeued)

        if not dry_run:
            confirm(f"requeue jobs of queue {settings.name!r}", plan, yes=yes, always=reset_attempts)
        result = run(server, settings, options, stop, invocation.events)
    return _report(result, expired=expired)


def _report(result: Result, *, expired: bool) -> Report:
    from qops.counting import words

    tables = []
    if result.results or result.not_eligible:
        reasons = {entry["id"]: entry["reason"] for entry in result.not_eligible}
        answers = {verdict.id: verdict.result for verdict in result.results}
        rows = [(id_, answer, reasons.get(id_, "")) for id_, answer in answers.items()]
        rows += [(id_, "not_eligible", reason) for id_, reason in reasons.items() if id_ not in answers]
        tables.append(Table(("id", "result", "reason"), tuple(rows)))
    if result.dry_run:
        lines = [f"would put back {words(result.requeued)} of queue {result.queue!r}"]
        if not result.results:
            lines.append("  less those that have used up their attempts, which is judged under the row lock")
        return Report(result.document(), tuple(tables), tuple(lines), result.exit_code)
    lines = [f"put back {words(result.requeued)} of queue {result.queue!r}, {result.elapsed_seconds:.1f} s"]
    gave_up = expired and not result.not_eligible
    spent = "had used up their attempts and are failed now" if gave_up else "have used up their attempts and stay"
    notes = (
        (result.exhausted, f"{spent} (see --reset-attempts)"),
        (result.locked, "passed over: held by other sessions"),
        (result.changed, "passed over: they had another state by the time their row was locked"),
        (len(result.conflicts), "stay: they conflict with another row's unique key"),
    )
    lines += [f"  {words(number)} {text}" for number, text in notes if number]
    return Report(result.document(), tuple(tables), tuple(lines), result.exit_code, result.failure)
