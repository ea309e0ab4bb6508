"""The archiver's loop: throttles, one batch, a rest, until nothing is left or something says stop."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from qops.ahead import Place, look_ahead
from qops.archive.batch import Batch, move_batch
from qops.archive.plan import count_undated, make_plan
from qops.archive.result import Options, Refused, Result
from qops.batches import Batches
from qops.brake import BrakeCheck
from qops.clock import Stop, monotonic
from qops.db import transact
from qops.ending import settle
from qops.guard import Guard, check_tables
from qops.lanes import Lanes
from qops.ledger import Ledger
from qops.pace import Pace
from qops.purge_throttle import PurgeLagThrottle
from qops.queue import QueueTable, load
from qops.replica_throttle import watch_replicas
from qops.rounds import Rounds, why_stopped
from qops.statements.walk import Past, Walk, choose_walk

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qops.counting import Count
    from qops.db import Server
    from qops.events import Events
    from qops.queue_settings import QueueSettings
    from qops.throttle import Throttle

RESTLESS_LANES = 2  # connections at work where no rest is wanted: as many as one disk and two cores can use
IDLE_MARGIN_SECONDS = 60
MAX_WAIT_TIMEOUT = 31_536_000  # seconds: the variable's own limit


def archive(server: Server, settings: QueueSettings, options: Options, stop: Stop, events: Events) -> Result:
    """Move finished jobs to the archive; return what was done, also when something ended the run early.

    Raises the family's errors for what is wrong before the first batch.
    """
    lagging = watch_replicas(options.replicas, options.max_replica_lag, stop)
    with server.session() as connection, lagging as replicas:
        queue = load(connection, settings)
        _require(queue, options)
        guard = check_tables(
            server,
            connection,
            queue,
            allow_cascade=options.allow_cascade,
            assume_no_children=options.assume_no_children,
        )
        walks = _walks(queue, options)
        for text in guard.warnings:
            events.warn(text)
        purge = PurgeLagThrottle(connection, options.max_purge_lag, events, read_view=options.read_view)
        throttles: tuple[Throttle, ...] = (purge, *replicas)
        if options.dry_run:
            brake = BrakeCheck(connection, queue.settings, events)
            return make_plan(connection, guard, walks, options, brake, throttles)
        run = Run(server, connection, guard, options, stop, events, throttles=throttles)
        ledger = Ledger(server, connection, events)
        entry = ledger.open("archive", queue.name, options.arguments())
        result = run.result(walks)
        ledger.close(entry, result.stopped_by, _summary(result))
        return result


def _require(queue: QueueTable, options: Options) -> None:
    queue.require("archive", states=(options.state,))
    if options.older_than > 0:
        queue.require("archive --older-than", roles=("finished_at",))


def _walks(queue: QueueTable, options: Options) -> list[Walk]:
    age = Past("finished_at", round(options.older_than * 1_000_000)) if options.older_than > 0 else None
    return [choose_walk(queue, value, by="finished_at", past=age) for value in queue.states[options.state]]


class Run:
    """One run: its counters, and the loop that fills them."""

    def __init__(  # noqa: PLR0913 - a run is all of these
        self,
        server: Server,
        connection: sa.Connection,
        guard: Guard,
        options: Options,
        stop: Stop,
        events: Events,
        *,
        throttles: Sequence[Throttle],
    ) -> None:
        self.server, self.connection, self.guard = server, connection, guard
        self.queue = queue = guard.queue
        self.options, self.stop, self.events = options, stop, events
        self.archived = self.batches = self.locked = self.reconciled = 0
        self.refused: list[Refused] = []
        self.undated: Count = 0
        self.reached: str | None = None
        self.rounds = Rounds(
            batches=Batches(server, connection, queue, stop, asks_level=True),
            pace=Pace(options.batch, guard.row_bytes),
            brake=BrakeCheck(connection, queue.settings, events),
            throttles=throttles,
            events=events,
            max_wait=options.max_wait,
            pause=options.pause,
            until=math.inf if options.max_runtime is None else monotonic() + options.max_runtime,
            room=self._room,
        )

    def result(self, walks: list[Walk]) -> Result:
        """Run to the end, whatever it is, and say what was done."""
        ending = settle(self.server, self.stop, lambda: self._through(walks))
        waited = self.rounds.waited
        return Result(
            queue=self.queue.name,
            archived=self.archived,
            batches=self.batches,
            locked=self.locked,
            reconciled=self.reconciled,
            undated=self.undated,
            refused=tuple(self.refused),
            throttled_seconds=round(waited.total, 3),
            throttles=waited.by_reason(),
            stopped_by=why_stopped(ending, self.reached),
            elapsed_seconds=ending.seconds,
            retries=self.rounds.retries,
            failure=ending.failure,
        )

    def _through(self, walks: list[Walk]) -> None:
        """Follow the walks, one after the other, until one says why the run stops."""
        self._outlive_pauses()
        self.undated = count_undated(self.connection, self.queue, walks, self.options)
        self.connection.rollback()
        with Lanes(self.rounds.batches, RESTLESS_LANES if self.options.pause == 0 else 1) as lanes:
            self.reached = next(filter(None, (self._along(lanes, walk) for walk in walks)), None)

    def _outlive_pauses(self) -> None:
        """Have the server keep this session through a pause that was asked for; it may end idle ones sooner."""
        if self.options.pause:
            seconds = min(MAX_WAIT_TIMEOUT, int(self.options.pause) + IDLE_MARGIN_SECONDS)
            limit = sa.text("SET SESSION wait_timeout = CAST(GREATEST(@@wait_timeout, :seconds) AS SIGNED)")
            self.connection.execute(limit, {"seconds": seconds})

    def _along(self, lanes: Lanes, walk: Walk) -> str | None:
        """Follow one walk to its end; return why the run stops, None to go on with the next walk."""
        place = Place()
        while True:
            waited = self.rounds.waited.total
            if reason := self.rounds.hold():
                return reason
            if self.rounds.waited.total > waited:
                lanes.narrow()
            started, size = monotonic(), self.rounds.size
            place = self._look_ahead(walk, place, size)
            if not place.ids:
                return None
            ids = place.ids[: int(min(size * lanes.widen(-(-len(place.ids) // size)), self._room()))]
            works = [partial(self._move, walk, ids[at : at + size]) for at in range(0, len(ids), size)]
            lanes.run(walk, works, self._count, self.rounds.count_retry)
            place = place.behind(len(ids))
            if place.done:
                return None
            if reason := self.rounds.rest(monotonic() - started, len(ids) // len(works)):
                return reason

    def _look_ahead(self, walk: Walk, place: Place, size: int) -> Place:
        """Return the place with ids to come to; a lock on the table is waited for as often as by a batch."""
        if place.ids or place.ended:
            return place
        return transact(
            self.server,
            self.connection,
            lambda session: look_ahead(session, self.queue, walk, place, size, self._room()),
            stop=self.stop,
            on_retry=self.rounds.count_retry,
            asks_level=True,
        )

    def _move(self, walk: Walk, ids: Sequence[Any], connection: sa.Connection) -> Batch:
        return move_batch(connection, self.guard, walk, ids)

    def _room(self) -> float:
        """Return how many jobs the run may still move."""
        limit = math.inf if self.options.limit is None else self.options.limit
        return limit - self.archived - self.reconciled

    def _count(self, batch: Batch) -> None:
        self.archived += batch.archived
        self.reconciled += batch.reconciled
        self.locked += batch.locked
        self.refused += batch.refused
        if batch.moved:
            self.batches += 1
            self.events.progress(f"archived {self.archived} jobs in {self.batches} batches")


def _summary(result: Result) -> dict[str, Any]:
    """Return what the ledger keeps of a run: counts by result, and the error if there was one."""
    summary: dict[str, Any] = {
        "archived": result.archived,
        "batches": result.batches,
        "locked": result.locked,
        "reconciled": result.reconciled,
        "undated": result.undated,
        "refused": len(result.refused),
        "throttled_seconds": result.throttled_seconds,
    }
    if result.failure:
        summary["error"] = result.failure.message
    return summary
