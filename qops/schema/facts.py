"""What is there: a table's kind, engine, columns and indexes, as far as this account may see them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import sqlalchemy as sa

from qops.columns import ColumnFact, bare_table, describe
from qops.db import quote_name, statement
from qops.errors import Misconfigured
from qops.indexes import Index, describe_indexes

if TYPE_CHECKING:
    from collections.abc import Mapping

_PLAIN_DEFAULTS = ("CURRENT_TIMESTAMP", "NOW")


@dataclass(frozen=True)
class Definition:
    """What MODIFY COLUMN has to repeat beside type and nullability."""

    default: str | None
    extra: str
    comment: str

    @property
    def repeatable(self) -> bool:
        """Whether qops can say it again exactly: literal defaults and CURRENT_TIMESTAMP, no other attributes."""
        if self.extra == "DEFAULT_GENERATED":
            return (self.default or "").upper().startswith(_PLAIN_DEFAULTS)
        return not self.extra

    def server_default(self) -> str | sa.TextClause | None:
        """Return the default as a column's `server_default`."""
        return sa.text(self.default) if self.default is not None and self.extra else self.default


@dataclass(frozen=True)
class TableFacts:
    """One table. `columns` are in order by their names as stored; none are visible to some accounts."""

    name: str
    engine: str | None
    columns: Mapping[str, ColumnFact]
    definitions: Mapping[str, Definition]
    indexes: tuple[Index, ...]

    def find(self, column: str) -> ColumnFact | None:
        """Return a column by name; MySQL compares column names without case."""
        return next((fact for name, fact in self.columns.items() if name.lower() == column.lower()), None)

    @property
    def primary(self) -> Index | None:
        """The primary key."""
        return next((index for index in self.indexes if index.name == "PRIMARY"), None)

    def identified_by(self, column: str) -> bool:
        """Whether a unique index begins with `column`, so that one job is found by it."""
        return any(i.unique and i.columns[:1] == (column.lower(),) and not i.parts[0].prefix for i in self.indexes)


def current_schema(connection: sa.Connection) -> str:
    """Return the selected database. Raises Misconfigured if none is."""
    schema: str | None = connection.execute(sa.select(sa.func.database())).scalar_one()
    if schema is None:
        raise Misconfigured("no database is selected; name it in the URL (mysql://…/app) or the option file")
    return schema


def read_table(connection: sa.Connection, schema: str, name: str) -> TableFacts | None:
    """Return what is known of a table, None if there is none. Raises Misconfigured for a view."""
    names = {"schema": schema, "table": name}
    row = connection.execute(statement("tables"), names).first()
    if row is None:
        return None
    if row.type != "BASE TABLE":
        raise Misconfigured(
            f"{quote_name(schema)}.{quote_name(name)} is a {row.type.lower()}, not a table; choose another name in "
            "qops.toml ([queues.NAME] table or archive_table)"
        )
    definitions = {
        one.name: Definition(one.default, one.extra, one.comment)
        for one in connection.execute(statement("column_definitions"), names)
    }
    return TableFacts(
        name=row.name,
        engine=row.engine,
        columns=describe(connection, schema, name),
        definitions=definitions,
        indexes=describe_indexes(connection, schema, name),
    )


def demand_columns(connection: sa.Connection, facts: TableFacts) -> None:
    """Raise the server's own refusal where a table is there and its columns may not be seen."""
    if facts.columns:
        return
    connection.execute(sa.select(sa.literal(1)).select_from(bare_table(facts.name)).limit(0))
    raise Misconfigured(f"table {quote_name(facts.name)} has no column that this account may see")
