"""Logging in: every way of saying where and who, what each session has, TLS, and secrets that stay secret."""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import os
import shutil
import socket
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest
import sqlalchemy as sa

from dev import server as throwaway
from qops.attributes import client_library, is_mariadb_library, name_connection
from qops.db import Server, open_server
from qops.errors import Misconfigured, QopsError, Unavailable
from qops.login import LOCAL_BY_TCP, identify, local_by_tcp, version_tuple
from qops.settings import Flags, load
from tests.conftest import Database, fresh_database, run_process, start_process, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

AWKWARD = "p@ss/w:rd?&#%2F \"'\\é"
_numbers = itertools.count()

needs_mariadb_library = pytest.mark.skipif(not is_mariadb_library(), reason="about MariaDB's client library")


def server_for(environment: dict[str, str] | None = None, **flags: str) -> Server:
    """Return what a command line with these flags and this environment talks to."""
    return open_server(load(Flags(**flags), environment or {}).database)


def ask(server: Server, query: str) -> Any:
    """Return the one row of a query over a new session of qops."""
    with server.session() as connection:
        return tuple(connection.execute(sa.text(query)).one())


@dataclass(frozen=True)
class Account:
    """An account for one test, on the shared server, with all rights on one schema."""

    name: str
    password: str
    database: Database

    @property
    def url(self) -> str:
        """Its URL without the password."""
        name, database = (quote(part, safe="") for part in (self.name, self.database.name))
        return f"mysql://{name}@{self.database.host}:{self.database.port}/{database}"

    @property
    def url_with_password(self) -> str:
        """Its URL with the password percent-encoded."""
        return self.url.replace("@", f":{quote(self.password, safe='')}@", 1)

    def option_file(self, folder: Path, *lines: str) -> Path:
        """Write an option file with its login; further lines come last."""
        path = folder / "my.cnf"
        password = self.password.replace("\\", "\\\\").replace('"', '\\"')
        login = [f"host={self.database.host}", f"port={self.database.port}", f'user="{self.name}"']
        text = "\n".join(["[client]", *login, f'password="{password}"', f'database="{self.database.name}"', *lines])
        path.write_text(text + "\n", encoding="utf-8")
        return path


@contextlib.contextmanager
def account(
    database: Database,
    name: str = "c",
    password: str = "pw",  # noqa: S107 - a throwaway account's
    clause: str = "",
) -> Iterator[Account]:
    """Create an account for the length of a `with`; the name gets a number."""
    name = f"{name}_{os.getpid()}_{next(_numbers)}"
    database.execute(f"CREATE USER %s@'%%' IDENTIFIED BY %s {clause}", (name, password))
    try:
        quoted = database.name.replace("`", "``").replace("%", "%%")
        database.execute(f"GRANT ALL ON `{quoted}`.* TO %s@'%%'", (name,))
        yield Account(name, password, database)
    finally:
        database.execute("DROP USER %s@'%%'", (name,))


# What every session has


def assert_session_of_qops(database: Database, connection_id: int) -> None:
    """Look from outside at what a session has."""
    variables = dict(
        database.rows(
            "SELECT v.variable_name, v.variable_value FROM performance_schema.variables_by_thread v "
            "JOIN performance_schema.threads t USING (thread_id) WHERE t.processlist_id = %s",
            (connection_id,),
        )
    )
    assert variables["transaction_isolation"] == "READ-COMMITTED"
    assert variables["time_zone"] == "+00:00"
    assert variables["autocommit"] == "OFF"
    assert "STRICT_ALL_TABLES" in variables["sql_mode"]
    assert not {"ANSI_QUOTES", "NO_BACKSLASH_ESCAPES", "NO_ZERO_DATE"} & set(variables["sql_mode"].split(","))
    assert 1 <= int(variables["lock_wait_timeout"]) <= 10
    assert 1 <= int(variables["innodb_lock_wait_timeout"]) <= 10
    assert variables["character_set_client"] == "utf8mb4"
    assert attributes_of(database, connection_id)["program_name"] == "qops"


def attributes_of(database: Database, connection_id: int) -> dict[str, str]:
    return dict(
        database.rows(
            "SELECT attr_name, attr_value FROM performance_schema.session_connect_attrs WHERE processlist_id = %s",
            (connection_id,),
        )
    )


@pytest.mark.parametrize("way", ["url", "environment", "option file", "socket", "tls"])
def test_every_session_has_the_settings_also_after_a_reconnect(
    database: Database, main_server: throwaway.Server, tmp_path: Path, way: str
) -> None:
    """However qops logs in, each session has the settings and the attribute, and so has the one after a kill."""
    with account(database, password=AWKWARD) as who:
        path = f"unix_socket={quote(str(main_server.socket or ''), safe='/')}"
        if way == "socket" and not main_server.socket:
            pytest.skip("the server's socket is not known")
        server = {
            "url": lambda: server_for(url=who.url_with_password),
            "environment": lambda: server_for({"QOPS_URL": who.url, "QOPS_PASSWORD": AWKWARD}),
            "option file": lambda: server_for(defaults_file=str(who.option_file(tmp_path))),
            "socket": lambda: server_for(url=f"{who.url_with_password}?{path}"),
            "tls": lambda: server_for(url=f"{who.url_with_password}?ssl_mode=REQUIRED"),
        }[way]()
        with server.session() as connection:
            first = connection.execute(sa.text("SELECT CONNECTION_ID()")).scalar_one()
            assert_session_of_qops(database, first)
            database.execute("KILL %s", (first,))
            with pytest.raises(sa.exc.DBAPIError):
                connection.execute(sa.text("SELECT 1"))
            connection.rollback()
            second = connection.execute(sa.text("SELECT CONNECTION_ID()")).scalar_one()
            assert second != first
            assert_session_of_qops(database, second)
            assert connection.execute(sa.text("SELECT DATABASE()")).scalar_one() == database.name


@pytest.mark.parametrize("plugin", ["caching_sha2_password", "mysql_native_password", "sha256_password"])
def test_accounts_of_every_plugin_the_server_has(database: Database, plugin: str) -> None:
    """The second login that carries the attribute works with each authentication plugin, with its cache emptied."""
    if not database.rows("SELECT 1 FROM information_schema.plugins WHERE plugin_name = %s", (plugin,)):
        pytest.skip(f"the server has no {plugin}")
    name = f"p_{os.getpid()}_{next(_numbers)}"
    database.execute(f"CREATE USER %s@'%%' IDENTIFIED WITH {plugin} BY 'pw'", (name,))
    try:
        database.execute("FLUSH PRIVILEGES")
        mode = "?ssl_mode=REQUIRED" if plugin == "sha256_password" else ""
        with server_for(url=f"mysql://{name}:pw@{database.host}:{database.port}/{mode}").session() as connection:
            connection_id = connection.execute(sa.text("SELECT CONNECTION_ID()")).scalar_one()
            assert attributes_of(database, connection_id)["program_name"] == "qops"
    finally:
        database.execute("DROP USER %s@'%%'", (name,))


def test_full_authentication_without_tls(database: Database) -> None:
    """caching_sha2_password works over TCP without TLS when the server has forgotten the password."""
    with account(database, password=AWKWARD) as who:
        for _ in range(2):
            database.execute("FLUSH PRIVILEGES")
            assert ask(server_for(url=who.url_with_password), "SELECT CURRENT_USER()") == (f"{who.name}@%",)


def test_an_account_at_its_limit_works_without_the_attribute(database: Database) -> None:
    """Where an account may have one connection, the second login is refused and qops works without it."""
    with account(database, clause="WITH MAX_USER_CONNECTIONS 1") as who:
        with server_for(url=who.url_with_password).session() as connection:
            row = connection.execute(sa.text("SELECT @@transaction_isolation, @@time_zone, @@autocommit")).one()
            assert tuple(row) == ("READ-COMMITTED", "+00:00", 0)
        with (
            contextlib.closing(database.connect(user=who.name, password="pw")),
            pytest.raises(Unavailable, match="max_user_connections"),
        ):
            ask(server_for(url=who.url_with_password), "SELECT 1")


def test_a_handle_that_is_not_understood_is_left_alone(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """With another interpreter, library, connection id or layout nothing is read from or sent by the handle."""
    session = database.connect()
    with contextlib.closing(session):
        connection_id = session.thread_id()
        with monkeypatch.context() as patch:
            patch.setattr(sys.implementation, "name", "pypy")
            assert name_connection(session, "qops")
        with monkeypatch.context() as patch:
            patch.setattr("qops.attributes.client_library", lambda: ctypes.CDLL(None))
            assert name_connection(session, "qops")
        library = client_library()
        for function in ("mysql_get_host_info", "mysql_thread_id"):
            original = getattr(library, function)
            with monkeypatch.context() as patch:
                patch.setattr(library, function, library.mysql_get_client_info)
                assert name_connection(session, "qops")
            assert getattr(library, function) is original
        assert "program_name" not in attributes_of(database, connection_id)
        assert name_connection(session, "qops")
        assert session.thread_id() == connection_id
        assert attributes_of(database, connection_id)["program_name"] == "qops"


def test_many_threads_log_in_at_once(database: Database) -> None:
    """Sessions that are opened in several threads at the same time are each named and set up."""
    server = database.server()
    ids: list[int] = []
    barrier = threading.Barrier(8)
    done = threading.Event()

    def open_one() -> None:
        barrier.wait()
        for _ in range(5):
            with server.session() as connection:
                number = connection.execute(sa.text("SELECT CONNECTION_ID()")).scalar_one()
        with server.session() as connection:
            number = connection.execute(sa.text("SELECT CONNECTION_ID()")).scalar_one()
            ids.append(number)
            done.wait(60)

    threads = [threading.Thread(target=open_one) for _ in range(8)]
    for thread in threads:
        thread.start()
    wait_until(lambda: len(ids) == 8, what="eight sessions")
    for number in ids:
        assert_session_of_qops(database, number)
    done.set()
    for thread in threads:
        thread.join()


# Where: hosts, ports, sockets


def connection_type(server: Server, database: Database) -> str:
    """Return how the server says a session of qops came in."""
    with server.session() as connection:
        number = connection.execute(sa.text("SELECT CONNECTION_ID()")).scalar_one()
        return str(
            database.value(
                "SELECT connection_type FROM performance_schema.threads WHERE processlist_id = %s", (number,)
            )
        )


@pytest.mark.parametrize("host", ["localhost", "LocalHost", "127.0.0.1", ""])
def test_a_port_means_tcp(database: Database, host: str) -> None:
    """With a port the connection goes over TCP to that port, also for localhost and for no host at all."""
    server = server_for(url=f"mysql://root@{host}:{database.port}/{database.name}")
    assert connection_type(server, database) == "TCP/IP"
    assert ask(server, "SELECT @@port") == (database.port,)


def test_a_port_on_localhost_never_reaches_another_server(database: Database, main_server: throwaway.Server) -> None:
    """Of two servers, `localhost:PORT` is the one that listens there, whichever has a socket at hand."""
    with throwaway.private_server() as other:
        here, there = (
            ask(server_for(url=f"mysql://root@localhost:{port}/"), "SELECT @@server_uuid, @@port")
            for port in (main_server.port, other.port)
        )
    assert here[1] == main_server.port
    assert there[1] == other.port
    assert here[0] != there[0]


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "", "nowhere.invalid", "localhost:1"])
def test_a_named_socket_is_used(database: Database, main_server: throwaway.Server, host: str) -> None:
    """`?unix_socket=` leads through that socket; with another host the library would ignore it."""
    if not main_server.socket:
        pytest.skip("the server's socket is not known")
    server = server_for(url=f"mysql://root@{host}/{database.name}?unix_socket={main_server.socket}")
    assert connection_type(server, database) == "Socket"
    assert server.place == str(main_server.socket)


def test_the_place_is_named_in_errors() -> None:
    """An error says where qops tried to connect, and that it is not there (69)."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    for url, place in (
        (f"mysql://u:hushhush@127.0.0.1:{port}/d", f"127.0.0.1:{port}"),
        (f"mysql://u:hushhush@localhost:{port}/d", f"localhost:{port}"),
        ("mysql://u:hushhush@no-such-host.invalid/d", "no-such-host.invalid"),
        ("mysql://u:hushhush@localhost/d?unix_socket=/nowhere/s.sock", "/nowhere/s.sock"),
    ):
        with pytest.raises(Unavailable) as caught:
            ask(server_for(url=url), "SELECT 1")
        assert place in str(caught.value)
        assert "hush" not in str(caught.value)


def test_nothing_says_where() -> None:
    """Without URL and option file the message says how to give one (78)."""
    with pytest.raises(Misconfigured, match=r"--url.*QOPS_URL.*qops\.toml"):
        server_for()


# Who: special characters


@pytest.mark.parametrize("way", ["url", "environment", "option file"])
def test_special_characters(main_server: throwaway.Server, tmp_path: Path, way: str) -> None:
    """User, password and database with special characters work by URL, by environment and by option file."""
    with (
        fresh_database(main_server, f"jobs-prod %{os.getpid()}+{next(_numbers)}") as database,
        account(database, "we@ird", AWKWARD) as who,
    ):
        server = {
            "url": lambda: server_for(url=who.url_with_password),
            "environment": lambda: server_for({"QOPS_URL": who.url, "QOPS_PASSWORD": AWKWARD}),
            "option file": lambda: server_for(defaults_file=str(who.option_file(tmp_path))),
        }[way]()
        assert ask(server, "SELECT CURRENT_USER(), DATABASE()") == (f"{who.name}@%", database.name)


def test_a_plus_sign_is_not_a_space(database: Database) -> None:
    """In a URL `+` is a plus sign."""
    with account(database, password="a+b c") as who:
        url = who.url.replace("@", ":a+b%20c@", 1)
        assert ask(server_for(url=url), "SELECT CURRENT_USER()") == (f"{who.name}@%",)


# Option files

FILES = {
    "quoted with everything": ('p#a=s"s w', 'password="p#a=s\\"s\\sw"'),
    "hash": ("a#b", 'password="a#b"'),
    "single quotes": ('a"b', "password='a\"b'"),
    "backslash": ("a\\b", 'password="a\\\\b"'),
    "tab": ("a\tb", 'password="a\\tb"'),
    "equals": ("a=b", "password = a=b"),
    "trailing blanks": ("abc", "password=abc   "),
    "bare flags": ("abc", "password=abc\nskip-reconnect\ncompress\nloose-nonsense"),
    "indented": ("abc", "   password = abc"),
    "comments": ("abc", "; no\n# no\npassword=abc"),
    "windows": ("abc", "password=abc\r"),
    "utf8": ("é", "password=é"),
    "group": ("abc", "password=no\n[client_x]\npassword=abc"),
    "other groups": ("abc", "password=abc\n[mysqld]\npassword=no\n[mysqldump]\npassword=no"),
    "include": ("abc", "!include {folder}/more.cnf"),
    "awkward": (AWKWARD, 'password="p@ss/w:rd?&#%2F \\"\'\\\\é"'),
}


@pytest.mark.parametrize("case", FILES)
def test_an_option_file_means_what_it_means_to_mysql(database: Database, tmp_path: Path, case: str) -> None:
    """An option file gives qops the login that it gives to MySQL's own client."""
    password, text = FILES[case]
    with account(database, password=password) as who:
        path = tmp_path / "my.cnf"
        head = f"[client]\nhost={database.host}\nport={database.port}\nuser={who.name}\n"
        path.write_text(head + text.format(folder=tmp_path) + "\n", encoding="utf-8", newline="")
        path.chmod(0o644)
        (tmp_path / "more.cnf").write_text(f"[client]\npassword={password}\n", encoding="utf-8")
        server = server_for(defaults_file=str(path))
        if case == "group":
            server = server_for(defaults_file=str(path), defaults_group="client_x")
        assert ask(server, "SELECT CURRENT_USER()") == (f"{who.name}@%",)
        client = throwaway.client_command()
        if client:
            options = [f"--defaults-file={path}", "--defaults-group-suffix=_x", "-N", "-e", "SELECT CURRENT_USER()"]
            told = subprocess.run([*client, *options], capture_output=True, text=True, check=False)
            assert told.stdout.strip() == f"{who.name}@%", told.stderr


def test_a_group_that_does_not_exist_is_an_error(database: Database, tmp_path: Path) -> None:
    """A misspelt `--defaults-group` is refused, because the library would log in as somebody else in silence."""
    with account(database) as who:
        path = who.option_file(tmp_path, "[reporting]", "connect-timeout=5")
        assert ask(server_for(defaults_file=str(path), defaults_group="reporting"), "SELECT 1") == (1,)
        with pytest.raises(Misconfigured, match=r"\[reportign\]"):
            server_for(defaults_file=str(path), defaults_group="reportign")


def test_an_option_file_fills_what_the_url_leaves_out(database: Database, tmp_path: Path) -> None:
    """A URL without user and password takes them from the option file, and says where and which schema itself."""
    with account(database) as who:
        path = tmp_path / "my.cnf"
        path.write_text(f"[client]\nhost=nowhere.invalid\nport=1\nuser={who.name}\npassword=pw\n", encoding="utf-8")
        server = server_for(url=f"mysql://{database.host}:{database.port}/{database.name}", defaults_file=str(path))
        assert ask(server, "SELECT CURRENT_USER(), DATABASE()") == (f"{who.name}@%", database.name)


@pytest.mark.parametrize("schema_in_file", [True, False])
def test_an_option_file_that_was_asked_for_more_closely(
    database: Database,
    tmp_path: Path,
    schema_in_file: bool,  # noqa: FBT001
) -> None:
    """`--defaults-file` beats QOPS_URL: it says who and where; the URL's schema is used where the file has none."""
    with account(database) as who:
        path = who.option_file(tmp_path)
        if not schema_in_file:
            path.write_text(path.read_text(encoding="utf-8").partition("database=")[0], encoding="utf-8")
        schema = "information_schema" if schema_in_file else database.name
        environment = {"QOPS_URL": f"mysql://nobody:wrong@nowhere.invalid:1/{schema}"}
        server = server_for(environment, defaults_file=str(path))
        assert ask(server, "SELECT CURRENT_USER(), DATABASE()") == (f"{who.name}@%", database.name)
        with pytest.raises(Unavailable, match="nowhere"):
            ask(server_for({"QOPS_DEFAULTS_FILE": str(path)}, url=environment["QOPS_URL"]), "SELECT 1")


def test_a_pipe_as_option_file(database: Database, tmp_path: Path) -> None:
    """`--defaults-file <(…)` is left to the client library, which can read it once."""
    with account(database) as who:
        text = who.option_file(tmp_path).read_text(encoding="utf-8")
        read_end, write_end = os.pipe()
        os.write(write_end, text.encode())
        os.close(write_end)
        try:
            server = server_for(defaults_file=f"/dev/fd/{read_end}")
            assert ask(server, "SELECT CURRENT_USER()") == (f"{who.name}@%",)
        finally:
            os.close(read_end)


def test_protocol_in_an_option_file(database: Database, tmp_path: Path) -> None:
    """`protocol=TCP` for localhost is obeyed, also by a library that does not know the option."""
    with account(database) as who:
        path = who.option_file(tmp_path, "host=localhost", "protocol=TCP")
        assert connection_type(server_for(defaults_file=str(path)), database) == "TCP/IP"


@needs_mariadb_library
def test_a_folder_that_the_library_does_not_include(database: Database, tmp_path: Path) -> None:
    """A part of an option file that the library would pass over in silence is refused with what to write instead."""
    folder = tmp_path / "conf.d"
    folder.mkdir()
    with account(database) as who:
        path = who.option_file(tmp_path, f"!includedir {folder}")
        (folder / "mysql.cnf").write_text("[mysql]\nprompt=x\n", encoding="utf-8")
        assert ask(server_for(defaults_file=str(path)), "SELECT 1") == (1,)
        (folder / "client.cnf").write_text("[client]\nssl-mode=REQUIRED\n", encoding="utf-8")
        with pytest.raises(Misconfigured, match=rf"!include {folder}/client\.cnf"):
            server_for(defaults_file=str(path))


# Plugins


@needs_mariadb_library
def test_a_missing_plugin_is_one_line(database: Database, tmp_path: Path) -> None:
    """Where the library lacks the account's plugin, one line names plugin, library and remedy (69)."""
    with account(database) as who:
        path = who.option_file(tmp_path, "plugin-dir=/nowhere")
        ran = run_process("archive", "--defaults-file", str(path))
    assert ran.code == 69
    assert ran.out == ""
    (line,) = ran.err.splitlines()
    assert all(word in line for word in ("caching_sha2_password", "/nowhere", "libmariadb3", "authentication plugin"))


# TLS


@dataclass(frozen=True)
class Tls:
    """A server that refuses plain connections, its authority's certificate, and another authority's."""

    server: throwaway.Server
    authority: Path
    other: Path


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tls]:
    """Start a server whose certificate is for `localhost` alone."""
    openssl = shutil.which("openssl")
    if not openssl:
        pytest.skip("needs the program openssl to make certificates")
    folder = tmp_path_factory.mktemp("tls")

    def run(*arguments: str) -> None:
        subprocess.run([openssl, *arguments], cwd=folder, check=True, capture_output=True)

    for name in ("ca", "other"):
        run(
            "req",
            "-x509",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-keyout",
            f"{name}.key",
            "-out",
            f"{name}.pem",
            "-subj",
            f"/CN={name}",
        )
    run("req", "-newkey", "rsa:2048", "-nodes", "-keyout", "server.key", "-out", "server.csr", "-subj", "/CN=localhost")
    (folder / "names").write_text("subjectAltName=DNS:localhost\n", encoding="ascii")
    signing = ["-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-extfile", "names"]
    run("x509", "-req", "-in", "server.csr", *signing, "-out", "server.pem")
    options = [f"--ssl-ca={folder}/ca.pem", f"--ssl-cert={folder}/server.pem", f"--ssl-key={folder}/server.key"]
    with throwaway.private_server([*options, "--require-secure-transport=ON"]) as server:
        yield Tls(server, folder / "ca.pem", folder / "other.pem")


CIPHER = "SHOW SESSION STATUS LIKE 'Ssl_cipher'"


@pytest.mark.parametrize(
    ("host", "query", "works"),
    [
        ("127.0.0.1", "", False),
        ("127.0.0.1", "ssl_mode=DISABLED", False),
        ("127.0.0.1", "ssl_mode=DISABLED&ssl_ca={ca}", False),
        ("127.0.0.1", "ssl_mode=PREFERRED", True),
        ("127.0.0.1", "ssl_mode=REQUIRED", True),
        ("127.0.0.1", "ssl_mode=required&ssl_ca={ca}", True),
        ("127.0.0.1", "ssl_ca={ca}", True),
        ("127.0.0.1", "ssl_ca={other}", False),
        ("127.0.0.1", "ssl_ca=/nowhere.pem", False),
        ("127.0.0.1", "ssl_capath=/nowhere", False),
        ("127.0.0.1", "ssl_mode=VERIFY_CA&ssl_ca={ca}", True),
        ("127.0.0.1", "ssl_mode=verify-ca&ssl_ca={other}", False),
        ("127.0.0.1", "ssl_mode=VERIFY_IDENTITY&ssl_ca={ca}", False),
        ("localhost", "ssl_mode=VERIFY_IDENTITY&ssl_ca={ca}", True),
        ("localhost", "ssl_mode=verify-identity&ssl_ca={other}", False),
        ("localhost", "ssl_mode=VERIFY_IDENTITY", False),
    ],
)
def test_tls_modes_are_kept(tls: Tls, host: str, query: str, works: bool) -> None:  # noqa: FBT001
    """Each TLS mode does what MySQL says it does: a wrong authority or name fails, and REQUIRED shows a cipher."""
    text = query.format(ca=tls.authority, other=tls.other)
    server = server_for(url=f"mysql://root@{host}:{tls.server.port}/?{text}")
    if works:
        if "VERIFY_IDENTITY" in text and local_by_tcp() != LOCAL_BY_TCP:
            pytest.skip("this system does not know the name localhost")
        assert ask(server, CIPHER)[1]
    else:
        with pytest.raises(Unavailable):
            ask(server, "SELECT 1")


@pytest.mark.parametrize(
    ("lines", "works"),
    [
        ("", False),
        ("ssl-mode=REQUIRED", True),
        ("loose-ssl_mode = required  # encrypted", True),
        ("ssl-enforce", True),
        ("ssl-mode=VERIFY_CA\nssl-ca={ca}", True),
        ("ssl-mode=VERIFY_CA\nssl-ca={other}", False),
        ("ssl-ca={other}", False),
        ("ssl-mode=VERIFY_IDENTITY\nssl-ca={ca}", False),
        ("host=localhost\nprotocol=tcp\nssl-mode=VERIFY_IDENTITY\nssl-ca={ca}", True),
        ("ssl-verify-server-cert\nssl-ca={ca}", False),
        ("ssl-mode=DISABLED", False),
        ("[client_x]\nssl-mode=REQUIRED", False),
    ],
)
def test_tls_modes_of_option_files_are_kept(tls: Tls, tmp_path: Path, lines: str, works: bool) -> None:  # noqa: FBT001
    """What an option file asks of TLS is kept, also where the client library does not know the option."""
    path = tmp_path / "my.cnf"
    text = lines.format(ca=tls.authority, other=tls.other)
    path.write_text(f"[client]\nhost=127.0.0.1\nport={tls.server.port}\nuser=root\n{text}\n", encoding="utf-8")
    server = server_for(defaults_file=str(path))
    if works:
        if "VERIFY_IDENTITY" in text and local_by_tcp() != LOCAL_BY_TCP:
            pytest.skip("this system does not know the name localhost")
        assert ask(server, CIPHER)[1]
    else:
        with pytest.raises(Unavailable):
            ask(server, "SELECT 1")


def test_a_server_without_tls_is_refused_where_tls_was_asked_for(tls: Tls, tmp_path: Path) -> None:
    """No mode from REQUIRED on is content with a server that offers no TLS; PREFERRED is."""
    path = tmp_path / "my.cnf"
    with throwaway.private_server(["--tls-version="]) as server:
        url = f"mysql://root@127.0.0.1:{server.port}/"
        for query in (
            "ssl_mode=REQUIRED",
            f"ssl_ca={tls.authority}",
            f"ssl_mode=VERIFY_CA&ssl_ca={tls.authority}",
            f"ssl_mode=VERIFY_IDENTITY&ssl_ca={tls.authority}",
            "ssl_cipher=ECDHE-RSA-AES128-GCM-SHA256",
        ):
            with pytest.raises(Unavailable, match=r"TLS|SSL"):
                ask(server_for(url=f"{url}?{query}"), "SELECT 1")
        for line in ("ssl-mode=REQUIRED", f"ssl-ca={tls.authority}", "ssl-enforce"):
            path.write_text(f"[client]\n{line}\n", encoding="utf-8")
            with pytest.raises(Unavailable, match=r"TLS|SSL"):
                ask(server_for(url=url, defaults_file=str(path)), "SELECT 1")
        for query in ("ssl_mode=PREFERRED", "ssl_mode=DISABLED", ""):
            assert ask(server_for(url=f"{url}?{query}"), CIPHER)[1] == ""


def test_modes_that_cannot_be_kept_are_refused(tmp_path: Path) -> None:
    """Verifying an authority needs to be told which (78), and a mode that nobody knows is not ignored."""
    with pytest.raises(Misconfigured, match="ssl_ca"):
        server_for(url="mysql://root@127.0.0.1:1/?ssl_mode=VERIFY_CA")
    path = tmp_path / "my.cnf"
    path.write_text("[client]\nssl-mode=SURE\n", encoding="utf-8")
    with pytest.raises(Misconfigured, match="REQUIRED"):
        server_for(defaults_file=str(path))


# Other servers


@pytest.mark.parametrize(
    ("greeting", "expected"),
    [
        ("8.0.36", ("MySQL", "8.0.36")),
        ("9.7.4-2", ("MySQL", "9.7.4-2")),
        ("8.0.36-28", ("MySQL", "8.0.36-28")),
        ("5.5.5-10.11.6-MariaDB-0+deb12u1", ("MariaDB", "10.11.6")),
        ("11.4.2-MariaDB", ("MariaDB", "11.4.2")),
    ],
)
def test_servers_are_told_apart_by_their_greeting(greeting: str, expected: tuple[str, str]) -> None:
    """MariaDB is recognised with and without its prefix for old replicas."""
    assert identify(greeting) == expected


def test_versions_are_compared_as_numbers() -> None:
    """8.0.9 is older than 8.0.40, and 26.1 is newer than 9.7."""
    assert version_tuple("8.0.9") < version_tuple("8.0.40") < version_tuple("9.7.4-2") < version_tuple("26.1.0")
    assert version_tuple("8.0.40-commercial") == (8, 0, 40)
    assert version_tuple("unknown") == ()


# Secrets

SECRET = "Zebra/quartz:violin@tuba é"  # four words that no message has of its own
ENCODED = quote(SECRET, safe="")
PARTS = ("Zebra", "quartz", "violin", "tuba", ENCODED)


def assert_no_secret(*texts: str) -> None:
    for text in texts:
        assert not [part for part in PARTS if part in text], text


def failing_urls(database: Database, who: Account) -> dict[str, tuple[int, str]]:
    """Return for each kind of failure its exit code and a URL that ends in it."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        dead = listener.getsockname()[1]
    user = f"{who.name}:{ENCODED}"
    return {
        "dead server": (69, f"mysql://{user}@127.0.0.1:{dead}/d"),
        "wrong password": (69, f"mysql://root:{ENCODED}@{database.host}:{database.port}/{database.name}"),
        "unknown host": (69, f"mysql://{user}@no-such-host.invalid/d"),
        "no privilege": (77, f"mysql://{user}@{database.host}:{database.port}/mysql"),
        "unknown schema": (77, f"mysql://{user}@{database.host}:{database.port}/gone"),
        "no schema": (78, f"mysql://{user}@{database.host}:{database.port}/"),
        "no table": (78, f"mysql://{user}@{database.host}:{database.port}/{database.name}"),
        "not encoded": (78, f"mysql://{who.name}:{SECRET}@{database.host}:{database.port}/{database.name}"),
        "unknown option": (78, f"mysql://{user}@{database.host}:{database.port}/{database.name}?{ENCODED}=1"),
        "no url": (78, f"{user}@{database.host}"),
        "no tls": (69, f"mysql://{user}@{database.host}:{database.port}/{database.name}?ssl_ca=/nowhere"),
    }


@pytest.mark.parametrize(("way", "output"), [("flag", "table"), ("environment", "json")])
def test_no_failure_shows_the_password(database: Database, way: str, output: str) -> None:
    """Whatever goes wrong, neither stdout nor stderr has the password, any part of it, or its encoded form."""
    with account(database, password=SECRET) as who:
        for what, (code, url) in failing_urls(database, who).items():
            options = ["--url", url] if way == "flag" else []
            ran = run_process("archive", "--format", output, *options, url=url if way == "environment" else None)
            assert ran.code == code, (what, ran)
            assert ran.err, what
            assert "Traceback" not in ran.err, what
            assert_no_secret(ran.out, ran.err)
            if output == "json":
                assert ran.json["error"]["exit"] == code, what


def test_a_wrong_command_line_does_not_repeat_a_url(database: Database) -> None:
    """A URL in the wrong place of a command line is refused (64) without being repeated."""
    url = f"mysql://u:{SECRET}@h/d"
    for words in (
        ["archive", url],
        [url, "archive"],
        ["--url", url, "archive"],
        ["archive", "--batch", url],
        ["archive", f"--batch={url}"],
    ):
        for output in ("table", "json"):
            ran = run_process(*words, env={"QOPS_FORMAT": output})
            assert ran.code == 64, ran
            assert_no_secret(ran.out, ran.err)


BUG = """
import sys
from qops.cli.command import register
from qops.cli.main import app, run

def boom(invocation):
    '''Fail as a bug does.'''
    server = invocation.server()
    raise RuntimeError(f"{invocation!r} {server!r} {server.engine!r} {server.login!r}")

register(app, boom)
sys.exit(run(["boom", "--format", "json"]))
"""


def test_a_bug_shows_its_traceback_and_no_password() -> None:
    """A bug (70) prints a traceback for whoever has to mend it, without secrets, even of objects that hold them."""
    environment = {**os.environ, "QOPS_URL": f"mysql://u:{ENCODED}@h/d", "QOPS_PASSWORD": SECRET}
    ran = subprocess.run([sys.executable, "-c", BUG], capture_output=True, text=True, env=environment, check=False)
    assert ran.returncode == 70
    assert "Traceback" in ran.stderr
    assert "please report" in ran.stderr
    assert_no_secret(ran.stdout, ran.stderr)


@pytest.mark.parametrize("form", ["--url URL", "--url=URL"])
def test_the_process_title_has_no_password(form: str) -> None:
    """By the time the server is spoken to, the command line in the process list is rewritten; a warning says why."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"mysql://u:{ENCODED}@127.0.0.1:{listener.getsockname()[1]}/d"
        process = start_process("archive", *form.replace("URL", url).split(" "))
        with process:
            connection, _ = listener.accept()
            title = Path(f"/proc/{process.pid}/cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
            connection.close()
            out, err = process.communicate(timeout=60)
    assert title == "qops archive"
    assert process.returncode == 69
    assert "QOPS_PASSWORD" in err
    assert_no_secret(out, err)


def test_errors_of_the_family_only(database: Database) -> None:
    """Whatever the driver raises while a session is open comes out as an error that qops understands."""
    server = database.server()
    with pytest.raises(QopsError) as caught, server.session() as connection:
        connection.execute(sa.text("SELECT nothing FROM nowhere"))
    assert caught.value.exit_code == 78
