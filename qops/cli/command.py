"""How a function becomes a command: the options that all share, settings, one error boundary, one way out.

A command is a function that takes an Invocation and its own options and returns a Report. It holds no SQL and
no loop.
"""

from __future__ import annotations

import inspect
import os
import sys
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from qops.errors import ATTENTION, Failure, QopsError, UsageError, abandon_stdout, boundary
from qops.events import Events
from qops.text import conceal, is_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from qops.db import Server
    from qops.report import Report
    from qops.settings import Settings

DEFAULT_FORMATS = ("table", "json")


@dataclass(frozen=True)
class Common:
    """The options of every command, in the order in which help shows them."""

    url: Annotated[str | None, typer.Option(help="mysql://user@host:port/db  [env: QOPS_URL]", metavar="URL")] = None
    defaults_file: Annotated[
        str | None, typer.Option(help="MySQL option file  [env: QOPS_DEFAULTS_FILE]", metavar="F")
    ] = None
    defaults_group: Annotated[
        str | None,
        typer.Option(help="its group besides [client]  [env: QOPS_DEFAULTS_GROUP; qops]", metavar="G"),
    ] = None
    config: Annotated[str | None, typer.Option(help="instead of ./qops.toml  [env: QOPS_CONFIG]", metavar="F")] = None
    queue: Annotated[str | None, typer.Option(help="which queue  [env: QOPS_QUEUE]", metavar="NAME")] = None
    format: Annotated[str | None, typer.Option(help="table or json  [env: QOPS_FORMAT]", metavar="FMT")] = None
    quiet: Annotated[bool, typer.Option("--quiet", help="print nothing when all is well")] = False
    verbose: Annotated[bool, typer.Option("--verbose", help="say more on stderr")] = False


@dataclass(frozen=True)
class Invocation:
    """What a command gets: its name, the settings, where to report events."""

    command: str
    settings: Settings
    events: Events

    def server(self, *, patient: bool = False) -> Server:
        """Return the configured server, ready to name the privileges that this command needs; `patient` for DDL."""
        from qops.db import open_server
        from qops.privileges import grants_for

        server = open_server(self.settings.database, patient=patient)
        return server.for_command(grants_for(self.command, self.settings.queue))

    def showing_progress(self, wanted: bool | None) -> Invocation:  # noqa: FBT001 - a tri-state flag
        """Return this invocation with progress on stderr: as asked, else on a terminal only."""
        show = sys.stderr.isatty() if wanted is None else wanted
        return replace(self, events=replace(self.events, progress_wanted=show))


def register(app: typer.Typer, function: Callable[..., Report], *, formats: tuple[str, ...] = DEFAULT_FORMATS) -> None:
    """Add `function(invocation, **options)` to `app` under its own name, with the common options added."""
    name = function.__name__
    own = list(inspect.signature(function, eval_str=True).parameters.values())[1:]
    shared = [
        inspect.Parameter(f.name, inspect.Parameter.KEYWORD_ONLY, default=f.default, annotation=annotation)
        for f, annotation in zip(fields(Common), _annotations(), strict=True)
    ]

    def run(**values: Any) -> int:  # noqa: ANN401 - Typer hands over what it parsed
        common = Common(**{f.name: values.pop(f.name) for f in fields(Common)})
        return execute(name, function, common, values, formats)

    positional = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own]
    run.__signature__ = inspect.Signature([*positional, *shared])  # type: ignore[attr-defined]
    run.__doc__ = function.__doc__
    app.command(name)(run)


def execute(
    name: str,
    function: Callable[..., Report],
    common: Common,
    options: dict[str, Any],
    formats: tuple[str, ...],
) -> int:
    """Run a command inside the error boundary, print its report, and return the exit code."""
    events = Events(quiet=common.quiet, verbose=common.verbose)
    chosen = common.format or os.environ.get("QOPS_FORMAT") or "table"

    given = _words((*vars(common).values(), *options.values()))

    def body() -> int:
        if chosen not in formats:
            raise UsageError(f"{name} has no format {chosen!r}; choose {' or '.join(formats)}")
        if not all(map(is_text, given)):
            raise UsageError("a word of the command line is not text in this environment's encoding (UTF-8, as a rule)")
        report = function(invocation(name, common, events), **options)
        return emit(report, chosen, events)

    return boundary(body, lambda failure: fail(failure, chosen, events, given))


def invocation(name: str, common: Common, events: Events) -> Invocation:
    """Load the settings for a command. Raises the family's errors for what is wrong with them."""
    from qops.settings import Flags, load

    flags = Flags(**{f.name: getattr(common, f.name) for f in fields(Flags)})
    settings = load(flags, os.environ)
    address = settings.database.address
    if flags.url and address and address.password:
        events.warn("a password on the command line is seen by others; use QOPS_PASSWORD or an option file")
    if settings.sections.get("schedule"):
        events.warn(f"[schedule] is in {settings.config_file}, but nothing in this version reads it")
    return Invocation(name, settings, events)


def emit(report: Report, chosen: str, events: Events) -> int:
    """Print a report on stdout and return its exit code; a reader that went away is not an error.

    With --quiet a table is printed only when something needs attention.
    """
    from qops.render import render

    code = report.failure.exit if report.failure else report.exit_code
    if not (events.quiet and code == 0 and chosen == "table"):
        try:
            write(render(report, chosen))
        except OSError as error:
            abandon_stdout()
            events.error(f"the result could not be written: {error.strerror}")
            code = code or ATTENTION
    if report.failure:
        events.error(report.failure.message)
    return code


def fail(failure: Failure, chosen: str, events: Events, given: list[str]) -> None:
    """Say why a command failed before it had anything else to say; `given` are the words of its command line."""
    from qops.render import json as renderer
    from qops.report import Report

    failure = replace(failure, message=conceal(failure.message, given))
    if chosen == "json":
        try:
            write(renderer.render(Report({}, failure=failure)))
        except OSError:
            abandon_stdout()
    hint = "; please report this" if failure.exit == QopsError.exit_code else ""
    events.error(failure.message + hint)


def write(text: str) -> None:
    """Write to stdout and flush, so that trouble shows here and not at exit; a reader that went away is none."""
    if not text:
        return
    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure:
        reconfigure(errors="backslashreplace")
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        abandon_stdout()


def _words(values: Iterable[object]) -> list[str]:
    """Return the texts among values of options, also those of options that may be repeated."""
    words: list[str] = []
    for value in values:
        if isinstance(value, str):
            words.append(value)
        elif isinstance(value, list | tuple):
            words += _words(value)
    return words


def _annotations() -> list[Any]:
    return [p.annotation for p in inspect.signature(Common, eval_str=True).parameters.values()]
