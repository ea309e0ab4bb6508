"""Which indexes a queue needs, what for, and which of those that are there serve as well.

The list is data: a change of INDEXES is a change of the default table, of `init` and of sql/jobs.sql's test.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from qops.schema.ddl import Key, direction

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import sqlalchemy as sa

    from qops.indexes import Index, IndexPart

CLAIM_INDEX = "claim_idx"


@dataclass(frozen=True)
class Purpose:
    """A statement of qops that walks through the jobs in one state by one time.

    `heads` are the beginnings of an index, as roles, along which it can go. `few` says that there are never
    more such rows than workers have in hand: then any index that begins with the status will do, and the
    better one is advice.
    """

    command: str
    state: str
    role: str
    heads: tuple[tuple[str, ...], ...]
    few: bool = False


REQUEUE = Purpose("requeue --expired", "running", "lease_until", (("status", "lease_until"),), few=True)
ARCHIVE = Purpose("archive --older-than", "done", "finished_at", (("status", "finished_at"),))
PROMOTE = Purpose(
    "promote", "scheduled", "available_at", (("status", "available_at"), ("status", "finished_at", "available_at"))
)
PURPOSES = (REQUEUE, ARCHIVE, PROMOTE)

INDEXES: tuple[tuple[str, tuple[str, ...], tuple[Purpose, ...]], ...] = (
    ("lease_idx", ("status", "lease_until"), (REQUEUE,)),
    ("finished_idx", ("status", "finished_at", "available_at"), (ARCHIVE, PROMOTE)),
)
"""Name, roles, and the purposes of each index beside the claim's. finished_at is NULL in a scheduled job, so one
index leads to the jobs that are due and to those that are finished."""


@dataclass(frozen=True)
class Shape:
    """What matters of a queue here: columns by role, the states it has, the claim's order."""

    roles: Mapping[str, sa.Column[Any]]
    states: frozenset[str]
    order: tuple[sa.ColumnElement[Any], ...]

    def needs(self, purpose: Purpose) -> bool:
        """Whether the queue has what the statement is about."""
        return purpose.state in self.states and purpose.role in self.roles

    def claim_key(self) -> Key:
        """Return the index in whose order workers claim."""
        status = self.roles["status"]
        return Key(CLAIM_INDEX, (status, *self._sorted()))

    def _sorted(self) -> list[sa.ColumnElement[Any]]:
        """Return the order without what decides nothing: the status, which is fixed, and whatever follows the id."""
        kept: list[sa.ColumnElement[Any]] = []
        for part in self.order:
            name = direction(part)[0]
            if name != self.roles["status"].name:
                kept.append(part)
            if name == self.roles["id"].name:
                break
        return kept

    def claims_by(self, index: Index, primary: Index | None) -> bool:
        """Whether an index, were it visible, gives the claim's rows in order, in either direction.

        InnoDB appends the primary key to every secondary index, and the optimizer knows (index extensions).
        """
        parts = usable(index)
        if len(parts) == len(index.parts) and primary:
            names = {name for name, _ in parts}
            parts += [part for part in usable(primary) if part[0] not in names]
        if not parts or parts[0][0] != self.roles["status"].name.lower():
            return False
        wanted = [(name.lower(), down) for name, down in map(direction, self._sorted())]
        head = parts[1 : 1 + len(wanted)]
        return head in (wanted, [(name, not down) for name, down in wanted])

    def walks_by(self, purpose: Purpose, columns: Sequence[str | None]) -> bool:
        """Whether an index on `columns` leads the statement to its rows and no others."""
        for head in purpose.heads:
            if all(role in self.roles for role in head):
                names = tuple(self.roles[role].name.lower() for role in head)
                if tuple(columns[: len(names)]) == names:
                    return True
        return False

    def unserved(self, columns: Iterable[Sequence[str | None]]) -> list[Purpose]:
        """Return the purposes of this queue that no index on any of `columns` serves."""
        present = list(columns)
        needed = [purpose for purpose in PURPOSES if self.needs(purpose)]
        return [p for p in needed if not any(self.walks_by(p, one) for one in present)]

    def maintenance_keys(self, unserved: Sequence[Purpose]) -> list[tuple[Key, tuple[Purpose, ...]]]:
        """Return the indexes of the list that `unserved` purposes call for, with the purposes they then serve."""
        chosen = []
        for name, roles, purposes in INDEXES:
            served = tuple(purpose for purpose in purposes if purpose in unserved)
            if served:
                used = {"status", *(purpose.role for purpose in served)}
                chosen.append((Key(name, [self.roles[role] for role in roles if role in used]), served))
        return chosen

    def keys(self) -> tuple[Key, ...]:
        """Return all the indexes of a new table: the claim's, then those that serve what it does not."""
        claim = self.claim_key()
        unserved = self.unserved([claim.columns])
        return (claim, *(key for key, _ in self.maintenance_keys(unserved)))


def usable(index: Index) -> list[tuple[str, bool]]:
    """Return the parts of an index up to the first that gives no order: an expression or a prefix."""
    parts: list[tuple[str, bool]] = []
    for part in index.parts:
        if part.column is None or part.prefix:
            break
        parts.append((part.column.lower(), part.descending))
    return parts


def describe(index: Index) -> str:
    """Return an index in words, as it is found: name, parts, and why it may not be used."""
    hidden = "" if index.visible else ", invisible"
    return f"{index.name} ({', '.join(map(_part, index.parts))}{hidden})"


def _part(part: IndexPart) -> str:
    name = part.column or "an expression"
    return f"{name}{' (prefix)' if part.prefix else ''}{' DESC' if part.descending else ''}"
