"""Waiting, backing off, and ending when a signal says so."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

import pytest

from qops.clock import Stop, backoff, monotonic, sleep, stop_on_signals
from tests.conftest import Database, wait_until


@pytest.mark.parametrize("attempt", [0, 1, 5, 100, 100_000])
def test_backoff_doubles_up_to_its_limit(attempt: int) -> None:
    """Each wait is between half the ceiling and the ceiling, however many attempts there have been."""
    ceiling = min(1.0, 0.05 * 2 ** min(attempt, 10))
    for _ in range(50):
        assert ceiling / 2 <= backoff(attempt, base=0.05, limit=1.0) <= ceiling


def test_sleep_ends_when_asked_to_stop() -> None:
    """A rest of a century ends at once when somebody asks, and says so."""
    stop = Stop()
    threading.Timer(0.05, stop.request, [signal.SIGTERM]).start()
    begun = monotonic()
    assert sleep(3.2e9 * 1000, stop)
    assert monotonic() - begun < 30
    assert stop.signum == signal.SIGTERM


def test_sleep_without_a_stop_says_no() -> None:
    """A rest that nobody ended returns False, also one of no length."""
    assert not sleep(0.001, Stop())
    assert not sleep(0, Stop())


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_requests_a_stop_and_handlers_come_back(signum: signal.Signals) -> None:
    """SIGINT and SIGTERM set the Stop inside the block; outside it the handlers of before are in place."""
    before = signal.getsignal(signum)
    with stop_on_signals() as stop:
        assert not stop.requested
        os.kill(os.getpid(), signum)
        assert sleep(30, stop)
    assert stop.signum == signum
    assert signal.getsignal(signum) is before


DEAF = """
import contextlib, sys
import MySQLdb
from qops.clock import die_on_signals, stop_on_signals
die_on_signals()
session = MySQLdb.connect(host=sys.argv[2], port=int(sys.argv[3]), user=sys.argv[4], password=sys.argv[5],
                          database=sys.argv[6])
with stop_on_signals() if sys.argv[1] == "settling" else contextlib.nullcontext():
    session.query("SELECT SLEEP(600)")
"""


@pytest.mark.parametrize(("mode", "signals"), [("settling", 2), ("reading", 1)])
@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_a_process_that_waits_for_its_server_can_be_ended(
    database: Database, mode: str, signals: int, signum: signal.Signals
) -> None:
    """While the driver waits, one signal ends a command that only reads, and a second one any command (128 + n)."""
    login = [database.host, str(database.port), database.user, database.password, database.name]
    waiting = "SELECT 1 FROM performance_schema.threads WHERE processlist_db = %s AND processlist_info = %s"
    with subprocess.Popen([sys.executable, "-c", DEAF, mode, *login]) as process:
        wait_until(lambda: database.rows(waiting, [database.name, "SELECT SLEEP(600)"]), what="the statement")
        for number in range(signals):
            if number:
                with pytest.raises(subprocess.TimeoutExpired):
                    process.wait(2)
            process.send_signal(signum)
        assert process.wait(30) == 128 + signum
