"""What maintenance and claims read, and in whose order, with each set of indexes on the default table.

The table is one that has seen some life: failed jobs are kept longer than done ones, a fifth of the done ones
kept the lease that a worker of another make left in them, few of the scheduled ones are due, and most of the
running ones are alive.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from dev.benchmarks.measure import Table, setting
from dev.benchmarks.tables import BOTH, CLAIM_ONLY, VARIANTS, connect, create
from dev.server import private_server

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dev.benchmarks.tables import Variant

_OPTIONS = ("--innodb-buffer-pool-size=2G", "--loose-innodb-redo-log-capacity=1G", "--skip-log-bin")
_BATCH = 1000
_DUE, _ALIVE, _EXPIRED = 100, 150, 50

_FILL = """
INSERT INTO jobs (status, priority, payload, available_at, lease_until, finished_at)
WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %s)
SELECT %s, i MOD 10, JSON_OBJECT('job', i, 'text', REPEAT('x', 100)), NOW(6) + INTERVAL %s SECOND + INTERVAL i SECOND,
       NOW(6) + INTERVAL %s SECOND + INTERVAL i SECOND, NOW(6) + INTERVAL %s SECOND + INTERVAL i SECOND
FROM n"""
_DAY = 86_400


def run(*, quick: bool) -> list[Table]:
    """Return, for each set of indexes and each statement, the rows read for the rows that came."""
    scale = 20 if quick else 1
    with private_server(_OPTIONS) as server:
        connection = connect(server)
        cursor = connection.cursor()
        cursor.execute("SET SESSION cte_max_recursion_depth = 4294967295")
        create(cursor, CLAIM_ONLY)
        _fill(cursor, scale)
        connection.commit()
        rows = []
        for variant in VARIANTS:
            for number, index in enumerate(variant.indexes):
                cursor.execute(f"ALTER TABLE jobs ADD KEY extra{number} {index}")
            cursor.execute("ANALYZE TABLE jobs")
            cursor.fetchall()
            rows.append([variant.label(), *(_read(connection, one) for one in _statements(variant).values())])
            for number in range(len(variant.indexes)):
                cursor.execute(f"ALTER TABLE jobs DROP KEY extra{number}")
        sizes = {"done": 500_000 // scale, "failed": 40_000 // scale, "scheduled": 20_000 // scale}
        notes = (setting(server), _NOTE.format(**sizes))
    return [Table("Indexes: rows read", ("indexes beside `claim_idx`", *_statements(CLAIM_ONLY)), rows, notes)]


_NOTE = (
    f"Rows read for rows got, LIMIT {_BATCH:,} (claim: 100) FOR UPDATE SKIP LOCKED, READ COMMITTED. "
    "{done:,} done jobs (a fifth with a stale lease), {failed:,} failed and older ones, {scheduled:,} scheduled "
    f"({_DUE} due), {_ALIVE + _EXPIRED} running ({_EXPIRED} expired), as many pending as scheduled."
)


def _fill(cursor: Any, scale: int) -> None:  # noqa: ANN401 - mysqlclient has no types
    """Insert the jobs; times are seconds from now, a second apart."""
    long_ago, lately, tomorrow = -30 * _DAY, -8 * _DAY, _DAY
    for count, status, available, lease, finished in (
        (40_000 // scale, "failed", long_ago, None, long_ago),
        (400_000 // scale, "done", lately, None, lately),
        (100_000 // scale, "done", lately, -2 * _DAY, -2 * _DAY),
        (20_000 // scale, "pending", lately, None, None),
        (20_000 // scale, "scheduled", tomorrow, None, None),
        (_DUE, "scheduled", lately, None, None),
        (_ALIVE, "running", lately, _DAY, None),
        (_EXPIRED, "running", lately, -_DAY, None),
    ):
        cursor.execute(_FILL, (count, status, available, lease, finished))


def _statements(variant: Variant) -> Mapping[str, str]:
    """Return what is asked of the table, in the variant's words."""
    lease, finished, available = variant.lease, variant.finished, variant.available
    unfinished = "finished_at IS NULL AND " if BOTH in variant.indexes else ""
    old = f"{finished} < NOW(6) - INTERVAL 3 DAY"
    asked = {
        "expired": f"status = 'running' AND {lease} < NOW(6) ORDER BY {lease}",
        "done, old": f"status = 'done' AND {old} ORDER BY {finished}",
        "done, old, by id as well": f"status = 'done' AND {old} ORDER BY {finished}, id",
        "done": f"status = 'done' ORDER BY {finished}",
        "failed, old": f"status = 'failed' AND {old} ORDER BY {finished}",
        "due": f"status = 'scheduled' AND {unfinished}{available} <= NOW(6) ORDER BY {available}",
    }
    batches = {
        name: f"SELECT id FROM jobs WHERE {what} LIMIT {_BATCH} FOR UPDATE SKIP LOCKED"  # noqa: S608 - all written here
        for name, what in asked.items()
    }
    return batches | {"claim": variant.claim[0].replace("LIMIT 1 ", "LIMIT 100 ")}


def _read(connection: Any, statement: str) -> str:  # noqa: ANN401 - mysqlclient has no types
    """Run a statement and return what it read, how long it took in ms, and whether it had to sort."""
    cursor = connection.cursor()
    cursor.execute(f"EXPLAIN FORMAT=TRADITIONAL {statement}")
    plan = dict(zip((column[0] for column in cursor.description), cursor.fetchall()[0], strict=True))
    cursor.execute("FLUSH STATUS")
    started = time.monotonic()
    cursor.execute(statement)
    got = len(cursor.fetchall())
    took = 1000 * (time.monotonic() - started)
    cursor.execute("SHOW SESSION STATUS LIKE 'Handler_read%'")
    read = sum(int(value) for _, value in cursor.fetchall())
    connection.rollback()
    sort = ", **sorted**" if "filesort" in (plan["Extra"] or "") else ""
    return f"{read:,} for {got:,}, {took:.1f} ms, {plan['key']}{sort}"
