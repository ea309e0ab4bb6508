"""Four accounts look at one queue: what doctor tells each is what that account's commands can really do.

What cannot be seen is unknown and never passes, and the GRANT that is printed makes it known.
"""

from __future__ import annotations

import re
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import pytest

from dev.server import private_server
from qops.doctor.collect import collect
from qops.doctor.facts import Unknown
from qops.doctor.limits import Limits
from qops.errors import PrivilegeMissing
from qops.worker import open_worker
from tests.accounts import account
from tests.conftest import Database, fresh_database, run_here, wait_until
from tests.queues import fill, init, write_config

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from qops.doctor.facts import Access

FOUR = "SELECT, INSERT, UPDATE, DELETE"
ROLE_GRANTS = (
    f"{FOUR}, TRIGGER ON {{db}}.*",
    "PROCESS ON *.*",
    "SELECT ON performance_schema.*",
)
ACCOUNTS = ("all privileges", "the table alone", "the table and PROCESS", "an active role", "an inactive role")
LIMITED = ACCOUNTS[1:]
BROKEN = (
    "--transaction-isolation=REPEATABLE-READ",
    "--innodb-print-all-deadlocks=ON",
    "--innodb-lock-wait-timeout=600",
    "--innodb-deadlock-detect=OFF",
    "--sql-mode=",
)
CLAIM = "SELECT id FROM jobs WHERE status = 'pending' ORDER BY priority DESC, id LIMIT 1 FOR UPDATE SKIP LOCKED"
MISSING = 77
MOVERS = ("archive", "expire", "restore")
LINES: dict[str, tuple[str, ...]] = {
    "archive": ("archive", "--pause", "0s"),
    "expire": ("expire", "--older-than", "1d"),
    "restore": ("restore", "900001"),
    "requeue": ("requeue", "--expired"),
    "promote": ("promote",),
    "discard": ("discard", "900010", "--reason", "trying"),
    "release": ("release", "--worker", "v"),
    "history": ("history",),
    "jobs": ("jobs",),
    "show": ("show", "900001"),
    "pause": ("pause", "--reason", "trying"),
    "resume": ("resume",),
    "health": ("health", "--fail-on", "never"),
}
WRONG = {
    "isolation-level",
    "worker-isolation",
    "sql-mode",
    "deadlock-logging",
    "long-transactions",
    "lock-wait-timeout",
    "deadlock-detection",
    "purge-counter",
    "lease-index",
    "archive-index",
    "archive-drift",
    "foreign-keys",
    "triggers",
    "expired-leases",
    "scheduled-promotion",
    "delayed-pending",
    "finished-rows",
    "auto-increment",
    "attempts-counted",
    "autocommit-claims",
}
"""What is found at least on the queue on which all is wrong."""
VARYING = {"privileges", "purge-lag", "long-transactions", "worker-isolation", "lock-errors"}
"""Checks whose observation differs from account to account, or from moment to moment."""


@pytest.fixture(scope="module")
def server() -> Iterator[Any]:
    """Give a server on which much is wrong, to which nobody else connects."""
    with private_server(options=BROKEN) as server:
        yield server


@contextmanager
def entering(database: Database, kind: str) -> Iterator[Database]:
    """Yield the database as an account of one kind sees it."""
    own = {
        "all privileges": ("ALL ON *.*",),
        "the table alone": (f"{FOUR} ON {{db}}.jobs",),
        "the table and PROCESS": (f"{FOUR} ON {{db}}.jobs", "PROCESS ON *.*"),
    }
    if kind in own:
        with account(database, *own[kind]) as limited:
            yield limited
        return
    role = f"r_{database.name}"[:32]
    database.execute(f"CREATE ROLE '{role}'")
    try:
        for one in ROLE_GRANTS:
            database.execute(f"GRANT {one.replace('{db}', f'`{database.name}`')} TO '{role}'")
        # Without a privilege of its own an account may not even enter the schema.
        with account(database, *(["SELECT ON {db}.jobs"] if kind == "an inactive role" else [])) as limited:
            database.execute(f"GRANT '{role}' TO '{limited.user}'@'%'")
            if kind == "an active role":
                database.execute(f"SET DEFAULT ROLE ALL TO '{limited.user}'@'%'")
            yield limited
    finally:
        database.execute(f"DROP ROLE '{role}'")


def examine(database: Database, *options: str) -> dict[str, dict[str, Any]]:
    ran = run_here("doctor", "--url", database.url, "--format", "json", *options)
    assert "error" not in ran.json, ran.out
    return {check["id"]: check for check in ran.json["checks"]}


# What doctor says of the commands


@pytest.fixture
def queue(server: Any) -> Iterator[Database]:
    with fresh_database(server) as database:
        init(database)
        yield database


def refill(database: Database) -> None:
    """Give every command something to do."""
    for table in ("jobs", "jobs_archive"):
        database.execute(f"DELETE FROM {table}")
    fill(database, 2, id="900000 + n", status="'done'", finished_at="NOW(6) - INTERVAL n - 1 WEEK")
    database.execute("INSERT INTO jobs_archive SELECT * FROM jobs")
    database.execute("DELETE FROM jobs")
    fill(database, 2, status="'running'", claimed_by="'w'", lease_until="NOW(6) - INTERVAL 1 MINUTE", attempts="1")
    fill(database, 1, status="'running'", claimed_by="'v'", lease_until="NOW(6) + INTERVAL 1 HOUR", attempts="1")
    fill(database, 2, status="'done'", finished_at="NOW(6)")
    fill(database, 2, status="'scheduled'", available_at="NOW(6) - INTERVAL 1 MINUTE")
    fill(database, 2)


def can_run(limited: Database, one: Access) -> bool:
    """Run a command, and return whether its privileges sufficed; what it does without is said."""
    optional = {missing.on for missing in one.missing if missing.optional}
    line = LINES[one.command]
    if one.command in MOVERS and "server" in optional:
        alone = run_here(*line, "--url", limited.url, "--format", "json")
        assert alone.code == MISSING, alone
        line = (*line, "--assume-no-children")
    ran = run_here(*line, "--url", limited.url, "--format", "json")
    assert ran.code in {0, 1, MISSING}, ran
    if ran.code == MISSING:
        return False
    said = re.search("grant|denied|not readable|cannot see", ran.out + ran.err, re.IGNORECASE) is not None
    assert said == bool(optional), (one, ran)
    return True


def can_work(limited: Database, one: Access) -> bool:
    """Enqueue, claim, complete and fail as a worker, and return whether that went well; the archive is optional."""
    try:
        with open_worker("w", url=limited.url) as worker:
            worker.enqueue({})
            first, second = worker.claim_batch(2)
            worker.fail(second, "no", backoff_seconds=0)
            optional = {missing.on for missing in one.missing if missing.optional} & {"table", "archive"}
            if optional:
                with pytest.raises(PrivilegeMissing):
                    worker.complete(first, archive=True)
            worker.complete(first, archive=not optional)
    except PrivilegeMissing:
        return False
    return True


@pytest.mark.parametrize("kind", ACCOUNTS)
def test_what_is_said_of_commands_is_what_they_can_do(queue: Database, kind: str) -> None:
    """Each command that shall lack a privilege ends with 77, and each other one works; so does a worker."""
    with entering(queue, kind) as limited:
        result = examine(limited, "--only", "privileges")["privileges"]
        access = collect(limited.server(), limited.settings(), Limits()).access
        assert not isinstance(access, Unknown)
        assert {one.command for one in access} == {*LINES, "worker"}
        lacking = {one.command for one in access if any(not missing.optional for missing in one.missing)}
        assert (result["status"] == "pass") == (not lacking)
        for one in access:
            refill(queue)
            able = can_work(limited, one) if one.command == "worker" else can_run(limited, one)
            assert able == (one.command not in lacking), one
        if kind == "an inactive role":
            assert result["remedy"].splitlines()[0] == f"SET DEFAULT ROLE ALL TO '{limited.user}'@'%';"
        for line in runnable(result["remedy"]):
            queue.execute(line)
        assert examine(limited, "--only", "privileges")["privileges"]["status"] == "pass"


# What doctor says of a queue on which all is wrong


def runnable(remedy: str | None) -> list[str]:
    return [line.removesuffix(";") for line in (remedy or "").splitlines() if not line.startswith("--")]


def spoil(database: Database) -> None:
    """Make every check of the table and of its rows find something that can be wrong beside the others."""
    database.script("""
DROP INDEX lease_idx ON jobs;
DROP INDEX finished_idx ON jobs;
CREATE INDEX status_alone ON jobs (status);
ALTER TABLE jobs_archive DROP COLUMN attempts;
CREATE TRIGGER note BEFORE INSERT ON jobs_archive FOR EACH ROW SET NEW.last_error = 'x';
CREATE TABLE child (id INT PRIMARY KEY, job BIGINT UNSIGNED,
  CONSTRAINT of_job FOREIGN KEY (job) REFERENCES jobs (id) ON DELETE CASCADE);
SET GLOBAL innodb_monitor_disable = 'trx_rseg_history_len'
""")
    fill(database, 5, status="'running'", lease_until="NOW(6) - INTERVAL 1 HOUR")
    fill(database, 5, status="'scheduled'", available_at="NOW(6) - INTERVAL 1 HOUR")
    fill(database, 500, available_at="NOW(6) + INTERVAL 1 HOUR", priority="100")
    fill(database, 12_000, status="'done'", finished_at="NOW(6) - INTERVAL 1 HOUR")
    database.execute(
        "INSERT INTO jobs_archive (id, status, payload, created_at) VALUES (99999999, 'done', '{}', NOW(6))"
    )


@pytest.fixture(scope="module")
def spoilt(server: Any) -> Iterator[Database]:
    """Give a queue with all that can be wrong at once, and sessions that work on it wrongly."""
    with fresh_database(server) as database:
        init(database)
        spoil(database)
        sessions = [database.connect(autocommit=autocommit) for autocommit in (False, True)]
        for one in sessions:
            one.cursor().execute(CLAIM)
        old = "SELECT COUNT(*) FROM information_schema.innodb_trx WHERE trx_started < NOW() - INTERVAL 1 SECOND"
        wait_until(lambda: database.value(old) == 1, what="a long transaction")
        yield database
        for one in sessions:
            one.close()


@pytest.fixture
def config(tmp_path: Path) -> tuple[str, str]:
    return "--config", str(write_config(tmp_path, '[doctor]\nlong_transaction = "1s"\n'))


def test_all_is_found_with_all_privileges(spoilt: Database, config: tuple[str, str]) -> None:
    """Nothing is unknown to an account with all privileges, and most is wrong here."""
    with entering(spoilt, "all privileges") as limited:
        found = {id_: one["status"] for id_, one in examine(limited, *config).items()}
    assert {id_ for id_, status in found.items() if status != "pass"} >= WRONG
    assert set(found.values()) == {"pass", "warning", "critical"}


@pytest.mark.parametrize("kind", LIMITED)
def test_who_sees_less_is_told_the_same_or_nothing(spoilt: Database, config: tuple[str, str], kind: str) -> None:
    """What an account with all privileges finds, another one finds as well, or it is unknown with what helps.

    The GRANTs of each check that is unknown are run, alone, and then it says what it says to all privileges.
    """
    with entering(spoilt, kind) as limited:
        mine = examine(limited, *config)
        all_ = examine(spoilt, *config)
        unknown = {id_ for id_, one in mine.items() if one["status"] == "unknown"}
        assert mine.keys() == all_.keys()
        for id_ in mine.keys() - unknown - VARYING:
            assert (mine[id_]["status"], mine[id_]["observed"]) == (all_[id_]["status"], all_[id_]["observed"]), id_
        assert unknown or kind == "an active role"
        for id_ in unknown:
            cure(spoilt, limited, mine[id_], all_[id_], config)


def cure(
    database: Database, limited: Database, unknown: dict[str, Any], known: dict[str, Any], config: tuple[str, str]
) -> None:
    """Run the GRANTs of one check until it is known, see the same as with all privileges, and take them back."""
    id_, granted = unknown["id"], []
    try:
        grants = runnable(unknown["remedy"])
        assert grants, unknown
        for line in grants:
            assert line.startswith("GRANT "), unknown
            database.execute(line)
            granted.append(line)
        after = examine(limited, "--only", id_, *config)[id_]
        assert after["status"] == known["status"], (unknown, after)
        if id_ not in VARYING:
            assert after["observed"] == known["observed"]
    finally:
        for line in granted:
            with suppress(Exception):
                database.execute(re.sub(r" TO (?=\S+$)", " FROM ", line.replace("GRANT", "REVOKE", 1)))
