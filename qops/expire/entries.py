"""Which entries of the ledger have had their time, and one batch of deleting them.

An entry stays for 90 days, one of a run that found nothing to do for a day. A pause in force stays, and so do the
latest finished and the latest successful run of each command and queue, which `health` reports. The ledger is the
schema's: entries of all its queues go.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from qops.expire.result import Batch
from qops.expire.rows import delete
from qops.ledger import last_run
from qops.statements import expire as st
from qops.statements.walk import Step, Walk, lock_rows

if TYPE_CHECKING:
    import sqlalchemy as sa

    from qops.counting import Count
    from qops.queue import QueueTable

RETENTION_SECONDS = 90 * 86_400
IDLE_SECONDS = 86_400
SUCCESS = ("done", "limit", "runtime")
NO_RESULT = frozenset({"ledger_seen", "retries"})
"""What a summary says beside what the run found, as do all that end in _seconds."""
PLAN_BOUND = 100_000
PLAN_SLICE = 5_000


def by_id(ledger: QueueTable) -> Walk:
    """Return the walk along all entries."""
    return Walk(None, "PRIMARY", (Step(ledger.id),))


def is_idle(outcome: str | None, summary: str | None) -> bool:
    """Whether a run found nothing to do: it ended by itself, and every count of its summary is 0."""
    if outcome != "done" or not summary:
        return False
    found = {key: value for key, value in json.loads(summary).items() if not key.endswith("_seconds")}
    return not any(value for key, value in found.items() if key not in NO_RESULT and not isinstance(value, str))


@dataclass
class Entries:
    """The ledger's entries in the order of their ids, and those among them that have had their time.

    First those past the retention, from the oldest on; then, behind what an earlier run has `seen`, those of runs that
    found nothing. Both end at the first entry that is too young, so nothing is read that stays for long.
    """

    connection: sa.Connection
    ledger: QueueTable
    kept: dict[tuple[str, str], set[int]] = field(default_factory=dict)

    def chosen(self, *, idle: bool, after: int | None, limit: int) -> tuple[list[int], int | None, bool]:
        """Return ids to delete among the next `limit` entries, the last one looked at, and whether that was the end."""
        seconds = IDLE_SECONDS if idle else RETENTION_SECONDS
        rows = self.connection.execute(st.read_entries(self.ledger, seconds, after, limit)).all()
        due: list[int] = []
        for row in rows:
            if not row.begun:
                return due, after, True
            after = row.id
            if row.ended and (not idle or is_idle(row.outcome, row.summary)) and row.id not in self._kept(row):
                due.append(row.id)
        return due, after, len(rows) < limit

    def _kept(self, row: sa.Row[Any]) -> set[int]:
        """Return the latest finished and the latest successful run of the entry's command and queue."""
        key = (row.queue, row.command)
        if key not in self.kept:
            latest = last_run(self.connection, *key, finished=True)
            good = last_run(self.connection, *key, outcomes=SUCCESS)
            self.kept[key] = {run.id for run in (latest, good) if run}
        return self.kept[key]

    def batch(self, *, idle: bool, after: int | None, limit: int) -> Batch:
        """Delete what has had its time among the next `limit` entries, inside the caller's transaction."""
        due, last, ended = self.chosen(idle=idle, after=after, limit=limit)
        batch = Batch(key=None if last is None else (last,), seen=limit, ended=ended)
        if due:
            ids = list(self.connection.execute(lock_rows(self.ledger, by_id(self.ledger), due)).scalars())
            if ids:
                delete(self.connection, self.ledger, ids, batch)
        return batch

    def count(self, seen: int) -> Count:
        """Count, up to a bound, what a run would delete; takes no lock."""
        due: set[int] = set()
        for idle, start in ((False, None), (True, seen)):
            after: int | None = start
            ended = False
            while not ended and len(due) <= PLAN_BOUND:
                ids, after, ended = self.chosen(idle=idle, after=after, limit=PLAN_SLICE)
                self.connection.rollback()
                due.update(ids)
        return len(due) if len(due) <= PLAN_BOUND else {"at_least": PLAN_BOUND}
