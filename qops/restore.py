"""Archived jobs come back as pending, each in one transaction with its row in the archive.

A job that is brought back is to be done again, by the operator's word: it starts with no attempts, no owner, no lease
and no finish time. All else is as it was archived, its last error and its `available_at` too.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from sqlalchemy import exc

from qops.archived import load_archive
from qops.arguments import given
from qops.batches import Batches
from qops.brake import BrakeCheck
from qops.children import check_children
from qops.columns import require_whole
from qops.db import LOCK_TIMEOUT, NO_SUCH_OBJECT, NOWAIT, Server, errno, prose
from qops.ending import settle
from qops.errors import ATTENTION, OK, Failure, Misconfigured, QopsError
from qops.ids import named_ids
from qops.isolate import is_row_trouble
from qops.ledger import Ledger
from qops.queue import QueueTable, load
from qops.statements import restore as st
from qops.statements.walk import Step, Walk

if TYPE_CHECKING:
    import sqlalchemy as sa

    from qops.clock import Stop
    from qops.events import Events
    from qops.queue_settings import QueueSettings


ATTEMPTS = 2  # an INSERT knows no NOWAIT: where another session holds the id or a key, each waits for the lock timeout


@dataclass(frozen=True)
class Options:
    """Which jobs to bring back, as they were typed, and whether foreign keys that cannot be seen are none."""

    ids: tuple[str, ...]
    assume_no_children: bool = False


@dataclass(frozen=True)
class Verdict:
    """What became of one named job, and why where it was not brought back."""

    id: Any
    result: str
    reason: str | None = None

    @property
    def moved(self) -> list[Any]:
        """The id, if the job has left the archive."""
        return [self.id] if self.result == "restored" else []


@dataclass
class Result:
    """What a run did; `results` has an answer for each named job that it came to."""

    queue: str
    restored: int = 0
    conflicts: list[Any] = field(default_factory=list)
    not_found: list[Any] = field(default_factory=list)
    locked: list[Any] = field(default_factory=list)
    results: list[Verdict] = field(default_factory=list)
    elapsed_seconds: float = 0.0
    failure: Failure | None = None

    @property
    def exit_code(self) -> int:
        """1 where a named job was not brought back, else 0; a failure brings its own."""
        return ATTENTION if self.restored < len(self.results) else OK

    def add(self, verdict: Verdict) -> None:
        """Note what became of one named job."""
        self.results.append(verdict)
        self.restored += verdict.result == "restored"
        lists = {"conflict": self.conflicts, "not_found": self.not_found, "locked": self.locked}
        if verdict.result in lists:
            lists[verdict.result].append(verdict.id)

    def document(self) -> dict[str, Any]:
        """Return the JSON document, docs/json.md."""
        document = asdict(self)
        del document["failure"]
        return document

    def summary(self) -> dict[str, Any]:
        """Return what the ledger keeps of the run: counts by result, and the error if there was one."""
        summary: dict[str, Any] = {"restored": self.restored}
        summary |= {name: len(getattr(self, name)) for name in ("conflicts", "not_found", "locked")}
        if self.failure:
            summary["error"] = self.failure.message
        return summary


class _Unlike(QopsError):
    """A job would not come back as it was archived."""


def restore(server: Server, settings: QueueSettings, options: Options, stop: Stop, events: Events) -> Result:
    """Bring jobs back and say what became of each. Raises the family's errors for what is wrong before it begins."""
    with server.session() as connection:
        mover = _open(server, connection, settings, options)
        ids = named_ids(connection, mover.archive, options.ids)
        connection.rollback()
        ledger = Ledger(server, connection, events)
        entry = ledger.open("restore", mover.queue.name, given(options))
        result = Result(mover.queue.name)
        brake = BrakeCheck(connection, settings, events)

        def body() -> None:
            for id_ in ids:
                if stop.requested:
                    return
                brake()
                mover.one(id_, stop, result)

        ending = settle(server, stop, body)
        result.failure, result.elapsed_seconds = ending.failure, ending.seconds
        ledger.close(entry, ending.outcome, result.summary())
        return result


def preview(server: Server, settings: QueueSettings, options: Options) -> tuple[int, tuple[str, ...]]:
    """Return how many of the named jobs the archive holds, and lines that tell which stay and why.

    Locks nothing. Raises as `restore` does before it begins.
    """
    with server.session() as connection:
        mover = _open(server, connection, settings, options)
        queue = mover.queue
        found, lines = 0, []
        for id_ in named_ids(connection, mover.archive, options.ids):
            if connection.execute(st.look_for(mover.archive, id_)).first() is None:
                lines.append(f"job {id_} stays: it is not in {mover.archive.table.name}")
            elif connection.execute(st.look_for(queue, id_)).first() is not None:
                lines.append(f"job {id_} stays: {queue.table.name} has a job with this id")
            else:
                found += 1
    return found, (f"{found} of them from {mover.archive.table.name}", *lines)


def _open(server: Server, connection: sa.Connection, settings: QueueSettings, options: Options) -> _Mover:
    """Hold the two tables against each other. Raises Misconfigured where a job could not be brought back whole."""
    queue = load(connection, settings)
    require_whole(connection, queue.table)
    archive = load_archive(connection, queue, "restore")
    require_whole(connection, archive.table)
    there = {name.lower() for name in archive.facts}
    lacking = [name for name in st.kept(queue) if name.lower() not in there]
    if lacking:
        raise Misconfigured(
            f"archive table {archive.table.name!r} has no column {', '.join(map(repr, lacking))}, so a job cannot be "
            f"brought back to {queue.table.name!r} whole; nothing was changed; put it back by hand: INSERT INTO …"
        )
    mover = _Mover(server, connection, queue, archive, options)
    mover.check()
    return mover


@dataclass(frozen=True)
class _Mover:
    """The two tables, and how one job goes from the archive to the queue."""

    server: Server
    connection: sa.Connection
    queue: QueueTable
    archive: QueueTable
    options: Options

    def check(self) -> None:
        """Refuse where deleting an archived job reaches rows of other tables."""
        assume = self.options.assume_no_children
        check_children(self.server, self.connection, self.archive, "restore", assume_no_children=assume)

    def one(self, id_: Any, stop: Stop, result: Result) -> None:  # noqa: ANN401 - whatever the id column holds
        """Bring one job back, or say why not; raises what is nobody's fault but the server's."""
        walk = Walk(None, "PRIMARY", (Step(self.archive.id),))
        batches = Batches(self.server, self.connection, self.archive, stop, attempts=ATTEMPTS)
        try:
            batches.run(walk, lambda session: self._move(session, id_), result.add)
        except _Unlike as error:
            result.add(Verdict(id_, "conflict", str(error)))
        except QopsError as error:
            code = errno(error.__cause__ or error)
            if not error.in_commit and code in {NOWAIT, LOCK_TIMEOUT}:
                result.add(Verdict(id_, "locked", "another session holds its row"))
            elif not error.in_commit and _objects(error):
                result.add(Verdict(id_, "conflict", f"{prose(error.__cause__ or error)} (error {code})"))
            else:
                raise

    def _move(self, session: sa.Connection, id_: Any) -> Verdict:  # noqa: ANN401 - whatever the id column holds
        held = session.execute(st.lock_archived(self.archive, id_)).scalar()
        live = session.execute(st.look_for(self.queue, id_)).scalar()
        name = self.queue.table.name
        if held is None:
            return Verdict(id_, "not_found", f"it is in {name}" if live is not None else None)
        if live is not None:
            return Verdict(id_, "conflict", f"{name} has a job with this id")
        self.check()
        arrived = session.execute(st.copy_back(self.queue, self.archive, held)).rowcount
        if not session.execute(st.unchanged(self.queue, self.archive, held)).scalar():
            raise _Unlike(f"it would not arrive in {name} as it was archived; compare the columns, look for triggers")
        gone = session.execute(st.delete_archived(self.archive, held)).rowcount
        there = session.execute(st.look_for(self.queue, held)).first() is not None
        if not (arrived, gone, there) == (1, 1, True):
            raise _Unlike(f"{arrived} rows were copied and {gone} deleted, so that was undone; look for triggers")
        return Verdict(id_, "restored")


def _objects(error: QopsError) -> bool:
    """Whether an error is the server's objection to one row: a key, a constraint, a value, a trigger."""
    cause = error.__cause__
    return isinstance(cause, exc.DBAPIError) and is_row_trouble(cause) and errno(cause) not in NO_SUCH_OBJECT
