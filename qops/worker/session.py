"""A worker's own connection: each statement is compiled once and sent through the driver's cursor.

SQLAlchemy makes the SQL and opens the connection (so it has the session settings of qops, also after it was lost);
it is not asked again for every execution, because that costs a claim more than the network does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from qops.db import require_read_committed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import sqlalchemy as sa
    from sqlalchemy.engine import Dialect
    from sqlalchemy.sql.compiler import SQLCompiler

    from qops.db import Server


LIST = "ids"  # the parameter that is a list


@dataclass(frozen=True)
class _Text:
    """What the driver is given: the text, its parameters in their order, and the names of a list's elements."""

    sql: str
    names: tuple[str, ...]
    elements: tuple[str, ...] = ()


class Prepared:
    """A compiled statement. One with a list of ids is written once for each length that the list has had."""

    def __init__(self, compiled: SQLCompiler) -> None:
        self._compiled = compiled
        self._fixed = {name: value for name, value in compiled.params.items() if not compiled.binds[name].required}
        plain = _Text(compiled.string, tuple(compiled.positiontup or ()))
        self._texts = {} if LIST in compiled.binds else {0: plain}

    def render(self, values: Mapping[str, Any]) -> tuple[str, Sequence[Any]]:
        """Return text and arguments for the driver."""
        ids = values.get(LIST, ())
        text = self._texts.get(len(ids)) or self._write(len(ids))
        given: dict[str, Any] = {**self._fixed, **values}
        if ids:
            given |= zip(text.elements, ids, strict=True)
        return text.sql, [given[name] for name in text.names]

    def _write(self, length: int) -> _Text:
        state = self._compiled.construct_expanded_state({**dict.fromkeys(self._compiled.params), LIST: [0] * length})
        elements = tuple(state.parameter_expansion[LIST])
        text = self._texts[length] = _Text(state.statement, tuple(state.positiontup or ()), elements)
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
        cursor = (self._link or self._open()).cursor
        cursor.execute(*prepared.render(values))
        rows: Sequence[tuple[Any, ...]] = cursor.fetchall()
        return rows

    def run(self, prepared: Prepared, **values: Any) -> int:  # noqa: ANN401 - a column's value
        """Run a statement and return the number of rows it matched (SQLAlchemy asks the server for matched rows)."""
        return int((self._link or self._open()).cursor.execute(*prepared.render(values)))

    def insert(self, prepared: Prepared, **values: Any) -> int:  # noqa: ANN401 - a column's value
        """Run an INSERT and return the AUTO_INCREMENT value that it made, 0 if it made none."""
        cursor = (self._link or self._open()).cursor
        cursor.execute(*prepared.render(values))
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
        self._link = _Link(connection, driver, cursor)
        return self._link
