"""What the optimizer intends to do with a statement.

The traditional format is the only one that looks the same on all versions; 9.x defaults to TREE. The row
estimate is left out on purpose: for a claim with LIMIT 1 it read 25,152 where one row was read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.expression import ClauseElement, Executable

if TYPE_CHECKING:
    from collections.abc import Mapping

    import sqlalchemy as sa


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


class _Explain(Executable, ClauseElement):
    inherit_cache = False

    def __init__(self, statement: ClauseElement) -> None:
        self.statement = statement


@compiles(_Explain)
def _compile(element: _Explain, compiler: Any, **options: Any) -> str:  # noqa: ANN401 - SQLAlchemy's protocol
    return f"EXPLAIN FORMAT=TRADITIONAL {compiler.process(element.statement, **options)}"


def explain(
    connection: sa.Connection, statement: ClauseElement, parameters: Mapping[str, Any] | None = None
) -> tuple[PlanLine, ...]:
    """Return the plan of `statement`; it needs the privileges of the statement itself and locks nothing."""
    rows = connection.execute(_Explain(statement), parameters or {}).mappings()
    return tuple(PlanLine(row["table"], row["type"], row["key"], row["Extra"] or "") for row in rows)
