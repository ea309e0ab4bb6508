"""Nothing is deleted from the queue that did not arrive unchanged, whatever the tables are or become meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dev.server import private_server
from qops.errors import Misconfigured
from qops.worker import Worker
from tests.conftest import Database, fresh_database, run_here, start_process, wait_until
from tests.queues import contents, counts, fill, init, write_config

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import Ran

CHILD = """
CREATE TABLE child (
  id INT PRIMARY KEY,
  job BIGINT UNSIGNED NOT NULL,
  FOREIGN KEY (job) REFERENCES jobs (id) ON DELETE CASCADE
)"""


@pytest.fixture
def queue(database: Database) -> Database:
    """Return the default queue with 12 finished jobs."""
    init(database)
    fill(database, 12, status="'done'", finished_at="NOW(6)", priority="n")
    return database


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ("DROP TABLE jobs_archive; CREATE VIEW jobs_archive AS SELECT * FROM jobs", "VIEW"),
        ("ALTER TABLE jobs_archive ENGINE = MyISAM", "MyISAM"),
        ("ALTER TABLE jobs_archive ENGINE = BLACKHOLE", "BLACKHOLE"),
        ("ALTER TABLE jobs_archive DROP PRIMARY KEY", "unique key"),
        ("ALTER TABLE jobs_archive DROP PRIMARY KEY, ADD PRIMARY KEY (id, status)", "unique key"),
        ("ALTER TABLE jobs_archive DROP PRIMARY KEY, DROP COLUMN id", "'id' is missing"),
        ("ALTER TABLE jobs_archive DROP COLUMN priority, ADD priority INT AS (0) STORED", "computed there"),
        ("ALTER TABLE jobs_archive ADD tenant INT NOT NULL", "'tenant' is NOT NULL"),
        ("ALTER TABLE jobs DROP KEY claim_idx, ENGINE = MyISAM", "MyISAM"),
    ],
)
def test_an_archive_that_could_lose_rows_is_refused(
    queue: Database, qops: Callable[..., Ran], change: str, named: str
) -> None:
    """No view, no engine without transactions, no table that takes an id twice: 78 by name, and every row stays."""
    for statement in change.split("; "):
        queue.execute(statement)
    ran = qops("archive", "--format", "json")
    assert ran.code == 78, ran.out
    assert named in ran.json["error"]["message"]
    assert counts(queue)["done"] == 12


def test_the_queue_is_not_its_own_archive(queue: Database, qops: Callable[..., Ran], clean_environment: Path) -> None:
    """`archive_table` that names the queue's table is refused."""
    write_config(clean_environment, '[queues.jobs]\narchive_table = "jobs"\n')
    assert qops("archive").code == 78
    assert counts(queue)["done"] == 12


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ("ALTER TABLE jobs ADD result INT", "altered during the run"),
        ("ALTER TABLE jobs_archive MODIFY created_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP", "altered"),
        (CHILD, "child"),
    ],
)
def test_what_changes_between_batches_stops_the_run(queue: Database, change: str, named: str) -> None:
    """A migration in the middle of a run: the next batch is rolled back and the run ends with 78, naming it."""
    process = start_process("archive", "--batch", "4", "--pause", "3s", "--format", "json", url=queue.url)
    wait_until(lambda: counts(queue, "jobs_archive") == {"done": 4})
    queue.execute(change)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 78, out + err
    assert named in out
    assert counts(queue)["done"] == 8
    assert counts(queue, "jobs_archive") == {"done": 4}


@pytest.mark.parametrize(
    "trigger",
    [
        "CREATE TRIGGER t BEFORE INSERT ON jobs_archive FOR EACH ROW SET NEW.payload = '{}'",
        "CREATE TRIGGER t AFTER DELETE ON jobs FOR EACH ROW DELETE FROM jobs_archive WHERE id = OLD.id",
    ],
)
def test_a_trigger_that_alters_or_removes_copies_is_noticed(
    queue: Database, qops: Callable[..., Ran], trigger: str
) -> None:
    """Where triggers act, copies are compared before and counted after the delete; the batch is rolled back (78)."""
    before = contents(queue, "jobs")
    queue.execute(trigger)
    ran = qops("archive", "--format", "json")
    assert (ran.code, ran.json["archived"]) == (78, 0)
    assert contents(queue, "jobs") == before


def test_an_account_that_may_not_see_triggers_is_safe_as_well(queue: Database, qops: Callable[..., Ran]) -> None:
    """Without the TRIGGER privilege the copies are compared in any case."""
    user = f"u{queue.name}"
    queue.execute("CREATE TRIGGER t BEFORE INSERT ON jobs_archive FOR EACH ROW SET NEW.priority = 0")
    queue.execute(f"CREATE USER '{user}'@'%' IDENTIFIED BY 'pw'")
    try:
        for table, rights in (("jobs", "SELECT, DELETE"), ("jobs_archive", "SELECT, INSERT")):
            queue.execute(f"GRANT {rights} ON {table} TO '{user}'@'%'")
        url = f"mysql://{user}:pw@{queue.host}:{queue.port}/{queue.name}"
        ran = qops("archive", "--url", url, "--assume-no-children", "--format", "json")
        assert ran.code == 78, ran.err
        assert counts(queue)["done"] == 12
    finally:
        queue.execute(f"DROP USER '{user}'@'%'")


def test_a_worker_archives_under_the_same_guard(queue: Database) -> None:
    """A worker's complete(archive=True) refuses what the archiver refuses, also what changes during its life."""
    with Worker(queue.server(), queue.queue(), "w") as worker:
        for _ in range(3):
            worker.enqueue({})
        first, second, third = worker.claim_batch(3)
        worker.complete(first, archive=True)
        queue.execute("ALTER TABLE jobs ADD result INT, ADD note VARCHAR(10) DEFAULT 'kept'")
        with pytest.raises(Misconfigured, match="altered"):
            worker.complete(second, archive=True)
        assert counts(queue)["running"] == 2
    queue.execute("ALTER TABLE jobs DROP result, DROP note")
    queue.execute("ALTER TABLE jobs_archive MODIFY created_at TIMESTAMP(0) NOT NULL DEFAULT CURRENT_TIMESTAMP")
    with Worker(queue.server(), queue.queue(), "w") as worker, pytest.raises(Misconfigured, match="created_at"):
        worker.complete(third, archive=True)
    assert counts(queue)["running"] == 2


@pytest.mark.parametrize(("pending", "done"), [("faît", "fait"), ("straße", "strasse")])
def test_states_that_the_collation_calls_equal_are_refused(
    database: Database, qops: Callable[..., Ran], clean_environment: Path, pending: str, done: str
) -> None:
    """Two states whose values the status column cannot tell apart: 78, before a pending job is archived as done."""
    database.execute("CREATE TABLE q (id INT PRIMARY KEY, status VARCHAR(10) COLLATE utf8mb4_0900_ai_ci, KEY (status))")
    database.execute("CREATE TABLE q_archive LIKE q")
    database.execute("INSERT INTO q VALUES (1, %s)", [pending])
    write_config(clean_environment, f'[queues.q.states]\npending = "{pending}"\ndone = "{done}"\n')
    ran = qops("archive", "--format", "json")
    assert ran.code == 78
    assert "equal" in ran.json["error"]["message"]
    assert database.value("SELECT COUNT(*) FROM q") == 1


def test_odd_server_defaults_change_nothing() -> None:
    """A server that limits rows of a SELECT, forbids joins or chains transactions by default is no different."""
    options = ["--max-join-size=3", "--completion-type=2"]
    with private_server(options=options) as server, fresh_database(server) as database:
        database.execute("SET GLOBAL sql_select_limit = 4")
        init(database)
        fill(database, 30, status="IF(n <= 20, 'done', 'failed')", finished_at="NOW(6)")
        before = contents_unlimited(database)
        ran = run_here("archive", "--url", database.url, "--format", "json")
        assert (ran.code, ran.json["archived"], ran.json["locked"]) == (0, 20, 0), ran.err
        assert run_here("requeue", "--failed", "--url", database.url, "--format", "json").json["requeued"] == 10
        assert run_here("health", "--url", database.url).code in {0, 1}
        assert before == 30


def contents_unlimited(database: Database) -> int:
    database.execute("SET SESSION sql_select_limit = 18446744073709551615")
    return int(database.value("SELECT COUNT(*) FROM jobs"))


def test_one_bad_row_does_not_keep_others_from_being_promoted(queue: Database, qops: Callable[..., Ran]) -> None:
    """A scheduled job that a unique key keeps out of pending is refused by name (1); the others are promoted."""
    queue.execute("DELETE FROM jobs")
    queue.execute(
        "ALTER TABLE jobs ADD live INT AS (IF(status IN ('pending', 'running'), priority, NULL)) STORED, "
        "ADD UNIQUE (live)"
    )
    fill(queue, 4, status="IF(n = 4, 'pending', 'scheduled')", priority="IF(n = 4, 2, n)")
    ran = qops("promote", "--format", "json")
    assert (ran.code, ran.json["promoted"], len(ran.json["refused"])) == (1, 2, 1)


def test_giving_up_works_with_narrow_and_strict_columns(
    queue: Database, qops: Callable[..., Ran], clean_environment: Path
) -> None:
    """A short last_error and a claimed_by that may not be NULL keep no expired job from being judged."""
    queue.execute("DELETE FROM jobs")
    queue.execute("ALTER TABLE jobs MODIFY last_error VARCHAR(20), MODIFY claimed_by VARCHAR(64) NOT NULL DEFAULT ''")
    fill(queue, 4, status="'running'", lease_until="NOW(6) - INTERVAL 1 SECOND", attempts="IF(n <= 2, 1, 9)")
    ran = qops("requeue", "--expired", "--format", "json")
    assert (ran.code, ran.json["requeued"], ran.json["exhausted"]) == (0, 2, 2), ran.out
    assert counts(queue) == {"pending": 2, "failed": 2}
