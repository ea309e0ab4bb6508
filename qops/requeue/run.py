"""The loop of requeue: a batch a transaction along a walk, or one transaction for each named job."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from qops.batches import Batches
from qops.brake import BrakeCheck
from qops.clock import Stop, monotonic, sleep
from qops.columns import require_whole
from qops.counting import at_most, count_walks, least
from qops.db import LOCK_TIMEOUT, NOWAIT, Server, errno, transact
from qops.ending import settle
from qops.errors import QopsError
from qops.ids import parse_id
from qops.ledger import Ledger
from qops.pick import pick
from qops.queue import QueueTable, load
from qops.requeue.judge import Judge
from qops.requeue.result import Ineligible, Options, Outcome, Result
from qops.statements import requeue as st
from qops.statements.walk import Past, Walk, choose_walk, count_selected

if TYPE_CHECKING:
    import sqlalchemy as sa

    from qops.events import Events
    from qops.queue_settings import QueueSettings

PAUSE_FACTOR = 1.0  # rest as long as the last batch took
MAX_PAUSE_SECONDS = 1.0
PLAN_BOUND = 100_000


def requeue(server: Server, settings: QueueSettings, options: Options, stop: Stop, events: Events) -> Result:
    """Put jobs back and say what became of them. Raises the family's errors for what is wrong before it begins."""
    with server.session() as connection:
        queue = load(connection, settings)
        require_whole(connection, queue.table)
        walks = _walks(queue, options)
        named = [parse_id(queue, text) for text in options.ids]
        connection.rollback()
        if options.dry_run:
            return _plan(connection, queue, walks, named, options)
        if not queue.has("attempts"):
            events.warn(f"queue {queue.name!r} has no attempts: jobs are put back without a limit")
        ledger = Ledger(server, connection, events)
        entry = ledger.open("requeue", queue.name, options.arguments(), options.reason)
        result = _Run(server, connection, queue, options, stop, events).run(walks, named)
        ledger.close(entry, result.failure.kind if result.failure else "done", result.summary())
        return result


def _walks(queue: QueueTable, options: Options) -> list[Walk]:
    if options.ids:
        return []
    if options.failed:
        queue.require("requeue --failed", states=("failed",))
        state, by, past = "failed", "finished_at", None
    else:
        queue.require("requeue --expired", roles=("lease_until",), states=("running",))
        state, by, past = "running", "lease_until", Past("lease_until")
    return [choose_walk(queue, value, by=by, past=past) for value in queue.states[state]]


def _plan(
    connection: sa.Connection, queue: QueueTable, walks: list[Walk], named: list[Any], options: Options
) -> Result:
    """Say what a run would look at (up to a bound), and of named jobs what would become of them; without locks."""
    result = Result(queue.name, dry_run=True)
    judge = Judge(queue, options.reset_attempts)
    for id_ in named:
        verdict, reason = judge.verdict(connection, id_, connection.execute(st.look_at(queue, id_)).first())
        result.answer(id_, verdict, reason)
    found = count_walks(connection, walks, partial(count_selected, queue), PLAN_BOUND)
    eligible = sum(answer.result == "requeued" for answer in result.results)
    result.requeued = at_most(found, options.limit) if walks else eligible
    connection.rollback()
    return result


class _Run:
    """One run: what it works with, and the result that it fills."""

    def __init__(
        self,
        server: Server,
        connection: sa.Connection,
        queue: QueueTable,
        options: Options,
        stop: Stop,
        events: Events,
    ) -> None:
        self.server, self.connection, self.queue = server, connection, queue
        self.options, self.stop, self.events = options, stop, events
        self.judge = Judge(queue, options.reset_attempts)
        self.brake = BrakeCheck(connection, queue.settings, events)
        self.transactions = Batches(server, connection, queue, stop)
        self.result = Result(queue.name)

    def run(self, walks: list[Walk], named: list[Any]) -> Result:
        """Run to the end, whatever it is."""
        ending = settle(self.server, self.stop, lambda: self._through(walks, named))
        self.result.failure, self.result.elapsed_seconds = ending.failure, ending.seconds
        return self.result

    def _through(self, walks: list[Walk], named: list[Any]) -> None:
        for walk in walks:
            self._along(walk)
        for id_ in named:
            if not self.stop.requested:
                self._named(id_)

    def _along(self, walk: Walk) -> None:
        """Follow one walk to its end, a batch a transaction."""
        key: tuple[Any, ...] | None = None
        while not self.stop.requested:
            size = self.options.batch
            if self.options.limit is not None:
                size = min(size, self.options.limit - least(self.result.requeued))
            if size <= 0:
                return
            self.brake()
            started = monotonic()
            outcome = self.transactions.run(walk, partial(self._batch, walk, key, size), self.result.add)
            self.events.progress(f"put back {self.result.requeued} jobs")
            if outcome.key is None or outcome.seen < size:
                return
            key = outcome.key
            sleep(min(MAX_PAUSE_SECONDS, PAUSE_FACTOR * (monotonic() - started)), self.stop)

    def _batch(self, walk: Walk, key: tuple[Any, ...] | None, size: int, connection: sa.Connection) -> Outcome:
        picked = pick(connection, self.queue, walk, key, size, *st.situation(self.queue))
        outcome = Outcome(key=picked.key, seen=picked.seen, locked=picked.locked, changed=picked.changed)
        self.judge.transition(connection, picked.rows, outcome)
        return outcome

    def _named(self, id_: Any) -> None:  # noqa: ANN401 - whatever the id column holds
        """Put one named job back, or say why not."""
        self.brake()
        try:
            outcome, verdict, reason = transact(
                self.server, self.connection, lambda connection: self._judge_one(connection, id_), stop=self.stop
            )
        except QopsError as error:
            if error.in_commit:
                error.args = (f"{error}; whether job {id_} was put back is not known; its row tells",)
            if errno(error.__cause__ or error) not in {NOWAIT, LOCK_TIMEOUT}:
                raise
            outcome, verdict, reason = Outcome(locked=1), "locked", None
        self.result.add(outcome)
        self.result.answer(id_, verdict, reason)

    def _judge_one(self, connection: sa.Connection, id_: Any) -> tuple[Outcome, str, Ineligible | None]:  # noqa: ANN401
        outcome = Outcome()
        row = connection.execute(st.lock_one(self.queue, id_)).first()
        verdict, reason = self.judge.verdict(connection, id_, row)
        if row is not None and verdict in {"requeued", "exhausted"}:
            self.judge.transition(connection, [row], outcome)
            if outcome.conflicts:
                verdict = "conflict"
        return outcome, verdict, reason
