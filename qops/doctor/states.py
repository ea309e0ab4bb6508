"""Rows with a status that no state of the queue has: found by steps along an index, one row a value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from qops.doctor.printed import as_typed
from qops.doctor.sampling import BOUND, sample
from qops.doctor.type_facts import Stray, StrayFacts
from qops.errors import Misconfigured
from qops.statements.common import set_roles
from qops.statements.sample import first_rows
from qops.statements.walk import Step, Walk, force_index

if TYPE_CHECKING:
    from collections.abc import Iterator

    from qops.queue import QueueTable

VALUES = 50


def read_strays(connection: sa.Connection, queue: QueueTable) -> StrayFacts:
    """Return the status values that no state has, with rows of each. Raises Misconfigured without an index."""
    status = queue.columns["status"]
    index = next((one.name for one in queue.indexes if one.begins_with(status.name)), None)
    if index is None:
        raise Misconfigured(f"no index begins with {status.name!r}, so the values in use are found by reading all")
    fact = queue.facts[status.name]
    if fact.labels:
        looked, more = len(fact.labels), False
        known = {str(value).lower() for values in queue.states.values() for value in values}
        # What an INSERT outside of strict mode could not place is an empty text, which may be a label as well.
        labels = (label for label in fact.labels if label.lower() not in known)
        candidates: list[Any] = list(dict.fromkeys([*labels, ""]))
    else:
        steps = list(_steps(connection, queue, index))
        looked, more = len(steps), len(steps) == VALUES
        candidates = [value for value, is_known in steps if not is_known]
    if fact.nullable:
        candidates.append(None)
    strays = tuple(stray for value in candidates if (stray := _stray(connection, queue, index, value)))
    return StrayFacts(strays, looked, more, f"[queues.{queue.name}.states]")


def _steps(connection: sa.Connection, queue: QueueTable, index: str) -> Iterator[tuple[Any, bool]]:
    """Yield each value in use, as the column's collation tells them apart, and whether a state has it."""
    status, known = queue.columns["status"], queue.in_state(*queue.states)
    condition: sa.ColumnElement[bool] = status.is_not(None)
    for _ in range(VALUES):
        query = sa.select(status, known).where(condition).order_by(status).limit(1)
        row = connection.execute(force_index(query, queue, index)).first()
        if row is None:
            return
        yield row[0], bool(row[1])
        condition = status > row[0]


def _stray(connection: sa.Connection, queue: QueueTable, index: str, value: Any) -> Stray | None:  # noqa: ANN401
    rows = first_rows(queue, Walk(value, index, (Step(queue.id),)), sa.true(), BOUND)
    jobs = sample(connection, [rows])
    return Stray(as_typed(sa.literal(value), queue), jobs, _update(queue, value)) if jobs.found else None


def _update(queue: QueueTable, value: Any) -> str:  # noqa: ANN401 - as the status column
    """Return a bounded statement that ends such jobs; whether that is what they are people decide."""
    status = queue.columns["status"]
    values: dict[str, Any] = {"status": sa.literal(queue.value("failed" if queue.has_state("failed") else "done"))}
    if queue.has("finished_at"):
        finished = queue.columns["finished_at"]
        if queue.tells_time("finished_at"):
            values["finished_at"] = sa.func.coalesce(finished, queue.now("finished_at"))
    change = set_roles(queue, status == value, values).with_dialect_options(mysql_limit=BOUND)
    return f"SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED;\n{as_typed(change, queue)};"
