"""What doctor costs on a small table and on a huge one of which somebody holds half a million row locks."""

from __future__ import annotations

import statistics
import time
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING

from dev.benchmarks.archive_case import qops
from dev.benchmarks.control import SERVER_OPTIONS, Control
from dev.benchmarks.measure import Table, Target, interleave, ratio, setting, targets
from dev.benchmarks.tables import connect
from dev.server import private_server

if TYPE_CHECKING:
    from dev.server import Server

ACCOUNT = "doctor"
WANTED_SECONDS = 5
_FILL = """
INSERT INTO jobs (status, priority, payload, attempts, available_at, lease_until, finished_at)
WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %s)
SELECT ELT(1 + i %% 8, 'pending', 'running', 'scheduled', 'failed', 'done', 'done', 'done', 'done'), i %% 5,
       JSON_OBJECT('job', i, 'text', REPEAT('x', 100)), i %% 4, NOW(6) - INTERVAL 1 HOUR - INTERVAL i SECOND,
       NOW(6) - INTERVAL 1 HOUR - INTERVAL i SECOND, NOW(6) - INTERVAL 1 HOUR - INTERVAL i SECOND
  FROM n"""
_EXAMINED = """
SELECT COALESCE(SUM(sum_rows_examined), 0) FROM performance_schema.events_statements_summary_by_account_by_event_name
 WHERE user = 'doctor'"""


def run(*, quick: bool) -> list[Table]:
    """Return the targets with what was reached, then the numbers."""
    small, large, locks = (1_000, 50_000, 20_000) if quick else (10_000, 5_000_000, 500_000)
    with private_server((*SERVER_OPTIONS, "--transaction-isolation=READ-COMMITTED", "--skip-log-bin")) as server:
        control = Control(server)
        control.run(f"CREATE USER {ACCOUNT}@'%'")
        control.run(f"GRANT ALL ON *.* TO {ACCOUNT}@'%'")
        queues = {f"{rows:,} jobs": f"of_{rows}" for rows in (small, large)}
        for schema, rows in zip(queues.values(), (small, large), strict=True):
            _make(server, control, schema, rows)
        with closing(connect(server, f"of_{large}")) as holder:
            # SELECT … FOR UPDATE would send them all; a shared scan of the first ones locks as many rows.
            holder.cursor().execute(
                "SELECT COUNT(*) FROM (SELECT id FROM jobs ORDER BY id LIMIT %s FOR UPDATE) x", [locks]
            )
            held = control.number("SELECT COALESCE(MAX(trx_rows_locked), 0) FROM information_schema.innodb_trx")
            if held < locks or control.number(f"SELECT COUNT(*) FROM of_{large}.jobs") != large:  # noqa: S608 - as above
                raise RuntimeError(f"{held} rows are locked")
            found = interleave({name: partial(_examine, control, server, schema) for name, schema in queues.items()}, 3)
        notes = (
            setting(server),
            (
                f"Whole processes of `qops doctor`, beside a transaction that holds {locks:,} row locks on the larger "
                "table; half of the jobs are done, the others overdue in every way that is looked for."
            ),
        )
    names = list(queues)
    seconds = {name: [one[0] for one in found[name]] for name in names}
    read = {name: [float(one[1]) for one in found[name]] for name in names}
    reached = [Target(f"s on {names[1]}", WANTED_SECONDS, seconds[names[1]], most=True)]
    rows_ = [
        [
            name,
            f"{statistics.median(seconds[name]):.2f} s",
            ratio(seconds[name], seconds[names[0]]),
            f"{statistics.median(read[name]):,.0f}",
            ratio(read[name], read[names[0]]),
        ]
        for name in names
    ]
    columns = ("", "seconds", f"x {names[0]}", "rows examined", f"x {names[0]}")
    return [targets("Doctor: targets", reached, *notes), Table("Doctor by the size of the table", columns, rows_, ())]


def _make(server: Server, control: Control, schema: str, rows: int) -> None:
    """Have qops create the tables of a schema, and fill the queue."""
    control.run(f"CREATE DATABASE {schema}")
    control.run(f"USE {schema}")
    qops("init", url=f"{server.url}{schema}").run()
    control.cursor.execute(_FILL, [rows])
    control.run("ANALYZE TABLE jobs")
    control.settle()


def _examine(control: Control, server: Server, schema: str) -> tuple[float, int]:
    """Run doctor once; return the seconds of its process, and the rows that its statements examined."""
    before, started = control.number(_EXAMINED), time.monotonic()
    qops("doctor", "--fail-on", "never", url=f"mysql://{ACCOUNT}@{server.host}:{server.port}/{schema}").run()
    return time.monotonic() - started, control.number(_EXAMINED) - before
