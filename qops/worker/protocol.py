"""The worker's protocol: enqueue, claim, heartbeat, complete, fail, each one short transaction of its own."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self, TypeVar

from qops.clock import monotonic
from qops.columns import describe_both
from qops.db import (
    DRIVER_ERRORS,
    LOCK_TIMEOUT,
    NOWAIT,
    RowLocked,
    Server,
    errno,
    require_read_committed,
    run_whole,
)
from qops.errors import ConnectionLost, Misconfigured
from qops.events import Events
from qops.fit import fit
from qops.guard import Guard, check_tables
from qops.limits import MAX_BATCH
from qops.worker.enqueue import Enqueuer
from qops.worker.finish import complete_to_archive, require_held
from qops.worker.hold import hold
from qops.worker.job import Job, JobNotFound, NotClaimable, microseconds, retry_backoff
from qops.worker.promotion import Promotion
from qops.worker.session import Session
from qops.worker.statements import Statements

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import sqlalchemy as sa

    from qops.queue import QueueTable

T = TypeVar("T")

MAX_NAME = 255
NOT_JSON = 3140


class Worker:
    """One worker of one queue, with a connection of its own; not to be shared by threads, nor across a fork.

    What is promised: at any time a job is in the hands of at most one worker whose lease has not passed, and
    only that worker can finish it. For this, names of workers that run at the same time must differ, unless the
    queue counts attempts, which tells two of one name apart (until somebody resets them). The fence is made of what
    the queue has: with neither owners nor attempts, a worker that was given up for dead and comes back can finish a
    job that somebody else has claimed since; without leases nobody is given up for dead.

    What is not promised. Exactly-once: a worker can die, or lose its lease, after it has done the work and before
    it has said so, and the job runs again; so work outside the database must bear repetition. Order: jobs are
    claimed in the queue's order, but a row that is locked is passed over, and workers finish when they finish.
    Fairness: nothing gives each worker its share. And an empty or short batch means that nothing more was visible
    just then, not that the queue is empty.

    Times are the server's. Every transaction is repeated as a whole when it is a deadlock's victim or waited too
    long for a lock, and once more on a new connection when the old one was found dead before COMMIT. What the server
    refuses is raised as the error family; ConnectionLost with `in_commit` says that COMMIT was sent and its answer
    lost: the change may have happened (a job that was claimed so comes back when its lease passes).
    """

    def __init__(  # noqa: PLR0913 - a worker's settings, by name
        self,
        server: Server,
        queue: QueueTable,
        name: str,
        *,
        lease_seconds: float = 300.0,
        backoff: Callable[[int], float] = retry_backoff,
        promote: bool = True,
        events: Events | None = None,
        on_retry: Callable[[int], None] | None = None,
    ) -> None:
        """Prepare a worker; it connects with its first call.

        `backoff` says how many seconds a job waits after its n-th failure; `promote=False` leaves the promotion
        of scheduled jobs to others; `on_retry` hears the error number of every repeated transaction. Raises
        Misconfigured where `name` does not fit the column.
        """
        if microseconds(lease_seconds) <= 0:
            raise ValueError("lease_seconds must be positive")
        self.server, self.queue, self.name = server, queue, _check_name(queue, name)
        self.lease_seconds = lease_seconds
        self.backoff = backoff
        self.events = events or Events()
        self.on_retry = on_retry
        self.session = Session(server.for_worker(name))
        self.statements = Statements(queue, server.engine.dialect)
        self._holding = False
        self._archiving: Guard | None = None
        self._enqueuer = Enqueuer(queue, server.engine.dialect)
        promoting = promote and queue.has_state("scheduled") and queue.has("available_at")
        self._promotion = Promotion(self) if promoting else None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Disconnect. Jobs in hand stay running until their leases pass."""
        self.session.close()

    def archive_guard(self, connection: sa.Connection) -> Guard:
        """Return what was found of the two tables before this worker's first job went to the archive.

        Foreign keys that this account cannot see are taken not to be there: a worker has no business with PROCESS.
        """
        if self._archiving is None:
            queue = self.queue
            facts = describe_both(connection, queue.schema, queue.table.name, queue.archive.name)
            if facts != (queue.facts, queue.archive_facts):
                raise Misconfigured(
                    f"table {queue.table.name!r} or {queue.archive.name!r} was altered since this worker began, so no "
                    "job is moved; start it anew"
                )
            self._archiving = check_tables(self.server, connection, self.queue, assume_no_children=True)
        return self._archiving

    # What it does with jobs

    def enqueue(self, payload: Any, *, priority: int | None = None, delay_seconds: float = 0, **columns: Any) -> Any:  # noqa: ANN401
        """Add a job, ready at once or after `delay_seconds`, and return its id.

        `payload` is stored as it is if it is text or bytes, and otherwise as JSON. `columns` are further roles or
        columns of the table by name; `id` among them where the table does not number its rows; times without a
        zone are UTC in a TIMESTAMP. Raises ValueError for text that a JSON column does not take, and Misconfigured
        for what the queue cannot store: a time beyond a column's range, a delay without available_at, an unknown
        column.
        """
        prepared, values = self._enqueuer.prepare(payload, priority, microseconds(delay_seconds), columns)

        def work(session: Session) -> int:
            try:
                return session.insert(prepared, **values)
            except DRIVER_ERRORS as error:
                if errno(error) == NOT_JSON:
                    raise ValueError(
                        "the payload is text that is not JSON: give a document, or text that is"
                    ) from error
                raise

        made = self.transaction(work)
        chosen = columns.get("id", columns.get(self.queue.id.name))
        return made if chosen is None else chosen

    def claim(self) -> Job | None:
        """Claim the next job, or return None: nothing is visible now."""
        jobs = self.claim_batch(1)
        return jobs[0] if jobs else None

    def claim_batch(self, number: int) -> list[Job]:
        """Claim up to `number` jobs, in the queue's order; fewer means that no more are visible now.

        Scheduled jobs that are due are promoted on the way: at most once a second, and whenever fewer came.
        """
        if not 1 <= number <= MAX_BATCH:
            raise ValueError(f"a batch is 1 to {MAX_BATCH} jobs, not {number}")
        promotion = self._promotion
        looked = promotion is not None and promotion.at_intervals()
        jobs = self._claim(number)
        if promotion and len(jobs) < number and not looked and promotion.when_idle() and not jobs:
            jobs = self._claim(number)
        return jobs

    def claim_job(self, job_id: Any) -> Job:  # noqa: ANN401 - whatever the id column holds
        """Claim the job `job_id` if it is ready, without waiting.

        Raises RowLocked when somebody holds its row (a server answers that with 3572, or with 1205, which a
        pending change of the table's definition also gives), NotClaimable when it is in another state or its time
        has not come, JobNotFound when there is no such job.
        """

        def work(session: Session) -> Job:
            lease_ends = self._lease_ends()
            try:
                rows = session.query(self.statements.select_job, id=job_id)
            except DRIVER_ERRORS as error:
                if errno(error) in {NOWAIT, LOCK_TIMEOUT}:
                    raise RowLocked(
                        f"job {job_id} is locked by another session; try again, or claim another"
                    ) from error
                raise
            if not rows:
                raise self._why_not(session, job_id)
            return self._mark(session, rows, lease_ends)[0]

        return self.transaction(work)

    def heartbeat(self, job: Job) -> Job:
        """Let the job's lease end `lease_seconds` from now; return the job with it. Raises LeaseLost."""

        def work(session: Session) -> Job:
            lease_ends = self._lease_ends()
            changed = session.run(
                self.statements.heartbeat, lease_microseconds=microseconds(self.lease_seconds), **job.fence
            )
            require_held(changed, job)
            return Job(job.id, job.payload, job.attempts, job.max_attempts, job.claimed_by, lease_ends)

        return self.transaction(work)

    def complete(self, job: Job, *, archive: bool = False) -> None:
        """Mark the job as done; with `archive`, move it to the archive in the same transaction instead.

        Raises LeaseLost when the job is not in this worker's hands any more.
        """
        if archive:
            self.transaction(lambda session: complete_to_archive(self, session, job))
        else:
            self.transaction(lambda session: require_held(session.run(self.statements.complete, **job.fence), job))

    def fail(
        self, job: Job, error: str | BaseException, *, backoff_seconds: float | None = None, retry: bool = True
    ) -> str:
        """Say that the job failed, and return the state it is in now.

        It waits `backoff_seconds` (default: the worker's `backoff`) for its next attempt while it has any left:
        `scheduled`, or `pending` with its time ahead in a queue without that state. Otherwise, with `retry=False`,
        and in a queue that cannot count attempts or let a job wait, it is `failed` at once. Raises LeaseLost, and
        Misconfigured in a queue that lacks the state `failed` and needs it; then the job runs until its lease
        passes.
        """
        message = fit(self.queue, "last_error", str(error) or type(error).__name__)
        counted = self.queue.settings.attempts_counted == "requeue"
        tries = max(1, (job.attempts or 0) + counted)
        wait = self.backoff(tries) if backoff_seconds is None else backoff_seconds
        values = {"error": message, **job.fence}

        def work(session: Session) -> str:
            if (
                retry
                and self.statements.can_retry
                and session.run(self.statements.retry, backoff_microseconds=microseconds(wait), **values)
            ):
                return "scheduled" if self.queue.has_state("scheduled") else "pending"
            require_held(session.run(self.statements.give_up, **values), job)
            return "failed"

        return self.transaction(work)

    @contextmanager
    def hold(self) -> Iterator[tuple[sa.Connection, Job | None]]:
        """Hold the next job's row through the caller's work in the database, which is in the same transaction.

        For a queue without a running state: the row lock is the claim. Yields a connection to do the work on, and
        the job, or None when nothing is visible now. When the block ends the job is marked as done and all is
        committed together; an exception undoes all, and the job can be claimed again at once. Not to be committed
        or rolled back inside: that lets go of the row, and then LeaseLost is raised at the end.

        Nothing is repeated here, because a block cannot run twice: after a deadlock (TryLater) hold again. Work
        outside the database is not undone. While it lasts, the transaction keeps its row locks, and after the
        process dies the server frees them only when it notices, so keep the block short.
        """
        with self.undisturbed(), hold(self) as held:
            yield held

    # How it does it

    def transaction(self, work: Callable[[Session], T]) -> T:
        """Run `work` as one transaction on this worker's connection, under the retry rule."""
        if self._holding:
            raise RuntimeError("this worker holds a row: its other methods would end that transaction")
        try:
            return run_whole(self.server, self.session, work, on_retry=self.on_retry)
        except ConnectionLost as lost:
            if lost.in_commit:
                raise
        # Nothing was committed and the server undoes the rest, so this is not a second time.
        return run_whole(self.server, self.session, work, on_retry=self.on_retry)

    @contextmanager
    def undisturbed(self) -> Iterator[None]:
        """Refuse every other transaction of this worker meanwhile."""
        if self._holding:
            raise RuntimeError("this worker holds a row already")
        self._holding = True
        try:
            yield
        finally:
            self._holding = False

    def job(self, row: tuple[Any, ...], *, counted: int = 0, lease_ends: float | None = None) -> Job:
        """Make a Job of a row that was selected for it; `counted` attempts are added by the claim."""
        job_id, payload, attempts, max_attempts = row[:4]
        if attempts is not None:
            attempts += counted
            max_attempts = self.queue.settings.max_attempts if max_attempts is None else max_attempts
        return Job(job_id, payload, attempts, max_attempts, self.name, lease_ends)

    def _claim(self, number: int) -> list[Job]:
        def work(session: Session) -> list[Job]:
            lease_ends = self._lease_ends()
            rows = session.query(self.statements.select_claim, limit=number)
            return self._mark(session, rows, lease_ends) if rows else []

        return self.transaction(work)

    def _mark(self, session: Session, rows: Any, lease_ends: float) -> list[Job]:  # noqa: ANN401 - rows of the driver
        """Mark locked rows as running, and see that it was they."""
        require_read_committed(rows[0][-1])
        values = {"worker": self.name, "lease_microseconds": microseconds(self.lease_seconds)}
        if len(rows) == 1:
            changed = session.run(self.statements.mark_one, id=rows[0][0], **values)
        else:
            changed = session.run(self.statements.mark_many, ids=[row[0] for row in rows], **values)
        if changed != len(rows):
            raise Misconfigured(
                f"queue {self.queue.name!r}: {len(rows)} rows were locked and {changed} could be marked: the session "
                "lost its transaction, as it does in autocommit or behind a proxy; rolled back"
            )
        counted = int(self.queue.settings.attempts_counted == "claim")
        return [self.job(row, counted=counted, lease_ends=lease_ends) for row in rows]

    def _why_not(self, session: Session, job_id: Any) -> NotClaimable | JobNotFound:  # noqa: ANN401 - as in claim_job
        rows = session.query(self.statements.select_status, id=job_id)
        if not rows:
            return JobNotFound(f"there is no job {job_id} in table {self.queue.table.name!r}")
        state = self.queue.state_of(rows[0][0])
        if state == "pending":
            return NotClaimable(f"job {job_id} is pending, but its time has not come")
        return NotClaimable(f"job {job_id} is {state or rows[0][0]!r}, not pending")

    def _lease_ends(self) -> float:
        return monotonic() + self.lease_seconds


def _check_name(queue: QueueTable, name: str) -> str:
    """Return `name` if the owner's column can hold it."""
    length = queue.facts[queue.columns["claimed_by"].name].length if queue.has("claimed_by") else None
    longest = length or MAX_NAME
    if not 1 <= len(name) <= longest:
        raise Misconfigured(
            f"{name!r} cannot be the name of a worker of queue {queue.name!r}; choose one of 1 to {longest} characters"
        )
    return name
