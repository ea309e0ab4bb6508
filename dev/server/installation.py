"""Which server program there is: on the PATH, or unpacked from the distribution's packages."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shutil
import subprocess
from typing import TYPE_CHECKING

from dev.server import packages
from dev.server.files import ServerError

if TYPE_CHECKING:
    from pathlib import Path


@dataclasses.dataclass(frozen=True)
class Installation:
    """A server program that can be run here.

    `command` is the argv that everything else is appended to, `--no-defaults` included (it must come
    first). `origin` names the program, its version and where it comes from. `share` is the folder of the SQL
    files that create MariaDB's system tables.
    """

    product: str
    command: tuple[str, ...]
    origin: str
    share: Path | None = None


def find(product: str) -> Installation | None:
    """Return the installation on the PATH, or the one that was unpacked before; downloads nothing."""
    if product == "mysql":
        found = _on_path()
        if found is not None:
            return found
    folder = packages.unpacked(product)
    return None if folder is None else _from_folder(product, folder)


def unpack(product: str) -> Installation:
    """Return the installation from the distribution's packages, downloading them once.

    Raises ServerError as `packages.unpack` does.
    """
    return _from_folder(product, packages.unpack(product))


def client_command() -> list[str] | None:
    """Return the argv prefix of MySQL's own `mysql` client, None if there is none.

    Never MariaDB's client: option files are compared with what MySQL's makes of them. Downloads nothing,
    so call it after `start`.
    """
    on_path = shutil.which("mysql")
    if on_path is not None and "MariaDB" not in _version_text([on_path]):
        return [on_path]
    folder = packages.unpacked("mysql")
    if folder is not None and (folder / "usr/bin/mysql").exists():
        return [*loader(folder), str(folder / "usr/bin/mysql")]
    return None


def _on_path() -> Installation | None:
    # An ordinary user's PATH often lacks the folders that servers are installed to.
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/usr/local/sbin"])
    program = shutil.which("mysqld", path=path)
    if program is None:
        return None
    text = _version_text([program])
    version = re.search(r"Ver (\d+)\.(\d+\.\S+)", text)
    oldest_major = 8
    if "MariaDB" in text or version is None or int(version[1]) < oldest_major:
        return None
    return Installation("mysql", (program, "--no-defaults"), f"{program} {version[1]}.{version[2]} on the PATH")


def _from_folder(product: str, folder: Path) -> Installation:
    usr = folder / "usr"
    program = next((path for path in (usr / "sbin/mariadbd", usr / "sbin/mysqld") if path.exists()), None)
    if program is None:
        raise ServerError(f"no server program in {folder}: delete that folder and start again")
    share = usr / "share/mariadb"
    if not share.is_dir():
        share = usr / "share/mysql"
    command = (
        *loader(folder),
        str(program),
        "--no-defaults",
        f"--basedir={usr}",
        f"--lc-messages-dir={share}",
        f"--character-sets-dir={share}/charsets",
        f"--plugin-dir={usr}/lib/mysql/plugin",
    )
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    origin = f"{manifest['package']} {manifest['version']} from suite {manifest['suite']}, unpacked privately"
    return Installation(product, command, origin, share)


def loader(folder: Path) -> list[str]:
    """Return the argv prefix that runs a program of `folder` with that folder's loader and libraries."""
    loaders = [path for path in folder.rglob("ld-linux*.so.*") if path.is_file() and not path.is_symlink()]
    if not loaders:
        raise ServerError(f"no dynamic loader in {folder}: delete that folder and start again")
    triplet = next((path.parent.name for path in loaders if path.parent.name.endswith("-linux-gnu")), "")
    libraries = [folder / base / triplet for base in ("usr/lib", "lib")] if triplet else [loaders[0].parent]
    # dpkg's architectures differ in where the loader lies, not in its being next to or above libc.
    libraries += [path.parent for path in folder.rglob("libc.so.6")]
    search = dict.fromkeys(str(path) for path in libraries if path.is_dir())
    return [str(loaders[0]), "--library-path", ":".join(search)]


def _version_text(command: list[str]) -> str:
    try:
        done = subprocess.run(
            [*command, "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return "MariaDB (unknown: the program does not answer)"
    return done.stdout
