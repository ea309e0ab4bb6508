"""Whatever ends qops, and whenever, no job is lost, doubled or changed, and nothing is left open."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import MySQLdb
import pytest

from tests.conftest import Database, Ran, run_here, start_process, wait_until
from tests.queues import fill, init
from tests.workload import all_rows, check_moves, check_nothing_open, fill_all_states

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

ROUNDS = int(os.environ.get("QOPS_TEST_ROUNDS", "10"))
SEED = int(os.environ.get("QOPS_TEST_SEED", str(random.randrange(10**6))))  # noqa: S311 - no secret
COMMANDS = {
    "archive": ("archive", "--batch", "40", "--pause", "0s"),
    "failed": ("requeue", "--failed", "--batch", "20"),
    "running": ("requeue", "--expired", "--batch", "20"),
    "scheduled": ("promote", "--batch", "20"),
}
"""By what moves: state of the jobs, or the archive."""
COUNTED = {"archive": "archived", "failed": "requeued", "running": "requeued", "scheduled": "promoted"}


@dataclass
class Victim:
    """One run of qops that something happens to; `entry` and `connection` are what its ledger entry says."""

    name: str
    process: subprocess.Popen[str]
    entry: int | None = None
    connection: int | None = None

    def find(self, database: Database, known: int) -> bool:
        """Look for the run's entry in the ledger, newer than `known`."""
        command, key = COMMANDS[self.name][0], {"failed": "$.failed", "running": "$.expired"}.get(self.name)
        rows = database.rows(
            "SELECT id, connection_id FROM qops_runs WHERE id > %s AND command = %s "
            "AND (%s IS NULL OR JSON_EXTRACT(arguments, %s))",
            [known, command, key, key or "$"],
        )
        if rows:
            ((self.entry, self.connection),) = rows
        return bool(rows)

    @property
    def ended(self) -> bool:
        return self.process.poll() is not None


def strike_all(
    database: Database, chance: random.Random, strike: Callable[[Victim], None], names: Sequence[str] = tuple(COMMANDS)
) -> list[tuple[Victim, Ran]]:
    """Start commands at once and `strike` each at a random moment of its work; return how they ended."""
    known = database.value("SELECT COALESCE(MAX(id), 0) FROM qops_runs")
    victims = [Victim(name, start_process(*COMMANDS[name], "--format", "json", url=database.url)) for name in names]
    due: dict[str, float] = {}
    waiting = list(victims)
    while waiting:
        for victim in list(waiting):
            if victim.name not in due and victim.find(database, known):
                due[victim.name] = time.monotonic() + chance.uniform(0, 0.25)
            if victim.ended or time.monotonic() >= due.get(victim.name, float("inf")):
                strike(victim)
                waiting.remove(victim)
        time.sleep(0.002)
    ended = []
    for victim in victims:
        out, err = victim.process.communicate(timeout=60)
        victim.find(database, known)
        ended.append((victim, Ran(victim.process.returncode, out, err)))
    return ended


@pytest.fixture
def queue(database: Database) -> Database:
    init(database)
    return database


def entry_of(database: Database, victim: Victim) -> tuple[str | None, bool, dict[str, Any] | None]:
    """Return outcome, whether it is closed, and the summary of a run's entry in the ledger."""
    ((outcome, closed, summary),) = database.rows(
        "SELECT outcome, finished_at IS NOT NULL, summary FROM qops_runs WHERE id = %s", [victim.entry]
    )
    return outcome, bool(closed), json.loads(summary) if summary else None


def test_kill_9_at_any_moment_loses_nothing(queue: Database) -> None:
    """After SIGKILL at random moments, over and over: nothing lost, doubled, changed or left open; a last run ends it.

    A quarter of the finished jobs were copied to the archive by hand before, as an interrupted copy leaves them.
    """
    chance = random.Random(SEED)  # noqa: S311 - no secret
    print(f"QOPS_TEST_SEED={SEED}")  # noqa: T201 - to repeat it
    before: dict[Any, dict[str, Any]] = {}
    open_entries = 0
    for _ in range(ROUNDS):
        fill_all_states(queue, 800)
        rows, archive = all_rows(queue)
        before = rows | archive
        queue.execute(
            "INSERT INTO jobs_archive SELECT * FROM jobs WHERE status = 'done' AND id % 4 = 0 AND id NOT IN "
            "(SELECT id FROM jobs_archive)"
        )
        copied = frozenset(id_ for (id_,) in queue.rows("SELECT id FROM jobs_archive JOIN jobs USING (id)"))
        names = ("archive", chance.choice(tuple(COMMANDS)[1:]))
        for victim, ran in strike_all(queue, chance, lambda victim: victim.process.kill(), names):
            assert ran.code in {-signal.SIGKILL, 0}, ran.err
            if ran.code and victim.entry:
                outcome, closed, summary = entry_of(queue, victim)
                open_entries += not closed
                assert not closed or (outcome, summary) != (None, None)
        check_nothing_open(queue)
        check_moves(before, *all_rows(queue), copied)
    assert open_entries
    for arguments in COMMANDS.values():
        assert run_here(*arguments, "--url", queue.url).code == 0
    rows, archive = all_rows(queue)
    check_moves(before, rows, archive)
    assert not queue.value(
        "SELECT COUNT(*) FROM jobs WHERE status IN ('done', 'failed', 'scheduled') OR lease_until < NOW()"
    )


def test_sigterm_at_any_moment_settles_the_batch(queue: Database) -> None:
    """SIGTERM at random moments: 143 with a summary whose counts are what really moved, the entry closed with them."""
    chance = random.Random(SEED)  # noqa: S311 - no secret
    print(f"QOPS_TEST_SEED={SEED}")  # noqa: T201 - to repeat it
    for _ in range(ROUNDS // 3):
        check_round(queue, chance, lambda victim: victim.process.terminate(), {0, 143}, {"done", "signal"})


def test_kill_connection_at_any_moment_is_reported_honestly(queue: Database) -> None:
    """A session that the server ends at random moments: 69 (or done), and the counts are what really moved."""
    chance = random.Random(SEED)  # noqa: S311 - no secret
    print(f"QOPS_TEST_SEED={SEED}")  # noqa: T201 - to repeat it

    def strike(victim: Victim) -> None:
        with suppress(MySQLdb.OperationalError):  # 1094: it is gone already
            queue.execute(f"KILL {victim.connection}")

    for _ in range(ROUNDS // 3):
        check_round(queue, chance, strike, {0, 69}, {"done", "error", "unavailable"})


def test_kill_query_at_any_moment_is_reported_honestly(queue: Database) -> None:
    """A statement that the server interrupts at random moments: 75 (or done), and the counts are what really moved."""
    chance = random.Random(SEED)  # noqa: S311 - no secret
    print(f"QOPS_TEST_SEED={SEED}")  # noqa: T201 - to repeat it

    def strike(victim: Victim) -> None:
        for _ in range(3):
            with suppress(MySQLdb.OperationalError):
                queue.execute(f"KILL QUERY {victim.connection}")

    for _ in range(ROUNDS // 3):
        check_round(queue, chance, strike, {0, 75}, {"done", "error", "try-later"})


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_while_modules_are_loaded_raises_nothing(tmp_path: Path, signum: signal.Signals) -> None:
    """While a module is imported a signal ends the process at once: an exception there crashes the driver's own."""
    (tmp_path / "slow.py").write_text(f"import os\nos.kill(os.getpid(), {int(signum)})\nwhile True: pass\n")
    program = "from qops.clock import die_on_signals; die_on_signals(); import slow"
    ran = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=30, check=False
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (128 + signum, "", "")


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_ends_a_run_at_once(queue: Database, signum: signal.Signals) -> None:
    """While a batch waits for a lock, the first signal lets it be settled and the second ends the process: 128 + n.

    The server undoes the batch; the entry in the ledger stays open.
    """
    fill(queue, 20, status="'done'", finished_at="NOW(6)")
    before, _ = all_rows(queue)
    with closing(queue.connect()) as other:
        with other.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL READ COMMITTED")  # which leaves the queue's row unlocked
            cursor.execute("INSERT INTO jobs_archive SELECT * FROM jobs WHERE id = 7")
        process = start_process("archive", "--format", "json", url=queue.url)
        waiting = "SELECT 1 FROM performance_schema.data_lock_waits JOIN performance_schema.threads ON "
        waiting += "thread_id = requesting_thread_id WHERE processlist_db = %s"
        wait_until(lambda: queue.rows(waiting, [queue.name]), what="the wait for the archive's row")
        process.send_signal(signum)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.5)  # less than the lock timeout
        process.send_signal(signum)
        out, err = process.communicate(timeout=2)
        other.rollback()
    assert (process.returncode, out) == (128 + signum, ""), err
    check_nothing_open(queue)
    assert all_rows(queue) == (before, {})
    assert queue.rows("SELECT finished_at FROM qops_runs") == [(None,)]


def check_round(
    queue: Database, chance: random.Random, strike: Callable[[Victim], None], codes: set[int], outcomes: set[str]
) -> None:
    """Strike every command once; exit code, document and ledger must agree with what moved."""
    fill_all_states(queue, 800)
    rows, archive = all_rows(queue)
    ended = strike_all(queue, chance, strike)
    check_nothing_open(queue)
    moved = check_moves(rows | archive, *all_rows(queue))
    moved["archive"] = moved.pop("archived") - len(archive)
    for victim, ran in ended:
        outcome, closed, summary = entry_of(queue, victim)
        assert closed, ran
        assert summary, ran
        assert "Traceback" not in ran.err
        if COUNTED[victim.name] not in summary:
            assert (ran.code, moved[victim.name], ran.json["error"]["kind"]) == (69, 0, outcome), ran
            continue  # its entry could be seen, but the run did not hear of that and did not begin
        assert outcome in outcomes, ran
        assert summary[COUNTED[victim.name]] == moved[victim.name], ran
        if outcome == "done" and ran.code in {143, -signal.SIGTERM}:
            continue  # the signal came when all was done, or even said
        assert ran.code in codes, ran.err
        assert ran.json[COUNTED[victim.name]] == moved[victim.name], ran
        assert ran.json.get("error", {"exit": 0})["exit"] == ran.code
