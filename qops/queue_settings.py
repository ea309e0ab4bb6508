"""One queue as configured: its section of the file, checked before anything connects."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from qops.configfile import nearest, reject_unknown, section_of
from qops.errors import Misconfigured

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

ROLES = (
    "id",
    "status",
    "priority",
    "payload",
    "available_at",
    "claimed_by",
    "lease_until",
    "attempts",
    "max_attempts",
    "last_error",
    "created_at",
    "finished_at",
)
STATES = ("pending", "running", "done", "failed", "scheduled")
QUEUE_KEYS = (
    "table",
    "archive_table",
    "archive_by",
    "order",
    "attempts_counted",
    "max_attempts",
    "clock",
    "columns",
    "states",
)
DEFAULT_QUEUE = "jobs"
IDENTIFIER_LENGTH = 64
OFFSET = re.compile(r"[+-](?:0\d|1[0-4]):[0-5]\d")
StateValue = str | int


@dataclass(frozen=True)
class QueueSettings:
    """One queue as configured. A role or state that is absent here takes the default name if the table has it.

    `columns` holds only what was written down: a name, or None for `role = false`. `states` is None when no
    `states` table was written. `strict` means that the queue is the default one: everything must be there.
    `alone` means that it is the only one configured, so that commands need not name it.
    """

    name: str = DEFAULT_QUEUE
    table: str = "jobs"
    archive_table: str = "jobs_archive"
    archive_by: str = "copy"
    order: tuple[str, ...] | None = None
    attempts_counted: str = "claim"
    max_attempts: int = 5
    clock: str | None = None
    columns: Mapping[str, str | None] = field(default_factory=dict)
    states: Mapping[str, tuple[StateValue, ...]] | None = None
    strict: bool = True
    alone: bool = True

    def command(self, words: str) -> str:
        """Return a command line to type for this queue: `qops WORDS`, and which queue where there are several."""
        return f"qops {words}{self.naming}"

    @property
    def naming(self) -> str:
        """The option that names this queue where there are several, else nothing."""
        return "" if self.alone else f" --queue {shlex.quote(self.name)}"


def choose_queue(name: str | None, document: Mapping[str, Any], path: Path | None) -> QueueSettings:
    """Return queue `name`, or the only one configured. Raises Misconfigured for an unknown name or a wrong section."""
    queues = section_of(document, "queues", path)
    for known in queues:
        if not 0 < len(known) <= IDENTIFIER_LENGTH:
            raise Misconfigured(f"{path}: a queue's name has 1 to {IDENTIFIER_LENGTH} characters, not {known!r}")
    if name is None:
        name = next(iter(queues)) if len(queues) == 1 else DEFAULT_QUEUE
        if queues and name not in queues:
            raise Misconfigured(f"{path} has several queues ({', '.join(queues)}); choose one with --queue")
    if name in queues:
        return replace(_queue(name, section_of(queues, name, path), path), alone=len(queues) == 1)
    if queues:
        raise Misconfigured(f"no queue {name!r} in {path}; {nearest(name, queues)}")
    if name == DEFAULT_QUEUE:
        return QueueSettings()
    raise Misconfigured(f"no queue {name!r} is configured; write a [queues.{name}] section in qops.toml")


def _queue(name: str, section: Mapping[str, Any], path: Path | None) -> QueueSettings:
    where = f"[queues.{name}]"
    reject_unknown(section, QUEUE_KEYS, where, path)
    table = _identifier(section.get("table", name), f"{where} table")
    archive_table = _identifier(section.get("archive_table", f"{table}_archive"), f"{where} archive_table")
    _one_of(section, "archive_by", ("copy", "trigger"), where)
    _one_of(section, "attempts_counted", ("claim", "requeue"), where)
    maximum = section.get("max_attempts", QueueSettings.max_attempts)
    if not isinstance(maximum, int) or isinstance(maximum, bool) or maximum < 1:
        raise Misconfigured(f"{where} max_attempts must be a whole number above 0, not {maximum!r}")
    clock = section.get("clock")
    if clock is not None and clock != "utc" and not (isinstance(clock, str) and OFFSET.fullmatch(clock)):
        raise Misconfigured(f'{where} clock must be "utc" or an offset such as "+08:00", not {clock!r}')
    return QueueSettings(
        name=name,
        table=table,
        archive_table=archive_table,
        archive_by=section.get("archive_by", QueueSettings.archive_by),
        attempts_counted=section.get("attempts_counted", QueueSettings.attempts_counted),
        max_attempts=maximum,
        clock=clock,
        order=_order(section, where),
        columns=_columns(section, where, path),
        states=_states(section, where, path),
        strict=False,
    )


def _identifier(value: object, where: str) -> str:
    """Accept what MySQL accepts between backticks; a name is used literally and quoted everywhere."""
    if not isinstance(value, str) or not value:
        raise Misconfigured(f"{where} must be a name, not {value!r}")
    if len(value) > IDENTIFIER_LENGTH or value.endswith(" ") or any(ord(c) < ord(" ") for c in value):
        raise Misconfigured(
            f"{where}: {value!r} cannot be a MySQL name (at most 64 characters, no control characters, "
            "no space at the end)"
        )
    if "*/" in value:
        raise Misconfigured(
            f"{where}: {value!r} cannot be used: its */ would end the comment that an optimizer hint is"
        )
    if any(ord(c) > 0xFFFF for c in value):  # noqa: PLR2004 - the end of the Basic Multilingual Plane
        raise Misconfigured(f"{where}: {value!r} has a character beyond U+FFFF, which MySQL names cannot hold")
    return value


def _one_of(section: Mapping[str, Any], key: str, values: tuple[str, ...], where: str) -> None:
    if section.get(key, values[0]) not in values:
        raise Misconfigured(f"{where} {key} must be one of {', '.join(values)}, not {section[key]!r}")


def _order(section: Mapping[str, Any], where: str) -> tuple[str, ...] | None:
    order = section.get("order")
    if order is None:
        return None
    if not isinstance(order, list) or not order or not all(isinstance(item, str) for item in order):
        raise Misconfigured(f'{where} order must be a list such as ["priority desc", "id"], not {order!r}')
    return tuple(order)


def _columns(section: Mapping[str, Any], where: str, path: Path | None) -> dict[str, str | None]:
    columns = section_of(section, "columns", path)
    reject_unknown(columns, ROLES, f"{where[:-1]}.columns]", path)
    named: dict[str, str | None] = {}
    for role, column in columns.items():
        if column is False:
            named[role] = None
        else:
            named[role] = _identifier(column, f"{where[:-1]}.columns] {role}")
    for role in ("id", "status"):
        if role in named and named[role] is None:
            raise Misconfigured(f"{where}: a queue cannot be without the role {role!r}")
    used = [column.lower() for column in named.values() if column is not None]
    for column in used:
        if used.count(column) > 1:
            raise Misconfigured(f"{where}: column {column!r} is named for two roles")
    return named


def _states(section: Mapping[str, Any], where: str, path: Path | None) -> dict[str, tuple[StateValue, ...]] | None:
    if "states" not in section:
        return None
    table = section_of(section, "states", path)
    reject_unknown(table, STATES, f"{where[:-1]}.states]", path)
    states: dict[str, tuple[StateValue, ...]] = {}
    for state, value in table.items():
        values = tuple(value) if isinstance(value, list) else (value,)
        if not values or not all(isinstance(v, str | int) and not isinstance(v, bool) for v in values):
            raise Misconfigured(f"{where[:-1]}.states] {state} must be a value or a list of values, not {value!r}")
        states[state] = values
    for state in ("pending", "done"):
        if state not in states:
            raise Misconfigured(f"{where[:-1]}.states] must name {state!r}")
    # As MySQL compares them by default: without case.
    everything = [str(value).lower() for values in states.values() for value in values]
    for value in everything:
        if everything.count(value) > 1:
            raise Misconfigured(f"{where[:-1]}.states] uses the value {value!r} twice")
    return states
