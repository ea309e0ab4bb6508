"""The only door to MySQL: sessions, error numbers, and transactions that are retried whole."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import MySQLdb
import sqlalchemy as sa
from sqlalchemy import event, exc
from sqlalchemy.pool import NullPool

from qops import dialect
from qops.clock import Stop, backoff, sleep
from qops.errors import ConnectionLost, Misconfigured, PrivilegeMissing, QopsError, TryLater, Unavailable
from qops.login import Login, prepare

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from qops.settings import Database

T = TypeVar("T")
S = TypeVar("S", bound="Transactional")

# Error numbers, from the server's message reference; the driver's own are 2000-2999.
LOCK_TIMEOUT, DEADLOCK, NOWAIT, DUPLICATE = 1205, 1213, 3572, 1062
RETRYABLE = frozenset({LOCK_TIMEOUT, DEADLOCK, 3101})  # 3101: a group member refused the commit
LOST = frozenset({1053, 1158, 1159, 1160, 1161, 1927, 2006, 2013, 2055, 3169, 4031})
TLS_TROUBLE = 2026  # while logging in; afterwards it is how a connection under TLS is lost
REFUSED = frozenset({1040, 1045, 1129, 1130, 1203, 1226, 1524, 1698, 1820, 1862, 3118, 3159, 3955})
UNREACHABLE = frozenset({2001, 2002, 2003, 2004, 2005, 2007, 2009, 2012, TLS_TROUBLE})
EXHAUSTED = frozenset({1021, 1037, 1038, 1041, 1114, 1135, 1180, 1197, 1206})  # disk, memory, locks, binlog cache
READ_ONLY = frozenset({1290, 1792, 1836})
DENIED = frozenset({1044, 1142, 1143, 1227, 1370, 1419})
UNREADABLE = 3854  # a list of transactions while one of them runs a statement with a character beyond U+FFFF
INTERRUPTED = frozenset({1317, 3024})
WRONG_TIME = frozenset({1292, 1441})
NO_PLUGIN = frozenset({1251, 2059, 2061})
STATEMENT_BINLOG = 1665
NO_SUCH_TABLE = 1146
NO_SUCH_INDEX = 1176
NO_SUCH_OBJECT = frozenset({1049, 1051, 1054, NO_SUCH_TABLE})

OBSERVE_MILLISECONDS = 5_000

DRIVER_ERRORS = (exc.DBAPIError, MySQLdb.Error)
"""What a statement may raise, through SQLAlchemy and through the bare driver."""


class Transactional(Protocol):
    """What a transaction is run on: a SQLAlchemy connection, or a worker's own."""

    def commit(self) -> None:
        """Commit what is open."""

    def rollback(self) -> None:
        """Undo what is open."""

    def invalidate(self) -> None:
        """Forget a connection that is broken."""


class RowLocked(TryLater):
    """A row that was asked for with NOWAIT is locked by somebody else."""


@dataclass(frozen=True)
class Server:
    """A server to talk to. `grants` renders the privileges that the running command needs, for messages."""

    engine: sa.Engine
    login: Login
    grants: Callable[[str, str], str] | None = field(default=None, compare=False)

    def for_command(self, grants: Callable[[str, str], str]) -> Server:
        """Return this server with `grants(account, schema)` to be quoted when a privilege is missing."""
        return replace(self, grants=grants)

    def for_worker(self, name: str) -> Server:
        """Return this server as the worker `name` connects to it: its sessions can be found by that name."""
        return replace(server_of(replace(self.login, worker=name)), grants=self.grants)

    @contextmanager
    def session(self) -> Iterator[sa.Connection]:
        """Yield one connection for transactions; whatever is open at the end is rolled back.

        Raises the error family only: what the driver raised inside is translated on its way out.
        """
        with self.translating(), self.engine.connect() as connection:
            yield connection

    @contextmanager
    def translating(self) -> Iterator[None]:
        """Raise as the error family what the driver raises inside."""
        try:
            yield
        except DRIVER_ERRORS as error:
            raise self.translate(error) from error

    @contextmanager
    def observe(self) -> Iterator[sa.Connection]:
        """Yield one connection in autocommit for reading: no read view outlives its statement.

        Each SELECT is bounded by MAX_EXECUTION_TIME (milliseconds).
        """
        with self.session() as connection:
            watching = connection.execution_options(isolation_level="AUTOCOMMIT")
            watching.execute(sa.text("SET SESSION max_execution_time = :limit"), {"limit": OBSERVE_MILLISECONDS})
            yield watching

    def translate(self, error: BaseException, *, lost: bool = False) -> QopsError:
        """Return what an error of DRIVER_ERRORS means to the user, with the next thing to do.

        `lost` says that the connection turned out to be broken, whatever the error says.
        """
        code, message = errno(error), prose(error)
        if code in DENIED:
            return PrivilegeMissing(self.with_grants(message))
        lost = lost or getattr(error, "connection_invalidated", False)
        return explain(code, message, where=self.place, lost=lost)

    @property
    def host(self) -> str:
        """The host's name or the socket's path; what is known of the server where an option file says it."""
        return self.login.host

    @property
    def port(self) -> int | None:
        """The port that was asked for."""
        return self.login.port

    @property
    def place(self) -> str:
        """Where the server is, for messages: host and port, never a credential."""
        return f"{self.host}:{self.port}" if self.port else self.host

    def with_grants(self, message: str) -> str:
        """Return `message` with the GRANT statements that the running command needs, if the account can be told."""
        if self.grants is None:
            return message
        try:
            account, schema = self.login.identity(MySQLdb)
        except (MySQLdb.Error, QopsError):
            return message
        grants = self.grants(account, schema) if account and schema else ""
        return f"{message}; an administrator can run:\n{grants}" if grants else message


def errno(error: BaseException) -> int:
    """Return the server's or driver's error number in `error`, 0 if there is none."""
    arguments = getattr(getattr(error, "orig", error), "args", ())
    return arguments[0] if arguments and isinstance(arguments[0], int) else 0


# What an error number means, in the order in which they are asked; {} are the server's place and its sentence.
_MEANINGS: tuple[tuple[frozenset[int], type[QopsError], str], ...] = (
    (LOST, ConnectionLost, "the connection to {} was lost: {}"),
    (UNREACHABLE, Unavailable, "cannot connect to {}: {}; is the server up, and is --url right?"),
    (
        NO_PLUGIN,
        Unavailable,
        (
            "{}: the client library lacks the account's authentication plugin: {}; install the library's plugin "
            "(Debian: libmariadb3 ships caching_sha2_password) or use an account it can serve"
        ),
    ),
    (
        frozenset({1226}),
        Unavailable,
        "{}: {}; the account is at a limit of its own: try again later, or have it raised (ALTER USER … WITH …)",
    ),
    (REFUSED, Unavailable, "{} refused the login: {}; check user, password and the account's limits"),
    (EXHAUSTED, Unavailable, "{} could not carry it out: {}"),
    (READ_ONLY, Unavailable, "{} is read-only: {}; connect to the writable source"),
    (
        frozenset({STATEMENT_BINLOG}),
        Misconfigured,
        (
            "{}: binlog_format=STATEMENT forbids writes at READ COMMITTED: {}; set binlog_format=ROW in the server's "
            "option file (SET GLOBAL binlog_format = 'ROW' until the restart)"
        ),
    ),
    (frozenset({NOWAIT}), RowLocked, "{}: the row is locked by another session: {}"),
    (
        RETRYABLE | INTERRUPTED,
        TryLater,
        (
            "{}: {}; see what holds it with SELECT * FROM sys.innodb_lock_waits (or sys.schema_table_lock_waits), "
            "then try again"
        ),
    ),
    (
        WRONG_TIME,
        Misconfigured,
        (
            "{}: {}; a TIMESTAMP column ends at 2038-01-19 03:14:07 UTC, a DATETIME column (with clock in its [queues] "
            "section) at the end of the year 9999"
        ),
    ),
    (frozenset({1049}), Misconfigured, "{}: {}; check --url, or have it created: CREATE DATABASE"),
    (NO_SUCH_OBJECT, Misconfigured, "{}: {}; check --url and qops.toml, or create it with: qops init"),
)
SYNTAX = frozenset({1064, 1149, 1210, 1243})  # what qops itself wrote is wrong: a bug


def explain(code: int, message: str, *, where: str, lost: bool) -> QopsError:
    """Return the error of the family for error number `code` of the server at `where`."""
    if lost:
        code = min(LOST)
    elif "could not be loaded" in message and code in REFUSED:
        # MariaDB's library reports a plugin that it lacks with the server's number for a refused login.
        code = min(NO_PLUGIN)
    for codes, kind, template in _MEANINGS:
        if code in codes:
            return kind(template.format(where, message))
    of_server = 1000 <= code < 2000 or code >= 3000  # noqa: PLR2004 - the driver's own numbers are between
    if of_server and code not in SYNTAX:
        return Misconfigured(f"{where}: the server refuses this: {message} (error {code})")
    return QopsError(f"{where}: unexpected error {code}: {message}")


def quote_account(account: str) -> str:
    """Return `user@host`, as CURRENT_USER() gives it, in the quotes that GRANT wants."""
    user, _, host = account.rpartition("@")
    return "@".join("'" + part.replace("\\", "\\\\").replace("'", "''") + "'" for part in (user, host))


def quote_name(name: str) -> str:
    """Return an identifier in backticks."""
    return "`" + name.replace("`", "``") + "`"


def open_server(database: Database, *, patient: bool = False) -> Server:
    """Prepare a server to talk to; nothing is sent until a session is opened. `patient` is for DDL.

    Raises Misconfigured when nothing says where the server is, or a TLS mode cannot be kept.
    """
    return server_of(prepare(database, patient=patient))


def server_of(login: Login) -> Server:
    """Return the server that `login` leads to; nothing is sent until a session is opened."""
    engine = sa.create_engine(
        sa.URL.create(dialect.NAME), poolclass=NullPool, connect_args=login.arguments, hide_parameters=True
    )

    def connect(known: Any, _record: object, _arguments: object, arguments: dict[str, Any]) -> Any:  # noqa: ANN401
        connection = login.connect(known.loaded_dbapi, arguments)
        known.default_schema_name = login.schema
        return connection

    event.listen(engine, "do_connect", connect)
    event.listen(engine, "handle_error", _notice_loss)
    return Server(engine, login)


def _notice_loss(context: sa.ExceptionContext) -> None:
    """Tell SQLAlchemy that a connection is lost where its own list of numbers is too short."""
    if context.connection is not None and errno(context.original_exception) in {*LOST, TLS_TROUBLE}:
        context.is_disconnect = True


def transact(  # noqa: PLR0913 - what a transaction may need
    server: Server,
    connection: sa.Connection,
    work: Callable[[sa.Connection], T],
    *,
    attempts: int = 5,
    stop: Stop | None = None,
    on_retry: Callable[[int], None] | None = None,
    asks_level: bool = False,
) -> T:
    """Run `work` in one READ COMMITTED transaction and commit it; return what it returned.

    Repeats and raises as `run_whole` does. A connection that was lost before is opened anew. The isolation level is
    asserted inside the transaction, because a proxy that multiplexes connections can lose session settings; such a
    proxy stays with one server from START TRANSACTION on. Work that `asks_level` does so itself.
    """

    def asserted(session: sa.Connection) -> T:
        session.execute(sa.text("START TRANSACTION"))
        if not asks_level:
            require_read_committed(session.execute(sa.text("SELECT @@transaction_isolation")).scalar_one())
        return work(session)

    renew(connection)
    return run_whole(server, connection, asserted, attempts=attempts, stop=stop, on_retry=on_retry)


def begin_anew(connection: sa.Connection) -> None:
    """Undo what a transaction has done, and let go of its locks, before it goes on."""
    connection.rollback()
    connection.execute(sa.text("START TRANSACTION"))


def renew(connection: sa.Connection) -> None:
    """Have a connection that was lost opened anew by its next statement."""
    if connection.invalidated:
        connection.rollback()  # SQLAlchemy wants to hear that what was open then is over


def run_whole(
    server: Server,
    connection: S,
    work: Callable[[S], T],
    *,
    attempts: int = 5,
    stop: Stop | None = None,
    on_retry: Callable[[int], None] | None = None,
) -> T:
    """Run `work` as one transaction, commit it and return what it returned; the retry rule of qops is here.

    A deadlock (1213), a lock timeout (1205: only the statement was undone) and a group's refusal at COMMIT
    roll back and repeat the whole of it, up to `attempts` times with a jittered backoff; `on_retry` hears
    each error number. Nothing else is repeated. What is raised has `in_commit` when COMMIT failed or its answer
    was lost: then the caller has to look. A statement that was interrupted because its connection was killed
    (1317, and then the connection is gone) is a ConnectionLost as well.
    """
    for attempt in range(attempts):
        committing = False
        try:
            result = work(connection)
            committing = True
            connection.commit()
        except DRIVER_ERRORS as error:
            alive = roll_back(connection)
            code = errno(error)
            last = attempt + 1 == attempts or (stop is not None and stop.requested)
            if code not in RETRYABLE or last:
                translated = server.translate(error, lost=not alive)
                translated.in_commit = committing
                raise translated from error
            if on_retry:
                on_retry(code)
            sleep(backoff(attempt, base=0.05, limit=1.0), stop or Stop())
        except BaseException:
            roll_back(connection)
            raise
        else:
            return result
    raise AssertionError  # pragma: no cover - the last attempt returns or raises


@cache
def statement(name: str) -> sa.TextClause:
    """Return the documented query `qops/queries/NAME.sql`; its identifiers are the server's own."""
    return sa.text(files("qops").joinpath("queries", f"{name}.sql").read_text(encoding="utf-8"))


def require_read_committed(level: str) -> None:
    """Raise Misconfigured unless `level`, read inside a transaction, is what qops set."""
    if level != "READ-COMMITTED":
        raise Misconfigured(
            f"this session is at {level} although qops set READ COMMITTED: a proxy in between loses session "
            "settings; connect to the server directly"
        )


def roll_back(connection: Transactional) -> bool:
    """Undo what is open; return False where the connection is broken, so that the server undoes it."""
    try:
        connection.rollback()
    except DRIVER_ERRORS:
        connection.invalidate()
        connection.rollback()
        return False
    return True


def prose(error: BaseException) -> str:
    """Return the server's own sentence, without SQLAlchemy's statement and parameters."""
    original = getattr(error, "orig", error)
    arguments: tuple[Any, ...] = getattr(original, "args", ())
    return str(arguments[1]) if len(arguments) > 1 else str(original)
