"""Which jobs a run is about: the walks along them, and reading them ahead in slices where no index knows the choice."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from qops.clock import monotonic
from qops.pick import Found, find
from qops.statements.filters import error_contains, is_past, last_of, next_fitting, owned_by
from qops.statements.walk import Past, Walk, choose_walk

if TYPE_CHECKING:
    import sqlalchemy as sa

    from qops.queue import QueueTable
    from qops.requeue.result import Options
    from qops.rounds import Key

SLICE = 1_000  # rows of one statement that looks for what fits
LONGEST_LOOK_SECONDS = 0.25  # of one batch: a choice that matches little is looked for over several


def walks_of(queue: QueueTable, options: Options) -> list[Walk]:
    """Return the ways to the jobs that a run is about, none where they are named.

    Raises Misconfigured for a role or state that the choice needs and the queue lacks, and for an undeclared clock.
    """
    filters = options.filters
    for role, option, given in (
        ("last_error", "--error-like", filters.error_like),
        ("claimed_by", "--worker", filters.worker),
    ):
        if given is not None:
            queue.require(f"requeue {option}", roles=(role,))
    if options.ids:
        return []
    if options.failed:
        queue.require("requeue --failed", states=("failed",))
        return [_failed(queue, value, options) for value in queue.states["failed"]]
    queue.require("requeue --expired", roles=("lease_until",), states=("running",))
    past = Past("lease_until", round((filters.older_than or 0) * 1_000_000))
    also = chosen_by(queue, options)
    return [replace(choose_walk(queue, value, by=past.role, past=past), also=also) for value in queue.states["running"]]


def _failed(queue: QueueTable, value: str | int, options: Options) -> Walk:
    """Return the way to the failed jobs: from the oldest on, and only the old ones where an index knows their age."""
    walk = choose_walk(queue, value, by="finished_at")
    also = chosen_by(queue, options)
    if options.filters.older_than is None:
        return replace(walk, also=also)
    queue.require("requeue --failed --older-than", roles=("finished_at",))
    past = Past("finished_at", round(options.filters.older_than * 1_000_000))
    indexed = _goes_by(queue, walk, "finished_at")
    return replace(walk, past=past if indexed else None, also=(*also, is_past(queue, past)))


def chosen_by(queue: QueueTable, options: Options) -> tuple[sa.ColumnElement[bool], ...]:
    """Return what is asked of jobs beside their state and age."""
    filters = options.filters
    asked = []
    if filters.error_like is not None:
        asked.append(error_contains(queue, filters.error_like))
    if filters.worker is not None:
        asked.append(owned_by(queue, filters.worker))
    return tuple(asked)


def _goes_by(queue: QueueTable, walk: Walk, role: str) -> bool:
    return queue.has(role) and walk.steps[0].column is queue.columns[role]


@dataclass(frozen=True)
class Finder:
    """Reads the next jobs of a walk that fit, without locks, a slice a statement.

    `until` is where a walk by finish time ends: what was failed when it began. Otherwise jobs that fail again at once
    would be met again, until their attempts are used up.
    """

    queue: QueueTable
    walk: Walk
    until: str | None = None

    @classmethod
    def start(cls, connection: sa.Connection, queue: QueueTable, walk: Walk) -> Finder:
        """Return the finder for a walk that begins now."""
        by_time = _goes_by(queue, walk, "finished_at") and not walk.steps[0].descending
        last = connection.execute(last_of(queue, walk)).first() if by_time else None
        return cls(queue, walk, last[0] if last else None)

    def next(self, connection: sa.Connection, key: Key, limit: int) -> tuple[Found, int, bool]:
        """Return up to `limit` jobs after `key`, how many rows were read, and whether those were the last."""
        if not self.walk.also:
            return self._all(connection, key, limit)
        ids: list[Any] = []
        read = 0
        until = monotonic() + LONGEST_LOOK_SECONDS
        while True:
            rows = connection.execute(next_fitting(self.queue, self.walk, key, SLICE)).all()
            kept = [row for row in rows if self.is_meant(row[0])]
            for place, row in enumerate(kept, 1):
                if row.fits:
                    ids.append(row[-2])
                    if len(ids) >= limit:
                        return Found(sorted(ids), tuple(row[:-1])), read + place, False
            read += len(rows)
            key = tuple(kept[-1][:-1]) if kept else key
            ended = len(rows) < SLICE or len(kept) < len(rows)
            if ended or monotonic() > until:
                return Found(sorted(ids), key), read, ended

    def _all(self, connection: sa.Connection, key: Key, limit: int) -> tuple[Found, int, bool]:
        found = find(connection, self.queue, self.walk, key, limit)
        ended = len(found.ids) < limit
        if found.key and not self.is_meant(found.key[0]):
            rows = [row for row in found.keys if self.is_meant(row[0])]
            return Found(sorted(row[-1] for row in rows), tuple(rows[-1]) if rows else key), len(rows), True
        return found, len(found.ids), ended

    def is_meant(self, value: Any) -> bool:  # noqa: ANN401 - any column's value
        """Whether a row with this first key part was there when the walk began; times of one column sort as texts."""
        return self.until is None or value is None or value <= self.until
