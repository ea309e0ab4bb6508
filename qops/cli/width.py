"""Making a table fit a terminal. Where there is none every value is shown in full."""

from __future__ import annotations

import shutil
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from qops.report import Table

NARROWEST = 12
_GAP, _HEADING = 2, 2  # between columns, and what a heading gets besides its letters


def fit(table: Table) -> Table:
    """Return `table` as it is; where stdout is a terminal, without its empty columns and with its long cells cut."""
    if not sys.stdout.isatty():
        return table
    from qops.render.table import cell

    kept = [n for n, _ in enumerate(table.columns) if any(row[n] is not None for row in table.rows)] or [0]
    columns = tuple(table.columns[n] for n in kept)
    rows = [[cell(row[n]) for n in kept] for row in table.rows]
    fewest = [len(name) + _HEADING for name in columns]
    widest = [max(map(len, column)) for column in zip(columns, *rows, strict=True)]
    widths = _shrink(list(map(max, widest, fewest)), fewest, shutil.get_terminal_size().columns)
    return replace(table, columns=columns, rows=tuple(tuple(map(_cut, row, widths)) for row in rows))


def _shrink(widths: list[int], fewest: list[int], available: int) -> list[int]:
    """Take from the widest until all fit, or none can become narrower."""
    while sum(widths) + _GAP * (len(widths) - 1) > available:
        n = max(range(len(widths)), key=lambda n: widths[n] - fewest[n])
        if widths[n] <= max(fewest[n], NARROWEST):
            break
        widths[n] -= 1
    return widths


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"
