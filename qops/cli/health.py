"""`qops health`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from qops.cli.command import Invocation
from qops.cli.options import FailOn
from qops.report import Report, Table, verdict_exit_code

if TYPE_CHECKING:
    from qops.health.snapshot import Snapshot


def health(invocation: Invocation, *, fail_on: FailOn = "warning") -> Report:
    """Show how deep the queue is, how old, and what stands in its way."""
    from qops.health.judge import judge
    from qops.health.measure import measure
    from qops.health.thresholds import thresholds

    limits = thresholds(invocation.settings)
    return _report(judge(measure(invocation.server(), invocation.settings.queue), limits), fail_on)


def _report(snapshot: Snapshot, fail_on: str) -> Report:
    document = snapshot.document()
    unknown = snapshot.measured.unknown
    tables = [Table(("metric", "value"), tuple(_rows(document)), f"queue {document['queue']}: {document['verdict']}")]
    if snapshot.findings:
        rows = tuple((finding.level, finding.id, finding.message) for finding in snapshot.findings)
        tables.append(Table(("level", "finding", "what it means"), rows))
    if unknown:
        tables.append(Table(("unknown", "needs"), tuple((one.metric, one.needs) for one in unknown)))
    return Report(document, tuple(tables), exit_code=verdict_exit_code(snapshot.verdict, fail_on))


def _rows(document: dict[str, Any]) -> list[tuple[str, Any]]:
    """Return the document's numbers as rows; parts of one thing get its name in front."""
    rows: list[tuple[str, Any]] = []
    for key, value in document.items():
        if key in {"findings", "unknown", "verdict", "queue"}:
            continue
        if isinstance(value, dict) and set(value) != {"at_least"}:
            rows += [(f"{key}.{name}", one) for name, one in _rows(value)]
        else:
            rows.append((key, value))
    return rows
