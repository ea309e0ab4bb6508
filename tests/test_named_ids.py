"""Ids as people type them, where the id column takes several spellings for the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.accounts import account
from tests.conftest import Database, Ran, run_here
from tests.queues import init

if TYPE_CHECKING:
    from collections.abc import Callable

TABLES = """
ALTER TABLE jobs MODIFY id VARCHAR(36) COLLATE utf8mb4_0900_ai_ci NOT NULL;
ALTER TABLE jobs_archive MODIFY id VARCHAR(36) COLLATE utf8mb4_0900_ai_ci NOT NULL;
INSERT INTO jobs (id, status, payload, attempts, finished_at) VALUES ('ab', 'failed', '{}', 1, NOW(6))
"""


@pytest.fixture
def queue(database: Database) -> Database:
    init(database)
    database.script(TABLES)
    return database


def test_one_job_in_two_spellings_is_one(queue: Database, qops: Callable[..., Ran]) -> None:
    """However an id is written, its job is planned, put back, given up and brought back once, as its row has it."""
    planned = qops("requeue", "AB", "ab", "--dry-run", "--format", "json").json
    assert (planned["requeued"], planned["results"]) == (1, [{"id": "ab", "result": "requeued", "held_by": None}])
    ran = qops("requeue", "AB", "\u00e1b", "ab", "--format", "json")
    assert (ran.code, ran.json["requeued"], len(ran.json["results"])) == (0, 1, 1)
    ran = qops("discard", "\u00e1b", "ab", "--reason", "no", "--format", "json")
    assert (ran.code, ran.json["discarded"], [one["id"] for one in ran.json["results"]]) == (0, 1, ["ab"])
    assert qops("archive", "--state", "failed", "--quiet").code == 0
    ran = qops("restore", "AB", "ab", "--format", "json")
    assert (ran.code, ran.json["restored"], ran.json["not_found"]) == (0, 1, [])
    assert queue.rows("SELECT id, status FROM jobs") == [("ab", "pending")]
    ran = qops("requeue", "XY", "xy", "--format", "json")
    assert (ran.code, ran.json["not_found"]) == (1, ["XY", "xy"])


def test_an_accounts_own_limit_is_named(database: Database) -> None:
    """An hourly limit that is reached in the middle is no refused login: 69, with what raises it."""
    init(database)
    database.execute(
        "INSERT INTO jobs (status, payload, attempts, finished_at) VALUES "
        + ", ".join(["('failed', '{}', 1, NOW(6))"] * 300)
    )
    with account(database, "SELECT, UPDATE ON {db}.jobs") as limited:
        database.execute(f"ALTER USER '{limited.user}'@'%' WITH MAX_UPDATES_PER_HOUR 5")
        ran = run_here("requeue", "--failed", "--batch", "10", "--url", limited.url, "--format", "json")
    assert (ran.code, ran.json["requeued"]) == (
        69,
        database.value("SELECT COUNT(*) FROM jobs WHERE status = 'pending'"),
    )
    assert "ALTER USER" in ran.json["error"]["message"]
    assert "refused the login" not in ran.json["error"]["message"]
