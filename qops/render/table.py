"""Tables for people and for cron mail: no colour, no truncation, one row one line."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from tabulate import tabulate

from qops.render.json import plain
from qops.text import escape

if TYPE_CHECKING:
    from qops.report import Report, Table


def render(report: Report) -> str:
    """Return the report's tables and lines; empty when it has neither."""
    parts = [_table(table) for table in report.tables]
    if report.lines:
        parts.append("\n".join(escape(line) for line in report.lines))
    return "\n\n".join(parts) + "\n" if parts else ""


def _table(table: Table) -> str:
    rows = [[cell(value) for value in row] for row in table.rows]
    text = tabulate(rows, headers=[escape(name) for name in table.columns], tablefmt="simple", disable_numparse=True)
    return f"{escape(table.title)}\n{text}" if table.title else text


def cell(value: Any) -> str:  # noqa: ANN401 - whatever a report holds
    """Return one cell on one line; unknown is a question mark, never a zero or a blank."""
    if value is None:
        return "?"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict) and set(value) == {"at_least"}:
        return f">= {value['at_least']}"
    if isinstance(value, datetime):
        return str(plain(value))
    if isinstance(value, bytes):
        value = plain(value)
    return escape(str(value))
