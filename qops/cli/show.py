"""`qops show`."""

from __future__ import annotations

from typing import Annotated

import typer

from qops.cli.command import Invocation
from qops.report import Report, Table


def show(
    invocation: Invocation,
    *,
    job_id: Annotated[str, typer.Argument(metavar="JOB_ID", help="a job by id", show_default=False)],
) -> Report:
    """Show one job wherever it is now: in the queue or in the archive, who holds it, and which runs named it."""
    import json

    from qops.jobs.show import show as look_up

    found = look_up(invocation.server(), invocation.settings.queue, job_id, invocation.events)
    document = found.document()
    if found.table is None:
        invocation.events.error(f"job {found.job['id']} of queue {found.queue!r} is not found")
    shown = {key: value for key, value in document.items() if key != "ledger"} | {"payload": found.payload.text}
    if found.seen and found.held_by is None:
        shown["held_by"] = "nobody"
    tables = [Table(("job", "value"), tuple(shown.items()))] if found.table else []
    if found.ledger:
        names = ("id", "command", "started_at", "finished_at", "outcome", "operator", "reason", "summary")
        rows = tuple((*(getattr(run, name) for name in names[:-1]), json.dumps(run.summary)) for run in found.ledger)
        tables.append(Table(names, rows, "runs that named it"))
    return Report(document, tuple(tables), exit_code=found.exit_code)
