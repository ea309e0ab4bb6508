"""The tests of concurrency, crashes and size at full length, over and over: python -m dev.soak [--minutes N]."""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
TESTS = (
    "tests/test_concurrency.py",
    "tests/test_crash.py",
    "tests/test_server_crash.py",
    "tests/test_memory.py",
    "tests/test_properties.py",
    "tests/test_examined.py",
)
ONE_TURN = {
    "QOPS_TEST_SECONDS": "60",  # of the fleet
    "QOPS_TEST_ROUNDS": "50",  # of strikes at qops
    "QOPS_TEST_KILLS": "100",  # of the server, of qops and of its connections, beside working workers
    "QOPS_TEST_EXAMPLES": "200",  # of random walks of workers and operators
    "QOPS_TEST_LARGE_ROWS": "1000",  # of 700 KB: 3 GB on disk for a while
    "QOPS_TEST_PENDING": "1000000",  # jobs before the done ones, and as many after them
}
TIMEOUT_SECONDS = 1800  # of one test


def main(argv: list[str]) -> int:
    """Take turns until the time is over or one fails; return its exit code, having said how to repeat it."""
    parser = argparse.ArgumentParser(prog="dev.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30, help="how long to go on (at least one turn)")
    parser.add_argument("--seed", type=int, help="the seed of the first turn")
    arguments = parser.parse_args(argv)
    until = time.monotonic() + 60 * arguments.minutes
    seed = arguments.seed
    while True:
        seed = random.randrange(10**6) if seed is None else seed  # noqa: S311 - no secret
        print(f"turn with --seed {seed}", flush=True)
        environment = os.environ | ONE_TURN | {"QOPS_TEST_SEED": str(seed)}
        command = [sys.executable, "-m", "pytest", "-q", "-s", "--timeout", str(TIMEOUT_SECONDS), *TESTS]
        code = subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode
        if code or time.monotonic() > until:
            return code
        seed = None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
