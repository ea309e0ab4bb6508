"""The page that keeps what was measured: a section a topic, each with its date, replaced when it is measured anew."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from dev.benchmarks.measure import Table


def section(topic: str, date: str, tables: Sequence[Table]) -> str:
    """Return a topic's section as markdown."""
    return "\n\n".join((f"## {topic}, {date}", *(table.markdown() for table in tables)))


def put(page: Path, topic: str, text: str) -> None:
    """Write a topic's section into the page, in the place of its last one, else at the end; all else stays."""
    old = page.read_text(encoding="utf-8") if page.exists() else "# Benchmarks\n"
    first, last = f"<!-- {topic} -->", f"<!-- end of {topic} -->"
    new = f"{first}\n{text}\n{last}"
    place = re.compile(f"{re.escape(first)}.*?{re.escape(last)}", re.DOTALL)
    page.write_text(place.sub(lambda _: new, old) if place.search(old) else f"{old}\n{new}\n", encoding="utf-8")
