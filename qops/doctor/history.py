"""What sessions lately sent to the queue's table: the statements that the server keeps of each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qops.db import quote_name, statement
from qops.doctor.facts import AutocommitClaim, ClockUse, Unknown

if TYPE_CHECKING:
    import sqlalchemy as sa


def read_autocommit_claims(connection: sa.Connection, schema: str, table: str) -> tuple[AutocommitClaim, ...] | Unknown:
    """Return the sessions that read jobs FOR UPDATE in autocommit. Raises the driver's errors."""
    off = [row.remedy for row in connection.execute(statement("transaction_history"))]
    if off:
        return Unknown("the server does not keep the statements and transactions of its sessions", "\n".join(off))
    names = names_in_digests(connection, schema, table)
    return tuple(
        AutocommitClaim(row.connection_id, row.user, row.statement_text)
        for row in connection.execute(statement("autocommit_claims"), names)
    )


def read_clock_uses(connection: sa.Connection, schema: str, table: str) -> tuple[ClockUse, ...] | Unknown:
    """Return the statements with a time in them, and the zones of their sessions. Raises the driver's errors."""
    off = [
        row.remedy for row in connection.execute(statement("transaction_history")) if "transaction" not in row.remedy
    ]
    if off:
        return Unknown("the server does not keep the statements of its sessions", "\n".join(off))
    names = names_in_digests(connection, schema, table)
    return tuple(
        ClockUse(row.connection_id, row.user, row.zone, (row.east, row.east_later), row.statement_text)
        for row in connection.execute(statement("session_clocks"), names)
    )


def names_in_digests(connection: sa.Connection, schema: str, table: str) -> dict[str, str]:
    """Return how the schema and the table are written in digests: the table in quotes, some names also without.

    The foreign ones are what a name looks like that another schema or table stands before.
    """
    quoted = quote_name(table)
    unreserved = connection.execute(statement("unreserved_word"), {"name": table}).first() is not None
    return {
        "schema": schema,
        "quoted": quoted,
        "foreign": f" . {quoted}",
        "bare": f" {table.upper()} " if unreserved else quoted,
        "foreignbare": f" . {table.upper()} " if unreserved else f" . {quoted}",
        "qualified": f"{quote_name(schema)} . {quoted}",
    }
