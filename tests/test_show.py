"""`qops show`: one job wherever it is, and what else is known of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from dev.server import private_server
from tests.accounts import account
from tests.conftest import Database, Ran, fresh_database, run_here
from tests.queues import fill, init

if TYPE_CHECKING:
    from collections.abc import Callable

HOSTILE = "\x1b[31mred\x07\r\nline 2\t\u202e💥 \x00 end"


@pytest.fixture
def queue(database: Database) -> Database:
    init(database)
    return database


def show(*words: str, code: int = 0) -> Any:
    ran = run_here("show", *words, "--format", "json")
    assert ran.code == code, ran
    return ran.json


def test_a_job_in_the_queue(queue: Database, qops: Callable[..., Ran]) -> None:
    """A running job comes with its payload, what is left of its lease, and nobody who holds it."""
    fill(
        queue,
        1,
        status="'running'",
        claimed_by="'w'",
        lease_until="NOW(6) + INTERVAL 1 HOUR",
        payload="JSON_OBJECT('to', 'a@b', 'n', 1.5)",
        attempts="2",
    )
    job = show("1")
    assert (job["id"], job["state"], job["table"], job["claimed_by"]) == (1, "running", "jobs", "w")
    assert (job["payload"], job["attempts"], job["max_attempts"]) == ({"to": "a@b", "n": 1.5}, 2, 5)
    assert 3500 < job["lease_remaining_seconds"] <= 3600
    assert (job["held_by"], job["ledger"]) == (None, [])
    queue.execute("UPDATE jobs SET lease_until = NOW(6) - INTERVAL 1 HOUR")
    assert -3700 < show("1")["lease_remaining_seconds"] <= -3600


def test_the_connection_that_holds_it_is_named(queue: Database, qops: Callable[..., Ran]) -> None:
    """While a session has the row locked its connection is shown, and the session keeps its lock."""
    fill(queue, 1)
    holder = queue.connect()
    holder.cursor().execute("SELECT id FROM jobs WHERE id = 1 FOR UPDATE")
    assert show("1")["held_by"] == holder.thread_id()
    assert holder.cursor().execute("UPDATE jobs SET priority = 7 WHERE id = 1") == 1
    holder.commit()
    holder.close()
    job = show("1")
    assert (job["held_by"], job["priority"]) == (None, 7)


def test_a_job_in_the_archive(queue: Database, qops: Callable[..., Ran]) -> None:
    """An archived job is found there, and one that was restored in the queue again, with the run that named it."""
    fill(queue, 1, status="'done'", finished_at="NOW(6)")
    assert qops("archive", "--pause", "0s", "--quiet").code == 0
    job = show("1")
    assert (job["state"], job["table"], job["held_by"]) == ("done", "jobs_archive", None)
    assert qops("restore", "1", "--quiet").code == 0
    job = show("1")
    assert (job["state"], job["table"]) == ("pending", "jobs")
    assert [(run["command"], run["outcome"], run["summary"]["restored"]) for run in job["ledger"]] == [
        ("restore", "done", 1)
    ]


def test_the_runs_that_named_it(queue: Database, qops: Callable[..., Ran]) -> None:
    """Of the ledger those entries are shown that name this job, not those of a job with a like number."""
    fill(queue, 12, status="'failed'", attempts="1")
    assert qops("requeue", "1", "11", "--reason", "both", "--quiet").code == 0
    assert qops("requeue", "12", "--quiet").code == 0
    assert qops("discard", "1", "--reason", "no more", "--quiet").code == 0
    assert [(run["command"], run["reason"]) for run in show("1")["ledger"]] == [
        ("discard", "no more"),
        ("requeue", "both"),
    ]
    assert [run["reason"] for run in show("2")["ledger"]] == []


def test_a_job_that_is_nowhere(queue: Database, qops: Callable[..., Ran]) -> None:
    """Exit 1 with a document that says so; what is no id is a usage error."""
    job = show("99", code=1)
    assert (job["id"], job["table"], job["state"]) == (99, None, None)
    ran = qops("show", "99")
    assert (ran.code, ran.out) == (1, "")
    assert "job 99 of queue 'jobs' is not found" in ran.err
    assert qops("show", "x").code == 64


def test_a_long_payload_is_cut(queue: Database, qops: Callable[..., Ran]) -> None:
    """Of a payload of a megabyte the beginning is shown and the whole length told."""
    fill(queue, 1, payload="JSON_OBJECT('x', REPEAT('y', 1000000))")
    ran = qops("show", "1", "--format", "json")
    assert ran.json["payload_bytes"] == 1_000_009
    assert (len(ran.json["payload"]), ran.json["payload"][:9]) == (65_536, '{"x": "yy')
    assert "1000009 bytes" in ran.err
    (line,) = [line for line in qops("show", "1").out.splitlines() if line.startswith("payload ")]
    assert 65_500 < line.count("y") <= 65_536


@pytest.mark.parametrize(
    ("kind", "payload", "shown"),
    [
        ("JSON", b'{"a": [1, null, "\\u001b"]}', {"a": [1, None, "\x1b"]}),
        ("JSON", b'"x"', "x"),
        ("LONGTEXT", b'{"a": 1}', '{"a": 1}'),
        ("LONGBLOB", "ü\0".encode(), "ü\0"),
        ("LONGBLOB", b"a\xc3", "0x61C3"),
        ("LONGBLOB", b"\xff\x00", "0xFF00"),
        ("LONGBLOB", b"a" + "ü".encode() * 40_000, "a" + "ü" * 32_767),
        ("LONGBLOB", b"\xff" * 70_000, "0x" + "FF" * 65_536),
        ("LONGBLOB", b"", ""),
        ("LONGBLOB", None, None),
        ("INT", b"7", "7"),
    ],
)
def test_payloads_of_every_kind(
    queue: Database, qops: Callable[..., Ran], kind: str, payload: bytes | None, shown: object
) -> None:
    """A document is shown as one, a text as it is, bytes that are no text as hexadecimal, and nothing as null."""
    queue.execute(f"ALTER TABLE jobs MODIFY payload {kind} NULL")
    queue.execute(
        "INSERT INTO jobs (payload) VALUES (CONVERT(%s USING utf8mb4))"
        if kind == "JSON"
        else "INSERT INTO jobs (payload) VALUES (%s)",
        [payload],
    )
    job = show("1")
    assert job["payload"] == shown
    assert job["payload_bytes"] == (None if payload is None else len(payload))
    assert qops("show", "1").code == 0


def test_a_document_too_long_for_a_packet(qops: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch) -> None:
    """A document whose text the server does not give out is unknown, and stderr says why; the rest is shown."""
    with private_server(options=["--max-allowed-packet=1M"]) as server, fresh_database(server) as database:
        monkeypatch.setenv("QOPS_URL", database.url)
        init(database)
        document = "JSON_OBJECT('x', CONVERT(REPEAT(CHAR(1), 600000) USING utf8mb4))"  # its text is six times as long
        fill(database, 1, payload=document)
        ran = qops("show", "1", "--format", "json")
    assert (ran.code, ran.json["id"], ran.json["payload"], ran.json["payload_bytes"]) == (0, 1, None, None)
    assert "max_allowed_packet" in ran.err


def test_nothing_reaches_the_terminal_raw(queue: Database, qops: Callable[..., Ran]) -> None:
    """Control characters of an error and a payload are spelled out in the table, and exact in JSON."""
    fill(queue, 1, status="'failed'")
    queue.execute("UPDATE jobs SET last_error = %s, payload = JSON_QUOTE(%s)", (HOSTILE, HOSTILE))
    out = qops("show", "1").out
    assert not {"\x1b", "\x07", "\r", "\x00", "\u202e", "\t"} & set(out)
    assert "red" in out
    job = show("1")
    assert (job["last_error"], job["payload"]) == (HOSTILE, HOSTILE)


def test_reading_the_table_is_enough(queue: Database, qops: Callable[..., Ran]) -> None:
    """With SELECT on the table alone a job is shown, and each thing that is out of reach is said with its GRANT."""
    fill(queue, 1)
    with account(queue, "SELECT ON {db}.jobs") as limited:
        ran = run_here("show", "1", "--format", "json", "--url", limited.url)
        assert ran.code == 0
        assert (ran.json["held_by"], ran.json["ledger"], ran.json["table"]) == (None, None, "jobs")
        assert "GRANT SELECT" in ran.err
        missing = run_here("show", "9", "--format", "json", "--url", limited.url)
        assert missing.code in {1, 77}
        assert "jobs_archive" in missing.err


def test_an_account_without_the_table(queue: Database) -> None:
    """Without SELECT on the table it is exit 77 with the GRANT."""
    with account(queue, "SELECT ON {db}.qops_runs") as limited:
        ran = run_here("show", "1", "--url", limited.url)
        assert (ran.code, "GRANT SELECT" in ran.err) == (77, True)


def test_without_a_ledger_a_job_is_shown(queue: Database, qops: Callable[..., Ran]) -> None:
    """A missing ledger is no obstacle: its entries are null, and stderr says what creates it."""
    fill(queue, 1)
    queue.execute("DROP TABLE qops_runs")
    ran = qops("show", "1", "--format", "json")
    assert (ran.code, ran.json["ledger"], ran.json["state"]) == (0, None, "pending")
    assert "qops init" in ran.err
