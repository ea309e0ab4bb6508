"""What the user asked for: flags over environment over qops.toml, frozen, and checked before anything connects.

`None` means unset at every level. Unknown keys are errors that name the nearest known key, because a
misspelt `max_purge_lag` that is silently ignored is found out in the next incident.
"""

from __future__ import annotations

import os
import re
import shlex
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from qops.configfile import config_path, path_of, read, reject_unknown, section_of
from qops.errors import Misconfigured
from qops.queue_settings import QueueSettings, choose_queue
from qops.text import is_text
from qops.url import Address, Secret, parse_url

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

SECTIONS = ("database", "queues", "replicas", "archive", "health", "doctor", "schedule")
PARSED = frozenset({"database", "queues", "replicas"})  # here; the others by the commands that own them
_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|d)")
EXAMPLE_URL = "mysql://qops@replica.example:3306/"
_SECONDS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}
MAX_DURATION_SECONDS = 36_500 * 86_400  # a hundred years: beyond, the server's time arithmetic ends in NULL


@dataclass(frozen=True)
class Database:
    """Where the server is and who logs in. `option_file` is read by the client library, not by us."""

    address: Address | None = None
    password: Secret | None = None
    option_file: Path | None = None
    option_group: str | None = None
    url_yields: bool = False  # the option file was asked for more closely than the URL: it says who and where


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
    """Everything that a command may read. Sections that commands own are validated by them.

    `replicas` are the servers of `[replicas]` by the names that they have there. `config_named` is the file's name as
    the command line gave it, None where it was found.
    """

    database: Database
    queue: QueueSettings
    replicas: Mapping[str, Database] = field(default_factory=dict)
    sections: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    config_file: Path | None = None
    config_named: str | None = None

    @property
    def naming(self) -> str:
        """The options by which another command line means the same configuration and queue, else nothing."""
        config = "" if self.config_named is None else f" --config {shlex.quote(self.config_named)}"
        return f"{config}{self.queue.naming}"

    def section(self, name: str, known: Iterable[str]) -> Mapping[str, Any]:
        """Return section `name` of the file, refusing keys other than `known`."""
        values = self.sections.get(name, {})
        reject_unknown(values, tuple(known), f"[{name}]", self.config_file)
        return values


def load(flags: Flags, environment: Mapping[str, str]) -> Settings:
    """Read the configuration. Raises Misconfigured (78) for a missing file, an unknown key or a wrong value."""
    path = config_path(flags.config or environment.get("QOPS_CONFIG") or None, environment)
    document = read(path) if path else {}
    reject_unknown(document, SECTIONS, "the top level", path)
    database = section_of(document, "database", path)
    reject_unknown(database, ("url", "defaults_file", "defaults_group"), "[database]", path)
    source = _database(flags, environment, database)
    return Settings(
        database=source,
        queue=choose_queue(flags.queue or environment.get("QOPS_QUEUE") or None, document, path),
        replicas=_replicas(section_of(document, "replicas", path), source, _password(environment), path),
        sections={name: section_of(document, name, path) for name in SECTIONS if name not in PARSED},
        config_file=path,
        config_named=flags.config or None,
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
    path = path_of(option_file).absolute() if option_file else None
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


def _replicas(
    section: Mapping[str, Any], source: Database, password: Secret | None, path: Path | None
) -> dict[str, Database]:
    """Return who logs in to each replica: what its URL leaves out is as for the source.

    Accounts are replicated with the rest, so QOPS_PASSWORD and the option file (its user, password and TLS) serve
    there too; a password inside the source's own URL does not travel to another host.
    """
    replicas = {}
    for name, url in section.items():
        if not isinstance(url, str):
            raise Misconfigured(f'{path}: [replicas] {name} must be a URL, as in {name} = "{EXAMPLE_URL}"')
        try:
            address = parse_url(url)
        except Misconfigured as error:
            raise Misconfigured(f"{path}: [replicas] {name}: {error}") from None
        if address.host is None and "unix_socket" not in address.options:
            raise Misconfigured(f'{path}: [replicas] {name} names no host; write it like "{EXAMPLE_URL}"')
        replicas[name] = Database(address, address.password or password, source.option_file, source.option_group)
    return replicas


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
