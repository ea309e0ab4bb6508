"""Batches side by side: while one connection waits for the server, another has it at work.

Each batch is a transaction of its own, over ids that no other has; what makes one safe does not know of the others.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Self, TypeVar

from sqlalchemy import exc

from qops.db import REFUSED, errno
from qops.errors import QopsError, TryLater, Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType

    import sqlalchemy as sa

    from qops.batches import Batches, Outcome
    from qops.statements.walk import Walk

B = TypeVar("B", bound="Outcome")
T = TypeVar("T")


class Lanes:
    """At most `most` ways to do batches at once: the run's own connection, and others as long as they are used."""

    def __init__(self, first: Batches, most: int) -> None:
        self.lanes = [first]
        self.most = most
        self.lock = Lock()
        self.pool = ThreadPoolExecutor(most, thread_name_prefix="lane")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.pool.shutdown()
        self.narrow()

    def widen(self, wanted: int) -> int:
        """Return how many batches can be done at once, up to `wanted`; where no more connections are to be had, fewer.

        Raises the driver's error where the server does not answer at all.
        """
        first = self.lanes[0]
        while len(self.lanes) < min(wanted, self.most):
            try:
                self.lanes.append(replace(first, connection=first.server.engine.connect()))
            except exc.DBAPIError as error:
                if errno(error) not in REFUSED:
                    raise
                self.most = len(self.lanes)
        return min(wanted, len(self.lanes))

    def narrow(self) -> None:
        """Leave the run's own connection only: an idle one may be ended by the server."""
        while len(self.lanes) > 1:
            connection = self.lanes.pop().connection
            if not connection.closed and not connection.invalidated:
                # Nothing is open in it; SQLAlchemy would send ROLLBACK, and complain at length if it is lost.
                connection.invalidate()
            connection.close()

    def run(
        self,
        walk: Walk,
        works: Sequence[Callable[[sa.Connection], B]],
        count: Callable[[B], None],
        on_retry: Callable[[int], None],
    ) -> None:
        """Do works at once, a batch each, no more than `widen` said; `count` and `on_retry` are never called at once.

        Raises the gravest error when all have ended, with what the others say: those that went well are counted.
        """
        counted, retried = partial(self._alone, count), partial(self._alone, on_retry)
        others = [
            self.pool.submit(lane.run, walk, work, counted, retried)
            for lane, work in zip(self.lanes[1:], works[1:], strict=False)
        ]
        errors: list[BaseException] = []
        try:
            self.lanes[0].run(walk, works[0], counted, retried)
        except QopsError as failed:
            errors.append(failed)
        errors += [error for other in others if (error := other.exception())]
        if errors:
            raise gravest(errors)

    def _alone(self, told: Callable[[T], None], what: T) -> None:
        with self.lock:
            told(what)


def gravest(errors: Sequence[BaseException]) -> BaseException:
    """Return the error to raise: one that is no trouble of the server before one that is; it tells of the others."""
    first, *others = sorted(errors, key=lambda error: isinstance(error, Unavailable | TryLater))
    if others:
        said: list[str] = []
        for error in (first, *others):
            # The same trouble is said once, but the fate of each batch by itself.
            if str(error) not in said or (isinstance(error, QopsError) and error.in_commit):
                said.append(str(error))
        first.args = ("; and beside it: ".join(said),)
        first.__cause__ = first.__cause__ or others[0]
    return first
