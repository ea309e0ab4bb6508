"""What checks know of the types of a queue's columns, of indexes that it does without, and of states nobody named."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from qops.doctor.facts import Unknown
    from qops.doctor.row_facts import Sample


@dataclass(frozen=True)
class Moments:
    """The TIMESTAMP columns, the values near their end, and the days until then.

    `seen` are the columns that an index leads into, `late` maps those of them with such values to the rows. `others`
    are whole numbers that look like times, in words; qops does not use them.
    """

    columns: tuple[tuple[str, str], ...] = ()
    seen: tuple[str, ...] = ()
    late: tuple[tuple[str, Sample], ...] = ()
    days_left: int = 36_500
    others: tuple[str, ...] = ()


@dataclass(frozen=True)
class AttemptRoom:
    """How far the attempts can be counted, and how far they may have to be.

    `limit` is the highest limit that is configured. `beyond` are live jobs whose own limit the type does not hold or
    whose attempts are near its end; None where the type has room for all. `widen` gives it room.
    """

    column_type: str
    end: int
    limit: int
    beyond: Sample | None = None
    widen: tuple[str, ...] = ()


@dataclass(frozen=True)
class Width:
    """A text column, how much it holds, how much it should, and what makes it so; `unit` is characters or bytes."""

    column: str
    column_type: str
    length: int
    least: int
    purpose: str
    widen: tuple[str, ...] = ()


@dataclass(frozen=True)
class TypeFacts:
    """The types of the columns that qops uses. None: the queue has no such column."""

    moments: Moments = Moments()
    attempts: AttemptRoom | None = None
    widths: tuple[Width, ...] = ()


@dataclass(frozen=True)
class Spare:
    """An index that nothing needs: which, why, and the statement that drops it."""

    index: str
    why: str
    drop: str


@dataclass(frozen=True)
class Doubtful:
    """An index on the status that no statement of qops needs: how often it was read, None where that is not kept."""

    index: str
    reads: int | None
    drop: str


@dataclass(frozen=True)
class SpareFacts:
    """The indexes that are written for nothing; of the doubtful ones the reads since the server started tell."""

    spare: tuple[Spare, ...] = ()
    doubtful: tuple[Doubtful, ...] | Unknown = ()
    uptime_seconds: int = 0


@dataclass(frozen=True)
class Stray:
    """Rows with a status that no state has: the value as SQL, and the statement that gives them another."""

    value: str
    jobs: Sample
    update: str


@dataclass(frozen=True)
class StrayFacts:
    """The status values that no state has. `more`: there are more different values than were looked at."""

    strays: tuple[Stray, ...] = ()
    looked_at: int = 0
    more: bool = False
    section: str = ""
