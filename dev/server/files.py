"""Where the throwaway servers keep their state, and what is remembered of each."""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import json
import os
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
STATE = ROOT / ".dev"


class ServerError(Exception):
    """A throwaway server could not be provided; the message says what to do next."""


@dataclasses.dataclass(frozen=True)
class Server:
    """A server that answers, or (after `stop` and `kill`) one that did.

    An external server has no socket, pid, datadir and error log; one in a container has no socket,
    datadir and error log.
    """

    name: str
    url: str
    host: str
    port: int
    socket: Path | None
    pid: int | None
    datadir: Path | None
    version: str
    error_log: Path | None
    origin: str


@dataclasses.dataclass(frozen=True)
class Record:
    """What is written down about a server: enough to find, check, stop and restart it.

    `started` and `owner_started` are clock ticks since boot (see proc(5)): with the pid they name one
    process for good. `pid` is 0 while the server is stopped; `owner` is the process that a private server
    must not outlive, 0 for a shared one. `home` tells a record that was copied with its checkout, and so is
    about the other checkout's server.
    """

    name: str
    product: str
    kind: str
    origin: str
    options: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    port: int = 0
    pid: int = 0
    started: int = 0
    socket: str = ""
    version: str = ""
    owner: int = 0
    owner_started: int = 0
    home: str = str(STATE)

    @property
    def folder(self) -> Path:
        """The server's own folder."""
        return STATE / "servers" / self.name

    @property
    def datadir(self) -> Path:
        """The server's data folder."""
        return self.folder / "data"

    @property
    def error_log(self) -> Path:
        """The server's error log, kept over restarts."""
        return self.folder / "error.log"

    def server(self) -> Server:
        """Return what callers see of this record."""
        local = self.kind == "process"
        return Server(
            name=self.name,
            url=f"mysql://root@127.0.0.1:{self.port}/",
            host="127.0.0.1",
            port=self.port,
            socket=Path(self.socket) if local else None,
            pid=self.pid or None,
            datadir=self.datadir if local else None,
            version=self.version,
            error_log=self.error_log if local else None,
            origin=self.origin,
        )

    def save(self) -> Record:
        """Write the record so that a reader sees the old or the new one, never half of it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        draft = self.folder / f"record.{os.getpid()}.tmp"
        draft.write_text(json.dumps(dataclasses.asdict(self), indent=2) + "\n", encoding="utf-8")
        draft.replace(self.folder / "record.json")
        return self

    def forget(self) -> None:
        """Delete the server's folder: data, log and record."""
        shutil.rmtree(self.folder, ignore_errors=True)


def read_record(name: str) -> Record | None:
    """Return what is known of the server `name`, None if nothing (or nothing readable) is."""
    path = STATE / "servers" / name / "record.json"
    try:
        fields = json.loads(path.read_text(encoding="utf-8"))
        fields["options"] = tuple(fields["options"])
        fields["env"] = tuple((key, value) for key, value in fields["env"])
        record = Record(**fields)
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return record if record.home == str(STATE) else None


def all_records() -> list[Record]:
    """Return the records of all servers, by name."""
    found = (read_record(path.parent.name) for path in sorted(STATE.glob("servers/*/record.json")))
    return [record for record in found if record is not None]


def check_name(name: str) -> str:
    """Return `name` if it can be a folder's and a container's name.

    Raises ServerError if not.
    """
    if not re.fullmatch(r"[a-z0-9][a-z0-9_.-]{0,60}", name):
        raise ServerError(f"server name {name!r}: use lower-case letters, digits, '-', '_' and '.'")
    return name


@contextlib.contextmanager
def lock(name: str) -> Iterator[None]:
    """Hold the lock `name` among all processes that use this checkout; waits for it."""
    folder = STATE / "locks"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / name).open("w", encoding="utf-8") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
