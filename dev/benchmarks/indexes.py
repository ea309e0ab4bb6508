"""What each index of the default table costs a job's way: enqueue, claim, complete."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import os
import statistics
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dev.benchmarks.measure import Table, interleave, ratio
from dev.benchmarks.variants import GUIDE, VARIANTS, Variant, connect, create
from dev.server import private_server

if TYPE_CHECKING:
    from dev.server import Server

DURABLE = (1, 1)
RELAXED = (2, 0)
_OPTIONS = (
    "--innodb-buffer-pool-size=2G",
    "--innodb-redo-log-capacity=1G",
    "--innodb-flush-log-at-trx-commit=1",
    "--sync-binlog=1",
    "--binlog-format=ROW",
)
_FILL = """
INSERT INTO jobs (status, priority, payload)
WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %s)
SELECT %s, i MOD 10, JSON_OBJECT('job', i, 'text', REPEAT('x', 100)) FROM n"""
_ENQUEUE = "INSERT INTO jobs (priority, payload) VALUES (%s, %s)"
_PAYLOAD = '{"job": 1, "text": "' + 100 * "x" + '"}'


@dataclasses.dataclass(frozen=True)
class Slice:
    rate: float
    cpu: float
    redo: float


def _work(server: Server, variant: Variant, start: float, end: float) -> int:
    connection = connect(server, variant.name)
    cursor, worker, cycles = connection.cursor(), f"worker-{os.getpid()}", 0
    select, update = variant.claim
    time.sleep(max(0.0, start - time.monotonic()))
    while time.monotonic() < end:
        cursor.execute(select)
        ((job, _),) = cursor.fetchall()
        cursor.execute(update, (worker, job))
        connection.commit()
        cursor.execute(variant.complete, (job, worker))
        connection.commit()
        assert cursor.rowcount == 1
        cycles += 1
    connection.close()
    return cycles


def _enqueue(server: Server, variant: Variant, start: float, end: float) -> int:
    connection = connect(server, variant.name)
    cursor = connection.cursor()
    time.sleep(max(0.0, start - time.monotonic()))
    for number in itertools.count():
        if time.monotonic() >= end:
            connection.close()
            return number
        cursor.execute(_ENQUEUE, (number % 10, _PAYLOAD))
        connection.commit()
    return 0


def _cpu(server: Server) -> float:
    f = Path(f"/proc/{server.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(f[11]) + int(f[12])) / os.sysconf("SC_CLK_TCK")


def _lsn(cursor: Any) -> int:
    cursor.execute("SHOW GLOBAL STATUS LIKE 'Innodb_redo_log_current_lsn'")
    return int(cursor.fetchall()[0][1])


def _drain(cursor: Any) -> None:
    end = time.monotonic() + 1.5
    while time.monotonic() < end:
        cursor.execute("SELECT count FROM information_schema.innodb_metrics WHERE name='trx_rseg_history_len'")
        if cursor.fetchall()[0][0] < 200:
            break
        time.sleep(0.02)


def _slice(pool, server, cursor, function, variant, workers, durability, seconds) -> Slice:
    cursor.execute("SET GLOBAL innodb_flush_log_at_trx_commit = %s", durability[:1])
    cursor.execute("SET GLOBAL sync_binlog = %s", durability[1:])
    _drain(cursor)
    cpu, lsn = _cpu(server), _lsn(cursor)
    start = time.monotonic() + 0.05
    futures = [pool.submit(function, server, variant, start, start + seconds) for _ in range(workers)]
    n = sum(f.result() for f in futures)
    _drain(cursor)
    return Slice(n / seconds, (_cpu(server) - cpu) / n, (_lsn(cursor) - lsn) / n)


def run(quick: bool, only=None, rounds=5, scale=1.0) -> None:
    jobs = 20_000 if quick else 100_000
    variants = [v for v in VARIANTS if not only or v.name in only]
    settings = {
        "dur1": (_work, 1, DURABLE, 1.5 * scale),
        "dur4": (_work, 4, DURABLE, 1.5 * scale),
        "rel1": (_work, 1, RELAXED, 1.0 * scale),
        "rel4": (_work, 4, RELAXED, 1.0 * scale),
        "enq": (_enqueue, 1, DURABLE, 1.0 * scale),
        "enqrel": (_enqueue, 1, RELAXED, 0.7 * scale),
    }
    with private_server(_OPTIONS) as server, ProcessPoolExecutor(4) as pool:
        connection = connect(server)
        cursor = connection.cursor()
        cursor.execute("SET SESSION sql_log_bin = 0, cte_max_recursion_depth = 10000000")
        t = time.monotonic()
        for v in variants:
            create(cursor, v)
            for state, n in (("done", jobs // 2), ("pending", jobs)):
                cursor.execute(_FILL, (n, state))
            connection.commit()
            cursor.execute("ANALYZE TABLE jobs"); cursor.fetchall()
        print("setup", time.monotonic() - t, flush=True)
        connection.autocommit(True)
        res = {}
        t = time.monotonic()
        cases = {}
        for r in range(1):
            for v in variants:
                for key, s in settings.items():
                    cases[f"{v.name} {key}"] = functools.partial(_slice, pool, server, cursor, s[0], v, *s[1:])
        # interleave per setting
        res = {k: [] for k in cases}
        for r in range(rounds):
            for key in settings:
                got = interleave({f"{v.name} {key}": cases[f"{v.name} {key}"] for v in variants}, 1) if False else None
                import random
                order = [v.name for v in variants]
                random.Random(r * 100 + hash(key) % 97).shuffle(order)
                for name in order:
                    res[f"{name} {key}"].append(cases[f"{name} {key}"]())
        print("measured", time.monotonic() - t, flush=True)
        for key in settings:
            print("\n###", key, "  guide rate median", statistics.median(s.rate for s in res[f"guide {key}"]))
            for v in variants:
                x, g = res[f"{v.name} {key}"], res[f"guide {key}"]
                print(f"| {v.name:6} | {statistics.median(s.rate for s in x):7.0f} | {ratio([s.rate for s in x],[s.rate for s in g])} | cpu us {1e6*statistics.median(s.cpu for s in x):6.0f} x{statistics.median(s.cpu for s in x)/statistics.median(s.cpu for s in g):.2f} | redo {statistics.median(s.redo for s in x):6.0f} x{statistics.median(s.redo for s in x)/statistics.median(s.redo for s in g):.2f} |")
        connection.close()


if __name__ == "__main__":
    import sys
    run(quick="--quick" in sys.argv, rounds=int(os.environ.get("ROUNDS", 5)), scale=float(os.environ.get("SCALE", 1)), only=os.environ.get("ONLY", "").split())
