"""The queue's own table: what its roles, states and statements need, and what an existing table lacks of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy.dialects import mysql

from qops.columns import INTEGERS, TIMES, ColumnFact, quoted
from qops.db import quote_name
from qops.errors import Misconfigured
from qops.queue import ROLE_TYPES, needed_states
from qops.schema import ddl
from qops.schema.findings import MISSING, Findings, compare_storage
from qops.schema.indexes import Shape, columns_of, describe
from qops.schema.tables import (
    ROLE_ORDER,
    column_name,
    existing_column,
    labels,
    order_of,
    queue_table,
    role_column,
    wanted_states,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from qops.queue_settings import QueueSettings, StateValue
    from qops.schema.facts import TableFacts

COMPARED_TIMES = ("lease_until", "available_at", "finished_at")
CLEARED = ("claimed_by", "lease_until", "finished_at")
"""Roles that a requeue sets to NULL."""


@dataclass(frozen=True)
class Source:
    """What the archive is measured by: the queue's columns, also those that this run adds.

    `facts` describes them where they exist already, `id` is the name of the one that identifies a job.
    """

    columns: tuple[sa.Column[Any], ...]
    facts: Mapping[str, ColumnFact]
    id: str


def create_queue(findings: Findings, settings: QueueSettings) -> Source:
    """Plan to create the queue's table with all its indexes in one statement."""
    table = queue_table(settings)
    findings.create(table, new_shape(settings, table).keys())
    return as_created(settings)


def as_created(settings: QueueSettings) -> Source:
    """Return the columns of a table that qops has just created."""
    return Source(tuple(queue_table(settings).columns), {}, column_name(settings, "id") or "")


def new_shape(settings: QueueSettings, table: sa.Table) -> Shape:
    """Return what the indexes of a new table are made for."""
    names = {role: name for role in ROLE_ORDER if (name := column_name(settings, role)) is not None}
    roles = {role: table.columns[name] for role, name in names.items()}
    return Shape(roles, frozenset(wanted_states(settings)), order_of(settings, table, names))


def compare_queue(findings: Findings, settings: QueueSettings, facts: TableFacts, *, repair: bool) -> Source:
    """Compare an existing table with what the queue needs; return its columns, after the repair if there is one.

    Raises Misconfigured for a table of another application: one without the queue's id or status.
    """
    id_, status = _own(settings, facts, "id"), _own(settings, facts, "status")
    compare_storage(findings, facts, id_)
    roles, added = _compare_roles(findings, settings, facts)
    states, planned_status = _compare_states(findings, settings, facts, status)
    table = sa.Table(quoted(facts.name), sa.MetaData(), *_bare(facts, added))
    mapped = {role: table.columns[name] for role, name in roles.items()}
    _compare_indexes(findings, settings, facts, Shape(mapped, frozenset(states), order_of(settings, table, roles)))
    known = dict(facts.columns)
    if repair:
        known[status.name] = planned_status
    columns = [existing_column(fact, is_id=fact.name == id_.name) for fact in known.values()]
    return Source((*columns, *(added if repair else ())), known, id_.name)


def _bare(facts: TableFacts, added: list[sa.Column[Any]]) -> list[sa.Column[Any]]:
    return [sa.Column(quoted(name)) for name in (*facts.columns, *(column.name for column in added))]


def _own(settings: QueueSettings, facts: TableFacts, role: str) -> ColumnFact:
    name = column_name(settings, role) or role
    fact = facts.find(name)
    if fact is None:
        raise Misconfigured(
            f"table {quote_name(facts.name)} has no column {name!r} for the role {role!r}, so it looks like a table "
            "of another application, and nothing was created or changed; name the queue's own table in "
            f"[queues.{settings.name}] table, or its column in [queues.{settings.name}.columns] {role}"
        )
    return fact


def _compare_roles(
    findings: Findings, settings: QueueSettings, facts: TableFacts
) -> tuple[dict[str, str], list[sa.Column[Any]]]:
    """Compare the columns; return the queue's roles by column name, and the columns to be added."""
    roles: dict[str, str] = {}
    added: list[sa.Column[Any]] = []
    for role in ROLE_ORDER:
        name = column_name(settings, role)
        if name is None:
            continue
        fact = facts.find(name)
        if fact is not None:
            roles[role] = fact.name
            _compare_role(findings, settings, facts, role, fact)
        elif settings.strict or role in settings.columns:
            # Rows that are there already have no payload to give.
            column = role_column(settings, role, name, nullable=True if role == "payload" else None)
            findings.add_column(facts.name, column)
            roles[role] = name
            added.append(role_column(settings, role, name, nullable=True if role == "payload" else None))
    return roles, added


def _compare_role(findings: Findings, settings: QueueSettings, facts: TableFacts, role: str, fact: ColumnFact) -> None:
    name = f"{facts.name}.{fact.name}"
    allowed = ROLE_TYPES.get(role)
    if allowed is not None and fact.data_type not in allowed:
        findings.differ(name, f"a type for the role {role!r}: {', '.join(sorted(allowed))}", fact.column_type)
        return
    if role in COMPARED_TIMES and fact.data_type in TIMES - {"timestamp"} and settings.clock is None:
        findings.differ(
            name,
            f'TIMESTAMP(6), or clock = "utc" or an offset in [queues.{settings.name}] to say what its values mean',
            fact.column_type,
        )
    if role in CLEARED and not fact.nullable:
        findings.differ(name, "NULL allowed: a job that is put back has none", f"{fact.column_type} NOT NULL")
        findings.modify(facts, existing_column(fact, is_id=False, nullable=True))


def _compare_states(
    findings: Findings, settings: QueueSettings, facts: TableFacts, status: ColumnFact
) -> tuple[dict[str, tuple[StateValue, ...]], ColumnFact]:
    """Compare the states with what the status column can hold; return them, and the column as it will be."""
    states = needed_states(settings, status)
    values = [value for several in states.values() for value in several]
    name = f"{facts.name}.{status.name}"
    if status.data_type not in ROLE_TYPES["status"]:
        return states, status
    numeric = status.data_type in INTEGERS
    odd = [value for value in values if isinstance(value, int) != numeric]
    if odd:
        kind = "numbers" if numeric else "text"
        findings.differ(name, f"states that are {kind}, not {odd!r} (see states in qops.toml)", status.column_type)
        return states, status
    if status.data_type == "enum":
        return states, _compare_members(findings, facts, status, states)
    longest = max((len(str(value)) for value in values), default=0)
    if status.length is not None and longest > status.length:
        findings.differ(name, f"room for {longest} characters", status.column_type)
        wider = replace(status, column_type=f"varchar({longest})", length=longest)
        if status.data_type == "varchar" and findings.modify(facts, existing_column(wider, is_id=False), ddl.ONLINE):
            return states, wider
    return states, status


def _compare_members(
    findings: Findings, facts: TableFacts, status: ColumnFact, states: Mapping[str, tuple[StateValue, ...]]
) -> ColumnFact:
    present = {label.lower() for label in status.labels}
    lacking = [label for label in labels(states) if label.lower() not in present]
    if not lacking:
        return status
    kind = mysql.ENUM(*status.labels, *lacking)
    findings.differ(
        f"{facts.name}.{status.name}", f"ENUM with {', '.join(map(repr, lacking))} appended", status.column_type
    )
    future = replace(status, column_type=ddl.type_sql(kind))
    column = existing_column(future, is_id=False)
    return future if findings.modify(facts, column, ddl.INSTANT, ddl.ONLINE) else status


def _compare_indexes(findings: Findings, settings: QueueSettings, facts: TableFacts, shape: Shape) -> None:
    claim = shape.claim_key()
    fitting = [index for index in facts.indexes if shape.claims_by(index, facts.primary)]
    expected = f"index on ({claim}), or one that gives the claim's order"
    present = [claim.columns]
    if not any(index.visible for index in fitting):
        if fitting:
            findings.show_index(facts, fitting[0], expected)
        else:
            findings.add_index(facts, claim, found=_similar(facts, claim) or MISSING)
    present += [columns_of(index) for index in facts.indexes if index.visible]
    for missing in shape.unserved(present):
        key = shape.key(missing)
        hidden = next((index for index in facts.indexes if columns_of(index)[:2] == key.columns), None)
        if hidden:
            findings.show_index(facts, hidden, f"index on ({key}) for {missing.command}, visible")
            continue
        advice = (
            f"{missing.command} reads every {missing.state} job of {quote_name(facts.name)}, because no index begins "
            f"with ({key}); {settings.command('init --repair')} adds one"
        )
        findings.add_index(facts, key, advice=advice if missing.few and not settings.strict else None)


def _similar(facts: TableFacts, key: ddl.Key) -> str:
    """Describe the indexes that were probably meant: of the same name, or on some of the key's columns alone."""
    wanted = set(key.columns)
    meant = [i for i in facts.indexes if i.name.lower() == key.name.lower() or set(i.columns) <= wanted]
    return ", ".join(describe(index) for index in meant if index.name != "PRIMARY")
