"""The indexes of a table as information_schema describes them, and which of them serve a walk.

SQLAlchemy's inspector drops the direction of a key part, so it is read here. A part of a functional index has
no column; a prefix part cannot give an order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from qops.db import statement

if TYPE_CHECKING:
    from collections.abc import Sequence

    import sqlalchemy as sa


@dataclass(frozen=True)
class IndexPart:
    """One key part: its column (None for an expression), direction, and whether only a prefix is indexed."""

    column: str | None
    descending: bool
    prefix: bool


@dataclass(frozen=True)
class Index:
    """One index. Only a visible one is used by the optimizer."""

    name: str
    unique: bool
    visible: bool
    parts: tuple[IndexPart, ...]

    @property
    def columns(self) -> tuple[str | None, ...]:
        """The key parts' columns, in lower case as MySQL compares them."""
        return tuple(part.column.lower() if part.column else None for part in self.parts)

    @property
    def order(self) -> list[tuple[str, bool]]:
        """The parts by which it can be walked, as (column in lower case, descending): up to an expression or prefix."""
        walkable: list[tuple[str, bool]] = []
        for part in self.parts:
            if part.column is None or part.prefix:
                break
            walkable.append((part.column.lower(), part.descending))
        return walkable

    def begins_with(self, *columns: str) -> bool:
        """Whether it is visible and its first parts are whole `columns`, in this order."""
        head = self.parts[: len(columns)]
        return (
            self.visible
            and self.columns[: len(columns)] == tuple(column.lower() for column in columns)
            and not any(part.prefix for part in head)
        )


def gives_order(index: Index, primary: Index | None, fixed: str, wanted: Sequence[tuple[str, bool]]) -> bool:
    """Whether `index`, were it visible, gives the rows with one value of column `fixed` in the order `wanted`.

    In either direction. InnoDB appends the primary key to every secondary index, and the optimizer knows (index
    extensions).
    """
    parts = index.order
    if len(parts) == len(index.parts) and primary:
        names = {name for name, _ in parts}
        parts += [part for part in primary.order if part[0] not in names]
    if not parts or parts[0][0] != fixed.lower():
        return False
    head = parts[1 : 1 + len(wanted)]
    forward = [(name.lower(), descending) for name, descending in wanted]
    return head in (forward, [(name, not descending) for name, descending in forward])


def describe_indexes(connection: sa.Connection, schema: str, table: str) -> tuple[Index, ...]:
    """Return the B-tree indexes of a table, PRIMARY first, as far as this account may see them."""
    return describe_indexes_of_both(connection, schema, table, table)[0]


def describe_indexes_of_both(
    connection: sa.Connection, schema: str, table: str, other: str
) -> tuple[tuple[Index, ...], tuple[Index, ...]]:
    """Return what `describe_indexes` does, of two tables with one question."""
    found: tuple[dict[str, Index], dict[str, Index]] = ({}, {})
    for row in connection.execute(statement("indexes"), {"schema": schema, "table": table, "other": other}):
        part = IndexPart(row.column_name, row.direction == "D", row.prefix is not None)
        indexes = found[row.place - 1]
        known = indexes.get(row.name)
        parts = (*known.parts, part) if known else (part,)
        indexes[row.name] = Index(row.name, not row.non_unique, row.visible == "YES", parts)
    mine, theirs = (tuple(sorted(each.values(), key=lambda index: index.name != "PRIMARY")) for each in found)
    return mine, theirs
