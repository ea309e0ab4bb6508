"""What all tables are compared by: engine, identity and columns; and where the differences are collected."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from qops.columns import INTEGERS, TEXTS, quoted
from qops.db import quote_name
from qops.schema import ddl
from qops.schema.indexes import describe
from qops.schema.result import Action, Drift, When
from qops.schema.tables import existing_column

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sqlalchemy.schema import ExecutableDDLElement

    from qops.columns import ColumnFact
    from qops.indexes import Index
    from qops.schema.facts import TableFacts

MISSING = "missing"
_REPEATABLE_TYPES = INTEGERS | TEXTS | {"enum", "timestamp", "datetime", "json"}


@dataclass
class Findings:
    """Differences, actions and advice, as they are found.

    Statements name the `schema` if there is one: those for people who may be in another. A script of `init` has USE.
    """

    schema: str | None = None
    actions: list[Action] = field(default_factory=list)
    drift: list[Drift] = field(default_factory=list)
    advice: list[str] = field(default_factory=list)

    def table(self, name: str, *columns: sa.Column[Any]) -> sa.Table:
        """Return a table as the statements name it; the columns belong to it then."""
        return sa.Table(quoted(name), sa.MetaData(), *columns, schema=quoted(self.schema) if self.schema else None)

    def differ(self, name: str, expected: str, found: str = MISSING) -> None:
        """Note a difference."""
        self.drift.append(Drift(name, expected, found))

    def create(self, table: sa.Table, keys: Iterable[ddl.Key] = ()) -> None:
        """Plan to create a missing table."""
        sql = ddl.to_sql(ddl.CreateTable(table, tuple(keys)))
        self.actions.append(Action("create-table", table.name, (sql,), When.ALWAYS, table.name, sql))

    def repair(
        self, action: str, name: str, table: str, *elements: ExecutableDDLElement, need: str | None = None
    ) -> None:
        """Plan an online change; later elements are for servers that cannot do the earlier ones."""
        statements = tuple(map(ddl.to_sql, elements))
        self.actions.append(Action(action, name, statements, When.REPAIR, table, need or statements[0]))

    def by_hand(self, name: str, table: str, element: ExecutableDDLElement) -> None:
        """Show a change that would block the workers; qops does not make it."""
        sql = ddl.to_sql(element)
        self.actions.append(Action("by-hand", name, (sql,), When.BY_HAND, table, sql))

    def add_column(self, table: str, column: sa.Column[Any]) -> None:
        """Note a missing column and plan to add it."""
        self.table(table, column)
        name = f"{table}.{column.name}"
        self.differ(name, ddl.column_sql(column))
        self.repair("add-column", name, table, ddl.AddColumn(column, ddl.INSTANT), ddl.AddColumn(column, ddl.ONLINE))

    def add_index(self, facts: TableFacts, key: ddl.Key, *, advice: str | None = None, found: str = MISSING) -> None:
        """Plan to add an index under a free name; a difference, unless it is only `advice`."""
        free = ddl.Key(_free_name(key.name, facts.indexes), key.parts, unique=key.unique)
        name = f"{facts.name}.{free.name}"
        if advice:
            self.advice.append(advice)
        else:
            self.differ(name, f"{'unique ' if key.unique else ''}index on ({key})", found)
        table = self.table(facts.name)
        need = f"index on {facts.name} ({key})"
        self.repair("add-index", name, facts.name, ddl.CreateIndex(table, free, ddl.ONLINE), need=need)

    def show_index(self, facts: TableFacts, index: Index, expected: str) -> None:
        """Note an index that would serve if it were visible, and plan to make it so."""
        name = f"{facts.name}.{index.name}"
        self.differ(name, expected, describe(index))
        table = self.table(facts.name)
        self.repair("show-index", name, facts.name, ddl.ShowIndex(table, index.name, ddl.ONLINE))

    def modify(self, facts: TableFacts, column: sa.Column[Any], *options: tuple[str, ...]) -> bool:
        """Plan to restate a column with each of `options` in turn (none: by hand); False if it cannot be."""
        fact = facts.find(column.name)
        definition = facts.definitions.get(fact.name) if fact else None
        repeatable = fact and definition and definition.repeatable and fact.data_type in _REPEATABLE_TYPES
        # Escapes in a type's text are not undone on the way in, so it cannot be said again.
        if not (fact and definition and repeatable) or "\\" in fact.column_type:
            return False
        column.comment = definition.comment or None
        if definition.default is not None:
            column.server_default = sa.DefaultClause(definition.server_default() or "")
        self.table(facts.name, column)
        name = f"{facts.name}.{fact.name}"
        if options:
            elements = [ddl.ModifyColumn(column, one) for one in options]
            self.repair("modify-column", name, facts.name, *elements)
        else:
            self.by_hand(name, facts.name, ddl.ModifyColumn(column, ddl.OFFLINE))
        return True


def compare_storage(findings: Findings, facts: TableFacts, id_: ColumnFact) -> None:
    """Compare what every table of a queue must be: InnoDB, with a primary key, each row found by its id."""
    if (facts.engine or "").lower() != ddl.ENGINE.lower():
        findings.differ(facts.name, f"ENGINE={ddl.ENGINE}", f"ENGINE={facts.engine}")
        findings.by_hand(facts.name, facts.name, ddl.ConvertEngine(findings.table(facts.name)))
    column = existing_column(id_, is_id=True)
    findings.table(facts.name, column)
    name = f"{facts.name}.PRIMARY"
    if facts.primary is None:
        findings.differ(name, f"PRIMARY KEY ({quote_name(id_.name)})")
        if id_.nullable:
            findings.by_hand(name, facts.name, ddl.AddPrimaryKey(column, ddl.OFFLINE))
        else:
            findings.repair("add-primary-key", name, facts.name, ddl.AddPrimaryKey(column, ddl.ONLINE))
    elif not facts.identified_by(id_.name):
        findings.add_index(facts, ddl.Key("id_idx", (column,), unique=True), found=describe(facts.primary))


def _free_name(wanted: str, indexes: Iterable[Index]) -> str:
    """Return `wanted`, or with a number if an index of another shape has that name."""
    taken = {index.name.lower() for index in indexes}
    candidates = (wanted, *(f"{wanted}_{number}" for number in range(2, len(taken) + 3)))
    return next(name for name in candidates if name.lower() not in taken)
