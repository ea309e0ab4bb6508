"""From when on something is a finding: the `[doctor]` section of qops.toml over the defaults, which are all here."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from qops.errors import Misconfigured
from qops.settings import duration

if TYPE_CHECKING:
    from collections.abc import Mapping

_DAY = 86_400.0


@dataclass(frozen=True)
class Limit:
    """One threshold: its key in `[doctor]`, the checks that it is for, what it says, and between what it lies.

    `kind` is `duration` (seconds here, `90s` in the file), `number` (whole) or `share` (of 1).
    """

    key: str
    checks: tuple[str, ...]
    meaning: str
    kind: str
    least: float
    most: float

    def parse(self, value: object) -> float:
        """Return a value of the file. Raises Misconfigured for one of another type or out of range."""
        seconds = self._parsed(value)
        if not self.least <= seconds <= self.most:
            raise Misconfigured(
                f"[doctor] {self.key} must be between {self.written(self.least)} and {self.written(self.most)}, "
                f"not {value!r}"
            )
        return seconds

    def _parsed(self, value: object) -> float:
        if self.kind == "duration":
            if not isinstance(value, str):
                raise Misconfigured(f'[doctor] {self.key} must be a duration such as "60s", not {value!r}')
            try:
                return duration(value)
            except ValueError as error:
                raise Misconfigured(f"[doctor] {self.key}: {error}") from None
        whole = self.kind == "number"
        if isinstance(value, bool) or not isinstance(value, int if whole else int | float):
            raise Misconfigured(f"[doctor] {self.key} must be a {'whole ' if whole else ''}number, not {value!r}")
        return value

    def written(self, value: float) -> str:
        """Return a value as it stands in the file."""
        if self.kind != "duration":
            return f"{value:g}" if self.kind == "share" else f"{value:_.0f}"
        for unit, seconds in (("d", _DAY), ("h", 3600), ("m", 60)):
            if value and value % seconds == 0 and value > seconds:
                return f'"{value / seconds:g}{unit}"'
        return f'"{value:.15g}s"'


def _limit(
    default: float, key: str, checks: tuple[str, ...], meaning: str, kind: str, span: tuple[float, float]
) -> Any:  # noqa: ANN401 - as dataclasses.field
    return field(default=default, metadata={"limit": Limit(key, checks, meaning, kind, *span)})


_LONG = (1.0, 36_500 * _DAY)


@dataclass(frozen=True)
class Limits:
    """The thresholds in force; durations in seconds."""

    long_transaction_seconds: float = _limit(
        60.0,
        "long_transaction",
        ("long-transactions",),
        "a transaction that is open for so long",
        "duration",
        (0.0, _LONG[1]),
    )
    purge_lag: int = _limit(
        50_000, "purge_lag", ("purge-lag",), "committed transactions that wait for purge", "number", (1, 1e12)
    )
    lock_wait_seconds: float = _limit(
        50.0,
        "lock_wait_timeout",
        ("lock-wait-timeout",),
        "the longest innodb_lock_wait_timeout that is no finding",
        "duration",
        (1.0, 365 * _DAY),
    )
    grace_seconds: float = _limit(
        60.0,
        "grace",
        ("expired-leases", "scheduled-promotion"),
        "for how long a job's moment may have passed before anybody acts on it",
        "duration",
        _LONG,
    )
    delayed_pending: int = _limit(
        100,
        "delayed_pending",
        ("delayed-pending",),
        "pending jobs whose time has not come, among the first thousand in the claim's order",
        "number",
        (1, 1_000),
    )
    finished_rows: int = _limit(
        10_000,
        "finished_rows",
        ("finished-rows",),
        "finished jobs, where they outnumber the live ones as well",
        "number",
        (1, 100_000),
    )
    ids_used: float = _limit(
        0.8,
        "ids_used",
        ("auto-increment",),
        "the part of the ids that is used up; from 0.95 on it is critical",
        "share",
        (0.01, 0.95),
    )
    maintenance_seconds: float = _limit(
        7 * _DAY,
        "maintenance",
        ("maintenance",),
        "for how long finished jobs may have been due for the archiver without a successful run of it",
        "duration",
        _LONG,
    )
    open_run_seconds: float = _limit(
        3600.0,
        "open_run",
        ("maintenance",),
        "the age of a run that has not ended and whose connection is gone",
        "duration",
        _LONG,
    )
    failed_runs: int = _limit(
        3, "failed_runs", ("maintenance",), "runs of a command in a row that failed", "number", (1, 20)
    )


LIMITS: Mapping[str, Limit] = {one.name: one.metadata["limit"] for one in fields(Limits)}
"""The limits by the names of their fields."""
KEYS = tuple(limit.key for limit in LIMITS.values())


def read_limits(section: Mapping[str, Any]) -> Limits:
    """Return the limits as configured in `[doctor]`. Raises Misconfigured for a wrong value."""
    given: dict[str, Any] = {
        name: limit.parse(section[limit.key]) for name, limit in LIMITS.items() if limit.key in section
    }
    return Limits(**given)
