"""The demo: qops at work on a throwaway server, from an empty schema to a full archive. `make demo` runs it."""

from __future__ import annotations

import sys
import time

import dev.server
from dev.demo import database
from dev.demo.crew import Crew
from dev.demo.story import Story
from dev.demo.terminal import Terminal, environment
from dev.server.files import STATE, lock
from qops.errors import QopsError

EPILOGUE = """\

The schema stays until the next demo. To look around:

  export PATH="$PWD/.venv/bin:$PATH"
  export QOPS_URL={url}
  qops health
  qops doctor

make stop stops the server, make clean deletes it."""


def main() -> int:
    """Run the demo and return 0 if everything was as it should be, else 1."""
    try:
        server = dev.server.start()
        started = time.monotonic()
        problems = show(server)
    except (dev.server.ServerError, QopsError) as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    verdict = "NOT as it should be:" if problems else "all as it should be"
    print(f"\ndemo: {time.monotonic() - started:.0f} s, {verdict}", *problems, sep="\n  ", flush=True)
    return 1 if problems else 0


def show(server: dev.server.Server) -> list[str]:
    """Tell the story on a fresh schema of `server`, say how to go on, and return what was wrong."""
    print(f"A throwaway MySQL server, {server.version} ({server.origin}), and the schema {database.SCHEMA} on it.")
    home = STATE / "demo"
    home.mkdir(parents=True, exist_ok=True)
    # One demo at a time: they share the schema.
    with lock("demo"), database.fresh(server) as schema:
        print(f"\n$ export QOPS_URL={schema.url}", flush=True)
        surroundings = environment(schema.url, schema.password, home)
        terminal = Terminal(surroundings, home)
        with Crew(surroundings) as crew:
            Story(terminal, schema, crew).tell()
    print(EPILOGUE.format(url=schema.url))
    if schema.password:
        print("QOPS_PASSWORD is the password of QOPS_TEST_URL.")
    return terminal.problems


if __name__ == "__main__":
    sys.exit(main())
