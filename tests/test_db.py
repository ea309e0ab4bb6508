"""The door to MySQL: what its errors mean, and transactions that are repeated whole or not at all."""

from __future__ import annotations

import contextlib
import threading
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import MySQLdb
import pytest
import sqlalchemy as sa

from dev import server as throwaway
from qops.clock import Stop
from qops.db import (
    DEADLOCK,
    DENIED,
    EXHAUSTED,
    LOCK_TIMEOUT,
    LOST,
    NO_SUCH_OBJECT,
    REFUSED,
    RETRYABLE,
    UNREACHABLE,
    RowLocked,
    Server,
    explain,
    open_server,
    quote_account,
    quote_name,
    statement,
    transact,
)
from qops.errors import ConnectionLost, Misconfigured, PrivilegeMissing, QopsError, TryLater, Unavailable
from qops.login import OtherServer
from qops.settings import Flags, load
from tests.accounts import account
from tests.conftest import Database, fresh_database, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def rows(database: Database) -> Database:
    """Return the schema with a table `t` of two rows with n = 0."""
    database.execute("CREATE TABLE t (id INT PRIMARY KEY, n INT NOT NULL, u INT UNIQUE) ENGINE=InnoDB")
    database.execute("INSERT INTO t VALUES (1, 0, 1), (2, 0, 2)")
    return database


def values(database: Database) -> list[int]:
    return [n for (n,) in database.rows("SELECT n FROM t ORDER BY id")]


def add(connection: sa.Connection, number: int) -> None:
    connection.execute(sa.text("UPDATE t SET n = n + 1 WHERE id = :id"), {"id": number})


def connection_id(connection: sa.Connection) -> int:
    return int(connection.execute(sa.text("SELECT CONNECTION_ID()")).scalar_one())


def running(database: Database, number: int, text: str) -> bool:
    """Whether connection `number` is at a statement that begins with `text`."""
    found = database.rows(
        "SELECT processlist_info FROM performance_schema.threads WHERE processlist_id = %s", (number,)
    )
    return bool(found and found[0][0] and found[0][0].startswith(text))


def waiting_for_row(database: Database, number: int) -> bool:
    """Whether connection `number` waits for a row lock."""
    query = (
        "SELECT 1 FROM performance_schema.data_lock_waits w JOIN performance_schema.threads t "
        "ON t.thread_id = w.requesting_thread_id WHERE t.processlist_id = %s"
    )
    return bool(database.rows(query, (number,)))


# Repeating


def test_a_deadlock_is_repeated_whole(rows: Database) -> None:
    """The victim of a deadlock runs its work again from the beginning, is told so, and nothing is done twice."""
    server = rows.server()
    other = rows.connect()
    cursor = other.cursor()
    # The server ends the transaction that changed fewer rows: the other one has changed many.
    rows.execute("CREATE TABLE heavy (id INT PRIMARY KEY, n INT) ENGINE=InnoDB")
    rows.execute("INSERT INTO heavy SELECT help_keyword_id, 0 FROM mysql.help_keyword LIMIT 500")
    cursor.execute("UPDATE heavy SET n = 1")
    cursor.execute("UPDATE t SET n = n + 10 WHERE id = 2")
    retries: list[int] = []
    tries: list[int] = []

    def work(connection: sa.Connection) -> str:
        tries.append(connection_id(connection))
        add(connection, 1)
        if len(tries) == 1:
            threading.Thread(target=cross, args=[tries[0]]).start()
        add(connection, 2)
        return "done"

    def cross(victim: int) -> None:
        with contextlib.closing(rows.connect(autocommit=True)) as watch:
            watcher = replace(rows, admin=watch)
            wait_until(lambda: waiting_for_row(watcher, victim), what="the victim's wait")
        cursor.execute("UPDATE t SET n = n + 10 WHERE id = 1")
        other.commit()

    with server.session() as connection:
        assert transact(server, connection, work, on_retry=retries.append) == "done"
    other.close()
    assert retries == [DEADLOCK]
    assert len(tries) == 2
    assert tries[0] == tries[1]
    assert values(rows) == [11, 11]


@pytest.mark.parametrize("lock", ["row", "table"])
def test_a_lock_timeout_is_repeated_whole(rows: Database, lock: str) -> None:
    """After 1205 on a row or on metadata the statements before it are undone too, and all of them run again."""
    server = rows.server()
    retries: list[int] = []
    with contextlib.closing(rows.connect()) as other, server.session() as connection:
        connection.execute(sa.text("SET SESSION innodb_lock_wait_timeout = 1, lock_wait_timeout = 1"))
        connection.commit()
        cursor = other.cursor()
        rows.execute("CREATE TABLE s (id INT PRIMARY KEY, n INT) ENGINE=InnoDB")
        rows.execute("INSERT INTO s VALUES (1, 0)")
        cursor.execute("UPDATE s SET n = 1 WHERE id = 1" if lock == "row" else "LOCK TABLES s WRITE")

        def told(code: int) -> None:
            retries.append(code)
            other.rollback()
            cursor.execute("UNLOCK TABLES")

        def work(connection: sa.Connection) -> None:
            add(connection, 1)
            connection.execute(sa.text("UPDATE s SET n = n + 5 WHERE id = 1"))

        transact(server, connection, work, on_retry=told)
    assert retries == [LOCK_TIMEOUT]
    assert values(rows) == [1, 0]
    assert rows.value("SELECT n FROM s") == 5


def test_the_budget_of_repetitions_ends(rows: Database) -> None:
    """After the last attempt the error is one to try again later (75), and nothing was changed."""
    server = rows.server()
    retries: list[int] = []
    with contextlib.closing(rows.connect()) as other, server.session() as connection:
        connection.execute(sa.text("SET SESSION innodb_lock_wait_timeout = 1"))
        other.cursor().execute("SELECT * FROM t WHERE id = 2 FOR UPDATE")

        def work(connection: sa.Connection) -> None:
            add(connection, 1)
            add(connection, 2)

        with pytest.raises(TryLater) as caught:
            transact(server, connection, work, attempts=2, on_retry=retries.append)
    assert caught.value.exit_code == 75
    assert "Lock wait timeout" in str(caught.value)
    assert retries == [LOCK_TIMEOUT]
    assert values(rows) == [0, 0]


def test_no_attempt_follows_a_request_to_stop(rows: Database) -> None:
    """Once somebody asked to stop, a failed attempt is the last."""
    server, stop = rows.server(), Stop()
    stop.request(15)
    tries: list[int] = []
    with contextlib.closing(rows.connect()) as other, server.session() as connection:
        connection.execute(sa.text("SET SESSION innodb_lock_wait_timeout = 1"))
        other.cursor().execute("SELECT * FROM t WHERE id = 2 FOR UPDATE")

        def work(connection: sa.Connection) -> None:
            tries.append(1)
            add(connection, 2)

        with pytest.raises(TryLater):
            transact(server, connection, work, stop=stop)
    assert tries == [1]


@pytest.mark.parametrize(
    ("sql", "kind", "words"),
    [
        ("INSERT INTO t VALUES (1, 9, 9)", QopsError, "Duplicate entry"),
        ("UPDATE t SET nothing = 1", Misconfigured, "nothing"),
        ("UPDATE gone SET n = 1", Misconfigured, "gone"),
        ("UPDATE t SET n = 1 WHERE", QopsError, "syntax"),
    ],
)
def test_other_errors_are_not_repeated(rows: Database, sql: str, kind: type[QopsError], words: str) -> None:
    """An error that would come again ends the transaction at once, and what it had done is undone."""
    server = rows.server()
    tries: list[int] = []

    def work(connection: sa.Connection) -> None:
        tries.append(1)
        add(connection, 1)
        connection.execute(sa.text(sql))

    with server.session() as connection, pytest.raises(kind, match=words):
        transact(server, connection, work)
    assert tries == [1]
    assert values(rows) == [0, 0]


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt])
def test_an_exception_of_the_work_rolls_back(rows: Database, error: type[BaseException]) -> None:
    """Whatever the work raises, also an interrupt, passes through, and the transaction is undone at once."""
    server = rows.server()

    def work(connection: sa.Connection) -> None:
        add(connection, 1)
        raise error

    with server.session() as connection:
        with pytest.raises(error):
            transact(server, connection, work)
        assert rows.execute("UPDATE t SET n = 7 WHERE id = 1") == 1  # no lock is left
    assert values(rows) == [7, 0]


def test_nowait_says_locked_at_once(rows: Database) -> None:
    """A row that is asked for with NOWAIT is reported as locked (75), without a second attempt."""
    server = rows.server()
    with contextlib.closing(rows.connect()) as other, server.session() as connection:
        other.cursor().execute("SELECT * FROM t WHERE id = 1 FOR UPDATE")
        with pytest.raises(RowLocked) as caught:
            transact(server, connection, lambda c: c.execute(sa.text("SELECT * FROM t WHERE id = 1 FOR UPDATE NOWAIT")))
    assert caught.value.exit_code == 75


# Losing the connection


@pytest.mark.parametrize("tls", ["", "?ssl_mode=REQUIRED"])
@pytest.mark.parametrize("moment", ["in a statement", "between statements", "before commit"])
def test_a_lost_connection(rows: Database, moment: str, tls: str) -> None:
    """A connection that is lost is told as such (69) and not repeated; only a lost COMMIT has an unknown fate."""
    server = open_server(load(Flags(url=rows.url + tls), {}).database)
    tries: list[int] = []

    def work(connection: sa.Connection) -> None:
        tries.append(connection_id(connection))
        add(connection, 1)
        if moment == "in a statement":
            threading.Thread(target=kill_at_sleep, args=[tries[0]]).start()
            connection.execute(sa.text("SELECT SLEEP(60) FROM t"))
        rows.execute("KILL %s", (tries[0],))
        if moment == "between statements":
            add(connection, 2)

    def kill_at_sleep(number: int) -> None:
        with contextlib.closing(rows.connect(autocommit=True)) as other:
            watcher = replace(rows, admin=other)
            wait_until(lambda: running(watcher, number, "SELECT SLEEP"), what="the statement")
            watcher.execute("KILL %s", (number,))

    with server.session() as connection:
        with pytest.raises(ConnectionLost) as caught:
            transact(server, connection, work)
        assert caught.value.exit_code == 69
        assert caught.value.in_commit == (moment == "before commit")
        assert len(tries) == 1
        # The session goes on with a new connection that has what every session of qops has.
        assert transact(server, connection, connection_id) != tries[0]
        level = sa.text("SELECT @@transaction_isolation, @@time_zone, @@autocommit")
        assert tuple(connection.execute(level).one()) == ("READ-COMMITTED", "+00:00", 0)
    assert values(rows) == [0, 0]


def test_an_interrupted_statement_can_be_tried_again(rows: Database) -> None:
    """A statement that an operator killed (KILL QUERY) is one to try again later (75), and nothing is left of it."""
    server = rows.server()

    def interrupt(number: int) -> None:
        with contextlib.closing(rows.connect(autocommit=True)) as other:
            watcher = replace(rows, admin=other)
            wait_until(lambda: waiting_for_row(watcher, number), what="the wait")
            watcher.execute("KILL QUERY %s", (number,))

    def work(connection: sa.Connection) -> None:
        add(connection, 1)
        threading.Thread(target=interrupt, args=[connection_id(connection)]).start()
        add(connection, 2)

    with contextlib.closing(rows.connect()) as other, server.session() as connection:
        other.cursor().execute("SELECT * FROM t WHERE id = 2 FOR UPDATE")
        with pytest.raises(TryLater, match="interrupted"):
            transact(server, connection, work)
    assert values(rows) == [0, 0]


# Sessions


def test_what_is_open_at_the_end_is_rolled_back(rows: Database) -> None:
    """Leaving a session undoes what was not committed, and leaves no connection behind."""
    server = rows.server()
    with server.session() as connection:
        number = connection_id(connection)
        add(connection, 1)
    assert values(rows) == [0, 0]
    wait_until(
        lambda: not rows.rows("SELECT 1 FROM performance_schema.threads WHERE processlist_id = %s", (number,)),
        what="the end of the connection",
    )


def test_observing_leaves_nothing_open(rows: Database) -> None:
    """A monitoring session sees each new value and has no transaction open between its statements."""
    with rows.server().observe() as connection:
        number = connection_id(connection)
        for expected in (0, 1, 2):
            assert connection.execute(sa.text("SELECT n FROM t WHERE id = 1")).scalar_one() == expected
            open_now = "SELECT 1 FROM information_schema.innodb_trx WHERE trx_mysql_thread_id = %s"
            assert rows.rows(open_now, (number,)) == []
            rows.execute("UPDATE t SET n = n + 1 WHERE id = 1")


def test_observing_has_a_limit(rows: Database) -> None:
    """A monitoring query that takes too long is ended by the server and is one to try again later (75)."""
    slow = "SELECT SUM(SLEEP(0.01)) FROM information_schema.collations a, information_schema.collations b"
    server = rows.server()
    with server.observe() as connection:
        assert 1000 <= connection.execute(sa.text("SELECT @@max_execution_time")).scalar_one() <= 30_000
        connection.execute(sa.text("SET SESSION max_execution_time = 50"))
        with pytest.raises(TryLater, match="maximum statement execution time"), server.translating():
            connection.execute(sa.text(slow))


def test_a_session_that_lost_its_isolation_level_is_refused(rows: Database) -> None:
    """Where a proxy lost the session's settings, a transaction refuses to run (78) before anything is changed."""
    server = rows.server()
    with server.session() as connection:
        connection.execute(sa.text("SET SESSION transaction_isolation = 'REPEATABLE-READ'"))
        with pytest.raises(Misconfigured, match=r"REPEATABLE-READ.*proxy"):
            transact(server, connection, lambda c: add(c, 1))
        connection.execute(sa.text("SET SESSION transaction_isolation = 'READ-COMMITTED'"))
        transact(server, connection, lambda c: add(c, 1))
    assert values(rows) == [1, 0]


# Privileges


def test_a_missing_privilege_comes_with_its_grant(rows: Database) -> None:
    """A refusal (77) holds the GRANT for this account and schema, also where it may have only one connection."""
    with account(rows, "SELECT ON {db}.t") as limited:
        rows.execute(f"ALTER USER '{limited.user}'@'%' WITH MAX_USER_CONNECTIONS 1")
        server = limited.server().for_command(lambda who, schema: f"GRANT UPDATE ON {quote_name(schema)}.t TO {who};")
        expected = f"GRANT UPDATE ON `{rows.name}`.t TO {limited.user}@%;"
        with pytest.raises(PrivilegeMissing) as caught, server.session() as connection:
            transact(server, connection, lambda c: add(c, 1))
        assert caught.value.exit_code == 77
        assert str(caught.value).splitlines()[-1] == expected
        with pytest.raises(PrivilegeMissing) as caught, server.session() as connection:
            add(connection, 1)
        assert str(caught.value).splitlines()[-1] == expected


def test_a_schema_that_the_account_may_not_use(rows: Database) -> None:
    """A login that is refused for its schema (1044) is a missing privilege (77) that names the schema in the GRANT."""
    with account(rows) as nobody:
        server = nobody.server().for_command(lambda who, schema: f"GRANT SELECT ON {quote_name(schema)}.* TO {who};")
        with pytest.raises(PrivilegeMissing) as caught, server.session():
            pass
    assert str(caught.value).splitlines()[-1] == f"GRANT SELECT ON `{rows.name}`.* TO {nobody.user}@%;"


@pytest.mark.parametrize("name", ["plain", "it's", "back\\slash", "at@sign", 'dou"ble', "tick`"])
def test_an_account_is_quoted_as_grant_wants_it(rows: Database, name: str) -> None:
    """What messages print for an account and a table can be typed as it stands."""
    user = f"{name}{rows.name[-6:]}"
    rows.execute("CREATE USER %s@'%%' IDENTIFIED BY 'pw'", (user,))
    try:
        quoted = quote_account(f"{user}@%")
        rows.execute(f"GRANT SELECT ON {quote_name(rows.name)}.t TO {quoted}")
        url = f"mysql://{quote(user, safe='')}:pw@{rows.host}:{rows.port}/{rows.name}"
        with open_server(load(Flags(url=url), {}).database).session() as connection:
            current = connection.execute(sa.text("SELECT CURRENT_USER()")).scalar_one()
            assert quote_account(current) == quoted
            assert connection.execute(sa.text("SELECT COUNT(*) FROM t")).scalar_one() == 2
    finally:
        rows.execute("DROP USER %s@'%%'", (user,))


@pytest.mark.parametrize("name", ["a`b", "a b", "select", "a.b", "%s"])
def test_a_name_is_quoted(rows: Database, name: str) -> None:
    """An identifier in backticks is the identifier."""
    rows.execute(f"CREATE TABLE {quote_name(name)} (id INT)")
    assert (name,) in rows.rows("SHOW TABLES")


# Numbers


@pytest.mark.parametrize(
    ("codes", "kind", "exit_code"),
    [
        (LOST, ConnectionLost, 69),
        (UNREACHABLE, Unavailable, 69),
        (REFUSED, Unavailable, 69),
        (EXHAUSTED, Unavailable, 69),
        ({1290, 1792, 1836}, Unavailable, 69),
        ({2059, 2061, 1251}, Unavailable, 69),
        (RETRYABLE, TryLater, 75),
        ({1317, 3024}, TryLater, 75),
        ({3572}, RowLocked, 75),
        ({1665}, Misconfigured, 78),
        (NO_SUCH_OBJECT, Misconfigured, 78),
        ({1064}, QopsError, 70),
        ({1442, 1644, 4711}, Misconfigured, 78),
    ],
)
def test_what_numbers_mean(codes: set[int], kind: type[QopsError], exit_code: int) -> None:
    """Each number the server or the driver gives has one meaning and one exit code, and its sentence is kept."""
    for code in codes:
        error = explain(code, "the server's sentence", where="h:1", lost=False)
        assert (type(error), error.exit_code) == (kind, exit_code), code
        assert "the server's sentence" in str(error)
        assert "h:1" in str(error)


def test_no_number_has_two_meanings() -> None:
    """The sets of numbers do not overlap, so the order in which they are asked does not matter."""
    sets = [LOST, REFUSED, EXHAUSTED, DENIED, RETRYABLE, NO_SUCH_OBJECT, UNREACHABLE, {3572}, {1665}, {1317, 3024}]
    assert len(frozenset().union(*sets)) == sum(map(len, sets))


@pytest.mark.parametrize(
    ("url", "words", "exit_code"),
    [
        ("mysql://root@{host}:{port}/no_such_schema", "no_such_schema", 78),
        ("mysql://nobody_here@{host}:{port}/", "nobody_here", 69),
        ("mysql://root@no-such-host.invalid/", "no-such-host.invalid", 69),
        ("mysql://root@{host}:1/", "{host}:1", 69),
    ],
)
def test_a_login_that_fails(database: Database, url: str, words: str, exit_code: int) -> None:
    """An unknown schema is configuration (78); an unknown account, host or port is unavailable (69)."""
    place = {"host": database.host, "port": database.port}
    with pytest.raises(QopsError) as caught, open_server(load(Flags(url=url.format(**place)), {}).database).session():
        pass
    assert caught.value.exit_code == exit_code
    assert words.format(**place) in str(caught.value)


def test_documented_queries_can_be_loaded() -> None:
    """A documented query is read once and has the parameters that its text names."""
    assert statement("columns") is statement("columns")
    assert set(statement("columns").compile().params) == {"schema", "table", "other"}


# Servers with other defaults


@dataclass(frozen=True)
class Odd:
    """A server with awkward defaults in New York, and a schema on it with the table `t`."""

    server: throwaway.Server
    database: Database

    @contextlib.contextmanager
    def setting(self, name: str, value: Any) -> Iterator[None]:
        """Change a global variable for the length of a `with`."""
        before = self.database.value(f"SELECT @@GLOBAL.{name}")
        self.database.execute(f"SET GLOBAL {name} = %s", (value,))
        try:
            yield
        finally:
            self.database.execute(f"SET GLOBAL {name} = %s", (before,))


@pytest.fixture(scope="module")
def odd() -> Iterator[Odd]:
    options = [
        "--sql-mode=ANSI_QUOTES,NO_BACKSLASH_ESCAPES,PIPES_AS_CONCAT,NO_ZERO_DATE,NO_ZERO_IN_DATE",
        "--lower-case-table-names=1",
        "--transaction-isolation=SERIALIZABLE",
        "--autocommit=OFF",
        "--character-set-server=latin1",
        "--skip-log-bin",
    ]
    with (
        throwaway.private_server(options, env={"TZ": "America/New_York"}) as server,
        fresh_database(server) as database,
    ):
        database.execute("CREATE TABLE T (id INT PRIMARY KEY, n INT, text VARCHAR(100)) CHARACTER SET utf8mb4")
        database.admin.commit()
        yield Odd(server, database)


def test_awkward_defaults_do_not_matter(odd: Odd) -> None:
    """Strings, quotes, zero dates, time zone and isolation are qops' own, whatever the server's defaults are."""
    server = odd.database.server()
    text = "a\\b'c\"d\\'e%f😀\\"

    def work(connection: sa.Connection) -> None:
        connection.execute(sa.text("INSERT INTO t VALUES (0, 1, :text), (2, 2, 'x')"), {"text": text})

    with server.session() as connection:
        transact(server, connection, work)
        found = connection.execute(sa.text("SELECT text FROM t WHERE text = :text AND \"t\" <> 'u'"), {"text": text})
        assert found.scalar_one() == text
        assert connection.execute(sa.text("SELECT id FROM t ORDER BY id")).scalars().all() == [0, 2]
        zone = sa.text("SELECT @@time_zone, TIMESTAMPDIFF(SECOND, UTC_TIMESTAMP(), NOW()), @@system_time_zone")
        assert connection.execute(zone).one()[:2] == ("+00:00", 0)
        assert connection.execute(zone).one()[2] in {"EST", "EDT"}
        connection.execute(sa.text("CREATE TEMPORARY TABLE z (d DATE NOT NULL)"))
        assert connection.execute(sa.text("INSERT INTO z VALUES ('0000-00-00')")).rowcount == 1
    table = sa.table(sa.sql.quoted_name("T", quote=True), sa.column("id"))
    with server.observe() as connection:
        assert connection.execute(sa.select(sa.func.count()).select_from(table)).scalar_one() == 2


def test_a_read_only_server(odd: Odd) -> None:
    """On a server that is read-only, a change is refused as unavailable (69) with where to go instead."""
    with account(odd.database, "ALL ON {db}.*") as plain, odd.setting("super_read_only", 1):
        server = plain.server()
        with pytest.raises(Unavailable, match=r"read-only.*writable"), server.session() as connection:
            transact(server, connection, lambda c: add(c, 2))
    odd.database.execute("SET GLOBAL read_only = 0")


def test_too_many_connections(odd: Odd) -> None:
    """A server without a free connection is unavailable (69), for a plain account and for its own limit too."""
    with (
        account(odd.database, "ALL ON {db}.*") as plain,
        odd.setting("max_connections", 1),  # the fixture has it; one more is kept free for administrators only
        pytest.raises(Unavailable, match="Too many connections"),
        plain.server().session(),
    ):
        pass


def test_statement_binlog(tmp_path: Any) -> None:
    """Where the binary log is written as statements, the message says what forbids the change and what to set (78)."""
    with throwaway.private_server(["--binlog-format=STATEMENT"]) as server, fresh_database(server) as database:
        database.execute("CREATE TABLE t (id INT PRIMARY KEY, n INT)")
        qops = database.server()
        with pytest.raises(Misconfigured, match=r"binlog_format=STATEMENT.*ROW"), qops.session() as connection:
            transact(qops, connection, lambda c: add(c, 1))


def test_another_flavor_is_named_before_anything_is_sent() -> None:
    """MariaDB is refused by name and version (78), before any statement that only MySQL understands."""
    try:
        with throwaway.private_server(product="mariadb") as server:
            qops = open_server(load(Flags(url=f"mysql://root@127.0.0.1:{server.port}/"), {}).database)
            with pytest.raises(OtherServer, match=r"MariaDB 1\d\.\d+\.\d+ is not supported") as caught, qops.session():
                pass
    except throwaway.ServerError as error:
        pytest.skip(f"no MariaDB: {error}")
    assert caught.value.exit_code == 78
    assert caught.value.flavor == "MariaDB"


def test_a_driver_error_is_what_the_bare_driver_raises_too(database: Database) -> None:
    """Errors of the bare driver are translated as those that came through SQLAlchemy."""
    server: Server = database.server()
    with pytest.raises(Misconfigured), server.translating(), database.admin.cursor() as cursor:
        cursor.execute("SELECT * FROM nowhere")
    assert isinstance(server.translate(MySQLdb.OperationalError(2013, "gone")), ConnectionLost)
