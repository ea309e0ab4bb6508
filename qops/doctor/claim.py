"""The queue's own claim: its plan, and the clock by which its times are judged."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qops.columns import TIMES
from qops.doctor.facts import Clock, PlanFacts
from qops.doctor.printed import as_typed
from qops.explain import explain
from qops.statements.worker import select_claim

if TYPE_CHECKING:
    import sqlalchemy as sa

    from qops.queue import QueueTable

COMPARED = ("available_at", "lease_until", "finished_at")


def read_plan(connection: sa.Connection, queue: QueueTable) -> PlanFacts:
    """Return how the server would find the jobs of the queue's own claim. Raises the driver's errors."""
    claim = select_claim(queue).params(limit=1)
    line = explain(connection, claim)[0]
    return PlanFacts(line.access, line.key, line.extra, as_typed(claim, queue))


def read_clock(queue: QueueTable) -> Clock:
    """Return which times are compared with the clock, and what they are declared to be."""
    names = [queue.columns[role].name for role in COMPARED if queue.has(role)]
    times = [(name, queue.facts[name].column_type) for name in names if queue.facts[name].data_type in TIMES]
    return Clock(tuple(times), queue.settings.clock)
