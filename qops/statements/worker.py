"""What a worker sends: enqueue, claim, heartbeat, complete, fail, promote. Parameters are named at each function.

The files in `sql/` are these statements for the default queue, with user variables as parameters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from qops.columns import bare_table
from qops.db import quote_name
from qops.statements.common import LIMIT, claimable, cleared, set_roles
from qops.statements.walk import Walk, force_index

if TYPE_CHECKING:
    from collections.abc import Mapping

    from qops.queue import QueueTable

ID: sa.BindParameter[Any] = sa.bindparam("id")
IDS: sa.BindParameter[Any] = sa.bindparam("ids", expanding=True)
WORKER: sa.BindParameter[Any] = sa.bindparam("worker")
ATTEMPTS = sa.bindparam("attempts", type_=sa.Integer())
ERROR: sa.BindParameter[Any] = sa.bindparam("error")
LEASE = sa.bindparam("lease_microseconds", type_=sa.BigInteger())
BACKOFF = sa.bindparam("backoff_microseconds", type_=sa.BigInteger())
DELAY = sa.bindparam("delay_microseconds", type_=sa.BigInteger())


def enqueue(queue: QueueTable, columns: Mapping[str, sa.Column[Any]], *, delayed: bool) -> sa.Insert:
    """Add a job, ready now or `:delay_microseconds` from now; `columns` maps parameters to what they fill.

    A delayed job, and one with a time of its own, is scheduled; where the queue has no such state it is pending
    with its time in available_at. A time that the table does not fill by itself is set.
    """
    values: dict[sa.Column[Any], Any] = {}
    given = {column.name for column in columns.values()}
    if queue.columns["status"].name not in given:
        timed = delayed or (queue.has("available_at") and queue.columns["available_at"].name in given)
        state = "scheduled" if timed and queue.has_state("scheduled") else "pending"
        values[queue.columns["status"]] = queue.value(state)
    values |= {column: sa.bindparam(name) for name, column in columns.items()}
    if delayed:
        values[queue.columns["available_at"]] = queue.in_time("available_at", DELAY)
    for role in ("available_at", "created_at"):
        column = queue.columns.get(role)
        if column is not None and column not in values and not _fills_itself(queue, role):
            values[column] = queue.now(role)
    return sa.insert(queue.table).values(values)


def _fills_itself(queue: QueueTable, role: str) -> bool:
    return "DEFAULT_GENERATED" in queue.facts[queue.columns[role].name].extra


def select_claim(queue: QueueTable, *columns: sa.ColumnElement[Any]) -> sa.Select[Any]:
    """Lock the next `:limit` ready jobs in the queue's order, passing over rows that others hold.

    Along the index that gives this order, by its name: left to itself the optimizer reads and sorts a table of up
    to some thousand rows, which locks every ready job, and the next worker finds none (measured on MySQL 9.7.4
    with 20 and 100 pending jobs).
    """
    query = (
        sa.select(queue.id, *columns)
        .where(claimable(queue))
        .order_by(*queue.order)
        .limit(LIMIT)
        .with_for_update(skip_locked=True)
    )
    index = queue.claim_index
    return force_index(query, queue, index) if index else query


def select_job(queue: QueueTable, *columns: sa.ColumnElement[Any]) -> sa.Select[Any]:
    """Lock the job `:id` if it is ready, at once or not at all (3572)."""
    return sa.select(queue.id, *columns).where(queue.id == ID, claimable(queue)).with_for_update(nowait=True)


def select_status(queue: QueueTable) -> sa.Select[Any]:
    """Read the status of the job `:id`, without a lock."""
    return sa.select(queue.columns["status"]).where(queue.id == ID)


def mark_running(queue: QueueTable, *, many: bool = False) -> sa.Update:
    """Mark the locked job `:id` (`many`: `:ids`) as running for `:worker` until `:lease_microseconds` from now.

    The state is asked for again although the rows are locked: where a session lost its transaction (autocommit,
    a proxy), the number of rows then tells.
    """
    values: dict[str, Any] = {"status": queue.value("running"), "claimed_by": WORKER}
    if queue.has("lease_until"):
        values["lease_until"] = queue.in_time("lease_until", LEASE)
    if queue.settings.attempts_counted == "claim":
        values |= _one_more(queue)
    chosen = queue.id.in_(IDS) if many else queue.id == ID
    return set_roles(queue, sa.and_(chosen, queue.in_state("pending")), values)


def held(queue: QueueTable) -> sa.ColumnElement[bool]:
    """Return the fence: the job `:id` is still in the hands of the worker that claimed it.

    Running, owned by `:worker`, in the attempt that began with `:attempts` (which tells two processes of the same
    name apart), its lease not passed: as much of it as the queue has roles for.
    """
    conditions = [queue.id == ID, queue.in_state("running")]
    if queue.has("claimed_by"):
        conditions.append(queue.columns["claimed_by"] == WORKER)
    if queue.has("attempts"):
        conditions.append(queue.columns["attempts"] == ATTEMPTS)
    if queue.has("lease_until"):
        conditions.append(queue.columns["lease_until"] >= queue.now("lease_until"))
    return sa.and_(*conditions)


def heartbeat(queue: QueueTable) -> sa.Update:
    """Let the lease of a held job end `:lease_microseconds` from now."""
    return set_roles(queue, held(queue), {"lease_until": queue.in_time("lease_until", LEASE)})


def complete(queue: QueueTable) -> sa.Update:
    """Mark a held job as done; who did it stays."""
    return set_roles(queue, held(queue), _finished(queue, "done"))


def complete_held_row(queue: QueueTable) -> sa.Update:
    """Mark the pending job `:id`, whose row is locked, as done."""
    return set_roles(queue, sa.and_(queue.id == ID, queue.in_state("pending")), _finished(queue, "done"))


def retry(queue: QueueTable) -> sa.Update:
    """Let a held job that has attempts left wait `:backoff_microseconds` for the next, with `:error`."""
    tries = 0 if queue.settings.attempts_counted == "claim" else 1
    used = queue.columns["attempts"] + 1 if tries else queue.columns["attempts"]
    values: dict[str, Any] = {
        "status": queue.value("scheduled" if queue.has_state("scheduled") else "pending"),
        "available_at": queue.in_time("available_at", BACKOFF),
        **cleared(queue, "claimed_by", "lease_until"),
        "last_error": ERROR,
    }
    if tries:
        values |= _one_more(queue)
    return set_roles(queue, sa.and_(held(queue), used < _limit(queue)), values)


def give_up(queue: QueueTable) -> sa.Update:
    """Mark a held job as failed, with `:error`; whose it was stays."""
    values = _finished(queue, "failed") | {"last_error": ERROR}
    if queue.settings.attempts_counted == "requeue":
        values |= _one_more(queue)
    return set_roles(queue, held(queue), values)


def lock_held(queue: QueueTable) -> sa.Select[Any]:
    """Lock a held job."""
    return sa.select(queue.id).where(held(queue)).with_for_update()


def copy_done(queue: QueueTable) -> sa.Insert:
    """Copy the locked job `:id` to the archive as `complete` would have left it."""
    replaced = {queue.columns[role].name: value for role, value in _finished(queue, "done").items() if queue.has(role)}
    replaced[queue.columns["status"].name] = sa.literal(queue.value("done"))
    columns = queue.table.columns
    chosen = [replaced[name].label(name) if name in replaced else columns[name] for name in queue.copied]
    # An archive that is missing or out of sight has no columns here; the server then says which of the two it is.
    archive = queue.archive if queue.archive_facts else bare_table(queue.settings.archive_table, queue.facts)
    return sa.insert(archive).from_select(list(queue.copied), sa.select(*chosen).where(queue.id == ID))


def delete_job(queue: QueueTable) -> sa.Delete:
    """Delete the locked job `:id`."""
    return sa.delete(queue.table).where(queue.id == ID)


def promote_due(queue: QueueTable, walk: Walk) -> sa.Update:
    """Make the first `:limit` jobs along `walk` pending, passing over rows that others hold.

    One statement, because it costs a worker one round trip, and because a file can hold it as it stands. The
    derived table is read first (a LIMIT is always materialised) and the jobs are found by its ids: without the
    hint a small table is read as a whole, which waits for rows that are none of its business.
    """
    available_at = queue.columns["available_at"]
    ready = sa.and_(queue.columns["status"] == walk.value, available_at <= queue.now("available_at"))
    order = [step.column.desc() if step.descending else step.column for step in walk.steps]
    rows = sa.select(queue.id).where(ready).order_by(*order).limit(LIMIT)
    due = force_index(rows, queue, walk.index).with_for_update(skip_locked=True).subquery("qops_due")
    table = quote_name(queue.table.name).replace("\\", "\\\\").replace(":", "\\:")
    update = set_roles(queue, queue.id == due.c[queue.id.name], {"status": queue.value("pending")})
    return update.prefix_with(sa.text(f"/*+ JOIN_ORDER(`qops_due`, {table}) INDEX({table} PRIMARY) */"))


def _one_more(queue: QueueTable) -> dict[str, Any]:
    return {"attempts": queue.columns["attempts"] + 1} if queue.has("attempts") else {}


def _limit(queue: QueueTable) -> Any:  # noqa: ANN401 - a number or an expression
    """Return the attempt limit of a job: its own, or the queue's where it has none."""
    if not queue.has("max_attempts"):
        return queue.settings.max_attempts
    own = queue.columns["max_attempts"]
    return sa.func.coalesce(own, queue.settings.max_attempts) if queue.facts[own.name].nullable else own


def _finished(queue: QueueTable, state: str) -> dict[str, Any]:
    """Return what every finished job has: its state, no lease, the time of its end."""
    values: dict[str, Any] = {"status": queue.value(state), **cleared(queue, "lease_until")}
    if queue.has("finished_at"):
        values["finished_at"] = queue.now("finished_at")
    return values
