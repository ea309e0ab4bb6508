"""The parts of README.md that are made from the code: python3 -m dev.readme writes them, a test compares them.

A part stands between `<!-- NAME -->` and `<!-- /NAME -->`.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from qops.cli.command import Common
from qops.cli.main import app
from qops.privileges import NEEDS, grant
from qops.settings import QueueSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

README = Path(__file__).resolve().parents[1] / "README.md"
ACCOUNT, SCHEMA = "qops@%", "app"
NO_COMMANDS = frozenset({"worker"})
"""What needs privileges without being a command of qops."""


def commands() -> dict[str, Any]:
    """Return the commands by name, as Typer hands them to its parser, in the order of `qops --help`."""
    group: Any = typer.main.get_command(app)
    return dict(group.commands)


def command_table() -> str:
    """Return a table of the commands: arguments and options of their own, and what they do."""
    lines = ["| command | what it does |", "|---|---|"]
    for name, command in commands().items():
        usage = " ".join(("qops", name, *_parameters(command)))
        lines.append(f"| `{usage.replace('|', chr(92) + '|')}` | {_summary(command)} |")
    return "\n".join(lines)


def grants() -> str:
    """Return every command's GRANTs as a script; what a command can work without is marked as optional."""
    lines = ["```sql"]
    for name, needs in NEEDS.items():
        lines.append(f"-- {'a worker' if name in NO_COMMANDS else f'qops {name}'}")
        for need in needs:
            note = f"  -- optional: {need.purpose}" if need.optional else ""
            lines.append(grant(need, QueueSettings(), ACCOUNT, SCHEMA) + note)
    return "\n".join((*lines, "```"))


PARTS: dict[str, Callable[[], str]] = {"commands": command_table, "grants": grants}


def fill(text: str) -> str:
    """Return `text` with every part made anew. Raises ValueError for a part that it has not exactly once."""
    for name, make in PARTS.items():
        pattern = re.compile(rf"(<!-- {name} -->\n).*?(\n<!-- /{name} -->)", re.DOTALL)
        made = make()
        text, number = pattern.subn(lambda match, made=made: match[1] + made + match[2], text)  # type: ignore[misc]
        if number != 1:
            raise ValueError(f"README.md has the part {name} {number} times")
    return text


def _parameters(command: Any) -> Iterator[str]:  # noqa: ANN401 - Typer does not export its parser's classes
    shared = set(Common.__dataclass_fields__)
    for parameter in command.params:
        if parameter.param_type_name == "argument":
            yield parameter.metavar
        elif parameter.name not in shared:
            names = "/".join((parameter.opts[-1], *parameter.secondary_opts))
            value = "" if parameter.is_flag else f" {parameter.metavar}"
            yield f"[{names}{value}]"


def _summary(command: Any) -> str:  # noqa: ANN401 - as above
    return " ".join(command.help.split("\n\n")[0].split())


if __name__ == "__main__":
    README.write_text(fill(README.read_text(encoding="utf-8")), encoding="utf-8")
    sys.exit(0)
