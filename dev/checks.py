"""The pages about doctor's checks, made from the checks themselves: .venv/bin/python -m dev.checks writes docs/checks.

A test compares them with what is there.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from qops.doctor.audit import CHECKS, ROOT
from qops.doctor.limits import LIMITS, Limits

if TYPE_CHECKING:
    from qops.doctor.model import Check

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "checks"
INDEX = "README.md"
_INTRODUCTION = """# The checks of `qops doctor`

A page for each check, with what `qops doctor --explain ID` says. A check that was not able to see what it is about is
`unknown`, and the GRANT that helps is printed; one that means nothing because another one failed is `skipped`.
`qops doctor --only ID` runs one alone, `--skip ID` or `skip` in `[doctor]` of qops.toml leaves one out.
"""
_THRESHOLDS = """## Thresholds

The keys of `[doctor]` in qops.toml that say from when on something is a finding.
"""


def pages() -> dict[str, str]:
    """Return every page by the name of its file."""
    return {INDEX: index(), **{f"{check.id}.md": page(check) for check in CHECKS}}


def index() -> str:
    """Return the page that lists the checks, in the order in which they are reported."""
    lines = ["| check | at worst | what holds when it passes |", "|---|---|---|"]
    lines += [f"| [{one.id}]({one.id}.md) | {one.severity} | {one.title} |" for one in CHECKS]
    return "\n".join((_INTRODUCTION, *lines, "", _THRESHOLDS, *thresholds(), ""))


def thresholds(check: Check | None = None) -> list[str]:
    """Return the table of the keys of `[doctor]`, of all checks or of one; nothing where that one has none."""
    rows = [
        f"| `{limit.key}` | `{limit.written(getattr(Limits(), name))}` | `{limit.written(limit.least)}` to "
        f"`{limit.written(limit.most)}` | {', '.join(limit.checks)} | {limit.meaning} |"
        for name, limit in LIMITS.items()
        if check is None or check.id in limit.checks
    ]
    return ["| key | default | range | check | finding from |", "|---|---|---|---|---|", *rows] if rows else []


def page(check: Check) -> str:
    """Return the page about one check."""
    before = () if check.id == ROOT else (ROOT, *check.after)
    rests = ", ".join(f"[{one}]({one}.md)" for one in before)
    parts = [
        f"# {check.id}",
        f"{check.title}. At worst **{check.severity}**.",
        f"## Why\n\n{check.why}",
        f"## How it is observed\n\n{check.how}",
        f"## Cure\n\n{check.cure}\n\n`qops doctor --only {check.id}` prints it for your queue.",
        *(["## Thresholds in `[doctor]`\n\n" + "\n".join(own)] if (own := thresholds(check)) else []),
        *([f"## Rests on\n\nIt is skipped while one of these is critical or skipped: {rests}."] if rests else []),
    ]
    return "\n\n".join(parts) + "\n"


def write(folder: Path) -> None:
    """Write every page and delete what is no page of a check."""
    folder.mkdir(exist_ok=True)
    made = pages()
    for old in folder.glob("*.md"):
        if old.name not in made:
            old.unlink()
    for name, text in made.items():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write(FOLDER)
    sys.exit(0)
