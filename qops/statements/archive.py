"""What the archiver sends besides its walk: copies and deletes of exactly the ids that it holds locked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from qops.statements.common import by_ids, by_primary_key, choose_rows, free_rows, same_bytes
from qops.statements.walk import Walk, force_index, selection

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qops.queue import QueueTable


def copy_ids(queue: QueueTable, ids: Sequence[Any]) -> sa.Insert:
    """Copy exactly these locked rows to the archive, inside the server, by an explicit list of columns."""
    return _into_archive(queue, choose_rows(queue, _copied(queue), ids))


def lock_and_copy(queue: QueueTable, walk: Walk, ids: Sequence[Any]) -> sa.Insert:
    """Lock and copy in one statement those of `ids` that still meet the walk's predicate and that nobody else holds.

    Which ones these were it does not tell, but how many: where it is all of them, they are known.
    """
    return _into_archive(queue, free_rows(queue, _copied(queue).where(selection(queue, walk)), ids))


def _copied(queue: QueueTable) -> sa.Select[Any]:
    return by_primary_key(sa.select(*(queue.table.columns[name] for name in queue.copied)), queue)


def _into_archive(queue: QueueTable, rows: sa.Select[Any]) -> sa.Insert:
    return sa.insert(queue.archive).from_select(list(queue.copied), rows)


def count_archived(queue: QueueTable, ids: Sequence[Any]) -> sa.Select[Any]:
    """Count those of `ids` that the archive holds."""
    return sa.select(sa.func.count()).select_from(queue.archive).where(by_ids(queue, ids, queue.archive))


def held(queue: QueueTable, ids: Sequence[Any]) -> sa.Select[Any]:
    """Return those of `ids` that the archive holds."""
    joined = queue.table.join(queue.archive, queue.id == queue.archive.columns[queue.id.name])
    return by_primary_key(sa.select(queue.id).select_from(joined).where(by_ids(queue, ids)), queue)


def fingerprint(queue: QueueTable, ids: Sequence[Any]) -> sa.Select[Any]:
    """Sum up what the archive holds of `ids`, column by column, to see whether anything changes it meanwhile."""
    columns = [queue.archive.columns[name] for name in queue.copied]
    values: list[sa.ColumnElement[Any]] = [sa.func.count()]
    for column in columns:
        values += [sa.func.count(column), sa.func.sum(sa.func.crc32(column))]
    return sa.select(*values).select_from(queue.archive).where(by_ids(queue, ids, queue.archive))


def twins(queue: QueueTable, ids: Sequence[Any]) -> sa.Select[Any]:
    """Return (id, same) for those of `ids` that the archive already holds; `same` is identical byte by byte.

    Text is compared as bytes, because a collation calls different values equal; NULL equals NULL. The copies are
    locked against change, so that none is gone before its twin is deleted.
    """
    pairs = [(queue.table.columns[name], queue.archive.columns[name]) for name in queue.copied]
    same = sa.and_(*(same_bytes(mine, theirs, queue.facts[mine.name]) for mine, theirs in pairs))
    joined = queue.table.join(queue.archive, queue.id == queue.archive.columns[queue.id.name])
    query = sa.select(queue.id, same.label("same")).select_from(joined).where(by_ids(queue, ids))
    return by_primary_key(query, queue).with_for_update(read=True, of=queue.archive)


def count_undated(queue: QueueTable, walk: Walk, bound: int) -> sa.Select[Any]:
    """Count, up to `bound`, the rows in the walk's state that have no finish time."""
    rows = sa.select(sa.literal(1)).where(queue.columns["status"] == walk.value, queue.columns["finished_at"].is_(None))
    bounded = force_index(rows.limit(bound), queue, walk.index).subquery()
    return sa.select(sa.func.count()).select_from(bounded)


def finish_edge(queue: QueueTable, walk: Walk, *, newest: bool) -> sa.Select[Any]:
    """Return the oldest or newest finish time among the rows that a run would move, read at the index's end."""
    finished = queue.columns["finished_at"]
    query = sa.select(finished).where(selection(queue, walk), finished.is_not(None))
    return force_index(query.order_by(finished.desc() if newest else finished).limit(1), queue, walk.index)
