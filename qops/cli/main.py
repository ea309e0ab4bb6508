"""The `qops` command: which commands there are, and what happens before and after the one that runs."""

from __future__ import annotations

import os
import sys
from typing import Annotated, NoReturn

import typer

from qops import __version__
from qops.cli.archive import archive
from qops.cli.command import fail, register
from qops.cli.discard import discard
from qops.cli.doctor import doctor
from qops.cli.expire import expire
from qops.cli.health import health
from qops.cli.history import history
from qops.cli.init import init
from qops.cli.jobs import jobs
from qops.cli.pause import pause, resume
from qops.cli.process import hide_password, open_streams, silence_libraries
from qops.cli.promote import promote
from qops.cli.release import release
from qops.cli.requeue import requeue
from qops.cli.restore import restore
from qops.cli.show import show
from qops.errors import OK, UsageError, abandon_stdout, boundary
from qops.events import Events, say

USAGE_ERROR: type[Exception] = typer.BadParameter.__mro__[1]  # Typer's UsageError, which it does not export

app = typer.Typer(
    name="qops",
    help="Operate job queues that live in MySQL.",
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _version(wanted: bool) -> None:  # noqa: FBT001 - Typer calls it with the flag's value
    if wanted:
        sys.stdout.write(f"qops {__version__}\n")
        raise typer.Exit


@app.callback()
def qops(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Operate job queues that live in MySQL."""


register(app, init)
register(app, doctor)
register(app, archive)
register(app, expire)
register(app, restore)
register(app, requeue)
register(app, promote)
register(app, discard)
register(app, release)
register(app, health)
register(app, jobs)
register(app, show)
register(app, pause)
register(app, resume)
register(app, history)


def main() -> NoReturn:
    """Run the command line as a process of its own and exit with its code."""
    from qops.clock import die_on_signals

    hide_password(sys.argv[1:])
    open_streams()
    silence_libraries()
    die_on_signals()
    code = run(sys.argv[1:])
    try:
        sys.stdout.flush()
    except OSError:
        abandon_stdout()
    sys.exit(code)


def run(arguments: list[str]) -> int:
    """Run one command line and return the exit code; a wrong command line is 64, also for scripts that parse."""
    try:
        return boundary(
            lambda: _dispatch(arguments),
            lambda failure: fail(failure, wanted_format(arguments), Events(), arguments),
        )
    except SystemExit:
        # Nobody reads the help any more: the only case in which the library exits by itself.
        abandon_stdout()
        return OK


def _dispatch(arguments: list[str]) -> int:
    """Hand the command line to its command. Raises UsageError, having said how the command is used."""
    try:
        result = app(arguments, prog_name="qops", standalone_mode=False)
    except USAGE_ERROR as error:
        context = getattr(error, "ctx", None)
        path = context.command_path if context else "qops"
        if context:
            say(context.get_usage() if arguments else context.get_help())
        message = error.format_message() if arguments else "which command?"  # type: ignore[attr-defined]
        raise UsageError(f"{message} (see {path} --help)") from None
    return result if isinstance(result, int) else OK


def wanted_format(arguments: list[str]) -> str:
    """Return the format that a command line which does not parse was going to ask for."""
    chosen = os.environ.get("QOPS_FORMAT", "table")
    for index, argument in enumerate(arguments):
        if argument == "--format" and index + 1 < len(arguments):
            chosen = arguments[index + 1]
        elif argument.startswith("--format="):
            chosen = argument.removeprefix("--format=")
    return chosen
