"""The end of a job: whether it is still this worker's, and its way to the archive."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from qops.db import DRIVER_ERRORS, DUPLICATE, errno
from qops.errors import Misconfigured
from qops.move import copy_and_delete
from qops.worker.job import Job, LeaseLost

if TYPE_CHECKING:
    from collections.abc import Iterator

    from qops.worker.protocol import Worker
    from qops.worker.session import Session


def require_held(rows: int, job: Job) -> None:
    """Raise LeaseLost unless a statement behind the fence found the job (one row)."""
    if rows != 1:
        raise LeaseLost(
            f"job {job.id} is not held by {job.claimed_by!r} any more: its lease passed, or it was put back, finished "
            f"or given to somebody else; nothing was changed"
        )


def complete_to_archive(worker: Worker, session: Session, job: Job) -> None:
    """Move a held job to the archive as a done one, inside the caller's transaction; the two counts must agree."""
    queue, statements = worker.queue, worker.statements
    by_trigger = queue.settings.archive_by == "trigger"
    if by_trigger:
        # The owner's trigger copies what it sees being deleted, so that has to be a done job.
        require_held(session.run(statements.complete, **job.fence), job)
    else:
        require_held(len(session.query(statements.lock_held, **job.fence)), job)
    guard = worker.archive_guard(session.connection).recheck(session.connection)
    with _naming_a_twin(worker, job):
        if by_trigger or guard.verify:
            if not by_trigger:
                session.run(statements.complete, **job.fence)  # a copy can be compared with a row that is done
            copy_and_delete(session.connection, guard, [job.id])
            return
        copied = session.run(statements.copy_done, id=job.id)
    deleted = session.run(statements.delete, id=job.id)
    if (copied, deleted) != (1, 1):
        raise Misconfigured(
            f"job {job.id} was locked, but {copied} rows were copied and {deleted} deleted; rolled back. Look for "
            f"triggers on {queue.table.name!r} and {queue.archive.name!r}"
        )


@contextmanager
def _naming_a_twin(worker: Worker, job: Job) -> Iterator[None]:
    try:
        yield
    except DRIVER_ERRORS as error:
        if errno(error) != DUPLICATE:
            raise
        raise Misconfigured(
            f"archive table {worker.queue.archive.name!r} already holds a job {job.id}, so this one was not moved; "
            "compare the two rows, and complete it without archive=True"
        ) from error
