"""Tables whose rows refer to the queue's, and what a DELETE would do to them.

An account with only SELECT and DELETE on the table sees no foreign key, and ON DELETE CASCADE still deletes the
children: no row in information_schema is not the same as no child. With PROCESS the data dictionary tells all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import exc

from qops.db import DENIED, errno, statement
from qops.errors import Misconfigured, PrivilegeMissing

if TYPE_CHECKING:
    import sqlalchemy as sa

    from qops.db import Server
    from qops.queue import QueueTable


@dataclass(frozen=True)
class Child:
    """A foreign key (`schema/name`) on `child` (`schema/table`) that refers to the queue's table.

    Without either effect it restricts: a job that a child row refers to cannot be deleted.
    """

    name: str
    child: str
    cascades: bool
    sets_null: bool

    @property
    def changes_rows(self) -> bool:
        """Whether deleting a job deletes or changes rows of the child."""
        return self.cascades or self.sets_null

    def __str__(self) -> str:
        effect = "CASCADE" if self.cascades else "SET NULL" if self.sets_null else "RESTRICT"
        return f"{self.child} (constraint {self.name}, ON DELETE {effect})"


@dataclass(frozen=True)
class Children:
    """The children that this account can see; `complete` is False where there may be others."""

    found: tuple[Child, ...]
    complete: bool


def find_children(connection: sa.Connection, schema: str, table: str) -> Children:
    """Return the foreign keys that refer to a table, and whether these are all."""
    names = {"schema": schema, "table": table}
    try:
        return Children(_read(connection, "children", names), complete=True)
    except exc.DBAPIError as error:
        if errno(error) not in DENIED:
            raise
    everything = bool(connection.execute(statement("sees_everything")).scalar())
    return Children(_read(connection, "children_visible", names), everything)


def check_children(
    server: Server,
    connection: sa.Connection,
    queue: QueueTable,
    command: str,
    *,
    allow_cascade: bool | None = None,
    assume_no_children: bool = False,
) -> None:
    """Refuse where deleting rows of a table would delete or change rows of others, or might without being seen to.

    `allow_cascade` None: `command` has no such option. Raises Misconfigured, or PrivilegeMissing where this account
    cannot see all foreign keys.
    """
    children = find_children(connection, queue.schema, queue.table.name)
    touched = [str(child) for child in children.found if child.changes_rows]
    if touched and not allow_cascade:
        wanted = queue.settings.command(f"{command} --allow-cascade")
        raise Misconfigured(
            f"deleting rows of {queue.table.name!r} would delete or change rows of {'; '.join(touched)}, and no "
            "more was deleted; "
            + ("change the constraint first" if allow_cascade is None else f"if that is wanted: {wanted}")
        )
    if not children.complete and not assume_no_children:
        message = (
            f"this account cannot see whether foreign keys refer to {queue.table.name!r}, and a DELETE could cascade; "
            "grant PROCESS, or say that there are none: "
            f"{queue.settings.command(f'{command} --assume-no-children')}"
        )
        raise PrivilegeMissing(server.with_grants(message))


def _read(connection: sa.Connection, query: str, names: dict[str, str]) -> tuple[Child, ...]:
    rows = connection.execute(statement(query), names)
    return tuple(Child(row.name, row.child, bool(row.cascades), bool(row.sets_null)) for row in rows)
