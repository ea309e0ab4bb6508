"""What the user asked for: flags over environment over qops.toml, frozen, and checked before anything connects.

`None` means unset at every level. Unknown keys are errors that name the nearest known key, because a
misspelt `max_purge_lag` that is silently ignored is found out in the next incident.
"""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qops.errors import Misconfigured
from qops.text import is_text
from qops.url import Address, Secret, parse_url

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

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
SECTIONS = ("database", "queues", "replicas", "archive", "health", "doctor", "schedule")
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
_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|d)")
_SECONDS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}
MAX_DURATION_SECONDS = 36_500 * 86_400  # a hundred years: beyond, the server's time arithmetic ends in NULL

StateValue = str | int


@dataclass(frozen=True)
class Database:
    """Where the server is and who logs in. `option_file` is read by the client library, not by us."""

    address: Address | None = None
    password: Secret | None = None
    option_file: Path | None = None
    option_group: str | None = None
    url_yields: bool = False  # the option file was asked for more closely than the URL: it says who and where


@dataclass(frozen=True)
class QueueSettings:
    """One queue as configured. A role or state that is absent here takes the default name if the table has it.

    `columns` holds only what was written down: a name, or None for `role = false`. `states` is None when no
    `states` table was written. `strict` means that the queue is the default one: everything must be there.
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


@dataclass(frozen=True)
class Flags:
    """The options that every command accepts, as typed; None where they were not."""

    url: str | None = None
    defaults_file: str | None = None
    defaults_group: str | None = None
    config: str | None = None
    queue: str | None = None


@dataclass(frozen=True)
class Settings:
    """Everything that a command may read. Sections that commands own are validated by them."""

    database: Database
    queue: QueueSettings
    sections: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    config_file: Path | None = None

    def section(self, name: str, known: Iterable[str]) -> Mapping[str, Any]:
        """Return section `name` of the file, refusing keys other than `known`."""
        values = self.sections.get(name, {})
        reject_unknown(values, tuple(known), f"[{name}]", self.config_file)
        return values


def load(flags: Flags, environment: Mapping[str, str]) -> Settings:
    """Read the configuration. Raises Misconfigured (78) for a missing file, an unknown key or a wrong value."""
    path = _config_path(flags.config or environment.get("QOPS_CONFIG") or None, environment)
    document = _read(path) if path else {}
    reject_unknown(document, SECTIONS, "the top level", path)
    database = _table(document, "database", path)
    reject_unknown(database, ("url", "defaults_file", "defaults_group"), "[database]", path)
    return Settings(
        database=_database(flags, environment, database),
        queue=_choose_queue(flags.queue or environment.get("QOPS_QUEUE") or None, document, path),
        sections={name: _table(document, name, path) for name in SECTIONS if name not in {"database", "queues"}},
        config_file=path,
    )


def duration(text: str) -> float:
    """Seconds in a duration such as `200ms`, `0.5s`, `90s`, `15m`, `2h`, `7d`; ValueError for anything else."""
    match = _DURATION.fullmatch(text.strip())
    if not match:
        raise ValueError(f"{text!r} is not a duration; write it like 200ms, 0.5s, 90s, 15m, 2h or 7d")
    seconds = float(match[1]) * _SECONDS[match[2]]
    if seconds > MAX_DURATION_SECONDS:
        raise ValueError(f"{text!r} is more than 36500d")
    return seconds


def reject_unknown(values: Mapping[str, Any], known: tuple[str, ...], where: str, path: Path | None) -> None:
    """Raise Misconfigured for the first key of `values` that is not in `known`, naming the nearest one."""
    for key in values:
        if key not in known:
            raise Misconfigured(f"{path}: unknown key {key!r} in {where}; {nearest(key, known)}")


def nearest(word: str, known: Iterable[str]) -> str:
    """Say which of `known` was probably meant by `word`."""
    choices = sorted(known)
    close = difflib.get_close_matches(word, choices, n=1, cutoff=0.5)
    if close:
        return f"did you mean {close[0]!r}?"
    return f"known are: {', '.join(choices)}" if choices else "none is configured"


def _config_path(given: str | None, environment: Mapping[str, str]) -> Path | None:
    if given:
        path = _path(given)
        if not path.exists() or path.is_dir():
            raise Misconfigured(f"configuration file {path} does not exist; check --config or QOPS_CONFIG")
        return path
    home = environment.get("HOME")
    candidates = [Path("qops.toml")]
    if home:
        candidates.append(Path(home) / ".config" / "qops" / "qops.toml")
    return next((path for path in candidates if path.is_file()), None)


def _path(text: str) -> Path:
    if "\0" in text:
        raise Misconfigured(f"{text!r} cannot be the name of a file")
    return Path(os.path.expanduser(text))  # noqa: PTH111 - pathlib's raises for a user who does not exist


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise Misconfigured(f"{path}: not valid TOML: {error}") from None
    except OSError as error:
        raise Misconfigured(f"{path}: cannot be read: {error.strerror}") from None


def _table(document: Mapping[str, Any], name: str, path: Path | None) -> Mapping[str, Any]:
    value = document.get(name, {})
    if not isinstance(value, dict):
        raise Misconfigured(f"{path}: {name!r} must be a table, as in [{name}]")
    return value


def _database(flags: Flags, environment: Mapping[str, str], section: Mapping[str, Any]) -> Database:
    """Resolve each setting by itself, then let the one that was asked for more closely decide who logs in."""
    for key, value in section.items():
        if not isinstance(value, str):
            raise Misconfigured(f"[database] {key} must be a string")
    levels = (
        (flags.url, flags.defaults_file, flags.defaults_group),
        tuple(environment.get(name) or None for name in ("QOPS_URL", "QOPS_DEFAULTS_FILE", "QOPS_DEFAULTS_GROUP")),
        tuple(section.get(key) for key in ("url", "defaults_file", "defaults_group")),
    )
    url, url_level = _closest([level[0] for level in levels])
    option_file, file_level = _closest([level[1] for level in levels])
    group, _ = _closest([level[2] for level in levels])
    path = _path(option_file).absolute() if option_file else None
    if path and (not os.access(path, os.R_OK) or path.is_dir()):
        raise Misconfigured(
            f"option file {path} does not exist or is not readable; check --defaults-file, QOPS_DEFAULTS_FILE "
            "or [database] defaults_file"
        )
    address = parse_url(url) if url else None
    return Database(
        address=address,
        password=(address and address.password) or _password(environment),
        option_file=path,
        option_group=group,
        url_yields=path is not None and file_level < url_level,
    )


def _password(environment: Mapping[str, str]) -> Secret | None:
    text = environment.get("QOPS_PASSWORD")
    if text and not is_text(text):
        raise Misconfigured("QOPS_PASSWORD is not text in this environment's encoding (UTF-8, as a rule)")
    return Secret(text) if text else None


def _closest(values: list[str | None]) -> tuple[str | None, int]:
    for level, value in enumerate(values):
        if value is not None:
            return value, level
    return None, len(values)


def _choose_queue(name: str | None, document: Mapping[str, Any], path: Path | None) -> QueueSettings:
    queues = _table(document, "queues", path)
    if name is None:
        name = next(iter(queues)) if len(queues) == 1 else DEFAULT_QUEUE
        if queues and name not in queues:
            raise Misconfigured(f"{path} has several queues ({', '.join(queues)}); choose one with --queue")
    if name in queues:
        return _queue(name, _table(queues, name, path), path)
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
    columns = _table(section, "columns", path)
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
    table = _table(section, "states", path)
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
