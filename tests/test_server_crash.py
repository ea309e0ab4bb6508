"""Whatever dies, also the server itself, and whenever: no job is lost, doubled or changed, and what is said is true.

The server writes each commit to disk before it answers, as a server with jobs that matter does.
"""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import combinations, cycle
from pathlib import Path
from typing import TYPE_CHECKING

import MySQLdb
import pytest

from dev.server import kill, private_server, restart
from tests import audit
from tests.conftest import Database, Ran, fresh_database, run_here, start_process, wait_until
from tests.proxy import Wire, broken_wire
from tests.queues import counts, fill, init
from tests.workload import all_rows, check_moves

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dev.server import Server

KILLS = int(os.environ.get("QOPS_TEST_KILLS", "15"))
SEED = int(os.environ.get("QOPS_TEST_SEED", str(random.randrange(10**6))))  # noqa: S311 - no secret
ROOT = Path(__file__).parent.parent
DURABLE = ("--innodb-flush-log-at-trx-commit=1", "--sync-binlog=1", "--innodb-buffer-pool-size=64M")
LATEST_STRIKE_SECONDS = 0.4
RUNS = {
    "archive": (("archive", "--batch", "15", "--pause", "0s"), ("archived", "reconciled")),
    "requeue": (("requeue", "--failed", "--batch", "5"), ("requeued",)),
    "expire": (("requeue", "--expired", "--batch", "5"), ("requeued", "exhausted")),
}
"""What is killed, and where its document counts the rows that it changed."""
MADE = {"archive": ("archive",), "requeue": ("requeue",), "expire": ("expire", "exhaust")}
"""The same in the audit's words."""
STATES = {"archive": "archived", "requeue": "failed", "expire": "running"}
"""The same in the words of `check_moves`."""
UNKNOWN = re.compile(r"the last batch \((\d+) rows\) may or may not have been committed")


@dataclass
class Mortal:
    """A queue on a server that may die; `database` is how it is reached now, and qops as the account `ops`."""

    server: Server
    database: Database

    @property
    def ops(self) -> Database:
        """The queue as qops is given it."""
        return replace(self.database, user="ops")

    @property
    def url(self) -> str:
        """The URL that runs of qops are given, so that their sessions can be told from workers'."""
        return self.ops.url

    def check_nothing_open(self) -> None:
        """Wait until no run of qops has a connection; one ends after its transaction is undone."""
        ours = "SELECT COUNT(*) FROM performance_schema.threads WHERE processlist_user = 'ops'"
        wait_until(lambda: not self.database.value(ours), seconds=10, what="the end of all connections of qops")

    def kill(self) -> None:
        """End the server as a crash does."""
        kill(self.server.name)

    def restart(self) -> None:
        """Start the server again, after it was stopped if it still runs, and log in anew."""
        self.server = restart(self.server.name)
        assert self.server.port == self.database.port
        self.database.admin.close()
        self.database = replace(self.database, admin=self.database.connect(autocommit=True))


@pytest.fixture(scope="module")
def durable() -> Iterator[Server]:
    """Give a server of one's own that keeps each commit."""
    with private_server(options=DURABLE) as server:
        yield server


@pytest.fixture
def mortal(durable: Server) -> Iterator[Mortal]:
    with fresh_database(durable) as database:
        init(database)
        database.execute("CREATE USER IF NOT EXISTS ops")
        database.execute("GRANT ALL ON *.* TO ops")
        mortal = Mortal(durable, database)
        yield mortal
        mortal.database.admin.close()


@contextmanager
def crew(database: Database, folder: Path) -> Iterator[None]:
    """Have workers and a producer at work meanwhile; each of them must live to the end."""
    command = [sys.executable, "-m", "tests.survivors", database.url, str(SEED), str(folder)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            wait_until(lambda: counts(database).get("done") or process.poll() is not None, what="the first job's end")
            yield
        finally:
            _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")


@dataclass
class Victim:
    """One run of qops; `entry` and `connection` are what its ledger entry says."""

    name: str
    process: subprocess.Popen[str]
    entry: int | None = None
    connection: int | None = None

    def find(self, database: Database, known: int) -> bool:
        """Look for the run's entry in the ledger, newer than `known`; say whether it is there or all is over."""
        command, key = RUNS[self.name][0][0], {"requeue": "$.failed", "expire": "$.expired"}.get(self.name, "$")
        rows = database.rows(
            "SELECT id, connection_id FROM qops_runs WHERE id > %s AND command = %s "
            "AND (%s = '$' OR JSON_EXTRACT(arguments, %s))",
            [known, command, key, key],
        )
        if rows:
            ((self.entry, self.connection),) = rows
        return bool(rows) or self.process.poll() is not None


def test_kills_at_any_moment_beside_working_workers(mortal: Mortal, tmp_path: Path) -> None:
    """SIGKILL of the server and of qops, and KILL of its connection, at random moments, again and again: V1 to V4.

    After each, no job is in both tables, none is lost, every column is what it was last set to, and nothing is open.
    What qops says that it has done is done, and what it does not know it says. What a worker was told is so.
    """
    print(f"QOPS_TEST_SEED={SEED}")  # noqa: T201 - to repeat it
    chance = random.Random(SEED)  # noqa: S311 - no secret
    audit.install(mortal.database)
    tally: Counter[str] = Counter()
    others = cycle(("requeue", "expire"))
    with crew(mortal.database, tmp_path):
        for ways in cycle((("server",), ("process", "connection"), ("server",), ("connection", "process"))):
            if tally["struck"] >= KILLS:
                break
            tally += strike(mortal, chance, ways, ("archive", next(others)))
            check_now(mortal.database)
        for arguments, _ in RUNS.values():
            assert run_here(*arguments, "--url", mortal.url).code == 0
    history = check_now(mortal.database)
    told = audit.beliefs(tmp_path)
    assert not [line for line in told if line["event"] in {"errno", "crash"}]
    assert {line["kind"] for line in told if line["event"] == "error"} <= {"unavailable"}
    missed = audit.check_beliefs(history, told)
    inserted = {id_ for (id_,) in mortal.database.rows("SELECT id FROM inserted")}
    assert {line["id"] for line in told if line["event"] == "enqueue"} <= inserted
    print(dict(tally), dict(missed), len(told))  # noqa: T201 - how much was tried


def check_now(database: Database) -> dict[int, list[audit.Change]]:
    """Check every job's contents and history as of one instant, while others go on; return the history."""
    with closing(database.connect()) as session:
        then = replace(database, admin=session)
        then.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        then.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT")
        history = audit.changes(then)
        audit.check_history(history, dict(then.rows("SELECT id, status FROM inserted")))
        audit.check_contents(then, history)
    return history


def strike(mortal: Mortal, chance: random.Random, ways: Sequence[str], names: Sequence[str]) -> Counter[str]:
    """Let two commands work and kill in these ways at random moments; return what was seen, having checked it.

    One way is for both commands: the server's death. Of two ways each is for one command.
    """
    database, tally = mortal.database, Counter[str]()
    fill(database, 450, status="'done'", finished_at="NOW(6)", payload="JSON_OBJECT('n', n / 7, 't', REPEAT('ä', n))")
    fill(database, 150, status="'failed'", attempts="1", last_error="'error'", finished_at="NOW(6)")
    seq = database.value("SELECT COALESCE(MAX(seq), 0) FROM changes")
    known = database.value("SELECT COALESCE(MAX(id), 0) FROM qops_runs")
    victims = [Victim(name, start_process(*RUNS[name][0], "--format", "json", url=mortal.url)) for name in names]
    wait_until(lambda: all(victim.find(database, known) for victim in victims), what="the runs' beginning")
    for way, victim in zip(ways, victims, strict=False):
        time.sleep(chance.uniform(0, LATEST_STRIKE_SECONDS / len(ways)))
        tally["struck"] += victim.process.poll() is None
        if way == "server":
            mortal.kill()
        elif way == "process":
            victim.process.kill()
        else:
            with suppress(MySQLdb.OperationalError):  # 1094: it is gone already
                database.execute(f"KILL {victim.connection}")
    ended = [(victim, *victim.process.communicate(timeout=30)) for victim in victims]
    if "server" in ways:
        mortal.restart()
    mortal.check_nothing_open()
    for (victim, out, err), way in zip(ended, cycle(ways), strict=False):
        made = moved_by(mortal.database, victim.name, seq)
        tally[judge(mortal.database, way, victim, Ran(victim.process.returncode, out, err), made)] += 1
    return tally


def moved_by(database: Database, name: str, seq: int) -> int:
    """Return how many changes of the kind that the run `name` makes were committed after `seq`, workers' left out."""
    rows = database.rows("SELECT * FROM changes WHERE seq > %s AND account LIKE 'ops@%%'", [seq])
    return sum(audit.Change(*row).kind in MADE[name] for row in rows)


def unknown_batches(ran: Ran) -> list[int]:
    """Return the sizes of the batches of which a run says that it does not know; two may be under way at once."""
    return [int(size) for size in UNKNOWN.findall(ran.json["error"]["message"])]


def sums(sizes: Sequence[int]) -> set[int]:
    """Return what any of some batches come to together."""
    return {sum(some) for number in range(len(sizes) + 1) for some in combinations(sizes, number)}


def judge(database: Database, way: str, victim: Victim, ran: Ran, made: int) -> str:
    """Hold what a run said against what it did; return how it ended, in a few words."""
    if way == "process" and not ran.out:
        assert ran.code == -signal.SIGKILL
        return "process: killed"
    said = sum(ran.json.get(key, 0) for key in RUNS[victim.name][1])
    if ran.code == 0 or way == "process":
        assert said == made, (ran, made)
        return f"{way}: done before"
    assert "Traceback" not in ran.err, ran.err
    assert (ran.code, ran.json["error"]["kind"]) == (69, "unavailable"), ran
    unknown = unknown_batches(ran)
    assert made - said in sums(unknown), (ran, made)
    entry = database.rows("SELECT finished_at IS NOT NULL, outcome FROM qops_runs WHERE id = %s", [victim.entry])
    if way == "server":
        assert entry == [(0, None)]
        assert "is not recorded" in ran.err
        assert unknown or "rolled back" not in ran.err
    else:
        assert entry[0][0]
    return f"{way}: unknown, {'committed' if made > said else 'rolled back'}" if unknown else f"{way}: told"


def test_a_server_that_dies_at_a_commit(mortal: Mortal) -> None:
    """The server dies within a batch's COMMIT: 69, that batch is said to be unknown, and it is whole or not there.

    What is counted are the batches before. A further run finishes the work.
    """
    chance = random.Random(SEED)  # noqa: S311 - no secret
    print(f"QOPS_TEST_SEED={SEED}")  # noqa: T201 - to repeat it
    fill(mortal.database, 200, status="ELT(1 + n % 2, 'done', 'failed')", finished_at="NOW(6)")
    before, _ = all_rows(mortal.database)
    done: Counter[str] = Counter()
    committed = 0
    for name in ("archive", "requeue", "archive"):
        arguments, (counted, *_) = RUNS[name]
        arguments = tuple("1ms" if word == "0s" else word for word in arguments)  # one batch at a time
        # The first COMMIT is the ledger's, and the archiver's reading ahead has one.
        wire = Wire(at=3 + (name == "archive"), when="after", for_good=True)
        dying = threading.Thread(target=die_at, args=(wire, mortal, chance.choice((0, chance.uniform(0, 0.004)))))
        dying.start()
        with broken_wire(mortal.ops, wire) as wired:
            ran = run_here(*arguments, "--url", wired.url, "--format", "json")
        dying.join()
        mortal.restart()
        size = int(arguments[arguments.index("--batch") + 1])
        assert (ran.code, ran.json[counted]) == (69, size), ran
        unknown = UNKNOWN.search(ran.json["error"]["message"])
        assert unknown, ran
        assert int(unknown[1]) == size
        moved = check_moves(before, *all_rows(mortal.database))
        new = moved[STATES[name]] - done[name]
        assert new in {size, 2 * size}
        done[name] += new
        committed += new == 2 * size
    print(f"{committed} of 3 were committed")  # noqa: T201 - both should be seen now and then
    for name in ("archive", "requeue"):
        assert run_here(*RUNS[name][0], "--url", mortal.url).code == 0
    moved = check_moves(before, *all_rows(mortal.database))
    assert (moved["archived"], moved["failed"]) == (100, 100)


def die_at(wire: Wire, mortal: Mortal, seconds: float) -> None:
    """Kill the server so long after the wire was cut."""
    wire.cut.wait(30)
    time.sleep(seconds)
    mortal.kill()


WAITING = {
    # what a run does when its server goes, and how: the options
    "pause": ("--batch", "10", "--pause", "1s"),
    "throttle": ("--max-purge-lag", "1"),
}


@pytest.mark.parametrize(("waiting", "comes_back"), [("pause", True), ("pause", False), ("throttle", False)])
def test_a_server_that_goes_while_qops_waits(mortal: Mortal, waiting: str, comes_back: bool) -> None:  # noqa: FBT001 - a parameter of the test
    """The server dies between two batches, when nothing is in flight: the run ends or goes on, its counts are true."""
    database = mortal.database
    fill(database, 30, status="'done'", finished_at="NOW(6)")
    before, _ = all_rows(database)
    with closing(database.connect()) as holder:
        if waiting == "throttle":
            holder.cursor().execute("START TRANSACTION WITH CONSISTENT SNAPSHOT")
            for _ in range(5):
                database.execute("UPDATE jobs SET priority = priority + 1 WHERE id = 1")
            before, _ = all_rows(database)
        process = start_process("archive", *WAITING[waiting], "--progress", "--format", "json", url=mortal.url)
        try:
            wait_until(lambda: is_waiting(database, waiting), what="the wait")
            mortal.kill()
            if comes_back:
                mortal.restart()
            out, err = process.communicate(timeout=20)
        finally:
            process.kill()
        with suppress(MySQLdb.Error):
            holder.rollback()
    if not comes_back:
        mortal.restart()
    ran = Ran(process.returncode, out, err)
    moved = check_moves(before, *all_rows(mortal.database))["archived"]
    assert "Traceback" not in err
    assert ran.json["archived"] == moved
    assert not UNKNOWN.search(err)
    assert ran.code == 69 or (ran.code, moved) == (0, 30), ran
    mortal.check_nothing_open()
    assert run_here("archive", "--url", mortal.url).code == 0


def is_waiting(database: Database, waiting: str) -> bool:
    """Say whether the run has begun and its session is idle, between batches or before the first one."""
    if waiting == "pause" and not database.value("SELECT COUNT(*) FROM jobs_archive"):
        return False
    idle = "SELECT 1 FROM performance_schema.threads WHERE processlist_user = 'ops' AND processlist_command = 'Sleep'"
    return bool(database.rows(f"{idle} AND EXISTS (SELECT 1 FROM qops_runs WHERE finished_at IS NULL)"))


def test_a_server_that_is_shut_down_and_started_again(mortal: Mortal) -> None:
    """A clean restart in the middle of the batches: the run ends with 69 or goes on, and its counts are true."""
    fill(mortal.database, 3_000, status="'done'", finished_at="NOW(6)")
    before, _ = all_rows(mortal.database)
    process = start_process("archive", "--batch", "10", "--pause", "0s", "--format", "json", url=mortal.url)
    wait_until(lambda: mortal.database.value("SELECT COUNT(*) FROM jobs_archive LIMIT 1") > 0, what="the first batch")
    mortal.restart()
    out, err = process.communicate(timeout=20)
    ran = Ran(process.returncode, out, err)
    moved = check_moves(before, *all_rows(mortal.database))["archived"]
    assert ran.code == 69, ran
    assert moved - ran.json["archived"] in sums(unknown_batches(ran)), (ran, moved)
    assert 0 < moved < 3_000
    mortal.check_nothing_open()
    assert run_here("archive", "--url", mortal.url).code == 0
    assert check_moves(before, *all_rows(mortal.database))["archived"] == 3_000
