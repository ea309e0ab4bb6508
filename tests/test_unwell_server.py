"""A server that cannot be written to, or that ends idle sessions, costs time in bounds and never a job."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest

from dev.server import private_server
from qops import login
from qops.errors import ConnectionLost
from tests.accounts import account
from tests.conftest import Database, Ran, fresh_database, run_process, start_process, wait_until
from tests.queues import counts, fill, init
from tests.workload import all_rows, check_nothing_open, fill_all_states

if TYPE_CHECKING:
    from collections.abc import Iterator

COMMANDS = [
    ("archive",),
    ("requeue", "--failed"),
    ("requeue", "--expired"),
    ("requeue", "1"),
    ("promote",),
    ("expire",),
    ("restore", "1"),
    ("pause",),
]


@pytest.fixture(scope="module")
def alone() -> Iterator[Database]:
    """Give a queue on a server of one's own, whose settings may be changed."""
    with private_server() as server, fresh_database(server) as database:
        init(database)
        yield database


@pytest.fixture
def plain(alone: Database) -> Iterator[Database]:
    """Give the queue, with jobs to do, as an account sees it that has no administrator's privileges."""
    for table in ("jobs", "jobs_archive", "qops_runs"):
        alone.execute(f"DELETE FROM {table}")
    fill_all_states(alone, 100)
    with account(alone, "ALL ON {db}.*", "PROCESS ON *.*") as mine:
        yield mine
        alone.execute("SET GLOBAL super_read_only = OFF, read_only = OFF")


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("rows", [100, 0])
def test_a_read_only_server_is_refused_at_once(
    alone: Database, plain: Database, arguments: tuple[str, ...], rows: int
) -> None:
    """On a read-only server every command that changes rows is 69 within seconds, also where there is nothing to do."""
    if not rows:
        alone.execute("DELETE FROM jobs")
    before = all_rows(alone)
    alone.execute("SET GLOBAL super_read_only = ON")
    ran = run_process(*arguments, "--format", "json", url=plain.url, timeout=30)
    alone.execute("SET GLOBAL super_read_only = OFF, read_only = OFF")
    assert (ran.code, ran.json["error"]["kind"]) == (69, "unavailable"), ran.err
    assert "read-only" in ran.json["error"]["message"]
    assert all_rows(alone) == before
    assert alone.value("SELECT COUNT(*) FROM qops_runs") == 0
    check_nothing_open(alone)


def test_a_server_that_becomes_read_only_ends_the_run(alone: Database, plain: Database) -> None:
    """A switch-over in the middle of a run: 69 with the summary of what was done before, and the entry stays open."""
    process = start_process("archive", "--batch", "10", "--pause", "500ms", "--format", "json", url=plain.url)
    wait_until(lambda: alone.value("SELECT COUNT(*) FROM jobs_archive") >= 10)
    alone.execute("SET GLOBAL super_read_only = ON")
    out, err = process.communicate(timeout=20)
    alone.execute("SET GLOBAL super_read_only = OFF, read_only = OFF")
    ran = Ran(process.returncode, out, err)
    assert (ran.code, ran.json["error"]["kind"], ran.json["stopped_by"]) == (69, "unavailable", "error")
    assert ran.json["archived"] == alone.value("SELECT COUNT(*) FROM jobs_archive") < 50
    assert "not recorded" in ran.err
    assert alone.rows("SELECT finished_at FROM qops_runs") == [(None,)]
    assert run_process("archive", url=plain.url).code == 0
    assert counts(alone, "jobs_archive") == {"done": 50}


def test_a_long_pause_outlives_an_idle_limit(alone: Database, plain: Database) -> None:
    """The server ends sessions that are idle for a second; a run that rests for longer between batches finishes."""
    alone.execute("DELETE FROM jobs")
    fill(alone, 20, status="'done'", finished_at="NOW(6)")
    alone.execute("SET GLOBAL wait_timeout = 1")
    ran = run_process("archive", "--batch", "10", "--pause", "2500ms", "--format", "json", url=plain.url)
    alone.execute("SET GLOBAL wait_timeout = DEFAULT")
    assert (ran.code, ran.json["archived"]) == (0, 20), ran.err


def test_a_server_that_falls_silent_counts_as_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """A frozen server holds nobody for ever: what waits for it hears after a while that the connection is lost."""
    monkeypatch.setattr(login, "ANSWER_SECONDS", 1)
    with private_server() as server, fresh_database(server) as database:
        assert server.pid is not None
        held = database.server()
        with held.session() as connection:
            connection.exec_driver_sql("SELECT 1")
            os.kill(server.pid, signal.SIGSTOP)
            with pytest.raises(ConnectionLost), held.translating():
                connection.exec_driver_sql("SELECT 1")
            os.kill(server.pid, signal.SIGCONT)
