"""The run ledger: a table of qops alone, which older versions may have left with fewer columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qops.db import quote_name
from qops.errors import Misconfigured
from qops.schema.findings import Findings, compare_storage
from qops.schema.tables import ledger_table

if TYPE_CHECKING:
    from qops.schema.facts import TableFacts

_OWN = ("id", "command", "queue")


def create_ledger(findings: Findings) -> None:
    """Plan to create the ledger."""
    table, keys = ledger_table()
    findings.create(table, keys)


def compare_ledger(findings: Findings, facts: TableFacts) -> None:
    """Compare an existing ledger. Raises Misconfigured for a table of another application."""
    facts_by_role = {name: facts.find(name) for name in _OWN}
    lacking = [name for name, fact in facts_by_role.items() if fact is None]
    id_ = facts_by_role["id"]
    if id_ is None or lacking:
        raise Misconfigured(
            f"table {quote_name(facts.name)} has no column {lacking[0]!r}, so it is not the run ledger of qops, and "
            "nothing was created or changed; rename it: the ledger's name is fixed"
        )
    compare_storage(findings, facts, id_)
    for column in list(ledger_table()[0].columns):
        if facts.find(column.name) is None:
            findings.add_column(facts.name, column._copy())  # noqa: SLF001 - a column belongs to one table only
    for key in ledger_table()[1]:
        if not any(index.begins_with(*key.columns[:2]) for index in facts.indexes):
            findings.add_index(facts, key)
