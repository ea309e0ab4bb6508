"""Which connection holds the row of one job: found by index, while others hardly notice."""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack, closing, contextmanager
from typing import TYPE_CHECKING, Any

import MySQLdb
import pytest
import sqlalchemy as sa

from dev.server import private_server
from qops.holder import WAIT_SECONDS, Holders, Unknown, holder_of
from qops.statements.holder import touch
from tests.accounts import account
from tests.conftest import Database, fresh_database, wait_until
from tests.measure import spent_by
from tests.queues import RECIPE, RECIPE_TOML, fill, init, write_config

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SEEING = ("SELECT ON {db}.jobs", "SELECT ON performance_schema.*")


@pytest.fixture
def queue(database: Database) -> Database:
    init(database)
    fill(database, 5)
    return database


@contextmanager
def running(database: Database, *statements: str) -> Iterator[int]:
    """Yield the id of a connection whose transaction has run statements and is still open."""
    with closing(database.connect()) as session:
        number = int(session.thread_id())
        for statement in ("SET transaction_isolation = 'READ-COMMITTED'", *statements):
            session.cursor().execute(statement)
        yield number


@contextmanager
def waiting(database: Database, number: int, statement: str) -> Iterator[list[Any]]:
    """Yield while `number` sessions wait for what somebody holds; at the end their transactions are over."""
    with ExitStack() as stack:
        sessions = [stack.enter_context(closing(database.connect())) for _ in range(number)]
        ids = [int(session.thread_id()) for session in sessions]

        def wait(session: Any) -> None:
            try:
                session.cursor().execute(statement)
            except MySQLdb.Error:
                return
            session.rollback()

        threads = [threading.Thread(target=wait, args=[session]) for session in sessions]
        for thread in threads:
            thread.start()
        wait_until(lambda: in_line(database, ids) == number, what="the line")
        try:
            yield ids
        finally:
            for id_ in ids:
                database.execute(f"KILL QUERY {id_}")
            for thread in threads:
                thread.join()


def in_line(database: Database, connections: list[int]) -> int:
    """Return how many of these connections wait for a row."""
    return int(
        database.value(
            "SELECT COUNT(DISTINCT requesting_thread_id) FROM performance_schema.data_lock_waits "
            "JOIN performance_schema.threads ON thread_id = requesting_thread_id WHERE processlist_id IN %s",
            [connections],
        )
    )


def find(database: Database, id_: Any = 3) -> Any:
    return holder_of(database.server(), database.queue(), id_)


@pytest.mark.parametrize(
    "statements",
    [
        ["SELECT id FROM jobs WHERE id = 3 FOR UPDATE"],
        ["UPDATE jobs SET priority = 4 WHERE id = 3"],
        ["SELECT id FROM jobs WHERE status = 'pending' ORDER BY priority DESC, id FOR UPDATE"],
        ["SELECT id FROM jobs WHERE id = 3 FOR SHARE"],
        ["DELETE FROM jobs WHERE id = 3"],
        ["INSERT INTO jobs (id, payload) VALUES (9, '{}')", "UPDATE jobs SET priority = 1 WHERE id = 3"],
    ],
)
def test_the_connection_that_locked_the_row_is_found(queue: Database, statements: list[str]) -> None:
    """However the row was locked, exclusively or shared, by its id or along an index."""
    with running(queue, *statements) as holder:
        assert find(queue) == holder
    wait_until(lambda: find(queue) is None)


def test_a_row_that_is_being_inserted_has_a_holder(queue: Database) -> None:
    """A fresh row has no lock until somebody waits for it: the one that inserted it is named, not who waited first."""
    with running(queue, "INSERT INTO jobs (id, payload) VALUES (77, '{}')") as holder:
        with waiting(queue, 3, "SELECT id FROM jobs WHERE id = 77 FOR UPDATE"):
            assert find(queue, 77) == holder
        assert find(queue, 77) == holder
    with running(
        queue,
        "INSERT INTO jobs (id, payload) VALUES (77, '{}')",
        "UPDATE jobs SET status = 'running' WHERE id = 77",
    ) as holder:
        assert find(queue, 77) == holder


def test_the_holder_is_named_and_no_other_waiter(queue: Database) -> None:
    """With forty sessions in line before us, who holds the row is named; and all of them wait on."""
    with (
        running(queue, "SELECT id FROM jobs WHERE id = 3 FOR UPDATE") as holder,
        waiting(queue, 40, "SELECT id FROM jobs WHERE id = 3 FOR UPDATE") as ids,
    ):
        assert [find(queue) for _ in range(3)] == [holder] * 3
        assert in_line(queue, ids) == 40


def test_nobody_holds_a_free_row_or_one_that_is_not_there(queue: Database) -> None:
    """None for both, and no lock of ours is left."""
    with Holders(queue.server(), queue.queue()) as holders:
        assert [holders.of(id_) for id_ in (1, 3, 999)] == [None] * 3
        with running(queue, "UPDATE jobs SET priority = 2") as other:
            assert [holders.of(id_) for id_ in (1, 3, 999)] == [other, other, None]


def test_a_row_that_is_let_go_of_meanwhile_has_no_holder(queue: Database) -> None:
    """While a holder commits and locks again all the time, the answer is that connection or nobody, never an error."""
    stop = threading.Event()
    with closing(queue.connect()) as session, Holders(queue.server(), queue.queue()) as holders:
        number = session.thread_id()

        def churn() -> None:
            while not stop.is_set():
                session.cursor().execute("SELECT id FROM jobs WHERE id = 3 FOR UPDATE")
                session.rollback()

        thread = threading.Thread(target=churn)
        thread.start()
        try:
            answers = [holders.of(3) for _ in range(150)]
        finally:
            stop.set()
            thread.join()
    assert set(answers) <= {number, None}, set(answers)


def test_others_are_not_held_up(queue: Database) -> None:
    """While we look, a holder can go on with its row, and a claim passes over it; when it ends, we hold nothing."""
    with closing(queue.connect()) as session, closing(queue.connect(autocommit=True)) as claimer:
        number = session.thread_id()
        session.cursor().execute("SELECT id FROM jobs WHERE id = 3 FOR SHARE")
        answers: list[Any] = []
        thread = threading.Thread(target=lambda: answers.extend(find(queue) for _ in range(20)))
        thread.start()
        for n in range(20):
            session.cursor().execute("UPDATE jobs SET priority = %s WHERE id = 3", [n + 10])
            with claimer.cursor() as cursor:
                cursor.execute("SELECT id FROM jobs ORDER BY id FOR UPDATE SKIP LOCKED")
                assert 3 not in {row[0] for row in cursor.fetchall()}
        thread.join()
        assert set(answers) == {number}
        session.rollback()
        with claimer.cursor() as cursor:
            cursor.execute("SELECT id FROM jobs WHERE id = 3 FOR UPDATE NOWAIT")


def test_the_server_ends_the_wait_whatever_becomes_of_us(queue: Database) -> None:
    """A waiter that nobody calls off is ended by the server after WAIT_SECONDS."""
    with (
        running(queue, "SELECT id FROM jobs WHERE id = 3 FOR UPDATE"),
        Holders(queue.server(), queue.queue()) as holders,
    ):
        session = holders._session()
        started = time.monotonic()
        with pytest.raises(sa.exc.DBAPIError) as raised:
            session.execute(touch(queue.queue(), 3, shared=True, wait=True))
        assert WAIT_SECONDS * 0.9 <= time.monotonic() - started < WAIT_SECONDS + 1
        assert raised.value.orig is not None
        assert raised.value.orig.args[0] == 3024


def test_an_account_with_nothing_but_select_is_answered(queue: Database) -> None:
    """SELECT on the table and on performance_schema is enough for exclusive locks; a shared one is nobody's then."""
    with account(queue, *SEEING) as mine:
        with running(queue, "UPDATE jobs SET priority = 2 WHERE id = 3") as holder:
            assert find(mine) == holder
        with running(queue, "SELECT id FROM jobs WHERE id = 3 FOR SHARE"):
            assert find(mine) is None


def test_without_the_privilege_it_is_unknown_with_the_grant(queue: Database) -> None:
    """Unknown, never nobody; the GRANT in the reason runs as it stands and is enough."""
    with (
        account(queue, "SELECT, UPDATE ON {db}.jobs") as mine,
        running(queue, "UPDATE jobs SET priority = 2 WHERE id = 3") as holder,
    ):
        unknown = find(mine)
        assert isinstance(unknown, Unknown)
        queue.execute(unknown.reason.partition("can run: ")[2].rstrip(";"))
        assert find(mine) == holder


def test_what_is_looked_at_does_not_grow_with_the_locks(database: Database, clean_environment: Path) -> None:
    """With a transaction that holds 200,000 row locks, a look-up examines a few rows and takes no longer."""
    write_config(clean_environment, RECIPE_TOML)
    database.execute(RECIPE)
    database.execute("SET SESSION cte_max_recursion_depth = 1000000")
    database.execute(
        "INSERT INTO jobs WITH RECURSIVE s AS (SELECT 1 n UNION ALL SELECT n + 1 FROM s WHERE n < 200000) "
        "SELECT n, 'x', 'queued' FROM s"
    )
    config = clean_environment / "qops.toml"
    with (
        account(database, *SEEING) as mine,
        running(database, "UPDATE jobs SET task = 'y'") as holder,
    ):
        queue, before, started = mine.queue(config), spent_by(database, mine.user), time.monotonic()
        assert holder_of(mine.server(), queue, 123_456) == holder
        took = time.monotonic() - started
        assert (spent_by(database, mine.user) - before).examined < 200
        assert took < 1


def test_a_transaction_without_a_connection_is_unknown(queue: Database) -> None:
    """A prepared XA transaction whose client has gone holds its rows; no connection's id is made up for it."""
    with closing(queue.connect(autocommit=True)) as session:
        cursor = session.cursor()
        cursor.execute(f"XA START '{queue.name}'")
        cursor.execute("UPDATE jobs SET priority = 2 WHERE id = 3")
        cursor.execute(f"XA END '{queue.name}'")
        cursor.execute(f"XA PREPARE '{queue.name}'")
        number = session.thread_id()
    wait_until(lambda: not queue.rows("SELECT 1 FROM information_schema.processlist WHERE id = %s", [number]))
    try:
        answer = find(queue)
        assert isinstance(answer, Unknown)
        assert "XA RECOVER" in answer.reason
    finally:
        queue.execute(f"XA ROLLBACK '{queue.name}'")


def test_where_sessions_are_not_recorded_it_is_unknown() -> None:
    """With performance_schema OFF the lock tables are empty, which is not "nobody"."""
    with private_server(options=["--performance-schema=OFF"]) as server, fresh_database(server) as database:
        init(database)
        fill(database, 5)
        with running(database, "UPDATE jobs SET priority = 2 WHERE id = 3"):
            answer = find(database)
    assert isinstance(answer, Unknown)
    assert "performance_schema" in answer.reason


def test_old_servers_lock_tables_are_not_read(queue: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where reading them can stall the server it is unknown."""
    monkeypatch.setattr("qops.holder.lock_tables_stall", lambda _version: True)
    with running(queue, "UPDATE jobs SET priority = 2 WHERE id = 3"):
        answer = find(queue)
    assert isinstance(answer, Unknown)
    assert "stall" in answer.reason
