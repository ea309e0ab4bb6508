"""The command line: python3 -m dev.server start|stop|status|url."""

from __future__ import annotations

import argparse
import sys

from dev.server import servers
from dev.server.files import ServerError

_EPILOG = "Options of the server program follow a bare --, for example: start -- --max-connections=50"


def main(argv: list[str]) -> int:
    """Run the command that `argv` names and return the exit code: 1 for what failed or does not run."""
    own, _, rest = _split(argv)
    arguments = _parser().parse_args(own)
    try:
        if arguments.command == "start":
            server = servers.start(arguments.name, arguments.product, rest)
            print(server.url)
            print(f"dev server: {server.name} is {server.version}: {server.origin}", file=sys.stderr)
            return 0
        if arguments.command == "stop":
            for name in servers.names() if arguments.all else [arguments.name]:
                servers.stop(name, remove=arguments.remove)
            return 0
        if arguments.command == "url":
            running = servers.running(arguments.name)
            if running is None:
                print(f"dev server: {arguments.name} does not run", file=sys.stderr)
                return 1
            print(running.url)
            return 0
        return _status()
    except ServerError as error:
        print(f"dev server: {error}", file=sys.stderr)
        return 1


def _status() -> int:
    found = [(name, servers.running(name)) for name in servers.names() or [servers.MAIN]]
    for name, server in found:
        state = "does not run" if server is None else f"{server.url}  {server.version}  {server.origin}"
        print(f"{name}: {state}")
    return 0 if any(server for _, server in found) else 1


def _split(argv: list[str]) -> tuple[list[str], str, list[str]]:
    """Return the arguments before and after the first bare `--`."""
    if "--" not in argv:
        return argv, "", []
    place = argv.index("--")
    return argv[:place], "--", argv[place + 1 :]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python3 -m dev.server", description=__doc__, epilog=_EPILOG)
    commands = parser.add_subparsers(dest="command", required=True)
    for command, text in (
        ("start", "start a server, or find it running, and print its URL"),
        ("stop", "stop a server; its data stay"),
        ("status", "say which servers run"),
        ("url", "print the URL of a running server"),
    ):
        sub = commands.add_parser(command, help=text, description=text)
        if command != "status":
            sub.add_argument("--name", default=servers.MAIN, help="which server (default: %(default)s)")
        if command == "start":
            sub.add_argument("--product", default="mysql", choices=servers.PRODUCTS)
        if command == "stop":
            sub.add_argument("--all", action="store_true", help="all servers of this checkout")
            sub.add_argument("--remove", action="store_true", help="delete the data as well")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
