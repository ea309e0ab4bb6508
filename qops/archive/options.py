"""The archiver's options: flags over the `[archive]` section over the defaults, and checked."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from qops.archive.result import Options
from qops.errors import Misconfigured, UsageError
from qops.limits import MAX_BATCH
from qops.settings import EXAMPLE_URL, duration

if TYPE_CHECKING:
    from collections.abc import Mapping

    from qops.settings import Settings

DURATIONS = ("older_than", "max_runtime", "pause", "max_wait", "max_replica_lag", "read_view")
NUMBERS = ("batch", "limit", "max_purge_lag")
SWITCHES = ("allow_cascade", "assume_no_children")
STATES = ("done", "failed")


def choose(given: Mapping[str, Any], settings: Settings, *, dry_run: bool) -> Options:
    """Return the options of one run. Raises UsageError for a wrong flag, Misconfigured for a wrong section."""
    known = [field.name for field in fields(Options) if field.name not in {"dry_run", "replicas"}]
    section = {key: _from_file(key, value) for key, value in settings.section("archive", known).items()}
    flags = {name: value for name, value in given.items() if value is not None}
    if flags.get("state", STATES[0]) not in STATES:
        raise UsageError(f"--state must be {' or '.join(STATES)}, not {flags['state']!r}")
    if "max_replica_lag" in {**section, **flags} and not settings.replicas:
        raise Misconfigured(
            "a limit for the lag of replicas (--max-replica-lag, [archive] max_replica_lag) needs to know them; write "
            f'in {settings.config_file or "qops.toml"}:\n[replicas]\nreplica1 = "{EXAMPLE_URL}"'
        )
    return Options(**{**section, **flags, "dry_run": dry_run, "replicas": settings.replicas})


def _from_file(key: str, value: Any) -> Any:  # noqa: ANN401 - whatever TOML holds
    """Return one value of `[archive]` as the option takes it."""
    if key in DURATIONS:
        try:
            return duration(value if isinstance(value, str) else repr(value))
        except ValueError as error:
            raise Misconfigured(f"[archive] {key}: {error}") from None
    if key in NUMBERS:
        if not isinstance(value, int) or isinstance(value, bool) or value < 1 or (key == "batch" and value > MAX_BATCH):
            limit = f" up to {MAX_BATCH}" if key == "batch" else ""
            raise Misconfigured(f"[archive] {key} must be a whole number from 1{limit}, not {value!r}")
        return value
    if key in SWITCHES:
        if not isinstance(value, bool):
            raise Misconfigured(f"[archive] {key} must be true or false, not {value!r}")
        return value
    if value not in STATES:
        raise Misconfigured(f"[archive] {key} must be {' or '.join(STATES)}, not {value!r}")
    return value
