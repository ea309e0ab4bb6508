"""A fleet on one queue, each member a process of its own: producers, workers, workers by hand, a reader of snapshots.

`python -m tests.fleet URL SECONDS SEED FOLDER` runs it and leaves one line of JSON in FOLDER for every thing that
a member believes has happened. The audit (`tests/audit.py`) knows what did.
"""

from __future__ import annotations

import json
import multiprocessing
import random
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import MySQLdb

from qops.errors import QopsError
from qops.worker import Job, LeaseLost, Worker, open_worker

WORKERS, BY_HAND, PRODUCERS = 8, 2, 2
LEASE_SECONDS = 1.0
HAND_LEASE = "NOW(6) + INTERVAL 1 SECOND"


class Diary:
    """What one member believes, line by line."""

    def __init__(self, folder: Path, name: str) -> None:
        self.name = name
        self._file = (folder / f"{name}.jsonl").open("w", encoding="utf-8")

    def note(self, event: str, **details: Any) -> None:
        """Write down that something happened."""
        self._file.write(json.dumps({"event": event, "by": self.name, **details}) + "\n")
        self._file.flush()


Member = Callable[[str, float, random.Random, Diary], None]


def connect(url: str, **options: Any) -> Any:
    """Open a session as an application would: the server's own isolation level, autocommit off."""
    address = urlsplit(url)
    return MySQLdb.connect(
        host=address.hostname or "127.0.0.1",
        port=address.port or 3306,
        user=address.username or "root",
        password=address.password or "",
        database=address.path.lstrip("/"),
        charset="utf8mb4",
        **options,
    )


def work(url: str, until: float, chance: random.Random, diary: Diary) -> None:
    """Claim with the Worker class; complete most jobs, fail some, abandon a few, and be too late for a few."""
    worker = open_worker(
        diary.name, url=url, lease_seconds=LEASE_SECONDS, on_retry=lambda code: diary.note("errno", code=code)
    )
    with worker:
        while time.monotonic() < until:
            jobs = worker.claim_batch(chance.choice((1, 1, 1, 4)))
            for job in jobs:
                diary.note("claim", id=job.id, attempts=job.attempts)
            for job in jobs:
                settle(worker, job, chance, diary)
            if not jobs:
                time.sleep(chance.uniform(0, 0.02))


def settle(worker: Worker, job: Job, chance: random.Random, diary: Diary) -> None:
    """Do what happens to jobs in the field; write down what the protocol said."""
    kind = chance.random()
    if kind < 0.02:
        return  # the worker dies with it
    try:
        if kind < 0.04:
            time.sleep(LEASE_SECONDS * 1.1)
        elif kind < 0.10:
            job = worker.heartbeat(job)
        else:
            time.sleep(chance.uniform(0, 0.004))
        if kind > 0.85:
            state = worker.fail(job, f"error {kind}", backoff_seconds=chance.uniform(0, 0.3), retry=kind < 0.97)
            diary.note("fail", id=job.id, state=state)
        else:
            worker.complete(job, archive=kind > 0.75)
            diary.note("complete", id=job.id)
    except LeaseLost:
        diary.note("lost", id=job.id)
    except QopsError as error:
        diary.note("error", id=job.id, text=str(error), kind=error.kind, unsure=int(error.in_commit))


def work_by_hand(url: str, until: float, chance: random.Random, diary: Diary) -> None:
    """Claim as the guide's workers type it, at REPEATABLE READ; complete where the lease still holds."""
    with closing(connect(url)) as connection, closing(connection.cursor()) as cursor:
        while time.monotonic() < until:
            try:
                cursor.execute("START TRANSACTION")
                cursor.execute(
                    "SELECT id, payload FROM jobs WHERE status = 'pending' ORDER BY priority DESC, id LIMIT 1 "
                    "FOR UPDATE SKIP LOCKED"
                )
                rows = cursor.fetchall()
                if not rows:
                    connection.rollback()
                    time.sleep(chance.uniform(0, 0.02))
                    continue
                id_ = rows[0][0]
                cursor.execute(
                    "UPDATE jobs SET status = 'running', claimed_by = %s, attempts = attempts + 1, "
                    f"lease_until = {HAND_LEASE} WHERE id = %s",
                    (diary.name, id_),
                )
                connection.commit()
                diary.note("claim", id=id_)
                time.sleep(chance.uniform(0, 0.004))
                changed = cursor.execute(
                    "UPDATE jobs SET status = 'done', lease_until = NULL, finished_at = NOW(6) WHERE id = %s "
                    "AND status = 'running' AND claimed_by = %s AND lease_until >= NOW(6)",
                    (id_, diary.name),
                )
                connection.commit()
                diary.note("complete" if changed else "lost", id=id_)
            except MySQLdb.OperationalError as error:
                connection.rollback()
                diary.note("errno", code=error.args[0])


def produce(url: str, until: float, chance: random.Random, diary: Diary) -> None:
    """Insert jobs all the time, some of them for later, one or a few in a transaction."""
    with closing(connect(url)) as connection, closing(connection.cursor()) as cursor:
        while time.monotonic() < until:
            for _ in range(chance.choice((1, 1, 5))):
                later = chance.random() < 0.2
                cursor.execute(
                    "INSERT INTO jobs (status, priority, payload, max_attempts, available_at) "
                    "VALUES (%s, %s, %s, %s, NOW(6) + INTERVAL %s MICROSECOND)",
                    (
                        "scheduled" if later else "pending",
                        chance.randrange(5),
                        json.dumps({"text": "ä" * chance.randrange(200), "number": chance.random()}),
                        chance.choice((1, 2, 5, 5)),
                        chance.randrange(500_000) if later else 0,
                    ),
                )
            connection.commit()
            time.sleep(chance.uniform(0, 0.02))


def read_snapshots(url: str, until: float, chance: random.Random, diary: Diary) -> None:
    """Hold a REPEATABLE READ snapshot for a while, over and over, and see that it does not change."""
    with closing(connect(url)) as connection, closing(connection.cursor()) as cursor:
        while time.monotonic() < until:
            cursor.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT")
            seen = set()
            for _ in range(2):
                cursor.execute("SELECT (SELECT COUNT(*) FROM jobs), (SELECT COUNT(*) FROM jobs_archive)")
                seen.add(cursor.fetchone())
                time.sleep(chance.uniform(0, min(1.0, max(0.0, until - time.monotonic()))))
            connection.commit()
            diary.note("snapshot", steady=len(seen) == 1)


CREW: tuple[tuple[str, Member, int], ...] = (
    ("worker", work, WORKERS),
    ("hand", work_by_hand, BY_HAND),
    ("producer", produce, PRODUCERS),
    ("snapshot", read_snapshots, 1),
)


def member(name: str, role: Member, url: str, until: float, seed: int, folder: Path) -> None:
    """Be one member, with a diary, until the time has come."""
    diary = Diary(folder, name)
    try:
        role(url, until, random.Random(f"{seed} {name}"), diary)  # noqa: S311 - no secret
    except Exception as error:
        diary.note("crash", text=f"{type(error).__name__}: {error}")
        raise


def main(url: str, seconds: str, seed: str, folder: str) -> int:
    """Run the crew for some seconds; return 0 if all of it lived to the end."""
    fork = multiprocessing.get_context("fork")
    until = time.monotonic() + float(seconds)
    crew = [
        fork.Process(target=member, args=(f"{name}-{n}", role, url, until, int(seed), Path(folder)))
        for name, role, number in CREW
        for n in range(number)
    ]
    for process in crew:
        process.start()
    for process in crew:
        process.join()
    return int(any(process.exitcode for process in crew))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
