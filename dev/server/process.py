"""One server process: start it, recognise it, wait for it, end it."""

from __future__ import annotations

import dataclasses
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from dev.server.files import Record, ServerError

if TYPE_CHECKING:
    from dev.server.installation import Installation

_START_SECONDS = 120.0
_STOP_SECONDS = 60.0
_KILL_SECONDS = 20.0
_POLL_SECONDS = 0.05
_SOCKET_PATH_BYTES = 100
_TRIES = 5

# What makes a throwaway server quick and small; options given by the caller come later and win. All else
# is left as the server ships it, because the defaults are what the tests are about. Zero is what skips
# the fsync at commit: these servers survive a crash of mysqld, not of the machine.
_DEFAULTS = (
    "--bind-address=127.0.0.1",
    "--max-connections=400",
    "--sync-binlog=0",
    "--innodb-flush-log-at-trx-commit=2",
    "--innodb-buffer-pool-size=256M",
)
_MYSQL_DEFAULTS = (
    "--secure-file-priv=NULL",
    "--mysqlx=OFF",
    # Not known before 8.0.30.
    "--loose-innodb-redo-log-capacity=64M",
    # Each test has a schema of its own, so the same statements are others for the server; 10,000 are too few for all.
    "--performance-schema-digests-size=40000",
)


def launch(record: Record, installation: Installation) -> Record:
    """Start the server on its data folder and return the record of what answers.

    Takes the record's port if it has one and it is free. Raises ServerError with the end of the error log
    if the server ends or does not answer within 120 s.
    """
    for attempt in range(_TRIES):
        record = dataclasses.replace(record, port=free_port(record.port), socket=_socket_path(record.socket))
        log_start = record.error_log.stat().st_size if record.error_log.exists() else 0
        record = _spawn(record, installation)
        try:
            return wait(record)
        except ServerError:
            end(record, signal.SIGKILL)
            # Another program can take the port between the look and the server's bind.
            if attempt + 1 == _TRIES or "Do you already have another" not in _log(record, log_start):
                raise
            record = dataclasses.replace(record, port=0)
    raise ServerError(f"server {record.name}: no free port")


def _spawn(record: Record, installation: Installation) -> Record:
    command = [
        *installation.command,
        *(["--user=root"] if os.geteuid() == 0 else []),
        f"--datadir={record.datadir}",
        f"--port={record.port}",
        f"--socket={record.socket}",
        f"--pid-file={record.folder / 'mysqld.pid'}",
        f"--log-error={record.error_log}",
        *_DEFAULTS,
        *(_MYSQL_DEFAULTS if record.product == "mysql" else ()),
        *record.options,
    ]
    # The shell between makes the server init's child: nobody here has to reap it, and it outlives whoever
    # started it. It keeps no descriptor of ours, so nothing that reads our output waits for its end.
    script = 'log=$1; shift; exec "$@" </dev/null >>"$log" 2>&1 & echo $!'
    done = subprocess.run(
        ["/bin/sh", "-c", script, "sh", str(record.error_log), *command],
        cwd=record.folder,
        env={**os.environ, **dict(record.env)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        start_new_session=True,
        text=True,
        check=True,
    )
    pid = int(done.stdout)
    return dataclasses.replace(record, pid=pid, started=start_ticks(pid) or 0).save()


def wait(record: Record) -> Record:
    """Wait until the server answers on its port; return the record with its version.

    Raises ServerError with the end of the error log if it ends first or takes longer than 120 s.
    """
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        if not alive(record):
            raise ServerError(f"server {record.name} ended while it started; {_tail(record)}")
        if _listens(record):
            version = greeting("127.0.0.1", record.port)
            if version is not None:
                return dataclasses.replace(record, version=version or record.version).save()
        time.sleep(_POLL_SECONDS)
    raise ServerError(f"server {record.name} does not answer after {_START_SECONDS:.0f} s; {_tail(record)}")


def alive(record: Record) -> bool:
    """Say whether the recorded process still runs: same pid, same start, our data folder in its argv."""
    if not record.pid or start_ticks(record.pid) != record.started:
        return False
    try:
        argv = Path(f"/proc/{record.pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    # Just after the fork the argv is still the shell's, which names the data folder too; a process that is
    # ending has none any more.
    return argv == [b""] or f"--datadir={record.datadir}".encode() in argv


def end(record: Record, number: signal.Signals = signal.SIGTERM) -> Record:
    """End the recorded process and wait until it is gone; return the record without pid.

    A server that does not end within 60 s of SIGTERM gets SIGKILL. Raises ServerError if it may not be
    signalled (another user's) or does not go.
    """
    for name, seconds in ((number, _STOP_SECONDS), (signal.SIGKILL, _KILL_SECONDS)):
        deadline = time.monotonic() + seconds
        if alive(record):
            try:
                os.kill(record.pid, name)
            except ProcessLookupError:
                pass
            except PermissionError as error:
                raise ServerError(f"server {record.name} (pid {record.pid}) runs as another user") from error
        while alive(record) and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)
    if alive(record):
        raise ServerError(f"server {record.name} (pid {record.pid}) does not end; see {record.error_log}")
    if record.socket:
        shutil.rmtree(Path(record.socket).parent, ignore_errors=True)
    return dataclasses.replace(record, pid=0, started=0).save()


def start_ticks(pid: int) -> int | None:
    """Return when the process started, in clock ticks since boot; None if it is gone or a zombie."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The program's name is in brackets and can hold anything: the fields are counted behind it.
    fields = text.rpartition(")")[2].split()
    # A killed process is a zombie while its other threads still end, and those hold its port and files.
    gone = fields[0] in "ZX" and int(fields[17]) <= 1
    return None if gone else int(fields[19])


def greeting(host: str, port: int, path: str = "") -> str | None:
    """Return the version that the server at the address (or the socket `path`) greets with.

    None if there is no MySQL server, the empty string if there is one that refuses to talk just now.
    """
    refusal, protocol = 0xFF, 10
    try:
        with _connect(host, port, path) as connection, connection.makefile("rb") as stream:
            payload = stream.read(int.from_bytes(stream.read(4)[:3], "little"))
    except OSError:
        return None
    if payload[:1] == bytes([refusal]):
        return ""
    if payload[:1] != bytes([protocol]):
        return None
    # MariaDB hides behind an old version number, for old replicas.
    return payload[1:].split(b"\0", 1)[0].decode("ascii", "replace").removeprefix("5.5.5-")


def _connect(host: str, port: int, path: str) -> socket.socket:
    seconds = 5.0
    if not path:
        return socket.create_connection((host, port), seconds)
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(seconds)
    connection.connect(path)
    return connection


def _listens(record: Record) -> bool:
    """Say whether it is the recorded process that listens on the recorded port."""
    listening, inodes = "0A", set()
    for line in Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]:
        fields = line.split()
        if fields[3] == listening and int(fields[1].partition(":")[2], 16) == record.port:
            inodes.add(f"socket:[{fields[9]}]")
    for descriptor in Path(f"/proc/{record.pid}/fd").glob("*"):
        try:
            if os.readlink(descriptor) in inodes:  # noqa: PTH115 - this link's target is no path
                return True
        except OSError:
            continue
    return False


def free_port(wanted: int) -> int:
    """Return the wanted port if it is free, else (and for 0) any free one."""
    for port in (wanted, 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise ServerError("no free port on 127.0.0.1")


def _socket_path(wanted: str) -> str:
    """Return a path for a socket in a new private folder: the wanted one, or a new one if that is taken.

    The folder is a temporary one because a socket's path may have 107 bytes at most.
    """
    if wanted:
        try:
            Path(wanted).parent.mkdir(mode=0o700)
        except OSError:
            pass
        else:
            return wanted
    folder = tempfile.mkdtemp(prefix="qops-")
    if len(os.fsencode(folder)) > _SOCKET_PATH_BYTES - len("/s.sock"):
        Path(folder).rmdir()
        folder = tempfile.mkdtemp(prefix="qops-", dir="/tmp")
    return f"{folder}/s.sock"


def _log(record: Record, start: int = 0) -> str:
    try:
        return record.error_log.read_bytes()[start:].decode("utf-8", "replace")
    except OSError:
        return ""


def _tail(record: Record) -> str:
    lines = _log(record).strip().splitlines()[-12:]
    return f"the end of {record.error_log}:\n" + "\n".join(lines or ["(empty)"])
