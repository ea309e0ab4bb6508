"""Whether the brake is on, as runs ask it between batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import exc

from qops.db import DENIED, errno
from qops.errors import TryLater
from qops.ledger import LedgerMissing, active_brake

if TYPE_CHECKING:
    import sqlalchemy as sa

    from qops.events import Events
    from qops.queue_settings import QueueSettings


class Paused(TryLater):
    """Somebody put the brake on for this queue."""


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
            if errno(error) not in DENIED:
                raise
            self.blind = True
            self.events.warn(f"cannot see whether queue {self.queue.name!r} is paused: qops_runs is not readable")
            return
        if brake:
            raise Paused(f"queue {self.queue.name!r} is {brake}; go on with: {self.queue.command('resume')}")
