"""A worker's own connection: each statement is compiled once and sent through the driver's cursor.

SQLAlchemy makes the SQL and opens the connection (so it has the session settings of qops, also after it was lost);
it is not asked again for every execution, because that costs a claim more than the network does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from qops.db import require_read_committed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import sqlalchemy as sa
    from sqlalchemy.engine import Dialect
    from sqlalchemy.sql.compiler import SQLCompiler

    from qops.db import Server


LIST = "ids"  # the parameter that is a list


@dataclass(frozen=True)
class _Text:
    """What the driver is given: the text, its parameters in their order, and the names of a list's elements."""

    sql: bytes
    names: tuple[str, ...]
    elements: tuple[str, ...] = ()


class Prepared:
    """A compiled statement. Its fixed values are written into it at its first use, and a list for each length."""

    def __init__(self, compiled: SQLCompiler) -> None:
        self._compiled = compiled
        self._fixed = {name: value for name, value in compiled.params.items() if not compiled.binds[name].required}
        self._texts: dict[int, _Text] = {}

    def render(self, literal: Callable[[Any], bytes], values: Mapping[str, Any]) -> tuple[bytes, Sequence[Any]]:
        """Return text and arguments for the driver; `literal` is the driver's way to write a value."""
        ids = values.get(LIST, ())
        text = self._texts.get(len(ids)) or self._write(literal, len(ids))
        given = {**values, **dict(zip(text.elements, ids, strict=True))} if ids else values
        return text.sql, [given[name] for name in text.names]

    def _write(self, literal: Callable[[Any], bytes], length: int) -> _Text:
        sql, names = self._compiled.string, tuple(self._compiled.positiontup or ())
        elements: tuple[str, ...] = ()
        if length:
            filled = {**dict.fromkeys(self._compiled.params), LIST: [0] * length}
            state = self._compiled.construct_expanded_state(filled)
            sql, names = state.statement, tuple(state.positiontup or ())
            elements = tuple(state.parameter_expansion[LIST])
        # Percent signs are doubled, as they are in `sql`, because the driver formats the result once more.
        written = [literal(self._fixed[n]).replace(b"%", b"%%") if n in self._fixed else b"%s" for n in names]
        template = sql.encode().replace(b"%%", b"%%%%") % tuple(written)
        text = _Text(template, tuple(name for name in names if name not in self._fixed), elements)
        self._texts[length] = text
        return text


def prepare(statement: sa.Executable, dialect: Dialect) -> Prepared:
    """Compile a statement for `dialect`; bound parameters without a value are given at every execution."""
    compiled: Any = statement.compile(dialect=dialect)  # type: ignore[attr-defined]
    return Prepared(compiled)


@dataclass(frozen=True)
class _Link:
    """One connection as SQLAlchemy sees it, and underneath, as the driver does."""

    connection: sa.Connection
    driver: Any
    cursor: Any
    literal: Callable[[Any], bytes]


class Session:
    """One connection, opened when it is first needed and again after it was lost. Not for several threads."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._link: _Link | None = None

    @property
    def connection(self) -> sa.Connection:
        """The connection as SQLAlchemy's, in the same transaction; opens it if need be."""
        return (self._link or self._open()).connection

    def query(self, prepared: Prepared, **values: Any) -> Sequence[tuple[Any, ...]]:  # noqa: ANN401 - a column's value
        """Run a query and return its rows."""
        link = self._link or self._open()
        cursor = link.cursor
        cursor.execute(*prepared.render(link.literal, values))
        rows: Sequence[tuple[Any, ...]] = cursor.fetchall()
        return rows

    def run(self, prepared: Prepared, **values: Any) -> int:  # noqa: ANN401 - a column's value
        """Run a statement and return the number of rows it matched (SQLAlchemy asks the server for matched rows)."""
        link = self._link or self._open()
        return int(link.cursor.execute(*prepared.render(link.literal, values)))

    def insert(self, prepared: Prepared, **values: Any) -> int:  # noqa: ANN401 - a column's value
        """Run an INSERT and return the AUTO_INCREMENT value that it made, 0 if it made none."""
        link = self._link or self._open()
        cursor = link.cursor
        cursor.execute(*prepared.render(link.literal, values))
        return int(cursor.lastrowid or 0)

    def commit(self) -> None:
        """Commit what is open."""
        link = self._link
        if link is None:
            return
        if link.connection.in_transaction():
            link.connection.commit()
        else:
            link.driver.commit()

    def rollback(self) -> None:
        """Undo what is open."""
        link = self._link
        if link is None:
            return
        if link.connection.in_transaction():
            link.connection.rollback()
        else:
            link.driver.rollback()

    def invalidate(self) -> None:
        """Forget a connection that is broken; the next statement opens another."""
        link, self._link = self._link, None
        if link is not None:
            link.connection.invalidate()
            link.connection.close()

    def close(self) -> None:
        """End the session; the server undoes what is open."""
        link, self._link = self._link, None
        if link is not None:
            link.connection.close()

    def _open(self) -> _Link:
        connection = self._server.engine.connect()
        try:
            driver: Any = connection.connection.driver_connection
            cursor = driver.cursor()
            cursor.execute("SELECT @@transaction_isolation")
            require_read_committed(cursor.fetchone()[0])
        except BaseException:
            connection.invalidate()
            connection.close()
            raise
        self._link = _Link(connection, driver, cursor, driver.literal)
        return self._link
