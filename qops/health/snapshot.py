"""What a reading is made of. None is unknown, and `unknown` says what it needs."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from qops.report import worst

if TYPE_CHECKING:
    from datetime import datetime

    from qops.purge import PurgeLag

Count = int | dict[str, int] | None
"""A number of rows, `{"at_least": N}` where counting stopped at its bound, or None where it is unknown."""


@dataclass(frozen=True)
class Depth:
    """How many jobs there are, by what can be done with them; `expired` are counted in `running` too."""

    pending: Count = None
    ready: Count = None
    delayed: Count = None
    running: Count = None
    expired: Count = None
    failed: Count = None
    done: Count = None


@dataclass(frozen=True)
class Unknown:
    """A value that could not be read, and what it needs.

    `inherent` ones cannot be cured by a privilege: the queue has no such thing. They do not make the verdict
    unknown.
    """

    metric: str
    needs: str
    inherent: bool = False


@dataclass(frozen=True)
class TableState:
    """What one statement says of the queue's table; ages in seconds."""

    depth: Depth = field(default_factory=Depth)
    oldest_ready_seconds: float | None = None
    longest_running_seconds: float | None = None
    unknown: tuple[Unknown, ...] = ()


@dataclass(frozen=True)
class Locks:
    """Sessions that wait for row locks or the metadata lock of the queue's tables, and the longest waits."""

    rows: int | None = None
    longest_row_wait_seconds: float | None = None
    metadata: int | None = None
    longest_metadata_wait_seconds: float | None = None

    @property
    def waiting(self) -> int | None:
        """How many wait, for whichever kind of lock; None unless both are known."""
        return None if self.rows is None or self.metadata is None else self.rows + self.metadata

    @property
    def longest_wait_seconds(self) -> float | None:
        """The longest wait of either kind, None if nobody waits or it is unknown."""
        waits = (self.longest_row_wait_seconds, self.longest_metadata_wait_seconds)
        return max((wait for wait in waits if wait is not None), default=None)


@dataclass(frozen=True)
class Archive:
    """The archiver's last finished run, and the last that ended well."""

    last_success_at: datetime | None = None
    last_outcome: str | None = None


@dataclass(frozen=True)
class Size:
    """Bytes of the queue's table; `free_bytes` are inside its file and used again by new rows."""

    table_bytes: int | None = None
    index_bytes: int | None = None
    free_bytes: int | None = None


@dataclass(frozen=True)
class Measured:
    """Everything that was read. `brake` describes a pause in force."""

    queue: str
    taken_at: datetime
    table: TableState
    purge: PurgeLag
    locks: Locks
    archive: Archive
    size: Size
    paused: bool | None
    brake: str | None
    unknown: tuple[Unknown, ...]
    naming: str = ""
    table_name: str = "jobs"

    def command(self, words: str) -> str:
        """Return a command line to type for this queue; `naming` says which, where there are several."""
        return f"qops {words}{self.naming}"


@dataclass(frozen=True)
class Finding:
    """What is wrong, how much, what it means, and what to type next. A `notice` needs no action."""

    id: str
    level: str
    message: str


@dataclass(frozen=True)
class Snapshot:
    """A reading with its findings."""

    measured: Measured
    findings: tuple[Finding, ...]

    @property
    def verdict(self) -> str:
        """`critical`, `warning`, `unknown` or `ok`: the worst there is."""
        unknown = any(not one.inherent for one in self.measured.unknown)
        return worst([finding.level for finding in self.findings] + (["unknown"] if unknown else []))

    def document(self) -> dict[str, Any]:
        """Return the JSON document, docs/json.md."""
        measured = self.measured
        purge = measured.purge
        return {
            "verdict": self.verdict,
            "queue": measured.queue,
            "taken_at": measured.taken_at,
            "paused": measured.paused,
            "depth": asdict(measured.table.depth),
            "oldest_ready_seconds": measured.table.oldest_ready_seconds,
            "longest_running_seconds": measured.table.longest_running_seconds,
            "throughput": {"claimed_per_minute": None, "finished_per_minute": None},
            "purge": {
                "unpurged_transactions": purge.unpurged_transactions,
                "history_list_length": purge.history_list_length,
                "read_views": purge.read_views,
                "oldest_view_seconds": purge.oldest_view_seconds,
                "blocker": asdict(purge.blocker) if purge.blocker else None,
            },
            "locks": {
                "waiting": measured.locks.waiting,
                "longest_wait_seconds": measured.locks.longest_wait_seconds,
            },
            "archive": asdict(measured.archive),
            "size": asdict(measured.size),
            "findings": [asdict(finding) for finding in self.findings],
            "unknown": [{"metric": one.metric, "needs": one.needs} for one in measured.unknown],
        }
