"""The result of `init` as a report: tables of what was done and what differs, or with --dry-run a script."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qops.report import Report, Table
from qops.schema.apply import DDL_WAIT_SECONDS
from qops.schema.ddl import Use, to_sql
from qops.schema.result import Result, When

if TYPE_CHECKING:
    from collections.abc import Iterator


_COMMENTS = {
    When.ALWAYS: "not run",
    When.REPAIR: "qops init --repair runs this, online",
    When.BY_HAND: "blocks writers while it runs, so qops leaves it to you",
}


def report(result: Result) -> Report:
    """Return the report of a run."""
    if result.dry_run:
        return Report(result.document(), lines=tuple(_script(result)), failure=result.failure)
    tables: list[Table] = []
    if result.actions:
        rows = tuple((action.action, action.object, action.applied) for action in result.actions)
        tables.append(Table(("action", "object", "applied"), rows))
    if result.drift:
        differences = tuple((drift.object, drift.expected, drift.found) for drift in result.drift)
        tables.append(Table(("drift", "expected", "found"), differences))
    lines = tuple(_not_run(result))
    if not result.actions and not result.drift:
        lines = (f"queue {result.queue!r} has all it needs",)
    return Report(result.document(), tuple(tables), lines, failure=result.failure)


def _not_run(result: Result) -> Iterator[str]:
    """Yield the SQL that was not run, under a comment that says why."""
    for when, comment in _COMMENTS.items():
        left = [action for action in result.actions if action.when is when and not action.applied]
        if left:
            yield f"-- {comment}:"
        for action in left:
            yield from action.sql.split("\n")


def _script(result: Result) -> Iterator[str]:
    """Yield the SQL that would run, ready to be pasted, and as comments what would not."""
    will = [action for action in result.actions if action.runs(repair=result.repair)]
    if will:
        yield to_sql(Use(result.schema))
    if any(action.when is When.REPAIR for action in will):
        yield f"SET SESSION lock_wait_timeout = {DDL_WAIT_SECONDS};"
    for drift in result.drift:
        yield f"-- {drift.object}: expected {drift.expected}; found {drift.found}"
    for action in will:
        yield from action.sql.split("\n")
    for action in result.actions:
        if action not in will:
            yield f"-- {_COMMENTS[action.when]}: {action.sql}"
    if not result.actions and not result.drift:
        yield f"-- queue {result.queue!r} has all it needs"
