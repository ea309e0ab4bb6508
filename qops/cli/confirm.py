"""Asking before a change of more than one job; without a terminal nothing ever waits for an answer."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import typer

from qops.clock import interruptible
from qops.counting import Count, least, words
from qops.errors import Declined, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True)
class Plan:
    """What would change: how many jobs, and lines that tell which, and which will not and why.

    `doubtful`: a terminal is asked also about one job.
    """

    jobs: Count
    lines: tuple[str, ...] = ()
    doubtful: bool = False


def confirm(what: str, plan: Callable[[], Plan], *, yes: bool, always: bool = False) -> None:
    """Show the plan and ask on a terminal when more than one job would change; the default answer is no.

    Without a terminal the command proceeds, unless it must `always` be confirmed: then more than one job needs
    --yes (UsageError). Raises Declined on the answer no.
    """
    if yes:
        return
    terminal = sys.stdin is not None and sys.stdin.isatty()
    if not terminal and not always:
        return
    planned = plan()
    number = planned.jobs
    if least(number) <= 1 and not (terminal and planned.doubtful and least(number)):
        return
    if not terminal:
        raise UsageError(f"this changes {words(number)}: {what}; confirm it with --yes")
    for line in planned.lines:
        typer.echo(line, err=True)
    try:
        with interruptible():
            agreed = typer.confirm(f"{what}: {words(number)}?", default=False, err=True)
    except typer.Abort as error:
        # Typer makes one of Ctrl-C and the end of input.
        if isinstance(error.__context__, KeyboardInterrupt):
            raise error.__context__ from None
        agreed = False
    if not agreed:
        raise Declined("nothing was changed")
