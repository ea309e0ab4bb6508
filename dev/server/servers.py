"""Start, find, stop and restart throwaway servers by name."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import secrets
import signal
import urllib.parse
from pathlib import Path
from typing import TYPE_CHECKING

from dev.server import datadir, docker, installation, process
from dev.server.files import (
    STATE,
    Record,
    Server,
    ServerError,
    all_records,
    check_name,
    lock,
    read_record,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

MAIN = "main"
PRODUCTS = ("mysql", "mariadb")
_PRIVATE = "private-"
_DEFAULT_PORT = 3306


def start(
    name: str = MAIN,
    product: str = "mysql",
    options: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
) -> Server:
    """Return the server `name`, starting it if it does not run; its data stay from start to start.

    `options` are the server program's (`--server-id=2`), `env` is added to its environment. The server
    that QOPS_TEST_URL names is returned for `main` where that variable is set. Raises ServerError if the
    server runs with other options, does not start, or there is nothing to start.
    """
    external = _external(name, product, options)
    if external is not None:
        return external
    wanted = _wanted(name, product, options, env)
    _sweep()
    with lock(f"server-{name}"):
        return _start(wanted).server()


def stop(name: str = MAIN, *, remove: bool = False) -> None:
    """Stop the server `name` cleanly, and delete its data if asked; one that is not there is no error.

    Raises ServerError if it does not end or is another user's.
    """
    with lock(f"server-{check_name(name)}"):
        record = read_record(name)
        if record is None:
            return
        _end(record)
        if remove:
            _remove(record)


def restart(name: str = MAIN) -> Server:
    """Stop the server `name` if it runs and start it again with the same options, data and port.

    The port is another one only if somebody else took it meanwhile. Raises ServerError if there is no
    such server or it does not start.
    """
    with lock(f"server-{check_name(name)}"):
        record = _known(name)
        return _launch(_end(record)).server()


def kill(name: str = MAIN) -> Server:
    """End the server `name` with SIGKILL, as a crash does, and return what it was.

    `start` or `restart` brings it back with its data and port. Raises ServerError if it does not run.
    """
    with lock(f"server-{check_name(name)}"):
        record = _known(name)
        if not _alive(record):
            raise ServerError(f"server {name} does not run")
        if record.kind == "docker":
            docker.end(record, kill=True)
        else:
            process.end(record, signal.SIGKILL)
        return record.server()


def running(name: str = MAIN) -> Server | None:
    """Return the server `name` if it runs and answers, else None; starts nothing."""
    external = _external(name, "mysql", ())
    if external is not None:
        return external
    record = read_record(check_name(name))
    if record is None or not _alive(record) or process.greeting("127.0.0.1", record.port) is None:
        return None
    return record.server()


def names() -> list[str]:
    """Return the names of all servers that have a record here, running or not."""
    return [record.name for record in all_records()]


@contextlib.contextmanager
def private_server(
    options: Sequence[str] = (),
    product: str = "mysql",
    env: Mapping[str, str] | None = None,
) -> Iterator[Server]:
    """Give a server of one's own for the length of a `with`, then stop it and delete its data.

    QOPS_TEST_URL does not matter here. Should the calling process die first, the next `start` by anybody
    cleans up. Raises ServerError as `start` does.
    """
    name = f"{_PRIVATE}{os.getpid()}-{secrets.token_hex(3)}"
    pid = os.getpid()
    record = dataclasses.replace(
        _wanted(name, product, options, env), owner=pid, owner_started=process.start_ticks(pid) or 0
    )
    _sweep()
    try:
        with lock(f"server-{name}"):
            server = _start(record).server()
        yield server
    finally:
        # Its data are of no use to anyone, so it need not be stopped with care.
        with lock(f"server-{name}"):
            _remove(read_record(name) or record)
        (STATE / "locks" / f"server-{name}").unlink(missing_ok=True)


def _external(name: str, product: str, options: Sequence[str]) -> Server | None:
    url = os.environ.get("QOPS_TEST_URL", "")
    if not url or name != MAIN or product != "mysql":
        return None
    if options:
        raise ServerError("QOPS_TEST_URL names the server, so it cannot be started with options; unset it")
    parts = urllib.parse.urlsplit(url)
    host, port = parts.hostname or "127.0.0.1", parts.port or _DEFAULT_PORT
    path = urllib.parse.parse_qs(parts.query).get("unix_socket", [""])[0]
    version = process.greeting(host, port, path)
    if version is None:
        address = path or f"{host}:{port}"
        raise ServerError(f"the server that QOPS_TEST_URL names does not answer at {address}")
    return Server(
        name=name,
        url=url,
        host=host,
        port=port,
        socket=Path(path) if path else None,
        pid=None,
        datadir=None,
        version=version,
        error_log=None,
        origin="QOPS_TEST_URL",
    )


def _wanted(name: str, product: str, options: Sequence[str], env: Mapping[str, str] | None) -> Record:
    if product not in PRODUCTS:
        raise ServerError(f"product {product!r}: use one of {', '.join(PRODUCTS)}")
    return Record(
        name=check_name(name),
        product=product,
        kind="",
        origin="",
        options=tuple(options),
        env=tuple(sorted((env or {}).items())),
    )


def _known(name: str) -> Record:
    record = read_record(name)
    if record is None:
        raise ServerError(f"there is no server {name}; make server starts main")
    return record


def _alive(record: Record) -> bool:
    return docker.alive(record) if record.kind == "docker" else process.alive(record)


def _end(record: Record) -> Record:
    return docker.end(record) if record.kind == "docker" else process.end(record)


def _remove(record: Record) -> None:
    if record.kind == "docker":
        docker.remove(record)
    elif record.pid:
        process.end(record, signal.SIGKILL)
    record.forget()


def _start(wanted: Record) -> Record:
    """Return the record of the running server; the caller holds its lock."""
    found = read_record(wanted.name)
    if found is None:
        return _launch(wanted)
    same = (found.product, found.options, found.env) == (wanted.product, wanted.options, wanted.env)
    if _alive(found):
        if not same:
            given = " ".join((found.product, *found.options))
            raise ServerError(
                f"server {found.name} runs with other settings ({given}); "
                f"stop it first: python3 -m dev.server stop --name {found.name}"
            )
        # Whoever started it may have been killed while waiting for it.
        return docker.wait(found) if found.kind == "docker" else process.wait(found)
    initial = [datadir.initial_options(record.options) for record in (found, wanted)]
    fits = found.product == wanted.product and initial[0] == initial[1]
    # A container's options are fixed when it is created.
    if not fits or (found.kind == "docker" and not same):
        _remove(found)
        found = dataclasses.replace(found, version="")
    if found.kind == "process":
        found = process.end(found)
    return _launch(dataclasses.replace(found, product=wanted.product, options=wanted.options, env=wanted.env))


def _launch(record: Record) -> Record:
    """Start a server that does not run, on its old data if there are any that fit."""
    program = installation.find(record.product)
    engine = "no Docker engine answers"
    if program is None and docker.available():
        contained = dataclasses.replace(record, kind="docker", origin=docker.origin(record.product))
        try:
            contained = docker.create(contained)
        except ServerError as error:
            engine = f"the Docker engine is of no use ({error})"
        else:
            return docker.launch(contained)
    if program is None:
        try:
            program = installation.unpack(record.product)
        except ServerError as error:
            raise ServerError(_NOTHING.format(product=record.product, engine=engine, error=error)) from error
    if record.kind == "docker":
        docker.remove(record)
    if record.datadir.exists() and record.origin != program.origin:
        # Data of another program or version: an upgrade takes long and a downgrade fails.
        record.forget()
    record = dataclasses.replace(record, kind="process", origin=program.origin)
    if not record.datadir.exists():
        datadir.create(record, program)
    return process.launch(record, program)


_NOTHING = """\
no {product} server for demo and tests: there is none on the PATH, {engine},
and the distribution's packages cannot be used: {error}
Do one of these:
  set QOPS_TEST_URL=mysql://USER:PASSWORD@HOST:PORT/ (MySQL 8.0 or later; tests create and drop databases)
  install MySQL's server program (mysqld), for example with: apt-get install mysql-server-core
  start a Docker engine"""


def _sweep() -> None:
    """Remove the private servers whose owners died without doing so."""
    for record in all_records():
        if record.owner and process.start_ticks(record.owner) != record.owner_started:
            with lock(f"server-{record.name}"), contextlib.suppress(ServerError):
                _remove(record)
