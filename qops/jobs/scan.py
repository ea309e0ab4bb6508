"""Reading the jobs of some states in the order in which people want to see them, a bounded number of rows each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from qops.configfile import nearest
from qops.errors import Misconfigured, UsageError
from qops.queue_settings import STATES
from qops.statements import jobs as st
from qops.statements.chosen import age_role, meets, require_roles
from qops.statements.common import expired
from qops.statements.walk import Past, Walk, choose_walk, selection

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from qops.queue import QueueTable
    from qops.queue_settings import StateValue
    from qops.statements.filters import Filters

EXPIRED = "expired"
"""What --state takes besides the states: running jobs whose lease has passed."""
IMPORTANCE = ("failed", EXPIRED, "running", "scheduled", "pending", "done")
CHUNK = 1_000


@dataclass(frozen=True)
class Scope:
    """Jobs to be looked at: those `wanted` among the rows of `walk`. `name` is for people."""

    name: str
    walk: Walk
    wanted: sa.ColumnElement[bool]
    age: str | None

    @property
    def narrower(self) -> bool:
        """Whether its walk leads to other jobs too."""
        return self.walk.value is None or (self.name == EXPIRED and self.walk.past is None)

    def condition(self, queue: QueueTable) -> sa.ColumnElement[bool]:
        """Return the predicate that its jobs meet."""
        return sa.and_(selection(queue, self.walk), self.wanted)


def scopes(queue: QueueTable, states: Sequence[str], chosen: Filters) -> list[Scope]:
    """Return what to look at for `states` (none: all), the most urgent first.

    Raises UsageError for what is no state, and Misconfigured for one that the queue lacks or whose age is not known.
    """
    asked = [state for state in IMPORTANCE if state in (states or [*queue.states])]
    _check(queue, states, chosen)
    if chosen.older_than is not None and not states:
        asked = [state for state in asked if age_role(queue, state)]
    walks = [(state, st.listing_walk(queue, state_of(state), value)) for state, value in _values(queue, asked)]
    if all(walk for _, walk in walks):
        return [_scope(queue, state, walk, chosen) for state, walk in walks if walk]
    wanted = sa.or_(
        sa.false(), *(sa.and_(_is_in(queue, state), meets(queue, state_of(state), chosen)) for state in asked)
    )
    ages = {age_role(queue, state_of(state)) for state in asked}
    return [Scope("", st.newest_walk(queue), wanted, ages.pop() if len(ages) == 1 else None)]


def state_of(name: str) -> str:
    """Return the state that a word of --state means."""
    return "running" if name == EXPIRED else name


def _check(queue: QueueTable, states: Sequence[str], chosen: Filters) -> None:
    for state in states:
        if state not in IMPORTANCE:
            raise UsageError(f"{state!r} is no state of a queue; {nearest(state, (*STATES, EXPIRED))}")
        queue.require("jobs", roles=("lease_until",) if state == EXPIRED else (), states=(state_of(state),))
        if chosen.older_than is not None and age_role(queue, state_of(state)) is None:
            raise Misconfigured(
                f"queue {queue.name!r} keeps no time from which the age of its {state} jobs counts; leave out "
                f"--older-than, or map the column in [queues.{queue.name}.columns]"
            )
    require_roles(queue, "jobs", chosen)


def _values(queue: QueueTable, states: Sequence[str]) -> list[tuple[str, StateValue]]:
    return [(state, value) for state in states for value in queue.states[state_of(state)]]


def _is_in(queue: QueueTable, state: str) -> sa.ColumnElement[bool]:
    return expired(queue) if state == EXPIRED else queue.in_state(state)


def _scope(queue: QueueTable, state: str, walk: Walk, chosen: Filters) -> Scope:
    wanted = meets(queue, state_of(state), chosen)
    if state == EXPIRED:
        wanted = sa.and_(expired(queue), wanted)
        if walk.steps[0].column is queue.columns["lease_until"]:
            walk = choose_walk(queue, walk.value, by="lease_until", past=Past("lease_until"))
    return Scope(state, walk, wanted, age_role(queue, state_of(state)))


@dataclass
class Scan:
    """Reads a scope's wanted jobs, at most `bound` rows of any kind: their ids, then `shown`.

    `examined` rows were read; `complete` says that there are no further ones.
    """

    connection: sa.Connection
    queue: QueueTable
    scope: Scope
    bound: int
    shown: Sequence[sa.ColumnElement[Any]] = ()
    chunk: int = CHUNK
    examined: int = 0
    complete: bool = False

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        """Yield (id, *shown) of each wanted job."""
        width = len(self.scope.walk.steps)
        key: tuple[Any, ...] | None = None
        while self.examined < self.bound:
            size = min(self.chunk, self.bound - self.examined)
            query = st.examine(self.queue, self.scope.walk, key, size, self.scope.wanted, self.shown)
            rows = self.connection.execute(query).all()
            self.examined += len(rows)
            self.complete = len(rows) < size
            for row in rows:
                if row[width]:
                    yield (row[width - 1], *row[width + 1 :])
            if self.complete:
                return
            key = tuple(rows[-1][:width])
