"""`qops restore`."""

from __future__ import annotations

from typing import Annotated

import typer

from qops.cli.command import Invocation
from qops.cli.confirm import Plan, confirm
from qops.cli.options import Yes
from qops.report import Report, Table


def restore(
    invocation: Invocation,
    *,
    job_ids: Annotated[list[str], typer.Argument(metavar="JOB_ID...", help="archived jobs by id", show_default=False)],
    assume_no_children: Annotated[
        bool, typer.Option("--assume-no-children", help="do not insist on seeing foreign keys")
    ] = False,
    yes: Yes = False,
) -> Report:
    """Bring archived jobs back as pending, with no attempts made, where their ids are free."""
    from qops.clock import stop_on_signals
    from qops.counting import words
    from qops.restore import Options, preview
    from qops.restore import restore as run

    options = Options(tuple(dict.fromkeys(job_ids)), assume_no_children)
    server, settings = invocation.server(), invocation.settings.queue
    with stop_on_signals() as stop:
        confirm(
            f"bring archived jobs of queue {settings.name!r} back as pending",
            lambda: Plan(*preview(server, settings, options)),
            yes=yes,
        )
        result = run(server, settings, options, stop, invocation.events)
    rows = tuple((verdict.id, verdict.result, verdict.reason or "") for verdict in result.results)
    lines = (f"restored {words(result.restored)} of queue {result.queue!r}, {result.elapsed_seconds:.1f} s",)
    tables = (Table(("id", "result", "reason"), rows),) if rows else ()
    return Report(result.document(), tables, lines, result.exit_code, result.failure)
