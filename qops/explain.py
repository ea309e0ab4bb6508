"""What the optimizer intends to do with a statement.

The traditional format is the only one that looks the same on all versions; 9.x defaults to TREE. The row
estimate is left out on purpose: for a claim with LIMIT 1 it read 25,152 where one row was read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    import sqlalchemy as sa
    from sqlalchemy.sql.expression import ClauseElement


@dataclass(frozen=True)
class PlanLine:
    """One line of EXPLAIN: the access type (`ref`, `range`, `ALL`, …), the index, and the remarks."""

    table: str | None
    access: str | None
    key: str | None
    extra: str

    @property
    def sorts(self) -> bool:
        """Whether it sorts: then LIMIT applies after the locks were taken."""
        return "Using filesort" in self.extra


def explain(
    connection: sa.Connection, statement: ClauseElement, parameters: Mapping[str, Any] | None = None
) -> tuple[PlanLine, ...]:
    """Return the plan of `statement`, of any kind; it needs the statement's privileges, and locks nothing.

    It is compiled as it would be sent and handed to the driver: SQLAlchemy would take EXPLAIN's rows for those of
    the statement, and an INSERT's for none.
    """
    compiled = statement.compile(dialect=connection.dialect)
    # The list of positions names parameters as they are, also those (after columns) that a dialect has to escape.
    sent = compiled.construct_expanded_state(parameters, escape_names=False)  # type: ignore[attr-defined]
    query = f"EXPLAIN FORMAT=TRADITIONAL {sent.statement}"
    rows = connection.exec_driver_sql(query, sent.positional_parameters).mappings()
    return tuple(PlanLine(row["table"], row["type"], row["key"], row["Extra"] or "") for row in rows)
