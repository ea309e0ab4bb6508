"""The error family and the boundary: which exception becomes which exit code, and what is said."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from qops.errors import (
    ConnectionLost,
    Failure,
    Misconfigured,
    PrivilegeMissing,
    QopsError,
    Terminated,
    TryLater,
    Unavailable,
    UsageError,
    boundary,
)

if TYPE_CHECKING:
    from collections.abc import Callable


def raising(error: BaseException) -> Callable[[], int]:
    def command() -> int:
        raise error

    return command


@pytest.mark.parametrize(
    ("error", "code", "kind"),
    [
        (UsageError("x"), 64, "usage"),
        (Unavailable("x"), 69, "unavailable"),
        (ConnectionLost("x"), 69, "unavailable"),
        (QopsError("x"), 70, "internal"),
        (ZeroDivisionError("x"), 70, "internal"),
        (TryLater("x"), 75, "try-later"),
        (PrivilegeMissing("x"), 77, "privilege"),
        (Misconfigured("x"), 78, "configuration"),
        (KeyboardInterrupt(), 128 + signal.SIGINT, "signal"),
        (Terminated(), 128 + signal.SIGTERM, "signal"),
    ],
)
def test_each_error_has_its_exit_code(error: BaseException, code: int, kind: str) -> None:
    """What the boundary returns is what it reports, and is the code that scripts know."""
    reported: list[Failure] = []
    assert boundary(raising(error), reported.append) == code
    assert [(failure.exit, failure.kind) for failure in reported] == [(code, kind)]


def test_only_a_bug_prints_a_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    """An error that qops understands is told in a sentence; a bug shows where it is."""
    boundary(raising(Unavailable("the server is gone")), lambda _failure: None)
    assert capsys.readouterr().err == ""
    boundary(raising(ZeroDivisionError("oops")), lambda _failure: None)
    assert "ZeroDivisionError: oops" in capsys.readouterr().err


def test_a_result_passes_through() -> None:
    """The exit code of a command that does not fail is its own."""
    assert boundary(lambda: 2, lambda _failure: None) == 2


def test_a_lost_commit_is_marked() -> None:
    """The fate of a transaction is unknown only where the answer to COMMIT is missing."""
    assert not ConnectionLost("x").in_commit
    assert ConnectionLost("x", in_commit=True).in_commit
