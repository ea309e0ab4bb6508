"""Giving up on jobs by id: failed, with the reason where a job's error is kept.

For jobs that wait for a worker, or whose worker's lease has passed. What a worker holds is that worker's to end.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Self

from qops.archived import moved_to
from qops.brake import BrakeCheck
from qops.columns import require_whole
from qops.counting import words
from qops.db import LOCK_TIMEOUT, NOWAIT, Server, errno, transact
from qops.ending import settle
from qops.errors import ATTENTION, OK, Failure, Misconfigured, QopsError
from qops.fit import fit
from qops.holder import Holders, Unknown
from qops.ids import named_ids
from qops.isolate import each_or_all
from qops.ledger import Ledger
from qops.queue import QueueTable, load
from qops.statements import requeue as st

if TYPE_CHECKING:
    import sqlalchemy as sa

    from qops.clock import Stop
    from qops.events import Events
    from qops.queue_settings import QueueSettings

ATTEMPTS = 2  # the row is locked at once or not at all; what a trigger waits for may take the lock timeout each time


@dataclass(frozen=True)
class Options:
    """Which jobs to give up on, as they were typed, and why."""

    ids: tuple[str, ...]
    reason: str


@dataclass(frozen=True)
class Verdict:
    """What became of one named job; why, where it was not discarded, and which connection holds a locked one.

    `held_by` None: nobody any more, or it could not be seen, which `reason` then says.
    """

    id: Any
    result: str
    reason: str | None = None
    held_by: int | None = None
    state: Any = field(default=None, compare=False)

    def document(self) -> dict[str, Any]:
        """Return its object in the JSON document."""
        return {"id": self.id, "result": self.result, "reason": self.reason, "held_by": self.held_by}


@dataclass
class Result:
    """What a run did; `results` has an answer for each named job that it came to."""

    queue: str
    discarded: int = 0
    locked: int = 0
    conflicts: list[Any] = field(default_factory=list)
    not_found: list[Any] = field(default_factory=list)
    not_eligible: list[dict[str, Any]] = field(default_factory=list)
    results: list[Verdict] = field(default_factory=list)
    elapsed_seconds: float = 0.0
    failure: Failure | None = None

    @property
    def exit_code(self) -> int:
        """1 where a named job was not discarded, else 0; a failure brings its own."""
        return ATTENTION if self.discarded < len(self.results) else OK

    def add(self, verdict: Verdict) -> None:
        """Note what became of one named job."""
        self.results.append(verdict)
        self.discarded += verdict.result == "discarded"
        self.locked += verdict.result == "locked"
        lists = {"conflict": self.conflicts, "not_found": self.not_found}
        if verdict.result in lists:
            lists[verdict.result].append(verdict.id)
        elif verdict.result in {"not_eligible", "archived"}:
            self.not_eligible.append({"id": verdict.id, "state": verdict.state, "reason": verdict.reason})

    def document(self) -> dict[str, Any]:
        """Return the JSON document, docs/json.md."""
        document = asdict(self)
        del document["failure"]
        return document | {"results": [verdict.document() for verdict in self.results]}

    def summary(self) -> dict[str, Any]:
        """Return what the ledger keeps of the run: counts by result, and the error if there was one."""
        summary: dict[str, Any] = {"discarded": self.discarded, "locked": self.locked}
        summary |= {name: len(getattr(self, name)) for name in ("conflicts", "not_found", "not_eligible")}
        if self.failure:
            summary["error"] = self.failure.message
        return summary


def discard(server: Server, settings: QueueSettings, options: Options, stop: Stop, events: Events) -> Result:
    """Give up on jobs and say what became of each. Raises the family's errors for what is wrong before it begins."""
    with server.session() as connection, _open(server, connection, settings, options) as work:
        if not work.queue.has("last_error"):
            events.warn(f"queue {work.queue.name!r} has no last_error: the reason is kept in the ledger alone")
        ledger = Ledger(server, connection, events)
        entry = ledger.open("discard", work.queue.name, {"ids": options.ids}, options.reason)
        result = Result(work.queue.name)
        brake = BrakeCheck(connection, settings, events)

        def body() -> None:
            for id_ in work.ids:
                if stop.requested:
                    return
                brake()
                result.add(work.one(id_, stop))

        ending = settle(server, stop, body)
        result.failure, result.elapsed_seconds = ending.failure, ending.seconds
        ledger.close(entry, ending.outcome, result.summary())
        return result


def preview(server: Server, settings: QueueSettings, options: Options) -> tuple[int, tuple[str, ...]]:
    """Return how many of the named jobs would be discarded, and lines that tell which, and which not and why.

    Locks nothing. Raises as `discard` does before it begins.
    """
    with server.session() as connection, _open(server, connection, settings, options) as work:
        verdicts = [work.look(connection, id_) for id_ in work.ids]
    states = Counter(str(verdict.state) for verdict in verdicts if verdict.result == "discarded")
    lines = [f"{words(number)} {state}" for state, number in states.items()]
    lines += [
        f"job {verdict.id} stays: {verdict.reason or 'there is no such job'}"
        for verdict in verdicts
        if verdict.result != "discarded"
    ]
    return states.total(), tuple(lines)


def _open(server: Server, connection: sa.Connection, settings: QueueSettings, options: Options) -> _Discarding:
    """Look at the queue and the command line whole, before anything changes."""
    queue = load(connection, settings)
    require_whole(connection, queue.table)
    queue.require("discard", states=("failed",))
    ids = tuple(named_ids(connection, queue, options.ids))
    reason = fit(queue, "last_error", options.reason)
    st.situation(queue)  # times in a DATETIME need a declared clock
    st.give_up(queue, ids, reason, count_attempt=False)
    connection.rollback()
    return _Discarding(server, connection, queue, ids, reason, Holders(server, queue))


@dataclass(frozen=True)
class _Discarding:
    """One run: what it works with, and how one job is given up."""

    server: Server
    connection: sa.Connection
    queue: QueueTable
    ids: tuple[Any, ...]
    reason: str
    holders: Holders

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.holders.__exit__()

    def one(self, id_: Any, stop: Stop) -> Verdict:  # noqa: ANN401 - whatever the id column holds
        """Give up on one job, or say why not; raises what is nobody's fault but the server's."""
        try:
            return transact(
                self.server, self.connection, lambda session: self._act(session, id_), attempts=ATTEMPTS, stop=stop
            )
        except QopsError as error:
            if error.in_commit:
                error.args = (f"{error}; whether job {id_} was discarded is not known; its row tells",)
                raise
            code = errno(error.__cause__ or error)
            if code == LOCK_TIMEOUT:
                return Verdict(id_, "locked", "it waited in vain for a lock that another session holds")
            if code != NOWAIT:
                raise
        holder = self.holders.of(id_)
        if isinstance(holder, Unknown):
            return Verdict(id_, "locked", f"another session holds its row: {holder.reason}")
        return Verdict(id_, "locked", "another session holds its row", held_by=holder)

    def _act(self, session: sa.Connection, id_: Any) -> Verdict:  # noqa: ANN401 - whatever the id column holds
        row = session.execute(st.lock_one(self.queue, id_, *st.situation(self.queue))).first()
        verdict = self._judge(session, id_, row)
        if row is None or verdict.result != "discarded":
            return verdict
        objections: list[str] = []

        def act(ids: list[Any]) -> None:
            update = st.give_up(self.queue, ids, self.reason, count_attempt=False)
            changed = session.execute(update).rowcount
            if changed != len(ids):
                raise Misconfigured(
                    f"queue {self.queue.name!r}: {len(ids)} rows were locked and {changed} changed; rolled back"
                )

        each_or_all(session, [row[0]], act, lambda _id, why: objections.append(why))
        return Verdict(id_, "conflict", objections[0]) if objections else verdict

    def look(self, session: sa.Connection, id_: Any) -> Verdict:  # noqa: ANN401 - whatever the id column holds
        """Say what would become of a job, without a lock."""
        row = session.execute(st.look_at(self.queue, id_, *st.situation(self.queue))).first()
        return self._judge(session, id_, row)

    def _judge(self, session: sa.Connection, id_: Any, row: sa.Row[Any] | None) -> Verdict:  # noqa: ANN401
        """Say what is to become of a job whose row was read or locked; None: there is none in the queue."""
        if row is None:
            why = moved_to(session, self.queue, id_)
            return Verdict(id_, "archived", why, state="archived") if why else Verdict(id_, "not_found")
        state = self.queue.state_of(row.status)
        why_not = _why_not(state, row.expired)
        if why_not:
            return Verdict(id_, "not_eligible", why_not, state=state or row.status)
        return Verdict(id_, "discarded", state=state)


def _why_not(state: str | None, expired: int | None) -> str | None:
    """Say why a job in `state` cannot be discarded; None if it can. `expired`: 1 or 0, None without leases."""
    if state is None:
        return "its status is none of the queue's states"
    if state == "running":
        if expired is None:
            return "this queue has no leases, so it cannot have expired"
        return None if expired else "its lease is still valid"
    return None if state in {"pending", "scheduled"} else f"it is {state}"
