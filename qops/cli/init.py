"""`qops init`."""

from __future__ import annotations

from typing import Annotated

import typer

from qops.cli.command import Invocation
from qops.report import Report


def init(
    invocation: Invocation,
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="print the SQL that would run, change nothing")] = False,
    repair: Annotated[bool, typer.Option("--repair", help="add what an existing table lacks, with online DDL")] = False,
) -> Report:
    """Create the queue's tables, or compare those that are there with what it needs."""
    from qops import schema
    from qops.clock import stop_on_signals

    server, queue = invocation.server(patient=True), invocation.settings.queue
    with stop_on_signals() as stop:
        result = schema.init(server, queue, repair=repair, dry_run=dry_run, stop=stop, events=invocation.events)
    return schema.report(result)
