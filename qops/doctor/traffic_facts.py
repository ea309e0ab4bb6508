"""What checks know of the statements that workers sent, and of how their lock waits ended, as plain values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from qops.doctor.facts import Unknown


@dataclass(frozen=True)
class Sent:
    """A statement without its values that locks or changes jobs, and its sums between `first_seen` and `last_seen`.

    `claims`: it chooses its jobs by their status. `waits`: it reads them FOR UPDATE and neither skips locked ones nor
    refuses to wait. `fenced`: it finishes one job by id only where its owner or lease still is what it was. `cut`: the
    server kept only its beginning, which reads jobs.
    """

    statement: str
    executions: int
    errors: int = 0
    sent: int = 0
    affected: int = 0
    examined: int = 0
    sorts: int = 0
    first_seen: str = ""
    last_seen: str = ""
    claims: bool = False
    waits: bool = False
    fenced: bool = False
    cut: bool = False

    @property
    def rows(self) -> int:
        """How many rows it sent or changed."""
        return self.sent + self.affected


@dataclass(frozen=True)
class Traffic:
    """What was sent to the queue's table within the last hour, without what qops's own commands send.

    `full`: the summary had no room for further statements in that hour. `leased`: the queue has leases.
    """

    statements: tuple[Sent, ...] = ()
    full: Unknown | None = None
    leased: bool = True


@dataclass(frozen=True)
class LockError:
    """How often lock waits on the whole server ended in one error; seconds since the first and the last time."""

    code: int
    raised: int
    first_seconds: int
    last_seconds: int
    first_seen: str = ""
    last_seen: str = ""
    accounts: tuple[str, ...] = ()
