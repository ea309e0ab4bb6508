"""What a MySQL option file says that the client library does not act upon.

User, password, host, port, socket and database are read by the client library, never here. But a library that
passes over a line is dangerous where the line says "encrypted only" or "this server, not the local one":
MariaDB's (3.3) knows neither `ssl-mode` nor `protocol` nor `!includedir`, takes a flag without value for 0, and no
library says that a group does not exist. So those few words are looked for here as MySQL's manual describes them
(4.2.2.2, Using Option Files).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from qops.errors import Misconfigured

if TYPE_CHECKING:
    from collections.abc import Iterator

LIBRARY_GROUPS = ("client", "client-server", "client-mariadb")
DEFAULT_GROUP = "qops"
_MAX_DEPTH = 10  # of files that include files, as in MySQL
_COMMENT = re.compile(r"\s*#.*")
_OFF = frozenset({"0", "off", "false"})


@dataclass(frozen=True)
class OptionFile:
    """The groups of a file, and the options of those that are read; an option without value is ''."""

    path: Path
    groups: frozenset[str] = frozenset()
    options: dict[str, str] = field(default_factory=dict, repr=False)
    unread: tuple[Path, ...] = ()  # files of an !includedir that have something to say

    def switched_on(self, option: str) -> bool:
        """Whether a boolean option is there and not off."""
        return self.options.get(option, "0").lower() not in _OFF


def look_into(path: Path, group: str | None) -> OptionFile:
    """Look into the option file at `path`, and into what it includes, for the group `group` or the default one.

    Raises Misconfigured when a group was asked for that is not there.
    """
    if not path.is_file():
        return OptionFile(path)  # a pipe can be read once, and that is for the client library
    wanted = {*LIBRARY_GROUPS, group or DEFAULT_GROUP}
    groups: set[str] = set()
    options: dict[str, str] = {}
    unread: dict[Path, None] = {}
    for source, in_folder, found, line in _lines(path):
        groups.add(found)
        if found not in wanted or not line:
            continue
        if in_folder:
            unread[source] = None
            continue
        key, _, value = line.partition("=")
        options[key.strip().removeprefix("loose-").replace("_", "-")] = _plain(value)
    if group is not None and group not in groups:
        raise Misconfigured(f"option file {path} has no group [{group}]; check --defaults-group")
    return OptionFile(path, frozenset(groups), options, tuple(unread))


def _lines(path: Path, depth: int = 0, *, in_folder: bool = False) -> Iterator[tuple[Path, bool, str, str]]:
    """Yield (file, whether it came by an !includedir, group, line); a group's heading is an empty line in it."""
    group = ""
    try:
        text = path.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return
    for line in map(str.strip, text.splitlines()):
        directive, _, target = line.partition(" ")
        if directive in {"!include", "!includedir"}:
            folder = directive == "!includedir"
            files = sorted(Path(target.strip()).glob("*.cnf")) if folder else [Path(target.strip())]
            for file in files if depth < _MAX_DEPTH else ():
                yield from _lines(file, depth + 1, in_folder=in_folder or folder)
        elif line.startswith("["):
            group = line[1:].partition("]")[0].strip()
            yield path, in_folder, group, ""
        elif line and line[0] not in "#;!":
            yield path, in_folder, group, line


def _plain(value: str) -> str:
    """Return a word without its comment and quotes; enough for the options that are looked for."""
    return _COMMENT.sub("", value).strip().strip("'\"")
