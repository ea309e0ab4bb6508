"""`qops requeue`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from qops.cli.command import Invocation
from qops.cli.confirm import Plan, confirm
from qops.cli.options import Batch, DryRun, Limit, Progress, Reason, Yes, duration_option
from qops.errors import UsageError
from qops.report import Report, Table

if TYPE_CHECKING:
    from qops.requeue.result import Options, Result, Verdict


def requeue(  # noqa: PLR0913 - one parameter an option
    invocation: Invocation,
    *,
    job_ids: Annotated[
        list[str] | None, typer.Argument(metavar="[JOB_ID]...", help="jobs by id", show_default=False)
    ] = None,
    failed: Annotated[bool, typer.Option("--failed", help="all failed jobs")] = False,
    expired: Annotated[bool, typer.Option("--expired", help="all running jobs whose lease has passed")] = False,
    error_like: Annotated[
        str | None, typer.Option("--error-like", metavar="TEXT", help="whose error has this in it, letter by letter")
    ] = None,
    worker: Annotated[str | None, typer.Option("--worker", metavar="W", help="which exactly this worker holds")] = None,
    older_than: Annotated[
        float | None, duration_option("which failed, or whose lease has passed, this long ago")
    ] = None,
    limit: Limit = None,
    batch: Batch = None,
    max_attempts: Annotated[
        int | None, typer.Option("--max-attempts", min=1, metavar="N", help="the limit, instead of the jobs' own")
    ] = None,
    reset_attempts: Annotated[
        bool, typer.Option("--reset-attempts", help="start counting anew: also jobs at their limit")
    ] = False,
    delay: Annotated[float | None, duration_option("not before this long from now: as scheduled jobs")] = None,
    spread: Annotated[float | None, duration_option("evenly over this long: as scheduled jobs")] = None,
    reason: Reason = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    progress: Progress = None,
) -> Report:
    """Put failed or expired jobs back, at once or over a while, within their attempt limits."""
    from dataclasses import replace

    from qops.archive.options import choose
    from qops.clock import stop_on_signals
    from qops.requeue.result import Options
    from qops.requeue.run import requeue as run
    from qops.statements.filters import Filters

    ids = tuple(dict.fromkeys(job_ids or ()))
    if (bool(ids), failed, expired).count(True) != 1:
        raise UsageError("give job ids, or --failed, or --expired: exactly one of the three")
    if ids and limit is not None:
        raise UsageError("--limit is for --failed and --expired; of jobs that are named, name fewer")
    if error_like == "":
        raise UsageError("--error-like '' is in every error; leave it out")
    limits = choose({}, invocation.settings, dry_run=dry_run)
    options = Options(
        ids=ids,
        failed=failed,
        expired=expired,
        filters=Filters(error_like, worker, older_than),
        limit=limit,
        batch=batch or Options.batch,
        max_attempts=max_attempts,
        reset_attempts=reset_attempts,
        delay=delay,
        spread=spread,
        reason=reason,
        dry_run=dry_run,
        max_purge_lag=limits.max_purge_lag,
        max_replica_lag=limits.max_replica_lag,
        read_view=limits.read_view,
        max_wait=limits.max_wait,
        replicas=limits.replicas,
    )
    invocation = invocation.showing_progress(progress)
    server, settings = invocation.server(), invocation.settings.queue
    with stop_on_signals() as stop:

        def plan() -> Plan:
            planned = run(server, settings, replace(options, dry_run=True), stop, invocation.events)
            return Plan(planned.requeued, planned.plan.lines() if planned.plan else ())

        if not dry_run:
            confirm(f"requeue jobs of queue {settings.name!r}", plan, yes=yes, always=reset_attempts)
        result = run(server, settings, options, stop, invocation.events)
    return _report(result, options)


def _report(result: Result, options: Options) -> Report:
    from qops.counting import words

    tables = []
    if result.results or result.not_eligible:
        reasons = {entry["id"]: entry["reason"] for entry in result.not_eligible}
        rows = [(one.id, one.result, _why(one, reasons)) for one in result.results]
        answered = {one.id for one in result.results}
        rows += [(id_, "not_eligible", reason) for id_, reason in reasons.items() if id_ not in answered]
        tables.append(Table(("id", "result", "reason"), tuple(rows)))
    if result.plan:
        lines = [f"would put back {words(result.requeued)} of queue {result.queue!r}"]
        lines += [f"  {line}" for line in result.plan.lines()[1:]]
        return Report(result.document(), tuple(tables), tuple(lines), result.exit_code)
    where = " as scheduled ones" if options.schedules else ""
    lines = [f"put back {words(result.requeued)} of queue {result.queue!r}{where}, {result.elapsed_seconds:.1f} s"]
    gave_up = options.expired and not result.not_eligible
    spent = "had used up their attempts and are failed now" if gave_up else "have used up their attempts and stay"
    notes = (
        (result.exhausted, f"{spent} (see --reset-attempts)"),
        (result.locked, "passed over: held by other sessions"),
        (result.changed, "passed over: they had another state by the time their row was locked"),
        (len(result.conflicts), "stay: they conflict with another row's unique key"),
    )
    lines += [f"  {words(number)} {text}" for number, text in notes if number]
    lines += [f"  waited {wait.seconds:.1f} s for {wait.reason}" for wait in result.throttles]
    return Report(result.document(), tuple(tables), tuple(lines), result.exit_code, result.failure)


def _why(verdict: Verdict, reasons: dict[Any, str]) -> str:
    if verdict.held_by is not None:
        return f"connection {verdict.held_by} holds it"
    return reasons.get(verdict.id, "")
