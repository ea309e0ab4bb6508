"""What checks know of the queue's rows and of what hangs on its tables, as plain values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from qops.children import Children
    from qops.doctor.facts import Unknown
    from qops.triggers import Trigger


@dataclass(frozen=True)
class Sample:
    """Rows of one state that were looked at, the first of them in the walk's order.

    `found` of them are what is looked for, `ids` the least of these. `bounded`: there may be more rows than were looked
    at.
    """

    found: int = 0
    examined: int = 0
    bounded: bool = False
    ids: tuple[str, ...] = ()

    def __str__(self) -> str:
        most = "at least " if self.bounded else ""
        more = ", …" if self.found > len(self.ids) else ""
        return f"{most}{self.found} (id {', '.join(self.ids)}{more})"


@dataclass(frozen=True)
class Overdue:
    """Jobs for which the moment of a command has come `grace_seconds` ago or longer, and what to type."""

    jobs: Sample
    grace_seconds: float
    command: str


@dataclass(frozen=True)
class Delayed:
    """Pending jobs whose time has not come among the first in the claim's order; `cure` is SQL or a comment."""

    jobs: Sample
    cure: str


@dataclass(frozen=True)
class Finished:
    """Jobs that the archiver as it is configured would move now, and live ones; both are counted up to a bound.

    `live` is None where it does not matter.
    """

    state: str
    rows: int
    bound: int
    live: int | None
    command: str


@dataclass(frozen=True)
class Increment:
    """The next id of a table that numbers its jobs, and up to where its type goes.

    `archived` is the archive's highest id, None where there is none. `raise_` is the statement that puts the next id
    behind it, `widen` what gives the ids more room, empty where there is no wider type.
    """

    column_type: str
    next_id: int
    end: int
    archived: int | None
    raise_: str = ""
    widen: tuple[str, ...] = ()


@dataclass(frozen=True)
class Attempts:
    """Running jobs whose attempt nobody counted, and pending ones whose attempts are used up.

    `uncounted` is None where attempts are counted when a job is put back. `cure` ends the latter. `beyond` are running
    ones that were claimed although theirs were used up.
    """

    uncounted: Sample | None
    spent: Sample
    cure: str
    section: str
    beyond: Sample = Sample()


@dataclass(frozen=True)
class RowFacts:
    """What the rows tell. None: the queue has no such thing. `brake` says that it is paused, where that is seen."""

    expired: Overdue | Unknown | None = None
    due: Overdue | Unknown | None = None
    delayed: Delayed | Unknown | None = None
    finished: Finished | Unknown | None = None
    increment: Increment | Unknown | None = None
    attempts: Attempts | Unknown | None = None
    brake: str | None = None


@dataclass(frozen=True)
class ChildFacts:
    """The foreign keys that refer to the queue's table and to its archive.

    `cures` maps a constraint to the statements that make it restrict, where they are to be seen. `grant` lets all be
    seen.
    """

    children: Children
    cures: tuple[tuple[str, tuple[str, ...]], ...] = ()
    grant: str = ""


@dataclass(frozen=True)
class TriggerFacts:
    """The triggers on both tables, each with the statement that drops it.

    `filling` are those that are to fill the archive, or seem to. `refusals` say why the archiver refuses. `hidden` maps
    the tables that may have others to the GRANT that lets them be seen.
    """

    found: tuple[tuple[Trigger, str], ...] = ()
    filling: tuple[Trigger, ...] = ()
    refusals: tuple[str, ...] = ()
    hidden: tuple[tuple[str, str], ...] = ()
    archive_by: str = "copy"


@dataclass(frozen=True)
class LinkFacts:
    """What acts when rows of the tables change."""

    children: ChildFacts
    triggers: TriggerFacts


@dataclass(frozen=True)
class Upkeep:
    """What the ledger says of one command: `words` is how it is typed, `failed` the outcomes since it last went well.

    `left_open` is the newest run where that has not ended and is not seen to be under way, `is_gone` whether its
    connection is known to be gone.
    """

    command: str
    words: str
    failed: tuple[str, ...] = ()
    last_error: str = ""
    left_open: int | None = None
    open_seconds: float | None = None
    is_gone: bool | None = None


@dataclass(frozen=True)
class Maintenance:
    """How maintenance goes: `archived_seconds` ago a run of archive went well, None: never.

    `is_due`: whether jobs wait for the archive longer than they should; None where no index tells. `grant` lets it be
    seen whether the runs of other accounts are under way.
    """

    commands: tuple[Upkeep, ...] = ()
    archived_seconds: float | None = None
    is_due: bool | None = None
    grant: str = ""
