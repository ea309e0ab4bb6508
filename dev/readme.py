"""The parts of README.md that are made from the code: .venv/bin/python -m dev.readme writes them, a test compares them.

A part stands between `<!-- NAME -->` and `<!-- /NAME -->`.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from qops.cli.command import Common
from qops.cli.main import app
from qops.privileges import NEEDS, grant
from qops.queue_settings import QueueSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

README = Path(__file__).resolve().parents[1] / "README.md"
ACCOUNT, SCHEMA = "qops@%", "app"
OPTIONAL = "  -- optional: "
NO_COMMANDS = frozenset({"worker"})
"""What needs privileges without being a command of qops."""


def commands() -> dict[str, Any]:
    """Return the commands by name, as Typer hands them to its parser, in the order of `qops --help`."""
    group: Any = typer.main.get_command(app)
    return dict(group.commands)


def command_table() -> str:
    """Return a table of the commands: what they do, and the arguments and options of their own."""
    lines = ["| command | what it does | arguments and options |", "|---|---|---|"]
    for name, command in commands().items():
        own = " ".join(f"`{one}`" for one in _parameters(command)).replace("|", "\\|")
        lines.append(f"| `qops {name}` | {_summary(command)} | {own} |")
    return "\n".join(lines)


def grants() -> str:
    """Return every command's GRANTs as a script."""
    lines = ["```sql"]
    for name in NEEDS:
        if name in commands() or name in NO_COMMANDS:
            lines.append(f"-- {'a worker' if name in NO_COMMANDS else f'qops {name}'}")
            lines += grants_of(name, ACCOUNT, SCHEMA)
    return "\n".join((*lines, "```"))


def grants_of(name: str, account: str, schema: str) -> list[str]:
    """Return one command's GRANTs; what it can work without is marked as optional."""
    statements = [(need, grant(need, QueueSettings(), account, schema)) for need in NEEDS[name]]
    return [f"{sql}{OPTIONAL}{need.purpose}" if need.optional else sql for need, sql in statements]


PARTS: dict[str, Callable[[], str]] = {"commands": command_table, "grants": grants}


def fill(text: str) -> str:
    """Return `text` with every part made anew. Raises ValueError for a part that it has not exactly once."""
    for name, make in PARTS.items():
        begin, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
        if (text.count(begin), text.count(end)) != (1, 1):
            raise ValueError(f"README.md needs the part {name} exactly once, between {begin.strip()} and {end}")
        head, _, rest = text.partition(begin)
        text = f"{head}{begin}{make()}\n{end}{rest.partition(end)[2]}"
    return text


def _parameters(command: Any) -> Iterator[str]:  # noqa: ANN401 - Typer does not export its parser's classes
    shared = set(Common.__dataclass_fields__)
    for parameter in command.params:
        if parameter.param_type_name == "argument":
            yield parameter.metavar
        elif parameter.name not in shared:
            names = "/".join((parameter.opts[-1], *parameter.secondary_opts))
            value = "" if parameter.is_flag else f" {parameter.metavar}"
            yield f"{names}{value}"


def _summary(command: Any) -> str:  # noqa: ANN401 - as above
    return " ".join(command.help.split("\n\n")[0].split())


if __name__ == "__main__":
    README.write_text(fill(README.read_text(encoding="utf-8")), encoding="utf-8")
    sys.exit(0)
