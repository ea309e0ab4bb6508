"""What the process needs before a command runs; light, because a password must not stay in the process title."""

from __future__ import annotations

import os
import sys
import warnings


def hide_password(arguments: list[str]) -> None:
    """Rewrite the process title when a URL on the command line may hold a password."""
    if any(argument.startswith("--url") or "://" in argument for argument in arguments):
        from setproctitle import setproctitle

        setproctitle(f"qops {arguments[0]}" if arguments[0].isalpha() else "qops")


def open_streams() -> None:
    """Give a process that was started with closed streams (`<&- >&- 2>&-`) empty ones.

    Otherwise the next file to be opened, which may be the connection to the server, gets the number of stdout.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest free number is this one
    sys.stdin = sys.stdin or open(os.devnull, encoding="utf-8")  # noqa: PTH123, SIM115 - for as long as we live
    sys.stdout = sys.stdout or open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115


def silence_libraries() -> None:
    """Keep libraries' deprecation warnings off the stderr of a successful run, unless somebody asks with -W."""
    if not sys.warnoptions:
        warnings.simplefilter("ignore")
