"""Deleting what is past its retention: archived jobs by age, entries of the ledger; no more than that."""

from __future__ import annotations

import json
import os
import pty
import random
import signal
import subprocess
import sys
import threading
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from tests.accounts import account
from tests.conftest import Database, Ran, run_here, run_process, start_process, wait_until
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
from tests.workload import check_nothing_open

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SEED = int(os.environ.get("QOPS_TEST_SEED", str(random.randrange(10**6))))  # noqa: S311 - no secret


@pytest.fixture
def queue(database: Database) -> Database:
    init(database)
    return database


def archive_jobs(queue: Database, number: int, **values: str) -> None:
    """Put jobs into the archive, without the archiver; by default they finished `n` days ago."""
    columns = {"status": "'done'", "finished_at": "NOW(6) - INTERVAL n DAY"} | values
    fill(queue, number, **columns)
    queue.execute("INSERT INTO jobs_archive SELECT * FROM jobs")
    queue.execute("DELETE FROM jobs")


def ids(queue: Database, table: str = "jobs_archive") -> list[int]:
    return [id_ for (id_,) in queue.rows(f"SELECT id FROM {table} ORDER BY id")]


def without_index(queue: Database) -> None:
    queue.execute("ALTER TABLE jobs_archive DROP INDEX finished_idx")


def expire(qops: Callable[..., Ran], *options: str) -> Ran:
    return qops("expire", *options, "--format", "json")


# Archived jobs


@pytest.mark.parametrize("indexed", [True, False], ids=["by index", "by primary key"])
def test_old_jobs_go_and_young_ones_stay(queue: Database, qops: Callable[..., Ran], *, indexed: bool) -> None:
    """Jobs that finished at least so long ago are deleted, in batches of the size asked for; the others are as before.

    A dry run says the same number, and changes nothing; a second run finds nothing.
    """
    archive_jobs(queue, 60)
    fill(queue, 3, status="'done'", finished_at="NOW(6) - INTERVAL 900 DAY")
    if not indexed:
        without_index(queue)
    before = contents(queue, "jobs_archive"), contents(queue, "jobs")
    planned = expire(qops, "--older-than", "30d", "--dry-run")
    assert (planned.code, planned.json["expired"], planned.json["dry_run"]) == (0, 31, True)
    assert (contents(queue, "jobs_archive"), contents(queue, "jobs")) == before
    assert queue.value("SELECT COUNT(*) FROM qops_runs") == 0
    ran = expire(qops, "--older-than", "30d", "--batch", "7")
    assert (ran.code, ran.json["expired"], ran.json["locked"], ran.json["undated"]) == (0, 31, 0, 0)
    assert ran.json["batches"] == 5 if indexed else ran.json["batches"] > 4
    assert contents(queue, "jobs_archive") == {id_: row for id_, row in before[0].items() if id_ < 30}
    assert contents(queue, "jobs") == before[1]
    assert ("no index" in ran.err) is not indexed
    assert expire(qops, "--older-than", "30d").json["expired"] == 0
    assert queue.rows("SELECT outcome, summary->'$.expired', arguments->'$.older_than_seconds' FROM qops_runs")[0] == (
        "done",
        "31",
        "2592000.0",
    )


def test_without_an_age_no_job_is_deleted(queue: Database, qops: Callable[..., Ran]) -> None:
    """The default is to keep every archived job, and the output says so."""
    archive_jobs(queue, 5, finished_at="NOW(6) - INTERVAL 10 YEAR")
    ran = expire(qops)
    assert (ran.code, ran.json["expired"], ran.json["undated"]) == (0, 0, 0)
    assert "--older-than" in qops("expire").out
    assert len(ids(queue)) == 5


@pytest.mark.parametrize("indexed", [True, False], ids=["by index", "by primary key"])
def test_jobs_without_a_time_stay_and_are_counted(queue: Database, qops: Callable[..., Ran], *, indexed: bool) -> None:
    """NULL and the zero date are no age: such jobs stay, are counted as undated, and the exit is 1."""
    archive_jobs(queue, 9, finished_at="IF(n <= 4, NULL, NOW(6) - INTERVAL 90 DAY)")
    with closing(queue.connect(autocommit=True)) as lax:
        lax.cursor().execute("SET sql_mode = ''")
        lax.cursor().execute("UPDATE jobs_archive SET finished_at = '0000-00-00' WHERE id = 4")
    if not indexed:
        without_index(queue)
    planned = expire(qops, "--older-than", "30d", "--dry-run")
    assert (planned.code, planned.json["expired"], planned.json["undated"]) == (1, 5, 4)
    ran = expire(qops, "--older-than", "30d", "--batch", "3")
    assert (ran.code, ran.json["expired"], ran.json["undated"]) == (1, 5, 4)
    assert ids(queue) == [1, 2, 3, 4]


@pytest.mark.parametrize("indexed", [True, False], ids=["by index", "by primary key"])
def test_held_rows_are_passed_over(queue: Database, qops: Callable[..., Ran], *, indexed: bool) -> None:
    """A row that another session holds stays and is counted; nothing waits for it."""
    archive_jobs(queue, 6, finished_at="NOW(6) - INTERVAL 90 DAY")
    if not indexed:
        without_index(queue)
    with closing(queue.connect()) as holder:
        for held in (2, 5):
            holder.cursor().execute("SELECT id FROM jobs_archive WHERE id = %s FOR UPDATE", [held])
        ran = expire(qops, "--older-than", "30d", "--batch", "4")
    assert (ran.code, ran.json["expired"], ran.json["locked"]) == (0, 4, 2)
    assert ids(queue) == [2, 5]


ALL = (
    "SELECT ON {db}.jobs",
    "SELECT, DELETE ON {db}.jobs_archive",
    "SELECT, INSERT, UPDATE, DELETE ON {db}.qops_runs",
    "PROCESS ON *.*",
)


def reads_of(limited: Database, *options: str) -> int:
    """Return how many rows and index entries a run reads, the dictionary's too."""
    before = spent_by(limited, limited.user)
    assert run_here("expire", *options, "--url", limited.url).code == 0
    return (spent_by(limited, limited.user) - before).reads


def test_nothing_is_scanned(queue: Database) -> None:
    """With the index a run reads a small multiple of what it deletes, and one that finds nothing next to nothing."""
    with account(queue, *ALL) as limited:
        reads_of(limited, "--older-than", "30d")  # fills the caches of the dictionary
        nothing = reads_of(limited, "--older-than", "30d")
        archive_jobs(queue, 3000, finished_at="NOW(6) - INTERVAL IF(n % 10, 1, 90) DAY")
        # Each row is read to find it, to lock it and to delete it.
        assert reads_of(limited, "--older-than", "30d", "--batch", "100") - nothing < 300 * 6
        assert len(ids(queue)) == 2700
        assert reads_of(limited, "--older-than", "30d") - nothing < 100


def test_an_index_of_another_shape_serves(queue: Database, qops: Callable[..., Ran]) -> None:
    """An index that begins with the time and goes on with something else leads to the old jobs as well."""
    without_index(queue)
    queue.execute(
        "ALTER TABLE jobs_archive ADD KEY reports (finished_at DESC, last_error(20)), "
        "ADD KEY wide (finished_at, priority, claimed_by)"
    )
    archive_jobs(queue, 40, claimed_by="IF(n % 3, NULL, 'w')", finished_at="NOW(6) - INTERVAL n DIV 4 DAY")
    ran = expire(qops, "--older-than", "5d", "--batch", "3")
    assert (ran.code, ran.json["expired"], ran.err) == (0, 21, "")
    assert ids(queue) == list(range(1, 20))


def test_a_row_that_is_referred_to_stays(queue: Database, qops: Callable[..., Ran]) -> None:
    """ON DELETE RESTRICT, or a trigger that objects, costs only its own row, which is reported (exit 1)."""
    archive_jobs(queue, 10, finished_at="NOW(6) - INTERVAL 90 DAY")
    queue.execute("CREATE TABLE child (job BIGINT UNSIGNED, FOREIGN KEY (job) REFERENCES jobs_archive (id))")
    queue.execute("INSERT INTO child VALUES (4)")
    queue.execute(
        "CREATE TRIGGER keep BEFORE DELETE ON jobs_archive FOR EACH ROW "
        "IF OLD.id = 7 THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'not seven'; END IF"
    )
    ran = expire(qops, "--older-than", "30d")
    assert (ran.code, ran.json["expired"], ran.json["stopped_by"]) == (1, 8, "done")
    reasons = {row["id"]: row["reason"] for row in ran.json["refused"]}
    assert reasons.keys() == {4, 7}
    assert "child" in reasons[4]
    assert "not seven" in reasons[7]
    assert ids(queue) == [4, 7]


@pytest.mark.parametrize("effect", ["CASCADE", "SET NULL"])
def test_children_that_would_change_refuse_the_run(queue: Database, qops: Callable[..., Ran], effect: str) -> None:
    """A foreign key that deletes or changes other rows: 78 naming it, nothing deleted; --allow-cascade is the way."""
    archive_jobs(queue, 3, finished_at="NOW(6) - INTERVAL 90 DAY")
    queue.execute(
        "CREATE TABLE child (job BIGINT UNSIGNED, "
        f"FOREIGN KEY own (job) REFERENCES jobs_archive (id) ON DELETE {effect})"
    )
    queue.execute("INSERT INTO child VALUES (2)")
    for options in ((), ("--dry-run",)):
        ran = expire(qops, "--older-than", "30d", *options)
        assert ran.code == 78
        assert "child" in ran.json["error"]["message"]
        assert "expire --allow-cascade" in ran.json["error"]["message"]
    assert len(ids(queue)) == 3
    assert expire(qops).code == 0  # the ledger has no children
    assert expire(qops, "--older-than", "30d", "--allow-cascade").json["expired"] == 3


def test_a_child_that_comes_during_the_run_stops_it(queue: Database) -> None:
    """A foreign key that cascades, added between two batches, is seen before the next one deletes anything."""
    archive_jobs(queue, 4000, finished_at="NOW(6) - INTERVAL 90 DAY")
    process = start_process("expire", "--older-than", "30d", "--batch", "5", "--format", "json", url=queue.url)
    wait_until(lambda: len(ids(queue)) < 4000, what="the first batch")
    queue.execute("SET SESSION lock_wait_timeout = 20")
    queue.execute(
        "CREATE TABLE child (job BIGINT UNSIGNED, FOREIGN KEY (job) REFERENCES jobs_archive (id) ON DELETE CASCADE)"
    )
    left = len(ids(queue))
    out, _ = process.communicate(timeout=60)
    document = json.loads(out)
    assert (process.returncode, document["stopped_by"]) == (78, "refused")
    assert len(ids(queue)) == 4000 - document["expired"] == left


def test_an_account_that_sees_no_foreign_keys_is_told(queue: Database) -> None:
    """Without PROCESS the run is refused (77) with the GRANT, unless --assume-no-children."""
    archive_jobs(queue, 3, finished_at="NOW(6) - INTERVAL 90 DAY")
    with account(queue, *ALL[:-1]) as limited:
        ran = run_here("expire", "--older-than", "30d", "--url", limited.url, "--format", "json")
        assert ran.code == 77
        assert "GRANT PROCESS" in ran.json["error"]["message"]
        assert len(ids(queue)) == 3
        options = ("--assume-no-children", "--older-than", "30d")
        ran = run_here("expire", *options, "--url", limited.url, "--format", "json")
        assert (ran.code, ran.json["expired"]) == (0, 3), ran


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("ALTER TABLE jobs_archive DROP COLUMN finished_at", "'finished_at'"),
        ("ALTER TABLE jobs_archive MODIFY finished_at VARCHAR(30)", "varchar(30)"),
        ("ALTER TABLE jobs_archive ENGINE = MyISAM", "MyISAM"),
        ("ALTER TABLE jobs_archive DROP PRIMARY KEY, ADD UNIQUE (id)", "primary key"),
        ("ALTER TABLE jobs_archive MODIFY id VARCHAR(30) NOT NULL", "varchar(30)"),
        ("DROP TABLE jobs_archive", "jobs_archive"),
    ],
)
def test_an_archive_that_does_not_serve_is_refused(
    queue: Database, qops: Callable[..., Ran], change: str, words: str
) -> None:
    """An archive without a time, without transactions or without its id as primary key: 78 that says which."""
    archive_jobs(queue, 3, finished_at="NOW(6) - INTERVAL 90 DAY")
    queue.execute(change)
    ran = expire(qops, "--older-than", "30d")
    assert ran.code == 78
    assert words in ran.json["error"]["message"]
    assert queue.value("SELECT COUNT(*) FROM qops_runs") == 0


# The queues of the field


@pytest.mark.parametrize(("table", "toml"), [(GUIDE, GUIDE_TOML), (RECIPE, RECIPE_TOML), (ARTICLE, ARTICLE_TOML)])
def test_a_queue_without_finish_times_refuses_by_name(
    database: Database, qops: Callable[..., Ran], clean_environment: Path, table: str, toml: str
) -> None:
    """The tables of the field have no finish time: an age is refused (78) by the role's name, the ledger is cleared."""
    write_config(clean_environment, toml)
    database.execute(table)
    init(database)
    ran = expire(qops, "--older-than", "30d")
    assert ran.code == 78
    assert "'finished_at'" in ran.json["error"]["message"]
    assert expire(qops).code == 0


def test_own_names_and_a_declared_clock(database: Database, qops: Callable[..., Ran], clean_environment: Path) -> None:
    """Names with quotes, a text id, a DATETIME that its owner writes in another zone: judged by the declared clock."""
    write_config(
        clean_environment,
        '[queues.odd]\ntable = "my `jobs`"\narchive_table = "my `old` %s :x jobs"\nclock = "+08:00"\n'
        '[queues.odd.columns]\nid = "k%s"\nfinished_at = "ended :at"\n',
    )
    for name in ("my ``jobs``", "my ``old`` %s :x jobs"):
        database.execute(
            f"CREATE TABLE `{name}` (`k%s` VARCHAR(20) COLLATE utf8mb4_bin PRIMARY KEY, status VARCHAR(10), "
            "`ended :at` DATETIME)".replace("%s", "%%s"),
            (),
        )
    for key, hours in (("old", 31 * 24), ("edge", 30 * 24 + 1), ("young", 30 * 24 - 1), ("NEW", 0)):
        database.execute(
            "INSERT INTO `my ``old`` %%s :x jobs` VALUES (%s, 'done', UTC_TIMESTAMP() + INTERVAL 8 - %s HOUR)",
            (key, hours),
        )
    planned = expire(qops, "--older-than", "30d", "--dry-run")
    ran = expire(qops, "--older-than", "30d", "--batch", "1")
    assert (ran.code, ran.json["expired"], planned.json["expired"]) == (0, 2, 2), ran.err
    assert database.rows("SELECT `k%%s` FROM `my ``old`` %%s :x jobs` ORDER BY 1", ()) == [("NEW",), ("young",)]


def test_an_undeclared_clock_refuses(database: Database, qops: Callable[..., Ran], clean_environment: Path) -> None:
    """A DATETIME in the archive without a declared clock: 78, before anything is deleted or recorded."""
    init(database)
    database.execute("ALTER TABLE jobs_archive MODIFY finished_at DATETIME(6)")
    ran = expire(qops, "--older-than", "30d")
    assert ran.code == 78
    assert "clock" in ran.json["error"]["message"]
    assert database.value("SELECT COUNT(*) FROM qops_runs") == 0


# Brake, throttles, questions


def test_the_brake_stops_it(queue: Database, qops: Callable[..., Ran]) -> None:
    """A paused queue: 75, `paused`, nothing deleted; a dry run still answers."""
    archive_jobs(queue, 3, finished_at="NOW(6) - INTERVAL 90 DAY")
    qops("pause")
    ran = expire(qops, "--older-than", "30d")
    assert (ran.code, ran.json["stopped_by"], ran.json["expired"]) == (75, "paused", 0)
    assert ran.json["ledger_expired"] is None
    assert len(ids(queue)) == 3
    assert expire(qops, "--older-than", "30d", "--dry-run").json["expired"] == 3


def test_the_archivers_limits_hold(queue: Database, qops: Callable[..., Ran], clean_environment: Path) -> None:
    """Purge lag above the limit of [archive]: it waits, and ends with 75 and `throttle`."""
    archive_jobs(queue, 3, finished_at="NOW(6) - INTERVAL 90 DAY")
    write_config(clean_environment, '[archive]\nmax_purge_lag = 5\nmax_wait = "200ms"\n')
    with closing(queue.connect()) as holder:
        holder.cursor().execute("START TRANSACTION WITH CONSISTENT SNAPSHOT")
        for _ in range(20):
            queue.execute("UPDATE jobs_archive SET priority = priority + 1")
        ran = expire(qops, "--older-than", "30d")
    assert (ran.code, ran.json["stopped_by"], ran.json["expired"]) == (75, "throttle", 0)
    assert [wait["reason"] for wait in ran.json["throttles"]] == ["purge-lag"]
    assert len(ids(queue)) == 3


@pytest.mark.parametrize(("answer", "code", "left"), [("y\n", 0, 0), ("n\n", 1, 3), ("\n", 1, 3)])
def test_on_a_terminal_it_asks(queue: Database, answer: str, code: int, left: int) -> None:
    """More than one archived job: it shows what would go and asks on a terminal, and Enter means no (1)."""
    archive_jobs(queue, 3, finished_at="NOW(6) - INTERVAL 90 DAY")
    leader, follower = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "qops", "expire", "--older-than", "30d", "--url", queue.url],
        stdin=follower,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    os.close(follower)
    os.write(leader, answer.encode())
    _, err = process.communicate(timeout=30)
    os.close(leader)
    assert (process.returncode, len(ids(queue))) == (code, left), err
    assert b"would delete 3 archived jobs" in err


def test_nothing_is_asked_where_nothing_of_several_goes(queue: Database) -> None:
    """One job, only the ledger, or --yes: no question, also on a terminal."""
    archive_jobs(queue, 3, finished_at="NOW(6) - INTERVAL IF(n = 3, 90, 1) DAY")
    leader, follower = pty.openpty()
    for options in ((), ("--older-than", "30d"), ("--older-than", "0s", "--yes")):
        ran = run_process("expire", *options, url=queue.url, stdin=follower)
        assert ran.code == 0, ran
        assert "?" not in ran.err
    os.close(leader)
    os.close(follower)
    assert ids(queue) == []


# Whatever ends it


@pytest.mark.parametrize("way", ["SIGKILL", "SIGTERM", "SIGINT", "KILL", "KILL QUERY"])
def test_whatever_ends_it_its_counts_are_true(queue: Database, way: str) -> None:
    """Struck at a random moment: only old jobs are gone, as many as the document says; the next run does the rest."""
    print(f"QOPS_TEST_SEED={SEED}")  # noqa: T201 - to repeat it
    chance = random.Random(SEED)  # noqa: S311 - no secret
    archive_jobs(queue, 1500, finished_at="NOW(6) - INTERVAL IF(n % 5, 90, 1) DAY")
    process = start_process("expire", "--older-than", "30d", "--batch", "20", "--format", "json", url=queue.url)
    goal = 1500 - chance.randrange(20, 700)
    wait_until(lambda: queue.value("SELECT COUNT(*) FROM jobs_archive") <= goal, what="some batches")
    if way.startswith("SIG"):
        process.send_signal(signal.Signals[way])
    else:
        queue.execute(f"{way} {queue.value('SELECT MAX(connection_id) FROM qops_runs')}")
    out, err = process.communicate(timeout=60)
    check_nothing_open(queue)
    gone = 1500 - len(ids(queue))
    assert queue.value("SELECT COUNT(*) FROM jobs_archive WHERE finished_at > NOW() - INTERVAL 30 DAY") == 300
    assert "Traceback" not in err
    if way == "SIGKILL":
        assert queue.value("SELECT COUNT(*) FROM qops_runs WHERE finished_at IS NULL") == 1
    else:
        codes = {"SIGTERM": {143}, "SIGINT": {130}, "KILL": {69}, "KILL QUERY": {0, 75}}
        assert process.returncode in codes[way], err
        assert json.loads(out)["expired"] == gone
        assert queue.rows("SELECT summary->'$.expired' FROM qops_runs") == [(str(gone),)]
    assert run_here("expire", "--older-than", "30d", "--url", queue.url).code == 0
    assert len(ids(queue)) == 300


def test_several_at_once_share_the_work(queue: Database) -> None:
    """Three runs beside each other delete every old job once, with counts that add up, and no young one."""
    archive_jobs(queue, 2000, finished_at="NOW(6) - INTERVAL IF(n % 5, 90, 1) DAY")
    options = ("--older-than", "30d", "--batch", "50", "--format", "json")
    processes = [start_process("expire", *options, url=queue.url) for _ in range(3)]
    ended = [process.communicate(timeout=90) for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0], ended
    assert sum(json.loads(out)["expired"] for out, _ in ended) == 1600
    assert len(ids(queue)) == 400


def test_beside_archivers_and_restores_nothing_is_lost(queue: Database) -> None:
    """While jobs are archived, restored and expired at once, a job is in one place, and only old ones are gone."""
    fill(queue, 400, status="'done'", finished_at="NOW(6) - INTERVAL IF(n % 2, 90, 1) DAY")
    over = threading.Event()
    trouble: list[Any] = []

    def repeat(*words: str) -> None:
        while not over.is_set():
            ran = run_process(*words, url=queue.url)
            if ran.code not in {0, 1}:
                trouble.append(ran)

    names = [str(n) for n in range(1, 401)]
    threads = [
        threading.Thread(target=repeat, args=words)
        for words in (
            ("archive", "--batch", "30"),
            ("expire", "--older-than", "30d", "--batch", "30"),
            ("restore", *names[::3]),
            ("restore", *names[::4]),
        )
    ]
    for thread in threads:
        thread.start()
    try:
        wait_until(lambda: len(ids(queue)) + len(ids(queue, "jobs")) < 330, what="some expired jobs")
    finally:
        over.set()
        for thread in threads:
            thread.join()
    assert trouble == []
    live, archived = set(ids(queue, "jobs")), set(ids(queue))
    assert not live & archived
    assert {n for n in range(1, 401) if n % 2 == 0} <= live | archived
    restored = queue.rows("SELECT DISTINCT status, finished_at IS NULL FROM jobs WHERE status <> 'done'")
    assert set(restored) <= {("pending", 1)}


# The ledger


def entry(database: Database, days: float, command: str = "archive", **values: Any) -> int:
    """Insert an entry of a run that began so many days ago and took a minute; return its id."""
    columns = {"queue": "jobs", "outcome": "done", "summary": '{"archived": 1}'} | values
    database.execute(
        f"INSERT INTO qops_runs (command, started_at, finished_at, {', '.join(columns)}) VALUES (%s, "
        "NOW(6) - INTERVAL %s SECOND, NOW(6) - INTERVAL %s SECOND, "
        f"{', '.join(['%s'] * len(columns))})",
        [command, days * 86400, days * 86400 - 60, *columns.values()],
    )
    return int(database.value("SELECT MAX(id) FROM qops_runs"))


def left_of(queue: Database, qops: Callable[..., Ran], *given: int) -> tuple[set[int], Ran]:
    """Run expire, after a dry run that must say the same; return which of the entries are left."""
    planned = expire(qops, "--dry-run")
    ran = expire(qops, "--batch", "2")
    assert ran.code == 0, ran.err
    assert ran.json["ledger_expired"] == planned.json["ledger_expired"]
    left = set(given) & {id_ for (id_,) in queue.rows("SELECT id FROM qops_runs")}
    assert ran.json["ledger_expired"] == len(given) - len(left)
    return left, ran


def test_old_entries_go_and_the_last_of_each_command_stay(queue: Database, qops: Callable[..., Ran]) -> None:
    """After 90 days an entry goes, but not the latest finished and the latest successful run of a command and queue."""
    old = [entry(queue, days) for days in (300, 200, 100, 95)]
    good = entry(queue, 94)
    bad = [entry(queue, days, outcome="error") for days in (93, 92)]
    other = entry(queue, 200, queue="another")
    requeue = [entry(queue, days, "requeue", outcome="unavailable") for days in (120, 110)]
    young = entry(queue, 89, "promote", summary='{"promoted": 3}')
    left, _ = left_of(queue, qops, *old, good, *bad, other, *requeue, young)
    assert left == {good, bad[-1], other, requeue[-1], young}
    assert qops("health", "--format", "json").json["archive"]["last_outcome"] == "error"
    assert left_of(queue, qops, *left)[0] == left


def test_runs_that_found_nothing_go_after_a_day(queue: Database, qops: Callable[..., Ran]) -> None:
    """A run whose counts are all 0 is kept for a day; one that did or reported something for 90."""
    nothing = '{"archived": 0, "batches": 0, "throttled_seconds": 1.5, "refused": 0}'
    idle = [entry(queue, days, summary=nothing) for days in (80, 30, 2)]
    busy = [
        entry(queue, 30, summary='{"archived": 0, "locked": 2}'),
        entry(queue, 30, summary='{"archived": 5}'),
        entry(queue, 30, summary=nothing, outcome="error"),
        entry(queue, 30, summary=None),
    ]
    fresh = entry(queue, 0.9, summary=nothing)
    left, _ = left_of(queue, qops, *idle, *busy, fresh)
    assert left == {*busy, fresh}


def test_idle_runs_are_looked_for_only_once(queue: Database, qops: Callable[..., Ran]) -> None:
    """A run goes on where the last one ended: it does not read again what stays for 90 days."""
    given = [entry(queue, 50, summary='{"archived": 1}') for _ in range(1000)]
    with account(queue, *ALL) as limited:
        first = reads_of(limited)
        assert first - reads_of(limited) > 800
    assert set(given) <= set(ids(queue, "qops_runs"))
    queue.execute("UPDATE qops_runs SET started_at = started_at - INTERVAL 2 DAY WHERE command = 'expire'")
    idle = entry(queue, 1.5, summary='{"archived": 0}')
    last = entry(queue, 1.5, summary='{"archived": 7}')
    assert left_of(queue, qops, idle, last)[0] == {last}


def test_pauses_in_force_stay(queue: Database, qops: Callable[..., Ran]) -> None:
    """A pause that nobody ended stays for ever; one that is over, also by its own time, goes as other entries do."""
    values: dict[str, Any] = {"outcome": None, "summary": None}
    over = [
        entry(queue, 200, "pause", **values | {"outcome": "resumed"}),
        entry(queue, 200, "pause", **values),
    ]
    queue.execute(
        "UPDATE qops_runs SET finished_at = NULL, expires_at = NOW() - INTERVAL 100 DAY WHERE id = %s", [over[1]]
    )
    last = entry(queue, 150, "pause", **values | {"outcome": "replaced"})
    brake = entry(queue, 149, "pause", **values | {"queue": "another"})
    until = entry(queue, 148, "pause", **values | {"queue": "another"})
    queue.execute("UPDATE qops_runs SET finished_at = NULL WHERE id IN (%s, %s)", [brake, until])
    queue.execute("UPDATE qops_runs SET expires_at = NOW() + INTERVAL 1 HOUR WHERE id = %s", [until])
    assert left_of(queue, qops, *over, last, brake, until)[0] == {last, brake, until}


def test_entries_of_dead_runs_go_in_their_time(queue: Database, qops: Callable[..., Ran]) -> None:
    """An entry that a crash left open is there for 90 days, and no longer."""
    dead = [entry(queue, days, outcome=None, summary=None) for days in (200, 91, 89, 2)]
    queue.execute("UPDATE qops_runs SET finished_at = NULL")
    assert left_of(queue, qops, *dead)[0] == set(dead[2:])


def test_without_a_ledger_it_works_and_says_so(queue: Database, qops: Callable[..., Ran]) -> None:
    """Where there is no ledger, jobs are deleted all the same, and `ledger_expired` is null."""
    archive_jobs(queue, 3, finished_at="NOW(6) - INTERVAL 90 DAY")
    queue.execute("DROP TABLE qops_runs")
    ran = expire(qops, "--older-than", "30d")
    assert (ran.code, ran.json["expired"], ran.json["ledger_expired"]) == (0, 3, None)
    assert "not recorded" in ran.err
