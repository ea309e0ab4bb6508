"""What `init` finds and does: drift, actions, and the result of a run."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from qops.errors import Failure


class When(Enum):
    """When an action runs: always, with --repair, or never by qops because it would block the workers."""

    ALWAYS = "always"
    REPAIR = "repair"
    BY_HAND = "by hand"


@dataclass(frozen=True)
class Action:
    """One statement. `alternatives` are tried in order where the server cannot do the ones before (1845, 1846).

    `table` is what it needs the metadata lock of. `need` says what for, so that a run which finds the same need
    again, under another name, knows that it has done what it can. `applied` says that this run did it.
    """

    action: str
    object: str
    alternatives: tuple[str, ...]
    when: When
    table: str
    need: str
    applied: bool = False

    @property
    def sql(self) -> str:
        """The statement to run, or the one that ran."""
        return self.alternatives[0]

    def runs(self, *, repair: bool) -> bool:
        """Whether a run with or without `repair` applies it."""
        return self.when is When.ALWAYS or (self.when is When.REPAIR and repair)


@dataclass(frozen=True)
class Drift:
    """A difference between what the queue needs and what is there."""

    object: str
    expected: str
    found: str


@dataclass(frozen=True)
class Plan:
    """The differences, the statements that end them, and what would be better without being needed."""

    schema: str
    actions: tuple[Action, ...] = ()
    drift: tuple[Drift, ...] = ()
    advice: tuple[str, ...] = ()


@dataclass(frozen=True)
class Result:
    """What a run did (`actions` that are applied), what it left, and the drift that remains."""

    queue: str
    schema: str
    actions: tuple[Action, ...] = ()
    drift: tuple[Drift, ...] = ()
    dry_run: bool = False
    repair: bool = False
    failure: Failure | None = field(default=None)

    def document(self) -> dict[str, Any]:
        """Return the JSON document, docs/json.md."""
        return {
            "queue": self.queue,
            "actions": [
                {"action": a.action, "object": a.object, "sql": a.sql, "applied": a.applied} for a in self.actions
            ],
            "drift": [{"object": d.object, "expected": d.expected, "found": d.found} for d in self.drift],
        }
