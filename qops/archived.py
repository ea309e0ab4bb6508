"""Another table of the queue's schema, its archive above all, seen as a table of jobs: roles, facts, indexes.

What finds, locks and settles rows of the queue then does the same there.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import sqlalchemy as sa

from qops.columns import INTEGERS, bare_table, describe
from qops.db import quote_name, statement
from qops.errors import Misconfigured
from qops.indexes import describe_indexes
from qops.queue import ROLE_TYPES, QueueTable


def view(connection: sa.Connection, queue: QueueTable, table: str) -> QueueTable:
    """Return `table` as one with those of the queue's roles whose columns it has.

    Raises the server's refusal (1146, 1142) where it does not exist or this account may not see it.
    """
    facts = describe(connection, queue.schema, table)
    bare = bare_table(table, facts)
    if not facts:
        connection.execute(sa.select(sa.literal(1)).select_from(bare).limit(0))
    by_lower = {name.lower(): bare.columns[name] for name in facts}
    wanted = {role: by_lower.get(column.name.lower()) for role, column in queue.columns.items()}
    return replace(
        queue,
        table=bare,
        columns={role: column for role, column in wanted.items() if column is not None},
        facts=facts,
        indexes=describe_indexes(connection, queue.schema, table),
    )


def moved_to(connection: sa.Connection, queue: QueueTable, id_: Any) -> str | None:  # noqa: ANN401 - as the id column
    """Say where a job is that the queue does not have; None where its archive, as far as it is seen, has it neither."""
    if queue.id.name not in queue.archive_facts:
        return None
    query = sa.select(sa.literal(1)).where(queue.archive.columns[queue.id.name] == id_)
    return None if connection.execute(query).first() is None else f"it was moved to {queue.archive.name}"


def load_archive(connection: sa.Connection, queue: QueueTable, command: str, *roles: str) -> QueueTable:
    """Return the queue's archive as a table of jobs.

    Raises Misconfigured where it is none that `command` can delete from by id, in transactions, or lacks `roles`.
    """
    queue.require(command, roles=roles)
    archive = view(connection, queue, queue.settings.archive_table)
    name = archive.table.name
    problems = [
        f"it is no InnoDB table but a {row.engine or row.type}"
        for row in connection.execute(statement("tables"), {"schema": queue.schema, "table": name})
        if row.type != "BASE TABLE" or (row.engine or "").lower() != "innodb"
    ]
    if queue.table.name.lower() == name.lower():
        problems.append("it is the queue's own table")
    for role in ("id", *roles):
        column = queue.columns[role].name
        if not archive.has(role):
            problems.append(f"it has no column {column!r} for the role {role!r}")
        elif archive.facts[archive.columns[role].name].data_type not in ROLE_TYPES[role]:
            kind = archive.facts[archive.columns[role].name].column_type
            problems.append(f"its column {column!r} is {kind}, which cannot be the role {role!r}")
    if archive.has("id"):
        problems += _identity(queue, archive)
    if problems:
        raise Misconfigured(
            f"{command} cannot work on the archive table {name!r}: {'; '.join(problems)}; see "
            f"{queue.settings.command('init --dry-run')} for what to change"
        )
    return archive


def _identity(queue: QueueTable, archive: QueueTable) -> list[str]:
    """Say why a row of the archive cannot be locked by its id alone, or not be found by an id of the queue."""
    primary = next((index for index in archive.indexes if index.name == "PRIMARY"), None)
    if primary is None or primary.columns != (archive.id.name.lower(),):
        return [f"its primary key is not {quote_name(archive.id.name)}"]
    mine, theirs = queue.facts[queue.id.name], archive.facts[archive.id.name]
    # Between a number and a text MySQL compares as floating point: '12abc' equals 12.
    if (mine.data_type in INTEGERS) != (theirs.data_type in INTEGERS):
        return [f"its column {theirs.name!r} is {theirs.column_type}, and {mine.column_type} in the queue"]
    return []
