"""One real server for all tests, a fresh schema for each, and ways to run qops against it."""

from __future__ import annotations

import contextlib
import io
import json
import os
import secrets
import subprocess
import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import MySQLdb
import pytest

from dev import server as throwaway
from qops.cli.main import run
from qops.db import Server, open_server
from qops.queue import QueueTable, load
from qops.settings import Flags, Settings
from qops.settings import load as load_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path


@dataclass(frozen=True)
class Database:
    """A schema of one's own on a server; `url` has no password. `admin` is root's autocommit session in it."""

    name: str
    host: str
    port: int
    admin: Any = field(repr=False)
    user: str = "root"
    password: str = ""

    @property
    def url(self) -> str:
        """The URL that qops is given."""
        secret = f":{self.password}" if self.password else ""
        return f"mysql://{self.user}{secret}@{self.host}:{self.port}/{self.name}"

    def connect(self, **options: Any) -> Any:
        """Open another session in this schema (autocommit off, the server's own defaults otherwise)."""
        arguments = {"user": self.user, "password": self.password, "database": self.name, "charset": "utf8mb4"}
        return MySQLdb.connect(host=self.host, port=self.port, **(arguments | options))

    def execute(self, sql: str, parameters: Sequence[Any] | None = None) -> int:
        """Run a statement as root and return the number of rows it changed."""
        with self.admin.cursor() as cursor:
            return int(cursor.execute(sql, parameters))

    def rows(self, sql: str, parameters: Sequence[Any] | None = None) -> list[tuple[Any, ...]]:
        """Run a query as root."""
        with self.admin.cursor() as cursor:
            cursor.execute(sql, parameters)
            return list(cursor.fetchall())

    def value(self, sql: str, parameters: Sequence[Any] | None = None) -> Any:
        """Run a query as root and return its one value."""
        ((value,),) = self.rows(sql, parameters)
        return value

    def script(self, sql: str) -> None:
        """Run several statements separated by semicolons at line ends."""
        for statement in sql.split(";\n"):
            if statement.strip():
                self.execute(statement.strip().removesuffix(";"))

    def settings(self, config: Path | None = None, queue: str | None = None) -> Settings:
        """Return the settings of a command line with this URL."""
        return load_settings(Flags(url=self.url, config=str(config) if config else None, queue=queue), {})

    def server(self) -> Server:
        """Return the qops side of this server."""
        return open_server(self.settings().database)

    def queue(self, config: Path | None = None, queue: str | None = None) -> QueueTable:
        """Return the verified queue."""
        settings = self.settings(config, queue)
        with open_server(settings.database).observe() as connection:
            return load(connection, settings.queue)


@dataclass(frozen=True)
class Ran:
    """What a command did: exit code, stdout, stderr."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one JSON document on stdout."""
        return json.loads(self.out)


@contextlib.contextmanager
def fresh_database(server: throwaway.Server, name: str | None = None, charset: str = "utf8mb4") -> Iterator[Database]:
    """Create a schema on `server`, and drop it at the end whatever happened."""
    address = urlsplit(server.url)
    host, port = address.hostname or "127.0.0.1", address.port or 3306
    login = {"user": address.username or "root", "password": address.password or ""}
    name = name or f"q_{os.getpid()}_{secrets.token_hex(3)}"
    quoted = f"`{name.replace('`', '``')}`"
    admin = MySQLdb.connect(host=host, port=port, autocommit=True, charset="utf8mb4", **login)
    with admin.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {quoted} CHARACTER SET {charset}")
        cursor.execute(f"USE {quoted}")
    try:
        yield Database(name, host, port, admin, **login)
    finally:
        with contextlib.suppress(MySQLdb.Error):
            with admin.cursor() as cursor:
                cursor.execute("SET SESSION lock_wait_timeout = 20")
                cursor.execute(f"DROP DATABASE IF EXISTS {quoted}")
            admin.close()


@pytest.fixture(scope="session")
def main_server() -> throwaway.Server:
    """Return the shared server; every test uses a schema of its own on it and changes nothing global."""
    return throwaway.start()


@pytest.fixture(scope="module")
def own_server() -> Iterator[throwaway.Server]:
    """Return a module's own server, whose sessions are at READ COMMITTED: its settings may be changed."""
    with throwaway.private_server(options=["--transaction-isolation=READ-COMMITTED"]) as server:
        yield server


@pytest.fixture
def database(main_server: throwaway.Server) -> Iterator[Database]:
    with fresh_database(main_server) as database:
        yield database


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Keep the developer's own configuration out: an empty home, an empty folder, no QOPS_ variable."""
    for name in list(os.environ):
        if name.startswith("QOPS_") and name != "QOPS_TEST_URL":
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def qops(database: Database, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Ran]:
    """Return a function that runs a command line in this process against the test's schema."""
    monkeypatch.setenv("QOPS_URL", database.url)
    return run_here


def run_here(*arguments: str) -> Ran:
    """Run a command line in this process."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run([str(argument) for argument in arguments])
    return Ran(code, out.getvalue(), err.getvalue())


def start_process(*arguments: str, url: str | None = None, **options: Any) -> subprocess.Popen[str]:
    """Start qops as its own process, as a shell would; stdin is empty and there is no terminal."""
    environment = {**os.environ, **options.pop("env", {})}
    if url:
        environment["QOPS_URL"] = url
    defaults: dict[str, Any] = {
        "stdin": subprocess.DEVNULL,
        "stdout": subprocess.PIPE,
        "stderr": subprocess.PIPE,
        "text": True,
    }
    command = [sys.executable, "-m", "qops", *map(str, arguments)]
    return subprocess.Popen(command, env=environment, **(defaults | options))


def run_process(*arguments: str, url: str | None = None, timeout: float = 60, **options: Any) -> Ran:
    """Run qops as its own process and wait for it; a hang is a failure."""
    process = start_process(*arguments, url=url, **options)
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        raise AssertionError(f"qops {arguments} hung; it said {out!r} {err!r}") from None
    return Ran(process.returncode, out, err)


def wait_until(condition: Callable[[], object], *, seconds: float = 30, what: str = "the condition") -> None:
    """Wait until `condition()` is true; fail after `seconds`."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not come about within {seconds} s"
        time.sleep(0.01)
