"""The checks of what workers send: broken on a real server, found, cured; and with literals."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import MySQLdb
import pytest

from dev.server import private_server
from qops.doctor.facts import Unknown
from qops.doctor.row_facts import Sample
from qops.doctor.traffic import Names, Understood, understand
from qops.doctor.traffic_facts import LockError, Sent, Traffic
from qops.versions import lock_tables_stall
from qops.worker import LeaseLost, Worker
from tests.conftest import Database, fresh_database, run_here, wait_until
from tests.queues import GUIDE, GUIDE_TOML, fill, init, write_config
from tests.test_doctor import HEALTHY, advised, cure, examine, findings, of, result, server
from tests.test_doctor_sessions import run, worker

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from qops.doctor.facts import Facts

COMMITTED = "--transaction-isolation=READ-COMMITTED"
TIMES = 10
CLAIM = (
    "SELECT id FROM jobs FORCE INDEX (claim_idx) WHERE status = 'pending' ORDER BY priority DESC, id LIMIT 1 "
    "FOR UPDATE SKIP LOCKED"
)
CONVOY = CLAIM.removesuffix(" SKIP LOCKED")
UNAIDED = CLAIM.replace(" FORCE INDEX (claim_idx)", "")
SORTING = UNAIDED.replace("priority DESC, id", "priority, id")
MEASURED = "TRUNCATE TABLE performance_schema.events_statements_summary_by_digest"


@pytest.fixture
def own(own_server: Any) -> Iterator[Database]:
    with fresh_database(own_server) as database:
        init(database)
        yield database


def claim(cursor: Any, statement: str, times: int = TIMES) -> None:
    for _ in range(times):
        run(cursor, "START TRANSACTION", statement, "COMMIT")


# On the real server


@pytest.mark.parametrize("prepared", [False, True], ids=["as text", "prepared"])
@pytest.mark.breaks("skip-locked")
def test_claims_that_wait_are_found(own: Database, prepared: bool) -> None:  # noqa: FBT001
    """FOR UPDATE without SKIP LOCKED is one finding; with the claim that is advised, and new sums, it passes."""
    fill(own, 3)
    with worker(own) as cursor:
        if prepared:
            run(cursor, f'PREPARE claim FROM "{CONVOY}"')
        claim(cursor, "EXECUTE claim" if prepared else CONVOY, TIMES - 1)
        assert findings(examine(own)) == {}  # somebody's hands
        claim(cursor, "EXECUTE claim" if prepared else CONVOY, 1)
        document = examine(own)
        assert findings(document) == {"skip-locked": "critical"}
        assert "10 times from" in of(document, "skip-locked")["observed"]
        assert "LIMIT ? FOR UPDATE" in of(document, "skip-locked")["observed"]
        right, begin_anew = advised(document, "skip-locked")
        assert (begin_anew, right.endswith("LIMIT 1 FOR UPDATE SKIP LOCKED")) == (MEASURED, True)
        run(cursor, begin_anew)
        claim(cursor, right)
    document = examine(own)
    assert findings(document) == {}
    assert of(document, "skip-locked")["observed"].startswith("1 kind")


@pytest.mark.breaks("sorted-claims")
def test_a_claim_that_sorts_is_found(own: Database) -> None:
    """A claim that sorts is one finding, whoever wrote the index; with the claim that is advised it passes."""
    fill(own, 20)
    with worker(own) as cursor:
        claim(cursor, SORTING)
        document = examine(own)
        assert findings(document) == {"sorted-claims": "warning"}
        assert "sorted 10 times" in of(document, "sorted-claims")["observed"]
        right, begin_anew = advised(document, "sorted-claims")
        assert "FORCE INDEX (`claim_idx`)" in right
        run(cursor, begin_anew)
        claim(cursor, right)
    assert findings(examine(own)) == {}


def test_a_claim_without_a_hint_sorts_a_small_table(own: Database) -> None:
    """Workers that type the claim without naming the index, and whose claims sort, are found by what they did."""
    fill(own, 20)
    own.execute("ANALYZE TABLE jobs")
    with worker(own) as cursor:
        claim(cursor, UNAIDED)
        sorts = "SELECT SUM(sum_sort_scan + sum_sort_range) FROM performance_schema.events_statements_summary_by_digest"
        sorted_ = own.value(f"{sorts} WHERE schema_name = %s AND digest_text LIKE 'SELECT%%SKIP LOCKED'", (own.name,))
    assert findings(examine(own)) == ({"sorted-claims": "warning"} if sorted_ else {})


def test_a_sort_of_one_job_is_none(own: Database) -> None:
    """Where there is nothing else to be locked a sort does no harm."""
    fill(own, 1)
    with worker(own) as cursor:
        claim(cursor, SORTING)
    assert findings(examine(own)) == {}


@pytest.mark.breaks("rows-examined")
def test_changes_that_read_over_many_rows_are_found(own: Database) -> None:
    """An UPDATE that reads the whole table for one row is one finding, and passes when it finds its row by an index."""
    fill(own, 300)
    change = "UPDATE jobs SET last_error = NULL WHERE claimed_by = 'w'"
    with worker(own) as cursor:
        for _ in range(TIMES):
            run(cursor, change)
        document = examine(own)
        assert findings(document) == {"rows-examined": "warning"}
        assert "3000 rows examined for 0" in of(document, "rows-examined")["observed"]
        run(cursor, advised(document, "rows-examined")[-1], "CREATE INDEX by_worker ON jobs (claimed_by)")
        for _ in range(TIMES):
            run(cursor, change)
    assert findings(examine(own)) == {}


def test_workers_at_work_and_qops_beside_them_give_no_finding(own: Database) -> None:
    """Worker, the commands, an application that looks and one given job with NOWAIT: nothing of it is a finding."""
    fill(own, 60, status="ELT(1 + n % 3, 'pending', 'failed', 'done')", finished_at="NOW(6)", attempts="n % 2")
    jobs = Worker(own.server(), own.queue(), "w")
    for turn in range(12):
        job = jobs.claim()
        assert job is not None
        job = jobs.heartbeat(job)
        if turn % 2:
            jobs.complete(job)
        else:
            jobs.fail(job, "no")
    jobs.close()
    with worker(own) as cursor:
        for id_ in range(1, 13):
            run(cursor, "START TRANSACTION", f"SELECT id FROM jobs WHERE id = {id_} AND status = 'done' FOR UPDATE")
            run(cursor, "SELECT COUNT(*) FROM jobs WHERE status = 'pending'", "SELECT * FROM jobs")
            run(cursor, CLAIM.replace("SKIP LOCKED", "NOWAIT"), "COMMIT")
    for _ in range(TIMES):
        for command in ("promote", "archive --limit 1", "requeue --failed --limit 1 --yes"):
            assert run_here(*command.split(), "--url", own.url, "--quiet").code == 0
    assert findings(examine(own)) == {}


@pytest.mark.breaks("lease-length")
def test_jobs_that_outlast_their_leases_are_found(own: Database) -> None:
    """Workers whose leases pass before they finish are one finding, by what their own fence turned away."""
    fill(own, TIMES * 2)
    jobs = Worker(own.server(), own.queue(), "w", lease_seconds=0.001)
    for _ in range(TIMES):
        job = jobs.claim()
        assert job is not None
        wait_until(lambda i=job.id: own.value("SELECT lease_until < NOW(6) FROM jobs WHERE id = %s", (i,)))  # type: ignore[misc]
        with pytest.raises(LeaseLost):
            jobs.complete(job)
    jobs.close()
    document = examine(own)
    assert findings(document) == {"lease-length": "warning"}
    assert "10 of them found their job no longer held" in of(document, "lease-length")["observed"]
    begin_anew = advised(document, "lease-length")[-1]
    own.execute(begin_anew)
    jobs = Worker(own.server(), own.queue(), "w", lease_seconds=300)
    for _ in range(TIMES):
        job = jobs.claim()
        assert job is not None
        jobs.complete(job)
    jobs.close()
    document = examine(own)
    assert findings(document) == {}
    assert of(document, "lease-length")["observed"].startswith("0 of 10 were turned away")


def test_jobs_that_were_done_after_their_lease_are_found(own: Database) -> None:
    """Jobs whose worker asked for no lease when it finished them are one finding, which ends when they are archived."""
    late = {"status": "'done'", "finished_at": "NOW(6)", "lease_until": "NOW(6) - INTERVAL 1 SECOND"}
    fill(own, TIMES - 1, **late)
    fill(own, 90, **late | {"lease_until": "NOW(6) + INTERVAL 1 SECOND"})
    assert findings(examine(own)) == {}
    fill(own, 1, **late)
    document = examine(own)
    assert findings(document) == {"lease-length": "warning"}
    assert "of the last 100 jobs that are done 10 (id 1, 2, 3, 4, 5, …)" in of(document, "lease-length")["observed"]
    assert run_here("archive", "--url", own.url).code == 0
    assert findings(examine(own)) == {}


def test_the_last_finished_jobs_are_read_without_a_sort(own: Database) -> None:
    """However many jobs are done, a thousand of them are looked at, along the index."""
    fill(own, 5000, status="'done'", finished_at="NOW(6)", lease_until="NOW(6)")
    own.execute(MEASURED)
    assert of(examine(own), "lease-length")["observed"].endswith(
        "0 of the last 1000 that are done bear an earlier lease"
    )
    sums = "SUM(sum_rows_examined), SUM(sum_sort_scan + sum_sort_range), COUNT(*)"
    where = "schema_name = %s AND digest_text LIKE 'SELECT COUNT%%`finished_at` DESC LIMIT%%'"
    summary = "performance_schema.events_statements_summary_by_digest"
    ((examined, sorts, kinds),) = own.rows(f"SELECT {sums} FROM {summary} WHERE {where}", (own.name,))
    assert (sorts, kinds) == (0, 1)
    assert examined <= 2000


@pytest.mark.breaks("lock-errors")
def test_deadlocks_are_counted_and_named(own: Database) -> None:
    """Ten deadlocks in an hour are one finding that names the account; new counts end it."""
    fill(own, 2)
    own.execute("TRUNCATE TABLE performance_schema.events_errors_summary_global_by_error")
    try:
        for _ in range(TIMES):
            deadlock(own)
        document = examine(own)
        assert findings(document) == {"lock-errors": "warning"}
        assert "10 deadlocks (1213) from" in of(document, "lock-errors")["observed"]
        assert "root@" in of(document, "lock-errors")["observed"]
        own.execute(advised(document, "lock-errors")[-1])
        assert findings(examine(own)) == {}
    finally:
        own.execute("TRUNCATE TABLE performance_schema.events_errors_summary_global_by_error")


def deadlock(database: Database) -> None:
    """Let two transactions wait for each other until the server ends one."""
    one, other = (database.connect() for _ in range(2))
    change = "UPDATE jobs SET priority = priority + 1 WHERE id = %s"
    codes: list[int] = []

    def follow(connection: Any, id_: int) -> None:
        try:
            connection.cursor().execute(change, (id_,))
        except MySQLdb.OperationalError as error:
            codes.append(error.args[0])
        connection.rollback()

    one.cursor().execute(change, (1,))
    other.cursor().execute(change, (2,))
    waiting = threading.Thread(target=follow, args=(one, 2))
    waiting.start()
    follow(other, 1)
    waiting.join()
    one.close()
    other.close()
    assert codes == [1213]


@pytest.mark.parametrize(
    ("off", "ids"),
    [
        (
            "setup_consumers SET enabled = 'NO' WHERE name = 'statements_digest'",
            {"skip-locked", "sorted-claims", "rows-examined", "lease-length", "autocommit-claims"},
        ),
        (
            "setup_instruments SET enabled = 'NO' WHERE name = 'statement/sql/update'",
            {"skip-locked", "sorted-claims", "rows-examined", "lease-length"},
        ),
        ("setup_instruments SET enabled = 'NO' WHERE name = 'error'", {"lock-errors"}),
    ],
)
def test_what_is_not_summed_up_is_unknown(own: Database, off: str, ids: set[str]) -> None:
    """Where the server does not sum up what is sent, nothing passes, and the remedy turns it on."""
    own.execute(f"UPDATE performance_schema.{off}")
    try:
        document = examine(own)
        assert findings(document) == dict.fromkeys(ids, "unknown")
        cure(own, document, min(ids - {"autocommit-claims"}))
        assert findings(examine(own)) == {}
    finally:
        own.execute(f"UPDATE performance_schema.{off.replace('NO', 'YES', 1)}")


@pytest.mark.parametrize("option", ["max-digest-length", "performance-schema-max-digest-length"])
def test_digests_without_a_text_acquit_nobody(option: str) -> None:
    """Where the server keeps nothing of a statement's text, a convoy is not seen, so nothing passes."""
    with private_server(options=[COMMITTED, f"--{option}=0"]) as server, fresh_database(server) as database:
        init(database)
        with worker(database) as cursor:
            claim(cursor, CONVOY, 30)
        document = examine(database)
        for id_ in ("skip-locked", "sorted-claims", "rows-examined", "lease-length"):
            assert of(document, id_)["status"] == "unknown"
            assert f"-- in the server's option file: {option.replace('-', '_')} = 1024" in of(document, id_)["remedy"]


def test_a_summary_that_is_full_acquits_nobody() -> None:
    """Where the server had no room for further statements nothing passes; with new sums it does."""
    options = [COMMITTED, "--performance-schema-digests-size=200"]
    with private_server(options=options) as server, fresh_database(server) as database:
        init(database)
        for number in range(210):
            database.execute(f"SELECT 1 AS n{number}")
        document = examine(database)
        ids = ("skip-locked", "sorted-claims", "rows-examined", "lease-length")
        assert findings(document) == dict.fromkeys(ids, "unknown")
        assert "full" in of(document, ids[0])["observed"]
        cure(database, document, ids[0])
        options_ = [part for id_ in ids for part in ("--only", id_)]
        assert findings(examine(database, *options_)) == {}


def test_a_statement_whose_end_is_not_kept_is_unknown(own: Database) -> None:
    """A read of jobs that is too long for the server's sums may be a claim that waits."""
    with worker(own) as cursor:
        for _ in range(TIMES):
            run(cursor, f"SELECT id FROM jobs WHERE status = 'pending' AND ({' OR '.join(['priority < 9'] * 200)})")
    document = examine(own)
    assert findings(document) == {"skip-locked": "unknown"}
    assert "max_digest_length" in of(document, "skip-locked")["remedy"]


def test_sessions_on_a_table_named_by_a_word_are_seen(own_server: Any, tmp_path: Path) -> None:
    """A worker at REPEATABLE READ and its claims are found on a table whose name digests write without quotes."""
    config = str(write_config(tmp_path, GUIDE_TOML.replace('"jobs"', '"events"').replace('"jobs_archive"', '"old"')))
    with fresh_database(own_server) as database:
        database.execute(GUIDE.replace("jobs", "events"))
        init(database, "--config", config, "--repair")
        repeatable = "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ"
        for name in ("events", "`events`"):
            with worker(database, repeatable) as cursor:
                claim(cursor, CONVOY.replace("jobs", name))
                document = examine(database, "--config", config)
                assert findings(document) == {"worker-isolation": "warning", "skip-locked": "critical"}
                run(cursor, advised(document, "skip-locked")[-1])
            wait_until(lambda: not findings(examine(database, "--config", config)), what="the end of the session")


def test_what_may_not_be_seen_is_unknown(own: Database) -> None:
    """Without SELECT on performance_schema these checks are unknown, and the GRANT cures them."""
    from tests.accounts import account  # noqa: PLC0415

    ids = ("skip-locked", "sorted-claims", "rows-examined", "lease-length", "lock-errors")
    options = [part for id_ in ids for part in ("--only", id_)]
    with account(own, "SELECT ON {db}.*") as limited:
        document = examine(limited, *options)
        assert findings(document) == dict.fromkeys(ids, "unknown")
        cure(own, document, "skip-locked")
        assert findings(examine(limited, *options)) == {}


def test_doctor_never_reads_the_lock_tables(own: Database) -> None:
    """No statement of doctor's names the tables whose reading stalls some versions."""
    own.execute("SET GLOBAL log_output = 'TABLE'")
    own.execute("SET GLOBAL general_log = ON")
    try:
        examine(own)
    finally:
        own.execute("SET GLOBAL general_log = OFF")
        own.execute("SET GLOBAL log_output = 'FILE'")
    asked = "SELECT COUNT(*) FROM mysql.general_log WHERE command_type = 'Query' AND argument LIKE %s"
    assert own.value(asked, ("%performance_schema.metadata_locks%",))  # it is all there
    assert own.value(asked, ("%performance_schema.data_lock%",)) == 0


# With literals

NAMES = Names(
    "app",
    "jobs",
    {"id": "id", "status": "status", "claimed_by": "owner", "lease_until": "lease", "attempts": "attempts"},
)
WHERE = "FROM `jobs` WHERE STATUS = ? ORDER BY `id` LIMIT ?"
HELD = "WHERE `id` = ? AND STATUS = ? AND `owner` = ? AND `lease` >= NOW (?)"


@pytest.mark.parametrize(
    ("digest", "does"),
    [
        (f"SELECT `id` {WHERE} FOR UPDATE SKIP LOCKED", Understood(claims=True)),
        (f"EXECUTE SELECT `id` {WHERE} FOR UPDATE", Understood(claims=True, waits=True)),
        (f"SELECT `id` {WHERE} FOR UPDATE OF `jobs` NOWAIT", Understood(claims=True)),
        (f"SELECT `id` {WHERE}", None),
        (f"SELECT `id` {WHERE} LOCK IN SHARE MODE", None),
        ("SELECT * FROM `jobs` AS `j` WHERE `j` . `id` = ? AND `j` . `status` = ? FOR UPDATE", Understood()),
        ("SELECT * FROM `app` . `JOBS` WHERE `id` IN (...) FOR UPDATE", Understood()),
        (
            "SELECT * FROM `app` . `jobs` WHERE `id` > ? AND `Status` = ? FOR UPDATE",
            Understood(claims=True, waits=True),
        ),
        ("SELECT * FROM `other` . `jobs` WHERE STATUS = ? FOR UPDATE", None),
        ("SELECT * FROM `orders` WHERE STATUS = ? AND `jobs` > ? FOR UPDATE", None),
        ("SELECT * FROM `jobs` JOIN `orders` ON `a` = `b` WHERE STATUS = ? FOR UPDATE", None),
        ("SELECT * FROM `jobs` , `orders` WHERE STATUS = ? FOR UPDATE", None),
        (f"SELECT `a` FROM `jobs` WHERE STATUS = ?{' AND `priority` < ?' * 54}", Understood(cut=True)),
        (f"SELECT `a` FROM `jobs` WHERE STATUS = ?{' AND `priority` < ?' * 50}", None),
        (f"SELECT `a` FROM `orders` WHERE `jobs` = ?{' AND `priority` < ?' * 54}", None),
        (f"UPDATE `jobs` SET STATUS = ? {HELD}{' AND `priority` < ?' * 54}", Understood()),
        (f"SELECT `id` FROM `jobs` {HELD} FOR UPDATE", Understood(fenced=True)),
        (f"UPDATE `jobs` SET STATUS = ? {HELD}", Understood(fenced=True)),
        (f"DELETE FROM `jobs` {HELD}", Understood(fenced=True)),
        (f"UPDATE `jobs` SET `lease` = NOW (?) {HELD}", Understood()),
        (f"UPDATE `jobs` SET STATUS = ? {HELD} AND `attempts` + ? < COALESCE ( `max` , ? )", Understood()),
        ("UPDATE `jobs` SET STATUS = ? WHERE `id` = ? AND STATUS = ?", Understood()),
        ("UPDATE `jobs` SET STATUS = ? WHERE `id` = ? AND `owner` = ? AND `lease` < NOW ( )", Understood()),
        ("UPDATE `jobs` SET `owner` = ? WHERE `id` = ? AND ( `owner` IS NULL OR `owner` = ? )", Understood()),
        ("UPDATE `jobs` SET STATUS = ? WHERE `id` = ? AND ( `owner` IS NULL OR `owner` = ? )", Understood()),
        ("UPDATE `jobs` SET STATUS = ? WHERE STATUS = ? AND `lease` < NOW ( )", Understood(claims=True)),
        ("UPDATE IGNORE `app` . `jobs` SET STATUS = ? WHERE `x` = ?", Understood()),
        ("UPDATE `orders` SET `jobs` = ? WHERE STATUS = ?", None),
        ("UPDATE `jobs` , `orders` SET STATUS = ?", None),
        (
            f"UPDATE `jobs` SET STATUS = ? WHERE `id` IN ( SELECT `id` FROM ( SELECT `id` {WHERE} FOR UPDATE ) `z` )",
            Understood(claims=True, waits=True),
        ),
        (
            "UPDATE /*+ INDEX ( `jobs` `PRIMARY` ) */ `jobs` SET STATUS = ? WHERE `jobs` . `id` IN (...)",
            None,  # qops
        ),
        ("INSERT INTO `jobs` ( `a` ) VALUES (?)", None),
    ],
)
def test_a_statement_is_understood(digest: str, does: Understood | None) -> None:
    """From its digest follows whether a statement claims, waits, or finishes a job only while it is held."""
    assert understand(digest, NAMES, 1024) == does


GOOD = Sent("SELECT …", 100, sent=100, examined=100, claims=True)
DONE = Sent("UPDATE …", 100, affected=100, fenced=True)
FULL = Traffic(full=Unknown("full", "TRUNCATE …;"))
LOCKS = LockError(1213, 10, 3600, 60, "a", "b")


def sent(*statements: Sent, **values: Any) -> Facts:
    return replace(HEALTHY, traffic=Traffic(statements, **values))


def errors(**values: Any) -> Facts:
    return replace(HEALTHY, lock_errors=(replace(LOCKS, **values),))


@pytest.mark.parametrize(
    ("id_", "facts", "status", "remedy"),
    [
        ("skip-locked", sent(GOOD), "pass", None),
        ("skip-locked", sent(replace(GOOD, waits=True)), "critical", "-- in the workers: SELECT 1;"),
        ("skip-locked", replace(sent(replace(GOOD, waits=True)), plan=Unknown("x")), "critical", "-- in the workers"),
        ("skip-locked", sent(replace(GOOD, waits=True, executions=9)), "pass", None),
        ("skip-locked", sent(replace(GOOD, claims=False, cut=True)), "unknown", "-- in the server's option file"),
        ("skip-locked", replace(HEALTHY, traffic=FULL), "unknown", "TRUNCATE"),
        ("skip-locked", replace(sent(replace(GOOD, waits=True), full=FULL.full)), "critical", "--"),
        ("skip-locked", replace(HEALTHY, traffic=Unknown("denied", "GRANT …;")), "unknown", "GRANT"),
        ("sorted-claims", sent(replace(GOOD, sorts=100, examined=2010)), "warning", "-- in the workers: SELECT 1;"),
        ("sorted-claims", sent(replace(GOOD, sorts=9, examined=2010)), "pass", None),
        ("sorted-claims", sent(replace(GOOD, sorts=99, executions=1000, sent=1000, examined=9000)), "pass", None),
        ("sorted-claims", sent(replace(GOOD, sorts=100, examined=200)), "pass", None),  # one candidate each
        ("sorted-claims", sent(replace(GOOD, sorts=100, examined=2010, claims=False)), "pass", None),
        ("sorted-claims", replace(HEALTHY, traffic=FULL), "unknown", "TRUNCATE"),
        ("rows-examined", sent(replace(GOOD, examined=20_000)), "warning", "--"),
        ("rows-examined", sent(replace(GOOD, examined=19_999)), "pass", None),
        ("rows-examined", sent(replace(GOOD, executions=9, sent=0, examined=90_000)), "pass", None),
        ("rows-examined", sent(replace(GOOD, examined=20_000, sorts=100)), "pass", None),  # the finding above
        ("rows-examined", replace(HEALTHY, traffic=FULL), "unknown", "TRUNCATE"),
        ("lease-length", sent(replace(DONE, affected=90)), "warning", "-- in the workers: a lease"),
        ("lease-length", sent(replace(DONE, affected=91)), "pass", None),
        ("lease-length", sent(replace(DONE, executions=1000, affected=951)), "pass", None),
        ("lease-length", sent(replace(DONE, affected=80, errors=11)), "pass", None),
        ("lease-length", sent(replace(DONE, affected=0, fenced=False)), "pass", None),
        ("lease-length", sent(replace(DONE, affected=0), leased=False), "pass", None),
        ("lease-length", replace(HEALTHY, traffic=FULL), "unknown", "TRUNCATE"),
        ("lease-length", replace(HEALTHY, late=Sample(50, 1000)), "warning", "-- in the workers: a lease"),
        ("lease-length", replace(HEALTHY, late=Sample(49, 1000)), "pass", None),
        ("lease-length", replace(HEALTHY, late=Sample(9, 9)), "pass", None),
        ("lease-length", replace(HEALTHY, late=None), "pass", None),
        ("lease-length", replace(HEALTHY, late=Sample(50, 1000), traffic=Unknown("denied")), "warning", "--"),
        ("lease-length", replace(HEALTHY, late=Unknown("denied", "GRANT …;")), "unknown", "GRANT"),
        ("lock-errors", errors(), "warning", "-- who waits"),
        ("lock-errors", errors(first_seconds=5), "warning", "-- who waits"),
        ("lock-errors", errors(raised=9, first_seconds=5), "pass", None),
        ("lock-errors", errors(first_seconds=7200), "pass", None),
        ("lock-errors", errors(raised=1000, last_seconds=3600), "pass", None),
        ("lock-errors", errors(code=1205), "warning", "-- who waits"),
        ("lock-errors", replace(HEALTHY, lock_errors=Unknown("off", "UPDATE …;")), "unknown", "UPDATE"),
    ],
)
@pytest.mark.literal
def test_a_check_judges_literal_facts(id_: str, facts: Facts, status: str, remedy: str | None) -> None:
    """From the facts alone follow the status and the kind of remedy."""
    found = result(facts, id_)
    assert found.status == status
    assert found.observed
    assert found.remedy is None if remedy is None else found.remedy.startswith(remedy)


@pytest.mark.parametrize(
    ("numbers", "stalls"),
    [
        ((8, 0, 39), True),
        ((8, 0, 40), False),
        ((8, 4, 2), True),
        ((8, 4, 3), False),
        ((9, 0, 1), True),
        ((9, 1, 0), False),
        ((26, 1, 0), False),
    ],
)
def test_versions_whose_lock_tables_stall_are_named(numbers: tuple[int, ...], stalls: bool) -> None:  # noqa: FBT001
    """On these versions there is a warning, and all other checks are made as anywhere else."""
    facts = server(".".join(map(str, numbers)), numbers)
    assert lock_tables_stall(numbers) == stalls
    assert result(facts, "server-version").status == ("warning" if stalls else "pass")
    assert result(facts, "lock-errors").status == "pass"
