"""A fresh data folder: a copy of a template that is initialised once per server program and options."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from dev.server.files import STATE, Record, ServerError, lock

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dev.server.installation import Installation

# Options that only a fresh data folder can take: each choice of them needs a template of its own.
_AT_INITIALISATION = (
    "lower-case-table-names",
    "innodb-page-size",
    "innodb-data-file-path",
    "innodb-undo-directory",
    "innodb-checksum-algorithm",
)

# A server resolves 127.0.0.1 to localhost only where the machine's hosts file does, so both get a root.
_ROOT_ON_LOOPBACK = """\
CREATE USER IF NOT EXISTS 'root'@'127.0.0.1';
GRANT ALL PRIVILEGES ON *.* TO 'root'@'127.0.0.1' WITH GRANT OPTION;
"""

_MARIADB_TABLES = (
    "mysql_system_tables.sql",
    "mariadb_system_tables.sql",
    "mysql_performance_tables.sql",
    "mariadb_performance_tables.sql",
    "mysql_system_tables_data.sql",
    "mariadb_system_tables_data.sql",
)


def initial_options(options: Sequence[str]) -> tuple[str, ...]:
    """Return those of the server options that must be given when the data folder is initialised."""
    return tuple(
        option
        for option in options
        if option.lstrip("-").partition("=")[0].replace("_", "-").removeprefix("loose-") in _AT_INITIALISATION
    )


def create(record: Record, installation: Installation) -> None:
    """Create the record's data folder, with root logins without password from this machine only.

    Raises ServerError if the server program cannot initialise it.
    """
    record.folder.mkdir(parents=True, exist_ok=True)
    draft = record.folder / "data.tmp"
    shutil.rmtree(draft, ignore_errors=True)
    shutil.copytree(_template(installation, initial_options(record.options)), draft)
    draft.rename(record.datadir)


def _template(installation: Installation, options: Sequence[str]) -> Path:
    # The program's origin names its version, so an upgraded program gets a new template.
    identity = json.dumps([installation.product, installation.origin, *options])
    name = f"{installation.product}-{hashlib.sha256(identity.encode()).hexdigest()[:12]}"
    with lock("template"):
        template = STATE / "templates" / name
        if not template.is_dir():
            template.parent.mkdir(parents=True, exist_ok=True)
            draft = template.with_name(f"{name}.tmp")
            shutil.rmtree(draft, ignore_errors=True)
            _initialise(installation, draft, options)
            draft.rename(template)
        return template


def _initialise(installation: Installation, target: Path, options: Sequence[str]) -> None:
    user = ("--user=root",) if os.geteuid() == 0 else ()
    command = [*installation.command, *user, f"--datadir={target}", *options]
    # The least redo log there is: it is copied for every server, and each makes its own bigger at start.
    if installation.product == "mariadb":
        target.mkdir(parents=True)
        command += ["--innodb-log-file-size=8M"]
        _run([*command, "--bootstrap"], _mariadb_tables(installation))
    else:
        command += ["--mysqlx=OFF", "--secure-file-priv=NULL", "--loose-innodb-redo-log-capacity=8M"]
        _run([*command, "--initialize-insecure"])
    with tempfile.TemporaryDirectory(prefix="qops-") as folder:
        accounts = Path(folder, "accounts.sql")
        accounts.write_text(_ROOT_ON_LOOPBACK + "SHUTDOWN;\n", encoding="utf-8")
        files = [f"--socket={folder}/s.sock", f"--pid-file={folder}/pid", f"--init-file={accounts}"]
        _run([*command, "--skip-networking", "--skip-log-bin", *files])
    # The server's identity: every copy must make its own, or replicas take each other for themselves.
    (target / "auto.cnf").unlink(missing_ok=True)


def _mariadb_tables(installation: Installation) -> str:
    """Return the statements that MariaDB's own install script feeds to a server in bootstrap mode."""
    if installation.share is None:
        raise ServerError("no folder with MariaDB's system tables")
    settings = (
        # Bootstrap mode takes one statement a line.
        "CREATE DATABASE IF NOT EXISTS mysql;\nUSE mysql;\nSET @auth_root_socket=NULL;\nSET @skip_auth_anonymous=1;\n"
    )
    files = [installation.share / name for name in _MARIADB_TABLES]
    tables = "".join(path.read_text(encoding="utf-8") for path in files if path.exists())
    return settings + tables


def _run(command: list[str], stdin: str | None = None) -> None:
    done = subprocess.run(
        command,
        input=stdin or "",
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        tail = "\n".join(done.stdout.strip().splitlines()[-12:])
        raise ServerError(f"{command[0]} cannot initialise a data folder; the end of what it says:\n{tail}")
