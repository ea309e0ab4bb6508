"""Tables for people and for cron mail: no colour, no truncation, one row one line."""

from __future__ import annotations

import re
from datetime import datetime
from typing import TYPE_CHECKING, Any

from tabulate import tabulate

from qops.render.json import plain

if TYPE_CHECKING:
    from qops.report import Report, Table

# C0 and C1 control characters, DEL, and the marks that change the direction of what follows.
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def render(report: Report) -> str:
    """Return the report's tables and lines; empty when it has neither."""
    parts = [_table(table) for table in report.tables]
    if report.lines:
        parts.append("\n".join(escape(line) for line in report.lines))
    return "\n\n".join(parts) + "\n" if parts else ""


def _table(table: Table) -> str:
    rows = [[cell(value) for value in row] for row in table.rows]
    text = tabulate(rows, headers=table.columns, tablefmt="simple", disable_numparse=True)
    return f"{table.title}\n{text}" if table.title else text


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


def escape(text: str) -> str:
    """Return text with control characters spelled out, so that a job's error cannot drive the terminal."""
    return _UNSAFE.sub(lambda match: match[0].encode("unicode_escape", "surrogatepass").decode(), text)
