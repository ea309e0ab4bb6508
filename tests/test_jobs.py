"""Looking at jobs: which come, in which order, by which index, how much is read for them, and how it looks."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from qops.jobs.listing import EXAMINED
from tests.accounts import account
from tests.conftest import Database, Ran, run_here
from tests.measure import spent_by
from tests.queues import (
    ARTICLE,
    ARTICLE_TOML,
    GUIDE,
    GUIDE_TOML,
    RECIPE,
    RECIPE_TOML,
    contents,
    fill,
    init,
    write_config,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

KEYS = [
    "id",
    "state",
    "priority",
    "attempts",
    "max_attempts",
    "claimed_by",
    "lease_until",
    "available_at",
    "created_at",
    "finished_at",
    "last_error",
]
HOSTILE = "\x1b[31mred\x07\r\nline 2\t\u202e💥 \x00 end"


@pytest.fixture
def queue(database: Database) -> Database:
    init(database)
    return database


def jobs(*options: str) -> Any:
    ran = run_here("jobs", *options, "--format", "json")
    assert ran.code == 0, ran
    return ran.json


def ids(*options: str) -> list[int]:
    return [job["id"] for job in jobs(*options)["jobs"]]


# Which jobs, and in which order


def test_a_job_is_shown_with_all_its_facts(queue: Database, qops: Callable[..., Ran]) -> None:
    """Keys, numbers, times in UTC to the microsecond, and null for what is not set; nothing is locked or changed."""
    fill(
        queue,
        1,
        id="7",
        status="'failed'",
        priority="-3",
        attempts="2",
        max_attempts="9",
        claimed_by="'w'",
        available_at="'2026-03-08 02:30:00.000001'",
        created_at="'2026-11-01 01:30:00'",
        finished_at="'2026-11-01 05:30:00.25'",
        last_error="'no'",
    )
    before = contents(queue, "jobs")
    with closing(queue.connect()) as holder:
        holder.cursor().execute("SELECT id FROM jobs FOR UPDATE")
        document = jobs()
    assert document["queue"] == "jobs"
    assert document["more"] is False
    (job,) = document["jobs"]
    assert list(job) == KEYS
    assert job == {
        "id": 7,
        "state": "failed",
        "priority": -3,
        "attempts": 2,
        "max_attempts": 9,
        "claimed_by": "w",
        "lease_until": None,
        "available_at": "2026-03-08T02:30:00.000001Z",
        "created_at": "2026-11-01T01:30:00Z",
        "finished_at": "2026-11-01T05:30:00.250000Z",
        "last_error": "no",
    }
    assert contents(queue, "jobs") == before
    assert queue.value("SELECT COUNT(*) FROM qops_runs") == 0


def mixed(queue: Database) -> None:
    """Insert one job of each state with id 1-5, two expired ones (6, 7), and further failed ones (8, 9)."""
    fill(
        queue,
        9,
        status="ELT(n, 'done', 'failed', 'running', 'scheduled', 'pending', 'running', 'running', 'failed', 'failed')",
        lease_until="ELT(n, NULL, NULL, NOW(6) + INTERVAL 1 HOUR, NULL, NULL, NOW(6) - INTERVAL 1 HOUR, "
        "NOW(6) - INTERVAL 2 HOUR, NULL, NULL)",
        claimed_by="IF(n IN (3, 6, 7), CONCAT('w', n), NULL)",
        finished_at="IF(n IN (1, 2, 8, 9), NOW(6) - INTERVAL n HOUR, NULL)",
        available_at="NOW(6) - INTERVAL n MINUTE",
        last_error="IF(n IN (2, 8, 9), CONCAT('order ', n, ' 100%_off'), NULL)",
    )


def test_the_most_urgent_come_first(queue: Database, qops: Callable[..., Ran]) -> None:
    """Failed ones the newest first, running ones by the end of their leases, then scheduled, pending and done ones."""
    mixed(queue)
    assert ids() == [2, 8, 9, 7, 6, 3, 4, 5, 1]
    assert ids("--state", "running") == [7, 6, 3]
    assert ids("--state", "expired") == [7, 6]
    assert ids("--state", "done", "--state", "scheduled", "--state", "done") == [4, 1]


def test_pending_jobs_come_as_they_are_claimed(queue: Database, qops: Callable[..., Ran]) -> None:
    """By priority, then id: as the configured order says, whichever way its index runs."""
    fill(queue, 6, priority="n % 3")
    assert ids("--state", "pending") == [2, 5, 1, 4, 3, 6]
    queue.execute("DROP INDEX claim_idx ON jobs")
    queue.execute("CREATE INDEX claim_idx ON jobs (status, priority, id DESC)")
    assert ids("--state", "pending") == [2, 5, 1, 4, 3, 6]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--error-like", "100%_off"], [2, 8, 9]),
        (["--error-like", "order 8"], [8]),
        (["--error-like", "100_"], []),
        (["--error-like", "%"], [2, 8, 9]),
        (["--error-like", "ORDER"], []),
        (["--error-like", "örder"], []),
        (["--worker", "w6"], [6]),
        (["--worker", "W6"], []),
        (["--worker", "w6 "], []),
        (["--worker", "w"], []),
        (["--older-than", "90m"], [2, 8, 9, 7]),
        (["--older-than", "4m30s"], None),
        (["--older-than", "270s", "--state", "pending", "--state", "scheduled"], [5]),
        (["--older-than", "0s", "--state", "running"], [7, 6]),
        (["--older-than", "8h30m"], None),
        (["--older-than", "510m", "--state", "failed", "--error-like", "off"], [9]),
        (["--older-than", "1d"], []),
    ],
)
def test_filters_are_literal(
    queue: Database, qops: Callable[..., Ran], options: list[str], expected: list[int] | None
) -> None:
    """Error text and worker match to the letter, the age by the time that counts for the state."""
    mixed(queue)
    if expected is None:  # a duration has one unit
        assert run_here("jobs", *options).code == 64
    else:
        assert ids(*options) == expected


@pytest.mark.parametrize("offset", ["+00:00", "+09:00", "America/New_York"])
def test_the_servers_clock_decides(
    queue: Database, qops: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch, offset: str
) -> None:
    """Neither the zone that a worker wrote in nor the zone of this process changes an age or a time that is shown."""
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    with closing(queue.connect(autocommit=True)) as worker:
        if "/" not in offset or queue.value("SELECT CONVERT_TZ(NOW(), 'UTC', %s)", [offset]):
            worker.cursor().execute("SET time_zone = %s", [offset])
        worker.cursor().execute(
            "INSERT INTO jobs (status, payload, finished_at) VALUES ('failed', '{}', NOW(6) - INTERVAL 1 HOUR)"
        )
    assert ids("--state", "failed", "--older-than", "61m") == []
    (job,) = jobs("--state", "failed", "--older-than", "59m")["jobs"]
    ended = datetime.fromisoformat(job["finished_at"])
    assert abs(datetime.now(UTC) - ended - timedelta(hours=1)) < timedelta(minutes=1)


def test_a_limit_ends_the_list_and_more_says_so(queue: Database, qops: Callable[..., Ran]) -> None:
    """`more` is true exactly where a further job would have come, in the same state or in another."""
    fill(queue, 7, status="IF(n <= 4, 'failed', 'pending')")
    for limit, more in ((3, True), (4, True), (6, True), (7, False), (8, False)):
        document = jobs("--limit", str(limit))
        assert (len(document["jobs"]), document["more"]) == (min(limit, 7), more)
    document = jobs("--limit", "4", "--state", "failed")
    assert (len(document["jobs"]), document["more"]) == (4, False)


def test_what_is_no_state_is_said(queue: Database, qops: Callable[..., Ran]) -> None:
    """A word that is no state is a usage error that names the nearest; so is another --by."""
    ran = qops("jobs", "--state", "faild")
    assert ran.code == 64
    assert "'failed'" in ran.err
    assert qops("jobs", "--by", "worker").code == 64
    assert qops("jobs", "--limit", "0").code == 64


# How much is read


def reads(limited: Database, *options: str) -> tuple[int, Any]:
    """Return how many rows and index entries a run reads, and its document."""
    before = spent_by(limited, limited.user)
    ran = run_here("jobs", "--url", limited.url, "--format", "json", *options)
    assert ran.code == 0, ran
    return (spent_by(limited, limited.user) - before).examined, ran.json


@pytest.mark.parametrize(
    "options",
    [
        [],
        ["--state", "failed"],
        ["--state", "done"],
        ["--state", "pending"],
        ["--state", "expired"],
        ["--state", "failed", "--error-like", "order"],
    ],
)
def test_a_list_reads_as_little_of_a_large_table(queue: Database, options: list[str]) -> None:
    """Five times the rows are not more work, whatever the state: the index leads to what is shown."""
    values = {
        "status": "ELT(n % 4 + 1, 'done', 'failed', 'running', 'pending')",
        "lease_until": "IF(n % 4 = 2, NOW(6) - INTERVAL n SECOND, NULL)",
        "finished_at": "IF(n % 4 < 2, NOW(6) - INTERVAL n SECOND, NULL)",
        "last_error": "IF(n % 4 = 1, CONCAT('order ', n), NULL)",
    }
    with account(queue, "SELECT ON {db}.jobs") as limited:
        fill(queue, 4_400, **values)
        few, document = reads(limited, *options)
        assert len(document["jobs"]) == 50
        fill(queue, 20_000, **values)
        many, document = reads(limited, *options)
        assert len(document["jobs"]) == 50
        # The dictionary is read as well, the same both times but for the statistics of a table that grew.
        assert many <= few + 200, (few, many)


def test_a_filter_stops_at_its_bound(queue: Database, qops: Callable[..., Ran]) -> None:
    """Where hardly a row meets a filter, reading ends after a number of rows; `more` and stderr say that it did."""
    rows = EXAMINED + 500
    fill(queue, rows, status="'failed'", finished_at="NOW(6) - INTERVAL n SECOND", last_error="CONCAT('e', n)")
    with account(queue, "SELECT ON {db}.jobs") as limited:
        spent, document = reads(limited, "--error-like", f"e{EXAMINED - 5}")
        assert (len(document["jobs"]), document["more"]) == (1, True)
        assert spent < EXAMINED + 5_000
        _, document = reads(limited, "--error-like", f"e{rows}")
        assert (document["jobs"], document["more"]) == ([], True)
    ran = qops("jobs", "--error-like", f"e{rows}")
    assert f"looked at {EXAMINED} failed jobs" in ran.err
    assert ran.code == 0


def test_payloads_are_not_read(queue: Database, qops: Callable[..., Ran]) -> None:
    """A list of jobs with large payloads sends a small part of them."""
    fill(queue, 8, status="'failed'", payload="JSON_OBJECT('x', REPEAT('y', 1000000))", last_error="'e'")
    sent = "SELECT CAST(SUM(variable_value) AS SIGNED) FROM performance_schema.status_by_account WHERE user = %s"
    with account(queue, "SELECT ON {db}.jobs") as limited:
        reads(limited)
        reads(limited, "--by", "error")
        spent_by(queue, limited.user)
        assert queue.value(f"{sent} AND variable_name = 'Bytes_sent'", [limited.user]) < 200_000


# Groups


def test_the_same_error_is_one_line(queue: Database, qops: Callable[..., Ran]) -> None:
    """Failed jobs are grouped by what their errors share, with how many, since when, until when, and some ids."""
    fill(
        queue,
        30,
        status="IF(n <= 25, 'failed', 'done')",
        finished_at="'2026-01-01' + INTERVAL n HOUR",
        last_error=(
            "IF(n = 25, NULL, IF(n % 6 = 0, CONCAT('HTTP 503 from host-', n), CONCAT('\norder ', n, ': no\n', n)))"
        ),
    )
    document = jobs("--by", "error")
    assert list(document) == ["queue", "groups"]
    assert document["groups"] == [
        {
            "error": "order #: no",
            "count": 20,
            "first_at": "2026-01-01T01:00:00Z",
            "last_at": "2026-01-01T23:00:00Z",
            "sample_ids": [23, 22, 21, 20, 19],
        },
        {
            "error": "HTTP 503 from host-#",
            "count": 4,
            "first_at": "2026-01-01T06:00:00Z",
            "last_at": "2026-01-02T00:00:00Z",
            "sample_ids": [24, 18, 12, 6],
        },
        {
            "error": None,
            "count": 1,
            "first_at": "2026-01-02T01:00:00Z",
            "last_at": "2026-01-02T01:00:00Z",
            "sample_ids": [25],
        },
    ]
    assert len(jobs("--by", "error", "--limit", "2")["groups"]) == 2
    (group,) = jobs("--by", "error", "--error-like", "order 2")["groups"]
    assert group["count"] == 5
    (group,) = jobs("--by", "error", "--state", "done", "--error-like", "order")["groups"]
    assert group["count"] == 4
    table = qops("jobs", "--by", "error").out
    assert re.search(
        r"^20 +order #: no +2026-01-01T01:00:00Z +2026-01-01T23:00:00Z +23, 22, 21, 20, 19$", table, re.MULTILINE
    )


def test_groups_stop_at_their_bound(queue: Database, qops: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the bound every count is `at_least`, and stderr says how far was looked."""
    monkeypatch.setattr("qops.jobs.listing.GROUPED", 1_500)
    fill(queue, 1_600, status="'failed'", finished_at="NOW(6)", last_error="CONCAT('order ', n)")
    ran = qops("jobs", "--by", "error", "--format", "json")
    assert [group["count"] for group in ran.json["groups"]] == [{"at_least": 1_500}]
    assert "looked at 1500 failed jobs" in ran.err
    assert ">= 1500" in qops("jobs", "--by", "error").out


# Other queues


def test_the_guides_queue(database: Database, qops: Callable[..., Ran], clean_environment: Path) -> None:
    """Without attempts, errors and times these are null; what a filter needs and the queue lacks is refused."""
    write_config(clean_environment, GUIDE_TOML)
    database.execute(GUIDE)
    database.execute(
        "INSERT INTO jobs (status, priority, payload, claimed_by, lease_until) VALUES "
        "('pending', 1, '{}', NULL, NULL), "
        "('running', 0, '{}', 'w', NOW(6) - INTERVAL 5 MINUTE), ('running', 0, '{}', 'w', NOW(6) + INTERVAL 5 MINUTE)"
    )
    (expired,) = jobs("--state", "expired")["jobs"]
    assert (expired["id"], expired["state"], expired["claimed_by"], expired["attempts"]) == (2, "running", "w", None)
    assert (expired["max_attempts"], expired["created_at"], expired["last_error"]) == (None, None, None)
    assert sorted(ids("--worker", "w")) == [2, 3]
    assert ids("--older-than", "1m") == [2]
    for refused in (
        ["--error-like", "x"],
        ["--by", "error"],
        ["--state", "scheduled"],
        ["--state", "done", "--older-than", "1s"],
    ):
        ran = qops("jobs", *refused)
        assert ran.code == 78, refused


@pytest.mark.parametrize("indexed", [True, False])
def test_the_recipes_queue(
    database: Database, qops: Callable[..., Ran], clean_environment: Path, *, indexed: bool
) -> None:
    """Two states under other names and no more: it is listed, also where no index begins with the state."""
    write_config(clean_environment, RECIPE_TOML)
    database.execute(RECIPE if indexed else RECIPE.replace(", KEY (state, id)", ""))
    database.execute(
        "INSERT INTO jobs VALUES (1, 'a', 'done'), (2, 'b', 'queued'), (3, 'c', 'other'), (4, 'd', 'queued')"
    )
    assert ids() == ([2, 4, 1] if indexed else [4, 2, 1])
    assert sorted(ids("--state", "pending")) == [2, 4]
    assert qops("jobs", "--state", "expired").code == 78


def test_without_an_index_reading_stops_at_the_bound(database: Database, clean_environment: Path) -> None:
    """Where no index begins with the status the newest jobs are looked at, and no more than the bound."""
    write_config(clean_environment, RECIPE_TOML)
    database.execute(RECIPE.replace(", KEY (state, id)", ""))
    database.execute("SET SESSION cte_max_recursion_depth = 1000000")
    database.execute(
        "INSERT INTO jobs WITH RECURSIVE s AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM s WHERE n < %s) "
        "SELECT n, 'x', IF(n < 10, 'queued', 'done') FROM s",
        [EXAMINED + 1_000],
    )
    with account(database, "SELECT ON {db}.jobs") as limited:
        spent, document = reads(limited, "--state", "pending")
    assert (document["jobs"], document["more"]) == ([], True)
    assert spent < EXAMINED + 5_000


@pytest.mark.parametrize(("clock", "hours"), [('"utc"', 0), ('"+08:00"', 8), ('"-05:30"', -5.5)])
def test_the_articles_queue(
    database: Database, qops: Callable[..., Ran], clean_environment: Path, clock: str, hours: float
) -> None:
    """DATETIME columns are shown in UTC, and compared, by the clock that was declared; limits by the configuration."""
    write_config(clean_environment, ARTICLE_TOML.replace('"utc"', clock))
    database.execute(ARTICLE)
    minutes = round(hours * 60)
    database.execute(
        "INSERT INTO job_queue VALUES "
        "(1, '{}', 'processing', '2026-03-08 02:30:00', UTC_TIMESTAMP() + INTERVAL %s MINUTE, 3),"
        "(2, '{}', 'processing', '2026-03-08 02:30:00', UTC_TIMESTAMP() + INTERVAL %s MINUTE, 1)",
        [minutes - 10, minutes + 10],
    )
    (job,) = jobs("--state", "expired")["jobs"]
    assert (job["id"], job["attempts"], job["max_attempts"], job["priority"]) == (1, 3, 5, None)
    expected = datetime(2026, 3, 8, 2, 30, tzinfo=UTC) - timedelta(hours=hours)
    assert datetime.fromisoformat(job["available_at"]) == expected
    assert job["available_at"].endswith("Z")


def test_without_a_clock_times_are_unknown(
    database: Database, qops: Callable[..., Ran], clean_environment: Path
) -> None:
    """A DATETIME of an undeclared clock is shown as null, with the reason; where it is compared, that is refused."""
    write_config(clean_environment, ARTICLE_TOML.replace('clock = "utc"', ""))
    database.execute(ARTICLE)
    database.execute("INSERT INTO job_queue VALUES (1, '{}', 'processing', NOW(), NOW(), 0)")
    ran = qops("jobs", "--format", "json")
    (job,) = ran.json["jobs"]
    assert (ran.code, job["available_at"], job["lease_until"]) == (0, None, None)
    assert "'lease_until', 'available_at'" in ran.err
    assert 'clock = "utc"' in ran.err
    assert qops("jobs", "--state", "expired").code == 78
    assert qops("jobs", "--older-than", "1s").code == 78


def test_zero_dates_and_dates_beyond_2038(
    database: Database, qops: Callable[..., Ran], clean_environment: Path
) -> None:
    """A zero date is unknown; a DATETIME beyond 2038 is a time like any other."""
    write_config(clean_environment, ARTICLE_TOML)
    database.execute(ARTICLE)
    with closing(database.connect(autocommit=True)) as lax:
        lax.cursor().execute("SET sql_mode = ''")
        lax.cursor().execute(
            "INSERT INTO job_queue VALUES (1, '{}', 'processing', '0000-00-00', NULL, 0), "
            "(2, '{}', 'processing', '2041-01-01', '2041-01-01', 0), (3, '{}', 'ready', '0000-00-00', NULL, 0)"
        )
    found = {job["id"]: job["available_at"] for job in jobs()["jobs"]}
    assert found == {1: None, 2: "2041-01-01T00:00:00Z", 3: None}


def test_odd_names_and_several_values(database: Database, qops: Callable[..., Ran], clean_environment: Path) -> None:
    """Quoted names, a text as id and a state of two values are nothing special."""
    database.execute(
        "CREATE TABLE `my jobs%` (`key``s` VARCHAR(20) PRIMARY KEY, `order` INT NOT NULL, `who:` TEXT, KEY (`order`))"
    )
    write_config(
        clean_environment,
        """
[queues.odd]
table = "my jobs%"
[queues.odd.columns]
id = "key`s"
status = "order"
claimed_by = "who:"
[queues.odd.states]
pending = 0
done = [1, 2]
""",
    )
    database.execute("INSERT INTO `my jobs%` VALUES ('a', 0, NULL), ('b', 2, 'w'), ('c', 1, 'w:'), ('d', 9, 'w')")
    assert [(job["id"], job["state"]) for job in jobs()["jobs"]] == [("a", "pending"), ("c", "done"), ("b", "done")]
    assert list(map(str, ids("--worker", "w"))) == ["b"]


# How it looks


def test_every_value_is_in_full_on_one_line(queue: Database, qops: Callable[..., Ran]) -> None:
    """Without a terminal nothing is cut, and control characters are spelled out."""
    text = HOSTILE + "x" * 5_000
    queue.execute("INSERT INTO jobs (status, payload, last_error) VALUES ('failed', '{}', %s)", [text])
    ran = qops("jobs")
    assert ran.code == 0
    (line,) = (line for line in ran.out.splitlines() if "red" in line)
    assert "\\x1b[31mred\\x07\\r\\nline 2\\t\\u202e💥 \\x00 end" + "x" * 5_000 in line
    assert "\x1b" not in ran.out
    assert jobs()["jobs"][0]["last_error"] == text


def test_a_table_fits_the_terminal(queue: Database) -> None:
    """On a terminal columns without a value are left out, and long ones are cut so that a job is one line."""
    fill(queue, 3, status="'failed'", last_error="CONCAT('boom ', n, REPEAT(' and so on', 50))", claimed_by="'worker'")
    master, slave = pty.openpty()
    environment = os.environ | {"QOPS_URL": queue.url, "COLUMNS": "150", "LINES": "40"}
    process = subprocess.Popen(
        [sys.executable, "-m", "qops", "jobs"], stdin=slave, stdout=slave, stderr=subprocess.PIPE, env=environment
    )
    os.close(slave)
    shown = b""
    while True:
        try:
            part = os.read(master, 65_536)
        except OSError:
            break
        if not part:
            break
        shown += part
    assert process.wait(60) == 0
    process.communicate()
    os.close(master)
    lines = shown.decode().splitlines()
    assert len(lines) == 5
    assert all(len(line) <= 150 for line in lines)
    assert "lease_until" not in lines[0]
    assert all("worker" in line and "boom" in line and line.endswith("…") for line in lines[2:])


def test_nothing_to_show(queue: Database, qops: Callable[..., Ran]) -> None:
    """An empty queue is said in words, and is an empty list in JSON; --quiet prints nothing."""
    assert jobs() == {"queue": "jobs", "jobs": [], "more": False}
    assert jobs("--by", "error") == {"queue": "jobs", "groups": []}
    assert "no such jobs" in qops("jobs").out
    ran = qops("jobs", "--quiet")
    assert (ran.code, ran.out, ran.err) == (0, "", "")


def test_reading_is_enough(queue: Database) -> None:
    """An account with SELECT on the table lists and groups, and hears no complaint."""
    mixed(queue)
    with account(queue, "SELECT ON {db}.jobs") as limited:
        for options in ([], ["--by", "error"], ["--state", "expired"]):
            ran = run_here("jobs", *options, "--url", limited.url, "--format", "json")
            warnings = [line for line in ran.err.splitlines() if "password on the command line" not in line]
            assert (ran.code, warnings) == (0, [])
            assert json.loads(ran.out)
