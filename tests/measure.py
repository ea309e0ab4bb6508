"""What statements cost and hold, by the server's own count."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from qops.explain import PlanLine
from tests.conftest import Ran, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    import sqlalchemy as sa

    from tests.conftest import Database

T = TypeVar("T")


def reads(connection: sa.Connection, work: Callable[[], T]) -> tuple[int, T]:
    """Return how many rows and index entries this session read for `work`, and what it returned.

    The session is in a transaction afterwards.
    """

    def count() -> int:
        rows = connection.exec_driver_sql("SHOW SESSION STATUS LIKE 'Handler\\_read\\_%%'").all()
        return sum(int(value) for _, value in rows)

    first, before = count(), count()
    result = work()
    return count() - before - (before - first), result


def plan_of(connection: sa.Connection, statement: sa.Executable, **values: object) -> list[PlanLine]:
    """Return the plan of any statement, also of one that changes rows."""
    compiled: Any = statement.compile(dialect=connection.dialect, compile_kwargs={"render_postcompile": True})  # type: ignore[attr-defined]
    bound = compiled.params | values
    arguments = tuple(bound[name] for name in compiled.positiontup)
    rows = connection.exec_driver_sql(f"EXPLAIN FORMAT=TRADITIONAL {compiled.string}", arguments).mappings()
    return [PlanLine(row["table"], row["type"], row["key"], row["Extra"] or "") for row in rows]


@dataclass(frozen=True)
class Spent:
    """What all sessions of one account did: statements of every kind, rows examined, rows and index entries read."""

    statements: int
    examined: int
    reads: int

    def __sub__(self, earlier: Spent) -> Spent:
        return Spent(self.statements - earlier.statements, self.examined - earlier.examined, self.reads - earlier.reads)


def spent_by(database: Database, user: str) -> Spent:
    """Return what the accounts named `user` have ever done, once their sessions are gone; compare two of these."""
    connected = "SELECT COALESCE(SUM(current_connections), 0) FROM performance_schema.accounts WHERE user = %s"
    wait_until(lambda: database.value(connected, [user]) == 0, what=f"the end of the sessions of {user}")
    statements, examined = database.rows(
        "SELECT CAST(SUM(count_star) AS SIGNED), CAST(SUM(sum_rows_examined) AS SIGNED) "
        "FROM performance_schema.events_statements_summary_by_account_by_event_name "
        "WHERE user = %s AND event_name LIKE 'statement/sql/%%'",
        [user],
    )[0]
    handlers = database.value(
        "SELECT CAST(SUM(variable_value) AS SIGNED) FROM performance_schema.status_by_account "
        "WHERE user = %s AND variable_name LIKE 'Handler\\_read\\_%%'",
        [user],
    )
    return Spent(int(statements or 0), int(examined or 0), int(handlers or 0))


def locked_rows(database: Database, connection_id: int) -> set[tuple[str, str, str, str]]:
    """Return the row locks of one session: table, index, mode, and the key that is locked."""
    return set(
        database.rows(
            "SELECT object_name, index_name, lock_mode, lock_data FROM performance_schema.data_locks l "
            "JOIN performance_schema.threads t ON t.thread_id = l.thread_id "
            "WHERE t.processlist_id = %s AND lock_type = 'RECORD'",
            [connection_id],
        )
    )


MEASURED = """
import json, os, subprocess, sys
pipe = subprocess.PIPE
process = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, text=True)
out, err = process.stdout.read(), process.stderr.read()
_, status, usage = os.wait4(process.pid, 0)
print(json.dumps([os.waitstatus_to_exitcode(status), out, err, usage.ru_maxrss]))
"""
"""A small process between: what the parent of a new process occupies counts as the peak of its child."""


def run_measured(*arguments: str, url: str, timeout: float = 150) -> tuple[Ran, int]:
    """Run qops as its own process; return how it ended and the most memory that it occupied, in bytes."""
    command = [sys.executable, "-S", "-c", MEASURED, sys.executable, "-m", "qops", *arguments]
    environment = os.environ | {"QOPS_URL": url}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=timeout, check=True)
    code, out, err, kibibytes = json.loads(done.stdout)
    return Ran(code, out, err), kibibytes * 1024
