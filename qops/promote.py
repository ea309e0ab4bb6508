"""Scheduled jobs whose time has come become pending."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from qops.arguments import given
from qops.batches import Batches
from qops.brake import BrakeCheck
from qops.clock import Stop, monotonic, sleep
from qops.counting import Count, count_walks, least
from qops.ending import settle
from qops.errors import ATTENTION, OK, Failure, Misconfigured
from qops.isolate import each_or_all
from qops.ledger import Ledger
from qops.pick import pick
from qops.queue import QueueTable, load
from qops.statements import requeue as st
from qops.statements.walk import Past, Walk, choose_walk, count_selected

if TYPE_CHECKING:
    import sqlalchemy as sa

    from qops.db import Server
    from qops.events import Events
    from qops.queue_settings import QueueSettings

PLAN_BOUND = 100_000
MAX_PAUSE_SECONDS = 1.0


@dataclass(frozen=True)
class Options:
    """One run of promote: rows in a transaction, and whether only to look."""

    batch: int = 1000
    dry_run: bool = False


@dataclass
class Batch:
    """What one transaction did: ids promoted, ids refused with the reason, and where the walk goes on."""

    key: tuple[Any, ...] | None = None
    seen: int = 0
    locked: int = 0
    moved: list[Any] = field(default_factory=list)
    refused: list[tuple[Any, str]] = field(default_factory=list)


@dataclass
class Result:
    """What a run did; with `dry_run`, `promoted` is what is due now (up to a bound) and nothing changed."""

    queue: str
    promoted: Count = 0
    locked: int = 0
    refused: list[dict[str, Any]] = field(default_factory=list)
    dry_run: bool = False
    elapsed_seconds: float = 0.0
    failure: Failure | None = None

    @property
    def exit_code(self) -> int:
        """1 where a job could not be promoted, else 0; a failure brings its own."""
        return ATTENTION if self.refused else OK

    def add(self, batch: Batch) -> None:
        """Count what one transaction did."""
        self.promoted = least(self.promoted) + len(batch.moved)
        self.locked += batch.locked
        self.refused += [{"id": id_, "reason": why} for id_, why in batch.refused]

    def document(self) -> dict[str, Any]:
        """Return the JSON document, docs/json.md."""
        document = asdict(self)
        del document["failure"]
        return document

    def summary(self) -> dict[str, Any]:
        """Return what the ledger keeps of the run: counts by result, and the error if there was one."""
        summary: dict[str, Any] = {"promoted": self.promoted, "locked": self.locked, "refused": len(self.refused)}
        if self.failure:
            summary["error"] = self.failure.message
        return summary


def promote(server: Server, settings: QueueSettings, options: Options, stop: Stop, events: Events) -> Result:
    """Promote due jobs in batches and say how many. Raises the family's errors for what is wrong before it begins."""
    with server.session() as connection:
        queue = load(connection, settings)
        queue.require("promote", roles=("available_at",), states=("scheduled",))
        past = Past("available_at")
        walks = [choose_walk(queue, v, by="available_at", past=past) for v in queue.states["scheduled"]]
        connection.rollback()
        if options.dry_run:
            due = count_walks(connection, walks, partial(count_selected, queue), PLAN_BOUND)
            connection.rollback()
            return Result(queue.name, promoted=due, dry_run=True)
        ledger = Ledger(server, connection, events)
        entry = ledger.open("promote", queue.name, given(options))
        result = Result(queue.name)
        batches, brake = Batches(server, connection, queue, stop), BrakeCheck(connection, queue.settings, events)

        def body() -> None:
            for walk in walks:
                _along(walk, options.batch, batches, brake, result)

        ending = settle(server, stop, body)
        result.failure, result.elapsed_seconds = ending.failure, ending.seconds
        ledger.close(entry, ending.outcome, result.summary())
        return result


def _along(walk: Walk, size: int, batches: Batches, brake: BrakeCheck, result: Result) -> None:
    """Follow one walk to its end, a batch a transaction, resting as long as each took."""
    batch = Batch()
    while not batches.stop.requested:
        brake()
        started = monotonic()
        batch = batches.run(walk, partial(promote_batch, batches.queue, walk, batch.key, size), result.add)
        if batch.seen < size:
            return
        sleep(min(MAX_PAUSE_SECONDS, monotonic() - started), batches.stop)


def promote_batch(
    queue: QueueTable, walk: Walk, key: tuple[Any, ...] | None, limit: int, connection: sa.Connection
) -> Batch:
    """Promote up to `limit` due jobs inside the caller's transaction and return the rows it was done for."""
    picked = pick(connection, queue, walk, key, limit)
    batch = Batch(picked.key, picked.seen, picked.locked)

    def act(ids: list[Any]) -> None:
        changed = connection.execute(st.promote(queue, ids)).rowcount
        if changed != len(ids):
            raise Misconfigured(f"queue {queue.name!r}: {len(ids)} rows were locked and {changed} changed")

    batch.moved = each_or_all(connection, picked.ids, act, lambda id_, why: batch.refused.append((id_, why)))
    return batch
