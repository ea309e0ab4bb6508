"""Before the first row: whether the archive table can take these rows unchanged."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qops.errors import Misconfigured

if TYPE_CHECKING:
    from qops.queue import ColumnFact, QueueTable


def check_tables(queue: QueueTable) -> None:
    """Raise Misconfigured naming every difference between the two tables that could lose or change data."""
    if not queue.archive_facts:
        raise Misconfigured(
            f"archive table {queue.archive.name!r} does not exist (or this account may not see it); create it "
            "with: qops init"
        )
    if queue.settings.archive_by == "trigger":
        return
    differences = [
        difference
        for name, fact in queue.facts.items()
        if (difference := _difference(fact, queue.archive_facts.get(name)))
    ]
    if differences:
        raise Misconfigured(
            f"archive table {queue.archive.name!r} cannot take the rows of {queue.table.name!r} unchanged: "
            f"{'; '.join(differences)}; nothing was moved; see qops init --dry-run for the ALTER"
        )


def _difference(source: ColumnFact, target: ColumnFact | None) -> str | None:
    """Say what keeps a column from being copied unchanged; None if nothing does."""
    if target is None:
        return f"column {source.name!r} is missing"
    if target.generated:
        return None
    if source.nullable and not target.nullable:
        return f"column {source.name!r} is NOT NULL there"
    if source.column_type != target.column_type:
        return f"column {source.name!r} is {target.column_type} there and {source.column_type} here"
    if source.collation != target.collation:
        return f"column {source.name!r} is {target.collation} there and {source.collation} here"
    return None
