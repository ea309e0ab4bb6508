"""What happened, said once, to stderr; stdout belongs to results.

Losing stderr (a pager that was quit, a closed pipe) never stops work: a line that cannot be written is dropped.
"""

from __future__ import annotations

import contextlib
import sys
from dataclasses import dataclass

from qops.text import escape


@dataclass(frozen=True)
class Events:
    """Where a command reports to. `quiet` leaves only errors; `verbose` adds details."""

    quiet: bool = False
    verbose: bool = False
    progress_wanted: bool = False

    def progress(self, message: str) -> None:
        """Say how far the work has come; shown where progress was asked for."""
        if self.progress_wanted and not self.quiet:
            self._write(message)

    def inform(self, message: str) -> None:
        """Say something that a person at the terminal wants to know."""
        if not self.quiet:
            self._write(message)

    def warn(self, message: str) -> None:
        """Say something that may need attention but does not change the result."""
        if not self.quiet:
            self._write(f"warning: {message}")

    def detail(self, message: str) -> None:
        """Say something for whoever asked with --verbose."""
        if self.verbose:
            self._write(message)

    def error(self, message: str) -> None:
        """Say why the command failed; never silenced."""
        self._write(f"error: {message}")

    def _write(self, message: str) -> None:
        say(f"qops: {message}")


def say(text: str) -> None:
    """Write lines to stderr, control characters spelled out."""
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.write("\n".join(map(escape, text.split("\n"))) + "\n")
        sys.stderr.flush()
