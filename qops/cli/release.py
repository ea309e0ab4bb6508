"""`qops release`."""

from __future__ import annotations

from typing import Annotated

import typer

from qops.cli.command import Invocation
from qops.cli.confirm import Plan, confirm
from qops.cli.options import Yes
from qops.report import Report, Table


def release(
    invocation: Invocation,
    *,
    worker: Annotated[
        str, typer.Option("--worker", metavar="W", help="its name in claimed_by, exactly", show_default=False)
    ],
    yes: Yes = False,
) -> Report:
    """End the leases of a worker that is dead, so that `requeue --expired` can put its jobs back."""
    from qops.clock import stop_on_signals
    from qops.counting import words
    from qops.release import look
    from qops.release import release as run

    server, settings = invocation.server(), invocation.settings.queue

    def plan() -> Plan:
        holding = look(server, settings, worker)
        return Plan(holding.number, holding.lines(worker), doubtful=holding.connections != ())

    with stop_on_signals() as stop:
        confirm(f"end the leases of worker {worker!r} in queue {settings.name!r}", plan, yes=yes)
        result = run(server, settings, worker, stop, invocation.events)
    rows = tuple((job.id, job.age_seconds, job.lease_seconds) for job in result.jobs)
    tables = (Table(("id", "age (s)", "lease left (s)"), rows, f"held by {worker}"),) if rows else ()
    lines = [f"ended the leases of {words(result.released)} of queue {result.queue!r}, {result.elapsed_seconds:.1f} s"]
    notes = (
        (result.locked, "passed over: held by other sessions"),
        (result.changed, "passed over: finished or extended meanwhile"),
        (len(result.conflicts), "stay: a key, a constraint or a trigger objects"),
    )
    lines += [f"  {words(number)} {text}" for number, text in notes if number]
    if result.released:
        lines.append(f"  put them back with: {settings.command('requeue --expired')}")
    return Report(result.document(), tables, tuple(lines), result.exit_code, result.failure)
