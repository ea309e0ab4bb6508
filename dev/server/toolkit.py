"""Percona Toolkit's programs, run from the distribution's packages with a Perl and a client library of their own."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
from typing import TYPE_CHECKING

from dev.server import packages
from dev.server.files import ServerError
from dev.server.installation import loader

if TYPE_CHECKING:
    from collections.abc import Mapping

_PRODUCT = "percona-toolkit"


@dataclasses.dataclass(frozen=True)
class Tool:
    """How to run one of the programs: the head of its argv, and its environment; `version` is its package's."""

    command: tuple[str, ...]
    environment: Mapping[str, str]
    version: str


def find_tool(name: str) -> Tool:
    """Return a program of the toolkit (`pt-archiver`), downloading the packages once.

    Raises ServerError as `packages.unpack` does, and where the packages have no such program.
    """
    folder = packages.unpack(_PRODUCT)
    script, perl = folder / "usr/bin" / name, folder / "usr/bin/perl"
    if not (script.exists() and perl.exists()):
        raise ServerError(f"no {name} or no perl in {folder}: delete that folder and start again")
    head = [*loader(folder), str(perl)]
    # Perl's folders are compiled in, so that this one would load the modules of the machine's.
    code = 'print join "\\n", @INC'
    own = subprocess.run([*head, "-e", code], capture_output=True, text=True, check=True).stdout.splitlines()
    paths = [folder / path.lstrip("/") for path in own]
    includes = [f"-I{path}" for path in paths if path.is_dir()]
    # So is the folder of the client library's plugins, without which there is no caching_sha2_password.
    plugins = next(folder.rglob("caching_sha2_password.so"), None)
    environment = {**os.environ, "LC_ALL": "C"} | ({"MARIADB_PLUGIN_DIR": str(plugins.parent)} if plugins else {})
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    return Tool((*head, *includes, str(script)), environment, manifest["version"])
