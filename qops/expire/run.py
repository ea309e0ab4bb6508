"""The loop of expire: throttles, one batch, a rest; archived jobs first, then the ledger."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from sqlalchemy import exc

from qops.archived import load_archive, view
from qops.batches import Batches
from qops.brake import BrakeCheck
from qops.children import check_children
from qops.db import NO_SUCH_TABLE, Server, errno
from qops.ending import settle
from qops.expire.entries import SUCCESS, Entries, by_id
from qops.expire.result import Batch, Options, Result
from qops.expire.rows import ROLE, count_undated, expire_batch, is_indexed, plan, walk_by_age
from qops.ledger import Ledger, last_run
from qops.pace import Pace
from qops.privileges import LEDGER_TABLE
from qops.purge_throttle import PurgeLagThrottle
from qops.queue import QueueTable, load
from qops.replica_throttle import watch_replicas
from qops.rounds import Key, Rounds, why_stopped
from qops.throttle import Waits

if TYPE_CHECKING:
    import sqlalchemy as sa

    from qops.clock import Stop
    from qops.events import Events
    from qops.queue_settings import QueueSettings
    from qops.statements.walk import Walk
    from qops.throttle import Throttle


def expire(server: Server, settings: QueueSettings, options: Options, stop: Stop, events: Events) -> Result:
    """Delete what is past its retention and say how much, also when something ended the run early.

    Raises the family's errors for what is wrong before the first batch.
    """
    lagging = watch_replicas({} if options.dry_run else options.replicas, options.max_replica_lag, stop)
    with server.session() as connection, lagging as replicas:
        queue = load(connection, settings)
        run = _Run(server, connection, queue, options, stop, events, replicas)
        if options.older_than is not None:
            run.choose(options.older_than)
        run.ledger = _ledger(connection, queue)
        run.result.ledger_seen = _seen(connection, queue) if run.ledger else 0
        connection.rollback()
        if options.dry_run:
            return run.plan()
        record = Ledger(server, connection, events)
        entry = record.open("expire", queue.name, options.arguments())
        result = run.run()
        record.close(entry, result.stopped_by, result.summary())
        return result


def _ledger(connection: sa.Connection, queue: QueueTable) -> QueueTable | None:
    """Return the ledger as a table with an id; None where there is none."""
    try:
        found = view(connection, queue, LEDGER_TABLE)
    except exc.DBAPIError as error:
        if errno(error) != NO_SUCH_TABLE:
            raise
        return None
    return replace(found, columns={"id": found.table.columns["id"]})


def _seen(connection: sa.Connection, queue: QueueTable) -> int:
    """Return the entry up to which an earlier run has looked for those that found nothing to do."""
    last = last_run(connection, queue.name, "expire", outcomes=SUCCESS)
    seen = last.summary.get("ledger_seen") if last and last.summary else None
    return seen if isinstance(seen, int) else 0


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
    archive: QueueTable | None = None
    walk: Walk | None = None
    ledger: QueueTable | None = None
    waited: Waits = field(default_factory=Waits)

    def __post_init__(self) -> None:
        self.result = Result(self.queue.name, dry_run=self.options.dry_run)
        limit, read_view = self.options.max_purge_lag, self.options.read_view
        purge = PurgeLagThrottle(self.connection, limit, self.events, read_view=read_view)
        self.throttles: tuple[Throttle, ...] = (purge, *self.replicas)
        self.pace = Pace(self.options.batch)
        self.brake = BrakeCheck(self.connection, self.queue.settings, self.events)

    def choose(self, older_than: float) -> None:
        """Look at the archive whole and choose the way to its old jobs."""
        self.archive = archive = load_archive(self.connection, self.queue, "expire --older-than", ROLE)
        archive.now(ROLE)  # a DATETIME needs a declared clock
        self._check()
        self.walk = walk_by_age(archive, older_than)
        if not is_indexed(archive, self.walk):
            column = archive.columns[ROLE].name
            self.events.warn(
                f"no index of {archive.table.name!r} begins with {column!r}, so every run reads the whole archive; "
                f"add one with: {archive.settings.command('init --repair')}"
            )

    def _check(self) -> None:
        if self.archive:
            check_children(
                self.server,
                self.connection,
                self.archive,
                "expire",
                allow_cascade=self.options.allow_cascade,
                assume_no_children=self.options.assume_no_children,
            )

    def plan(self) -> Result:
        """Say what a run would delete, up to a bound; takes no lock and writes nothing."""
        if self.archive and self.walk:
            self.result.expired, self.result.undated = plan(self.connection, self.archive, self.walk)
        if self.ledger:
            entries = Entries(self.connection, self.ledger)
            self.result.ledger_expired = entries.count(self.result.ledger_seen)
        self.connection.rollback()
        return self.result

    def run(self) -> Result:
        """Run to the end, whatever it is."""
        ending = settle(self.server, self.stop, self._through)
        self.result.failure, self.result.elapsed_seconds = ending.failure, ending.seconds
        self.result.stopped_by = why_stopped(ending, None)
        self.result.add_waits(self.waited)
        return self.result

    def _through(self) -> None:
        if self.archive and self.walk:
            if is_indexed(self.archive, self.walk):
                self.result.undated = count_undated(self.connection, self.archive, self.walk)
                self.connection.rollback()
            work = partial(self._expire, self.archive, self.walk)
            self._rounds(self.archive).follow(self.walk, work, self._count)
        if self.ledger and not self.stop.requested:
            self._through_ledger(self.ledger)

    def _expire(self, archive: QueueTable, walk: Walk, key: Key, size: int, session: sa.Connection) -> Batch:
        return expire_batch(session, archive, walk, key, size, self._check)

    def _count(self, batch: Batch) -> None:
        self.result.add(batch)
        if batch.moved:
            self.events.progress(f"deleted {self.result.expired} archived jobs in {self.result.batches} batches")

    def _through_ledger(self, ledger: QueueTable) -> None:
        """Delete the entries that have had their time: the old ones, then those of runs that found nothing."""
        self.result.ledger_expired = 0
        entries = Entries(self.connection, ledger)

        def batch(idle: bool, key: Key, size: int, _session: sa.Connection) -> Batch:  # noqa: FBT001
            return entries.batch(idle=idle, after=key[0] if key else None, limit=size)

        rounds, count = self._rounds(ledger), self.result.add_entries
        rounds.follow(by_id(ledger), partial(batch, False), count)
        last, _ = rounds.follow(by_id(ledger), partial(batch, True), count, key=(self.result.ledger_seen,))
        self.result.ledger_seen = last[0] if last else 0

    def _rounds(self, table: QueueTable) -> Rounds:
        return Rounds(
            Batches(self.server, self.connection, table, self.stop),
            self.pace,
            self.brake,
            self.throttles,
            self.events,
            self.options.max_wait,
            waited=self.waited,
        )
