"""In whatever order workers and operators act: no job is lost, doubled, taken from its holder or tried too often.

Every step is one call of the worker's protocol or of a command, against the real server, and the two tables are
read before and after it by another session. What changed must be what this call may change, and as much as it said.
"""

from __future__ import annotations

import os
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from qops.archive.result import Options as Archive
from qops.archive.run import archive
from qops.clock import Stop
from qops.db import Server, open_server
from qops.discard import Options as Discard
from qops.discard import discard
from qops.events import Events
from qops.ledger import release_brake, set_brake
from qops.promote import Options as Promote
from qops.promote import promote
from qops.release import release
from qops.requeue.result import Options as Requeue
from qops.requeue.run import requeue
from qops.restore import Options as Restore
from qops.restore import restore
from qops.worker import Job, LeaseLost, Worker
from tests.queues import init

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from qops.settings import Settings
    from tests.conftest import Database

EXAMPLES = int(os.environ.get("QOPS_TEST_EXAMPLES", "20"))
STEPS = int(os.environ.get("QOPS_TEST_STEPS", "30"))
SEED = os.environ.get("QOPS_TEST_SEED")  # without one the same steps are taken every time
NAMES = ("ann", "bob", "cy")
PAUSED = 75
PAUSE_EVERY, PAUSE_LENGTH = 8, 3  # steps

Change = tuple[str, str]
EXPIRED = "expired"
"""A running job whose lease has passed. `running` are those that somebody holds."""
SAME: frozenset[Change] = frozenset()
MAY: dict[str, set[Change]] = {
    # A worker that claims promotes due jobs on the way.
    "claim": {("pending", "running"), ("due", "pending"), ("due", "running")},
    "pause and claim": {("pending", "running")},
    "heartbeat": {("running", "running")},
    "complete": {("running", "done")},
    "complete into the archive": {("running", "archived")},
    "fail": {("running", "scheduled"), ("running", "failed")},
    "requeue failed": {("failed", "pending")},
    "requeue expired": {(EXPIRED, "pending"), (EXPIRED, "failed")},
    "requeue ids": {("failed", "pending"), (EXPIRED, "pending"), (EXPIRED, "failed")},
    "archive done": {("done", "archived")},
    "archive failed": {("failed", "archived")},
    "restore": {("archived", "pending")},
    "discard": {("pending", "failed"), ("due", "failed"), ("scheduled", "failed"), (EXPIRED, "failed")},
    "release": {("running", EXPIRED)},
    "promote": {("due", "pending")},
}
numbers = st.integers(0, 30)


@dataclass(frozen=True)
class Row:
    """One job as another session sees it."""

    where: str
    status: str
    lapsed: bool
    due: bool
    attempts: int
    max_attempts: int
    owner: str | None
    lease: Any
    kept: tuple[Any, ...]

    @property
    def state(self) -> str:
        """The job's state, with what time makes of it."""
        if self.where == "archive":
            return "archived"
        if self.status == "running" and self.lapsed:
            return EXPIRED
        return "due" if self.status == "scheduled" and self.due else self.status


@dataclass
class Bench:
    """What all examples share: one schema, one server, three workers with connections of their own."""

    database: Database
    settings: Settings
    server: Server
    workers: list[Worker]

    def rows(self) -> dict[int, Row]:
        """Return every job, by id; fails where one is in both tables."""
        columns = (
            "id, status, COALESCE(lease_until < NOW(6), 0), available_at <= NOW(6), attempts, max_attempts, "
            "claimed_by, lease_until, priority, CAST(payload AS CHAR), created_at"
        )
        found: dict[int, Row] = {}
        for where, table in (("queue", "jobs"), ("archive", "jobs_archive")):
            for id_, status, lapsed, due, attempts, limit, owner, lease, *kept in self.database.rows(
                f"SELECT {columns} FROM {table}"
            ):
                assert id_ not in found, f"job {id_} is in both tables"
                found[id_] = Row(where, status, bool(lapsed), bool(due), attempts, limit, owner, lease, tuple(kept))
        return found


@pytest.fixture
def bench(database: Database) -> Iterator[Bench]:
    init(database)
    chosen = database.settings()
    server = open_server(chosen.database)
    events = Events(quiet=True)
    workers = [Worker(server, database.queue(), name, promote=name == NAMES[0], events=events) for name in NAMES]
    with closing(workers[0]), closing(workers[1]), closing(workers[2]):
        yield Bench(database, chosen, server, workers)


class Desk(RuleBasedStateMachine):
    """Workers and operators on one queue. `handles` are all claims that were ever made, with the worker."""

    def __init__(self, bench: Bench) -> None:
        super().__init__()
        self.bench = bench
        self.handles: list[tuple[Worker, Job]] = []
        self.paused = False
        self.steps = 0
        self.known: dict[int, Row] = {}
        for table in ("jobs", "jobs_archive", "qops_runs"):
            bench.database.execute(f"DELETE FROM {table}")

    @initialize(fates=st.lists(st.integers(0, 6), min_size=6, max_size=12), limit=st.integers(1, 3))
    def begin(self, fates: list[int], limit: int) -> None:
        """Have jobs in several states, so that no walk spends itself on making some."""
        self.enqueue(len(fates), limit, delayed=False)
        for fate in fates:
            if fate > 0:
                self.claim(fate % 3, 1)
            if fate > 1:
                acts = (self.die, self.complete, self.heartbeat)
                self.fail(0, retry=fate == 2) if fate <= 4 else acts[fate % 3](0)

    # Workers

    @rule(number=st.integers(1, 4), limit=st.integers(1, 3), delayed=st.booleans())
    def enqueue(self, number: int, limit: int, delayed: bool) -> None:  # noqa: FBT001
        for _ in range(number):
            worker = self.bench.workers[1]
            made = worker.enqueue({"n": len(self.known)}, delay_seconds=3600.0 * delayed, max_attempts=limit)
            self.known[made] = self.bench.rows()[made]

    @rule(who=st.integers(0, 2), number=st.integers(1, 4))
    def claim(self, who: int, number: int) -> None:
        worker = self.bench.workers[who]
        ready = sum(row.state == "pending" and row.due for row in self.known.values())
        jobs = worker.claim_batch(number)
        changed = self.check("claim", MAY["pause and claim"] if self.paused else None)
        assert {job.id for job in jobs} == {id_ for id_, now in changed.items() if now.state == "running"}
        assert len(jobs) >= min(number, ready)
        for job in jobs:
            before, now = self.before[job.id], changed[job.id]
            assert (now.owner, now.attempts) == (worker.name, before.attempts + 1)
            assert job.attempts == now.attempts
        self.handles += [(worker, job) for job in jobs]

    @rule(which=numbers)
    def heartbeat(self, which: int) -> None:
        def beat(worker: Worker, job: Job) -> str:
            worker.heartbeat(job)
            return "running"

        self.report("heartbeat", which, beat)

    @rule(which=numbers)
    def complete(self, which: int) -> None:
        def finish(worker: Worker, job: Job) -> str:
            worker.complete(job)
            return "done"

        self.report("complete", which, finish)

    @rule(which=numbers)
    def complete_into_the_archive(self, which: int) -> None:
        def finish(worker: Worker, job: Job) -> str:
            worker.complete(job, archive=True)
            return "archived"

        self.report("complete into the archive", which, finish)

    @rule(which=numbers, retry=st.booleans())
    def fail(self, which: int, retry: bool) -> None:  # noqa: FBT001
        self.report("fail", which, lambda worker, job: worker.fail(job, "boom", backoff_seconds=3600, retry=retry))

    @rule(which=numbers)
    def die(self, which: int) -> None:
        """Let a worker die: its lease passes, by the server's clock."""
        held = [id_ for id_, row in self.known.items() if row.state == "running"]
        if held:
            past = "UPDATE jobs SET lease_until = NOW(6) - INTERVAL 1 SECOND WHERE id = %s"
            self.bench.database.execute(past, [held[which % len(held)]])
            self.known = self.bench.rows()

    @rule()
    def time_passes(self) -> None:
        """Every scheduled job's time comes."""
        self.bench.database.execute(
            "UPDATE jobs SET available_at = NOW(6) - INTERVAL 1 SECOND WHERE status = 'scheduled'"
        )
        self.known = self.bench.rows()

    # Operators

    @rule(kind=st.sampled_from(["failed", "expired"]), reset=st.booleans(), limit=st.none() | st.integers(1, 3))
    def requeue(self, kind: str, reset: bool, limit: int | None) -> None:  # noqa: FBT001
        options = Requeue(reset_attempts=reset, limit=limit, batch=2)
        options = replace(options, failed=True) if kind == "failed" else replace(options, expired=True)
        result, changed = self.run(f"requeue {kind}", lambda: requeue(*self.place, options, Stop(), self.events))
        self.check_requeue(result, changed, reset=reset)
        state = "failed" if kind == "failed" else EXPIRED
        could = [row for row in self.before.values() if row.state == state]
        if not self.paused and limit is None:
            spent = sum(row.attempts >= row.max_attempts and not reset for row in could)
            assert (result.requeued, result.exhausted) == (len(could) - spent, spent)
        if not self.paused and limit is None and kind == "expired":
            assert not any(row.state == EXPIRED for row in self.known.values())

    @rule(chosen=st.lists(numbers, min_size=1, max_size=4, unique=True), reset=st.booleans(), locked=st.booleans())
    def requeue_ids(self, chosen: list[int], reset: bool, locked: bool) -> None:  # noqa: FBT001
        ids = self.pick(chosen)
        held = next((id_ for id_ in ids if locked and id_ in self.known and self.known[id_].where == "queue"), None)
        with closing(self.bench.database.connect()) as bystander:
            if held is not None:
                bystander.cursor().execute("SELECT id FROM jobs WHERE id = %s FOR UPDATE", [held])
            options = Requeue(ids=tuple(map(str, ids)), reset_attempts=reset)
            result, changed = self.run("requeue ids", lambda: requeue(*self.place, options, Stop(), self.events))
        self.check_requeue(result, changed, reset=reset)
        answers = {one.id: one.result for one in result.results}
        assert held is None or self.paused or answers[held] == "locked"
        assert self.paused or set(answers) == set(ids)
        for id_, answer in answers.items():
            assert (answer == "requeued") == (id_ in changed and changed[id_].state == "pending")
            assert (answer == "not_found") == (id_ not in self.known)
            assert (answer == "archived") == (id_ in self.known and self.known[id_].state == "archived")

    @rule(state=st.sampled_from(["done", "failed"]), limit=st.none() | st.integers(1, 3))
    def archive(self, state: str, limit: int | None) -> None:
        options = Archive(state=state, limit=limit, batch=2, pause=0.0)
        result, changed = self.run(f"archive {state}", lambda: archive(*self.place, options, Stop(), self.events))
        assert result.archived == len(changed)
        could = sum(row.state == state for row in self.before.values())
        assert self.paused or len(changed) == min(could, could if limit is None else limit)

    @rule(chosen=st.lists(numbers, min_size=1, max_size=4, unique=True))
    def restore(self, chosen: list[int]) -> None:
        ids = self.pick(chosen)
        options = Restore(tuple(map(str, ids)))
        result, changed = self.run("restore", lambda: restore(*self.place, options, Stop(), self.events))
        assert result.restored == len(changed)
        assert {one.id for one in result.results if one.result == "restored"} == set(changed)
        archived = {id_ for id_ in ids if id_ in self.before and self.before[id_].state == "archived"}
        assert set(changed) == (set() if self.paused else archived)
        assert all(row.attempts == 0 for row in changed.values())

    @rule(chosen=st.lists(numbers, min_size=1, max_size=3, unique=True))
    def discard(self, chosen: list[int]) -> None:
        ids = self.pick(chosen)
        options = Discard(tuple(map(str, ids)), "not wanted")
        result, changed = self.run("discard", lambda: discard(*self.place, options, Stop(), self.events))
        assert result.discarded == len(changed)
        states = {before for before, _ in MAY["discard"]}
        could = {id_ for id_ in ids if id_ in self.before and self.before[id_].state in states}
        assert set(changed) == (set() if self.paused else could)
        assert all(row.owner is None for row in changed.values())

    @rule(who=st.integers(0, 2))
    def release(self, who: int) -> None:
        """Take a worker for dead: what it holds can be taken by others, and its reports count no more."""
        name = NAMES[who]
        result, changed = self.run("release", lambda: release(*self.place, name, Stop(), self.events))
        held = {id_ for id_, row in self.before.items() if row.state == "running" and row.owner == NAMES[who]}
        assert (result.released, set(changed)) == ((0, set()) if self.paused else (len(held), held))

    @rule()
    def promote(self) -> None:
        result, changed = self.run("promote", lambda: promote(*self.place, Promote(batch=2), Stop(), self.events))
        due = sum(row.state == "due" for row in self.before.values())
        assert result.promoted == len(changed) == (0 if self.paused else due)

    @precondition(lambda self: not self.paused and self.steps > PAUSE_EVERY)
    @rule()
    def pause(self) -> None:
        with self.bench.server.session() as connection:
            set_brake(self.bench.server, connection, "jobs", reason="a look", seconds=None)
        self.paused, self.steps = True, 0
        assert self.check("pause", SAME) == {}

    @precondition(lambda self: self.paused)
    @rule()
    def resume(self) -> None:
        with self.bench.server.session() as connection:
            assert release_brake(self.bench.server, connection, "jobs") == self.paused
        self.paused = False
        assert self.check("resume", SAME) == {}

    # What must hold

    @invariant()
    def a_pause_is_short(self) -> None:
        """No walk spends itself under the brake."""
        self.steps += 1
        if self.paused and self.steps > PAUSE_LENGTH:
            self.resume()

    @invariant()
    def no_job_is_lost_or_made_up(self) -> None:
        assert self.bench.rows().keys() == self.known.keys()

    @invariant()
    def attempts_stay_within_the_limit(self) -> None:
        assert all(row.attempts <= row.max_attempts for row in self.known.values())

    @invariant()
    def who_is_given_a_job_is_who_holds_it(self) -> None:
        """Of all workers that ever claimed a job at most one can still report it.

        Two claims by one name are told apart by the attempt, until somebody resets attempts: Worker says so.
        """
        held = {(job.id, worker.name) for worker, job in self.handles if self.holds(job)}
        assert held == {(id_, row.owner) for id_, row in self.known.items() if row.state == "running"}

    # How it is asked

    @property
    def place(self) -> tuple[Server, Any]:
        return self.bench.server, self.bench.settings.queue

    @property
    def events(self) -> Events:
        return Events(quiet=True)

    def pick(self, chosen: list[int]) -> list[int]:
        """Return ids of known jobs, and one that nobody has where there are too few."""
        known = sorted(self.known)
        return list(dict.fromkeys(known[n % len(known)] if known and n < 30 else 10**9 for n in chosen))

    def holds(self, job: Job) -> bool:
        row = self.known[job.id]
        return row.state == "running" and (row.owner, row.attempts) == (job.claimed_by, job.attempts)

    def report(self, kind: str, which: int, act: Callable[[Worker, Job], str]) -> None:
        """Report one of the claims: that counts if the job is still in its worker's hands, and is LeaseLost if not."""
        if not self.handles:
            return
        worker, job = self.handles[-1 - which % len(self.handles)]
        if self.holds(job):
            state = act(worker, job)
            changed = self.check(kind)
            assert {id_: row.state for id_, row in changed.items()} == {job.id: state}
        else:
            with pytest.raises(LeaseLost):
                act(worker, job)
            assert self.check(kind, SAME) == {}

    def run(self, kind: str, call: Callable[[], Any]) -> tuple[Any, dict[int, Row]]:
        """Run a command and return its result and what changed; it leaves one closed entry with its counts."""
        query = "SELECT COALESCE(MAX(id), 0) FROM qops_runs"
        last = self.bench.database.value(query)
        result = call()
        changed = self.check(kind, SAME if self.paused else None)
        assert (result.failure.exit if result.failure else 0) == (PAUSED if self.paused else 0), result.failure
        (entry,) = self.bench.database.rows(
            "SELECT command, finished_at IS NOT NULL, outcome FROM qops_runs WHERE id > %s", [last]
        )
        assert entry[:2] == (kind.split(maxsplit=1)[0], 1)
        assert (entry[2] in {"paused", "try-later"}) == self.paused
        return result, changed

    def check(self, kind: str, may: Any = None) -> dict[int, Row]:
        """Return the jobs that changed, as they are now: those that `kind` may change, each as it may."""
        allowed = MAY[kind] if may is None else may
        self.before, self.known = self.known, self.bench.rows()
        changed = {}
        for id_, now in self.known.items():
            before = self.before[id_]
            assert now.kept == before.kept
            if replace(now, lapsed=before.lapsed, due=before.due) == before:
                continue
            assert (before.state, now.state) in allowed, (kind, id_, before, now)
            if kind != "claim":
                assert now.attempts in {before.attempts, 0}
            changed[id_] = now
        return changed

    def check_requeue(self, result: Any, changed: dict[int, Row], *, reset: bool) -> None:
        back = {id_: row for id_, row in changed.items() if row.state == "pending"}
        assert result.requeued == len(back)
        assert len(changed) - len(back) <= result.exhausted
        for id_, row in back.items():
            before = self.before[id_]
            assert row.attempts == (0 if reset else before.attempts)
            assert reset or before.attempts < before.max_attempts
            assert (row.owner, row.lease) == (None, None)
        assert all(self.before[id_].attempts >= row.max_attempts for id_, row in changed.items() if id_ not in back)


def test_in_whatever_order(bench: Bench) -> None:
    """Random walks of workers and operators keep every job, every holder, every limit, and say what they did."""
    chosen = settings(
        max_examples=EXAMPLES,
        stateful_step_count=STEPS,
        deadline=None,
        database=None,
        derandomize=SEED is None,
        print_blob=True,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )

    def desk() -> Desk:
        return Desk(bench)

    print(f"QOPS_TEST_SEED={SEED}")  # noqa: T201 - to repeat it
    made: Any = seed(int(SEED))(desk) if SEED else desk
    run_state_machine_as_test(made, settings=chosen)
