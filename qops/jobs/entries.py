"""The entries of the ledger that name a job."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from qops.ledger import RUNS, read
from qops.runs import runs_by_id

if TYPE_CHECKING:
    from qops.runs import Recorded

NAMING = ("requeue", "discard", "restore")
"""The commands that take ids of jobs."""
LOOKED_AT = 1_000
"""The latest entries of one command that are looked at."""
SHOWN = 20


def entries(connection: sa.Connection, queue: str, id_: Any) -> tuple[Recorded, ...]:  # noqa: ANN401 - as the id column
    """Return the latest runs whose command line named job `id_`, the newest first, at most SHOWN.

    Raises LedgerMissing where there is no ledger, and the driver's error where it may not be read.
    """
    ids = [run for command in NAMING for run in read(connection, _named(queue, command, id_)).scalars()]
    return runs_by_id(connection, sorted(ids, reverse=True)[:SHOWN])


def _named(queue: str, command: str, id_: Any) -> sa.Select[Any]:  # noqa: ANN401 - as above
    """Find the entries of one command that name a job, among its latest LOOKED_AT. An id was typed, so it is a text."""
    latest = (
        sa.select(RUNS.c.id, sa.func.json_extract(RUNS.c.arguments, "$.ids").label("ids"))
        .where(RUNS.c.queue == queue, RUNS.c.command == command)
        .order_by(RUNS.c.id.desc())
        .limit(LOOKED_AT)
        .subquery()
    )
    forms = [json.dumps(str(id_)), *([json.dumps(id_)] if isinstance(id_, int) else [])]
    named = (sa.func.json_contains(latest.c.ids, form) for form in forms)
    return sa.select(latest.c.id).where(sa.or_(*named)).order_by(latest.c.id.desc()).limit(SHOWN)
