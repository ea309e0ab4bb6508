"""Which jobs requeue takes, when they come back, and what it says beforehand."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from qops.worker import Worker
from tests.conftest import wait_until
from tests.queues import ARTICLE, ARTICLE_TOML, GUIDE, GUIDE_TOML, RECIPE, RECIPE_TOML, counts, fill, init, write_config

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import Database, Ran


@pytest.fixture
def queue(database: Database) -> Database:
    init(database)
    return database


def ids_of(database: Database, state: str) -> list[int]:
    return [id_ for (id_,) in database.rows("SELECT id FROM jobs WHERE status = %s ORDER BY id", [state])]


ERRORS = ("100% full", "100 of 5 full", "a_b", "axb", r"C:\temp", "C:temp", "Timeout", "timeout", "Änderung", "it's")


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("100%", [1]),
        ("_", [3]),
        (r"\t", [5]),
        ("imeout", [7, 8]),
        ("Timeout", [7]),
        ("Ä", [9]),
        ("ander", []),
        ("'", [10]),
    ],
)
def test_a_part_of_the_error_is_no_pattern(
    queue: Database, qops: Callable[..., Ran], text: str, ids: list[int]
) -> None:
    """`--error-like` finds what was typed, letter by letter: no character is special, case and accents count."""
    fill(queue, len(ERRORS), status="'failed'", finished_at="NOW(6)")
    for number, error in enumerate(ERRORS, 1):
        queue.execute("UPDATE jobs SET last_error = %s WHERE id = %s", (error, number))
    ran = qops("requeue", "--failed", "--error-like", text, "--format", "json")
    assert (ran.code, ran.json["requeued"], ids_of(queue, "pending")) == (0, len(ids), ids)


def test_the_error_is_found_in_other_character_sets(queue: Database, qops: Callable[..., Ran]) -> None:
    """A latin1 column is searched by characters; text that it cannot hold is in none of its errors."""
    queue.execute("ALTER TABLE jobs MODIFY last_error VARCHAR(200) CHARACTER SET latin1")
    fill(queue, 2, status="'failed'", last_error="IF(n = 1, 'für', 'fur')")
    assert qops("requeue", "--failed", "--error-like", "☃", "--format", "json").json["requeued"] == 0
    assert qops("requeue", "--failed", "--error-like", "fü", "--format", "json").json["requeued"] == 1
    assert ids_of(queue, "pending") == [1]


def test_the_owner_is_exact(queue: Database, qops: Callable[..., Ran]) -> None:
    """`--worker w1` takes neither W1 nor `w1 ` nor wé1 nor w10."""
    names = "ELT(n, 'w1', 'W1', 'w1 ', 'wé1', 'w10', 'w1')"
    fill(queue, 6, status="'running'", claimed_by=names, lease_until="NOW(6) - INTERVAL 1 MINUTE")
    ran = qops("requeue", "--expired", "--worker", "w1", "--format", "json")
    assert (ran.json["requeued"], ids_of(queue, "pending")) == (2, [1, 6])


def test_failed_jobs_without_an_owner_are_told_of(queue: Database, qops: Callable[..., Ran]) -> None:
    """A failed job whose owner was cleared is nobody's: `--failed --worker` leaves it and says what it can find."""
    fill(queue, 2, status="'failed'", claimed_by="IF(n = 1, 'w', NULL)")
    ran = qops("requeue", "--failed", "--worker", "w", "--format", "json")
    assert (ran.json["requeued"], ids_of(queue, "pending")) == (1, [1])
    assert "--worker" in ran.err


@pytest.mark.parametrize("indexed", [True, False])
def test_age_counts_from_the_end(queue: Database, qops: Callable[..., Ran], indexed: bool) -> None:  # noqa: FBT001
    """`--older-than` goes by finished_at of failed and lease_until of expired jobs; one without a time stays."""
    if not indexed:
        for index in ("finished_idx", "lease_idx"):
            queue.execute(f"ALTER TABLE jobs DROP INDEX {index}")
    fill(
        queue,
        4,
        status="'failed'",
        finished_at="ELT(n, NOW(6) - INTERVAL 2 HOUR, NOW(6), NULL, NOW(6) - INTERVAL 59 MINUTE)",
    )
    fill(queue, 2, status="'running'", claimed_by="'w'", lease_until="NOW(6) - INTERVAL n HOUR")
    assert qops("requeue", "--failed", "--older-than", "1h", "--format", "json").json["requeued"] == 1
    assert qops("requeue", "--expired", "--older-than", "90m", "--format", "json").json["requeued"] == 1
    assert queue.rows("SELECT payload->'$.n' FROM jobs WHERE status = 'pending' ORDER BY id") == [("1",), ("2",)]


def test_filters_hold_for_named_jobs(queue: Database, qops: Callable[..., Ran]) -> None:
    """A named job that the filters do not choose is not eligible, and says so."""
    fill(queue, 2, status="'failed'", last_error="IF(n = 1, 'boom', 'bang')", finished_at="NOW(6) - INTERVAL 1 HOUR")
    ran = qops("requeue", "1", "2", "--error-like", "boom", "--older-than", "1m", "--format", "json")
    assert [(one["id"], one["result"]) for one in ran.json["results"]] == [(1, "requeued"), (2, "not_eligible")]


def test_little_that_fits_is_found_in_bounded_steps(queue: Database, qops: Callable[..., Ran]) -> None:
    """Ten matches among 12,000 failed jobs are found, each once, and nothing else is locked or changed."""
    fill(
        queue, 12_000, status="'failed'", finished_at="NOW(6) - INTERVAL n SECOND", last_error="IF(n % 1200, 'a', 'b')"
    )
    holder = queue.connect()
    with holder.cursor() as cursor:
        cursor.execute("SET TRANSACTION ISOLATION LEVEL READ COMMITTED")
        cursor.execute("SELECT id FROM jobs WHERE id % 1200 <> 0 AND id < 5000 FOR UPDATE")
    ran = qops("requeue", "--failed", "--error-like", "b", "--format", "json")
    holder.close()
    assert (ran.json["requeued"], ran.json["locked"], ran.json["changed"]) == (10, 0, 0)
    assert ids_of(queue, "pending") == [1200 * n for n in range(1, 11)]


def test_the_limit_can_be_given(queue: Database, qops: Callable[..., Ran]) -> None:
    """`--max-attempts` judges instead of the jobs' own limit, upwards and downwards; attempts stay."""
    fill(queue, 6, status="'failed'", attempts="n", max_attempts="3")
    ran = qops("requeue", "--failed", "--max-attempts", "5", "--format", "json")
    assert (ran.json["requeued"], ran.json["exhausted"]) == (4, 2)
    assert queue.rows("SELECT attempts FROM jobs WHERE status = 'pending' ORDER BY id") == [(1,), (2,), (3,), (4,)]
    queue.execute("UPDATE jobs SET status = 'failed'")
    assert qops("requeue", "--failed", "--max-attempts", "2", "--format", "json").json["requeued"] == 1


def test_a_delay_makes_them_scheduled(queue: Database, qops: Callable[..., Ran]) -> None:
    """`--delay` gives scheduled jobs whose time is that far ahead by the server's clock; lease and owner are gone."""
    fill(queue, 3, status="'failed'", claimed_by="'w'", finished_at="NOW(6)")
    assert qops("requeue", "--failed", "--delay", "10m").code == 0
    assert counts(queue) == {"scheduled": 3}
    ((low, high),) = queue.rows(
        "SELECT MIN(TIMESTAMPDIFF(SECOND, NOW(6), available_at)), MAX(TIMESTAMPDIFF(SECOND, NOW(6), available_at)) "
        "FROM jobs WHERE claimed_by IS NULL AND finished_at IS NULL"
    )
    assert 590 <= low <= high <= 600


@pytest.mark.parametrize("kind", ["TIMESTAMP(6)", "DATETIME"])
def test_a_spread_fills_its_window_evenly(
    queue: Database, qops: Callable[..., Ran], clean_environment: Path, kind: str
) -> None:
    """2,000 jobs over 1,000 s after a delay of 100 s: none outside, about a quarter in each quarter."""
    write_config(clean_environment, '[queues.jobs]\nclock = "utc"\n')
    queue.execute(f"ALTER TABLE jobs MODIFY available_at {kind} NOT NULL DEFAULT '2020-01-01'")
    fill(queue, 2_000, status="'failed'", finished_at="NOW(6)")
    before = queue.value("SELECT UTC_TIMESTAMP(6)")
    assert qops("requeue", "--failed", "--delay", "100s", "--spread", "1000s").code == 0
    rows = queue.rows(
        "SELECT FLOOR((TIMESTAMPDIFF(SECOND, %s, CONVERT_TZ(available_at, @@time_zone, '+00:00')) - 100) / 250), "
        "COUNT(*) FROM jobs GROUP BY 1 ORDER BY 1"
        if kind.startswith("TIMESTAMP")
        else "SELECT FLOOR((TIMESTAMPDIFF(SECOND, %s, available_at) - 100) / 250), COUNT(*) FROM jobs GROUP BY 1 "
        "ORDER BY 1",
        [before],
    )
    quarters = {int(quarter): number for quarter, number in rows if 0 <= int(quarter) < 4}
    outside = sum(number for quarter, number in rows if not 0 <= int(quarter) < 4)
    assert outside <= 20  # the seconds that the run took push some beyond
    assert all(400 <= number <= 600 for number in quarters.values())


def test_a_date_that_the_column_cannot_hold_is_refused(
    queue: Database, qops: Callable[..., Ran], clean_environment: Path
) -> None:
    """Beyond 2038 a TIMESTAMP refuses by name with its limit (78), never clipped; a DATETIME takes it."""
    fill(queue, 2, status="'failed'")
    for option in ("--delay", "--spread"):
        ran = qops("requeue", "--failed", option, "5000d", "--format", "json")
        assert ran.code == 78
        assert all(word in ran.json["error"]["message"] for word in ("'available_at'", "2038-01-19 03:14:07"))
    assert counts(queue) == {"failed": 2}
    queue.execute("ALTER TABLE jobs MODIFY available_at DATETIME(6) NOT NULL DEFAULT '2020-01-01'")
    write_config(clean_environment, '[queues.jobs]\nclock = "utc"\n')
    assert qops("requeue", "--failed", "--delay", "5000d").code == 0
    assert queue.value("SELECT MIN(YEAR(available_at)) FROM jobs") >= 2040


def test_put_back_means_now(queue: Database, qops: Callable[..., Ran]) -> None:
    """A failed job whose time lies ahead is available at once; one whose time has come keeps it."""
    fill(queue, 2, status="'failed'", available_at="IF(n = 1, NOW(6) + INTERVAL 1 DAY, '2020-01-01')")
    assert qops("requeue", "--failed").code == 0
    assert queue.rows("SELECT available_at <= NOW(6), YEAR(available_at) = 2020 FROM jobs ORDER BY id") == [
        (1, 0),
        (1, 1),
    ]


def test_a_job_that_fails_again_is_not_met_twice(queue: Database, qops: Callable[..., Ran]) -> None:
    """Jobs that fail anew while a run goes on wait for the next one: their attempts are not used up by one command."""
    fill(queue, 30, status="'failed'", finished_at="NOW(6) - INTERVAL 1 HOUR", attempts="1")
    # Stands for a worker whose downstream is still gone: it fails what it gets at once.
    queue.execute(
        "CREATE TRIGGER again BEFORE UPDATE ON jobs FOR EACH ROW "
        "IF NEW.status = 'pending' THEN SET NEW.status = 'failed', NEW.finished_at = NOW(6), "
        "NEW.attempts = OLD.attempts + 1; END IF"
    )
    ran = qops("requeue", "--failed", "--batch", "10", "--format", "json")
    assert ran.json["requeued"] == 30
    assert queue.value("SELECT MAX(attempts) FROM jobs") == 2


def test_a_second_run_finds_nothing(queue: Database, qops: Callable[..., Ran]) -> None:
    """Counts are of rows that changed: again right after, it is 0."""
    fill(queue, 25, status="'failed'", finished_at="NOW(6)")
    options = ("requeue", "--failed", "--batch", "10", "--format", "json")
    assert [qops(*options).json["requeued"] for _ in range(2)] == [25, 0]
    assert queue.value("SELECT COUNT(*) FROM jobs WHERE status = 'pending'") == 25


def test_the_brake_holds_what_a_spread_has_scheduled(queue: Database, qops: Callable[..., Ran]) -> None:
    """While the queue is paused neither promote nor a claiming worker makes the jobs of a spread pending."""
    fill(queue, 4, status="'failed'")
    assert qops("requeue", "--failed", "--spread", "100ms").code == 0
    wait_until(lambda: queue.value("SELECT MAX(available_at) < NOW(6) FROM jobs"))
    qops("pause")
    assert qops("promote").code == 75
    with Worker(queue.server(), queue.queue(), "w") as worker:
        assert worker.claim_batch(4) == []
    assert counts(queue) == {"scheduled": 4}
    qops("resume")
    assert qops("promote", "--format", "json").json["promoted"] == 4


def test_the_plan_tells_what_would_happen(queue: Database, qops: Callable[..., Ran]) -> None:
    """Counts by state, folded error and age, and what stays; nothing is locked, changed or written."""
    fill(
        queue,
        10,
        status="'failed'",
        attempts="IF(n > 8, 5, 1)",
        finished_at="NOW(6) - INTERVAL n HOUR",
        last_error="IF(n % 4 = 0, CONCAT('no host ', n), CONCAT('timeout after ', n, ' s'))",
    )
    plan = qops("requeue", "--failed", "--spread", "10m", "--dry-run", "--format", "json").json["plan"]
    assert (plan["jobs"], plan["state"], plan["within_seconds"], plan["complete"]) == (8, "scheduled", 600, True)
    assert plan["states"] == [{"state": "failed", "count": 8}]
    assert [(one["error"], one["count"]) for one in plan["errors"]] == [("timeout after # s", 6), ("no host #", 2)]
    assert (plan["newest_seconds"] // 3600, plan["oldest_seconds"] // 3600) == (1, 8)
    assert [one["count"] for one in plan["untouched"]] == [2]
    assert (counts(queue), queue.value("SELECT COUNT(*) FROM qops_runs")) == ({"failed": 10}, 0)


def test_the_plan_is_bounded(queue: Database, qops: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond its bound a plan says `at least`."""
    monkeypatch.setattr("qops.requeue.plan.PLAN_BOUND", 2_000)
    fill(queue, 5_000, status="'failed'")
    document = qops("requeue", "--failed", "--dry-run", "--format", "json").json
    assert (document["requeued"], document["plan"]["complete"]) == ({"at_least": 2_000}, False)
    limited = qops("requeue", "--failed", "--dry-run", "--limit", "7", "--format", "json").json
    assert limited["requeued"] == 7


def test_the_question_shows_the_plan(queue: Database) -> None:
    """On a terminal the errors and what stays are there before the question."""
    fill(queue, 4, status="'failed'", attempts="IF(n = 4, 9, 1)", last_error="CONCAT('boom ', n)")
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "qops", "requeue", "--failed", "--url", queue.url],
        stdin=slave,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.close(slave)
    os.write(master, b"\n")
    _, err = process.communicate(timeout=30)
    os.close(master)
    assert process.returncode == 1
    question = err.index("requeue jobs of queue")
    for words in ("3 failed", "boom #", "not touched: 1 job"):
        assert 0 <= err.index(words) < question
    assert counts(queue) == {"failed": 4}


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (("--error-like", "x"), "last_error"),
        (("--worker", "x"), "claimed_by"),
        (("--delay", "1s"), "scheduled"),
        (("--spread", "1s"), "scheduled"),
    ],
)
def test_a_queue_without_the_role_or_state_refuses_by_name(
    database: Database, qops: Callable[..., Ran], clean_environment: Path, arguments: tuple[str, ...], names: str
) -> None:
    """Article: no error text, owner or scheduled state: 78 with the missing thing named, nothing changed."""
    write_config(clean_environment, ARTICLE_TOML)
    database.execute(ARTICLE)
    ran = qops("requeue", "--expired", *arguments, "--format", "json")
    assert ran.code == 78
    assert f"'{names}'" in ran.json["error"]["message"]


def test_the_other_queues_of_the_field(database: Database, qops: Callable[..., Ran], clean_environment: Path) -> None:
    """Guide: an expired job goes back by its exact owner, a limit is refused; recipe: nothing fails or expires."""
    database.execute(GUIDE)
    write_config(clean_environment, GUIDE_TOML)
    database.execute(
        "INSERT INTO jobs (status, payload, claimed_by, lease_until) VALUES "
        "('running', '{}', 'w', NOW(6) - INTERVAL 1 HOUR), ('running', '{}', 'W', NOW(6) - INTERVAL 1 HOUR)"
    )
    options = ("requeue", "--expired", "--format", "json")
    assert qops(*options, "--max-attempts", "3").code == 78
    ran = qops(*options, "--worker", "w", "--older-than", "30m")
    assert (ran.code, ran.json["requeued"], ids_of(database, "pending")) == (0, 1, [1])
    database.execute("DROP TABLE jobs")
    database.execute(RECIPE)
    write_config(clean_environment, RECIPE_TOML)
    for choice, state in (("--expired", "running"), ("--failed", "failed")):
        ran = qops("requeue", choice, "--format", "json")
        assert (ran.code, f"'{state}'" in ran.json["error"]["message"]) == (78, True)


def test_a_limit_of_the_archiver_does_not_bind_a_restricted_account(
    queue: Database, qops: Callable[..., Ran], clean_environment: Path
) -> None:
    """With [archive] max_purge_lag and an account that has only SELECT and UPDATE, it warns and puts back."""
    write_config(clean_environment, "[archive]\nmax_purge_lag = 1000\n")
    fill(queue, 3, status="'failed'")
    user = f"d{queue.name}"
    queue.execute(f"CREATE USER '{user}'@'%' IDENTIFIED BY 'pw'")
    try:
        queue.execute(f"GRANT SELECT, UPDATE ON jobs TO '{user}'@'%'")
        url = f"mysql://{user}:pw@{queue.host}:{queue.port}/{queue.name}"
        ran = qops("requeue", "--failed", "--url", url, "--format", "json")
        assert (ran.code, ran.json["requeued"]) == (0, 3), ran.err
        assert "purge lag is not watched" in ran.err
    finally:
        queue.execute(f"DROP USER '{user}'@'%'")
