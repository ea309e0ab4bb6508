"""The archiver's loop: what ends a run, and what it does between batches."""

from __future__ import annotations

import time
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

import pytest

from tests.conftest import Database, Ran, start_process, wait_until
from tests.queues import contents, counts, fill, init, write_config

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture
def queue(database: Database) -> Database:
    init(database)
    fill(database, 20, status="'done'", finished_at="NOW(6)")
    return database


@contextmanager
def purge_held_up(queue: Database) -> Iterator[None]:
    """Hold a read view, with more transactions behind it than a limit of 5 allows."""
    with closing(queue.connect()) as holder, closing(holder.cursor()) as cursor:
        cursor.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT")
        for _ in range(20):
            queue.execute("UPDATE jobs SET priority = priority + 1")
        yield
        holder.rollback()


def test_the_brake_is_seen_while_a_throttle_waits(queue: Database, qops: Callable[..., Ran]) -> None:
    """A pause that is put on during a wait ends the run (75, `paused`), and no batch begins after it."""
    with purge_held_up(queue):
        process = start_process("archive", "--max-purge-lag", "5", "--format", "json", url=queue.url)
        assert process.stderr
        assert "waiting: purge lag" in process.stderr.readline()
        assert qops("pause").code == 0
        out, err = process.communicate(timeout=20)
    ran = Ran(process.returncode, out, err)
    assert (ran.code, ran.json["stopped_by"], ran.json["archived"]) == (75, "paused", 0)
    assert ran.json["throttled_seconds"] > 0


def test_max_runtime_bounds_a_wait_and_a_pause(queue: Database, qops: Callable[..., Ran]) -> None:
    """A run that may take a second does not take longer because it waits or rests: `runtime`, exit 0."""
    with purge_held_up(queue):
        begun = time.monotonic()
        ran = qops("archive", "--max-purge-lag", "5", "--max-runtime", "500ms", "--format", "json")
        assert (ran.code, ran.json["stopped_by"], ran.json["archived"]) == (0, "runtime", 0)
    ran = qops("archive", "--batch", "5", "--pause", "60s", "--max-runtime", "500ms", "--format", "json")
    assert (ran.code, ran.json["stopped_by"], ran.json["archived"]) == (0, "runtime", 5)
    assert time.monotonic() - begun < 30


def test_a_run_does_not_rest_when_its_limit_is_reached(queue: Database, qops: Callable[..., Ran]) -> None:
    """After the last batch of a limit there is nothing to rest for."""
    begun = time.monotonic()
    ran = qops("archive", "--batch", "5", "--limit", "5", "--pause", "60s", "--format", "json")
    assert (ran.json["archived"], ran.json["stopped_by"]) == (5, "limit")
    assert time.monotonic() - begun < 30


@pytest.mark.parametrize("batch", ["0", "-1", "1000000"])
def test_a_batch_has_bounds(queue: Database, qops: Callable[..., Ran], batch: str) -> None:
    """No rows, fewer, or so many that one transaction would be huge: the command line is wrong (64)."""
    assert qops("archive", "--batch", batch).code == 64
    assert counts(queue) == {"done": 20}


def test_where_a_trigger_archives_a_copy_that_is_there_refuses_its_row(
    queue: Database, qops: Callable[..., Ran], clean_environment: Path
) -> None:
    """With `archive_by = "trigger"` the trigger meets the copy again: that row stays, with its words; others move."""
    write_config(clean_environment, '[queues.jobs]\narchive_by = "trigger"\n')
    columns = [row[0] for row in queue.rows("SHOW COLUMNS FROM jobs")]
    queue.execute(
        f"CREATE TRIGGER keep AFTER DELETE ON jobs FOR EACH ROW INSERT INTO jobs_archive ({', '.join(columns)}) "
        f"VALUES ({', '.join(f'OLD.{column}' for column in columns)})"
    )
    queue.execute("INSERT INTO jobs_archive SELECT * FROM jobs WHERE id = 7")
    before = contents(queue, "jobs")
    ran = qops("archive", "--batch", "10", "--pause", "0s", "--format", "json")
    assert (ran.code, ran.json["archived"], ran.json["reconciled"]) == (1, 19, 0), ran.err
    assert [row["id"] for row in ran.json["refused"]] == [7]
    assert set(contents(queue, "jobs")) == {7}
    assert contents(queue, "jobs_archive") == before


def test_a_copy_that_somebody_takes_away_is_made_anew(queue: Database, qops: Callable[..., Ran]) -> None:
    """A copy in the archive that is being deleted while its twin is looked at: its row moves, none is lost."""
    queue.execute("INSERT INTO jobs_archive SELECT * FROM jobs WHERE id <= 10")
    before = contents(queue, "jobs")
    with closing(queue.connect()) as other, closing(other.cursor()) as cursor:
        cursor.execute("DELETE FROM jobs_archive WHERE id <= 5")
        process = start_process("archive", "--format", "json", url=queue.url)
        waits = (
            "SELECT COUNT(*) FROM performance_schema.data_lock_waits w JOIN performance_schema.threads t "
            "ON t.thread_id = w.requesting_thread_id WHERE t.processlist_db = %s"
        )
        wait_until(lambda: queue.value(waits, [queue.name]), what="the archiver's wait for the archive")
        other.commit()
    out, err = process.communicate(timeout=30)
    ran = Ran(process.returncode, out, err)
    assert (ran.code, ran.json["archived"], ran.json["reconciled"]) == (0, 15, 5), err
    assert contents(queue, "jobs_archive") == before
