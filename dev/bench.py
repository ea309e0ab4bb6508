"""The benchmarks: python -m dev.bench [--quick] [--write PAGE] [TOPIC…], each topic a module of dev/benchmarks."""

from __future__ import annotations

import argparse
import datetime as dt
import importlib
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from dev.benchmarks import page

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dev.benchmarks.measure import Table

TOPICS = ("archive", "doctor", "feed", "indexes", "plans", "requeue")


def main(argv: list[str]) -> int:
    """Measure the topics that `argv` names, or all, and print their markdown tables."""
    parser = argparse.ArgumentParser(prog="dev.bench", description=__doc__)
    parser.add_argument("topics", nargs="*", metavar="TOPIC", help=f"any of: {', '.join(TOPICS)}")
    parser.add_argument("--quick", action="store_true", help="small tables and few rounds: numbers for nobody")
    parser.add_argument("--write", type=Path, metavar="PAGE", help="put each topic's tables into this file as well")
    arguments = parser.parse_args(argv)
    unknown = set(arguments.topics) - set(TOPICS)
    if unknown:
        parser.error(f"no topic {', '.join(sorted(unknown))}; there are: {', '.join(TOPICS)}")
    if arguments.quick and arguments.write:
        parser.error("numbers of --quick are for nobody, so they are not written")
    for topic in arguments.topics or TOPICS:
        started = time.monotonic()
        today = dt.datetime.now(tz=dt.UTC).date().isoformat()
        tables: Sequence[Table] = importlib.import_module(f"dev.benchmarks.{topic}").run(quick=arguments.quick)
        text = page.section(topic, today, tables)
        print(text, end="\n\n", flush=True)
        if arguments.write:
            page.put(arguments.write, topic, text)
        print(f"{topic}: {time.monotonic() - started:.0f} s", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
