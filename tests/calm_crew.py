"""People who do nothing wrong on one queue, each a process of its own, at READ COMMITTED as their server has it.

`python -m tests.calm_crew URL FOLDER` runs them until FOLDER/stop is there. Each leaves one byte in a file of its name
for every round of work, so that one can see that it is at work.
"""

from __future__ import annotations

import itertools
import multiprocessing
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from qops.worker import open_worker
from tests.conftest import run_here
from tests.fleet import connect

CLAIM = (
    "SELECT id, payload FROM jobs WHERE status = 'pending' ORDER BY priority DESC, id LIMIT 1 FOR UPDATE SKIP LOCKED"
)
LINES = (("archive", "--pause", "0s"), ("requeue", "--expired"), ("promote",), ("health", "--fail-on", "never"))
REPEATABLE = "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ"
LATER = "INSERT INTO jobs (status, payload, available_at) VALUES ('scheduled', '{}', NOW(6) + INTERVAL 1 SECOND)"


def work(url: str, name: str) -> Iterator[object]:
    """Work with the Worker class: complete, archive, prolong, try again, give up, and find nothing to do."""
    with open_worker(name, url=url, lease_seconds=60) as worker:
        for turn in itertools.count():
            for job in worker.claim_batch(1 + turn % 3):
                match job.id % 11:
                    case 0:
                        worker.fail(job, "again", backoff_seconds=0.2)
                    case 1:
                        worker.fail(job, "never", retry=False)
                    case 2:
                        worker.complete(worker.heartbeat(job))
                    case 3:
                        worker.complete(job, archive=True)
                    case _:
                        worker.complete(job)
            yield turn


def work_by_hand(url: str, name: str) -> Iterator[object]:
    """Claim and complete in transactions as they are typed; in a session in autocommit or in one without."""
    with closing(connect(url, autocommit=name.endswith("1"))) as session, closing(session.cursor()) as cursor:
        for turn in itertools.count():
            cursor.execute("START TRANSACTION")
            cursor.execute(CLAIM)
            rows = cursor.fetchall()
            for id_, _ in rows:
                cursor.execute(
                    "UPDATE jobs SET status = 'running', claimed_by = %s, attempts = attempts + 1, "
                    "lease_until = NOW(6) + INTERVAL 5 MINUTE WHERE id = %s",
                    (name, id_),
                )
            cursor.execute("COMMIT")
            for id_, _ in rows:
                cursor.execute(
                    "UPDATE jobs SET status = 'done', lease_until = NULL, finished_at = NOW(6) "
                    "WHERE id = %s AND claimed_by = %s AND status = 'running' AND lease_until >= NOW(6)",
                    (id_, name),
                )
            session.commit()
            yield turn


def enqueue(url: str, name: str) -> Iterator[object]:
    """Add jobs in autocommit, some for later."""
    with closing(connect(url, autocommit=True)) as session, closing(session.cursor()) as cursor:
        for turn in itertools.count():
            cursor.execute("INSERT INTO jobs (priority, payload) VALUES (%s, '{\"a\": 1}')", (turn % 5,))
            if not turn % 10:
                cursor.execute(LATER)
            yield turn


def apply(url: str, name: str) -> Iterator[object]:
    """Enqueue within transactions over other tables of the schema, lock rows of those, read reports on jobs."""
    with closing(connect(url)) as session, closing(session.cursor()) as cursor:
        for turn in itertools.count():
            cursor.execute("SELECT id FROM jobs_extra WHERE id = %s FOR UPDATE", (turn % 10,))
            cursor.execute("UPDATE jobs_extra SET v = v + 1 WHERE id = %s", (turn % 10,))
            cursor.execute("INSERT INTO jobs (payload) VALUES ('{}')")
            session.commit()
            cursor.execute("SELECT status, COUNT(*), MIN(created_at), MAX(lease_until) FROM jobs GROUP BY status")
            cursor.fetchall()
            cursor.execute("SELECT e.id FROM jobs_extra AS e LEFT JOIN jobs AS j ON j.id = e.id")
            cursor.fetchall()
            session.commit()
            yield turn


def lock_others(url: str, name: str) -> Iterator[object]:
    """Lock rows of another table in autocommit, which is nobody's business here, in a session at another zone."""
    with closing(connect(url, autocommit=True)) as session, closing(session.cursor()) as cursor:
        cursor.execute("SET SESSION time_zone = '-05:00'")
        for turn in itertools.count():
            cursor.execute("SELECT id FROM jobs_extra ORDER BY id FOR UPDATE")
            cursor.fetchall()
            yield turn


def back_up(url: str, name: str) -> Iterator[object]:
    """Read other tables in one snapshot at REPEATABLE READ, one of the same name in another schema among them."""
    other = f"`{url.rpartition('/')[2]}_b`.`jobs`"
    with closing(connect(url)) as session, closing(session.cursor()) as cursor:
        cursor.execute(REPEATABLE)
        for turn in itertools.count():
            cursor.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT")
            for table in ("`jobs_extra`", other):
                cursor.execute(f"SELECT /*!40001 SQL_NO_CACHE */ * FROM {table}")
                cursor.fetchall()
            cursor.execute("COMMIT")
            yield turn


def maintain(url: str, name: str) -> Iterator[object]:
    """Run the commands of qops one after the other."""
    for turn, line in enumerate(itertools.cycle(LINES)):
        ran = run_here(*line, "--url", url, "--quiet")
        assert ran.code == 0, ran.err
        yield turn


Member = Callable[[str, str], Iterator[object]]
CREW: tuple[tuple[str, Member, int, float], ...] = (
    ("worker", work, 3, 0.01),
    ("hand", work_by_hand, 2, 0.01),
    ("producer", enqueue, 1, 0.01),
    ("application", apply, 1, 0.02),
    ("locker", lock_others, 1, 0.05),
    ("backup", back_up, 1, 0.05),
    ("keeper", maintain, 1, 0.1),
)
NAMES = tuple(f"{name}-{n}" for name, _, number, _ in CREW for n in range(number))


def member(name: str, role: Member, rest: float, url: str, folder: Path) -> None:
    """Do one's work, round by round, until the end is called."""
    with (folder / name).open("ab", buffering=0) as rounds:
        for _ in role(url, name):
            rounds.write(b".")
            if (folder / "stop").exists():
                return
            time.sleep(rest)


def main(url: str, folder: str) -> int:
    """Run the crew until it is called off; return 0 if all of it lived to the end."""
    fork: Any = multiprocessing.get_context("fork")
    crew = [
        fork.Process(target=member, args=(f"{name}-{n}", role, rest, url, Path(folder)))
        for name, role, number, rest in CREW
        for n in range(number)
    ]
    for process in crew:
        process.start()
    for process in crew:
        process.join()
    return int(any(process.exitcode for process in crew))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
