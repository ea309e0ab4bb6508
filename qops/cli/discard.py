"""`qops discard`."""

from __future__ import annotations

from typing import Annotated

import typer

from qops.cli.command import Invocation
from qops.cli.confirm import Plan, confirm
from qops.cli.options import Yes, reason_text
from qops.errors import UsageError
from qops.report import Report, Table


def discard(
    invocation: Invocation,
    *,
    job_ids: Annotated[list[str], typer.Argument(metavar="JOB_ID...", help="jobs by id", show_default=False)],
    reason: Annotated[
        str, typer.Option(parser=reason_text, metavar="TEXT", help="why, kept as the job's error", show_default=False)
    ],
    yes: Yes = False,
) -> Report:
    """Give up on jobs that wait or whose lease has passed: failed, with the reason."""
    from qops.clock import stop_on_signals
    from qops.counting import words
    from qops.discard import Options, preview
    from qops.discard import discard as run

    if not reason.strip():
        raise UsageError("--reason must say why")
    options = Options(tuple(dict.fromkeys(job_ids)), reason)
    server, settings = invocation.server(), invocation.settings.queue
    with stop_on_signals() as stop:
        what = f"give up on jobs of queue {settings.name!r}"
        confirm(what, lambda: Plan(*preview(server, settings, options)), yes=yes, always=True)
        result = run(server, settings, options, stop, invocation.events)
    rows = tuple(
        (one.id, one.result, one.held_by if one.result == "locked" else "", one.reason or "") for one in result.results
    )
    lines = (f"discarded {words(result.discarded)} of queue {result.queue!r}, {result.elapsed_seconds:.1f} s",)
    tables = (Table(("id", "result", "held by", "reason"), rows),) if rows else ()
    return Report(result.document(), tables, lines, result.exit_code, result.failure)
