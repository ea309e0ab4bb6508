"""The demo's workers: real processes around the Worker class, each with a connection of its own.

`python3 -m dev.demo.crew NAME` is one worker; SIGTERM ends it when its jobs in hand are finished.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from dev.server.files import ROOT
from qops.clock import stop_on_signals
from qops.worker import Job, open_worker, run

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

LEASE_SECONDS = 5.0
RETRY_SECONDS = 2.0
WORK_SECONDS = 0.002
BATCH = 10
STOP_SECONDS = 30.0


def work(job: Job) -> None:
    """Do what the payload says: nothing for a moment, or fail while its first attempts last."""
    time.sleep(WORK_SECONDS)
    if (job.attempts or 0) <= job.json()["fails"]:
        raise RuntimeError("the mail server did not answer")


def main(name: str) -> None:
    """Be one worker until a signal comes."""
    worker = open_worker(name, lease_seconds=LEASE_SECONDS, backoff=lambda _tries: RETRY_SECONDS, promote=False)
    with stop_on_signals() as stop, worker:
        run(worker, work, stop, batch=BATCH, idle_seconds=0.2)


@dataclass
class Crew:
    """Worker processes by name. Leaving the `with` block ends those that still run, whatever happened."""

    environment: Mapping[str, str]
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.processes.values():
            if process.poll() is None:
                process.kill()
            process.wait()

    def start(self, *names: str) -> None:
        """Start a worker for each name."""
        for name in names:
            command = [sys.executable, "-m", "dev.demo.crew", name]
            self.processes[name] = subprocess.Popen(command, cwd=ROOT, env=dict(self.environment))

    def stop(self) -> list[int]:
        """Ask all to stop with SIGTERM, wait until they have, and return their exit codes."""
        for process in self.processes.values():
            process.send_signal(signal.SIGTERM)
        codes = [process.wait(STOP_SECONDS) for process in self.processes.values()]
        self.processes.clear()
        return codes

    def kill_when(self, name: str, holds: Callable[[], bool], *, seconds: float) -> bool:
        """End the worker with SIGKILL at a moment at which `holds()`; return whether there was one.

        It is stopped for each look, so that it still holds then what was seen.
        """
        process = self.processes[name]
        deadline = time.monotonic() + seconds
        while process.poll() is None and time.monotonic() < deadline:
            os.kill(process.pid, signal.SIGSTOP)
            if holds():
                process.kill()
                process.wait()
                del self.processes[name]
                return True
            os.kill(process.pid, signal.SIGCONT)
            time.sleep(0.01)
        return False


if __name__ == "__main__":
    main(sys.argv[1])
