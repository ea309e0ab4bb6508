"""Sessions and their transactions: who works on the queue's table, and whose transaction has been open for long."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import exc

from qops.db import UNREADABLE, errno, statement
from qops.doctor.facts import Session, Transaction, Unknown
from qops.doctor.history import names_in_digests
from qops.purge import describe_connections, read_transactions

if TYPE_CHECKING:
    import sqlalchemy as sa


def read_open_transactions(connection: sa.Connection, seconds: float) -> tuple[Transaction, ...]:
    """Return the transactions that have been open for so long: by InnoDB, or without its help where it has none.

    Raises the driver's errors.
    """
    try:
        rows = read_transactions(connection, "long_transactions", {"seconds": seconds})
    except exc.DBAPIError as error:
        if errno(error) != UNREADABLE:
            raise
        active = connection.execute(statement("active_transactions"))
        rows = [row for row in active if row.seconds >= seconds]
    present = describe_connections(connection, [row.connection_id for row in rows]) if rows else {}
    return tuple(
        Transaction(
            connection_id=row.connection_id,
            user=present[row.connection_id].user,
            seconds=int(row.seconds),
            isolation=row.isolation_level,
            rows_locked=getattr(row, "rows_locked", None),
            rows_modified=getattr(row, "rows_modified", None),
            statement=row.statement_text or present[row.connection_id].statement,
        )
        for row in rows
        if row.connection_id in present
    )


def read_worker_sessions(connection: sa.Connection, schema: str, table: str) -> tuple[Session, ...] | Unknown:
    """Return the sessions that lately sent a statement about the table, or hold a lock on it; not those of qops.

    Raises the driver's errors.
    """
    if connection.execute(statement("consumers")).scalar() != "YES":
        return Unknown(
            "the server does not keep the statements of its sessions",
            "UPDATE performance_schema.setup_consumers SET enabled = 'YES' WHERE name = 'events_statements_history';",
        )
    names = {"table": table, **names_in_digests(connection, schema, table)}
    return tuple(
        Session(
            row.connection_id,
            row.user,
            (row.transaction_isolation or row.session_isolation or "unknown").replace("-", " "),
        )
        for row in connection.execute(statement("worker_sessions"), names)
    )
