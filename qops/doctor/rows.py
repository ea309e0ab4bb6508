"""What the rows of a queue tell: leases, delays, finished jobs, ids, attempts. Nothing that grows is scanned."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import sqlalchemy as sa
from sqlalchemy import exc

from qops.archive.options import choose
from qops.db import DENIED, NO_SUCH_TABLE, errno, prose, quote_name, statement
from qops.doctor.facts import Unknown
from qops.doctor.model import advice
from qops.doctor.printed import as_typed
from qops.doctor.row_facts import Attempts, Delayed, Finished, Increment, Overdue, RowFacts, Sample
from qops.doctor.sampling import BOUND, sample
from qops.errors import Misconfigured
from qops.ledger import LedgerMissing, active_brake
from qops.order import direction
from qops.privileges import Need
from qops.statements.common import set_roles
from qops.statements.sample import count_hits, first_rows
from qops.statements.walk import Past, Step, Walk, choose_walk, count_selected

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from qops.doctor.limits import Limits
    from qops.queue import QueueTable
    from qops.settings import Settings

T = TypeVar("T")

"""Rows of a state that are looked at: some 2 ms where they are in memory."""
FINISHED_BOUND = 100_000
"""Finished jobs that are counted along an index: some 20 ms."""
_BITS = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}
_ARCHIVE = Need("SELECT", "archive", "see the archive's highest id")
_SPENT = "the attempts are used up"
_NO_WAY_OUT = (
    "those whose attempts are used up stay, because the queue has no state for jobs that have failed: name one in\n"
    "{section} failed, or have them tried from the start: qops requeue --expired --reset-attempts"
)


class _Attempt(Protocol):
    def __call__(self, queue: QueueTable, read: Callable[[QueueTable], T], /) -> T | Unknown:
        """Return what `read` returns, or why it could not be read."""


def read_rows(
    connection: sa.Connection,
    queue: QueueTable,
    settings: Settings,
    limits: Limits,
    attempt: _Attempt,
    grant: Callable[[Need], str],
) -> RowFacts:
    """Return what the rows tell; each part is read with `attempt`, so that none spoils another."""
    brake = attempt(queue, lambda _: _brake(connection, queue))
    paused = brake if isinstance(brake, str) else None
    reader = _Reader(connection, queue, paused=paused is not None)
    grace = limits.grace_seconds
    return RowFacts(
        expired=attempt(queue, lambda _: reader.overdue("running", "lease_until", "requeue --expired", grace)),
        due=attempt(queue, lambda _: reader.overdue("scheduled", "available_at", "promote", grace)),
        delayed=attempt(queue, lambda _: reader.delayed()),
        finished=attempt(queue, lambda _: reader.finished(settings)),
        increment=attempt(queue, lambda _: reader.increment(grant)),
        attempts=attempt(queue, lambda _: reader.attempts()),
        brake=paused,
    )


def _brake(connection: sa.Connection, queue: QueueTable) -> str | None:
    """Return what a pause says that is in force; a ledger that is out of reach keeps no command from running."""
    try:
        brake = active_brake(connection, queue.name)
    except LedgerMissing:
        return None
    return str(brake) if brake else None


class _Reader:
    def __init__(self, connection: sa.Connection, queue: QueueTable, *, paused: bool) -> None:
        self.connection, self.queue, self.paused = connection, queue, paused

    def _command(self, words: str) -> str:
        """Return the command line to type; it does nothing while the queue is paused."""
        return "\n".join([*(["qops resume"] if self.paused else []), f"qops {words}"])

    def overdue(self, state: str, role: str, command: str, grace: float) -> Overdue | None:
        """Return the jobs of a state whose moment came some time ago, by index where one has it."""
        queue = self.queue
        if not queue.has_state(state) or not queue.has(role):
            return None
        moment = Past(role, round(grace * 1_000_000))
        wanted = queue.columns[role] <= queue.in_time(role, -moment.microseconds)
        walks = [choose_walk(queue, value, by=role, past=moment) for value in queue.states[state]]
        cure = self._command(command)
        if state == "running" and queue.has("attempts") and not queue.has_state("failed"):
            cure = f"{cure}\n{advice(_NO_WAY_OUT.format(section=f'[queues.{queue.name}.states]'))}"
        return Overdue(self._sample(walks, wanted), grace, cure)

    def delayed(self) -> Delayed | None:
        """Return how many of those that a claim reads first are not to be claimed yet."""
        queue = self.queue
        if not queue.has("available_at"):
            return None
        column = queue.columns["available_at"]
        if direction(queue.order[0]) == (column.name, False):
            return None  # then they are the last in the claim's order, and its range ends before them
        later = column > queue.now("available_at")
        return Delayed(self._sample(self._claim_order(), later, self._order), self._cure_delayed(later))

    def _cure_delayed(self, later: sa.ColumnElement[bool]) -> str:
        queue = self.queue
        if not queue.has_state("scheduled"):
            return advice(
                "give the queue a state for jobs that wait for their time, and name it in qops.toml: "
                f"[queues.{queue.name}.states] scheduled"
            )
        move = set_roles(
            queue, sa.and_(queue.in_state("pending"), later), {"status": sa.literal(queue.value("scheduled"))}
        )
        said = advice("enqueue such jobs as scheduled; those that are there, until no row changes:")
        return f"{said}\n{self._text(move)}"

    def finished(self, settings: Settings) -> Finished:
        """Return how many jobs wait for the archiver as it is configured, and for a few what else there is."""
        queue, options = self.queue, choose({}, settings, dry_run=True)
        values = queue.states.get(options.state, ())
        past = None
        if options.older_than and queue.has("finished_at"):
            past = Past("finished_at", round(options.older_than * 1_000_000))
        walks = [choose_walk(queue, value, by="finished_at" if past else None, past=past) for value in values]
        rows = sum(self._finished(walk, past) for walk in walks)
        live = None
        if rows < FINISHED_BOUND:
            states = [state for state in ("pending", "running", "scheduled") if queue.has_state(state)]
            live = sum(self._count(choose_walk(queue, one), rows + 1) for s in states for one in queue.states[s])
        return Finished(options.state, rows, FINISHED_BOUND, live, self._command("archive"))

    def _finished(self, walk: Walk, past: Past | None) -> int:
        if past is None or walk.steps[0].column is self.queue.columns[past.role]:
            return self._count(walk, FINISHED_BOUND)
        moment = self.queue.in_time(past.role, -past.microseconds)
        rows = first_rows(self.queue, walk, self.queue.columns[past.role] <= moment, FINISHED_BOUND)
        return int(self.connection.execute(count_hits(rows)).one().found)

    def _count(self, walk: Walk, bound: int) -> int:
        self._require_index(walk)
        return int(self.connection.execute(count_selected(self.queue, walk, bound)).scalar_one())

    def increment(self, grant: Callable[[Need], str]) -> Increment | Unknown | None:
        """Return how far the ids are, and how far the archive's; None where the queue does not number its jobs."""
        queue = self.queue
        fact = queue.facts[queue.id.name]
        if "auto_increment" not in fact.extra.lower():
            return None
        archived = self._highest_archived(grant)
        if isinstance(archived, Unknown):
            return archived
        names = {"schema": queue.schema, "table": queue.table.name}
        next_id = self.connection.execute(statement("next_id"), names).scalar()
        if next_id is None:
            return Unknown(f"the server does not say which id {queue.table.name!r} gives next")
        unsigned = "unsigned" in fact.column_type.lower()
        table = f"{quote_name(queue.schema)}.{quote_name(queue.table.name)}"
        return Increment(
            column_type=fact.column_type,
            next_id=int(next_id),
            end=2 ** (_BITS[fact.data_type] - (0 if unsigned else 1)) - 1,
            archived=archived,
            raise_=f"ALTER TABLE {table} AUTO_INCREMENT = {archived + 1};" if archived is not None else "",
            widen=()
            if fact.data_type == "bigint"
            else self._widen(f"BIGINT{' UNSIGNED' if unsigned else ''} NOT NULL"),
        )

    def _widen(self, kind: str) -> tuple[str, ...]:
        queue = self.queue
        tables = [(queue.archive.name, "")] if queue.archive_facts else []
        schema, id_ = quote_name(queue.schema), quote_name(queue.id.name)
        return tuple(
            f"ALTER TABLE {schema}.{quote_name(name)} MODIFY {id_} {kind}{more};"
            for name, more in (*tables, (queue.table.name, " AUTO_INCREMENT"))
        )

    def _highest_archived(self, grant: Callable[[Need], str]) -> int | Unknown | None:
        queue = self.queue
        archive, name = queue.archive, queue.id.name
        try:
            if name not in queue.archive_facts:
                # Either it is not there, or this account may not know: the server's answer tells which.
                self.connection.execute(sa.select(sa.literal(1)).select_from(archive).limit(0))
                return Unknown(f"the archive {archive.name!r} has no column {name!r}, or it is not to be seen")
            if not any(index.begins_with(name) and index.visible for index in queue.archive_indexes):
                return Unknown(f"no index of {archive.name!r} begins with {name!r}, so its highest id is not at hand")
            highest = self.connection.execute(sa.select(sa.func.max(archive.columns[name]))).scalar()
        except exc.DBAPIError as error:
            if errno(error) == NO_SUCH_TABLE:
                return None
            if errno(error) in DENIED:
                return Unknown(prose(error), grant(_ARCHIVE))
            raise
        return None if highest is None else int(highest)

    def attempts(self) -> Attempts | None:
        """Return what speaks against the counting of attempts."""
        queue = self.queue
        if not queue.has("attempts"):
            return None
        made = queue.columns["attempts"]
        limit: Any = sa.literal(queue.settings.max_attempts)
        if queue.has("max_attempts"):
            limit = sa.func.coalesce(queue.columns["max_attempts"], limit)
        uncounted, beyond = None, Sample()
        if queue.has_state("running"):
            walks = [choose_walk(queue, value) for value in queue.states["running"]]
            at_claim = queue.settings.attempts_counted == "claim"
            if at_claim:
                uncounted = self._sample(walks, sa.func.coalesce(made, 0) == 0)
            beyond = self._sample(walks, sa.and_(made > 1 if at_claim else made > 0, self._past(limit), self._held()))
        used_up = sa.and_(made > 0, made >= limit)  # a job that was never tried is not at its end, whatever its limit
        spent = self._sample(self._claim_order(), used_up, self._order)
        return Attempts(uncounted, spent, self._cure_spent(used_up), f"[queues.{queue.name}]", beyond)

    def _past(self, limit: sa.ColumnElement[int]) -> sa.ColumnElement[bool]:
        """Return "claimed with its attempts used up": the running try is counted already where claims count."""
        made = self.queue.columns["attempts"]
        return made > limit if self.queue.settings.attempts_counted == "claim" else made >= limit

    def _held(self) -> sa.ColumnElement[bool]:
        """Return "its lease has not passed", as far as that can be told: what comes after is for a requeue."""
        queue = self.queue
        if not queue.has("lease_until"):
            return sa.true()
        lease = queue.columns["lease_until"]
        if not queue.tells_time("lease_until"):
            return sa.true()
        return sa.or_(lease.is_(None), lease >= queue.now("lease_until"))

    def _cure_spent(self, used_up: sa.ColumnElement[bool]) -> str:
        queue = self.queue
        if not queue.has_state("failed"):
            return advice("take these jobs out of the queue; it has no state for jobs that have failed")
        values: dict[str, Any] = {"status": sa.literal(queue.value("failed"))}
        if queue.has("finished_at"):
            values["finished_at"] = queue.now("finished_at")
        fail = set_roles(
            queue, sa.and_(queue.in_state("pending"), used_up), values | {"last_error": sa.literal(_SPENT)}
        )
        said = advice("give up on them, until no row changes; or set their attempts back where the cause is cured:")
        return f"{said}\n{self._text(fail)}"

    @property
    def _order(self) -> Sequence[sa.ColumnElement[Any]]:
        """The claim's order where an index gives it, else any."""
        return self.queue.order if self.queue.claim_index else ()

    def _claim_order(self) -> list[Walk]:
        index, values = self.queue.claim_index, self.queue.states["pending"]
        if index is None:
            return [choose_walk(self.queue, value) for value in values]
        return [Walk(value, index, (Step(self.queue.id),)) for value in values]

    def _sample(
        self, walks: Sequence[Walk], wanted: sa.ColumnElement[bool], order: Sequence[sa.ColumnElement[Any]] = ()
    ) -> Sample:
        for walk in walks:
            self._require_index(walk)
        return sample(self.connection, [first_rows(self.queue, walk, wanted, BOUND, order) for walk in walks])

    def _require_index(self, walk: Walk) -> None:
        """Refuse to read the whole table for the jobs of a state."""
        status = self.queue.columns["status"].name
        if not any(index.name == walk.index and index.begins_with(status) for index in self.queue.indexes):
            raise Misconfigured(f"no index begins with {status!r}, so jobs of a state are found by reading all")

    def _text(self, update: sa.Update) -> str:
        """Return a bounded statement as it can be typed, with the isolation level that keeps it from locking gaps."""
        bounded = update.with_dialect_options(mysql_limit=BOUND)
        return f"SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED;\n{as_typed(bounded, self.queue)};"
