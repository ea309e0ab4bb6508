"""What a command has to say, before anybody decides how it looks: all that a renderer sees."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from qops.errors import Failure


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
