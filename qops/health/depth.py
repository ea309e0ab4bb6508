"""From one row of bounded counts to the depth of the queue."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from qops.health.snapshot import Count, Depth, TableState, Unknown
from qops.statements import depth as st
from qops.statements.walk import Past, Walk, choose_walk

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import sqlalchemy as sa

    from qops.queue import QueueTable
    from qops.queue_settings import StateValue

BOUND = 10_000
"""Rows of one state that are looked at: exact below, `at_least` above. Some 10 ms where the rows are in memory."""


def measure_table(connection: sa.Connection, queue: QueueTable) -> TableState:
    """Return how deep the queue is. One statement, by index, whatever the table holds."""
    reading = _Reading(queue, BOUND)
    row = connection.execute(st.together(reading.parts())).mappings().one()
    return reading.state({key: None if value is None else int(value) for key, value in row.items()})


@dataclass
class _Reading:
    """Which parts are asked for this queue, and what their numbers mean."""

    queue: QueueTable
    bound: int
    unknown: list[Unknown] = field(default_factory=list)

    @property
    def status(self) -> str:
        return self.queue.columns["status"].name

    @property
    def indexed(self) -> bool:
        """Whether an index leads to the jobs of a state."""
        return any(index.begins_with(self.status) for index in self.queue.indexes)

    def values(self, state: str) -> Sequence[StateValue]:
        return self.queue.states.get(state, ())

    def walk(self, value: StateValue, past: Past | None = None) -> Walk:
        return choose_walk(self.queue, value, by=past.role if past else None, past=past)

    def timed(self, value: StateValue) -> Walk | None:
        """Return the walk through the due jobs of a status value by their time, None if no index has it."""
        if not self.queue.has("available_at"):
            return None
        walk = self.walk(value, Past("available_at"))
        return walk if walk.steps[0].column is self.queue.columns["available_at"] else None

    def parts(self) -> dict[str, st.Part]:
        """Return the parts by name: a state, a value's number, and what is asked of it."""
        parts: dict[str, st.Part] = {}
        for state in self.queue.states:
            for number, value in enumerate(self.values(state)):
                parts |= {f"{state}.{number}.{name}": part for name, part in self._parts(state, value).items()}
        return parts

    def _parts(self, state: str, value: StateValue) -> dict[str, st.Part]:
        walk = self.walk(value)
        if not self.indexed:
            return {"newest": st.look_newest(self.queue, walk, self.bound)}
        if state == "running":
            return {"look": st.look(self.queue, walk, self.bound)}
        if state != "pending":
            return {"count": st.count(self.queue, walk, self.bound)}
        timed = self.timed(value)
        if timed is None:
            return {"look": st.look(self.queue, walk, self.bound)}
        return {
            "count": st.count(self.queue, walk, self.bound),
            "due": st.count(self.queue, timed, self.bound),
            "later": st.count_delayed(self.queue, timed, self.bound),
            "first": st.first_due(self.queue, timed),
        }

    def state(self, row: Mapping[str, int | None]) -> TableState:
        """Return what the numbers mean, and what stays unknown."""
        numbers = {state: self._numbers(state, row) for state in self.queue.states}
        pending = numbers["pending"]
        running = numbers.get("running", _Numbers())
        scheduled = numbers.get("scheduled", _Numbers())
        depth = Depth(
            pending=pending.seen,
            ready=pending.due,
            delayed=self._delayed(pending, scheduled),
            running=running.seen,
            expired=running.lapsed,
            failed=numbers.get("failed", _Numbers()).seen,
            done=numbers["done"].seen,
        )
        self._explain(depth)
        waited = self._age("oldest_ready_seconds", pending, pending.waited)
        ran = self._age("longest_running_seconds", running, running.oldest)
        return TableState(depth, waited, ran, tuple(self.unknown))

    def _numbers(self, state: str, row: Mapping[str, int | None]) -> _Numbers:
        return _add([self._of(f"{state}.{number}", row) for number in range(len(self.values(state)))])

    def _of(self, prefix: str, row: Mapping[str, int | None]) -> _Numbers:
        """Return the numbers of one status value."""
        kind = next(k for k in ("newest", "look", "count") if f"{prefix}.{k}.seen" in row)
        get = {key.removeprefix(f"{prefix}.{kind}."): value for key, value in row.items()}.get
        seen, examined = get("seen") or 0, get("examined")
        looked_at = seen if examined is None else examined
        complete = looked_at <= self.bound
        if f"{prefix}.due.seen" in row:
            ready, later = row[f"{prefix}.due.seen"] or 0, row[f"{prefix}.later.seen"] or 0
            return _Numbers(
                seen=self._count(seen, complete=complete),
                due=self._count(ready, complete=ready <= self.bound),
                later=self._count(later, complete=later <= self.bound),
                waited=row[f"{prefix}.first.waited"],
            )
        due, lapsed = get("due"), get("lapsed")
        return _Numbers(
            seen=self._count(seen, complete=complete),
            due=self._count(due, complete=complete),
            later=None if due is None else self._count(seen - due, complete=complete),
            lapsed=self._count(lapsed, complete=complete),
            waited=get("waited") if complete else None,
            oldest=get("oldest") if complete else None,
            complete=complete,
        )

    def _count(self, number: int | None, *, complete: bool) -> Count:
        """Return a number of which `complete` says that nothing was left out; of nothing seen nothing is known."""
        if number is None or complete:
            return number
        return {"at_least": min(number, self.bound)} if number else None

    def _delayed(self, pending: _Numbers, scheduled: _Numbers) -> Count:
        parts = [scheduled.seen] if self.queue.has_state("scheduled") else []
        if self.queue.has("available_at"):
            parts.append(pending.later)
        return _total(parts) if parts else None

    def _age(self, metric: str, numbers: _Numbers, microseconds: int | None) -> float | None:
        """Return an age in seconds; a job that became ready while the clock was read has waited 0."""
        if microseconds is not None:
            return max(0.0, round(microseconds / 1e6, 3))
        if numbers.seen and not numbers.complete:
            self._need(metric, f"fewer jobs in that state than the {self.bound} that are looked at, or another index")
        elif numbers.seen and st.since(self.queue) is None:
            self._lack(metric, "the role 'available_at' or 'created_at'")
        return None

    def _explain(self, depth: Depth) -> None:
        """Say of each number that is unknown what it needs: what the queue has not, or an index."""
        has, status = self.queue.has_state, self.status
        timed = f"an index on ({status}, available_at): the jobs that were looked at tell nothing"
        by_state = f"an index that begins with {status!r}: the newest jobs tell nothing"
        lease = has("running") and self.queue.has("lease_until")
        delays = has("scheduled") or self.queue.has("available_at")
        for metric, present, lacks, needs in (
            ("pending", True, "", by_state),
            ("ready", True, "", timed),
            ("delayed", delays, "the state 'scheduled' or the role 'available_at'", timed),
            ("running", has("running"), "the state 'running'", by_state),
            ("expired", lease, "the state 'running' with the role 'lease_until' (no lease)", by_state),
            ("failed", has("failed"), "the state 'failed'", by_state),
            ("done", True, "", by_state),
        ):
            if getattr(depth, metric) is None and present:
                self._need(f"depth.{metric}", needs)
            elif not present:
                self._lack(f"depth.{metric}", lacks)

    def _need(self, metric: str, needs: str) -> None:
        self.unknown.append(Unknown(metric, needs))

    def _lack(self, metric: str, what: str) -> None:
        needs = f"{what}, which queue {self.queue.name!r} does not have"
        self.unknown.append(Unknown(metric, needs, inherent=True))


@dataclass(frozen=True)
class _Numbers:
    """The numbers of one state; ages in microseconds. `complete`: nothing was left out of the ages."""

    seen: Count = None
    due: Count = None
    later: Count = None
    lapsed: Count = None
    waited: int | None = None
    oldest: int | None = None
    complete: bool = True


def _add(several: Sequence[_Numbers]) -> _Numbers:
    """Return the numbers of a state that is written as several values."""
    if len(several) == 1:
        return several[0]
    complete = all(one.complete for one in several)
    return _Numbers(
        seen=_total(one.seen for one in several),
        due=_total(one.due for one in several),
        later=_total(one.later for one in several),
        lapsed=_total(one.lapsed for one in several),
        waited=_greatest(one.waited for one in several) if complete else None,
        oldest=_greatest(one.oldest for one in several) if complete else None,
        complete=complete,
    )


def _total(counts: Iterable[Count]) -> Count:
    """Return the sum; `at_least` if one is, None if nothing is known of one and nothing was counted."""
    total, exact = 0, True
    for one in counts:
        if isinstance(one, dict):
            total, exact = total + one["at_least"], False
        elif one is None:
            exact = False
        else:
            total += one
    if exact:
        return total
    return {"at_least": total} if total else None


def _greatest(ages: Iterable[int | None]) -> int | None:
    return max((age for age in ages if age is not None), default=None)


def least(count: Count | Any) -> int:  # noqa: ANN401 - what a JSON document may hold
    """Return the number that is certain of a count."""
    if isinstance(count, dict):
        return int(count["at_least"])
    return int(count or 0)
