"""The run of requeue: batches along walks with rests and throttles, or one transaction for each named job."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from qops.batches import Batches
from qops.brake import BrakeCheck
from qops.clock import monotonic
from qops.columns import require_whole
from qops.counting import least
from qops.db import transact
from qops.ending import settle
from qops.errors import Misconfigured
from qops.holder import Holders
from qops.ids import named_ids
from qops.lanes import Lanes
from qops.ledger import Ledger
from qops.pace import Pace
from qops.pick import Found, lock
from qops.purge_throttle import PurgeLagThrottle
from qops.queue import QueueTable, load
from qops.replica_throttle import watch_replicas
from qops.requeue.find import Finder, walks_of
from qops.requeue.judge import Judge
from qops.requeue.named import Named
from qops.requeue.plan import Tally, look_along
from qops.requeue.result import Options, Outcome, Result, Verdict
from qops.rounds import Key, Rounds, why_stopped
from qops.statements import requeue as st
from qops.throttle import Waits

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    import sqlalchemy as sa

    from qops.clock import Stop
    from qops.db import Server
    from qops.events import Events
    from qops.queue_settings import QueueSettings
    from qops.statements.walk import Walk
    from qops.throttle import Throttle

REST_FACTOR = 0.05
"""Rest a twentieth of the time that a batch took: somebody waits for these jobs, and workers claim between its rows."""
LANES, PROVEN = 4, 8
"""Batches at once: while one waits for its COMMIT to be durable, others have the server at work. A run begins with one
and adds another each time that so many rounds went well: few jobs need no more, and an unwell server shows by then."""
CAUTION = 4
"""So many times as many rounds have to go well after batches that were repeated: rows that a trigger writes may be the
same for all of them, and then they deadlock with each other as often as there are several."""


def requeue(server: Server, settings: QueueSettings, options: Options, stop: Stop, events: Events) -> Result:
    """Put jobs back and say what became of them. Raises the family's errors for what is wrong before it begins."""
    watched = {} if options.dry_run or options.ids else options.replicas
    with (
        server.session() as connection,
        watch_replicas(watched, options.max_replica_lag, stop) as replicas,
    ):
        queue = load(connection, settings)
        require_whole(connection, queue.table)
        walks = walks_of(queue, options)
        named = named_ids(connection, queue, options.ids)
        _check(connection, queue, options)
        connection.rollback()
        run = _Run(server, connection, queue, options, stop, events, replicas)
        if options.dry_run:
            return run.plan(walks, named)
        if not queue.has("attempts"):
            events.warn(f"queue {queue.name!r} has no attempts: jobs are put back without a limit")
        ledger = Ledger(server, connection, events)
        entry = ledger.open("requeue", queue.name, options.arguments(), options.reason)
        outcome = run.run(walks, named)
        ledger.close(entry, outcome, run.result.summary())
        return run.result


def _check(connection: sa.Connection, queue: QueueTable, options: Options) -> None:
    """Raise Misconfigured where jobs could not get the time or the limit that was asked for."""
    if options.max_attempts is not None:
        queue.require("requeue --max-attempts", roles=("attempts",))
    if not options.schedules:
        if queue.has("available_at"):
            queue.now("available_at")  # a DATETIME needs a declared clock
        return
    queue.require("requeue --delay and --spread", roles=("available_at",), states=("scheduled",))
    seconds = (options.delay or 0.0) + (options.spread or 0.0)
    if connection.execute(st.latest(queue, round((seconds + 1) * 1_000_000))).scalar() != 1:
        fact = queue.facts[queue.columns["available_at"].name]
        limit, way = st.LAST_DATETIME, ""
        if fact.data_type == "timestamp":
            limit, way = st.LAST_TIMESTAMP, f"; ask for less, or make the column DATETIME({fact.precision or 0})"
        raise Misconfigured(
            f"column {fact.name!r} of table {queue.table.name!r} is {fact.column_type} and ends at {limit[:19]} UTC; "
            f"--delay and --spread lead beyond that: nothing was changed{way}"
        )


@dataclass
class _Run:
    """One run: what it works with, and the result that it fills."""

    server: Server
    connection: sa.Connection
    queue: QueueTable
    options: Options
    stop: Stop
    events: Events
    replicas: tuple[Throttle, ...]
    waited: Waits = field(default_factory=Waits)
    reached: str | None = None

    def __post_init__(self) -> None:
        self.judge = Judge.of(self.queue, self.options)
        self.brake = BrakeCheck(self.connection, self.queue.settings, self.events)
        self.result = Result(self.queue.name, dry_run=self.options.dry_run)
        self.named = Named(self.server, self.connection, self.queue, self.judge, self.options, self.events)

    def plan(self, walks: list[Walk], named: list[Any]) -> Result:
        """Say what a run would do, up to a bound, and of named jobs what would become of each; takes no lock."""
        tally = Tally(self.queue, self.judge)
        for id_ in named:
            row, verdict, reason = self.named.plan(id_)
            tally.looked_at += 1
            if row is not None and verdict in {"requeued", "exhausted"}:
                tally.add(row, id_)
            else:
                tally.leave(verdict.replace("_", " "))
            self.result.answer(Verdict(id_, verdict), reason)
        look_along(self.connection, self.queue, walks, tally)
        self.connection.rollback()
        self.result.plan = plan = tally.plan(self.options)
        self.result.requeued = plan.jobs
        self.result.not_eligible += tally.stuck
        self.result.exhausted = tally.spent if plan.complete else {"at_least": tally.spent}
        return self.result

    def run(self, walks: list[Walk], named: list[Any]) -> str:
        """Run to the end, whatever it is, and return why it ended, for the ledger."""
        body = partial(self._one_by_one, named) if named else partial(self._through, walks)
        ending = settle(self.server, self.stop, body)
        self.result.failure, self.result.elapsed_seconds = ending.failure, ending.seconds
        self.result.add_waits(self.waited)
        return why_stopped(ending, self.reached)

    def _one_by_one(self, named: list[Any]) -> None:
        self.named.look(named)
        with Holders(self.server, self.queue) as holders:
            for id_ in named:
                if self.stop.requested:
                    return
                self.brake()
                self.named.one(id_, holders, self.stop, self.result)

    def _through(self, walks: list[Walk]) -> None:
        """Follow each walk to its end, a batch a transaction."""
        purge = PurgeLagThrottle(
            self.connection, self.options.max_purge_lag, self.events, read_view=self.options.read_view
        )
        purge.asked = False  # a limit of [archive] is the archiver's: who requeues may have fewer privileges
        rounds = Rounds(
            Batches(self.server, self.connection, self.queue, self.stop),
            Pace(self.options.batch, rest_factor=REST_FACTOR),
            self.brake,
            (purge, *self.replicas),
            self.events,
            self.options.max_wait,
            room=self._room,
            waited=self.waited,
        )
        if self.options.failed and self.options.filters.worker is not None:
            self.events.inform("a failed job names its worker only where that left its name: --worker finds no others")
        with Lanes(rounds.batches, LANES) as lanes:
            for walk in walks:
                finder = Finder.start(self.connection, self.queue, walk)
                self.connection.rollback()
                self.reached = self._along(rounds, lanes, finder)
                if self.reached:
                    return

    def _along(self, rounds: Rounds, lanes: Lanes, finder: Finder) -> str | None:
        """Follow one walk to its end; return why the run stops, None to go on with the next walk."""
        key: Key = None
        went_well, proven = 0, PROVEN
        while True:
            waited, retries = rounds.waited.total, rounds.retries
            if reason := rounds.hold():
                return reason
            if rounds.waited.total > waited:
                lanes.narrow()
                went_well = 0
            started, wide = monotonic(), lanes.widen(1 + went_well // proven)
            if wide == 1:
                found, seen, ended = self._alone(rounds, finder, key)
            else:
                found, seen, ended = self._abreast(rounds, lanes, finder, key, wide)
            key = found.key or key
            if ended:
                return None
            if reason := rounds.rest(monotonic() - started, seen // wide):
                return reason
            went_well += 1
            if wide > 1 and rounds.retries > retries:
                lanes.narrow()
                went_well, proven = 0, proven * CAUTION

    def _alone(self, rounds: Rounds, finder: Finder, key: Key) -> tuple[Found, int, bool]:
        """Read and put back one batch, in one transaction; return what was read, as the finder says it."""
        read: list[tuple[Found, int, bool]] = []

        def work(session: sa.Connection) -> Outcome:
            read.append(finder.next(session, key, rounds.size))
            return self._batch(finder, read[-1][0].ids, session)

        rounds.batches.run(finder.walk, work, self._count, rounds.count_retry)
        return read[-1]

    def _abreast(self, rounds: Rounds, lanes: Lanes, finder: Finder, key: Key, wide: int) -> tuple[Found, int, bool]:
        """Read for several batches and put them back at once; return what was read, as the finder says it."""
        size = rounds.size
        found, seen, ended = transact(
            self.server,
            self.connection,
            lambda session: finder.next(session, key, int(min(size * wide, self._room()))),
            stop=self.stop,
            on_retry=rounds.count_retry,
        )
        works = [partial(self._batch, finder, found.ids[at : at + size]) for at in range(0, len(found.ids), size)]
        if works:
            lanes.run(finder.walk, works, self._count, rounds.count_retry)
        return found, seen, ended

    def _room(self) -> float:
        limit = self.options.limit
        return float("inf") if limit is None else limit - least(self.result.requeued)

    def _count(self, outcome: Outcome) -> None:
        if outcome.why and not self.result.conflicts:
            self.events.warn(f"{outcome.why}; further ones are counted in conflicts")
        self.result.add(outcome)
        if outcome.seen:
            self.events.progress(f"put back {self.result.requeued} jobs")

    def _batch(self, finder: Finder, ids: Sequence[Any], connection: sa.Connection) -> Outcome:
        picked = lock(connection, self.queue, finder.walk, Found(ids), *st.situation(self.queue))
        outcome = Outcome(seen=len(ids), locked=picked.locked, changed=picked.changed)
        self.judge.transition(connection, picked.rows, outcome)
        return outcome
