"""The same error on one line: what differs from job to job is folded away, and jobs are grouped by the rest."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from qops.text import escape

PLACEHOLDER = "#"
LONGEST = 200
"""The longest folded error, in characters."""
READ = 2_000
"""How many characters of an error are looked at; nobody needs to read more of it from the server."""
SAMPLES = 5
MOST_GROUPS = 1_000
OTHERS = "(other errors)"

_LINE = 1_000
_UNITS = r"(?:ns|us|\u00b5s|ms|s|m|h|d|[kKMGT]i?B|B)"
_MONTH = "(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*"
_CLOCK = r"\d{1,2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?"
_ZONE = r"(?:\s?(?:Z|UTC|GMT|[+-]\d{2}:?\d{2})(?!\w))?"
_HEX = "[0-9a-fA-F]"
_DATE = (
    rf"(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*,? )?(?:\d{{1,2}} {_MONTH}|{_MONTH} {{1,2}}\d{{1,2}})"
    rf"(?:,? \d{{4}})?(?:,? {_CLOCK}{_ZONE})?(?: \d{{4}})?(?!\w)"
)
_IPV6 = (
    rf"(?<!\S)::(?!\S)|(?<![\w:])\[?(?=[0-9a-fA-F:]*\d)(?:(?:{_HEX}{{1,4}}:){{7}}{_HEX}{{1,4}}|"
    rf"(?:{_HEX}{{1,4}}:){{0,6}}(?:{_HEX}{{1,4}})?::(?:{_HEX}{{1,4}}(?::{_HEX}{{1,4}}){{0,6}})?)(?:\]:\d+)?(?![\w:])"
)
# Codes that tell two errors apart: they stay.
_KEPT = r"(?P<kept>(?i:\b(?:HTTP(?:/\d(?:\.\d)?)?|status(?:[ _]code)?)[ :=]{1,3})[1-5]\d\d(?![\w.])|(?i:\berrno)\D?\d+)"
# The order matters: what holds other things in it comes first. One pass, so that no rule sees another's placeholder.
# An IPv6 address without any digit is left alone: it could be a C++ name.
_PARTS = (
    _KEPT,
    r"(?P<quoted>(?<!\w)(?P<quote>['\"`])(?=[^'\"`\s]*\d)[^'\"`\s]{1,200}(?P=quote)(?!\w))",
    r"[\w.+%-]+@[\w-]+(?:\.[\w-]+)+",  # mail
    rf"(?<![\w-]){_HEX}{{8}}-(?:{_HEX}{{4}}-){{3}}{_HEX}{{12}}(?![\w-])",  # UUID
    rf"(?<!\d)\d{{4}}[-/]\d{{2}}[-/]\d{{2}}(?:[T ]{_CLOCK}{_ZONE})?",  # 2026-11-30T22:38:44.1Z
    _DATE,  # Mon, 30 Nov 2026 22:38:44 GMT
    rf"(?<![\w:]){_CLOCK}{_ZONE}(?![\w:])",
    r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?(?![\w.]*\w)",  # IPv4, with a port
    _IPV6,
    rf"(?<![^\W_])0[xX]{_HEX}+(?![^\W_])",
    rf"(?<![^\W_])(?:(?={_HEX}*\d)(?=\d*[a-fA-F]){_HEX}{{6,}}|[a-fA-F]{{16,}})(?![^\W_])",
    # Keys of other alphabets: letters and digits mixed, more than a word with a number at its end.
    r"(?<![^\W_])(?=[A-Za-z]*\d+[A-Za-z])(?=(?:[A-Za-z]*\d){2})[A-Za-z0-9]{10,}(?![^\W_])",
    rf"(?<![\w.])[-+]?(?:\d+(?:[.,]\d+)*(?:[eE][-+]?\d+|{_UNITS})?)+(?![^\W_])",  # -1.5e3, 1m30s, 2.5MB
    r"\d+(?:[.,]\d+)*",
)
_DIFFERENT = re.compile("|".join(_PARTS))
_SEVERAL = re.compile(r"#(?:(?:[,;] ?)?#)+")
_MEANS = re.compile(r"[^\W_]")
_TRACEBACK = "Traceback (most recent call last)"


@lru_cache(maxsize=4_096)
def fold(text: str) -> str:
    """Return the line that an error shares with all errors like it, at most LONGEST characters, safe to print.

    Numbers, hex, UUIDs, times, addresses and quoted ids become a `#`, as do lists of them; HTTP status codes and errno,
    which tell errors apart, stay. Of several lines the first that says something counts; of a Python traceback,
    which begins with how it came to it, the exception. Empty for a text that says nothing.
    """
    line = " ".join(_meaningful(text[:READ])[:_LINE].split())
    line = escape(_SEVERAL.sub(PLACEHOLDER, _DIFFERENT.sub(_replace, line)))
    return line if len(line) <= LONGEST else line[: LONGEST - 1] + "…"


def _replace(match: re.Match[str]) -> str:
    if match["kept"]:
        return match["kept"]
    return f"{match['quote']}{PLACEHOLDER}{match['quote']}" if match["quoted"] else PLACEHOLDER


def _meaningful(text: str) -> str:
    """Return the first line with a letter or a digit in it; the exception of a traceback, or how far it was read."""
    lines = [line for line in text.splitlines() if _MEANS.search(line)]
    if not lines:
        return text.strip()
    if not lines[0].lstrip().startswith(_TRACEBACK):
        return lines[0]
    return next((line for line in lines[1:] if not line[:1].isspace()), lines[-1])


@dataclass(slots=True)
class Group:
    """Jobs with the same error (None: they have no text): how many, when first and last, and some of their ids.

    The times are of any one kind that can be compared; None while none is known.
    """

    error: str | None
    count: int = 0
    first_at: Any = None
    last_at: Any = None
    sample_ids: list[Any] = field(default_factory=list)

    def add(self, id_: Any, at: Any = None) -> None:  # noqa: ANN401 - whatever the columns hold
        """Count one job, which got its error at `at`."""
        self.count += 1
        if at is not None:
            self.first_at = at if self.first_at is None else min(self.first_at, at)
            self.last_at = at if self.last_at is None else max(self.last_at, at)
        if len(self.sample_ids) < SAMPLES:
            self.sample_ids.append(id_)


class Groups:
    """Jobs grouped by their folded errors, in bounded memory: beyond MOST_GROUPS errors further ones share OTHERS."""

    def __init__(self) -> None:
        self._groups: dict[str | None, Group] = {}

    def add(self, text: str | None, id_: Any, at: Any = None) -> None:  # noqa: ANN401 - whatever the columns hold
        """Count one job under its error's group."""
        error = None if text is None else fold(text)
        if error not in self._groups and len(self._groups) >= MOST_GROUPS:
            error = OTHERS
        self._groups.setdefault(error, Group(error)).add(id_, at)

    def largest_first(self) -> list[Group]:
        """Return the groups, the most frequent error first."""
        return sorted(self._groups.values(), key=lambda group: -group.count)
