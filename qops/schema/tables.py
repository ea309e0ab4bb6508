"""The tables as qops creates them: the queue by its settings, its archive, and the run ledger."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy.dialects import mysql

from qops.columns import quoted
from qops.errors import Misconfigured
from qops.order import choose_order
from qops.privileges import LEDGER_TABLE
from qops.queue_settings import STATES, QueueSettings, StateValue
from qops.schema.ddl import Key, Verbatim

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from qops.columns import ColumnFact

ROLE_ORDER = (
    "id",
    "status",
    "priority",
    "payload",
    "claimed_by",
    "lease_until",
    "available_at",
    "attempts",
    "max_attempts",
    "last_error",
    "created_at",
    "finished_at",
)
"""The roles in the order of their columns: what a worker touches first, bookkeeping last."""

_NOW = sa.text("CURRENT_TIMESTAMP(6)")
_ZERO = sa.text("0")
BINARY_TEXT = "utf8mb4_bin"  # names and codes of the ledger: equal means identical


def moment() -> mysql.TIMESTAMP:
    """Return the type of every time: an absolute instant, to the microsecond."""
    return mysql.TIMESTAMP(fsp=6)


def column_name(settings: QueueSettings, role: str) -> str | None:
    """Return the configured column of `role`, None if the queue shall have none."""
    return settings.columns.get(role, role)


def wanted_states(settings: QueueSettings) -> dict[str, tuple[StateValue, ...]]:
    """Return the states of a table that qops creates, with their values."""
    return dict(settings.states) if settings.states is not None else {state: (state,) for state in STATES}


def labels(states: Mapping[str, tuple[StateValue, ...]]) -> list[str]:
    """Return the ENUM members for `states`: the value that qops writes of each, then the others.

    Values that a collation without case calls equal are one member.
    """
    ordered = [states[state] for state in STATES if state in states]
    values = [*(values[0] for values in ordered), *(value for values in ordered for value in values[1:])]
    unique: dict[str, str] = {}
    for value in values:
        unique.setdefault(str(value).lower(), str(value))
    return list(unique.values())


def role_column(settings: QueueSettings, role: str, name: str, *, nullable: bool | None = None) -> sa.Column[Any]:
    """Return the column that qops gives to `role`; `nullable` True drops a NOT NULL that old rows cannot meet."""
    kinds: dict[str, tuple[Any, dict[str, Any]]] = {
        "id": (mysql.BIGINT(unsigned=True), {"primary_key": True, "autoincrement": True}),
        "status": _status(settings),
        "priority": (mysql.INTEGER(), {"nullable": False, "server_default": _ZERO}),
        "payload": (mysql.JSON(), {"nullable": False}),
        "claimed_by": (mysql.VARCHAR(64), {}),
        "lease_until": (moment(), {}),
        "available_at": (moment(), {"nullable": False, "server_default": _NOW}),
        "attempts": (mysql.INTEGER(unsigned=True), {"nullable": False, "server_default": _ZERO}),
        "max_attempts": (
            mysql.INTEGER(unsigned=True),
            {"nullable": False, "server_default": sa.text(str(settings.max_attempts))},
        ),
        "last_error": (mysql.TEXT(), {}),
        "created_at": (moment(), {"nullable": False, "server_default": _NOW}),
        "finished_at": (moment(), {}),
    }
    kind, options = kinds[role]
    if nullable is not None:
        options = options | {"nullable": nullable}
    return sa.Column(quoted(name), kind, **options)


def _status(settings: QueueSettings) -> tuple[Any, dict[str, Any]]:
    states = wanted_states(settings)
    values = [value for several in states.values() for value in several]
    if all(isinstance(value, int) for value in values):
        return mysql.INTEGER(), {"nullable": False, "server_default": sa.text(str(states["pending"][0]))}
    if any(isinstance(value, int) for value in values):
        raise Misconfigured(
            f"[queues.{settings.name}.states] mixes numbers and text, which one status column cannot hold; "
            "write them all as numbers or all as text"
        )
    return mysql.ENUM(*labels(states)), {"nullable": False, "server_default": str(states["pending"][0])}


def queue_table(settings: QueueSettings) -> sa.Table:
    """Return the queue's table as created from nothing: a column for every role that is not `false`."""
    named = [(role, column_name(settings, role)) for role in ROLE_ORDER]
    columns = [role_column(settings, role, name) for role, name in named if name is not None]
    return sa.Table(quoted(settings.table), sa.MetaData(), *columns)


def order_of(settings: QueueSettings, table: sa.Table, roles: Mapping[str, str]) -> tuple[sa.ColumnElement[Any], ...]:
    """Return the claim's order on `table`, whose roles are the columns `roles`."""
    return choose_order(settings, table, {role: table.columns[name] for role, name in roles.items()})


def archive_table(settings: QueueSettings, columns: Iterable[sa.Column[Any]]) -> sa.Table:
    """Return the archive for a queue with `columns`: the same names and types, numbered by the queue."""
    return sa.Table(quoted(settings.archive_table), sa.MetaData(), *(archived(column) for column in columns))


def archive_key(settings: QueueSettings, table: sa.Table) -> Key | None:
    """Return the index by which `qops expire` finds old jobs in the archive; None where they have no finish time.

    Measured on MySQL 9.7.4, 2 cores, durable log, 100,000 jobs of 300 bytes: the archiver writes 1.06 times the redo
    for it and takes 1.02 times the server's CPU; its rows per second differ by less than the noise. Without it each
    run of expire reads the whole archive, about a second for a million jobs in memory.
    """
    name = column_name(settings, "finished_at")
    column = next((column for column in table.columns if name and column.name.lower() == name.lower()), None)
    return None if column is None else Key("finished_idx", (column,))


def archived(column: sa.Column[Any], *, late: bool = False) -> sa.Column[Any]:
    """Return a queue's column as its archive has it: no default of its own, so that nothing is made up there.

    A `late` one is added to an archive that has rows already, which never had a value for it: it may be NULL.

    Only a NOT NULL TIMESTAMP says one, because a server with explicit_defaults_for_timestamp=OFF would
    otherwise set it to the time of every later change.
    """
    kind = column.type
    digits = kind.fsp if isinstance(kind, mysql.TIMESTAMP) else getattr(kind, "timestamp_digits", None)
    now = sa.text(f"CURRENT_TIMESTAMP({digits})" if digits else "CURRENT_TIMESTAMP")
    nullable = bool(column.nullable) or late
    default = None if nullable or digits is None else now
    options: dict[str, Any] = {"primary_key": True, "autoincrement": False} if column.primary_key else {}
    if isinstance(kind, Verbatim):
        kind = kind.with_null(nullable and not column.primary_key)
    return sa.Column(quoted(column.name), kind, nullable=nullable, server_default=default, **options)


def existing_column(fact: ColumnFact, *, is_id: bool, nullable: bool | None = None) -> sa.Column[Any]:
    """Return a column as the server describes it, with type, character set and nullability only."""
    may = fact.nullable if nullable is None else nullable
    digits = fact.precision if fact.data_type == "timestamp" else None
    kind = Verbatim(fact.column_type, fact.collation, may and not is_id, digits)
    return sa.Column(quoted(fact.name), kind, nullable=may and not is_id, primary_key=is_id, autoincrement=False)


def ledger_table() -> tuple[sa.Table, tuple[Key, ...]]:
    """Return the run ledger and its keys."""

    def text(length: int) -> mysql.VARCHAR:
        return mysql.VARCHAR(length, charset="utf8mb4", collation=BINARY_TEXT)

    table = sa.Table(
        quoted(LEDGER_TABLE),
        sa.MetaData(),
        sa.Column(quoted("id"), mysql.BIGINT(unsigned=True), primary_key=True, autoincrement=True),
        sa.Column(quoted("command"), text(32), nullable=False),
        sa.Column(quoted("queue"), text(64), nullable=False),
        sa.Column(quoted("arguments"), mysql.JSON()),
        sa.Column(quoted("started_at"), moment(), nullable=False, server_default=_NOW),
        sa.Column(quoted("finished_at"), moment()),
        sa.Column(quoted("expires_at"), moment(), comment="when a pause ends by itself"),
        sa.Column(quoted("outcome"), text(16)),
        sa.Column(quoted("summary"), mysql.JSON()),
        sa.Column(quoted("operator"), mysql.VARCHAR(255), comment="account and operating system user"),
        sa.Column(quoted("host"), mysql.VARCHAR(255)),
        sa.Column(quoted("connection_id"), mysql.BIGINT(unsigned=True)),
        sa.Column(quoted("reason"), mysql.TEXT()),
    )
    return table, (Key("queue_idx", (table.c.queue, table.c.command, table.c.id)),)
