"""What becomes of jobs whose rows are locked: back to pending, or given up when their attempts are used up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from qops.errors import Misconfigured
from qops.isolate import each_or_all
from qops.statements import requeue as st

if TYPE_CHECKING:
    from collections.abc import Sequence

    import sqlalchemy as sa

    from qops.queue import QueueTable
    from qops.requeue.result import Outcome

EXHAUSTED = "lease expired and the attempts are used up ({attempts} of {limit})"


@dataclass(frozen=True)
class Judge:
    """The rules of one run over one queue; acts inside the caller's transaction."""

    queue: QueueTable
    reset_attempts: bool

    def transition(self, connection: sa.Connection, rows: Sequence[sa.Row[Any]], outcome: Outcome) -> None:
        """Put locked jobs back, all of them failed or all expired, and give up on those whose attempts are used up.

        Raises Misconfigured when a count differs from the rows that are locked.
        """
        if not rows:
            return
        expired = self.queue.state_of(rows[0].status) == "running"
        counts = expired and self.queue.settings.attempts_counted == "requeue"
        tries = 1 if counts else 0  # the try whose lease expired
        spent = [row for row in rows if self._used_up(row, tries)]
        gone = {row[0] for row in spent}

        def act(ids: list[Any]) -> None:
            update = st.put_back(self.queue, ids, count_attempt=counts, reset_attempts=self.reset_attempts)
            self._expect(connection.execute(update).rowcount, len(ids))

        back = [row[0] for row in rows if row[0] not in gone]
        done = each_or_all(connection, back, act, lambda id_, _reason: outcome.conflicts.append(id_))
        outcome.requeued += len(done)
        outcome.moved += done
        outcome.exhausted += len(spent)
        if expired and self.queue.has_state("failed"):
            for row in spent:
                reason = EXHAUSTED.format(attempts=self._attempts(row) + tries, limit=self._limit(row))
                update = st.give_up(self.queue, [row[0]], reason, count_attempt=counts)
                self._expect(connection.execute(update).rowcount, 1)
                outcome.moved.append(row[0])

    def _used_up(self, row: sa.Row[Any], tries: int) -> bool:
        if not self.queue.has("attempts") or self.reset_attempts:
            return False
        return self._attempts(row) + tries >= self._limit(row)

    def _attempts(self, row: sa.Row[Any]) -> int:
        """Return the attempts made; a column that may be NULL means none by it."""
        return int(row.attempts or 0)

    def _limit(self, row: sa.Row[Any]) -> int:
        """Return the job's attempt limit: its own, or the queue's where it has none."""
        return self.queue.settings.max_attempts if row.max_attempts is None else int(row.max_attempts)

    def _expect(self, found: int, expected: int) -> None:
        if found != expected:
            raise Misconfigured(
                f"queue {self.queue.name!r}: {expected} rows were locked and {found} changed; rolled back"
            )
