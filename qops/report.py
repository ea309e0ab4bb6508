"""What a command has to say, before anybody decides how it looks: all that a renderer sees."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from qops.errors import ATTENTION, CRITICAL, OK

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from qops.errors import Failure

VERDICTS = {"critical": CRITICAL, "warning": ATTENTION, "unknown": ATTENTION, "ok": OK}
"""The verdicts of doctor and health, the worst first, and their exit codes."""
FAIL_ON = ("warning", "critical", "never")


def worst(levels: Iterable[str]) -> str:
    """Return the verdict of several findings' levels; a level that is no verdict does not count."""
    present = set(levels)
    return next((verdict for verdict in VERDICTS if verdict in present), "ok")


def verdict_exit_code(verdict: str, fail_on: str = "warning") -> int:
    """Return the exit code of a verdict: 0 for all that `fail_on` lets pass."""
    if fail_on == "never" or (fail_on == "critical" and verdict != "critical"):
        return OK
    return VERDICTS[verdict]


@dataclass(frozen=True)
class Table:
    """Rows under headings; None in a cell means unknown or not applicable."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    title: str | None = None


@dataclass(frozen=True)
class Report:
    """A result: `document` for machines, `tables` and `lines` for people, and how it ended.

    `failure` is set when the work had begun and could not be finished; it decides the exit code then.
    """

    document: Mapping[str, Any]
    tables: tuple[Table, ...] = ()
    lines: tuple[str, ...] = ()
    exit_code: int = 0
    failure: Failure | None = field(default=None)
