"""What looking at jobs comes to: a list, groups, or one job."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from qops.errors import ATTENTION, OK

if TYPE_CHECKING:
    from collections.abc import Mapping

    import sqlalchemy as sa

    from qops.counting import Count
    from qops.fold import Group
    from qops.queue import QueueTable
    from qops.runs import Recorded

KEYS = (
    "id",
    "state",
    "priority",
    "attempts",
    "max_attempts",
    "claimed_by",
    "lease_until",
    "available_at",
    "created_at",
    "finished_at",
    "last_error",
)
"""What is shown of a job, in this order."""


@dataclass(frozen=True)
class Listing:
    """Jobs, each by KEYS; `more`: there are further ones, or there may be because reading stopped at its bound."""

    queue: str
    jobs: list[dict[str, Any]]
    more: bool

    def document(self) -> dict[str, Any]:
        """Return the JSON document."""
        return {"queue": self.queue, "jobs": self.jobs, "more": self.more}


@dataclass(frozen=True)
class Grouping:
    """Jobs by their errors, the most frequent first; `complete`: all of them were counted."""

    queue: str
    groups: list[Group]
    complete: bool

    def count(self, group: Group) -> Count:
        """Return how many jobs a group has, at least."""
        return group.count if self.complete else {"at_least": group.count}

    def document(self) -> dict[str, Any]:
        """Return the JSON document."""
        groups = [
            {
                "error": group.error,
                "count": self.count(group),
                "first_at": group.first_at,
                "last_at": group.last_at,
                "sample_ids": group.sample_ids,
            }
            for group in self.groups
        ]
        return {"queue": self.queue, "groups": groups}


@dataclass(frozen=True)
class Payload:
    """A payload: as text, as a value for JSON, and its whole length in bytes (None: unknown, or there is none)."""

    text: str | None = None
    value: Any = None
    bytes: int | None = None


@dataclass(frozen=True)
class Found:
    """One job, by KEYS, with what is known of it elsewhere. `table` None: it is nowhere.

    `held_by` None: nobody holds it, where that is `seen`. `ledger` None: it is out of reach. `remaining` are the
    seconds until the lease ends, negative once it has.
    """

    queue: str
    job: Mapping[str, Any]
    table: str | None = None
    payload: Payload = field(default_factory=Payload)
    remaining: float | None = None
    held_by: int | None = None
    seen: bool = True
    ledger: tuple[Recorded, ...] | None = None

    @property
    def exit_code(self) -> int:
        """1 for a job that was not found."""
        return OK if self.table else ATTENTION

    def document(self) -> dict[str, Any]:
        """Return the JSON document."""
        return {
            **self.job,
            "lease_remaining_seconds": self.remaining,
            "table": self.table,
            "payload": self.payload.value,
            "payload_bytes": self.payload.bytes,
            "held_by": self.held_by,
            "ledger": None if self.ledger is None else [run.document() for run in self.ledger],
        }


def job_of(queue: QueueTable, row: sa.RowMapping) -> dict[str, Any]:
    """Return what is shown of a job that was read; None for what the queue lacks or what is not known."""
    shown = {key: row[key] for key in KEYS if key != "state"}
    state = queue.state_of(row["status"]) or row["status"]
    if queue.has("attempts") and shown["max_attempts"] is None:
        shown["max_attempts"] = queue.settings.max_attempts
    return {"id": shown.pop("id"), "state": state, **shown}
