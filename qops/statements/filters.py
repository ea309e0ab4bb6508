"""Choosing jobs by what no index leads to: a part of the error text, the exact owner, an age.

Texts are compared character by character, whatever the collation: what is put back is what was typed. Each predicate is
one row's business; who looks for rows with it reads them in slices of a known size.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from qops.statements.expire import dated
from qops.statements.requeue import situation
from qops.statements.walk import Past, next_keys

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qops.queue import QueueTable
    from qops.statements.walk import Walk


@dataclass(frozen=True)
class Filters:
    """What jobs are asked for beside their state; None: not asked. `older_than` in seconds."""

    error_like: str | None = None
    worker: str | None = None
    older_than: float | None = None

    def __bool__(self) -> bool:
        return any(value is not None for value in vars(self).values())


def error_contains(queue: QueueTable, text: str) -> sa.ColumnElement[bool]:
    """Return "its error text contains `text`", which is no pattern."""
    error = _characters(queue.columns["last_error"])
    found: sa.ColumnElement[bool] = sa.func.locate(text, error) > 0
    return found


def owned_by(queue: QueueTable, worker: str) -> sa.ColumnElement[bool]:
    """Return "`worker`, exactly, holds it": neither case, accents nor spaces at the end are left out of account."""
    owner = sa.cast(_characters(queue.columns["claimed_by"]), sa.LargeBinary)
    # utf8mb4 in any session: a parameter comes in the connection's character set.
    return owner == sa.cast(sa.func.convert(sa.literal(worker).op("USING")(sa.text("utf8mb4"))), sa.LargeBinary)


def is_past(queue: QueueTable, past: Past) -> sa.ColumnElement[bool]:
    """Return "its time is known and has come"."""
    moment = queue.in_time(past.role, -past.microseconds)
    return sa.and_(dated(queue, past.role), queue.columns[past.role] <= moment)


def _characters(column: sa.Column[Any]) -> sa.ColumnElement[Any]:
    """Return a text of any character set so that its characters are compared and nothing else."""
    return sa.func.convert(column.op("USING")(sa.text("utf8mb4"))).collate("utf8mb4_bin")


def next_fitting(
    queue: QueueTable, walk: Walk, after: Sequence[Any] | None, limit: int, *columns: sa.ColumnElement[Any]
) -> sa.Select[Any]:
    """Read the next `limit` rows of a walk without locks: their key, whether they fit (1 or 0), and `columns`."""
    fits = sa.case((sa.and_(sa.true(), *walk.also), 1), else_=0).label("fits")
    return next_keys(queue, walk, after, limit).add_columns(fits, *columns)


def described(queue: QueueTable, characters: int) -> list[sa.ColumnElement[Any]]:
    """Return what a plan tells of a job: its situation, its error's first `characters`, and its age in seconds.

    Its age counts from its finish or, where it has none, from the end of its lease.
    """
    null: sa.ColumnElement[Any] = sa.null()
    error = sa.func.left(queue.columns["last_error"], characters) if queue.has("last_error") else null
    ages = [_seconds_since(queue, role) for role in ("finished_at", "lease_until") if _is_timed(queue, role)]
    return [*situation(queue), error.label("error"), sa.func.coalesce(*ages, null).label("age")]


def _is_timed(queue: QueueTable, role: str) -> bool:
    return queue.has(role) and queue.tells_time(role)


def _seconds_since(queue: QueueTable, role: str) -> sa.ColumnElement[Any]:
    known = sa.case((dated(queue, role), queue.columns[role]), else_=sa.null())
    return sa.func.timestampdiff(sa.text("SECOND"), known, queue.now(role))


def last_of(queue: QueueTable, walk: Walk) -> sa.Select[Any]:
    """Read the last value of a walk's first key part, as its keys have it."""
    step = walk.steps[0]
    backwards = next_keys(queue, walk, None, 1).order_by(None)
    return backwards.order_by(step.column if step.descending else step.column.desc())
