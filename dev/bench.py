"""The benchmarks: python dev/bench.py [--quick] [TOPIC…], each topic a module of dev/benchmarks."""

from __future__ import annotations

import argparse
import importlib
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dev.benchmarks.measure import Table

TOPICS = ("indexes", "plans")


def main(argv: list[str]) -> int:
    """Measure the topics that `argv` names, or all, and print a markdown table for each."""
    parser = argparse.ArgumentParser(prog="dev/bench.py", description=__doc__)
    parser.add_argument("topics", nargs="*", metavar="TOPIC", help=f"any of: {', '.join(TOPICS)}")
    parser.add_argument("--quick", action="store_true", help="small tables and few rounds: numbers for nobody")
    arguments = parser.parse_args(argv)
    unknown = set(arguments.topics) - set(TOPICS)
    if unknown:
        parser.error(f"no topic {', '.join(sorted(unknown))}; there are: {', '.join(TOPICS)}")
    sys.path.insert(0, str(Path(__file__).parents[1]))
    for topic in arguments.topics or TOPICS:
        started = time.monotonic()
        table: Table = importlib.import_module(f"dev.benchmarks.{topic}").run(quick=arguments.quick)
        print(table.markdown(), end="\n\n", flush=True)
        print(f"{topic}: {time.monotonic() - started:.0f} s", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
