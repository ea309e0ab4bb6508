"""The ledger: one entry for every run that changes rows, whatever becomes of it, and `qops history` that shows it."""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING, Any

import pytest

from qops.archive.result import Options as ArchiveOptions
from qops.events import Events
from qops.ledger import Ledger
from qops.settings import Database as Address
from tests.accounts import account
from tests.conftest import Database, Ran, run_here, start_process, wait_until
from tests.measure import spent_by
from tests.queues import counts, fill, init

if TYPE_CHECKING:
    from collections.abc import Callable

CHANGING = ("archive", "expire", "restore", "requeue", "promote", "pause", "resume")
WORDS: dict[str, tuple[str, ...]] = {
    "archive": ("archive", "--limit", "3", "--batch", "2"),
    "expire": ("expire", "--older-than", "0s"),
    "restore": ("restore", "1", "99"),
    "requeue": ("requeue", "--failed", "--reason", "it is back"),
    "promote": ("promote", "--batch", "7"),
    "pause": ("pause", "--for", "1h", "--reason", "a look"),
    "resume": ("resume",),
}


@pytest.fixture
def queue(database: Database) -> Database:
    init(database)
    return database


def prepare(queue: Database) -> None:
    states = "ELT(n, 'done', 'done', 'done', 'done', 'failed', 'failed', 'scheduled')"
    fill(queue, 7, status=states, finished_at="IF(n < 7, NOW(6), NULL)", available_at="NOW(6)")


def runs(qops: Callable[..., Ran], *options: str) -> list[dict[str, Any]]:
    ran = qops("history", "--format", "json", *options)
    assert ran.code == 0, ran.err
    found: list[dict[str, Any]] = ran.json["runs"]
    return found


def test_each_command_leaves_one_entry_that_says_it_all(queue: Database, qops: Callable[..., Ran]) -> None:
    """Who, where, when, with which options, how many by which result, why, and how it ended; the newest first."""
    prepare(queue)
    for command in ("archive", "restore", "requeue", "promote", "expire", "pause", "resume"):
        assert qops(*WORDS[command]).code in {0, 1}
    found = runs(qops)
    assert [run["command"] for run in found] == [
        "resume",
        "pause",
        "expire",
        "promote",
        "requeue",
        "restore",
        "archive",
    ]
    by = {run["command"]: run for run in found}
    assert {command: by[command]["outcome"] for command in by} == dict.fromkeys(CHANGING, "done") | {
        "pause": "resumed"
    } | {"archive": "limit"}
    for run in found:
        assert run["started_at"] <= run["finished_at"]
        assert run["operator"].startswith("root@")
        assert run["host"]
        assert (run["queue"], run["running"]) == ("jobs", False)
    assert by["archive"]["arguments"] == {"state": "done", "older_than_seconds": 0.0, "batch": 2, "limit": 3}
    assert by["expire"]["arguments"] == {"older_than_seconds": 0.0}
    assert by["restore"]["arguments"] == {"ids": ["1", "99"]}
    assert by["promote"]["arguments"] == {"batch": 7}
    assert by["pause"]["arguments"] == {"for_seconds": 3600.0}
    assert by["requeue"]["arguments"]["failed"] is True
    assert (by["requeue"]["reason"], by["pause"]["reason"]) == ("it is back", "a look")
    assert (by["archive"]["summary"]["archived"], by["requeue"]["summary"]["requeued"]) == (3, 2)
    assert (by["restore"]["summary"]["restored"], by["restore"]["summary"]["not_found"]) == (1, 1)
    assert (by["promote"]["summary"]["promoted"], by["resume"]["summary"]["released"]) == (1, 1)
    assert by["expire"]["summary"]["expired"] == 2
    assert [run["id"] for run in runs(qops, "--limit", "2")] == [run["id"] for run in found[:2]]


def test_runs_that_found_nothing_are_entries(queue: Database, qops: Callable[..., Ran]) -> None:
    """An empty queue leaves one entry a run as well, each with counts of 0."""
    for command in CHANGING:
        assert qops(*WORDS[command]).code in {0, 1}
    found = runs(qops)
    assert sorted(run["command"] for run in found) == sorted(CHANGING)
    assert next(run for run in found if run["command"] == "promote")["summary"]["promoted"] == 0
    assert qops("resume", "--format", "json").json["released"] == 0
    assert runs(qops)[0]["summary"] == {"released": 0}


def test_a_stopped_run_says_what_stopped_it(queue: Database, qops: Callable[..., Ran]) -> None:
    """The brake ends a run of any command before its first batch: 75, one entry, `paused`, with the message."""
    prepare(queue)
    queue.execute("INSERT INTO jobs_archive SELECT * FROM jobs WHERE id = 4")
    qops("pause", "--reason", "a migration")
    before = counts(queue)
    for command in CHANGING[:-2]:
        assert qops(*WORDS[command]).code == 75, command
    assert counts(queue) == before
    found = {run["command"]: run for run in runs(qops)}
    assert {found[command]["outcome"] for command in CHANGING[:-2]} <= {"paused", "try-later"}
    assert all("a migration" in found[command]["summary"]["error"] for command in CHANGING[:-2])
    assert (found["pause"]["outcome"], found["pause"]["running"]) == (None, True)
    assert " in force " in qops("history").out


def test_a_run_that_is_killed_is_left_open(queue: Database, qops: Callable[..., Ran]) -> None:
    """While it works an entry is running; after SIGKILL it is open for ever, and both are told apart."""
    fill(queue, 5, status="'done'", finished_at="NOW(6)")
    process = start_process("archive", "--batch", "1", "--pause", "60s", url=queue.url)
    try:
        wait_until(lambda: counts(queue).get("done", 0) == 4, what="the first batch")
        (run,) = runs(qops)
        assert (run["outcome"], run["finished_at"], run["running"]) == (None, None, True)
        assert " running " in qops("history").out
        with account(queue, "SELECT ON {db}.qops_runs") as other:
            assert run_here("history", "--url", other.url, "--format", "json").json["runs"][0]["running"] is None
            assert " open " in run_here("history", "--url", other.url).out
        process.send_signal(signal.SIGKILL)
    finally:
        process.kill()
        process.communicate()
    wait_until(lambda: runs(qops)[0]["running"] is False, what="the server to notice")
    (run,) = runs(qops)
    assert (run["outcome"], run["finished_at"]) == (None, None)
    assert " left open " in qops("history").out


def test_a_connection_of_another_life_of_the_server_is_not_the_runs(queue: Database, qops: Callable[..., Ran]) -> None:
    """Connection ids begin anew with the server: an open entry from before its start is not running."""
    queue.execute(
        "INSERT INTO qops_runs (command, queue, started_at, connection_id) VALUES "
        "('archive', 'jobs', '2020-01-01', CONNECTION_ID()), ('archive', 'jobs', NOW(6), CONNECTION_ID()), "
        "('archive', 'jobs', NOW(6), NULL)"
    )
    assert [run["running"] for run in runs(qops)] == [None, True, False]


def test_a_pause_is_over_by_its_time(queue: Database, qops: Callable[..., Ran]) -> None:
    """A pause that nobody ended is in force until its time has come by the server's clock."""
    qops("pause", "--for", "1h")
    assert runs(qops)[0]["running"] is True
    queue.execute("UPDATE qops_runs SET expires_at = NOW(6)")
    assert (runs(qops)[0]["running"], runs(qops)[0]["outcome"]) == (False, None)
    assert " over " in qops("history").out


def test_only_this_queues_runs_and_few_reads(queue: Database) -> None:
    """Entries of other queues are not shown; what is read depends on the limit, not on the ledger's size."""
    queue.execute("SET SESSION cte_max_recursion_depth = 10000")
    queue.execute(
        "INSERT INTO qops_runs (command, queue, finished_at, outcome) WITH RECURSIVE s AS (SELECT 1 AS n UNION ALL "
        "SELECT n + 1 FROM s WHERE n < 6000) SELECT ELT(1 + n % 3, 'archive', 'promote', 'expire'), "
        "IF(n % 2 OR n < 5950, 'other', 'jobs'), NOW(6), 'done' FROM s"
    )
    queue.execute("INSERT INTO qops_runs (command, queue, finished_at, outcome) "
                  "SELECT command, 'jobs', finished_at, outcome FROM qops_runs LIMIT 900")  # fmt: skip
    with account(queue, "SELECT ON {db}.qops_runs") as limited:
        run_here("history", "--url", limited.url)
        before = spent_by(limited, limited.user)
        ran = run_here("history", "--limit", "10", "--url", limited.url, "--format", "json")
        assert (spent_by(limited, limited.user) - before).reads < 200
    assert [run["id"] for run in ran.json["runs"]] == [
        id_ for (id_,) in queue.rows("SELECT id FROM qops_runs WHERE queue = 'jobs' ORDER BY id DESC LIMIT 10")
    ]


def test_the_entry_is_bounded_and_has_no_secret(queue: Database, qops: Callable[..., Ran]) -> None:
    """Ten thousand ids leave the first thousand and how many more; an address is kept without its password."""
    ids = [str(number) for number in range(10_000)]
    server = queue.server()
    text = "cannot reach mysql://app:s3cr3t@db/app: " + "x" * 9000
    with server.session() as connection:
        ledger = Ledger(server, connection, Events())
        entry = ledger.open("requeue", "jobs", {"ids": ids, "error_like": text}, reason=text[:900])
        ledger.close(entry, "unavailable", {"requeued": 0, "error": text})
    (run,) = runs(qops)
    assert run["arguments"]["ids"] == ids[:1000]
    assert run["arguments"]["ids_left_out"] == 9000
    assert len(run["summary"]["error"]) == 2000
    assert "s3cr3t" not in json.dumps(run)
    assert "app:***@db" in run["reason"]
    assert "ids 0 1 2 3 4 …" in qops("history").out
    address = Address(None, None, None)
    assert ArchiveOptions(replicas={"b": address, "a": address}).arguments()["replicas"] == ["a", "b"]


def test_control_characters_are_spelled_out(queue: Database, qops: Callable[..., Ran]) -> None:
    """What somebody typed as a reason does not drive the terminal of who reads it."""
    qops("pause", "--reason", "\x1b[31mred\nline")
    out = qops("history").out
    assert "\x1b" not in out
    assert "\\x1b[31mred\\nline" in out


def test_a_ledger_of_an_older_version(queue: Database, qops: Callable[..., Ran]) -> None:
    """Columns that it lacks are unknown; a run works, and says once each what it could not write and not see."""
    qops("archive")
    for column in ("arguments", "expires_at", "summary", "host", "reason", "connection_id"):
        queue.execute(f"ALTER TABLE qops_runs DROP COLUMN {column}")
    (run,) = runs(qops)
    assert (run["command"], run["outcome"], run["summary"], run["host"]) == ("archive", "done", None, None)
    fill(queue, 30, status="'done'", finished_at="NOW(6)")
    ran = qops("archive", "--batch", "10", "--format", "json")
    assert (ran.code, ran.json["archived"]) == (0, 30), ran.err
    assert ran.err.count("not recorded") == 1
    assert ran.err.count("whether queue 'jobs' is paused") == 1
    assert "init --repair" in ran.err


@pytest.mark.parametrize("command", CHANGING[:-2])
@pytest.mark.parametrize("ledger", ["none", "read"])
def test_without_a_ledger_to_write_a_run_works_and_says_so_once(queue: Database, command: str, ledger: str) -> None:
    """Where the ledger is missing, or may only be read, each command does its work, with one line about it."""
    prepare(queue)
    queue.execute("INSERT INTO jobs_archive SELECT * FROM jobs WHERE id = 1")
    queue.execute("DELETE FROM jobs WHERE id = 1")
    grants = ["ALL ON {db}.jobs", "ALL ON {db}.jobs_archive", "PROCESS ON *.*"]
    if ledger == "none":
        queue.execute("DROP TABLE qops_runs")
        grants = ["ALL ON {db}.*", "PROCESS ON *.*"]
    elif command == "expire":
        grants.append("SELECT, DELETE ON {db}.qops_runs")
    else:
        grants.append("SELECT ON {db}.qops_runs")
    before = counts(queue) | {"archived": queue.value("SELECT COUNT(*) FROM jobs_archive")}
    with account(queue, *grants) as limited:
        ran = run_here(*WORDS[command], "--url", limited.url)
    assert ran.code in {0, 1}, ran
    assert counts(queue) | {"archived": queue.value("SELECT COUNT(*) FROM jobs_archive")} != before
    assert ran.err.count("not recorded") == 1
    assert ran.err.count("warning") == 2  # the other one is about the password in the URL


def test_without_a_ledger_history_says_what_to_type(queue: Database, qops: Callable[..., Ran]) -> None:
    """No table: 78 and `qops init`; no right to read it: 77 and the GRANT; an empty one is no error."""
    assert (qops("history", "--format", "json").json, qops("history").code) == ({"runs": []}, 0)
    with account(queue, "SELECT ON {db}.jobs") as limited:
        ran = run_here("history", "--url", limited.url, "--format", "json")
        assert ran.code == 77
        assert f"GRANT SELECT ON `{queue.name}`.`qops_runs`" in ran.json["error"]["message"]
    queue.execute("DROP TABLE qops_runs")
    ran = qops("history", "--format", "json")
    assert ran.code == 78
    assert "qops init" in ran.json["error"]["message"]
    assert qops("history", "--limit", "0").code == 64
