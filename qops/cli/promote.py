"""`qops promote`."""

from __future__ import annotations

from qops.cli.command import Invocation
from qops.cli.options import Batch, DryRun
from qops.report import Report, Table


def promote(invocation: Invocation, *, batch: Batch = None, dry_run: DryRun = False) -> Report:
    """Move scheduled jobs whose time has come to pending."""
    from qops.clock import stop_on_signals
    from qops.counting import words
    from qops.promote import Options
    from qops.promote import promote as run

    options = Options(batch=batch or Options.batch, dry_run=dry_run)
    with stop_on_signals() as stop:
        result = run(invocation.server(), invocation.settings.queue, options, stop, invocation.events)
    verb = "would promote" if dry_run else "promoted"
    lines = [f"{verb} {words(result.promoted)} of queue {result.queue!r}"]
    if result.locked:
        lines.append(f"  {result.locked} are held by other sessions and were passed over")
    tables = []
    if result.refused:
        tables.append(Table(("id", "reason"), tuple((row["id"], row["reason"]) for row in result.refused), "refused"))
    return Report(result.document(), tuple(tables), tuple(lines), result.exit_code, result.failure)
