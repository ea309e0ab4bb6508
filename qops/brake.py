"""Whether the brake is on, as runs ask it between batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import exc

from qops.db import DENIED, NO_SUCH_OBJECT, errno
from qops.ledger import LedgerMissing, Paused, active_brake

if TYPE_CHECKING:
    import sqlalchemy as sa

    from qops.events import Events
    from qops.queue_settings import QueueSettings


class BrakeCheck:
    """Raise Paused (75) while the brake is on; where the ledger is out of reach, warn once and go on."""

    def __init__(self, connection: sa.Connection, queue: QueueSettings, events: Events) -> None:
        self.connection = connection
        self.queue = queue
        self.events = events
        self.blind = False

    def __call__(self) -> None:
        """Look at the ledger; the transaction that this opens, which holds no read view, is the caller's to end."""
        if self.blind:
            return
        try:
            brake = active_brake(self.connection, self.queue.name)
        except LedgerMissing:
            self.blind = True
            return
        except exc.DBAPIError as error:
            code = errno(error)
            if code not in DENIED | NO_SUCH_OBJECT:
                raise
            self.blind = True
            why = "qops_runs is not readable" if code in DENIED else "qops_runs lacks columns"
            add = f"; add them with: {self.queue.command('init --repair')}" if code in NO_SUCH_OBJECT else ""
            self.events.warn(f"cannot see whether queue {self.queue.name!r} is paused: {why}{add}")
            return
        if brake:
            raise Paused(f"queue {self.queue.name!r} is {brake}; go on with: {self.queue.command('resume')}")
