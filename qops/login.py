"""How to log in: the driver's arguments, what they promise about TLS, and what every session of qops has."""

from __future__ import annotations

import re
import socket
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

from qops.attributes import is_mariadb_library, name_connection
from qops.clock import Stop, sleep
from qops.errors import Misconfigured, Unavailable
from qops.option_file import DEFAULT_GROUP, OptionFile, look_into
from qops.url import Address, ssl_mode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from qops.settings import Database

MINIMUM_VERSION = (8, 0, 1)  # the first with SKIP LOCKED
CONNECT_TIMEOUT_SECONDS = 10
TOO_MANY = frozenset({1203, 1226})  # an account has as many connections as it may have
AGAIN_TRIES, AGAIN_SECONDS = 20, 0.05
ANSWER_SECONDS = 60
"""How long a server may be silent before it counts as lost: frozen, or the network cut without a word. A statement of
qops ends long before, except DDL that builds an index."""
IDLE_SECONDS = 3_600  # how long the server lets a session of qops be idle
LOCK_WAIT_SECONDS = 3  # row locks and metadata locks: an operator's tool must not queue behind an incident
SQL_MODE = "STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION,NO_AUTO_VALUE_ON_ZERO"
"""Strict, so that nothing is clipped on its way to the archive; without NO_ZERO_DATE and with
NO_AUTO_VALUE_ON_ZERO, so that a zero date and an id of 0 are copied as they are."""

# The client library takes "localhost", spelled like this, to mean its default socket, and forgets the port. Host
# names know no case, neither for the resolver nor in a certificate.
LOCAL, LOCAL_BY_TCP, LOOPBACK = "localhost", "LOCALHOST", "127.0.0.1"


@cache
def local_by_tcp() -> str:
    """Return what reaches this machine by TCP: its name, as certificates have it.

    On a system that does not know the name (no /etc/hosts) it is the address.
    """
    try:
        socket.getaddrinfo(LOCAL_BY_TCP, None)
    except OSError:
        return LOOPBACK
    return LOCAL_BY_TCP


class OtherServer(Misconfigured):
    """The server is not a MySQL that qops works with; `flavor` and `version` say what it is."""

    def __init__(self, flavor: str, version: str) -> None:
        super().__init__(
            f"{flavor} {version} is not supported: qops needs MySQL {'.'.join(map(str, MINIMUM_VERSION))} or later "
            "(SKIP LOCKED, data_locks and READ COMMITTED sessions as MySQL has them)"
        )
        self.flavor = flavor
        self.version = version


@dataclass
class Login:
    """The way into one server; after the first session also as whom, and in which schema, it let us in.

    `encrypted`: a session without TLS is refused. `fallback_schema`: selected where the option file selects none.
    `worker`: under which name a session of the Worker class claims jobs; the server is told.
    """

    arguments: dict[str, Any] = field(repr=False)
    host: str
    port: int | None = None
    encrypted: bool = False
    fallback_schema: str | None = None
    worker: str | None = None
    account: str | None = None
    schema: str | None = None

    def connect(self, driver: Any, arguments: Mapping[str, Any]) -> Any:  # noqa: ANN401 - the driver is untyped
        """Return a connection of `driver` with the attribute and the settings that every session of qops has.

        An account whose second login is refused works without the attribute. Raises the driver's errors,
        OtherServer, and Unavailable where TLS was asked for and the session has none.
        """
        connection = self._log_in(driver, arguments)
        if not name_connection(connection, "qops", self.worker):
            connection.close()
            connection = self._log_in_again(driver, arguments)
        with connection.cursor() as cursor:
            cursor.execute(
                "SET NAMES utf8mb4, SESSION autocommit = 0, transaction_isolation = 'READ-COMMITTED', "
                "time_zone = '+00:00', "
                "sql_mode = %s, lock_wait_timeout = %s, innodb_lock_wait_timeout = %s, "
                # A server's defaults for these would cut what is read, refuse joins, or end the connection at COMMIT.
                "sql_select_limit = 18446744073709551615, sql_big_selects = 1, completion_type = 'NO_CHAIN', "
                # Sizes of tables come from InnoDB, not from a cache of up to a day.
                "information_schema_stats_expiry = 0, "
                # A list of ids that is too long for the optimizer's memory becomes a scan that locks every row.
                "range_optimizer_max_mem_size = 0, max_execution_time = 0, "
                # Rests and waits of a run are not idleness.
                "wait_timeout = CAST(GREATEST(@@wait_timeout, %s) AS SIGNED)",
                (SQL_MODE, LOCK_WAIT_SECONDS, LOCK_WAIT_SECONDS, IDLE_SECONDS),
            )
            cursor.execute("SELECT CURRENT_USER(), DATABASE()")
            self.account, self.schema = cursor.fetchone()
            if self.schema is None and self.fallback_schema is not None:
                connection.select_db(self.fallback_schema)
                self.schema = self.fallback_schema
        return connection

    def _log_in_again(self, driver: Any, arguments: Mapping[str, Any]) -> Any:  # noqa: ANN401 - the driver is untyped
        """Connect where the server may not have noticed yet that an account's only connection was closed."""
        for _ in range(AGAIN_TRIES):
            try:
                return self._log_in(driver, arguments)
            except driver.OperationalError as error:
                if error.args[0] not in TOO_MANY:
                    raise
            sleep(AGAIN_SECONDS, Stop())
        return self._log_in(driver, arguments)

    def identity(self, driver: Any) -> tuple[str | None, str | None]:  # noqa: ANN401 - the driver is untyped
        """Return account and schema as the server knows them, logging in only where no session has been yet.

        An account that may not use the schema gets in without it. Raises the driver's errors.
        """
        if self.account is None:
            arguments = {key: value for key, value in self.arguments.items() if key != "database"}
            self.connect(driver, arguments).close()
            self.schema = self.schema or self.arguments.get("database")
        return self.account, self.schema

    def _log_in(self, driver: Any, arguments: Mapping[str, Any]) -> Any:  # noqa: ANN401 - the driver is untyped
        """Connect, and look at the other end before anything is sent that only MySQL understands."""
        connection = driver.connect(**arguments)
        try:
            _require_mysql(connection)
            if self.encrypted:
                _require_cipher(connection)
        except BaseException:
            connection.close()
            raise
        return connection


def prepare(database: Database, *, patient: bool = False) -> Login:
    """Turn the settings into a Login; a `patient` one waits for an answer for as long as it takes.

    Raises Misconfigured when the settings cannot be met or say nothing of a server.
    """
    address = database.address
    if address is None and database.option_file is None:
        raise Misconfigured(
            "no server is configured; give --url mysql://user@host:port/db, set QOPS_URL, or write [database] url "
            "in qops.toml"
        )
    # Without `autocommit` the driver would turn it off in a statement of its own.
    arguments: dict[str, Any] = {"charset": "utf8mb4", "connect_timeout": CONNECT_TIMEOUT_SECONDS, "autocommit": None}
    if not patient:
        arguments |= {"read_timeout": ANSWER_SECONDS, "write_timeout": ANSWER_SECONDS}
    login = Login(arguments, host=f"the server of {database.option_file}")
    near = Address() if address is None or database.url_yields else address
    file = None
    if database.option_file:
        file = look_into(database.option_file, database.option_group)
        _check_library_reads(file)
        arguments["read_default_file"] = str(database.option_file)
        arguments["read_default_group"] = database.option_group or DEFAULT_GROUP
    if database.url_yields and address:
        login.fallback_schema = address.database
    elif near.database:
        arguments["database"] = near.database
    if near.user:
        arguments["user"] = near.user
    if database.password and not database.url_yields:
        arguments["password"] = database.password.reveal()
    if "connect_timeout" in near.options:
        arguments["connect_timeout"] = int(near.options["connect_timeout"])
    _choose_endpoint(login, near, file)
    _choose_tls(login, near.options, file)
    return login


def _choose_endpoint(login: Login, address: Address, file: OptionFile | None) -> None:
    """Say where to connect: a socket where one is named, TCP where a port is."""
    path = address.options.get("unix_socket")
    host = address.host or (file.options.get("host") if file else None)
    by_tcp = address.port is not None or (file is not None and file.options.get("protocol", "").lower() == "tcp")
    if path:
        # With another host the library would ignore the path.
        login.arguments |= {"host": LOCAL, "unix_socket": path}
        login.host = path
        return
    if address.port:
        login.arguments["port"] = login.port = address.port
    if host is None or host.lower() == LOCAL:
        if by_tcp:
            login.arguments["host"] = local_by_tcp()
        elif address.host:
            login.arguments["host"] = LOCAL
    elif address.host:
        login.arguments["host"] = address.host
    if address.host or file is None:
        login.host = host or LOCAL


def _choose_tls(login: Login, options: Mapping[str, str], file: OptionFile | None) -> None:
    """Say how to encrypt, so that each mode does what MySQL says it does, whichever library is linked.

    MariaDB's library knows two modes. What it does was tried out: "enforce" (any mode from REQUIRED on) takes a
    server without TLS nevertheless, which is why the session is asked for its cipher. A CA makes it verify the
    chain but not the host name; verifying the server's certificate makes it do both.
    """
    given = {key: value for key, value in options.items() if key.startswith("ssl_") and key != "ssl_mode"}
    mode = options.get("ssl_mode") or _mode_of(file) or _implied_mode({*given, *_ssl_options(file)})
    if mode is None:
        return
    if mode != "DISABLED" and given:
        login.arguments["ssl"] = {key.removeprefix("ssl_"): value for key, value in given.items()}
    login.arguments["ssl_mode"] = mode
    login.encrypted = mode not in {"DISABLED", "PREFERRED"}
    if mode == "VERIFY_CA" and not {"ssl_ca", "ssl_capath"} & {*given, *_ssl_options(file)}:
        raise Misconfigured("ssl_mode=VERIFY_CA needs the authority to verify with: add ssl_ca=/path/to/ca.pem")
    if mode in {"PREFERRED", "VERIFY_CA"} and is_mariadb_library():
        login.arguments["ssl_mode"] = "REQUIRED"


def _implied_mode(given: set[str]) -> str | None:
    """Return the mode that a CA, a certificate or a cipher asks for by being named."""
    if {"ssl_ca", "ssl_capath"} & given:
        return "VERIFY_CA"
    return "REQUIRED" if given else None


def _ssl_options(file: OptionFile | None) -> set[str]:
    names = {"ssl-ca", "ssl-capath", "ssl-cert", "ssl-key", "ssl-cipher"}
    return {name.replace("-", "_") for name in names & set(file.options)} if file else set()


def _mode_of(file: OptionFile | None) -> str | None:
    """Return the TLS mode that an option file asks for in so many words."""
    if file is None:
        return None
    if "ssl-mode" in file.options:
        return ssl_mode(file.options["ssl-mode"], f"option file {file.path}")
    if file.switched_on("ssl-verify-server-cert"):
        return "VERIFY_IDENTITY"
    return "REQUIRED" if file.switched_on("ssl-enforce") else None


def _check_library_reads(file: OptionFile) -> None:
    """Refuse a file of which the client library would read only a part."""
    if file.unread and is_mariadb_library():
        raise Misconfigured(
            f"option file {file.path} uses !includedir, which this client library (MariaDB Connector/C) does not read; "
            f"write instead: {', '.join(f'!include {path}' for path in file.unread)}"
        )


def _require_mysql(connection: Any) -> None:  # noqa: ANN401 - the driver is untyped
    flavor, version = identify(connection.get_server_info())
    if flavor != "MySQL" or version_tuple(version) < MINIMUM_VERSION:
        raise OtherServer(flavor, version)


def _require_cipher(connection: Any) -> None:  # noqa: ANN401 - the driver is untyped
    with connection.cursor() as cursor:
        cursor.execute("SHOW SESSION STATUS LIKE 'Ssl_cipher'")
        row = cursor.fetchone()
    if not row or not row[1]:
        raise Unavailable("the server offers no TLS, and the connection was to be encrypted; no statement was sent")


def identify(greeting: str) -> tuple[str, str]:
    """Return flavor and version from the version in a server's greeting.

    MariaDB prefixes `5.5.5-` for old replication clients and names itself in the rest.
    """
    if "mariadb" in greeting.lower():
        version = greeting.removeprefix("5.5.5-")
        return "MariaDB", version.split("-")[0]
    return "MySQL", greeting


def version_tuple(version: str) -> tuple[int, ...]:
    """Return the numbers at the head of a version: `9.7.4-2` is (9, 7, 4)."""
    match = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(int(part) for part in match[0].split(".")) if match else ()
