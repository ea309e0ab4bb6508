"""Scheduled jobs whose time has come become pending."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from qops.brake import BrakeCheck
from qops.clock import Stop, monotonic
from qops.db import Server, transact
from qops.errors import OK, Failure, Misconfigured, QopsError
from qops.indexes import describe_indexes
from qops.ledger import Ledger
from qops.pick import Picked, pick
from qops.queue import QueueTable, load
from qops.statements import requeue as st
from qops.statements.walk import Past, Walk, choose_walk, count_selected

if TYPE_CHECKING:
    import sqlalchemy as sa

    from qops.events import Events
    from qops.settings import QueueSettings

PLAN_BOUND = 100_000


@dataclass(frozen=True)
class Options:
    """One run of promote: rows in a transaction, and whether only to look."""

    batch: int = 1000
    dry_run: bool = False


@dataclass
class Result:
    """What a run did; with `dry_run`, `promoted` is what is due now (up to a bound) and nothing changed."""

    queue: str
    promoted: int = 0
    locked: int = 0
    dry_run: bool = False
    elapsed_seconds: float = 0.0
    failure: Failure | None = None

    exit_code = OK

    def document(self) -> dict[str, Any]:
        """Return the JSON document of the contract."""
        document = asdict(self)
        del document["failure"]
        return document


def promote(server: Server, settings: QueueSettings, options: Options, stop: Stop, events: Events) -> Result:
    """Promote due jobs in batches and say how many. Raises the family's errors for what is wrong before it begins."""
    with server.session() as connection:
        queue = load(connection, settings)
        queue.require("promote", roles=("available_at",), states=("scheduled",))
        indexes = describe_indexes(connection, queue.schema, queue.table.name)
        past = Past("available_at")
        walks = [choose_walk(queue, indexes, v, by="available_at", past=past) for v in queue.states["scheduled"]]
        connection.rollback()
        if options.dry_run:
            due = sum(connection.execute(count_selected(queue, walk, PLAN_BOUND)).scalar_one() for walk in walks)
            connection.rollback()
            return Result(queue.name, promoted=due, dry_run=True)
        ledger = Ledger(server, connection, events)
        entry = ledger.open("promote", queue.name, {})
        brake = BrakeCheck(connection, queue.name, events)
        result, begun = Result(queue.name), monotonic()
        try:
            for walk in walks:
                picked = Picked(seen=options.batch)
                while picked.seen == options.batch and not stop.requested:
                    brake()
                    picked = promote_batch(server, connection, queue, walk, picked.key, options.batch)
                    result.promoted += len(picked.ids)
                    result.locked += picked.locked
            if stop.requested:
                result.failure = Failure(128 + stop.signum, "signal", "stopped by a signal")
        except QopsError as error:
            result.failure = Failure.of(error)
        result.elapsed_seconds = round(monotonic() - begun, 3)
        summary = {"promoted": result.promoted, "locked": result.locked}
        ledger.close(entry, result.failure.kind if result.failure else "done", summary)
        return result


def promote_batch(
    server: Server, connection: sa.Connection, queue: QueueTable, walk: Walk, key: tuple[Any, ...] | None, limit: int
) -> Picked:
    """Promote up to `limit` due jobs in one transaction and return the rows it was done for."""

    def work(session: sa.Connection) -> Picked:
        picked = pick(session, queue, walk, key, limit)
        changed = session.execute(st.promote(queue, picked.ids)).rowcount if picked.ids else 0
        if changed != len(picked.ids):
            raise Misconfigured(f"queue {queue.name!r}: {len(picked.ids)} rows were locked and {changed} changed")
        return picked

    return transact(server, connection, work)
