"""`qops doctor`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from qops.cli.command import Invocation
from qops.cli.options import FailOn
from qops.report import Report, Table

if TYPE_CHECKING:
    from qops.doctor.model import Check


def doctor(
    invocation: Invocation,
    *,
    only: Annotated[list[str] | None, typer.Option(metavar="ID", help="only this check; may be repeated")] = None,
    skip: Annotated[list[str] | None, typer.Option(metavar="ID", help="without this check; may be repeated")] = None,
    list_checks: Annotated[bool, typer.Option("--list", help="list the checks and stop")] = False,
    explain: Annotated[str | None, typer.Option(metavar="ID", help="explain a check and stop")] = None,
    fail_on: FailOn = "warning",
) -> Report:
    """Audit the server, the table, the claim plan, the privileges and the live sessions."""
    from qops.doctor.audit import CHECKS, audit, choose, find, limits
    from qops.doctor.collect import collect
    from qops.doctor.report import report

    choice = choose(only or [], skip or [], invocation.settings)
    if list_checks:
        return _list([check for check in CHECKS if check.id in choice.wanted])
    if explain is not None:
        return _explain(find(explain))
    facts = collect(invocation.server(), invocation.settings, limits(invocation.settings))
    return report(audit(facts, choice.wanted, choice.without), fail_on)


def _list(checks: list[Check]) -> Report:
    document = {"checks": [{"id": one.id, "title": one.title, "severity": one.severity} for one in checks]}
    rows = tuple((one.id, one.severity, one.title) for one in checks)
    return Report(document, (Table(("check", "severity", "title"), rows),))


def _explain(check: Check) -> Report:
    document = {"id": check.id, "title": check.title, "severity": check.severity, "why": check.why}
    document |= {"how": check.how, "cure": check.cure}
    rests = f"Means nothing while these fail: {', '.join(check.after)}." if check.after else ""
    lines = [
        f"{check.id}: {check.title} ({check.severity})",
        check.why,
        f"Observed by: {check.how}",
        f"Cure: {check.cure}",
        *([rests] if rests else []),
    ]
    return Report(document | {"after": list(check.after)}, lines=tuple(lines))
