"""What expire is asked and what it answers."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from qops.arguments import given
from qops.counting import Count, least
from qops.errors import ATTENTION, OK, Failure
from qops.limits import READ_VIEW_SECONDS, REPLICA_LAG_SECONDS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from qops.settings import Database
    from qops.throttle import Wait, Waits


@dataclass(frozen=True)
class Options:
    """One run of expire. Times in seconds. `older_than` None: archived jobs stay, only the ledger is looked at.

    The limits are the archiver's: `max_purge_lag` None is its default, which only warns where it cannot be read;
    `replicas` are those whose lag is watched, by name.
    """

    older_than: float | None = None
    batch: int = 1000
    max_purge_lag: int | None = None
    max_replica_lag: float = REPLICA_LAG_SECONDS
    read_view: float = READ_VIEW_SECONDS
    max_wait: float = 600.0
    allow_cascade: bool = False
    assume_no_children: bool = False
    dry_run: bool = False
    replicas: Mapping[str, Database] = field(default_factory=dict)

    def arguments(self) -> dict[str, Any]:
        """Return what the ledger keeps of the command line and the configuration behind it."""
        return given(self, seconds=("older_than", "max_replica_lag", "read_view", "max_wait"))


@dataclass
class Batch:
    """What one transaction did: rows deleted, rows refused with the reason, and where the walk goes on."""

    key: tuple[Any, ...] | None = None
    seen: int = 0
    locked: int = 0
    undated: int = 0
    moved: list[Any] = field(default_factory=list)
    refused: list[tuple[Any, str]] = field(default_factory=list)
    ended: bool = False


@dataclass
class Result:
    """What a run did; with `dry_run`, what it would do (up to a bound).

    `ledger_expired` is None where there is no ledger. `ledger_seen` is the last entry that was asked whether its
    run found anything to do; the next run goes on behind it.
    """

    queue: str
    expired: Count = 0
    ledger_expired: Count | None = None
    batches: int = 0
    locked: int = 0
    undated: Count = 0
    refused: list[dict[str, Any]] = field(default_factory=list)
    throttled_seconds: float = 0.0
    throttles: tuple[Wait, ...] = ()
    stopped_by: str = "done"
    elapsed_seconds: float = 0.0
    dry_run: bool = False
    ledger_seen: int = 0
    failure: Failure | None = None

    @property
    def exit_code(self) -> int:
        """1 where archived jobs were refused or have no finish time, else 0; a failure brings its own."""
        return ATTENTION if self.refused or self.undated else OK

    def add(self, batch: Batch) -> None:
        """Count what one transaction did to archived jobs."""
        self.expired = least(self.expired) + len(batch.moved)
        self.batches += bool(batch.moved)
        self.locked += batch.locked
        self.undated = least(self.undated) + batch.undated
        self.refused += [{"id": id_, "reason": why} for id_, why in batch.refused]

    def add_entries(self, batch: Batch) -> None:
        """Count what one transaction did to the ledger."""
        self.ledger_expired = least(self.ledger_expired or 0) + len(batch.moved)

    def add_waits(self, waited: Waits) -> None:
        """Note how long the run waited, and for what."""
        self.throttled_seconds = round(waited.total, 3)
        self.throttles = waited.by_reason()

    def document(self) -> dict[str, Any]:
        """Return the JSON document, docs/json.md."""
        document = asdict(self)
        del document["failure"], document["ledger_seen"]
        return document

    def summary(self) -> dict[str, Any]:
        """Return what the ledger keeps of the run: counts by result, and the error if there was one."""
        names = ("expired", "ledger_expired", "batches", "locked", "undated", "throttled_seconds", "ledger_seen")
        summary: dict[str, Any] = {name: getattr(self, name) for name in names}
        summary["refused"] = len(self.refused)
        if self.failure:
            summary["error"] = self.failure.message
        return summary
