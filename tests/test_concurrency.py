"""A whole fleet and qops on one queue at once: every job has one holder at a time, one fate, and its own contents."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import closing, suppress
from itertools import chain, cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import MySQLdb
import pytest

from tests import audit
from tests.conftest import Database, Ran, run_here, start_process
from tests.queues import init
from tests.workload import all_rows, check_moves, check_nothing_open, fill_all_states

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

SECONDS = float(os.environ.get("QOPS_TEST_SECONDS", "8"))
SEED = int(os.environ.get("QOPS_TEST_SEED", str(random.randrange(10**6))))  # noqa: S311 - no secret
ROOT = Path(__file__).parent.parent
ARCHIVE = ("archive", "--batch", "50", "--pause", "0s")
LOOPS = (
    (ARCHIVE, (*ARCHIVE, "--state", "failed", "--older-than", "1s")),
    (("requeue", "--expired", "--batch", "20"),),
    (("requeue", "--failed", "--batch", "20"),),
    (("promote", "--batch", "20"),),
)
"""What qops does meanwhile: in each loop its commands in turn, the loops beside one another."""


def maintain(
    database: Database, commands: Sequence[Sequence[str]], until: float, strike: Callable[[Any], None] | None
) -> list[Ran]:
    """Run commands in turn until the time has come; `strike` each run if asked; return how they ended."""
    ended = []
    for arguments in cycle(commands):
        if time.monotonic() > until:
            break
        process = start_process(*arguments, "--format", "json", url=database.url)
        if strike:
            strike(process)
        out, err = process.communicate(timeout=60)
        ended.append(Ran(process.returncode, out, err))
    return ended


def run_all(database: Database, folder: Path, strike: Callable[[Any], None] | None = None) -> list[Ran]:
    """Let a fleet and the loops of qops work on the queue at once; return how qops' runs ended."""
    print(f"QOPS_TEST_SEED={SEED}")  # noqa: T201 - to repeat it
    command = [sys.executable, "-m", "tests.fleet", database.url, str(SECONDS), str(SEED), str(folder)]
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True) as fleet:
        until = time.monotonic() + SECONDS
        ended: list[Ran] = []
        threads = [
            threading.Thread(target=lambda commands=commands: ended.extend(maintain(database, commands, until, strike)))
            for commands in LOOPS
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        _, err = fleet.communicate(timeout=SECONDS + 60)
    assert (fleet.returncode, err) == (0, "")
    return ended


def check_all(database: Database, folder: Path) -> Counter[str]:
    """Check every promise; return how often which change was made."""
    told = audit.beliefs(folder)
    trouble = [line for line in told if line["event"] in {"errno", "error", "crash"}]
    assert not trouble, (trouble, last_deadlock(database))
    assert all(line["steady"] for line in told if line["event"] == "snapshot")
    history = audit.changes(database)
    made = audit.check_history(history, dict(database.rows("SELECT id, status FROM inserted")))
    audit.check_beliefs(history, told)
    audit.check_contents(database, history)
    return made


def last_deadlock(database: Database) -> str:
    status: str = database.rows("SHOW ENGINE INNODB STATUS")[0][2]
    return status.partition("LATEST DETECTED DEADLOCK")[2].partition("\nTRANSACTIONS")[0][:6000]


@pytest.fixture
def queue(database: Database) -> Database:
    init(database)
    audit.install(database)
    return database


def test_a_fleet_and_qops_work_on_one_queue(queue: Database, tmp_path: Path) -> None:
    """Workers of the class and by hand, producers, a snapshot and all of qops at once, the server at its defaults.

    No job has two holders with a good lease, none is lost, doubled or changed, workers see neither a deadlock nor
    a lock timeout, and every run of qops ends well.
    """
    assert queue.value("SELECT @@GLOBAL.transaction_isolation") == "REPEATABLE-READ"
    ended = run_all(queue, tmp_path)
    assert {ran.code for ran in ended} == {0}, [ran for ran in ended if ran.code]
    made = check_all(queue, tmp_path)
    print(dict(made), len(ended))  # noqa: T201 - how much was tried
    assert set(made) >= {"claim", "heartbeat", "complete", "retry", "promote", "archive"}  # others need luck
    assert not queue.value("SELECT COUNT(*) FROM qops_runs WHERE finished_at IS NULL")
    check_nothing_open(queue)


def test_a_fleet_works_on_while_qops_is_killed(queue: Database, tmp_path: Path) -> None:
    """The same while every run of qops is killed, stopped, or cut off by the server, at a random moment."""
    chance = random.Random(SEED)  # noqa: S311 - no secret

    def cut_off() -> None:
        with closing(queue.connect(autocommit=True)) as admin, closing(admin.cursor()) as cursor:
            cursor.execute("SELECT connection_id FROM qops_runs WHERE finished_at IS NULL ORDER BY id DESC LIMIT 4")
            for (id_,) in cursor.fetchall():
                with suppress(MySQLdb.OperationalError):  # 1094: gone
                    cursor.execute(f"KILL {id_}")

    def strike(process: subprocess.Popen[str]) -> None:
        time.sleep(chance.uniform(0.3, 1.2))
        match chance.randrange(4):
            case 0:
                process.terminate()
            case 1:
                cut_off()
            case _:
                process.kill()

    ended = run_all(queue, tmp_path, strike)
    print(Counter(ran.code for ran in ended))  # noqa: T201 - how much was tried
    assert {ran.code for ran in ended} <= {-signal.SIGKILL, -signal.SIGTERM, 143, 69, 0}  # -15: before Python listens
    assert not any("Traceback" in ran.err for ran in ended if ran.code != -signal.SIGKILL)
    check_nothing_open(queue)
    check_all(queue, tmp_path)
    for arguments in chain(*LOOPS):
        assert run_here(*arguments, "--url", queue.url).code == 0
    check_all(queue, tmp_path)


def test_runs_side_by_side_share_the_work(queue: Database) -> None:
    """Several runs of a command at once do each row once between them: their counts add up to what there was."""
    commands = {
        "archived": (3, ("archive", "--batch", "100", "--pause", "0s")),
        "failed": (2, ("requeue", "--failed", "--batch", "50")),
        "running": (2, ("requeue", "--expired", "--batch", "50")),
        "scheduled": (2, ("promote", "--batch", "50")),
    }
    counted = {"archived": "archived", "failed": "requeued", "running": "requeued", "scheduled": "promoted"}
    fill_all_states(queue, 6_000)
    before, _ = all_rows(queue)
    runs = [
        (name, start_process(*arguments, "--format", "json", url=queue.url))
        for name, (number, arguments) in commands.items()
        for _ in range(number)
    ]
    total: Counter[str] = Counter()
    for name, process in runs:
        out, err = process.communicate(timeout=60)
        ran = Ran(process.returncode, out, err)
        assert (ran.code, ran.err) == (0, ""), name
        total[name] += ran.json[counted[name]]
    assert total == check_moves(before, *all_rows(queue))
    assert total["archived"] == 3_000
