"""Option types that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer
from typer.models import OptionInfo

from qops.limits import MAX_BATCH, MAX_REASON


def seconds(text: str | float) -> float:
    """Parse a duration option into seconds; a wrong one is a usage error."""
    from qops.settings import duration

    if isinstance(text, int | float):
        return float(text)
    try:
        return duration(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def reason_text(text: str) -> str:
    """Accept a reason of a sentence or two; a longer one is a usage error."""
    if len(text) > MAX_REASON:
        raise typer.BadParameter(f"a reason has at most {MAX_REASON} characters, this one has {len(text)}")
    return text


Batch = Annotated[
    int | None, typer.Option(min=1, max=MAX_BATCH, metavar="N", help="rows in one transaction  [default: 1000]")
]
Limit = Annotated[int | None, typer.Option(min=1, metavar="N", help="stop after this many jobs", show_default=False)]
DryRun = Annotated[bool, typer.Option("--dry-run", help="show what would happen; change nothing, lock nothing")]
Yes = Annotated[bool, typer.Option("--yes", help="do not ask")]
Reason = Annotated[str | None, typer.Option(parser=reason_text, help="why, for the ledger", metavar="TEXT")]
Progress = Annotated[
    bool | None, typer.Option("--progress/--no-progress", help="say how far it is  [default: on a terminal]")
]


def _fail_on(text: str) -> str:
    """Accept a level at which a finding changes the exit code."""
    from qops.report import FAIL_ON

    if text not in FAIL_ON:
        raise typer.BadParameter(f"{text!r} is not one of {', '.join(FAIL_ON)}")
    return text


FailOn = Annotated[
    str,
    typer.Option(
        "--fail-on", parser=_fail_on, metavar="warning|critical|never", help="which findings change the exit code"
    ),
]


def duration_option(text: str, *names: str) -> OptionInfo:
    """Return an option that takes a duration such as 90s or 15m."""
    option: OptionInfo = typer.Option(*names, parser=seconds, metavar="D", help=text)
    return option
