"""An audit as a report for people: a table with one short line a check, and below it what to do, each thing once."""

from __future__ import annotations

import textwrap
from dataclasses import asdict
from typing import TYPE_CHECKING

from qops.report import Report, Table, verdict_exit_code

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from qops.doctor.audit import Audit
    from qops.doctor.facts import ServerFacts
    from qops.doctor.model import Result

WIDE = 120  # characters of a cell; what is longer is shortened there, and said in full below the table
PART = "; "


def report(audit: Audit, fail_on: str) -> Report:
    """Return the report of an audit; `fail_on` decides its exit code."""
    tables = (
        Table(("server", "value"), _identity(audit.server)),
        Table(("check", "status", "observed"), tuple(_rows(audit.results)), f"queue {audit.queue}: {audit.verdict}"),
    )
    code = verdict_exit_code(audit.verdict, fail_on)
    return Report(audit.document(), tables, tuple(_lines(audit.results)), exit_code=code)


def _identity(server: ServerFacts) -> tuple[tuple[str, object], ...]:
    """Return who answered, so that nobody audits another server than the one they mean."""
    facts = {name: value for name, value in asdict(server).items() if name != "numbers" and value is not None}
    return tuple(facts.items())


def _rows(results: Iterable[Result]) -> Iterator[tuple[str, str, str | None]]:
    """Yield the rows; why something is unknown is said at the first check that it keeps from an answer."""
    first: dict[str | None, str] = {}
    for one in results:
        said = first.setdefault(one.observed, one.id) if one.status == "unknown" else one.id
        yield one.id, one.status, _short(one.observed) if said == one.id else f"as {said}"


def _short(observed: str | None) -> str | None:
    return textwrap.shorten(observed, WIDE, placeholder=" …") if _long(observed) and observed else observed


def _long(observed: str | None) -> bool:
    return len(observed or "") > WIDE


def _lines(results: Iterable[Result]) -> Iterator[str]:
    """Yield what was found and what cures it; no statement is printed twice."""
    printed: set[str] = set()
    unknown: dict[str, list[Result]] = {}
    for one in results:
        if one.status == "unknown":
            unknown.setdefault(one.remedy or "", []).append(one)
        elif one.status not in {"pass", "skipped"} or _long(one.observed):
            yield f"{one.id} ({one.status}): {one.why}"
            yield from _observed(one)
            yield from [f"  expected: {one.expected}"] if one.expected else []
            yield from _remedy(one.remedy, printed)
    for remedy, group in unknown.items():
        cure = list(_remedy(remedy, printed))
        after = "to find out:" if cure else "what is above helps" if remedy else "why is said above"
        yield f"{', '.join(one.id for one in group)} (unknown): {after}"
        yield from (line for one in group if len(group) == 1 or not remedy for line in _observed(one))
        yield from cure


def _observed(one: Result) -> Iterator[str]:
    """Yield in full what the table has room for only in part."""
    if one.observed and _long(one.observed):
        for number, part in enumerate(one.observed.split(PART)):
            yield f"  {'observed:' if number == 0 else '         '} {part}"


def _remedy(remedy: str | None, printed: set[str]) -> Iterator[str]:
    for line in (remedy or "").splitlines():
        if line not in printed or line.startswith("--"):
            yield f"  {line}"
        printed.add(line)
