"""From settings and what is there to a plan: the whole comparison, without changing anything."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qops.errors import Misconfigured
from qops.privileges import LEDGER_TABLE
from qops.schema.archive_table import compare_archive, create_archive
from qops.schema.facts import TableFacts, current_schema, demand_columns, read_table
from qops.schema.findings import Findings
from qops.schema.ledger_table import compare_ledger, create_ledger
from qops.schema.queue_table import as_created, compare_queue, create_queue
from qops.schema.result import Plan

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    import sqlalchemy as sa

    from qops.queue_settings import QueueSettings


def make_plan(
    connection: sa.Connection,
    settings: QueueSettings,
    *,
    repair: bool,
    qualified: bool = False,
    created: AbstractSet[str] = frozenset(),
) -> Plan:
    """Compare the queue's table, its archive and the ledger with what the queue needs.

    With `repair` later steps build on what earlier ones add. With `qualified` changes of tables name the schema.
    Tables in `created` were made by this run: where the account may not see their columns (it has CREATE alone),
    they are as they should be. Raises Misconfigured (78) for tables of other applications and views, and the
    driver's refusal (1142) where columns may not be seen.
    """
    schema = current_schema(connection)
    names = (settings.table, settings.archive_table, LEDGER_TABLE)
    queue, archive, ledger = (_read(connection, schema, name, created) for name in names)
    _distinct(settings, queue, archive, ledger)
    findings = Findings(schema if qualified else None)
    if isinstance(queue, TableFacts):
        source = compare_queue(findings, settings, queue, repair=repair)
    elif queue is None:
        source = create_queue(findings, settings)
    else:
        source = as_created(settings)
    if isinstance(archive, TableFacts):
        compare_archive(findings, settings, source, archive)
    elif archive is None:
        create_archive(findings, settings, source)
    if isinstance(ledger, TableFacts):
        compare_ledger(findings, ledger)
    elif ledger is None:
        create_ledger(findings)
    return Plan(schema, tuple(findings.actions), tuple(findings.drift), tuple(findings.advice))


def _read(connection: sa.Connection, schema: str, name: str, created: AbstractSet[str]) -> TableFacts | bool | None:
    """Return what is known of a table, None if there is none, True if this run made it and may not look at it."""
    facts = read_table(connection, schema, name)
    if facts is None:
        return True if name in created else None
    if not facts.columns and name in created:
        return True
    demand_columns(connection, facts)
    return facts


def _distinct(settings: QueueSettings, *tables: TableFacts | bool | None) -> None:
    """Raise Misconfigured where two of the names mean one table, on this server with its rules about case."""
    stored = [facts.name for facts in tables if isinstance(facts, TableFacts)]
    named = [settings.table, settings.archive_table, LEDGER_TABLE]
    for names in (named, stored):
        if len(set(names)) < len(names):
            raise Misconfigured(
                f"the queue, its archive and the run ledger must be three tables, but they are {', '.join(names)}; "
                f"name others in [queues.{settings.name}] table and archive_table"
            )
