"""What a run would do: bounded counts, the statements and their plans. Takes no lock and writes nothing."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

from qops.archive.result import Options, Plan, Result, Standing
from qops.columns import INTEGERS
from qops.counting import Count, at_most, count_walks, least
from qops.explain import explain
from qops.ledger import Paused
from qops.statements import archive as st
from qops.statements.common import delete_ids
from qops.statements.walk import Walk, count_selected, lock_rows, next_keys

if TYPE_CHECKING:
    from collections.abc import Sequence

    import sqlalchemy as sa

    from qops.brake import BrakeCheck
    from qops.guard import Guard
    from qops.queue import QueueTable
    from qops.throttle import Throttle

ROW_BOUND = 100_000
UNDATED_BOUND = 10_000


def make_plan(
    connection: sa.Connection,
    guard: Guard,
    walks: Sequence[Walk],
    options: Options,
    brake: BrakeCheck,
    throttles: Sequence[Throttle],
) -> Result:
    """Return a result with a plan and nothing archived."""
    queue = guard.queue
    found = count_walks(connection, walks, partial(count_selected, queue), ROW_BOUND)
    rows = at_most(found, options.limit)
    undated = count_undated(connection, queue, walks, options)
    plan = Plan(
        rows=rows,
        bytes=None if guard.row_bytes is None else guard.row_bytes * least(rows),
        oldest=_edge(connection, queue, walks, newest=False),
        newest=_edge(connection, queue, walks, newest=True),
        batches=_batches(rows, options.batch),
        statements=tuple(
            str(s.compile(dialect=connection.dialect, compile_kwargs={"render_postcompile": True}))
            for s in _statements(guard, walks[0])
        ),
        explain=tuple(asdict(line) for walk in walks for line in explain(connection, next_keys(queue, walk, None, 10))),
        throttles=(*_brake(brake), *(_standing(throttle) for throttle in throttles)),
    )
    connection.rollback()
    return Result(queue=queue.name, undated=undated, dry_run=True, plan=plan)


def count_undated(connection: sa.Connection, queue: QueueTable, walks: Sequence[Walk], options: Options) -> Count:
    """Count, up to a bound, the rows that stay because an age was asked for and they have no finish time."""
    if options.older_than <= 0:
        return 0
    return count_walks(connection, walks, partial(st.count_undated, queue), UNDATED_BOUND)


def _brake(brake: BrakeCheck) -> list[Standing]:
    """Return the brake where it is on."""
    try:
        brake()
    except Paused as error:
        return [Standing("paused", waits=True, message=str(error))]
    return []


def _standing(throttle: Throttle) -> Standing:
    reason = throttle()
    return Standing(throttle.name, reason is not None, reason.message if reason else throttle.words)


def _statements(guard: Guard, walk: Walk) -> list[Any]:
    """Return what a batch sends where nothing is in its way; two ids stand for all of them."""
    queue = guard.queue
    sample = [1, 3] if queue.facts[queue.id.name].data_type in INTEGERS else ["a", "b"]
    if queue.settings.archive_by == "trigger":
        move = [lock_rows(queue, walk, sample), delete_ids(queue, sample), st.count_archived(queue, sample)]
    elif guard.verify:
        copy = [st.copy_ids(queue, sample), st.twins(queue, sample)]
        move = [lock_rows(queue, walk, sample), *copy, delete_ids(queue, sample)]
    else:
        move = [st.lock_and_copy(queue, walk, sample), delete_ids(queue, sample)]
    return [next_keys(queue, walk, None, 1000), *move]


def _batches(rows: Count, batch: int) -> Count:
    if isinstance(rows, dict):
        return {"at_least": -(-rows["at_least"] // batch)}
    return -(-rows // batch)


def _edge(connection: sa.Connection, queue: QueueTable, walks: Sequence[Walk], *, newest: bool) -> Any:  # noqa: ANN401
    """Return the oldest or newest finish time; None where the queue has none or no index leads to it."""
    if not queue.has("finished_at") or any(walk.steps[0].column is not queue.columns["finished_at"] for walk in walks):
        return None
    found = [connection.execute(st.finish_edge(queue, walk, newest=newest)).scalar() for walk in walks]
    known = [value for value in found if value is not None]
    return (max(known) if newest else min(known)) if known else None
