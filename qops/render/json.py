"""One JSON document: numbers as numbers, times as ISO 8601 with Z, null for unknown."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from qops.report import Report


def render(report: Report) -> str:
    """Return the report's document; a failure in the middle of the work becomes its `error` key."""
    document = dict(report.document)
    if report.failure:
        document["error"] = asdict(report.failure)
    return json.dumps(document, default=plain, allow_nan=False) + "\n"


def plain(value: object) -> Any:  # noqa: ANN401 - whatever JSON has for it
    """Return what JSON has for a value that the driver gave us.

    A datetime without zone is UTC, because every session is. Bytes that are not UTF-8 are shown escaped.
    """
    if isinstance(value, datetime):
        utc = value.astimezone(UTC) if value.tzinfo else value
        return utc.replace(tzinfo=None).isoformat() + "Z"
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, bytes):
        return value.decode("utf-8", errors="backslashreplace")
    if isinstance(value, set | frozenset):
        return sorted(value)
    raise TypeError(f"no JSON for {type(value).__name__}")
