"""When a number is a finding: the `[health]` section of qops.toml over the defaults, which are reasoned here."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from qops.errors import Misconfigured
from qops.settings import duration

if TYPE_CHECKING:
    from qops.settings import Settings

DURATIONS = frozenset({"oldest_ready", "read_view", "row_lock_wait", "metadata_lock_wait"})
SUFFIX = "_critical"


@dataclass(frozen=True)
class HealthThresholds:
    """A value at or above a threshold is a finding: a warning, or critical by the `_critical` one. None: never.

    Durations are in seconds.
    """

    oldest_ready: float | None = 300.0  # five minutes of waiting are noticed by whoever waits for the job
    oldest_ready_critical: float | None = 3600.0
    ready: float | None = None  # how deep is too deep depends on the queue
    ready_critical: float | None = None
    expired: float | None = 1.0  # nobody works on such a job until it is put back
    expired_critical: float | None = None
    failed: float | None = 100.0  # single failures are ordinary; a hundred are a cause
    failed_critical: float | None = None
    purge_lag: float | None = 50_000.0  # transactions; claims were 40 times slower there
    purge_lag_critical: float | None = 1_000_000.0
    read_view: float | None = 60.0  # nothing that works on jobs reads for a minute
    read_view_critical: float | None = None
    row_lock_wait: float | None = 5.0  # a claim with SKIP LOCKED never waits, another statement a moment
    row_lock_wait_critical: float | None = None
    metadata_lock_wait: float | None = 2.0  # every statement on the table queues behind it
    metadata_lock_wait_critical: float | None = 30.0

    def limit(self, name: str) -> float | None:
        """Return the warning threshold `name`."""
        value: float | None = getattr(self, name)
        return value

    def level(self, name: str, value: float) -> str | None:
        """Return `critical`, `warning`, or None for a value that is no finding."""
        critical, warning = self.limit(name + SUFFIX), self.limit(name)
        if critical is not None and value >= critical:
            return "critical"
        return "warning" if warning is not None and value >= warning else None


def thresholds(settings: Settings) -> HealthThresholds:
    """Return the thresholds as configured. Raises Misconfigured for unknown keys and wrong values."""
    section = settings.section("health", tuple(field.name for field in fields(HealthThresholds)))
    return HealthThresholds(**{key: _value(key, value) for key, value in section.items()})


def _value(key: str, value: object) -> float | None:
    """Parse one value: `false` is never, durations as everywhere, counts as whole numbers."""
    if value is False:
        return None
    if key.removesuffix(SUFFIX) in DURATIONS:
        if not isinstance(value, str):
            raise Misconfigured(f'[health] {key} must be a duration such as "90s", or false, not {value!r}')
        try:
            return duration(value)
        except ValueError as error:
            raise Misconfigured(f"[health] {key}: {error}") from None
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise Misconfigured(f"[health] {key} must be a whole number, or false, not {value!r}")
    return float(value)
