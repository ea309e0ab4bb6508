"""Archiving waits while purge is behind, names whoever causes it, says whether waiting helps, and holds nothing."""

from __future__ import annotations

import signal
import threading
import time
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from dev.server import private_server
from qops.events import Events
from qops.purge import PurgeLag, read_purge
from qops.purge_throttle import PurgeLagThrottle
from qops.throttle import Reason, pressure_of
from tests.accounts import account
from tests.conftest import Database, Ran, fresh_database, run_here, start_process, wait_until
from tests.queues import fill, init, write_config

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator
    from pathlib import Path

    import MySQLdb

ROWS = 100
OPEN = (
    "SELECT COUNT(*) FROM performance_schema.events_transactions_current x JOIN performance_schema.threads t "
    "ON t.thread_id = x.thread_id JOIN performance_schema.session_account_connect_attrs a "
    "ON a.processlist_id = t.processlist_id AND a.attr_name = 'program_name' AND a.attr_value = 'qops' "
    "WHERE x.state = 'ACTIVE' AND x.timer_wait > 2e11"  # picoseconds: more than the moment that asking takes
)
RUNNING = "SELECT state FROM performance_schema.processlist WHERE id = %s"


@pytest.fixture(scope="module")
def alone() -> Iterator[Database]:
    """Give a queue on a server where nobody else commits or reads."""
    with private_server() as server, fresh_database(server) as database:
        init(database)
        database.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
        database.execute("INSERT INTO t VALUES (1, 1)")
        yield database


@pytest.fixture
def quiet(alone: Database, monkeypatch: pytest.MonkeyPatch) -> Database:
    """Give it with 100 finished jobs, and purge at rest."""
    for table in ("jobs", "jobs_archive", "qops_runs"):
        alone.execute(f"DELETE FROM {table}")
    fill(alone, ROWS, status="'done'", finished_at="NOW(6)")
    monkeypatch.setenv("QOPS_URL", alone.url)
    wait_until(lambda: lag(alone).unpurged_transactions == 0, what="purge")
    return alone


def lag(database: Database) -> PurgeLag:
    with database.server().observe() as connection:
        return read_purge(connection, name_blocker=False)


def change(database: Database, transactions: int) -> None:
    for _ in range(transactions):
        database.execute("UPDATE t SET v = v + 1")


@contextmanager
def snapshot(database: Database) -> Iterator[MySQLdb.Connection]:
    """Yield an idle session whose REPEATABLE READ transaction has read."""
    with closing(database.connect()) as holder, closing(holder.cursor()) as cursor:
        cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        cursor.execute("START TRANSACTION")
        cursor.execute("SELECT 'the report' FROM t")
        yield holder


@contextmanager
def statement_running(database: Database, *before: str, autocommit: bool) -> Iterator[int]:
    """Yield the id of a session that runs a statement of some seconds."""
    with closing(database.connect(autocommit=autocommit)) as runner, closing(runner.cursor()) as cursor:
        for statement in before:
            cursor.execute(statement)
        pid = runner.thread_id()
        thread = threading.Thread(target=cursor.execute, args=("SELECT SLEEP(4), 'a long one' FROM t LIMIT 1",))
        thread.start()
        wait_until(lambda: database.value(RUNNING, (pid,)) == "User sleep", what="the statement")
        yield pid
        thread.join()


@contextmanager
def throttle(database: Database, limit: int | None, **options: Any) -> Iterator[tuple[PurgeLagThrottle, list[str]]]:
    """Yield a throttle on a connection of its own, and the list of the statements that it sends."""
    sent: list[str] = []
    with database.server().session() as connection:
        sa.event.listen(connection, "before_cursor_execute", lambda _c, _k, sql, *_rest: sent.append(sql))
        yield PurgeLagThrottle(connection, limit, Events(quiet=True), **options), sent


def ask(one: PurgeLagThrottle) -> Reason:
    """Return the reason to wait, once the throttle has looked for long enough to know whether purge moves."""
    found: list[Reason] = []

    def known() -> bool:
        reason = one()
        assert reason
        found[:] = [reason]
        return "not known yet" not in reason.message

    wait_until(known, what="a second look")
    return found[0]


def archive(*options: str) -> Ran:
    return run_here("archive", "--batch", "10", "--pause", "0s", "--format", "json", *options)


def start(*options: str) -> subprocess.Popen[str]:
    return start_process("archive", "--batch", "10", "--pause", "0s", "--format", "json", *options)


def finish(process: subprocess.Popen[str]) -> Ran:
    out, err = process.communicate(timeout=30)
    return Ran(process.returncode, out, err)


def test_waiting_names_the_holder_and_holds_nothing(quiet: Database) -> None:
    """A forgotten snapshot: stderr names its connection, user, statement and the KILL; when it ends, the run goes on.

    Meanwhile qops has no transaction open and no read view: the only one is the holder's.
    """
    with snapshot(quiet) as holder:
        change(quiet, 30)
        process = start("--max-purge-lag", "10")
        assert process.stderr
        said = process.stderr.readline()
        assert said.startswith("qops: waiting: purge lag: ")
        assert f"not known yet; a read view is open: connection {holder.thread_id()} (root@" in said
        assert "KILL" not in said
        said = process.stderr.readline()
        assert f"waiting does not help until this ends: connection {holder.thread_id()} (root@" in said
        assert "SELECT 'the report' FROM t" in said
        assert f"KILL {holder.thread_id()};" in said
        for _ in range(40):
            assert quiet.value(OPEN) == 0
            assert lag(quiet).read_views == 1
            time.sleep(0.02)
        assert quiet.value("SELECT COUNT(*) FROM jobs_archive") == 0
        quiet.execute(f"KILL {holder.thread_id()}")
    ran = finish(process)
    assert (ran.code, ran.json["archived"], ran.json["stopped_by"]) == (0, ROWS, "done"), ran.err
    (wait,) = ran.json["throttles"]
    assert wait["reason"] == "purge-lag"
    assert wait["seconds"] == ran.json["throttled_seconds"] > 0.5
    assert "going on after" in ran.err


def test_a_wait_that_cannot_help_ends_with_what_was_done(quiet: Database) -> None:
    """A snapshot that appears in the middle and stays: 75 after --max-wait, the batches counted, and not curable."""
    with snapshot(quiet) as holder:
        pid = holder.thread_id()
        ran = archive("--max-purge-lag", "5", "--max-wait", "5s")
    assert (ran.code, ran.json["stopped_by"], ran.json["error"]["kind"]) == (75, "throttle", "try-later")
    assert 0 < ran.json["archived"] == quiet.value("SELECT COUNT(*) FROM jobs_archive") < ROWS
    assert ran.json["batches"] == ran.json["archived"] // 10
    (wait,) = ran.json["throttles"]
    assert (wait["reason"], wait["curable"]) == ("purge-lag", False)
    assert 4.9 <= wait["seconds"] < 15
    assert f"KILL {pid};" in ran.json["error"]["message"]
    assert quiet.rows("SELECT outcome FROM qops_runs") == [("throttle",)]


def test_a_signal_ends_the_wait_at_once(quiet: Database) -> None:
    """SIGTERM ends a run that waits for purge within a second or so: 143, with its document."""
    with snapshot(quiet):
        change(quiet, 30)
        process = start("--max-purge-lag", "10")
        assert process.stderr
        assert "waiting: purge lag" in process.stderr.readline()
        begun = time.monotonic()
        process.send_signal(signal.SIGTERM)
        ran = finish(process)
        assert time.monotonic() - begun < 2
    assert (ran.code, ran.json["stopped_by"], ran.json["archived"]) == (143, "signal", 0)


def test_the_history_list_alone_decides_nothing(quiet: Database) -> None:
    """A history list that is long because it is truncated lazily is shown, and nothing waits for it."""
    with snapshot(quiet):
        change(quiet, 300)
    wait_until(lambda: lag(quiet).unpurged_transactions == 0, what="purge")
    history = lag(quiet).history_list_length
    if not history or history <= 50:
        pytest.skip("purge has truncated the history list already")
    with throttle(quiet, 50) as (one, _):
        assert one() is None
        assert "history list length" in one.words
    ran = archive("--max-purge-lag", "50")
    assert (ran.code, ran.json["archived"], ran.json["throttles"]) == (0, ROWS, [])


def test_it_resumes_lower_than_it_pauses(quiet: Database) -> None:
    """Between half the limit and the limit it goes on as it was: running, or waiting."""
    with throttle(quiet, 40) as (one, _), throttle(quiet, 40) as (fresh, _):
        with snapshot(quiet) as oldest:
            change(quiet, 30)
            assert one() is None
            with snapshot(quiet):
                change(quiet, 30)
                assert ask(one).name == "purge-lag"
                oldest.rollback()
                wait_until(lambda: (lag(quiet).unpurged_transactions or 0) < 40, what="purge up to the younger one")
                assert ask(one)
                assert fresh() is None
        wait_until(lambda: (lag(quiet).unpurged_transactions or 0) < 20, what="purge")
        assert one() is None


def test_the_holder_of_the_oldest_view_is_named(quiet: Database) -> None:
    """Of two snapshots the older is named; when it ends purge moves, which waiting cures, until it meets the other."""
    with throttle(quiet, 5) as (one, _), snapshot(quiet) as oldest:
        change(quiet, 20)
        time.sleep(1.1)  # InnoDB knows the age of a transaction in whole seconds
        with snapshot(quiet) as younger:
            change(quiet, 20)
            first = ask(one)
            assert f"KILL {oldest.thread_id()};" in first.message
            assert first.curable is False
            oldest.rollback()
            wait_until(lambda: (lag(quiet).unpurged_transactions or 99) < 30, what="purge up to the younger one")
            second = ask(one)
            assert second.curable is True
            assert "purge is catching up" in second.message
            wait_until(lambda: ask(one).curable is False, what="the younger one")
            assert f"KILL {younger.thread_id()};" in ask(one).message


@pytest.mark.parametrize(
    ("before", "autocommit"),
    [
        (("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED", "START TRANSACTION"), False),
        (("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",), True),
    ],
    ids=["read committed", "autocommit"],
)
def test_a_statement_that_will_end_is_cured_by_waiting(
    quiet: Database,
    before: tuple[str, ...],
    autocommit: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    """A long statement whose view ends with it is named, and waiting for it helps."""
    with statement_running(quiet, *before, autocommit=autocommit) as pid, throttle(quiet, 5) as (one, _):
        change(quiet, 20)
        wait_until(lambda: "catching up" not in ask(one).message, what="purge up to the statement's view")
        reason = ask(one)
    assert reason.curable is True
    assert f"purge goes on when this statement ends: connection {pid} (root@" in reason.message
    assert "'a long one'" in reason.message


def test_nothing_to_say_costs_one_statement(quiet: Database) -> None:
    """Without a read view each question is one statement; while a young one is open, it is looked at now and then."""
    with throttle(quiet, None) as (one, sent):
        assert [one() for _ in range(3)] == [None] * 3
        assert len(sent) == 3
        with snapshot(quiet):
            one()
            looked = len(sent)
            assert looked <= 6
            assert [one() for _ in range(3)] == [None] * 3
            assert len(sent) == looked + 3


def test_an_old_read_view_is_warned_of_once(quiet: Database, clean_environment: Path) -> None:
    """A view older than [archive] read_view is warned of with connection, user, statement and KILL; the run is fine."""
    write_config(clean_environment, '[archive]\nread_view = "1s"\n')
    with snapshot(quiet) as holder:
        pid = holder.thread_id()
        wait_until(lambda: age(quiet) >= 2, what="a view of two seconds")
        ran = archive()
    assert (ran.code, ran.json["archived"], ran.json["throttles"]) == (0, ROWS, [])
    (warning,) = ran.err.splitlines()
    assert warning.startswith(f"qops: warning: connection {pid} (root@")
    assert "SELECT 'the report' FROM t" in warning
    assert warning.endswith(f"KILL {pid};")


def age(database: Database) -> int:
    with database.server().observe() as connection:
        return read_purge(connection).oldest_view_seconds or 0


def test_a_young_read_view_is_not_warned_of(quiet: Database) -> None:
    """By default a view is old from a minute on."""
    with snapshot(quiet):
        ran = archive()
    assert (ran.code, ran.json["archived"], ran.err) == (0, ROWS, "")


def test_a_dry_run_shows_how_things_stand(quiet: Database) -> None:
    """The plan has the lag and its limit while nothing waits, who causes it while a run would, and the brake."""
    (free,) = archive("--dry-run").json["plan"]["throttles"]
    assert (free["reason"], free["waits"]) == ("purge-lag", False)
    assert "committed transactions wait for purge (limit 50000, resuming at 25000; history list" in free["message"]
    assert run_here("pause", "--reason", "a migration").code == 0
    with snapshot(quiet) as holder:
        pid = holder.thread_id()
        change(quiet, 20)
        ran = archive("--dry-run", "--max-purge-lag", "5")
    assert run_here("resume").code == 0
    paused, held = ran.json["plan"]["throttles"]
    assert (ran.code, paused["reason"], paused["waits"]) == (0, "paused", True)
    assert "a migration" in paused["message"]
    assert (held["reason"], held["waits"]) == ("purge-lag", True)
    assert f"a read view is open: connection {pid} (root@" in held["message"]
    assert "KILL" not in held["message"]  # a plan has looked once, and cannot tell whether purge moves


def test_a_lag_that_cannot_be_read(quiet: Database) -> None:
    """Without PROCESS the default limit is a warning, and one that was asked for is 77 with the GRANT."""
    with account(quiet, "SELECT, INSERT, UPDATE, DELETE ON {db}.*") as limited:
        options = ("--assume-no-children", "--url", limited.url, "--limit", "10")
        ran = archive(*options)
        assert (ran.code, ran.json["archived"]) == (0, 10)
        assert ran.err.count("warning: purge lag is not watched: GRANT PROCESS ON *.* TO ") == 1
        asked = archive(*options, "--max-purge-lag", "50000")
        assert (asked.code, asked.json["archived"], asked.json["error"]["kind"]) == (77, 0, "privilege")
        assert f"GRANT PROCESS ON *.* TO '{limited.user}'@'%';" in asked.json["error"]["message"]
        (plan,) = archive(*options, "--dry-run").json["plan"]["throttles"]
        assert (plan["waits"], plan["message"]) == (
            False,
            f"purge lag: unknown: GRANT PROCESS ON *.* TO '{limited.user}'@'%';",
        )


@pytest.mark.parametrize(
    ("value", "limit", "expected"),
    [(0, 10, 0), (5, 10, 0), (7.5, 10, 0.5), (10, 10, 1), (99, 10, 1), (1, 0, 1), (0, 0, 0)],
)
def test_pressure_grows_from_half_the_limit_on(value: float, limit: float, expected: float) -> None:
    """Up to half of a limit nothing is slowed down, at the limit and beyond it as much as can be."""
    assert pressure_of(value, limit) == expected


def test_a_run_slows_down_before_it_has_to_stop(quiet: Database) -> None:
    """With its own pacing a run rests longer while the lag is near the limit, though nothing makes it wait."""
    options = ("--batch", "50", "--limit", "100", "--format", "json")
    with snapshot(quiet):
        change(quiet, 190)
        ran = run_here("archive", *options, "--max-purge-lag", "200")
    assert (ran.code, ran.json["archived"], ran.json["throttles"]) == (0, 100, [])
    assert ran.json["elapsed_seconds"] > 1.5
