"""DDL as SQLAlchemy elements: MySQL's clauses that SQLAlchemy has no words for, and one way to turn all into text.

The text is what `--dry-run` prints and what is sent, the same in both cases. Every name is in backticks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy.dialects import mysql
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.schema import ExecutableDDLElement
from sqlalchemy.types import UserDefinedType

from qops.columns import quoted
from qops.order import direction

if TYPE_CHECKING:
    from collections.abc import Sequence

    import sqlalchemy as sa

ENGINE = "InnoDB"
CHARSET, COLLATION = "utf8mb4", "utf8mb4_0900_ai_ci"

INSTANT = ("ALGORITHM=INSTANT",)  # LOCK=NONE beside it is an error (1221)
ONLINE = ("ALGORITHM=INPLACE", "LOCK=NONE")
OFFLINE: tuple[str, ...] = ()

# A paramstyle without percent signs, because what is compiled here is read by people and by the server as it is.
_DIALECT: Any = mysql.dialect(paramstyle="named")


class Verbatim(UserDefinedType[Any]):
    """A column type in the server's own words: `column_type` of information_schema, with its collation.

    NULL is said aloud, because a TIMESTAMP without it is NOT NULL where explicit_defaults_for_timestamp is off.
    """

    cache_ok = True

    def __init__(
        self,
        column_type: str,
        collation: str | None = None,
        nullable: bool = False,  # noqa: FBT001, FBT002 - SQLAlchemy copies a type by its positional arguments
        timestamp_digits: int | None = None,
    ) -> None:
        self.column_type, self.collation = column_type, collation
        self.nullable, self.timestamp_digits = nullable, timestamp_digits

    def with_null(self, nullable: bool) -> Verbatim:  # noqa: FBT001 - the one thing that changes
        """Return this type with or without NULL."""
        return Verbatim(self.column_type, self.collation, nullable, self.timestamp_digits)

    def get_col_spec(self, **_options: Any) -> str:  # noqa: ANN401 - SQLAlchemy's protocol
        """Return the type and what belongs to it; a collation implies its character set."""
        collation = f" COLLATE {self.collation}" if self.collation else ""
        return f"{self.column_type}{collation}{' NULL' if self.nullable else ''}"


class Key:
    """An index by name: columns, each possibly `.desc()`."""

    def __init__(self, name: str, parts: Sequence[sa.ColumnElement[Any]], *, unique: bool = False) -> None:
        self.name, self.parts, self.unique = name, tuple(parts), unique

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns, in lower case as MySQL compares them."""
        return tuple(direction(part)[0].lower() for part in self.parts)

    def __str__(self) -> str:
        return ", ".join(f"{name} DESC" if descending else name for name, descending in map(direction, self.parts))


class CreateTable(ExecutableDDLElement):
    """CREATE TABLE IF NOT EXISTS with its keys, engine and character set: whole or not at all (atomic DDL)."""

    def __init__(self, table: sa.Table, keys: Sequence[Key] = ()) -> None:
        self.table, self.keys = table, tuple(keys)


class AddColumn(ExecutableDDLElement):
    """ALTER TABLE … ADD COLUMN, at the end."""

    def __init__(self, column: sa.Column[Any], clauses: tuple[str, ...]) -> None:
        self.column, self.clauses = column, clauses


class ModifyColumn(AddColumn):
    """ALTER TABLE … MODIFY COLUMN; it restates the whole definition."""


class CreateIndex(ExecutableDDLElement):
    """CREATE [UNIQUE] INDEX: it needs the INDEX privilege alone, ADD INDEX would need ALTER."""

    def __init__(self, table: sa.Table, key: Key, clauses: tuple[str, ...]) -> None:
        self.table, self.key, self.clauses = table, key, clauses


class AddPrimaryKey(ExecutableDDLElement):
    """ALTER TABLE … ADD PRIMARY KEY."""

    def __init__(self, column: sa.Column[Any], clauses: tuple[str, ...]) -> None:
        self.column, self.clauses = column, clauses


class ShowIndex(ExecutableDDLElement):
    """Make an invisible index visible; metadata only."""

    def __init__(self, table: sa.Table, name: str, clauses: tuple[str, ...]) -> None:
        self.table, self.name, self.clauses = table, name, clauses


class ConvertEngine(ExecutableDDLElement):
    """Rebuild a table as InnoDB; it copies and blocks writers."""

    def __init__(self, table: sa.Table) -> None:
        self.table = table


class Use(ExecutableDDLElement):
    """USE, so that a script means the schema that qops means."""

    def __init__(self, schema: str) -> None:
        self.schema = schema


def to_sql(element: ExecutableDDLElement) -> str:
    """Return the statement with its semicolon, ready to be pasted into a client."""
    return f"{str(element.compile(dialect=_DIALECT)).strip()};"


def _parts(key: Key, compiler: Any) -> str:  # noqa: ANN401 - SQLAlchemy's protocol
    quote = compiler.preparer.quote
    names = [f"{quote(quoted(name))}{' DESC' if down else ''}" for name, down in map(direction, key.parts)]
    return f"({', '.join(names)})"


@compiles(CreateTable)
def _create_table(element: CreateTable, compiler: Any, **_: Any) -> str:  # noqa: ANN401
    table, preparer = element.table, compiler.preparer
    lines = [compiler.get_column_specification(column) for column in table.columns]
    lines.append(compiler.process(table.primary_key))
    for key in element.keys:
        kind = "UNIQUE KEY" if key.unique else "KEY"
        lines.append(f"{kind} {preparer.quote(quoted(key.name))} {_parts(key, compiler)}")
    body = ",\n  ".join(lines)
    return (
        f"CREATE TABLE IF NOT EXISTS {preparer.format_table(table)} (\n  {body}\n) "
        f"ENGINE={ENGINE} DEFAULT CHARSET={CHARSET} COLLATE={COLLATION}"
    )


def _alter(table: sa.Table, clause: str, clauses: tuple[str, ...], compiler: Any) -> str:  # noqa: ANN401
    return f"ALTER TABLE {compiler.preparer.format_table(table)} {', '.join((clause, *clauses))}"


@compiles(AddColumn)
def _add_column(element: AddColumn, compiler: Any, **_: Any) -> str:  # noqa: ANN401
    verb = "MODIFY" if isinstance(element, ModifyColumn) else "ADD"
    clause = f"{verb} COLUMN {compiler.get_column_specification(element.column)}"
    return _alter(element.column.table, clause, element.clauses, compiler)


@compiles(CreateIndex)
def _create_index(element: CreateIndex, compiler: Any, **_: Any) -> str:  # noqa: ANN401
    preparer, key = compiler.preparer, element.key
    head = f"CREATE {'UNIQUE ' if key.unique else ''}INDEX {preparer.quote(quoted(key.name))}"
    return " ".join((head, "ON", preparer.format_table(element.table), _parts(key, compiler), *element.clauses))


@compiles(AddPrimaryKey)
def _add_primary_key(element: AddPrimaryKey, compiler: Any, **_: Any) -> str:  # noqa: ANN401
    name = compiler.preparer.quote(element.column.name)
    return _alter(element.column.table, f"ADD PRIMARY KEY ({name})", element.clauses, compiler)


@compiles(ShowIndex)
def _show_index(element: ShowIndex, compiler: Any, **_: Any) -> str:  # noqa: ANN401
    clause = f"ALTER INDEX {compiler.preparer.quote(quoted(element.name))} VISIBLE"
    return _alter(element.table, clause, element.clauses, compiler)


@compiles(ConvertEngine)
def _convert_engine(element: ConvertEngine, compiler: Any, **_: Any) -> str:  # noqa: ANN401
    return _alter(element.table, f"ENGINE={ENGINE}", OFFLINE, compiler)


@compiles(Use)
def _use(element: Use, compiler: Any, **_: Any) -> str:  # noqa: ANN401
    return f"USE {compiler.preparer.quote(quoted(element.schema))}"


def type_sql(kind: Any) -> str:  # noqa: ANN401 - SQLAlchemy's types
    """Return a type as DDL writes it."""
    return str(kind.compile(dialect=_DIALECT))


def column_sql(column: sa.Column[Any]) -> str:
    """Return a column of a table as DDL writes it."""
    compiler = _DIALECT.ddl_compiler(_DIALECT, None)
    return str(compiler.get_column_specification(column))
