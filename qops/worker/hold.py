"""Holding a job's row through the caller's work, for a queue in which the row lock is the claim."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy.dialects.mysql import mysqldb

from qops.db import DRIVER_ERRORS, errno, require_read_committed, roll_back
from qops.errors import ConnectionLost
from qops.worker.job import Job, LeaseLost
from qops.worker.session import prepare

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from qops.worker.protocol import Worker

# A savepoint lives as long as its transaction: where it is gone at the end, somebody committed or rolled back in
# between, or a deadlock did, and the row was free for others.
_SAVEPOINT = prepare(sa.text("SAVEPOINT qops_hold"), mysqldb.dialect())
_RELEASE = prepare(sa.text("RELEASE SAVEPOINT qops_hold"), mysqldb.dialect())
_NO_SUCH_SAVEPOINT = 1305


@contextmanager
def hold(worker: Worker) -> Iterator[tuple[sa.Connection, Job | None]]:
    """See Worker.hold."""
    session = worker.session
    rows = _lock_next(worker)
    job = worker.job(rows[0]) if rows else None
    committing = False
    try:
        yield session.connection, job
        if job is not None:
            _complete(worker, job)
        committing = True
        session.commit()
    except DRIVER_ERRORS as error:
        alive = roll_back(session)
        if job is not None and errno(error) == _NO_SUCH_SAVEPOINT:
            raise _lost(job) from error
        translated = worker.server.translate(error, lost=not alive)
        translated.in_commit = committing
        raise translated from error
    except BaseException:
        roll_back(session)
        raise


def _lock_next(worker: Worker) -> Sequence[tuple[Any, ...]]:
    """Lock the next ready job; a connection that died while it was idle is replaced once."""
    session = worker.session
    for last in (False, True):
        try:
            rows = session.query(worker.statements.select_held_row, limit=1)
            if rows:
                require_read_committed(rows[0][-1])
                session.run(_SAVEPOINT)
        except DRIVER_ERRORS as error:
            translated = worker.server.translate(error, lost=not roll_back(session))
            if last or not isinstance(translated, ConnectionLost):
                raise translated from error
        except BaseException:
            roll_back(session)
            raise
        else:
            return rows
    raise AssertionError  # pragma: no cover - the second pass returns or raises


def _complete(worker: Worker, job: Job) -> None:
    """Mark the held job as done, if this is still the transaction that locked it."""
    if worker.session.run(worker.statements.complete_held_row, id=job.id) != 1:
        raise _lost(job)
    worker.session.run(_RELEASE)


def _lost(job: Job) -> LeaseLost:
    return LeaseLost(
        f"the transaction that held job {job.id} ended inside the block (a COMMIT, a ROLLBACK, a deadlock, a DDL "
        "statement): the job was not marked as done, and somebody else may have it"
    )
