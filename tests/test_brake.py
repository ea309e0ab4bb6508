"""The brake: whoever puts it on, runs on any host stop before their next batch, until it is taken off."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from qops.ledger import active_brake, set_brake
from tests.accounts import account
from tests.conftest import Database, Ran, run_here, start_process, wait_until
from tests.queues import fill, init

if TYPE_CHECKING:
    from collections.abc import Callable

NUMBER = 3000


@pytest.fixture
def queue(database: Database) -> Database:
    init(database)
    return database


@pytest.mark.parametrize(
    ("words", "state", "key"),
    [
        (("archive", "--pause", "10ms"), "done", "archived"),
        (("requeue", "--failed"), "failed", "requeued"),
        (("promote",), "scheduled", "promoted"),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_a_run_under_way_stops_before_its_next_batch(
    queue: Database, qops: Callable[..., Ran], words: tuple[str, ...], state: str, key: str
) -> None:
    """A pause in the middle: 75, what was done is counted and kept, the rest stays, and the entry says `paused`."""
    fill(queue, NUMBER, status=f"'{state}'", available_at="NOW(6)", finished_at="NOW(6)")
    process = start_process(*words, "--batch", "2", "--format", "json", url=queue.url)
    left = f"SELECT COUNT(*) FROM jobs WHERE status = '{state}'"
    wait_until(lambda: queue.value(left) < NUMBER, what="the first batch")
    assert qops("pause", "--reason", "too much").code == 0
    out, err = process.communicate(timeout=60)
    ran = Ran(process.returncode, out, err)
    assert ran.code == 75, ran
    assert 0 < ran.json[key] == NUMBER - queue.value(left) < NUMBER
    assert "too much" in ran.json["error"]["message"]
    assert queue.value("SELECT outcome FROM qops_runs WHERE command = %s", [words[0]]) in {"paused", "try-later"}
    assert "too much" in " ".join(f["message"] for f in qops("health", "--format", "json").json["findings"])


def test_pause_while_paused_replaces(queue: Database, qops: Callable[..., Ran]) -> None:
    """The later pause is in force with its own reason and end; one resume ends it, and a second finds nothing."""
    qops("pause", "--for", "1h", "--reason", "first")
    ran = qops("pause", "--reason", "second", "--format", "json")
    assert (ran.code, ran.json["until"], ran.json["reason"]) == (0, None, "second")
    assert queue.rows("SELECT reason, outcome FROM qops_runs ORDER BY id") == [("first", "replaced"), ("second", None)]
    assert "second" in qops("archive").err
    assert qops("resume", "--format", "json").json["released"] == 1
    ran = qops("resume", "--format", "json")
    assert (ran.code, ran.json["released"], ran.json["paused"]) == (0, 0, False)
    assert qops("archive").code == 0


def test_pauses_at_once_are_ended_by_one_resume(queue: Database, qops: Callable[..., Ran]) -> None:
    """However many people pull the brake at the same moment, it is on, and one resume takes it off."""
    gate = threading.Barrier(6)
    errors: list[BaseException] = []

    def pull(number: int) -> None:
        server = queue.server()
        try:
            with server.session() as connection:
                gate.wait()
                set_brake(server, connection, "jobs", reason=f"by {number}", seconds=60 if number % 2 else None)
        except BaseException as error:  # noqa: BLE001 - told below
            errors.append(error)

    threads = [threading.Thread(target=pull, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert qops("archive").code == 75
    assert qops("resume", "--format", "json").json["released"] >= 1
    assert qops("archive").code == 0
    assert queue.value("SELECT COUNT(*) FROM qops_runs WHERE command = 'pause' AND finished_at IS NULL") == 0
    assert queue.value("SELECT COUNT(*) FROM qops_runs WHERE command = 'pause'") == 6


def test_the_longest_of_several_pauses_counts(queue: Database) -> None:
    """Where two were put on at once, the brake is on until the last of them is over."""
    queue.execute(
        "INSERT INTO qops_runs (command, queue, expires_at) VALUES ('pause', 'jobs', NULL), "
        "('pause', 'jobs', NOW(6) - INTERVAL 1 SECOND)"
    )
    with queue.server().observe() as connection:
        brake = active_brake(connection, "jobs")
    assert brake is not None
    assert brake.until is None


def test_a_pause_is_of_one_queue(queue: Database, qops: Callable[..., Ran]) -> None:
    """Another queue's pause in the same ledger stops nothing here."""
    queue.execute("INSERT INTO qops_runs (command, queue) VALUES ('pause', 'Jobs'), ('pause', 'other')")
    assert qops("archive").code == 0


def test_the_brake_needs_a_ledger_that_can_be_written(queue: Database, qops: Callable[..., Ran]) -> None:
    """With a ledger that may only be read 77 and the GRANT, without one 78; nothing is paused by half."""
    with account(queue, "SELECT ON {db}.*") as limited:
        for command in ("pause", "resume"):
            ran = run_here(command, "--url", limited.url, "--format", "json")
            assert ran.code == 77
            assert f"GRANT SELECT, INSERT, UPDATE ON `{queue.name}`.`qops_runs`" in ran.json["error"]["message"]
    assert queue.value("SELECT COUNT(*) FROM qops_runs") == 0
    queue.execute("DROP TABLE qops_runs")
    for command in ("pause", "resume"):
        ran = qops(command, "--format", "json")
        assert ran.code == 78
        assert "qops init" in ran.json["error"]["message"]
