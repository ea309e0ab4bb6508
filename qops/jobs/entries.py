"""The entries of the ledger that name a job."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from qops.privileges import LEDGER_TABLE

if TYPE_CHECKING:
    from collections.abc import Sequence

NAMING = ("requeue", "discard", "restore")
"""The commands that take ids of jobs."""
LOOKED_AT = 1_000
"""The latest entries of one command that are looked at."""
SHOWN = 20
_KEYS = ("id", "command", "queue", "started_at", "finished_at", "outcome", "summary", "operator", "host", "reason")
_RUNS = sa.table(LEDGER_TABLE, *(sa.column(name) for name in (*_KEYS, "arguments")))


def entries(connection: sa.Connection, queue: str, id_: Any) -> list[dict[str, Any]]:  # noqa: ANN401 - as the id column
    """Return the latest runs whose command line named job `id_`, the newest first, at most SHOWN.

    Raises what the driver raises where the ledger is missing (1146) or out of reach (1142).
    """
    ids = [run for command in NAMING for run in connection.execute(_named(queue, command, id_)).scalars()]
    return _read(connection, sorted(ids, reverse=True)[:SHOWN])


def _named(queue: str, command: str, id_: Any) -> sa.Select[Any]:  # noqa: ANN401 - as above
    """Find the entries of one command that name a job, among its latest LOOKED_AT. An id was typed, so it is a text."""
    latest = (
        sa.select(_RUNS.c.id, sa.func.json_extract(_RUNS.c.arguments, "$.ids").label("ids"))
        .where(_RUNS.c.queue == queue, _RUNS.c.command == command)
        .order_by(_RUNS.c.id.desc())
        .limit(LOOKED_AT)
        .subquery()
    )
    forms = [json.dumps(str(id_)), *([json.dumps(id_)] if isinstance(id_, int) else [])]
    named = (sa.func.json_contains(latest.c.ids, form) for form in forms)
    return sa.select(latest.c.id).where(sa.or_(*named)).order_by(latest.c.id.desc()).limit(SHOWN)


def _read(connection: sa.Connection, ids: Sequence[int]) -> list[dict[str, Any]]:
    if not ids:
        return []
    query = sa.select(*(_RUNS.c[key] for key in _KEYS)).where(_RUNS.c.id.in_(ids)).order_by(_RUNS.c.id.desc())
    rows = (dict(row) for row in connection.execute(query).mappings())
    return [row | {"summary": json.loads(row["summary"]) if row["summary"] else None} for row in rows]
