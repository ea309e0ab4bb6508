"""Ways to move finished jobs: qops, pt-archiver in two modes, and what the bare server can do at the utmost."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dev.benchmarks.archive_case import SCHEMA, Program, qops
from dev.benchmarks.tables import connect
from dev.server.toolkit import find_tool

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dev.benchmarks.archive_case import Tables
    from dev.server import Server

BATCH = 1000
BULK_MODE = ("--bulk-insert", "--bulk-delete")
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


@dataclass(frozen=True)
class Timed:
    """Seconds from start to end of the whole process, and its own count of the run in it (None: it has none)."""

    seconds: float
    inside: float | None = None


def archivers(tables: Tables) -> Mapping[str, Callable[[], Timed]]:
    """Return every way by its name; each moves all done jobs of the schema's table to its archive."""
    server = tables.control.server
    tables.control.run(f"USE {SCHEMA}")
    tables.control.run(_PROCEDURE)
    row, bulk = pt_archiver(server), pt_archiver(server, *BULK_MODE)
    done = "status = 'done'"
    return {
        QOPS: lambda: _timed(qops("archive", "--pause", "0s", "--batch", str(BATCH), "--quiet", url=tables.url)),
        ROW: lambda: _timed(row),
        BULK: lambda: _timed(bulk),
        PROCEDURE: lambda: _in_server(server, f"CALL archive_all({BATCH})"),
        GIANT: lambda: _in_server(server, _COPY.format(done), _DELETE.format(done)),
    }


def pt_archiver(server: Server, *mode: str) -> Program:
    """Return pt-archiver along the primary key, as it goes where no index is named: its quickest on these tables."""
    tool = find_tool("pt-archiver")
    place = f"h={server.host},P={server.port},u=root,D={SCHEMA},A=utf8mb4"
    command = [
        *tool.command,
        *("--source", f"{place},t=jobs", "--dest", f"{place},t=jobs_archive", "--where", "status = 'done'"),
        *("--limit", str(BATCH), "--commit-each", "--no-safe-auto-increment", "--no-check-charset", *mode),
    ]
    return Program(command, tool.environment)


def _timed(program: Program) -> Timed:
    started = time.monotonic()
    said = program.run()
    seconds = time.monotonic() - started
    return Timed(seconds, json.loads(said)["elapsed_seconds"] if said else None)


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
