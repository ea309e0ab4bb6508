"""The demo's own schema, and the counts by which it checks what qops says."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import sqlalchemy as sa

from qops.db import open_server
from qops.settings import Flags, load

if TYPE_CHECKING:
    from collections.abc import Iterator

    import dev.server

SCHEMA = "qops_demo"
DROP_WAIT_SECONDS = 30


@dataclass(frozen=True)
class Database:
    """The schema `qops_demo` on a server. `url` has no password; `password` is what the server's URL came with."""

    connection: sa.Connection
    url: str
    password: str | None

    def run(self, sql: str, **values: Any) -> list[Any]:  # noqa: ANN401 - whatever SQL takes
        """Run one statement in a transaction of its own and return its rows."""
        result = self.connection.execute(sa.text(sql), values)
        return [tuple(row) for row in result] if result.returns_rows else []

    def number(self, sql: str, **values: Any) -> int:  # noqa: ANN401 - as above
        """Run a query for one number."""
        return int(self.run(sql, **values)[0][0])

    def states(self) -> dict[str, int]:
        """Return how many jobs the queue's table has in each state."""
        return dict(self.run("SELECT status, COUNT(*) FROM jobs GROUP BY status"))


@contextmanager
def fresh(server: dev.server.Server) -> Iterator[Database]:
    """Drop the schema of an earlier demo, create it anew, and give a session in it."""
    address = urlsplit(server.url)
    login, _, place = address.netloc.rpartition("@")
    user = login.partition(":")[0]
    url = address._replace(netloc=f"{user}@{place}" if user else place, path=f"/{SCHEMA}").geturl()
    settings = load(Flags(url=server.url), {}).database
    with open_server(settings).observe() as connection:
        # A session of an interrupted demo may still hold a table.
        connection.execute(sa.text("SET SESSION lock_wait_timeout = :seconds"), {"seconds": DROP_WAIT_SECONDS})
        for sql in ("DROP DATABASE IF EXISTS {}", "CREATE DATABASE {}", "USE {}"):
            connection.execute(sa.text(sql.format(SCHEMA)))
        yield Database(connection, url, settings.password.reveal() if settings.password else None)
