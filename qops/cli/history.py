"""`qops history`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from qops.cli.command import Invocation
from qops.limits import MAX_BATCH
from qops.report import Report, Table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from qops.runs import Recorded

HEADINGS = ("id", "started", "command", "arguments", "outcome", "summary", "operator", "host", "reason")
SHOWN_IDS = 5


def history(
    invocation: Invocation,
    *,
    limit: Annotated[int, typer.Option(min=1, max=MAX_BATCH, metavar="N", help="the latest N runs")] = 20,
) -> Report:
    """Show the ledger: who changed this queue, when, with which result, and how it ended."""
    from qops.runs import latest_runs

    name = invocation.settings.queue.name
    with invocation.server().observe() as connection:
        runs = latest_runs(connection, name, limit)
    if not runs:
        return Report({"runs": []}, (), (f"the ledger has no run of queue {name!r}",))
    return Report({"runs": [run.document() for run in runs]}, (Table(HEADINGS, tuple(map(_row, runs))),))


def _row(run: Recorded) -> tuple[Any, ...]:
    return (
        run.id,
        run.started_at,
        run.command,
        _words(run.arguments),
        run.state,
        _words(run.summary),
        run.operator,
        run.host,
        run.reason or "",
    )


def _words(values: Mapping[str, Any] | None) -> str:
    """Return what an entry holds in words: what was given, or what was found; zeros say nothing."""
    words = []
    for name, value in (values or {}).items():
        title = name.replace("_", " ")
        if value is True:
            words.append(title)
        elif isinstance(value, list):
            shown = " ".join(map(str, value[:SHOWN_IDS]))
            words.append(f"{title} {shown}{' …' if len(value) > SHOWN_IDS else ''}")
        elif isinstance(value, dict):
            words.append(f"{title} at least {value['at_least']}" if set(value) == {"at_least"} else f"{title} {value}")
        elif value:
            words.append(f"{title} {value}")
    return ", ".join(words)
