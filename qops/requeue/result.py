"""What requeue is asked and what it answers."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from qops.counting import Count, least
from qops.errors import ATTENTION, OK, Failure
from qops.limits import READ_VIEW_SECONDS, REPLICA_LAG_SECONDS
from qops.statements.filters import Filters

if TYPE_CHECKING:
    from collections.abc import Mapping

    from qops.requeue.plan import Plan
    from qops.settings import Database
    from qops.throttle import Wait, Waits

Ineligible = dict[str, Any]
"""A job that cannot be put back: `id`, `state`, `reason`."""


@dataclass(frozen=True)
class Options:
    """What to put back: named `ids`, or all that are `failed` or `expired`; exactly one of the three. Times in seconds.

    `max_attempts` takes the place of the jobs' own limits. With `delay` or `spread` jobs become scheduled. The limits
    for replicas and purge are the archiver's; `max_purge_lag` None is its default.
    """

    ids: tuple[str, ...] = ()
    failed: bool = False
    expired: bool = False
    filters: Filters = field(default_factory=Filters)
    limit: int | None = None
    batch: int = 1000
    max_attempts: int | None = None
    reset_attempts: bool = False
    delay: float | None = None
    spread: float | None = None
    reason: str | None = None
    dry_run: bool = False
    max_purge_lag: int | None = None
    max_replica_lag: float = REPLICA_LAG_SECONDS
    read_view: float = READ_VIEW_SECONDS
    max_wait: float = 600.0
    replicas: Mapping[str, Database] = field(default_factory=dict)

    @property
    def schedules(self) -> bool:
        """Whether jobs become scheduled, and not pending at once."""
        return self.delay is not None or self.spread is not None

    def arguments(self) -> dict[str, Any]:
        """Return what the ledger keeps of the command line: the options that were given."""
        names = ("ids", "failed", "expired", "limit", "max_attempts", "reset_attempts")
        given = {name: getattr(self, name) for name in names if getattr(self, name)}
        times = {"older_than_seconds": self.filters.older_than, "delay_seconds": self.delay}
        others = {"error_like": self.filters.error_like, "worker": self.filters.worker, "spread_seconds": self.spread}
        return given | {name: value for name, value in (others | times).items() if value is not None}


@dataclass(frozen=True)
class Verdict:
    """What became of one named job (in a dry run: would become).

    `held_by` is the connection that holds a locked one, None where that cannot be seen.
    """

    id: Any
    result: str
    held_by: int | None = None


@dataclass
class Result:
    """What a run did, by reason. `changed` jobs had another state by the time their row was locked.

    With `dry_run` it is what a run would do, as far as `plan` looked.
    """

    queue: str
    requeued: Count = 0
    exhausted: Count = 0
    locked: int = 0
    changed: int = 0
    conflicts: list[Any] = field(default_factory=list)
    not_found: list[Any] = field(default_factory=list)
    not_eligible: list[Ineligible] = field(default_factory=list)
    results: list[Verdict] = field(default_factory=list)
    throttled_seconds: float = 0.0
    throttles: tuple[Wait, ...] = ()
    dry_run: bool = False
    elapsed_seconds: float = 0.0
    plan: Plan | None = None
    failure: Failure | None = None

    @property
    def exit_code(self) -> int:
        """1 where a named job was not put back, or a row conflicted or could not change state, else 0."""
        unanswered = any(verdict.result != "requeued" for verdict in self.results)
        return ATTENTION if self.conflicts or self.not_eligible or unanswered else OK

    def document(self) -> dict[str, Any]:
        """Return the JSON document, docs/json.md."""
        document = asdict(self)
        del document["failure"]
        if self.plan is None:
            del document["plan"]
        return document

    def answer(self, verdict: Verdict, reason: Ineligible | None = None) -> None:
        """Note what became of one named job, and why it stays where that needs words."""
        self.results.append(verdict)
        if verdict.result == "not_found":
            self.not_found.append(verdict.id)
        if reason:
            self.not_eligible.append(reason)

    def add_waits(self, waited: Waits) -> None:
        """Note how long the run waited, and for what."""
        self.throttled_seconds = round(waited.total, 3)
        self.throttles = waited.by_reason()

    def add(self, outcome: Outcome) -> None:
        """Count what one transaction did."""
        self.requeued = least(self.requeued) + outcome.requeued
        self.exhausted = least(self.exhausted) + outcome.exhausted
        self.locked += outcome.locked
        self.changed += outcome.changed
        self.conflicts += outcome.conflicts
        self.not_eligible += outcome.not_eligible

    def summary(self) -> dict[str, Any]:
        """Return what the ledger keeps of the run: counts by result, and the error if there was one."""
        names = ("requeued", "exhausted", "locked", "changed")
        summary: dict[str, Any] = {name: getattr(self, name) for name in names}
        summary |= {name: len(getattr(self, name)) for name in ("conflicts", "not_found", "not_eligible")}
        summary["throttled_seconds"] = self.throttled_seconds
        if self.failure:
            summary["error"] = self.failure.message
        return summary


@dataclass
class Outcome:
    """What one transaction did; `moved` are the ids that it took out of their state.

    `why` is what the server said of the first conflict.
    """

    moved: list[Any] = field(default_factory=list)
    seen: int = 0
    requeued: int = 0
    exhausted: int = 0
    locked: int = 0
    changed: int = 0
    conflicts: list[Any] = field(default_factory=list)
    why: str | None = None
    not_eligible: list[Ineligible] = field(default_factory=list)
