"""What becomes of jobs whose rows are locked: back to pending, or given up when their attempts are used up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from qops.archived import moved_to
from qops.errors import Misconfigured
from qops.fit import fit
from qops.isolate import each_or_all
from qops.statements import requeue as st

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import sqlalchemy as sa

    from qops.queue import QueueTable
    from qops.requeue.result import Ineligible, Options, Outcome

EXHAUSTED = "lease expired and the attempts are used up ({attempts} of {limit})"


@dataclass(frozen=True)
class Judge:
    """The rules of one run over one queue; acts inside the caller's transaction.

    `max_attempts` is the limit in the place of the jobs' own. With `delay` or `spread`, microseconds, jobs become
    scheduled.
    """

    queue: QueueTable
    reset_attempts: bool
    max_attempts: int | None = None
    delay: int | None = None
    spread: int | None = None

    @classmethod
    def of(cls, queue: QueueTable, options: Options) -> Judge:
        """Return the rules that a command line asks for; times become microseconds."""
        delay, spread = (
            None if seconds is None else round(seconds * 1_000_000) for seconds in (options.delay, options.spread)
        )
        return cls(queue, options.reset_attempts, options.max_attempts, delay, spread)

    def verdict(
        self,
        connection: sa.Connection,
        id_: Any,  # noqa: ANN401 - as the id column
        row: sa.Row[Any] | None,
    ) -> tuple[str, Ineligible | None]:
        """Return what is to become of a named job, whose row was read or locked, and why not if it stays."""
        if row is None:
            reason = moved_to(connection, self.queue, id_)
            if reason is None:
                return "not_found", None
            return "archived", {"id": id_, "state": "archived", "reason": reason}
        state = self.queue.state_of(row.status)
        if not self.is_eligible(row):
            reason = _not_eligible(state, has_lease=row.expired is not None)
            return "not_eligible", {"id": id_, "state": state or row.status, "reason": reason}
        return ("exhausted" if self.is_spent(row) else "requeued"), None

    def is_eligible(self, row: sa.Row[Any]) -> bool:
        """Whether a job is in a state that it can be put back from."""
        state = self.queue.state_of(row.status)
        return state == "failed" or (state == "running" and bool(row.expired))

    def is_spent(self, row: sa.Row[Any]) -> bool:
        """Whether a job's attempts are used up."""
        return self._used_up(row, self._tries(self.queue.state_of(row.status)))

    def _tries(self, state: str | None) -> int:
        """Return the attempts that putting a job back counts: the try whose lease expired, or none."""
        return int(state == "running" and self.queue.settings.attempts_counted == "requeue")

    def transition(self, connection: sa.Connection, rows: Sequence[sa.Row[Any]], outcome: Outcome) -> None:
        """Put locked jobs back, all of them failed or all expired, and give up on those whose attempts are used up.

        Raises Misconfigured when a count differs from the rows that are locked.
        """
        if not rows:
            return
        expired = self.queue.state_of(rows[0].status) == "running"
        tries = self._tries("running" if expired else None)
        counts = bool(tries)
        spent = [row for row in rows if self._used_up(row, tries)]
        gone = {row[0] for row in spent}
        early = {row[0] for row in rows if row.early}

        def act(ids: list[Any]) -> None:
            for part, state, moment in self._destinations(ids, early):
                update = st.put_back(
                    self.queue,
                    part,
                    count_attempt=counts,
                    reset_attempts=self.reset_attempts,
                    state=state,
                    available_at=moment,
                )
                self._expect(connection.execute(update).rowcount, len(part))

        def refuse(id_: Any, why: str) -> None:  # noqa: ANN401 - as the id column
            outcome.conflicts.append(id_)
            outcome.why = outcome.why or f"job {id_} stays: {why}"

        back = [row[0] for row in rows if row[0] not in gone]
        done = each_or_all(connection, back, act, refuse)
        outcome.requeued += len(done)
        outcome.moved += done
        outcome.exhausted += len(spent)
        if not expired:
            return
        if not self.queue.has_state("failed"):
            outcome.not_eligible += [stuck(row[0]) for row in spent]
        else:
            outcome.moved += self._give_up(connection, spent, outcome, tries)

    def _destinations(
        self, ids: list[Any], early: set[Any]
    ) -> Iterator[tuple[list[Any], str, sa.ColumnElement[Any] | None]]:
        """Yield ids with the state that they get and the time: jobs are due at once unless they are to wait.

        The time of a pending job that has come is left alone: it may be part of the claim's order.
        """
        if self.delay is not None or self.spread is not None:
            yield ids, "scheduled", st.sometime(self.queue, self.delay or 0, self.spread or 0)
            return
        ahead = [id_ for id_ in ids if id_ in early]
        if ahead:
            yield ahead, "pending", self.queue.now("available_at")
        if len(ahead) < len(ids):
            yield [id_ for id_ in ids if id_ not in early] if ahead else ids, "pending", None

    def _give_up(self, connection: sa.Connection, spent: list[sa.Row[Any]], outcome: Outcome, tries: int) -> list[Any]:
        """Make spent jobs failed, each with its reason; one that cannot be changed costs only itself."""
        done: list[Any] = []
        for row in spent:
            reason = fit(
                self.queue, "last_error", EXHAUSTED.format(attempts=self._attempts(row) + tries, limit=self._limit(row))
            )
            update = st.give_up(self.queue, [row[0]], reason, count_attempt=bool(tries))

            def act(_ids: list[Any], update: sa.Update = update) -> None:
                self._expect(connection.execute(update).rowcount, 1)

            def refuse(id_: Any, why: str) -> None:  # noqa: ANN401 - as the id column
                outcome.not_eligible.append({"id": id_, "state": "running", "reason": why})

            done += each_or_all(connection, [row[0]], act, refuse)
        return done

    def _used_up(self, row: sa.Row[Any], tries: int) -> bool:
        if not self.queue.has("attempts") or self.reset_attempts:
            return False
        return self._attempts(row) + tries >= self._limit(row)

    def _attempts(self, row: sa.Row[Any]) -> int:
        """Return the attempts made; a column that may be NULL means none by it."""
        return int(row.attempts or 0)

    def _limit(self, row: sa.Row[Any]) -> int:
        """Return the job's attempt limit: the one that was given, else its own, or the queue's where it has none."""
        if self.max_attempts is not None:
            return self.max_attempts
        return self.queue.settings.max_attempts if row.max_attempts is None else int(row.max_attempts)

    def _expect(self, found: int, expected: int) -> None:
        if found != expected:
            raise Misconfigured(
                f"queue {self.queue.name!r}: {expected} rows were locked and {found} changed; rolled back"
            )


def stuck(id_: Any) -> Ineligible:  # noqa: ANN401 - as the id column
    """Return what is said of an expired job at its limit in a queue without a failed state."""
    reason = "its attempts are used up, and the queue has no failed state to put it in"
    return {"id": id_, "state": "running", "reason": reason}


def _not_eligible(state: str | None, *, has_lease: bool) -> str:
    if state is None:
        return "its status is none of the queue's states"
    if state == "running":
        return "its lease is still valid" if has_lease else "this queue has no leases, so it cannot have expired"
    return f"it is {state}"
