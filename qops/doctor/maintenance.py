"""What the ledger tells of the maintenance: when it last went well, what failed in a row, what never ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from qops.archive.options import choose
from qops.doctor.row_facts import Maintenance, Upkeep
from qops.ledger import GOOD, LedgerMissing, last_run
from qops.privileges import Need
from qops.runs import runs_of
from qops.statements.walk import Past, choose_walk, count_selected

if TYPE_CHECKING:
    from collections.abc import Callable

    from qops.doctor.limits import Limits
    from qops.queue import QueueTable
    from qops.settings import Settings

PROCESS = Need("PROCESS", "server", "see whether the runs of other accounts are still under way")
COMMANDS = {"archive": "archive", "requeue": "requeue --expired", "promote": "promote", "expire": "expire"}
"""What maintenance is, and how it is typed."""
UNTOLD = frozenset({"paused", "signal", "throttle", "try-later"})
"""Outcomes of runs that somebody or something stopped, which says nothing of the next one."""


def read_maintenance(
    connection: sa.Connection,
    queue: QueueTable,
    settings: Settings,
    limits: Limits,
    grant: Callable[[Need], str],
) -> Maintenance:
    """Return what the ledger says of each command's latest runs. Raises the driver's errors."""
    now = connection.execute(sa.select(sa.func.now(sa.text("6")))).scalar_one()

    def ago(moment: Any) -> float | None:  # noqa: ANN401 - a time of the ledger, which old tables may lack
        return None if moment is None else max(0.0, (now - moment).total_seconds())

    try:
        latest = runs_of(connection, queue.name, COMMANDS, limits.failed_runs + len(UNTOLD))
        upkeep = []
        for command, words in COMMANDS.items():
            runs = [run for run in latest if run.command == command]
            newest = runs[0] if runs else None
            ended = [run for run in runs if run.finished_at is not None]
            left = newest if newest and newest.finished_at is None and not newest.running else None
            upkeep.append(
                Upkeep(
                    command=command,
                    words=words,
                    failed=_failed_in_a_row([run.outcome for run in ended]),
                    last_error=str((ended[0].summary or {}).get("error") or "") if ended else "",
                    left_open=left.id if left else None,
                    open_seconds=ago(left.started_at) if left else None,
                    is_gone=None if left is None or left.running is None else True,
                )
            )
        good = last_run(connection, queue.name, "archive", outcomes=GOOD)
    except LedgerMissing:  # then qops has never run; that the table is missing is what another check tells
        upkeep, good = [], None
    return Maintenance(
        tuple(upkeep),
        ago(good.finished_at) if good else None,
        _is_due(connection, queue, settings, limits),
        grant(PROCESS),
    )


def _failed_in_a_row(outcomes: list[str | None]) -> tuple[str, ...]:
    failed = []
    for outcome in outcomes:
        if outcome in GOOD:
            break
        if outcome not in UNTOLD:
            failed.append(outcome or "unknown")
    return tuple(failed)


def _is_due(connection: sa.Connection, queue: QueueTable, settings: Settings, limits: Limits) -> bool | None:
    """Whether a job has been due for the archiver, as it is configured, for longer than the limit; None: no index."""
    options = choose({}, settings, dry_run=True)
    if not queue.has("finished_at") or not queue.has_state(options.state):
        return None
    past = Past("finished_at", round((options.older_than + limits.maintenance_seconds) * 1_000_000))
    walks = [choose_walk(queue, value, by=past.role, past=past) for value in queue.states[options.state]]
    if any(walk.steps[0].column is not queue.columns[past.role] for walk in walks):
        return None
    return any(connection.execute(count_selected(queue, walk, 1)).scalar_one() for walk in walks)
