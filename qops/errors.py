"""The error family, and the one boundary that turns exceptions into exit codes.

Every error says what happened, to which object, and what to type next. The exit codes are those that
scripts and cron rely on; 1 and 2 are not here because they belong to results, not to failures.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import traceback
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from collections.abc import Callable

OK, ATTENTION, CRITICAL = 0, 1, 2


class QopsError(Exception):
    """A failure that qops understands. `exit_code` and `kind` are what scripts see.

    `in_commit`: it came in answer to COMMIT, or instead of one, so the transaction's fate is unknown until looked
    at.
    """

    exit_code: ClassVar[int] = 70
    kind: ClassVar[str] = "internal"
    in_commit: bool = False


class UsageError(QopsError):
    """The command line is wrong."""

    exit_code = 64
    kind = "usage"


class Declined(QopsError):
    """The answer was no."""

    exit_code = ATTENTION
    kind = "declined"


class Unavailable(QopsError):
    """The server cannot serve this: unreachable, login refused, read-only, full, or lost in the middle."""

    exit_code = 69
    kind = "unavailable"


class ConnectionLost(Unavailable):
    """The connection broke."""

    def __init__(self, message: str, *, in_commit: bool = False) -> None:
        super().__init__(message)
        self.in_commit = in_commit


class TryLater(QopsError):
    """Something did not clear in time: a lock, a throttle, the brake."""

    exit_code = 75
    kind = "try-later"


class PrivilegeMissing(QopsError):
    """A privilege is missing; the message holds the GRANT."""

    exit_code = 77
    kind = "privilege"


class Misconfigured(QopsError):
    """Configuration, schema or a server setting does not allow it."""

    exit_code = 78
    kind = "configuration"


class Terminated(BaseException):
    """SIGTERM came where nothing was under way that had to be settled.

    No KeyboardInterrupt, because Typer makes an exit code of its own (130) of those while it reads the command line.
    """


@dataclass(frozen=True)
class Failure:
    """What scripts see of an error: the `error` object of the JSON documents."""

    exit: int
    kind: str
    message: str

    @classmethod
    def of(cls, error: BaseException) -> Failure:
        """Describe `error`; what is not ours is a bug (70), an interrupt is its signal (128 + n)."""
        if isinstance(error, QopsError):
            return cls(error.exit_code, error.kind, str(error))
        if isinstance(error, KeyboardInterrupt | Terminated):
            number = signal.SIGTERM if isinstance(error, Terminated) else signal.SIGINT
            return cls(128 + number, "signal", f"stopped by {number.name}")
        return cls(QopsError.exit_code, QopsError.kind, f"{type(error).__name__}: {error}")


def boundary(command: Callable[[], int], report: Callable[[Failure], None]) -> int:
    """Run `command` and return its exit code; an exception becomes `report(Failure)` and its exit code.

    A bug (70) prints its traceback to stderr, because the person who sees it has to send it to somebody.
    A reader that went away (`| head -1`) is not an error: the output it wanted is complete.
    """
    try:
        return command()
    except BrokenPipeError:
        abandon_stdout()
        return OK
    except (Exception, KeyboardInterrupt, Terminated) as error:  # noqa: BLE001 - the boundary is where all of them end
        failure = Failure.of(error)
        if failure.exit == QopsError.exit_code:
            traceback.print_exception(error)
        try:
            report(failure)
        except BrokenPipeError:
            abandon_stdout()
        return failure.exit


def abandon_stdout() -> None:
    """Point stdout at nothing, so that the interpreter's last flush cannot complain about what is gone."""
    devnull = os.open(os.devnull, os.O_WRONLY)
    with contextlib.suppress(OSError, ValueError):
        os.dup2(devnull, sys.stdout.fileno())
    os.close(devnull)
