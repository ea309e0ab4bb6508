"""The queue's own claim: its plan, and the clock by which its times are judged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy.dialects import mysql

from qops.columns import TIMES, quoted
from qops.doctor.facts import Clock, PlanFacts
from qops.explain import explain
from qops.statements.worker import select_claim

if TYPE_CHECKING:
    import sqlalchemy as sa

    from qops.queue import QueueTable

COMPARED = ("available_at", "lease_until", "finished_at")
_DIALECT = mysql.dialect(paramstyle="named")


def read_plan(connection: sa.Connection, queue: QueueTable) -> PlanFacts:
    """Return how the server would find the jobs of the queue's own claim. Raises the driver's errors."""
    claim = select_claim(queue).params(limit=1)
    line = explain(connection, claim)[0]
    options: Any = {"schema_translate_map": {None: quoted(queue.schema)}, "render_schema_translate": True}
    text = str(claim.compile(dialect=_DIALECT, compile_kwargs={"literal_binds": True}, **options))
    return PlanFacts(line.access, line.key, line.extra, " ".join(text.split()))


def read_clock(queue: QueueTable) -> Clock:
    """Return which times are compared with the clock, and what they are declared to be."""
    names = [queue.columns[role].name for role in COMPARED if queue.has(role)]
    times = [(name, queue.facts[name].column_type) for name in names if queue.facts[name].data_type in TIMES]
    return Clock(tuple(times), queue.settings.clock)
