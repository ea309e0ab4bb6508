"""The same servers in containers, where there is a Docker engine and no server program."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import shutil
import subprocess
import sys
import time

from dev.server.files import STATE, Record, ServerError
from dev.server.process import free_port, greeting

_CHECKOUT = hashlib.sha256(str(STATE).encode()).hexdigest()[:12]

_IMAGES = {"mysql": "mysql:8.4", "mariadb": "mariadb:10.11"}
_START_SECONDS = 180.0
_POLL_SECONDS = 0.25
# As for a server process: quick, and all else as shipped.
_DEFAULTS = ("--max-connections=400", "--sync-binlog=0", "--innodb-flush-log-at-trx-commit=2")


@functools.cache
def available() -> bool:
    """Say whether a Docker engine answers: a client alone cannot run anything."""
    if shutil.which("docker") is None:
        return False
    try:
        done = subprocess.run(
            ["docker", "version", "--format", "{{.Server.Version}}"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0 and bool(done.stdout.strip())


def origin(product: str) -> str:
    """Return what is said of where such a server comes from."""
    return f"Docker image {_IMAGES[product]}"


def create(record: Record) -> Record:
    """Create the record's container if there is none; return the record with the container's port.

    Raises ServerError if the engine cannot get the image.
    """
    if not _exists(record):
        # A port that the engine picks would be another one after each restart.
        record = dataclasses.replace(record, port=free_port(record.port))
        # Recorded first, so that a start that is cut short leaves nothing that `stop` cannot find.
        record.save()
        print(f"dev server: creating a container of {_IMAGES[record.product]}", file=sys.stderr, flush=True)
        environment = {"MYSQL_ALLOW_EMPTY_PASSWORD": "yes", "MARIADB_ALLOW_EMPTY_ROOT_PASSWORD": "yes"}
        environment.update(record.env)
        settings = [part for key, value in environment.items() for part in ("--env", f"{key}={value}")]
        labels = ["--label", f"qops.checkout={_CHECKOUT}", "--label", f"qops.server={record.name}"]
        published = ["--publish", f"127.0.0.1:{record.port}:3306"]
        command = ["create", "--name", _container(record), *published, *labels, *settings]
        _docker(*command, _IMAGES[record.product], *_DEFAULTS, *record.options)
    return record


def launch(record: Record) -> Record:
    """Start the record's container; return the record of what answers.

    Raises ServerError with the end of the container's log if it does not answer within 180 s.
    """
    _docker("start", _container(record))
    pid = _docker("inspect", "--format", "{{.State.Pid}}", _container(record)).strip()
    return wait(dataclasses.replace(record, pid=int(pid)).save())


def wait(record: Record) -> Record:
    """Wait until the server in the container greets; return the record with its version.

    The image's first, private server listens on no port, so a greeting is the real one's. Raises
    ServerError if the container ends first or takes longer than 180 s.
    """
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        version = greeting("127.0.0.1", record.port)
        if version is not None:
            return dataclasses.replace(record, version=version or record.version).save()
        if not alive(record):
            break
        time.sleep(_POLL_SECONDS)
    log = "\n".join(_docker("logs", "--tail", "12", _container(record)).splitlines())
    raise ServerError(f"server {record.name} ({_container(record)}) does not answer; its log:\n{log}")


def alive(record: Record) -> bool:
    """Say whether the record's container runs."""
    try:
        return _docker("inspect", "--format", "{{.State.Running}}", _container(record)).strip() == "true"
    except ServerError:
        return False


def end(record: Record, *, kill: bool = False) -> Record:
    """Stop (or kill) the record's container and keep it for a restart; return the record without pid."""
    if alive(record):
        _docker(*(["kill"] if kill else ["stop", "--time", "60"]), _container(record))
    return dataclasses.replace(record, pid=0).save()


def remove(record: Record) -> None:
    """Delete the record's container and its data; one that is not there is no error."""
    if _exists(record):
        _docker("rm", "--force", "--volumes", _container(record))


def _container(record: Record) -> str:
    # Two checkouts on one machine share an engine.
    return f"qops-{_CHECKOUT}-{record.name}"


def _exists(record: Record) -> bool:
    try:
        _docker("inspect", "--format", "{{.Id}}", _container(record))
    except ServerError:
        return False
    return True


def _docker(*arguments: str) -> str:
    """Return what the docker client prints.

    Raises ServerError with its message if it fails.
    """
    try:
        done = subprocess.run(
            ["docker", *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
    except OSError as error:
        raise ServerError(f"docker: {error}") from error
    if done.returncode != 0:
        raise ServerError(f"docker {arguments[0]} failed: {done.stderr.strip()}")
    # The container's log comes on both streams.
    return done.stdout + (done.stderr if arguments[0] == "logs" else "")
