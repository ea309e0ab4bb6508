"""A queue: the user's table, roles and states as SQLAlchemy columns and predicates, verified against the server.

A name is used literally and quoted everywhere. What the configuration says is compared with
information_schema once, at first use, so that a wrong type or a missing ENUM member is an error with a name
before any row changes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from qops.columns import INTEGERS, TEXTS, TIMES, ColumnFact, bare_table, describe_both, require_whole
from qops.configfile import nearest
from qops.errors import Misconfigured
from qops.indexes import Index, describe_indexes_of_both, gives_order
from qops.order import choose_order, decisive_order
from qops.queue_settings import ROLES, STATES, QueueSettings, StateValue

if TYPE_CHECKING:
    from collections.abc import Mapping

_PLAIN = re.compile(r"[A-Za-z0-9_]+")
ROLE_TYPES: Mapping[str, frozenset[str]] = {
    "id": INTEGERS | {"char", "varchar"},
    "status": INTEGERS | {"char", "varchar", "enum"},
    "priority": INTEGERS,
    "available_at": TIMES,
    "claimed_by": TEXTS,
    "lease_until": TIMES,
    "attempts": INTEGERS,
    "max_attempts": INTEGERS,
    "last_error": TEXTS,
    "created_at": TIMES,
    "finished_at": TIMES,
}


@dataclass(frozen=True)
class QueueTable:
    """A verified queue. `facts` and `archive_facts` map column names to what the server says of them."""

    settings: QueueSettings
    schema: str
    table: sa.Table
    archive: sa.Table
    columns: Mapping[str, sa.Column[Any]]
    states: Mapping[str, tuple[StateValue, ...]]
    order: tuple[sa.ColumnElement[Any], ...]
    facts: Mapping[str, ColumnFact]
    archive_facts: Mapping[str, ColumnFact]
    indexes: tuple[Index, ...] = ()
    archive_indexes: tuple[Index, ...] = ()

    @property
    def name(self) -> str:
        """The queue's name in the configuration."""
        return self.settings.name

    @property
    def id(self) -> sa.Column[Any]:
        """The column that identifies a job."""
        return self.columns["id"]

    def has(self, role: str) -> bool:
        """Whether the queue has `role`."""
        return role in self.columns

    def has_state(self, state: str) -> bool:
        """Whether the queue has `state`."""
        return state in self.states

    def require(self, command: str, *, roles: tuple[str, ...] = (), states: tuple[str, ...] = ()) -> None:
        """Raise Misconfigured naming every role and state that `command` needs and this queue lacks."""
        missing = [f"role {role!r}" for role in roles if role not in self.columns]
        missing += [f"state {state!r}" for state in states if state not in self.states]
        if missing:
            raise Misconfigured(
                f"{command} needs what queue {self.name!r} does not have: {', '.join(missing)}; map them in "
                f"[queues.{self.name}.columns] and [queues.{self.name}.states], or add them to table "
                f"{self.table.name!r}"
            )

    @property
    def claim_index(self) -> str | None:
        """The name of a visible index that gives the claim's order, None if there is none."""
        wanted = decisive_order(self.order, self.columns)
        primary = next((index for index in self.indexes if index.name == "PRIMARY"), None)
        status = self.columns["status"].name
        fitting = (i for i in self.indexes if i.visible and gives_order(i, primary, status, wanted))
        return next((index.name for index in fitting), None)

    @property
    def id_is_primary(self) -> bool:
        """Whether the id alone is the primary key, so that rows lie in its order and none has another's."""
        return any(index.name == "PRIMARY" and index.columns == (self.id.name.lower(),) for index in self.indexes)

    @property
    def id_index(self) -> str | None:
        """The name of the unique index that finds a row by its id: the primary key where it begins with it."""
        leading = (i for i in self.indexes if i.unique and i.visible and i.begins_with(self.id.name))
        return next((index.name for index in leading), None)

    def value(self, state: str) -> StateValue:
        """Return the value that qops writes for `state`."""
        return self.states[state][0]

    def in_state(self, *states: str) -> sa.ColumnElement[bool]:
        """Return the predicate "the job is in one of `states`"; an equality where there is one value."""
        values = [value for state in states for value in self.states[state]]
        status = self.columns["status"]
        return status == values[0] if len(values) == 1 else status.in_(values)

    def state_of(self, value: StateValue | None) -> str | None:
        """Return the state that a status value means, None for a value that no state has.

        Labels are compared as MySQL compares them by default: without case.
        """
        for state, values in self.states.items():
            for candidate in values:
                if candidate == value or str(candidate).lower() == str(value).lower():
                    return state
        return None

    def now(self, role: str) -> sa.ColumnElement[Any]:
        """Return the server's present instant as column `role` stores it, cut (not rounded) to its precision.

        A TIMESTAMP is absolute. A DATETIME means what `clock` says. Raises Misconfigured where a DATETIME is
        compared and no clock is declared.
        """
        fact = self.facts[self.columns[role].name]
        # Rounding, as MySQL does when it stores, would put a job that is ready now up to half a second ahead.
        digits = sa.text(str(fact.precision or 0))
        if fact.data_type == "timestamp":
            return sa.func.now(digits)
        clock = self.settings.clock
        if clock is None:
            raise Misconfigured(
                f"column {fact.name!r} of table {self.table.name!r} is a DATETIME, which does not say in which "
                f'time zone it was written; set clock = "utc" in [queues.{self.name}] if the workers write '
                'UTC_TIMESTAMP() or their sessions are at +00:00, or clock = "+08:00" for sessions at that offset'
            )
        instant = sa.func.utc_timestamp(digits)
        minutes = _offset_minutes(clock)
        return instant if minutes == 0 else shift(instant, minutes * 60_000_000)

    def tells_time(self, role: str) -> bool:
        """Whether column `role` can be compared with the clock: a DATETIME only where the clock is declared."""
        return self.facts[self.columns[role].name].data_type == "timestamp" or self.settings.clock is not None

    def instant(self, role: str) -> sa.ColumnElement[Any]:
        """Return column `role` in UTC; NULL where nothing says in which zone it was written."""
        column = self.columns[role]
        if not self.tells_time(role):
            return sa.null()
        if self.facts[column.name].data_type == "timestamp" or self.settings.clock is None:
            return column
        minutes = _offset_minutes(self.settings.clock)
        return column if minutes == 0 else shift(column, -minutes * 60_000_000)

    def in_time(self, role: str, microseconds: int | sa.ColumnElement[int]) -> sa.ColumnElement[Any]:
        """Return the instant `microseconds` from now (negative: ago) as column `role` stores it."""
        return shift(self.now(role), microseconds)

    @property
    def copied(self) -> tuple[str, ...]:
        """The columns a job is copied to the archive by: all that the archive does not compute itself."""
        generated = {name for name, fact in self.archive_facts.items() if fact.generated}
        return tuple(name for name in self.facts if name not in generated)


def shift(instant: sa.ColumnElement[Any], microseconds: int | sa.ColumnElement[int]) -> sa.ColumnElement[Any]:
    """Return `instant` moved by `microseconds`: whole numbers, so nothing is rounded on the way."""
    return sa.func.timestampadd(sa.text("MICROSECOND"), microseconds, instant)


def load(connection: sa.Connection, settings: QueueSettings) -> QueueTable:
    """Read the queue's tables from information_schema and hold the configuration against them.

    Raises Misconfigured (78) for a missing table, column, ENUM member or a type that a role cannot have, and
    the server's own refusal where the account may not see the table. The archive may be missing: then
    `archive_facts` is empty, and the commands that need it say so.
    """
    schema = connection.dialect.default_schema_name
    if schema is None:
        raise Misconfigured("no database is selected; name it in the URL (mysql://…/app) or the option file")
    facts, archive_facts = describe_both(connection, schema, settings.table, settings.archive_table)
    if not facts:
        # Either it does not exist or this account may not know: the server's answer tells which.
        connection.execute(sa.select(sa.literal(1)).select_from(bare_table(settings.table)).limit(0))
    table = bare_table(settings.table, facts)
    try:
        columns = _choose_columns(settings, facts)
    except Misconfigured:
        require_whole(connection, table)  # what this account may not see looks the same as what is missing
        raise
    mapped = {role: table.columns[column] for role, column in columns.items()}
    states = _choose_states(settings, facts[columns["status"]])
    _tell_apart(connection, settings, facts[columns["status"]], states)
    indexes, archive_indexes = describe_indexes_of_both(connection, schema, settings.table, settings.archive_table)
    return QueueTable(
        settings=settings,
        schema=schema,
        table=table,
        archive=bare_table(settings.archive_table, archive_facts),
        columns=mapped,
        states=states,
        order=choose_order(settings, table, mapped),
        facts=facts,
        archive_facts=archive_facts,
        indexes=indexes,
        archive_indexes=archive_indexes,
    )


def _choose_columns(settings: QueueSettings, facts: Mapping[str, ColumnFact]) -> dict[str, str]:
    by_lower = {name.lower(): name for name in facts}
    taken = {column.lower() for column in settings.columns.values() if column is not None}
    chosen: dict[str, str] = {}
    for role in ROLES:
        wanted = settings.columns.get(role, role)
        if wanted is None or (role not in settings.columns and role in taken):
            if role in {"id", "status"}:
                raise Misconfigured(
                    f"[queues.{settings.name}.columns] gives column {role!r} to another role, and names none for the "
                    f"role {role!r}"
                )
            continue
        name = by_lower.get(wanted.lower())
        if name is None:
            if role in settings.columns or settings.strict or role in {"id", "status"}:
                raise Misconfigured(
                    f"table {settings.table!r} has no column {wanted!r} for the role {role!r}; "
                    f"{nearest(wanted, facts)} Name it in [queues.{settings.name}.columns]"
                    + ("" if role in {"id", "status"} else f", or run: {settings.command('init --repair')}")
                )
            continue
        _check_type(settings, role, facts[name])
        chosen[role] = name
    return chosen


def _check_type(settings: QueueSettings, role: str, fact: ColumnFact) -> None:
    allowed = ROLE_TYPES.get(role)
    if allowed is not None and fact.data_type not in allowed:
        raise Misconfigured(
            f"column {fact.name!r} of table {settings.table!r} is {fact.column_type}, which cannot be the role "
            f"{role!r} (it may be {', '.join(sorted(allowed))}); choose another column in "
            f"[queues.{settings.name}.columns]"
        )


def _choose_states(settings: QueueSettings, status: ColumnFact) -> dict[str, tuple[StateValue, ...]]:
    """Return the states that the queue has, each with values that the status column can hold."""
    states = needed_states(settings, status)
    for state, values in states.items():
        for value in values:
            misfit = _misfit(status, value)
            if misfit:
                raise Misconfigured(
                    f"column {status.name!r} of table {settings.table!r} is {status.column_type} and cannot hold "
                    f"{value!r} for the state {state!r}: {misfit}; set the value in [queues.{settings.name}.states]"
                    + (f", or append it with: {settings.command('init --repair')}" if status.labels else "")
                )
    return states


def _tell_apart(
    connection: sa.Connection,
    settings: QueueSettings,
    status: ColumnFact,
    states: Mapping[str, tuple[StateValue, ...]],
) -> None:
    """Raise Misconfigured where the status column's collation calls the values of two states equal.

    Members of an ENUM are told apart by the server already (1291). Plain ASCII words are compared here.
    """
    if status.collation is None or status.labels:
        return
    values = [str(value) for several in states.values() for value in several]
    pairs = [(a, b) for n, a in enumerate(values) for b in values[n + 1 :]]
    if all(_PLAIN.fullmatch(value) for value in values):
        same = [a.lower() == b.lower() for a, b in pairs]
    else:
        same = [_equal(connection, status, a, b) for a, b in pairs]
    for (a, b), equal in zip(pairs, same, strict=True):
        if equal:
            raise Misconfigured(
                f"column {status.name!r} of table {settings.table!r} is {status.collation}, for which the states' "
                f"values {a!r} and {b!r} are equal, so that jobs of both would be taken for either; choose "
                "other values, or a column with a binary collation"
            )


def _equal(connection: sa.Connection, status: ColumnFact, one: str, other: str) -> bool:
    """Ask the server whether a status column holds two values for the same."""
    charset = sa.text(str(status.charset))
    mine, theirs = (sa.func.convert(sa.literal(value).op("USING")(charset)) for value in (one, other))
    return bool(connection.execute(sa.select(mine.collate(str(status.collation)) == theirs)).scalar())


def needed_states(settings: QueueSettings, status: ColumnFact) -> dict[str, tuple[StateValue, ...]]:
    """Return the states that the queue has: those configured, else all; of an adopted column those that it can hold."""
    if settings.states is not None:
        return dict(settings.states)
    needed = STATES if settings.strict else ("pending", "done")
    return {state: (state,) for state in STATES if state in needed or _misfit(status, state) is None}


def _misfit(status: ColumnFact, value: StateValue) -> str | None:
    """Say why a status column cannot hold a value; None if it can."""
    if (status.data_type in INTEGERS) != isinstance(value, int):
        return "MySQL would convert every row to compare them and use no index"
    if status.data_type == "enum" and str(value).lower() not in {label.lower() for label in status.labels}:
        return "it is none of the members"
    if status.length is not None and len(str(value)) > status.length:
        return f"it is longer than {status.length} characters"
    return None


def _offset_minutes(clock: str) -> int:
    """Return the minutes east of UTC that a declared clock stands for."""
    if clock == "utc":
        return 0
    hours, minutes = clock[1:].split(":")
    return (int(hours) * 60 + int(minutes)) * (-1 if clock[0] == "-" else 1)
