"""What the demo does in the open: it types qops commands, shows what they say, and notes what went wrong."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import textwrap
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

PROGRAM = Path(sys.executable).parent / "qops"
COMMAND_SECONDS = 120
WIDTH = 100


@dataclass
class Terminal:
    """Runs the command line in `environment` and folder `home`; `problems` are the checks that failed."""

    environment: Mapping[str, str]
    home: Path
    problems: list[str] = field(default_factory=list)

    def heading(self, text: str) -> None:
        """Begin a step."""
        self._show(f"\n== {text} {'=' * max(2, WIDTH - len(text) - 4)}")

    def say(self, text: str) -> None:
        """Say in a sentence what happens and why."""
        self._show("\n" + textwrap.fill(" ".join(text.split()), WIDTH, initial_indent="# ", subsequent_indent="# "))

    def qops(self, line: str, *, expect: tuple[int, ...] = (0,)) -> str:
        """Run `qops LINE`, show it with all its output, and note an exit code that is not in `expect`."""
        self._show(f"\n$ qops {line}")
        ran = subprocess.run(
            [PROGRAM, *shlex.split(line)],
            env=self.environment,
            cwd=self.home,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=COMMAND_SECONDS,
            check=False,
        )
        self._show(ran.stdout.rstrip("\n"))
        if ran.returncode:
            self._show(f"(exit {ran.returncode})")
        wanted = " or ".join(map(str, expect))
        self.check(ran.returncode in expect, f"qops {line}: exit {ran.returncode} instead of {wanted}")
        return ran.stdout

    def sql(self, statement: str) -> None:
        """Show a statement that the demo runs itself, as a person would at the mysql prompt."""
        self._show(f"\nmysql> {statement};")

    def check(self, holds: bool, problem: str) -> None:  # noqa: FBT001 - the one thing that is checked
        """Note `problem` unless the check holds."""
        if not holds:
            self.problems.append(problem)
            self._show(f"!! {problem}")

    def _show(self, text: str) -> None:
        print(text, flush=True)


def environment(url: str, password: str | None, home: Path) -> dict[str, str]:
    """Return the environment of the demo's processes: the user's own, without any configuration of qops."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("QOPS_")}
    secret = {"QOPS_PASSWORD": password} if password else {}
    return {**kept, **secret, "QOPS_URL": url, "HOME": str(home)}
