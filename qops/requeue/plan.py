"""What a run would do, read without locks and up to a bound: how many jobs, of which errors and ages, which stay."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from qops.counting import Count, words
from qops.fold import READ, Groups
from qops.requeue.find import Finder
from qops.requeue.judge import stuck
from qops.statements.filters import described, next_fitting

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import sqlalchemy as sa

    from qops.queue import QueueTable
    from qops.requeue.judge import Judge
    from qops.requeue.result import Ineligible, Options
    from qops.statements.walk import Walk

PLAN_BOUND = 100_000  # rows that are looked at
ERRORS_BOUND = 10_000  # of these, errors that are read
SLICE = 1_000
MOST_ERRORS = 5
_NO_ERROR = "(no error text)"
_TO_LIMIT = "at their attempt limit"


@dataclass(frozen=True)
class ErrorCount:
    """Jobs with the same error, numbers and ids in it folded away."""

    error: str
    count: int


@dataclass(frozen=True)
class StateCount:
    """Jobs that are `failed` or `expired` now."""

    state: str
    count: int


@dataclass(frozen=True)
class Left:
    """Jobs that a run would not put back, and why."""

    reason: str
    count: int


@dataclass(frozen=True)
class Plan:
    """What a run would do. Ages in seconds, by the server's clock; None where no time is known.

    `looked_at` rows were read; `complete`: there are no more. `errors` are the most frequent ones among the first
    `errors_of` jobs. `state` is what the jobs become, `after_seconds` and `within_seconds` when they are due at the
    earliest and at the latest.
    """

    jobs: Count
    state: str
    after_seconds: float
    within_seconds: float
    states: tuple[StateCount, ...]
    errors: tuple[ErrorCount, ...]
    errors_of: int
    oldest_seconds: int | None
    newest_seconds: int | None
    untouched: tuple[Left, ...]
    looked_at: int
    complete: bool

    def lines(self) -> tuple[str, ...]:
        """Return what a person reads before the question."""
        number = words(self.jobs)
        when = "at once"
        if self.state == "scheduled":
            spread = self.within_seconds - self.after_seconds
            start = f"after {self.after_seconds:g} s" if self.after_seconds else "from now on"
            when = f"{start}, spread over {spread:g} s" if spread else start
        lines = [f"{number} to {self.state}, {when}"]
        lines += [f"  {one.count} {one.state}" for one in self.states]
        if self.oldest_seconds is not None and self.newest_seconds is not None:
            lines.append(f"  since {_age(self.newest_seconds)} to {_age(self.oldest_seconds)}")
        if self.errors:
            lines.append("  by error:" if self.complete else f"  by error, of the first {self.errors_of}:")
            lines += [f"  {one.count:>9}  {one.error}" for one in self.errors]
        for left in self.untouched:
            lines.append(f"not touched: {words(left.count)} {left.reason}")
        lines.append("which ones other sessions hold shows when they are locked: those are passed over")
        if not self.complete:
            lines.append(f"only the first {self.looked_at} were looked at")
        return tuple(lines)


def _age(seconds: int) -> str:
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


class Tally:
    """Counts jobs as they are read."""

    def __init__(self, queue: QueueTable, judge: Judge) -> None:
        self.queue, self.judge = queue, judge
        self.states: Counter[str] = Counter()
        self.untouched: Counter[str] = Counter()
        self.groups = Groups()
        self.stuck: list[Ineligible] = []
        self.errors_of = self.looked_at = 0
        self.oldest: int | None = None
        self.newest: int | None = None
        self.complete = True

    @property
    def jobs(self) -> int:
        """How many would be put back."""
        return sum(self.states.values())

    def add(self, row: sa.Row[Any], id_: Any) -> None:  # noqa: ANN401 - as the id column
        """Count one job that can be put back, unless its attempts are used up."""
        state = self.queue.state_of(row.status) or ""
        if self.judge.is_spent(row):
            gives_up = state == "running" and self.queue.has_state("failed")
            if state == "running" and not gives_up:
                self.stuck.append(stuck(id_))
            self.leave(f"{_TO_LIMIT}: {'they become failed' if gives_up else 'they stay'}")
            return
        self.states["expired" if state == "running" else state] += 1
        if row.age is not None:
            self.oldest = row.age if self.oldest is None else max(self.oldest, row.age)
            self.newest = row.age if self.newest is None else min(self.newest, row.age)
        if self.queue.has("last_error") and self.errors_of < ERRORS_BOUND:
            self.errors_of += 1
            self.groups.add(row.error, id_)

    def leave(self, reason: str) -> None:
        """Count one job that would not be put back."""
        self.untouched[reason] += 1

    @property
    def spent(self) -> int:
        """How many have used up their attempts."""
        return sum(count for reason, count in self.untouched.items() if reason.startswith(_TO_LIMIT))

    def plan(self, options: Options) -> Plan:
        """Return what was counted."""
        jobs: Count = self.jobs
        if options.limit is not None and self.jobs >= options.limit:
            jobs = options.limit
        elif not self.complete:
            jobs = {"at_least": self.jobs}
        after = options.delay or 0.0
        return Plan(
            jobs=jobs,
            state="scheduled" if options.schedules else "pending",
            after_seconds=after,
            within_seconds=after + (options.spread or 0.0),
            states=tuple(StateCount(state, count) for state, count in self.states.items()),
            errors=tuple(
                ErrorCount(_NO_ERROR if group.error is None else group.error or "(an empty text)", group.count)
                for group in self.groups.largest_first()[:MOST_ERRORS]
            ),
            errors_of=self.errors_of,
            oldest_seconds=self.oldest,
            newest_seconds=self.newest,
            untouched=tuple(Left(reason, count) for reason, count in self.untouched.items()),
            looked_at=self.looked_at,
            complete=self.complete,
        )


def look_along(connection: sa.Connection, queue: QueueTable, walks: Iterable[Walk], tally: Tally) -> None:
    """Count the jobs of walks, up to the bound; no read view stays open from slice to slice."""
    for walk in walks:
        finder = Finder.start(connection, queue, walk)
        key: Sequence[Any] | None = None
        ended = False
        while not ended:
            if tally.looked_at >= PLAN_BOUND:
                tally.complete = False
                return
            columns = described(queue, READ if tally.errors_of < ERRORS_BOUND else 0)
            rows = connection.execute(next_fitting(queue, walk, key, SLICE, *columns)).all()
            connection.rollback()
            width = len(walk.steps)
            for row in rows:
                if not finder.is_meant(row[0]):
                    ended = True
                    break
                tally.looked_at += 1
                key = tuple(row[:width])
                if row.fits:
                    tally.add(row, key[-1])
            ended = ended or len(rows) < SLICE
