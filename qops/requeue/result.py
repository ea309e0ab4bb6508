"""What requeue is asked and what it answers."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from qops.counting import Count, least
from qops.errors import ATTENTION, OK, Failure

Ineligible = dict[str, Any]
"""A job that cannot be put back: `id`, `state`, `reason`."""


@dataclass(frozen=True)
class Options:
    """What to put back: named `ids`, or all that are `failed` or `expired`; exactly one of the three."""

    ids: tuple[str, ...] = ()
    failed: bool = False
    expired: bool = False
    limit: int | None = None
    batch: int = 1000
    reset_attempts: bool = False
    reason: str | None = None
    dry_run: bool = False

    def arguments(self) -> dict[str, Any]:
        """Return what the ledger keeps of the command line: the options that were given."""
        given = asdict(self)
        return {k: v for k, v in given.items() if v and k not in {"reason", "dry_run", "batch"}}


@dataclass(frozen=True)
class Verdict:
    """What became of one named job (in a dry run: would become). `held_by` is not looked up: None."""

    id: Any
    result: str
    held_by: int | None = None


@dataclass
class Result:
    """What a run did, by reason. `changed` jobs had another state by the time their row was locked."""

    queue: str
    requeued: Count = 0
    exhausted: int = 0
    locked: int = 0
    changed: int = 0
    conflicts: list[Any] = field(default_factory=list)
    not_found: list[Any] = field(default_factory=list)
    not_eligible: list[Ineligible] = field(default_factory=list)
    results: list[Verdict] = field(default_factory=list)
    dry_run: bool = False
    elapsed_seconds: float = 0.0
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
        return document

    def answer(self, id_: Any, verdict: str, reason: Ineligible | None) -> None:  # noqa: ANN401 - as the id column
        """Note what became of one named job."""
        self.results.append(Verdict(id_, verdict))
        if verdict == "not_found":
            self.not_found.append(id_)
        if reason:
            self.not_eligible.append(reason)

    def add(self, outcome: Outcome) -> None:
        """Count what one transaction did."""
        self.requeued = least(self.requeued) + outcome.requeued
        self.exhausted += outcome.exhausted
        self.locked += outcome.locked
        self.changed += outcome.changed
        self.conflicts += outcome.conflicts
        self.not_eligible += outcome.not_eligible

    def summary(self) -> dict[str, Any]:
        """Return what the ledger keeps of the run: counts by result, and the error if there was one."""
        names = ("requeued", "exhausted", "locked", "changed")
        summary: dict[str, Any] = {name: getattr(self, name) for name in names}
        summary |= {name: len(getattr(self, name)) for name in ("conflicts", "not_found", "not_eligible")}
        if self.failure:
            summary["error"] = self.failure.message
        return summary


@dataclass
class Outcome:
    """What one transaction did; `moved` are the ids that it took out of their state."""

    moved: list[Any] = field(default_factory=list)
    key: tuple[Any, ...] | None = None
    seen: int = 0
    requeued: int = 0
    exhausted: int = 0
    locked: int = 0
    changed: int = 0
    conflicts: list[Any] = field(default_factory=list)
    not_eligible: list[Ineligible] = field(default_factory=list)
