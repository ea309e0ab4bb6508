"""What doctor says of maintenance that does not run, fails, or dies."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from qops.doctor.facts import Unknown
from qops.doctor.row_facts import Maintenance, Upkeep
from tests.accounts import account
from tests.conftest import Database, fresh_database
from tests.queues import fill, init, write_config
from tests.test_doctor import HEALTHY, cure, examine, findings, of, result

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from qops.doctor.facts import Facts

RUN = """
INSERT INTO qops_runs (command, queue, arguments, started_at, finished_at, outcome, summary, operator, host,
                       connection_id)
VALUES (%s, 'jobs', '{}', NOW(6) - INTERVAL %s SECOND, IF(%s IS NULL, NULL, NOW(6)), %s, %s, 'another@%% (x)', 'h',
        4294967295)
"""


@pytest.fixture
def queue(own_server: Any) -> Iterator[Database]:
    with fresh_database(own_server) as database:
        init(database)
        yield database


def record(queue: Database, command: str, outcome: str | None, seconds: int = 0, error: str = "") -> None:
    """Make an entry of a run that began some seconds ago; without an outcome it has not ended."""
    summary = None if outcome is None else '{"error": "' + error + '"}'
    queue.execute(RUN, (command, seconds, outcome, outcome, summary))


@pytest.mark.breaks("maintenance")
def test_jobs_that_nobody_archives_are_found(queue: Database) -> None:
    """A job that is due for the archive for a week is one finding until a run of archive goes well."""
    fill(queue, 1, status="'done'", finished_at="NOW(6) - INTERVAL 6 DAY")
    assert findings(examine(queue)) == {}
    fill(queue, 1, status="'done'", finished_at="NOW(6) - INTERVAL 8 DAY")
    document = examine(queue)
    assert findings(document) == {"maintenance": "warning"}
    assert "never" in of(document, "maintenance")["observed"]
    cure(queue, document, "maintenance")
    assert queue.value("SELECT COUNT(*) FROM jobs_archive") == 2
    assert findings(examine(queue)) == {}


@pytest.mark.breaks("maintenance")
def test_runs_that_fail_in_a_row_are_found(queue: Database) -> None:
    """Three failed runs in a row are one finding with the latest error; one that was stopped is not counted."""
    for outcome in ("unavailable", "paused", "refused"):
        record(queue, "promote", outcome, error="no such luck")
    assert findings(examine(queue)) == {}
    record(queue, "promote", "refused", error="no such luck")
    document = examine(queue)
    assert findings(document) == {"maintenance": "warning"}
    assert "the last 3 runs of promote failed (refused: no such luck)" in of(document, "maintenance")["observed"]
    cure(queue, document, "maintenance")
    assert findings(examine(queue)) == {}


@pytest.mark.breaks("maintenance")
def test_a_run_that_died_is_found(queue: Database) -> None:
    """The newest run of a command that never ended, and whose connection is gone, is one finding after an hour."""
    record(queue, "requeue", None, seconds=1800)
    assert findings(examine(queue)) == {}
    record(queue, "requeue", None, seconds=4000)
    document = examine(queue)
    assert findings(document) == {"maintenance": "warning"}
    assert "never ended" in of(document, "maintenance")["observed"]
    cure(queue, document, "maintenance")
    assert findings(examine(queue)) == {}


def test_a_run_that_may_be_under_way_is_unknown(queue: Database, tmp_path: Path) -> None:
    """Who cannot see the connections of others cannot tell a dead run, and gets the GRANT that shows it."""
    config = ("--only", "maintenance", "--config", str(write_config(tmp_path, '[doctor]\nopen_run = "1s"\n')))
    record(queue, "requeue", None, seconds=1)
    with account(queue, "SELECT ON {db}.*") as limited:
        seen = of(examine(limited, *config), "maintenance")
        assert (seen["status"], seen["remedy"].partition(" TO ")[0]) == ("unknown", "GRANT PROCESS ON *.*")
        queue.execute(seen["remedy"].removesuffix(";"))
        assert findings(examine(limited, *config)) == {"maintenance": "warning"}


def test_without_a_ledger_nothing_is_known(queue: Database) -> None:
    """A ledger out of sight makes the check unknown, with the GRANT; one that is missing holds no run."""
    with account(queue, "SELECT ON {db}.jobs", "SELECT ON {db}.jobs_archive") as limited:
        seen = of(examine(limited, "--only", "maintenance"), "maintenance")
        assert (seen["status"], seen["remedy"].partition(" TO ")[0]) == (
            "unknown",
            f"GRANT SELECT ON `{queue.name}`.`qops_runs`",
        )
    queue.execute("DROP TABLE qops_runs")
    assert findings(examine(queue, "--only", "maintenance")) == {}
    fill(queue, 1, status="'done'", finished_at="NOW(6) - INTERVAL 8 DAY")
    assert findings(examine(queue, "--only", "maintenance")) == {"maintenance": "warning"}


def with_runs(*commands: Upkeep, archived: float | None = 60.0, due: bool | None = False) -> Facts:
    return replace(HEALTHY, maintenance=Maintenance(commands, archived, due, "GRANT PROCESS ON *.* TO 'a'@'%';"))


@pytest.mark.literal
@pytest.mark.parametrize(
    ("id_", "facts", "status", "remedy"),
    [
        ("maintenance", with_runs(), "pass", None),
        ("maintenance", with_runs(archived=None, due=None), "pass", None),
        ("maintenance", with_runs(due=True), "pass", None),
        ("maintenance", with_runs(archived=9 * 86_400, due=True), "warning", "archive"),
        ("maintenance", with_runs(archived=None, due=True), "warning", "archive"),
        ("maintenance", with_runs(Upkeep("promote", "promote", ("refused",) * 2)), "pass", None),
        ("maintenance", with_runs(Upkeep("requeue", "requeue --expired", ("x",) * 3)), "warning", "requeue --expired"),
        ("maintenance", with_runs(Upkeep("expire", "expire", (), "", 7, 3500.0, is_gone=True)), "pass", None),
        ("maintenance", with_runs(Upkeep("expire", "expire", (), "", 7, 3700.0, is_gone=True)), "warning", "expire"),
        ("maintenance", with_runs(Upkeep("expire", "expire", (), "", 7, 3700.0)), "unknown", "GRANT"),
        ("maintenance", replace(HEALTHY, maintenance=Unknown("no", "GRANT x;")), "unknown", "GRANT"),
    ],
)
def test_the_check_judges_literal_facts(id_: str, facts: Facts, status: str, remedy: str | None) -> None:
    """From the facts alone follow the status and the remedy."""
    found = result(facts, id_)
    assert found.status == status
    assert (found.remedy is None) if remedy is None else (remedy in str(found.remedy))
