"""Jobs that were named: each in a transaction of its own, locked at once or not at all, with one answer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from qops.db import LOCK_TIMEOUT, NOWAIT, Server, errno, transact
from qops.errors import QopsError
from qops.fold import READ
from qops.requeue.find import chosen_by
from qops.requeue.result import Outcome, Verdict
from qops.statements import requeue as st
from qops.statements.filters import described, is_past
from qops.statements.walk import Past

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qops.clock import Stop
    from qops.events import Events
    from qops.holder import Holders
    from qops.queue import QueueTable
    from qops.requeue.judge import Judge
    from qops.requeue.result import Ineligible, Options, Result

LOOK_AT_ONCE = 1_000
UNFIT = "it is not among those that --error-like, --worker and --older-than choose"
CHANGED = "it was {before} when this run began and is {now} now"


@dataclass
class Named:
    """Puts named jobs back, one after the other.

    `seen` are the states in which they were when the run began: one that could be put back then and cannot be now
    was changed by somebody meanwhile.
    """

    server: Server
    connection: sa.Connection
    queue: QueueTable
    judge: Judge
    options: Options
    events: Events
    seen: dict[Any, str] = field(default_factory=dict)

    def look(self, ids: Sequence[Any]) -> None:
        """Remember which of the jobs can be put back now; takes no lock."""
        for start in range(0, len(ids), LOOK_AT_ONCE):
            for row in self.connection.execute(st.look_at_all(self.queue, ids[start : start + LOOK_AT_ONCE])):
                if self.judge.is_eligible(row):
                    self.seen[row[0]] = _word(self.queue.state_of(row.status))
        self.connection.rollback()

    def one(self, id_: Any, holders: Holders, stop: Stop, result: Result) -> None:  # noqa: ANN401 - as the id column
        """Put one job back, or say why not."""
        try:
            outcome, verdict, reason = transact(
                self.server, self.connection, lambda connection: self._act(connection, id_), stop=stop
            )
        except QopsError as error:
            if error.in_commit:
                error.args = (f"{error}; whether job {id_} was put back is not known; its row tells",)
            if errno(error.__cause__ or error) not in {NOWAIT, LOCK_TIMEOUT}:
                raise
            result.add(Outcome(locked=1))
            result.answer(Verdict(id_, "locked", self._holder(holders, id_)))
            return
        if outcome.why:
            self.events.warn(outcome.why)
        result.add(outcome)
        result.answer(Verdict(id_, verdict), reason)

    def plan(self, id_: Any) -> tuple[sa.Row[Any] | None, str, Ineligible | None]:  # noqa: ANN401 - as the id column
        """Return a job's row as a plan reads it, and what would become of it; takes no lock."""
        row = self.connection.execute(st.look_at(self.queue, id_, *described(self.queue, READ), self._fits())).first()
        return row, *self._verdict(self.connection, id_, row)

    def _act(self, connection: sa.Connection, id_: Any) -> tuple[Outcome, str, Ineligible | None]:  # noqa: ANN401
        outcome = Outcome()
        row = connection.execute(st.lock_one(self.queue, id_, *st.situation(self.queue), self._fits())).first()
        verdict, reason = self._verdict(connection, id_, row)
        if row is not None and verdict in {"requeued", "exhausted"}:
            self.judge.transition(connection, [row], outcome)
            if outcome.conflicts:
                verdict = "conflict"
        elif verdict == "changed":
            outcome.changed = 1
        return outcome, verdict, reason

    def _verdict(
        self,
        connection: sa.Connection,
        id_: Any,  # noqa: ANN401 - as the id column
        row: sa.Row[Any] | None,
    ) -> tuple[str, Ineligible | None]:
        verdict, reason = self.judge.verdict(connection, id_, row)
        if row is not None and verdict in {"requeued", "exhausted"} and not row.fits:
            state = self.queue.state_of(row.status)
            return "not_eligible", {"id": id_, "state": state, "reason": UNFIT}
        if verdict == "not_eligible" and reason and id_ in self.seen:
            now = reason["state"]
            return "changed", reason | {"reason": CHANGED.format(before=self.seen[id_], now=now)}
        return verdict, reason

    def _fits(self) -> sa.ColumnElement[Any]:
        """Return whether a job is among those that the filters choose: 1 or 0."""
        asked = list(chosen_by(self.queue, self.options))
        if self.options.filters.older_than is not None:
            asked.append(self._old(round(self.options.filters.older_than * 1_000_000)))
        return sa.case((sa.and_(sa.true(), *asked), 1), else_=0).label("fits")

    def _old(self, microseconds: int) -> sa.ColumnElement[bool]:
        """Return "it has been in its state for so long": expired jobs by their lease, failed ones by their finish."""
        ages = [
            sa.and_(self.queue.in_state(state), is_past(self.queue, Past(role, microseconds)))
            for state, role in (("failed", "finished_at"), ("running", "lease_until"))
            if self.queue.has_state(state) and self.queue.has(role)
        ]
        return sa.or_(sa.false(), *ages)

    def _holder(self, holders: Holders, id_: Any) -> int | None:  # noqa: ANN401 - as the id column
        """Return the connection that holds a job's row; where it cannot be seen, say why."""
        found = holders.of(id_)
        if isinstance(found, int):
            return found
        why = "it was let go in the meantime" if found is None else found.reason
        self.events.warn(f"who holds job {id_} is not known: {why}")
        return None


def _word(state: str | None) -> str:
    return "expired" if state == "running" else str(state)
