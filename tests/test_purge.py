"""Purge lag is the number of transactions that purge has not reached, and the blocker is who holds it up."""

from __future__ import annotations

import re
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dev.server import private_server
from qops.purge import Blocker, Candidate, PurgeLag, choose, parse_status, read_purge
from tests.conftest import Database, fresh_database, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

RUNNING = "SELECT state FROM performance_schema.processlist WHERE id = %s"
STATUS = """
------------------------
LATEST DETECTED DEADLOCK
------------------------
SELECT 'Trx id counter 7'
------------
TRANSACTIONS
------------
Trx id counter {counter}
Purge done for trx's n:o < {purged} undo n:o < 0 state: running but idle
History list length {history}
LIST OF TRANSACTIONS FOR EACH SESSION:
--------------
ROW OPERATIONS
--------------
0 queries inside InnoDB, 0 queries in queue
{views} read views open inside InnoDB
Process ID=5412, Main thread ID=1 , state=sleeping
"""


@pytest.fixture(scope="module")
def quiet() -> Iterator[Database]:
    """Give a server where nobody else commits or reads, in a time zone far from UTC."""
    with (
        private_server(env={"TZ": "America/New_York"}) as server,
        fresh_database(server) as database,
    ):
        database.execute("CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, v INT)")
        yield database


def read(database: Database) -> PurgeLag:
    with database.server().observe() as connection:
        return read_purge(connection)


@contextmanager
def session(database: Database, *statements: str) -> Iterator[int]:
    """Yield the id of a session that ran `statements` and is still in its transaction."""
    connection = database.connect()
    try:
        with connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
                cursor.fetchall()
        yield connection.thread_id()
    finally:
        connection.close()


def change(database: Database, transactions: int) -> None:
    for _ in range(transactions):
        database.execute("UPDATE t SET v = v + 1")


@pytest.mark.parametrize(
    ("counter", "purged", "history", "expected"),
    [(1000, 999, 388, 0), (3005, 1000, 1000, 1000), (1000, 999, 17003, 0), (40060, 10, 30, 30)],
)
def test_the_lag_is_the_smaller_of_history_and_half_the_gap(
    counter: int, purged: int, history: int, expected: int
) -> None:
    """A lazily truncated history list is no lag, and a large gap cannot exceed what the list holds."""
    lag = parse_status(STATUS.format(counter=counter, purged=purged, history=history, views=3))
    assert lag == PurgeLag(unpurged_transactions=expected, history_list_length=history, read_views=3)


def test_a_report_of_another_form_is_unknown_not_zero() -> None:
    """Text that the expressions do not match gives None with a reason."""
    lag = parse_status("=====\nINNODB MONITOR OUTPUT\n=====\n")
    assert lag.unpurged_transactions is None
    assert lag.unknown


def test_certain_holders_are_preferred_only_when_they_explain_every_view() -> None:
    """An older transaction with locks is named if some view is left over for it, and not otherwise."""
    locking = Candidate(1, certain=False, whole_transaction=True, seconds=900, statement=None)
    reader = Candidate(2, certain=True, whole_transaction=True, seconds=60, statement=None)
    known = {1: Blocker(1, "a@host", 0, None), 2: Blocker(2, "b@host", 0, None)}
    assert choose([locking, reader], known, 1) == Blocker(2, "b@host", 60, None)
    assert choose([locking, reader], known, 2) == Blocker(1, "a@host", 900, None)


def test_a_candidate_without_a_connection_is_over() -> None:
    """InnoDB's list is cached: a transaction whose connection has gone is blamed for nothing."""
    gone = Candidate(1, certain=True, whole_transaction=True, seconds=900, statement=None)
    assert choose([gone], {}, 1) is None


def test_a_read_committed_view_is_as_old_as_its_statement() -> None:
    """A statement that began a second ago in a transaction of an hour holds a view of a second."""
    running = Candidate(3, certain=True, whole_transaction=False, seconds=3600, statement="SELECT 1")
    assert choose([running], {3: Blocker(3, "app@host", 1, None)}, 1) == Blocker(3, "app@host", 1, "SELECT 1")


def test_a_snapshot_stops_purge_and_is_named(quiet: Database) -> None:
    """An idle REPEATABLE READ reader is the blocker, with the unpurged transactions it causes and its real age."""
    quiet.execute("INSERT INTO t (v) VALUES (1)")
    wait_until(lambda: read(quiet).unpurged_transactions == 0, what="purge")
    with session(quiet, "START TRANSACTION", "SELECT 'held' FROM t") as holder:
        change(quiet, 300)
        lag = read(quiet)
        assert lag.unknown is None
        assert lag.read_views == 1
        assert lag.unpurged_transactions is not None
        assert 280 <= lag.unpurged_transactions <= 320
        assert lag.blocker is not None
        assert lag.blocker.connection_id == holder
        assert lag.blocker.user in {"root@127.0.0.1", "root@localhost"}
        assert lag.blocker.statement == "SELECT 'held' FROM t"
        assert 0 <= lag.blocker.seconds < 60
        assert lag.oldest_view_seconds == lag.blocker.seconds
    wait_until(lambda: read(quiet).unpurged_transactions == 0, what="purge")
    after = read(quiet)
    assert after.read_views == 0
    assert after.blocker is None
    assert after.oldest_view_seconds is None


def test_the_age_of_a_view_is_right_far_from_utc(quiet: Database) -> None:
    """A server in New York reports a view of two seconds as such, not as one of five hours."""
    with session(quiet, "START TRANSACTION WITH CONSISTENT SNAPSHOT"):
        wait_until(lambda: (read(quiet).oldest_view_seconds or 0) >= 2, seconds=10, what="a view of two seconds")
        assert (read(quiet).oldest_view_seconds or 0) < 60


@pytest.mark.parametrize(
    "statements",
    [
        ("START TRANSACTION", "UPDATE t SET v = v + 1 WHERE id = 1"),
        ("START TRANSACTION", "SELECT * FROM t WHERE id = 1 FOR UPDATE"),
        ("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED", "START TRANSACTION", "SELECT * FROM t"),
        ("SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE", "START TRANSACTION", "SELECT * FROM t"),
    ],
    ids=["write", "lock", "read committed", "serializable"],
)
def test_transactions_without_a_read_view_are_not_blamed(quiet: Database, statements: tuple[str, ...]) -> None:
    """Who only locks, or reads at READ COMMITTED and is idle, holds no view and is no blocker."""
    with session(quiet, *statements):
        lag = read(quiet)
    assert lag.read_views == 0
    assert lag.blocker is None


def test_the_reader_is_blamed_beside_an_older_locker(quiet: Database) -> None:
    """Of an old locking transaction and a younger reader, the reader is named: it explains the only view."""
    with (
        session(quiet, "START TRANSACTION", "SELECT * FROM t WHERE id = 1 FOR UPDATE"),
        session(quiet, "START TRANSACTION", "SELECT * FROM t") as reader,
    ):
        wait_until(lambda: read(quiet).blocker is not None, what="the blocker")
        blocker = read(quiet).blocker
    assert blocker is not None
    assert blocker.connection_id == reader


def test_an_emoji_in_a_running_statement_hides_no_blocker(quiet: Database) -> None:
    """InnoDB's list of transactions cannot be read then, and the holder is named all the same."""
    quiet.execute("INSERT INTO t (v) VALUES (1)")
    with session(quiet, "START TRANSACTION", "SELECT 'held' FROM t") as holder:
        runner = quiet.connect(autocommit=True)
        pid = runner.thread_id()
        thread = threading.Thread(
            target=lambda: runner.cursor().execute("SELECT SLEEP(3), '\U0001f600' FROM t LIMIT 1")
        )
        thread.start()
        wait_until(lambda: quiet.value(RUNNING, (pid,)) == "User sleep", what="the statement")
        lag = read(quiet)
        thread.join()
        runner.close()
    assert lag.blocker is not None
    assert (lag.blocker.connection_id, lag.blocker.statement) == (holder, "SELECT 'held' FROM t")


def test_reading_purge_opens_no_read_view(quiet: Database) -> None:
    """The tool is never its own blocker: two readings by one connection both see no view."""
    with quiet.server().observe() as connection:
        assert [read_purge(connection).read_views for _ in range(2)] == [0, 0]


def account(database: Database, *grants: str) -> Database:
    """Return the database as an account of its own sees it."""
    name = database.name[:24] + "_u"
    database.execute(f"CREATE USER '{name}'@'%' IDENTIFIED BY 'secret'")
    for grant in grants:
        database.execute(f"GRANT {grant} TO '{name}'@'%'")
    return Database(database.name, database.host, database.port, database.admin, name, "secret")


def test_without_process_everything_is_unknown_with_the_grant(quiet: Database) -> None:
    """A missing PROCESS privilege gives None everywhere and a GRANT that, run as printed, makes it readable."""
    with fresh(quiet) as mine:
        plain = account(mine, f"SELECT ON `{mine.name}`.*")
        lag = read(plain)
        assert lag == PurgeLag(unknown=f"GRANT PROCESS ON *.* TO '{plain.user}'@'%';")
        mine.execute(str(lag.unknown).removesuffix(";"))
        assert read(plain).unpurged_transactions is not None
        mine.execute(f"DROP USER '{plain.user}'@'%'")


def test_without_performance_schema_the_blocker_is_still_named(quiet: Database) -> None:
    """PROCESS alone is enough for connection, user and age; what an idle blocker ran last is then unknown."""
    with fresh(quiet) as mine, session(quiet, "START TRANSACTION", "SELECT * FROM t") as holder:
        limited = account(mine, f"SELECT ON `{mine.name}`.*", "PROCESS ON *.*")
        wait_until(lambda: read(limited).blocker is not None, what="the blocker")
        blocker = read(limited).blocker
        mine.execute(f"DROP USER '{limited.user}'@'%'")
    assert blocker is not None
    assert (blocker.connection_id, blocker.statement) == (holder, None)
    assert str(blocker.user).startswith("root@")


@contextmanager
def fresh(database: Database) -> Iterator[Database]:
    """Yield another schema on the server of `database`."""
    name = f"{database.name}_x"
    database.execute(f"CREATE DATABASE {name}")
    try:
        yield Database(name, database.host, database.port, database.admin)
    finally:
        database.execute(f"DROP DATABASE {name}")


def test_what_a_dba_runs_is_what_qops_sends() -> None:
    """sql/purge_lag.sql holds the queries of the package, word for word."""
    root = Path(__file__).parent.parent
    script = statements((root / "sql" / "purge_lag.sql").read_text(encoding="utf-8"))
    queries = root / "qops" / "queries"
    for name in ("innodb_status", "read_view_candidates"):
        assert statements((queries / f"{name}.sql").read_text(encoding="utf-8"))[0] in script


def statements(text: str) -> list[str]:
    """Return the statements of a script, without comments and with single spaces."""
    bare = re.sub(r"--[^\n]*", "", text)
    return [" ".join(part.split()).removesuffix("\\G") for part in re.split(r";|\\G", bare) if part.strip()]
