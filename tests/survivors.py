"""A crew that works through the deaths of its server: `python -m tests.survivors URL SEED FOLDER`, to the end of stdin.

Workers and a producer, each a thread with a session of its own, in one process that starts quickly. Whoever finds
the server away tries again a little later. The diaries in FOLDER say, for every answer that was not heard, whether
the change may have happened (`unsure`).
"""

from __future__ import annotations

import os
import random
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from qops.errors import Unavailable
from qops.events import Events
from qops.worker import Worker, open_worker
from tests.fleet import LEASE_SECONDS, Diary, settle

if TYPE_CHECKING:
    from collections.abc import Callable

    Turn = Callable[[Worker, random.Random, Diary], None]

WORKERS = 4
AGAIN_SECONDS = 0.05
CLAIMED = 4


def work(worker: Worker, chance: random.Random, diary: Diary) -> None:
    """Claim a few jobs and do with them what happens in the field."""
    number = chance.choice((1, 1, CLAIMED))
    try:
        jobs = worker.claim_batch(number)
    except Unavailable as error:
        diary.note("away", unsure=number if error.in_commit else 0)
        raise
    for job in jobs:
        diary.note("claim", id=job.id, attempts=job.attempts)
    for job in jobs:
        settle(worker, job, chance, diary)
    time.sleep(chance.uniform(0, 0.01 if jobs else 0.05))


def produce(worker: Worker, chance: random.Random, diary: Diary) -> None:
    """Add a job, sometimes one for later."""
    later = chance.uniform(0, 0.5) if chance.random() < 0.2 else 0
    id_ = worker.enqueue({"number": chance.random()}, priority=chance.randrange(5), delay_seconds=later)
    diary.note("enqueue", id=id_)
    time.sleep(chance.uniform(0, 0.02))


def member(name: str, turn: Turn, url: str, seed: int, folder: Path, over: threading.Event) -> None:
    """Take turns until all is over, on a new session whenever the server was away."""
    diary, chance = Diary(folder, name), random.Random(f"{seed} {name}")  # noqa: S311 - no secret
    try:
        worker = open_worker(
            name,
            url=url,
            lease_seconds=LEASE_SECONDS,
            events=Events(quiet=True),
            on_retry=lambda code: diary.note("errno", code=code),
        )
        with worker:
            while not over.is_set():
                try:
                    turn(worker, chance, diary)
                except Unavailable:
                    over.wait(AGAIN_SECONDS)
    except BaseException as error:
        diary.note("crash", text=f"{type(error).__name__}: {error}")
        raise


def main(url: str, seed: str, folder: str) -> int:
    """Run the crew until stdin ends; a crew whose tester died ends with it."""
    over = threading.Event()
    crew: list[tuple[str, Turn]] = [*((f"worker-{n}", work) for n in range(WORKERS)), ("producer", produce)]
    threads = [
        threading.Thread(target=member, args=(name, turn, url, int(seed), Path(folder), over)) for name, turn in crew
    ]
    for thread in threads:
        thread.start()
    while os.read(0, 1):
        pass
    over.set()
    for thread in threads:
        thread.join()
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
