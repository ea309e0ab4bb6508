"""Ending the leases of a worker that is known to be dead, so that its jobs can be put back before they run out.

The jobs keep their state and owner. A worker of the Worker class that is alive after all has lost them; one whose own
statements do not ask for the lease can finish a job until it is put back.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from qops.batches import Batches
from qops.brake import BrakeCheck
from qops.columns import require_whole
from qops.counting import words
from qops.db import DENIED, DRIVER_ERRORS, INTERRUPTED, Server, errno, prose, roll_back, statement
from qops.ending import settle
from qops.errors import ATTENTION, OK, Failure, Misconfigured, QopsError
from qops.isolate import each_or_all
from qops.ledger import Ledger
from qops.pace import Pace
from qops.privileges import Need, grant
from qops.queue import QueueTable, load
from qops.rounds import Key, Rounds
from qops.statements import release as st
from qops.statements.walk import Walk, choose_walk

if TYPE_CHECKING:
    import sqlalchemy as sa

    from qops.clock import Stop
    from qops.events import Events
    from qops.queue_settings import QueueSettings

SLICE = 1000  # running jobs that are read at a time, whoever holds them
SHOWN = 100
LISTED = 20
ALIVE = "worker {worker!r} seems to be alive: connection {ids}; a job that is put back then runs twice"
_SEE = Need("SELECT", "performance_schema.*", "see whether a worker has a connection")


@dataclass(frozen=True)
class HeldJob:
    """A job in a worker's hands: since when it is there (None: not kept), and how long its lease lasts."""

    id: Any
    age_seconds: float | None
    lease_seconds: float


@dataclass(frozen=True)
class Holding:
    """What a worker holds, the first of it in `jobs`, and its `connections` (None: `unseen` says why)."""

    number: int
    jobs: tuple[HeldJob, ...]
    connections: tuple[int, ...] | None
    unseen: str | None = None

    def lines(self, worker: str) -> tuple[str, ...]:
        """Say it to a person."""
        lines = [f"worker {worker!r} holds {words(self.number)}"]
        for job in self.jobs[:LISTED]:
            age = "" if job.age_seconds is None else f"created {job.age_seconds:.0f} s ago, "
            lines.append(f"  job {job.id}: {age}its lease lasts {job.lease_seconds:.0f} s more")
        if self.number > LISTED:
            lines.append(f"  and {self.number - LISTED} more")
        return (*lines, self.alive(worker))

    def alive(self, worker: str) -> str:
        """Say whether the worker still has a connection, as far as can be told."""
        if self.connections is None:
            return f"whether it still has a connection is not known: {self.unseen}"
        if self.connections:
            return ALIVE.format(worker=worker, ids=", ".join(map(str, self.connections)))
        return "no connection is known to be its; one whose program does not say its name is not recognised"


@dataclass
class Result:
    """What a run did, by reason; `connections` and `jobs` are from before it."""

    queue: str
    worker: str
    released: int = 0
    locked: int = 0
    changed: int = 0
    conflicts: list[Any] = field(default_factory=list)
    connections: tuple[int, ...] | None = None
    jobs: tuple[HeldJob, ...] = ()
    elapsed_seconds: float = 0.0
    failure: Failure | None = None

    @property
    def exit_code(self) -> int:
        """1 where a row objects, else 0; a failure brings its own."""
        return ATTENTION if self.conflicts else OK

    def add(self, batch: Batch) -> None:
        """Count what one transaction did."""
        self.released += batch.released
        self.locked += batch.locked
        self.changed += batch.changed
        self.conflicts += batch.conflicts

    def document(self) -> dict[str, Any]:
        """Return the JSON document, docs/json.md."""
        document = asdict(self)
        del document["failure"]
        return document

    def summary(self) -> dict[str, Any]:
        """Return what the ledger keeps of the run: counts by result, and the error if there was one."""
        summary: dict[str, Any] = {name: getattr(self, name) for name in ("released", "locked", "changed")}
        summary |= {"conflicts": len(self.conflicts), "connections": self.connections}
        if self.failure:
            summary["error"] = self.failure.message
        return summary


@dataclass
class Batch:
    """What one transaction did. `moved` is empty: a released job is found where it was, and to repeat does no harm."""

    key: Key
    seen: int
    ended: bool
    released: int = 0
    locked: int = 0
    changed: int = 0
    conflicts: list[Any] = field(default_factory=list)
    moved: tuple[Any, ...] = ()


def look(server: Server, settings: QueueSettings, worker: str) -> Holding:
    """Return what a worker holds; locks nothing. Raises as `release` does before it begins."""
    with server.session() as connection:
        queue, walks = _open(connection, settings)
        return _holding(connection, queue, walks, worker)


def release(server: Server, settings: QueueSettings, worker: str, stop: Stop, events: Events) -> Result:
    """End a worker's leases and say of how many jobs. Raises the family's errors for what is wrong before it begins."""
    with server.session() as connection:
        queue, walks = _open(connection, settings)
        holding = _holding(connection, queue, walks, worker)
        if holding.connections is None or holding.connections:
            events.warn(holding.alive(worker))
        result = Result(queue.name, worker, connections=holding.connections, jobs=holding.jobs)
        ledger = Ledger(server, connection, events)
        entry = ledger.open("release", queue.name, {"worker": worker})
        brake = BrakeCheck(connection, settings, events)
        batches = Batches(server, connection, queue, stop)
        rounds = Rounds(batches, Pace(SLICE), brake, (), events, max_wait=0.0)

        def body() -> None:
            for walk in walks:

                def work(key: Key, size: int, session: sa.Connection, walk: Walk = walk) -> Batch:
                    return _batch(session, queue, walk, key, size, worker)

                try:
                    rounds.follow(walk, work, result.add)
                except QopsError as error:
                    if error.in_commit:
                        error.args = (f"{error}; the last batch may not be counted; to run this again does no harm",)
                    raise

        ending = settle(server, stop, body)
        result.failure, result.elapsed_seconds = ending.failure, ending.seconds
        ledger.close(entry, ending.outcome, result.summary())
        return result


def _open(connection: sa.Connection, settings: QueueSettings) -> tuple[QueueTable, list[Walk]]:
    queue = load(connection, settings)
    require_whole(connection, queue.table)
    queue.require("release", roles=("claimed_by", "lease_until"), states=("running",))
    queue.now("lease_until")  # a DATETIME needs a declared clock
    walks = [choose_walk(queue, value, by="lease_until") for value in queue.states["running"]]
    connection.rollback()
    return queue, walks


def _holding(connection: sa.Connection, queue: QueueTable, walks: list[Walk], worker: str) -> Holding:
    """Read what a worker holds, a slice of the running jobs at a time, and look for its connections."""
    number, shown = 0, list[HeldJob]()
    for walk in walks:
        key: Key = None
        while True:
            rows = connection.execute(st.next_leased(queue, walk, key, SLICE, worker)).all()
            own = [row for row in rows if row.own]
            number += len(own)
            for row in own[: SHOWN - len(shown)]:
                age = None if row.age is None else round(float(row.age), 3)
                shown.append(HeldJob(row[-4], age, round(float(row.left), 3)))
            connection.rollback()
            if len(rows) < SLICE:
                break
            key = tuple(rows[-1][:-3])
    connections, unseen = _connections(connection, queue, worker)
    return Holding(number, tuple(shown), connections, unseen)


def _connections(
    connection: sa.Connection, queue: QueueTable, worker: str
) -> tuple[tuple[int, ...] | None, str | None]:
    """Return the connections that are probably the worker's, or None and why they cannot be seen."""
    quoted = "'" + worker.replace("\\", "\\\\").replace("'", "\\'") + "'"
    names = {"worker": worker, "quoted": quoted, "schema": queue.schema}
    now = connection.execute(statement("instant")).one()
    if not now.performance_schema:
        return None, "performance_schema is OFF"
    try:
        rows = connection.execute(statement("worker_connections"), names).scalars().all()
    except DRIVER_ERRORS as error:
        if errno(error) in DENIED:
            needed = grant(_SEE, queue.settings, now.account, queue.schema)
            return None, f"permission is denied; an administrator can run: {needed}"
        if errno(error) in INTERRUPTED:
            return None, prose(error)
        raise
    finally:
        roll_back(connection)
    return tuple(int(row) for row in rows), None


def _batch(session: sa.Connection, queue: QueueTable, walk: Walk, key: Key, size: int, worker: str) -> Batch:
    """End the leases of one worker among the next `size` leased jobs, inside the caller's transaction."""
    rows = session.execute(st.next_leased(queue, walk, key, size, worker)).all()
    batch = Batch(tuple(rows[-1][:-3]) if rows else None, len(rows), len(rows) < size)
    found = sorted(row[-4] for row in rows if row.own)
    if not found:
        return batch
    ids = sorted(session.execute(st.lock_owned(queue, found, worker)).scalars())
    missing = sorted(set(found) - set(ids))
    batch.locked = session.execute(st.count_owned(queue, missing, worker)).scalar_one() if missing else 0
    batch.changed = len(missing) - batch.locked

    def act(these: list[Any]) -> None:
        changed = session.execute(st.end_leases(queue, these)).rowcount
        if changed != len(these):
            raise Misconfigured(
                f"queue {queue.name!r}: {len(these)} rows were locked and {changed} changed; rolled back"
            )

    done = each_or_all(session, ids, act, lambda id_, _why: batch.conflicts.append(id_))
    batch.released = len(done)
    return batch
