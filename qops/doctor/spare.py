"""Which indexes of the queue's table are written for nothing: by every claim where they hold the status."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import exc

from qops.db import DENIED, errno, prose, quote_name, statement
from qops.doctor.facts import Unknown
from qops.doctor.type_facts import Doubtful, Spare, SpareFacts
from qops.privileges import Need
from qops.schema.indexes import CLAIM_INDEX, INDEXES, Shape, columns_of, describe

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import sqlalchemy as sa

    from qops.indexes import Index
    from qops.queue import QueueTable

_SESSIONS = Need("SELECT", "performance_schema.*", "see which indexes are read")
_OURS = frozenset({CLAIM_INDEX, *(index.name for index in INDEXES)})


def read_spare(connection: sa.Connection, queue: QueueTable, grant: Callable[[Need], str]) -> SpareFacts:
    """Return the indexes that nothing needs. One on the status alone is `claim-index`'s business."""
    names = {"schema": queue.schema, "table": queue.table.name}
    held = {row.name for row in connection.execute(statement("foreign_key_columns"), names)}
    judge = _Judge(queue, held)
    spare = tuple(judge.spare())
    doubtful = judge.doubtful()
    if not doubtful:
        return SpareFacts(spare)
    try:
        rows = {row.name: row for row in connection.execute(statement("index_reads"), names)}
    except exc.DBAPIError as error:
        if errno(error) in DENIED:
            return SpareFacts(spare, Unknown(prose(error), grant(_SESSIONS)))
        raise
    found = tuple(
        Doubtful(describe(index), int(rows[index.name].fetched) if index.name in rows else None, judge.drop(index))
        for index in doubtful
    )
    uptime = next((int(row.uptime or 0) for row in rows.values()), 0)
    return SpareFacts(spare, found, uptime)


class _Judge:
    """What the queue needs of its indexes, and which of them are still `kept` while one after another is given up."""

    def __init__(self, queue: QueueTable, held: set[str]) -> None:
        self.queue, self.held = queue, held
        self.shape = Shape(queue.columns, frozenset(queue.states), queue.order)
        self.primary = next((index for index in queue.indexes if index.name == "PRIMARY"), None)
        self.kept = list(queue.indexes)
        self.status = queue.columns["status"].name.lower()
        keys = [self.shape.key(one) for one in INDEXES if one.state in queue.states and queue.has(one.role)]
        claiming = [index for index in queue.indexes if self.shape.claims_by(index, self.primary)]
        self.claimed = any(index.visible for index in claiming)
        self.needs = [
            _usable(claiming),
            *(_usable([i for i in queue.indexes if columns_of(i)[:2] == key.columns]) for key in keys),
        ]

    def spare(self) -> Iterator[Spare]:
        """Yield the indexes to be given up: of two alike the one that `qops init` did not name."""
        for index in sorted(self.kept, key=lambda one: (one.visible, one.name in _OURS, len(one.parts), one.name)):
            why = self._why(index) if self._free(index) else None
            if why:
                self.kept.remove(index)
                yield Spare(describe(index), why, self.drop(index))

    def doubtful(self) -> list[Index]:
        """Return what is left on the status that no statement of qops needs."""
        return [index for index in self.kept if index.columns[:1] == (self.status,) and self._free(index)]

    def drop(self, index: Index) -> str:
        """Return the statement that drops an index."""
        table = f"{quote_name(self.queue.schema)}.{quote_name(self.queue.table.name)}"
        return f"DROP INDEX {quote_name(index.name)} ON {table};"

    def _free(self, index: Index) -> bool:
        """Whether neither a statement of qops nor a key needs it, nor another check is about it."""
        on_status = index.columns[:1] == (self.status,)
        if index.unique or index.columns[0] in self.held or (on_status and not self.claimed):
            return False
        if index.name == self.queue.claim_index:  # claims of qops, and those that it advises, name it
            return False
        if index.columns == (self.status,) and index.visible:
            return False
        names = {one.name for one in self.kept} - {index.name}
        return not any(index.name in need and not need & names for need in self.needs)

    def _why(self, index: Index) -> str | None:
        wider = next((one for one in self.kept if one is not index and one.visible and _covers(one, index)), None)
        if wider:
            return f"the first part of {describe(wider)}, which serves as well"
        if not index.visible:
            return "nothing reads it while it is invisible"
        ours = self.queue.id.name.lower()
        claim = set(self.shape.claim_key().columns) - {ours}
        if index.columns[0] == self.status and set(index.columns) - {ours} == claim and self.claimed:
            fits = self.shape.claims_by(index, self.primary)
            return "a second one for the claim" if fits else "it has the claim's columns and not its order"
        return None


def _usable(fitting: list[Index]) -> set[str]:
    """Return the names of those that serve: the visible ones, or where there is none those that could be shown."""
    return {index.name for index in fitting if index.visible} or {index.name for index in fitting}


def _covers(wider: Index, index: Index) -> bool:
    """Whether whatever `index` finds is found by the other as well, in the same order of its parts."""
    whole = all(part.column is not None and not part.prefix for part in index.parts)
    return (
        whole and wider.columns[: len(index.parts)] == index.columns and wider.order[: len(index.parts)] == index.order
    )
