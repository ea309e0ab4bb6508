"""A queue's worker statements, each compiled when it is first sent; what the queue lacks is named then."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from qops.statements import worker as st
from qops.worker.session import Prepared, prepare

if TYPE_CHECKING:
    from sqlalchemy.engine import Dialect

    from qops.queue import QueueTable


@dataclass(frozen=True)
class Statements:
    """The statements of one queue, compiled for one dialect. Each raises Misconfigured for what the queue lacks."""

    queue: QueueTable
    dialect: Dialect

    @cached_property
    def job_columns(self) -> list[sa.ColumnElement[Any]]:
        """What is read of a job after its id: payload, attempts, limit; NULL for what the queue does not have."""
        null: sa.ColumnElement[Any] = sa.null()
        return [self.queue.columns.get(role, null) for role in ("payload", "attempts", "max_attempts")]

    @cached_property
    def select_claim(self) -> Prepared:
        """Rows of `job_columns`, and the session's isolation level last: a proxy can lose it at any time."""
        self.queue.require("claim", states=("pending", "running"))
        return prepare(st.select_claim(self.queue, *self.job_columns, _isolation()), self.dialect)

    @cached_property
    def select_job(self) -> Prepared:
        """As `select_claim`."""
        self.queue.require("claim_job", states=("pending", "running"))
        return prepare(st.select_job(self.queue, *self.job_columns, _isolation()), self.dialect)

    @cached_property
    def select_held_row(self) -> Prepared:
        """As `select_claim`, in a queue that need not have a running state."""
        self.queue.require("hold", states=("pending", "done"))
        return prepare(st.select_claim(self.queue, *self.job_columns, _isolation()), self.dialect)

    @cached_property
    def select_status(self) -> Prepared:
        """One job's status."""
        return prepare(st.select_status(self.queue), self.dialect)

    @cached_property
    def mark_one(self) -> Prepared:
        """Mark one locked job as running."""
        return prepare(st.mark_running(self.queue), self.dialect)

    @cached_property
    def mark_many(self) -> Prepared:
        """Mark several locked jobs as running."""
        return prepare(st.mark_running(self.queue, many=True), self.dialect)

    @cached_property
    def heartbeat(self) -> Prepared:
        """Extend a lease."""
        self.queue.require("heartbeat", roles=("lease_until",), states=("running",))
        return prepare(st.heartbeat(self.queue), self.dialect)

    @cached_property
    def complete(self) -> Prepared:
        """Mark a held job as done."""
        self.queue.require("complete", states=("running", "done"))
        return prepare(st.complete(self.queue), self.dialect)

    @cached_property
    def complete_held_row(self) -> Prepared:
        """Mark a pending job, whose row is locked, as done."""
        return prepare(st.complete_held_row(self.queue), self.dialect)

    @property
    def can_retry(self) -> bool:
        """Whether the queue can count attempts and let a job wait for the next."""
        return self.queue.has("attempts") and self.queue.has("available_at")

    @cached_property
    def retry(self) -> Prepared:
        """Let a failed job wait for its next attempt."""
        self.queue.require("fail", states=("running",))
        return prepare(st.retry(self.queue), self.dialect)

    @cached_property
    def give_up(self) -> Prepared:
        """Mark a held job as failed."""
        self.queue.require("fail", states=("running", "failed"))
        return prepare(st.give_up(self.queue), self.dialect)

    @cached_property
    def lock_held(self) -> Prepared:
        """Lock a held job."""
        self.queue.require("complete", states=("running", "done"))
        return prepare(st.lock_held(self.queue), self.dialect)

    @cached_property
    def copy_done(self) -> Prepared:
        """Copy a locked job to the archive as a done one."""
        return prepare(st.copy_done(self.queue), self.dialect)

    @cached_property
    def delete(self) -> Prepared:
        """Delete a locked job."""
        return prepare(st.delete_job(self.queue), self.dialect)


def _isolation() -> sa.ColumnElement[Any]:
    return sa.literal_column("@@transaction_isolation")
