"""What hangs on the queue's two tables: foreign keys that refer to them, triggers on them."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from qops.children import Children, find_children
from qops.db import quote_name, statement
from qops.doctor.row_facts import ChildFacts, LinkFacts, TriggerFacts
from qops.doctor.tables import why_hidden
from qops.privileges import Need
from qops.triggers import Trigger, read_triggers, unseen_triggers, why_triggers_refuse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import sqlalchemy as sa

    from qops.queue import QueueTable

PROCESS = Need("PROCESS", "server", "see every foreign key")


def read_links(connection: sa.Connection, queue: QueueTable, grant: Callable[[Need], str]) -> LinkFacts:
    """Return what acts when rows are deleted or change; `grant` writes the GRANT for what may not be seen."""
    return LinkFacts(_children(connection, queue, grant(PROCESS)), _triggers(connection, queue, grant))


def _children(connection: sa.Connection, queue: QueueTable, grant: str) -> ChildFacts:
    cures: list[tuple[str, tuple[str, ...]]] = []
    both = []
    for table in (queue.table.name, queue.archive.name):
        both.append(find_children(connection, queue.schema, table))
        if any(child.changes_rows for child in both[-1].found):
            cures += _restrict(connection, queue.schema, table)
    found = tuple(child for children in both for child in children.found)
    return ChildFacts(Children(found, all(one.complete for one in both)), tuple(cures), grant)


def _restrict(connection: sa.Connection, schema: str, table: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield for each constraint the statements that make it restrict; ON UPDATE stays as it is."""
    rows = connection.execute(statement("child_keys"), {"schema": schema, "table": table}).all()
    for name, group in groupby(rows, lambda row: str(row.name)):
        columns = list(group)
        first = columns[0]
        child = f"{quote_name(first.child_schema)}.{quote_name(first.child_table)}"
        constraint = quote_name(first.constraint_name)
        mine = ", ".join(quote_name(row.column_name) for row in columns)
        theirs = ", ".join(quote_name(row.referenced_name) for row in columns)
        parent = f"{quote_name(schema)}.{quote_name(table)}"
        drop = f"ALTER TABLE {child} DROP FOREIGN KEY {constraint};"
        add = (
            f"ALTER TABLE {child} ADD CONSTRAINT {constraint} FOREIGN KEY ({mine}) REFERENCES {parent} ({theirs}) "
            f"ON UPDATE {first.update_rule} ON DELETE RESTRICT;"
        )
        yield name, (drop, add)


def _triggers(connection: sa.Connection, queue: QueueTable, grant: Callable[[Need], str]) -> TriggerFacts:
    names = {"schema": queue.schema, "table": queue.table.name, "archive": queue.archive.name}
    pair = connection.execute(statement("archive_pair"), names).all()
    found = read_triggers(pair)
    unsure = unseen_triggers(connection, **names)
    if all(row.name.lower() != queue.archive.name.lower() for row in pair) and why_hidden(
        connection, queue.archive.name
    ):
        unsure.append(queue.archive.name)
    mine = queue.table.name.lower()
    hidden = {name: "table" if name.lower() == mine else "archive" for name in unsure}
    archive_by = queue.settings.archive_by
    refusals = tuple(why_triggers_refuse(queue, found, all_seen="table" not in hidden.values()))
    deleting = (one for one in found if one.event == "DELETE" and one.table.lower() == mine)
    return TriggerFacts(
        found=tuple((one, _drop(queue.schema, one)) for one in found),
        filling=tuple(one for one in deleting if archive_by == "trigger" or one.inserts_into(queue.archive.name)),
        refusals=refusals,
        hidden=tuple((name, grant(Need("TRIGGER", on, "see triggers"))) for name, on in hidden.items()),
        archive_by=archive_by,
    )


def _drop(schema: str, trigger: Trigger) -> str:
    return f"DROP TRIGGER {quote_name(schema)}.{quote_name(trigger.name)};"
