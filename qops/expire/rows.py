"""One batch of archived jobs that are past their retention: picked, locked, deleted by exactly those ids, counted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from qops.expire.result import Batch
from qops.isolate import Unequal, each_or_all
from qops.pick import Found, lock, pick
from qops.statements import expire as st
from qops.statements.common import delete_ids
from qops.statements.walk import Past, Walk, choose_walk

if TYPE_CHECKING:
    from collections.abc import Callable

    import sqlalchemy as sa

    from qops.counting import Count
    from qops.queue import QueueTable

ROLE = "finished_at"
UNDATED_BOUND = 10_000
PLAN_BOUND = 100_000  # jobs
PLAN_SLICE = 10_000


def walk_by_age(archive: QueueTable, older_than: float) -> Walk:
    """Return the way to the archived jobs that finished `older_than` seconds ago: by their time, else by id."""
    return choose_walk(archive, None, by=ROLE, past=Past(ROLE, round(older_than * 1_000_000)))


def is_indexed(archive: QueueTable, walk: Walk) -> bool:
    """Whether the walk reads old jobs only; otherwise it reads them all, slice by slice."""
    return walk.steps[0].column is archive.columns[ROLE]


def expire_batch(
    connection: sa.Connection,
    archive: QueueTable,
    walk: Walk,
    key: tuple[Any, ...] | None,
    limit: int,
    check: Callable[[], None],
) -> Batch:
    """Delete up to `limit` old jobs behind `key` inside the caller's transaction; `check` is asked once it locks rows.

    A row that cannot be deleted alone costs only itself. Raises as `check` does: the transaction is then rolled back.
    """
    if is_indexed(archive, walk):
        picked = pick(connection, archive, walk, key, limit, st.dated(archive, ROLE).label("dated"))
        ids = [row[0] for row in picked.rows if row.dated]
        batch = Batch(picked.key, picked.seen, picked.locked)
    else:
        batch, ids = _pick_slice(connection, archive, walk, key, limit)
    batch.ended = batch.seen < limit
    if ids:
        check()
        delete(connection, archive, ids, batch)
    return batch


def _pick_slice(
    connection: sa.Connection, archive: QueueTable, walk: Walk, key: tuple[Any, ...] | None, limit: int
) -> tuple[Batch, list[Any]]:
    """Read the next jobs by id, whatever their age, and lock the old ones among them."""
    rows = _slice(connection, archive, walk, key[0] if key else None, limit)
    old = [id_ for id_, is_old in rows if is_old]
    picked = lock(connection, archive, walk, Found(old))
    undated = sum(is_old is None for _, is_old in rows)
    return Batch((rows[-1][0],) if rows else None, len(rows), picked.locked, undated), picked.ids


def _slice(
    connection: sa.Connection,
    archive: QueueTable,
    walk: Walk,
    after: Any,  # noqa: ANN401 - whatever the id column holds
    limit: int,
) -> list[Any]:
    past = walk.past or Past(ROLE)
    return list(connection.execute(st.read_slice(archive, past, after, limit)).all())


def delete(connection: sa.Connection, table: QueueTable, ids: list[Any], batch: Batch) -> None:
    """Delete locked rows, all or all but those to which something objects, and count them before anything commits."""

    def act(part: list[Any]) -> None:
        gone = connection.execute(delete_ids(table, part)).rowcount
        if gone != len(part):
            raise Unequal(
                f"table {table.table.name!r}: {len(part)} rows were locked and {gone} were deleted, so the batch was "
                "rolled back; look for triggers on it",
                f"{gone} rows were deleted in its place; look for triggers",
            )

    batch.moved = each_or_all(connection, ids, act, lambda id_, why: batch.refused.append((id_, why)))


def count_undated(connection: sa.Connection, archive: QueueTable, walk: Walk) -> Count:
    """Count, up to a bound and by index, archived jobs without a finish time; zero dates are none."""
    query = st.count_timeless(archive, walk, ROLE, UNDATED_BOUND + 1)
    found = int(connection.execute(query).scalar_one())
    return found if found <= UNDATED_BOUND else {"at_least": UNDATED_BOUND}


def plan(connection: sa.Connection, archive: QueueTable, walk: Walk) -> tuple[Count, Count]:
    """Count, up to a bound, the jobs that a run would delete and those without a finish time; takes no lock."""
    if is_indexed(archive, walk):
        past = walk.past or Past(ROLE)
        found = int(connection.execute(st.count_old(archive, walk, past, PLAN_BOUND + 1)).scalar_one())
        undated = count_undated(connection, archive, walk)
        return found if found <= PLAN_BOUND else {"at_least": PLAN_BOUND}, undated
    key: Any = None
    old = without = 0
    while rows := _slice(connection, archive, walk, key, PLAN_SLICE):
        connection.rollback()  # no read view stays open from slice to slice
        old += sum(bool(is_old) for _, is_old in rows)
        without += sum(is_old is None for _, is_old in rows)
        key = rows[-1][0]
        if old > PLAN_BOUND:
            return {"at_least": PLAN_BOUND}, {"at_least": without}
        if len(rows) < PLAN_SLICE:
            break
    return old, without
