"""Before the first row: whether the archive table can take these rows unchanged."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa

from qops.children import find_children
from qops.errors import Misconfigured, PrivilegeMissing

if TYPE_CHECKING:
    from qops.archive.result import Options
    from qops.columns import ColumnFact
    from qops.db import Server
    from qops.queue import QueueTable


def check_tables(connection: sa.Connection, queue: QueueTable) -> None:
    """Raise Misconfigured naming every difference between the two tables that could lose or change data."""
    if not queue.archive_facts:
        # Either it does not exist or this account may not know: the server's answer tells which.
        connection.execute(sa.select(sa.literal(1)).select_from(queue.archive).limit(0))
    if queue.settings.archive_by == "trigger":
        return
    differences = [
        difference
        for name, fact in queue.facts.items()
        if (difference := _difference(fact, queue.archive_facts.get(name)))
    ]
    if differences:
        raise Misconfigured(
            f"archive table {queue.archive.name!r} cannot take the rows of {queue.table.name!r} unchanged: "
            f"{'; '.join(differences)}; nothing was moved; see qops init --dry-run for the ALTER"
        )


def _difference(source: ColumnFact, target: ColumnFact | None) -> str | None:
    """Say what keeps a column from being copied unchanged; None if nothing does."""
    if target is None:
        return f"column {source.name!r} is missing"
    if target.generated:
        return None
    if source.nullable and not target.nullable:
        return f"column {source.name!r} is NOT NULL there"
    if source.column_type != target.column_type:
        return f"column {source.name!r} is {target.column_type} there and {source.column_type} here"
    if source.collation != target.collation:
        return f"column {source.name!r} is {target.collation} there and {source.collation} here"
    return None


def check_children(server: Server, connection: sa.Connection, queue: QueueTable, options: Options) -> None:
    """Refuse a run whose deletes would delete or change rows of other tables, or might without being seen to.

    Raises Misconfigured naming the children, PrivilegeMissing where this account cannot see all of them.
    """
    children = find_children(connection, queue.schema, queue.table.name)
    touched = [str(child) for child in children.found if child.changes_rows]
    if touched and not options.allow_cascade:
        raise Misconfigured(
            f"deleting rows of {queue.table.name!r} would delete or change rows of {'; '.join(touched)}, which are "
            "not archived; nothing was moved; if that is wanted: qops archive --allow-cascade"
        )
    if not children.complete and not options.assume_no_children:
        message = (
            f"this account cannot see whether foreign keys refer to {queue.table.name!r}, and a DELETE could cascade; "
            "grant PROCESS, or say that there are none: qops archive --assume-no-children"
        )
        raise PrivilegeMissing(server.with_grants(message))
