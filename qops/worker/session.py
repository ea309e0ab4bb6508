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
    from sqlalchemy.engine import Compiled, Dialect
    from sqlalchemy.sql.compiler import SQLCompiler

    from qops.db import Server


@dataclass(frozen=True)
class Prepared:
    """A compiled statement: its text, the parameters in their order, and those whose values are fixed."""

    sql: str
    names: tuple[str, ...]
    fixed: Mapping[str, Any]
    expanding: SQLCompiler | None = None

    def render(self, values: Mapping[str, Any]) -> tuple[str, Sequence[Any]]:
        """Return text and arguments for the driver; a list of ids becomes as many placeholders."""
        if self.expanding is not None:
            state = self.expanding.construct_expanded_state(dict(values))
            return state.statement, state.positional_parameters
        fixed = self.fixed
        return self.sql, [values[name] if name in values else fixed[name] for name in self.names]


def prepare(statement: sa.Executable, dialect: Dialect) -> Prepared:
    """Compile a statement for `dialect`; bound parameters without a value are given at every execution."""
    compiled: Compiled = statement.compile(dialect=dialect)  # type: ignore[attr-defined]
    text: SQLCompiler = compiled  # type: ignore[assignment]
    fixed = {name: value for name, value in text.params.items() if not text.binds[name].required}
    expanding = text if text.post_compile_params or "POSTCOMPILE" in text.string else None
    return Prepared(text.string, tuple(text.positiontup or ()), fixed, expanding)


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
