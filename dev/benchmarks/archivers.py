"""Ways to move finished jobs: qops, pt-archiver in two modes, and what the bare server can do at the utmost."""

from __future__ import annotations

import subprocess
import time
from typing import TYPE_CHECKING

from dev.benchmarks.archive_case import SCHEMA, Timed, run_qops
from dev.benchmarks.tables import connect
from dev.server.toolkit import find_tool

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dev.benchmarks.archive_case import Tables
    from dev.server import Server
    from dev.server.toolkit import Tool

BATCH = 1000
QOPS, ROW, BULK, PROCEDURE, GIANT = (
    "qops",
    "pt-archiver, row by row",
    "pt-archiver, bulk",
    "stored procedure",
    "one transaction",
)
_COPY = "INSERT INTO jobs_archive SELECT * FROM jobs WHERE {}"
_DELETE = "DELETE FROM jobs WHERE {}"
_RANGE = "id BETWEEN at AND at + batch - 1 AND status = 'done'"
_PROCEDURE = f"""
CREATE PROCEDURE archive_all(batch INT)
BEGIN
  DECLARE at, last BIGINT UNSIGNED;
  SELECT MIN(id), MAX(id) INTO at, last FROM jobs;
  WHILE at <= last DO
    {_COPY.format(_RANGE)};
    {_DELETE.format(_RANGE)};
    COMMIT;
    SET at = at + batch;
  END WHILE;
END"""  # noqa: S608 - all written here


def archivers(tables: Tables) -> Mapping[str, Callable[[], Timed]]:
    """Return every way by its name; each moves all done jobs of the schema's table to its archive."""
    server, tool = tables.control.server, find_tool("pt-archiver")
    tables.control.run(f"USE {SCHEMA}")
    tables.control.run(_PROCEDURE)
    done = "status = 'done'"
    return {
        QOPS: lambda: run_qops("archive", "--pause", "0s", "--batch", str(BATCH), url=tables.url)[0],
        ROW: lambda: _pt_archiver(tool, server),
        BULK: lambda: _pt_archiver(tool, server, "--bulk-insert", "--bulk-delete"),
        PROCEDURE: lambda: _in_server(server, f"CALL archive_all({BATCH})"),
        GIANT: lambda: _in_server(server, _COPY.format(done), _DELETE.format(done)),
    }


def _pt_archiver(tool: Tool, server: Server, *mode: str) -> Timed:
    """Run pt-archiver along the primary key, as it does where no index is named; it is its quickest on these tables."""
    place = f"h={server.host},P={server.port},u=root,D={SCHEMA},A=utf8mb4"
    command = [
        *tool.command,
        *("--source", f"{place},t=jobs", "--dest", f"{place},t=jobs_archive", "--where", "status = 'done'"),
        *("--limit", str(BATCH), "--commit-each", "--no-safe-auto-increment", "--no-check-charset", *mode),
    ]
    started = time.monotonic()
    done = subprocess.run(command, env=dict(tool.environment), capture_output=True, text=True, check=False)
    seconds = time.monotonic() - started
    if done.returncode != 0 or done.stderr:
        raise RuntimeError(f"pt-archiver {' '.join(mode)} ended with {done.returncode}: {done.stderr}")
    return Timed(seconds)


def _in_server(server: Server, *statements: str) -> Timed:
    """Run statements in one session and commit them."""
    connection = connect(server, SCHEMA)
    cursor = connection.cursor()
    started = time.monotonic()
    for statement in statements:
        cursor.execute(statement)
    connection.commit()
    seconds = time.monotonic() - started
    connection.close()
    return Timed(seconds, seconds)
