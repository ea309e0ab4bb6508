"""What restore sends: one archived job, locked by id, copied back as pending, compared, deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from qops.statements.common import cleared, primary_hint, same_bytes

if TYPE_CHECKING:
    from qops.queue import QueueTable


def fresh(queue: QueueTable) -> dict[str, Any]:
    """Return what a job that is brought back has of its own, by column: pending, nobody's, unfinished, never tried."""
    roles: dict[str, Any] = {
        "status": queue.value("pending"),
        **cleared(queue, "claimed_by", "lease_until", "finished_at"),
    }
    if queue.has("attempts"):
        roles["attempts"] = sa.literal(0)
    values = {queue.columns[role].name: value for role, value in roles.items()}
    return {name: value if isinstance(value, sa.ColumnElement) else sa.literal(value) for name, value in values.items()}


def kept(queue: QueueTable) -> list[str]:
    """Return the columns that a job brings back from the archive as they are."""
    own = fresh(queue)
    return [name for name, fact in queue.facts.items() if not fact.generated and name not in own]


def lock_archived(archive: QueueTable, id_: Any) -> sa.Select[Any]:  # noqa: ANN401 - whatever the id column holds
    """Lock one archived job at once or fail (3572)."""
    return sa.select(archive.id).where(archive.id == id_).with_for_update(nowait=True)


def look_for(table: QueueTable, id_: Any) -> sa.Select[Any]:  # noqa: ANN401 - whatever the id column holds
    """Read a job's id, without a lock."""
    return sa.select(table.id).where(table.id == id_)


def copy_back(queue: QueueTable, archive: QueueTable, id_: Any) -> sa.Insert:  # noqa: ANN401
    """Copy one locked job into the queue, inside the server, by an explicit list of columns."""
    same, own = kept(queue), fresh(queue)
    there = _columns(archive)
    row = sa.select(*(there[name.lower()] for name in same), *own.values()).where(archive.id == id_)
    return sa.insert(queue.table).from_select([*same, *own], row)


def unchanged(queue: QueueTable, archive: QueueTable, id_: Any) -> sa.Select[Any]:  # noqa: ANN401
    """Say whether a copy is equal, byte by byte, to the archived job in all that it keeps; no row: there is none."""
    there = _columns(archive)
    pairs = [(queue.table.columns[name], there[name.lower()]) for name in kept(queue)]
    same = sa.and_(
        *(same_bytes(mine, theirs, queue.facts[mine.name], archive.facts[theirs.name]) for mine, theirs in pairs)
    )
    joined = queue.table.join(archive.table, queue.id == archive.id)
    pending = queue.columns["status"] == queue.value("pending")
    return sa.select(sa.and_(same, pending)).select_from(joined).where(queue.id == id_)


def delete_archived(archive: QueueTable, id_: Any) -> sa.Delete:  # noqa: ANN401 - whatever the id column holds
    """Delete one locked job from the archive."""
    return sa.delete(archive.table).where(archive.id == id_).prefix_with(*primary_hint(archive))


def _columns(table: QueueTable) -> dict[str, sa.Column[Any]]:
    return {column.name.lower(): column for column in table.table.columns}
