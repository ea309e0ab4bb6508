"""Which indexes a queue needs, what for, and which of those that are there serve as well.

The list is data: a change of INDEXES is a change of the default table, of `init` and of what sql/jobs.sql must say.

Beside the claim's index each statement of maintenance has the pair (status, time) to itself. Measured on MySQL
9.7.4, 2 cores, one worker, enqueue to complete, durable log: the three together write 1.24 times the redo of the
claim's index alone and take 1.08 times the server's CPU; jobs per second are 0.94 of it, and 0.91 of those of a table
with the claim's index and no times at all (0.92 with four workers). Fewer or shorter ones do not serve: a leading
time is of no use where old rows keep a lease, and (status, finished_at, available_at) sorts, and locks, all finished
jobs once the id decides ties.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from qops.indexes import gives_order
from qops.order import decisive_order, direction
from qops.schema.ddl import Key

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import sqlalchemy as sa

    from qops.indexes import Index, IndexPart

CLAIM_INDEX = "claim_idx"


@dataclass(frozen=True)
class Maintenance:
    """An index (status, `role`) for the statement by which `command` finds jobs in `state`.

    `few` says that there are never more such jobs than workers have in hand: then any index that begins with
    the status will do, and this one is advice for a table that qops did not make. `cost` was measured as above, that of
    available_idx and finished_idx for both together.
    """

    name: str
    role: str
    state: str
    command: str
    cost: str
    few: bool = False


INDEXES = (
    Maintenance("lease_idx", "lease_until", "running", "requeue --expired", "1.01 x the redo", few=True),
    Maintenance("available_idx", "available_at", "scheduled", "promote", "1.23 x the redo"),
    Maintenance("finished_idx", "finished_at", "done", "archive", "1.23 x the redo"),
)


@dataclass(frozen=True)
class Shape:
    """What matters of a queue here: columns by role, the states it has, the claim's order."""

    roles: Mapping[str, sa.Column[Any]]
    states: frozenset[str]
    order: tuple[sa.ColumnElement[Any], ...]

    def claim_key(self) -> Key:
        """Return the index in whose order workers claim."""
        decisive = dict(decisive_order(self.order, self.roles))
        parts = [part for part in self.order if direction(part)[0] in decisive]
        return Key(CLAIM_INDEX, (self.roles["status"], *parts))

    def claims_by(self, index: Index, primary: Index | None) -> bool:
        """Whether an index, were it visible, gives the claim's rows in order, in either direction."""
        return gives_order(index, primary, self.roles["status"].name, decisive_order(self.order, self.roles))

    def key(self, index: Maintenance) -> Key:
        """Return an index of the list with this queue's columns."""
        return Key(index.name, (self.roles["status"], self.roles[index.role]))

    def unserved(self, present: Iterable[Sequence[str]]) -> list[Maintenance]:
        """Return what this queue needs of the list beside indexes on the columns `present` (in lower case)."""
        heads = {tuple(columns[:2]) for columns in present}
        needed = [index for index in INDEXES if index.state in self.states and index.role in self.roles]
        return [index for index in needed if self.key(index).columns not in heads]

    def keys(self) -> tuple[Key, ...]:
        """Return all the indexes of a new table: the claim's, then what it does not serve."""
        claim = self.claim_key()
        return (claim, *(self.key(index) for index in self.unserved([claim.columns])))


def columns_of(index: Index) -> tuple[str, ...]:
    """Return the columns of an index by which it can be walked, in lower case."""
    return tuple(name for name, _ in index.order)


def describe(index: Index) -> str:
    """Return an index in words, as it is found: name, parts, and why it may not be used."""
    hidden = "" if index.visible else ", invisible"
    return f"{index.name} ({', '.join(map(_part, index.parts))}{hidden})"


def _part(part: IndexPart) -> str:
    name = part.column or "an expression"
    return f"{name}{' (prefix)' if part.prefix else ''}{' DESC' if part.descending else ''}"
