"""Many failed jobs with large payloads come back in little memory, while workers claim, also in two runs."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

from qops.worker import Worker
from tests.conftest import start_process
from tests.measure import run_measured
from tests.queues import counts, fill, init

if TYPE_CHECKING:
    from tests.conftest import Database

ROWS = int(os.environ.get("QOPS_TEST_FAILED_ROWS", "20000"))
PAYLOAD_BYTES = 2_000
MOST_BYTES = 100_000_000


def test_a_spread_of_many_jobs_needs_little_memory(database: Database) -> None:
    """20,000 failed jobs of 2 KB, `--spread 30m`, SIGINT half way, again: all scheduled once, under 100 MB each time.

    Workers claim pending jobs all the while.
    """
    init(database)
    payload = f"JSON_OBJECT('n', n, 'text', REPEAT('x', {PAYLOAD_BYTES}))"
    fill(database, ROWS, status="'failed'", finished_at="NOW(6)", last_error="CONCAT('boom ', n)", payload=payload)
    fill(database, 5_000)
    options = ("requeue", "--failed", "--spread", "30m", "--batch", "500", "--format", "json")
    scheduled = "SELECT COUNT(*) >= %s FROM jobs WHERE status = 'scheduled'"
    with Worker(database.server(), database.queue(), "w") as worker:
        process = start_process(*options, url=database.url)
        while not database.value(scheduled, [ROWS // 4]):
            assert process.poll() is None
            (job,) = worker.claim_batch(1)
            worker.complete(job)
        status = Path(f"/proc/{process.pid}/status").read_text(encoding="ascii")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        assert process.returncode == 130, err
        claimed = worker.claim_batch(10)
        assert len(claimed) == 10
    first = json.loads(out)["requeued"]
    assert 0 < first < ROWS
    (peak,) = (int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM"))
    ran, second_peak = run_measured(*options, url=database.url)
    assert (ran.code, ran.json["requeued"]) == (0, ROWS - first), ran.err
    assert max(peak, second_peak) < MOST_BYTES
    # A few of the window's first seconds are due already, and the worker has promoted them.
    left = counts(database)
    assert "failed" not in left
    assert ROWS * 0.9 < left["scheduled"] <= ROWS
    assert database.value("SELECT MAX(available_at) <= NOW(6) + INTERVAL 30 MINUTE FROM jobs") == 1
    assert run_measured(*options, url=database.url)[0].json["requeued"] == 0
