"""The archive: the queue's columns with the same types, so that a row arrives unchanged."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from qops.columns import TEXTS, TIMES, quoted
from qops.db import quote_name
from qops.differences import fits
from qops.errors import Misconfigured
from qops.schema import ddl
from qops.schema.findings import Findings, compare_storage
from qops.schema.tables import archive_key, archive_table, archived, existing_column

if TYPE_CHECKING:
    from qops.columns import ColumnFact
    from qops.queue_settings import QueueSettings
    from qops.schema.facts import TableFacts
    from qops.schema.queue_table import Source

_RANK = {"tinyint": 1, "smallint": 2, "mediumint": 3, "int": 4, "bigint": 8}
_LENGTH_BYTE = 255  # a VARCHAR of more bytes has two bytes for its length, and to change that copies the table


def create_archive(findings: Findings, settings: QueueSettings, source: Source) -> None:
    """Plan to create the archive, with the index by which `qops expire` finds old jobs."""
    table = archive_table(settings, source.columns)
    key = archive_key(settings, table)
    findings.create(table, (key,) if key else ())


def compare_archive(findings: Findings, settings: QueueSettings, source: Source, facts: TableFacts) -> None:
    """Compare an existing archive with the queue's columns.

    An archive that a trigger of the owner fills has the columns that the trigger writes; only its id matters.
    Raises Misconfigured for a table that is no archive of this queue: one without its id.
    """
    id_ = facts.find(source.id)
    if id_ is None:
        raise Misconfigured(
            f"archive table {quote_name(facts.name)} has no column {source.id!r}, so it looks like a table of another "
            f"application, and nothing was created or changed; name another in [queues.{settings.name}] archive_table"
        )
    compare_storage(findings, facts, id_)
    _compare_index(findings, settings, facts)
    if settings.archive_by == "trigger":
        return
    for column in source.columns:
        there = facts.find(column.name)
        if there is None:
            findings.add_column(facts.name, archived(column, late=True))
        elif column.name in source.facts:
            _compare_column(findings, facts, source.facts[column.name], there)
    _compare_extra(findings, facts, {column.name.lower() for column in source.columns})


def _compare_index(findings: Findings, settings: QueueSettings, facts: TableFacts) -> None:
    """Advise an index by finish time: without one, expire works as well, but reads every archived job."""
    columns: list[sa.Column[Any]] = [sa.Column(quoted(name)) for name in facts.columns]
    key = archive_key(settings, findings.table(facts.name, *columns))
    if key is None or any(index.begins_with(*key.columns) for index in facts.indexes):
        return
    advice = (
        f"qops expire reads every job of {quote_name(facts.name)}, because no index begins with ({key}); "
        f"{settings.command('init --repair')} adds one"
    )
    findings.add_index(facts, key, advice=advice)


def _compare_column(findings: Findings, facts: TableFacts, source: ColumnFact, there: ColumnFact) -> None:
    """Compare one column by the archiver's own rule: a type that keeps every value as it is, and room for NULL."""
    if there.generated:
        if source.expression != there.expression:
            findings.differ(f"{facts.name}.{there.name}", "values as they are in the queue", "computed there")
        return
    same_type = fits(source, there)
    nullable = source.nullable or there.nullable
    if same_type and nullable == there.nullable:
        return
    is_id = there.name.lower() == source.name.lower() and facts.identified_by(there.name) and not nullable
    wanted = existing_column(there if same_type else replace(source, name=there.name), is_id=is_id, nullable=nullable)
    found = f"{there.column_type}{f' COLLATE {there.collation}' if there.collation else ''}"
    findings.differ(
        f"{facts.name}.{there.name}",
        ddl.type_sql(wanted.type),
        found if nullable == there.nullable else f"{found} NOT NULL",
    )
    options = _online(source, there, same_type=same_type)
    if options or _holds(source, there):
        findings.modify(facts, wanted, *options)


def _online(source: ColumnFact, there: ColumnFact, *, same_type: bool) -> tuple[tuple[str, ...], ...]:
    """Return how MySQL can change `there` to `source` while rows are written; empty if it has to copy the table."""
    if source.collation != there.collation:
        return ()
    if same_type:
        return (ddl.ONLINE,)
    if source.data_type == there.data_type == "enum" and source.labels[: len(there.labels)] == there.labels:
        return (ddl.INSTANT, ddl.ONLINE)
    if source.data_type == there.data_type == "varchar" and source.length and there.length:
        width = {"utf8mb4": 4, "utf8mb3": 3}.get(source.charset or "", 1)
        one_class = (source.length * width > _LENGTH_BYTE) == (there.length * width > _LENGTH_BYTE)
        return (ddl.ONLINE,) if there.length < source.length and one_class else ()
    return ()


def _holds(source: ColumnFact, there: ColumnFact) -> bool:
    """Whether everything that `there` may hold by now fits into the type of `source`."""
    kinds = {source.data_type, there.data_type}
    if source.charset not in {there.charset, ddl.CHARSET}:
        return False
    if kinds <= set(_RANK):
        unsigned = "unsigned" in source.column_type, "unsigned" in there.column_type
        wider = _RANK[source.data_type] - _RANK[there.data_type]
        return wider >= 0 if unsigned[0] == unsigned[1] else wider > 0 and unsigned == (False, True)
    if kinds <= TEXTS:
        # A CHAR loses spaces at the end.
        return (source.length or 0) >= (there.length or 0) and (source.data_type != "char" or len(kinds) == 1)
    if kinds == {"enum"}:
        return set(there.labels) <= set(source.labels)
    if len(kinds) == 1 and kinds <= TIMES | {"time"}:
        return (source.precision or 0) >= (there.precision or 0)
    return len(kinds) == 1 and source.length is not None and source.length >= (there.length or 0)


def _compare_extra(findings: Findings, facts: TableFacts, filled: set[str]) -> None:
    """Compare what the archive has beyond the queue: the archiver gives it no value."""
    for name, fact in facts.columns.items():
        definition = facts.definitions[name]
        gives = fact.nullable or fact.generated or definition.default is not None or "AUTO_INCREMENT" in fact.extra
        if name.lower() not in filled and not gives:
            findings.differ(
                f"{facts.name}.{name}", "a default or NULL, since the queue has no such column", fact.column_type
            )
            findings.modify(facts, existing_column(fact, is_id=False, nullable=True))
