"""Scheduled jobs become pending when their time has come, and not before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.queues import GUIDE, GUIDE_TOML, counts, fill, init, write_config

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import Database, Ran


def test_due_jobs_become_pending(database: Database, qops: Callable[..., Ran]) -> None:
    """Jobs whose time has come are promoted in batches; those of tomorrow stay."""
    init(database)
    fill(database, 20, status="'scheduled'", available_at="NOW(6) + INTERVAL IF(n <= 13, -1, 86400) SECOND")
    assert qops("promote", "--dry-run", "--format", "json").json["promoted"] == 13
    ran = qops("promote", "--batch", "5", "--format", "json")
    assert (ran.code, ran.json["promoted"], ran.json["locked"]) == (0, 13, 0)
    assert counts(database) == {"pending": 13, "scheduled": 7}
    assert database.rows("SELECT command, outcome, summary->>'$.promoted' FROM qops_runs") == [
        ("promote", "done", "13")
    ]


def test_locked_jobs_are_passed_over(database: Database, qops: Callable[..., Ran]) -> None:
    """A row that another session holds stays scheduled and is counted."""
    init(database)
    fill(database, 3, status="'scheduled'", available_at="NOW(6) - INTERVAL 1 SECOND")
    holder = database.connect()
    holder.cursor().execute("SELECT id FROM jobs WHERE id = 2 FOR UPDATE")
    ran = qops("promote", "--format", "json")
    holder.rollback()
    holder.close()
    assert (ran.json["promoted"], ran.json["locked"]) == (2, 1)


def test_a_paused_queue_promotes_nothing(database: Database, qops: Callable[..., Ran]) -> None:
    """The brake holds scheduled jobs back as well."""
    init(database)
    fill(database, 3, status="'scheduled'", available_at="NOW(6) - INTERVAL 1 SECOND")
    qops("pause")
    assert qops("promote").code == 75
    assert counts(database) == {"scheduled": 3}


def test_a_queue_without_the_state_refuses_by_name(
    database: Database, qops: Callable[..., Ran], clean_environment: Path
) -> None:
    """The guide's queue has neither role nor state: 78, naming both."""
    write_config(clean_environment, GUIDE_TOML)
    database.execute(GUIDE)
    ran = qops("promote", "--format", "json")
    assert ran.code == 78
    assert "'available_at'" in ran.json["error"]["message"]
    assert "'scheduled'" in ran.json["error"]["message"]
