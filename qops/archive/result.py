"""What the archiver is asked and what it answers."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from qops.arguments import given
from qops.errors import ATTENTION, OK, Failure
from qops.limits import READ_VIEW_SECONDS, REPLICA_LAG_SECONDS

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from qops.settings import Database
    from qops.throttle import Wait

LIMITS = ("max_replica_lag", "read_view", "max_wait")


@dataclass(frozen=True)
class Options:
    """One run of the archiver. Times in seconds; None is unset.

    `max_purge_lag` None is the default limit, which only warns where it cannot be read. `pause` None paces
    itself by the length of the batches. `replicas` are those whose lag is watched, by name; from `read_view` on, an
    open read view is warned of.
    """

    batch: int = 1000
    state: str = "done"
    older_than: float = 0.0
    limit: int | None = None
    max_runtime: float | None = None
    pause: float | None = None
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
        asked = {"state": self.state, "older_than_seconds": self.older_than}
        return asked | given(self, seconds=("older_than", "max_runtime", "pause", *LIMITS))


@dataclass(frozen=True)
class Refused:
    """A row that cannot be moved unchanged and stays, with the reason."""

    id: Any
    reason: str


@dataclass(frozen=True)
class Standing:
    """How one throttle stands now, and whether a run would wait for it."""

    reason: str
    waits: bool
    message: str


@dataclass(frozen=True)
class Plan:
    """What a run would do now. `rows` is exact, or `{"at_least": n}`; bytes are an estimate by average length."""

    rows: int | dict[str, int]
    bytes: int | None
    oldest: datetime | None
    newest: datetime | None
    batches: int | dict[str, int]
    statements: tuple[str, ...]
    explain: tuple[dict[str, Any], ...]
    throttles: tuple[Standing, ...]


@dataclass(frozen=True)
class Result:
    """What a run did. `archived` counts rows moved, `reconciled` rows whose identical copy was there already."""

    queue: str
    archived: int = 0
    batches: int = 0
    locked: int = 0
    reconciled: int = 0
    undated: int | dict[str, int] = 0
    refused: tuple[Refused, ...] = ()
    throttled_seconds: float = 0.0
    throttles: tuple[Wait, ...] = ()
    stopped_by: str = "done"
    elapsed_seconds: float = 0.0
    dry_run: bool = False
    plan: Plan | None = None
    retries: int = 0
    failure: Failure | None = field(default=None)

    @property
    def exit_code(self) -> int:
        """1 where rows were refused or undated, else 0; a failure brings its own."""
        return ATTENTION if self.refused or self.undated else OK

    def document(self) -> dict[str, Any]:
        """Return the JSON document, docs/json.md."""
        document = asdict(self)
        del document["failure"]
        if not self.dry_run:
            del document["plan"]
        return document
