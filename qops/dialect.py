"""SQLAlchemy's MySQL dialect without the questions that it asks the server on every first connection.

qops sets what they are about (character set, SQL mode, isolation level) while it logs in, takes the version from the
server's greeting, and reflects no tables, so nothing depends on how the server compares their names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy.dialects import registry
from sqlalchemy.dialects.mysql.mysqldb import MySQLDialect_mysqldb

if TYPE_CHECKING:
    from collections.abc import Callable

    import sqlalchemy as sa

NAME = "mysql+qops"
registry.register(NAME.replace("+", "."), __name__, "Dialect")


class Dialect(MySQLDialect_mysqldb):
    """The dialect for sessions that `qops.login` has prepared. A hook that SQLAlchemy renames costs a question more."""

    supports_statement_cache = True

    def on_connect(self) -> Callable[[Any], None] | None:  # type: ignore[override]
        """Send nothing: the session's character set is set while logging in."""
        return None

    def get_default_isolation_level(self, dbapi_connection: Any) -> Any:  # noqa: ANN401, ARG002 - as declared there
        """Return what every session of qops is at."""
        return "READ COMMITTED"

    def _get_server_version_info(self, connection: sa.Connection) -> tuple[int, ...]:
        return self._parse_server_version(str(connection.connection.dbapi_connection.get_server_info()))  # type: ignore[union-attr]

    def _get_default_schema_name(self, connection: sa.Connection) -> str | None:  # type: ignore[override]  # noqa: ARG002
        """Return what was set when the session was opened."""
        return self.default_schema_name

    def _detect_sql_mode(self, connection: sa.Connection) -> None:  # noqa: ARG002 - as declared there
        self._sql_mode = ""

    def _detect_casing(self, connection: sa.Connection) -> int:  # noqa: ARG002 - as declared there
        return 0
