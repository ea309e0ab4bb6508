"""`qops jobs`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from qops.cli.command import Invocation
from qops.cli.options import duration_option
from qops.cli.width import fit
from qops.report import Report, Table

if TYPE_CHECKING:
    from qops.jobs.result import Grouping, Listing


def _error(text: str) -> str:
    if text != "error":
        raise typer.BadParameter(f"{text!r} is not error, by which alone jobs are grouped")
    return text


def jobs(  # noqa: PLR0913 - one parameter an option
    invocation: Invocation,
    *,
    state: Annotated[
        list[str] | None,
        typer.Option(
            metavar="S",
            help="failed, expired, running, scheduled, pending or done; again for more  [default: all]",
            show_default=False,
        ),
    ] = None,
    error_like: Annotated[
        str | None, typer.Option(metavar="TEXT", help="with exactly this text in their error", show_default=False)
    ] = None,
    worker: Annotated[
        str | None, typer.Option(metavar="W", help="claimed by exactly this worker", show_default=False)
    ] = None,
    older_than: Annotated[
        float | None, duration_option("finished, expired or ready to be claimed for this long")
    ] = None,
    by: Annotated[
        str | None, typer.Option(parser=_error, metavar="error", help="group failed jobs by what went wrong")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="so many jobs, or groups, at most")] = 50,
) -> Report:
    """List jobs, the most urgent first, or the errors that they have in common."""
    from qops.jobs.listing import Options, group_errors, list_jobs
    from qops.statements.filters import Filters

    options = Options(tuple(dict.fromkeys(state or ())), Filters(error_like, worker, older_than), limit)
    server, settings = invocation.server(), invocation.settings.queue
    if by:
        return _groups(group_errors(server, settings, options, invocation.events))
    return _list(list_jobs(server, settings, options, invocation.events))


def _list(listing: Listing) -> Report:
    from qops.jobs.result import KEYS

    rows = tuple(tuple(job.values()) for job in listing.jobs)
    tables = (fit(Table(KEYS, rows)),) if rows else ()
    lines = [] if rows else [f"queue {listing.queue!r} has no such jobs{' among those looked at' * listing.more}"]
    if listing.more and rows:
        lines.append("there are more, or may be: narrow it down, or give a greater --limit")
    return Report(listing.document(), tables, tuple(lines))


def _groups(grouping: Grouping) -> Report:
    rows = tuple(
        (grouping.count(group), group.error, group.first_at, group.last_at, ", ".join(map(str, group.sample_ids)))
        for group in grouping.groups
    )
    tables = (fit(Table(("count", "error", "first_at", "last_at", "sample_ids"), rows)),) if rows else ()
    return Report(grouping.document(), tables, () if rows else (f"queue {grouping.queue!r} has no such jobs",))
