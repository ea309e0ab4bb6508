"""Wait while purge is behind, and say whether waiting helps: it does not while somebody's snapshot holds purge up."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from qops.clock import monotonic
from qops.errors import PrivilegeMissing
from qops.limits import READ_VIEW_SECONDS
from qops.purge import find_blocker, read_purge
from qops.throttle import Reason, pressure_of

if TYPE_CHECKING:
    import sqlalchemy as sa

    from qops.events import Events
    from qops.purge import Blocker, PurgeLag

DEFAULT_PURGE_LAG = 50_000  # committed transactions
LOOK_EVERY_SECONDS = 10.0
STUCK_SECONDS = 1.5
"""Purge works in rounds of far less than a second; where it has not moved for longer, something holds it up."""


class PurgeLagThrottle:
    """Wait while more than `limit` committed transactions wait for purge; go on below half of it.

    `limit` None is the default, which only warns, once, where the lag cannot be read. Raises PrivilegeMissing
    where a limit was asked for and cannot be read. Below the limit it costs one statement, which opens no read view
    and no transaction; while a view is open, its holder is looked for at most every ten seconds, and one that is
    older than `read_view` seconds is warned of, because it slows claims whoever archives.
    """

    name = "purge-lag"

    def __init__(
        self, connection: sa.Connection, limit: int | None, events: Events, *, read_view: float = READ_VIEW_SECONDS
    ) -> None:
        self.connection = connection
        self.limit = DEFAULT_PURGE_LAG if limit is None else limit
        self.asked = limit is not None
        self.events = events
        self.read_view = read_view
        self.words = ""
        self.pressure = 0.0
        self.waiting = False
        self.blind = False
        self.position = 0
        self.moves = False
        self.moved_at = self.looked_at = -math.inf
        self.warned: set[int] = set()

    def __call__(self) -> Reason | None:
        """Return why to wait now, or None."""
        if self.blind:
            return None
        lag = read_purge(self.connection, name_blocker=False)
        if lag.unpurged_transactions is None:
            self._give_up(lag)
            return None
        self._follow(lag.purged_below or 0)
        self.pressure = pressure_of(lag.unpurged_transactions, self.limit)
        self.waiting = lag.unpurged_transactions > (self.limit // 2 if self.waiting else self.limit)
        self.words = (
            f"purge lag: {lag.unpurged_transactions} committed transactions wait for purge (limit {self.limit}, "
            f"resuming at {self.limit // 2}; history list length {lag.history_list_length})"
        )
        holder = self._look_for_holder(lag)
        if not self.waiting:
            return None
        curable, cause = self._cause(lag, holder)
        return Reason(self.name, f"{self.words}; {cause}", curable)

    def _give_up(self, lag: PurgeLag) -> None:
        if self.asked:
            raise PrivilegeMissing(f"--max-purge-lag was asked for, but the lag cannot be read: {lag.unknown}")
        self.words = f"purge lag: unknown: {lag.unknown}"
        self.events.warn(f"purge lag is not watched: {lag.unknown}")
        self.blind = True

    def _follow(self, position: int) -> None:
        """Remember when purge was last seen to move; the first look cannot tell, and is where the time begins."""
        self.moves = self.moves or bool(self.position and position > self.position)
        if not self.position or position > self.position:
            self.moved_at = monotonic()
        self.position = position

    @property
    def _stuck(self) -> bool:
        return monotonic() - self.moved_at >= STUCK_SECONDS

    def _look_for_holder(self, lag: PurgeLag) -> Blocker | None:
        """Return who holds the oldest read view, where there is a view and a use for knowing; warn of an old one."""
        due = monotonic() - self.looked_at >= LOOK_EVERY_SECONDS
        if not lag.read_views or not (due or (self.waiting and self._stuck)):
            return None
        self.looked_at = monotonic()
        holder = find_blocker(self.connection, lag.read_views, patient=self.waiting)
        if holder and holder.seconds >= self.read_view and holder.connection_id not in self.warned:
            self.warned.add(holder.connection_id)
            self.events.warn(
                f"{_describe(holder)}; it keeps from purge what was deleted since, and claims slow down meanwhile. "
                f"Ask its owner to end it, or: KILL {holder.connection_id};"
            )
        return holder

    def _cause(self, lag: PurgeLag, holder: Blocker | None) -> tuple[bool | None, str]:
        """Return whether waiting helps, and why or why not.

        A view that is open proves nothing while purge moves: it may be younger than all that is to be purged.
        """
        if not lag.read_views:
            return True, "no read view is open, and purge will catch up"
        if not self._stuck:
            if self.moves:
                return True, "purge is catching up"
            seen = f"; a read view is open: {_describe(holder)}" if holder else ""
            return None, f"whether purge moves is not known yet{seen}"
        if holder is None:
            return None, "a read view is open, and its holder is not to be seen"
        end = f"KILL {holder.connection_id};"
        if holder.whole_transaction:
            return False, f"waiting does not help until this ends: {_describe(holder)}. Ask its owner, or: {end}"
        return True, f"purge goes on when this statement ends: {_describe(holder)}. To end it: {end}"


def _describe(holder: Blocker) -> str:
    """Return who holds a view, for how long and by what; it "seems" so, because MySQL has no list of read views."""
    what = " ".join((holder.statement or "").split())
    return (
        f"connection {holder.connection_id} ({holder.user}) seems to hold a read view since {holder.seconds} s: "
        f"{what or 'its statement is not to be seen'}"
    )
