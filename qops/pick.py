"""The first half of every batch: read the next ids of a walk without locks, then lock exactly those.

Runs inside the caller's transaction. What comes back locked is what the caller acts on, by id.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from qops.statements.walk import Walk, count_meeting, lock_rows, next_keys

if TYPE_CHECKING:
    from collections.abc import Sequence

    import sqlalchemy as sa

    from qops.queue import QueueTable


@dataclass(frozen=True)
class Picked:
    """Rows that are locked now, the id first. `seen` ids were read, up to `key`, where the walk goes on.

    Of the others `locked` are held by somebody else, and `changed` no longer meet the walk's predicate.
    """

    rows: Sequence[sa.Row[Any]] = ()
    seen: int = 0
    key: tuple[Any, ...] | None = None
    locked: int = 0
    changed: int = 0

    @property
    def ids(self) -> list[Any]:
        """The ids of the locked rows, in ascending order."""
        return sorted(row[0] for row in self.rows)

    @property
    def moved(self) -> list[Any]:
        """The ids that a batch moves which acts on all that it locked."""
        return self.ids


@dataclass(frozen=True)
class Found:
    """Ids in ascending order that were read without locks, and the key of the last in the walk's order.

    `keys` are those of all, in that order, where they were kept.
    """

    ids: Sequence[Any] = ()
    key: tuple[Any, ...] | None = None
    keys: Sequence[Sequence[Any]] = ()


def find(connection: sa.Connection, queue: QueueTable, walk: Walk, key: tuple[Any, ...] | None, limit: int) -> Found:
    """Read up to `limit` ids that come after `key` (None: from the start)."""
    keys = connection.execute(next_keys(queue, walk, key, limit)).all()
    return Found(sorted(row[-1] for row in keys), tuple(keys[-1]), keys) if keys else Found()


def lock(
    connection: sa.Connection, queue: QueueTable, walk: Walk, found: Found, *columns: sa.ColumnElement[Any]
) -> Picked:
    """Lock those found ids that still meet the walk's predicate and are free; return them with `columns`."""
    if not found.ids:
        return Picked()
    rows = connection.execute(lock_rows(queue, walk, found.ids, *columns)).all()
    missing = sorted(set(found.ids) - {row[0] for row in rows})
    locked = connection.execute(count_meeting(queue, walk, missing)).scalar_one() if missing else 0
    return Picked(rows, len(found.ids), found.key, locked, len(missing) - locked)


def pick(
    connection: sa.Connection,
    queue: QueueTable,
    walk: Walk,
    key: tuple[Any, ...] | None,
    limit: int,
    *columns: sa.ColumnElement[Any],
) -> Picked:
    """Lock up to `limit` rows that come after `key` (None: from the start) and return them with `columns`."""
    return lock(connection, queue, walk, find(connection, queue, walk, key, limit), *columns)
