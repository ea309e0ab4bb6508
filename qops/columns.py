"""A table's columns as information_schema describes them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import sqlalchemy as sa
from sqlalchemy.sql.elements import quoted_name

from qops.db import statement

if TYPE_CHECKING:
    from collections.abc import Mapping

INTEGERS = frozenset({"tinyint", "smallint", "mediumint", "int", "bigint"})
TEXTS = frozenset({"char", "varchar", "tinytext", "text", "mediumtext", "longtext"})
TIMES = frozenset({"timestamp", "datetime"})
_LABEL = re.compile(r"'((?:[^'\\]|''|\\.)*)'", re.DOTALL)
_ESCAPED = re.compile(r"''|\\(.)", re.DOTALL)
_ESCAPES = {"0": "\0", "n": "\n", "r": "\r"}


class Name(quoted_name):
    """A name that SQLAlchemy always puts in quotes, and that can be compared as MySQL does: without case.

    `quoted_name.lower()` returns a name that is to be quoted as it is.
    """

    def lower(self) -> str:
        """Return the name in lower case."""
        return str.lower(self)


def quoted(name: str) -> Name:
    """Return a name that is always written in backticks."""
    return Name(name, quote=True)


@dataclass(frozen=True)
class ColumnFact:
    """One column as information_schema describes it."""

    name: str
    data_type: str
    column_type: str
    nullable: bool
    length: int | None
    precision: int | None
    charset: str | None
    collation: str | None
    extra: str
    filled: bool = True
    expression: str = ""

    @property
    def must_be_given(self) -> bool:
        """Whether an INSERT has to name it: NOT NULL, without a default, not made by the server."""
        return not self.nullable and not self.filled and not self.generated

    @property
    def generated(self) -> bool:
        """Whether the server computes it (`DEFAULT_GENERATED` is an ordinary default)."""
        return "VIRTUAL GENERATED" in self.extra or "STORED GENERATED" in self.extra

    @property
    def labels(self) -> tuple[str, ...]:
        """The members of an ENUM, in order; empty for other types."""
        if self.data_type != "enum":
            return ()
        return tuple(_ESCAPED.sub(_unescape, label) for label in _LABEL.findall(self.column_type))


def _unescape(match: re.Match[str]) -> str:
    return "'" if match[1] is None else _ESCAPES.get(match[1], match[1])


def require_whole(connection: sa.Connection, table: sa.Table) -> None:
    """Raise the server's refusal where this account may not read every column of `table`.

    information_schema leaves out what an account may not see: moving or judging a row by the rest of it would lose
    or overlook something. Opens a transaction.
    """
    connection.execute(sa.select(sa.text("*")).select_from(table).limit(0))


def describe(connection: sa.Connection, schema: str, table: str) -> dict[str, ColumnFact]:
    """Return the columns of a table in order, as far as this account may see them; empty if it sees none."""
    return describe_both(connection, schema, table, table)[0]


def describe_both(
    connection: sa.Connection, schema: str, table: str, other: str
) -> tuple[dict[str, ColumnFact], dict[str, ColumnFact]]:
    """Return what `describe` does, of two tables with one question."""
    facts: tuple[dict[str, ColumnFact], dict[str, ColumnFact]] = ({}, {})
    names = {"schema": schema, "table": table, "other": other}
    for found in connection.execute(statement("columns"), names).mappings():
        row = dict(found)
        known = facts[row.pop("place") - 1]
        fact = ColumnFact(**row | {"nullable": row["nullable"] == "YES", "filled": bool(row["filled"])})
        known[fact.name] = fact
    return facts


def bare_table(name: str, facts: Mapping[str, ColumnFact] | None = None) -> sa.Table:
    """Return a Table with quoted names and no more knowledge of types than binding values needs."""
    return sa.Table(
        quoted(name),
        sa.MetaData(),
        *(sa.Column(quoted(column)) for column in facts or {}),
    )
