"""Wait while a replica is behind, broken or silent.

Each replica is asked once a second by a thread of its own, so that neither a batch nor a signal ever waits for one
that is far away or frozen; what was heard last is what counts, and hearing nothing counts too.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from qops.clock import Stop, backoff, monotonic, sleep
from qops.db import quote_account, server_of
from qops.errors import ConnectionLost, Misconfigured, PrivilegeMissing, QopsError
from qops.login import OtherServer, prepare
from qops.replicas import PRIVILEGES, ReplicaLag, read_replica
from qops.throttle import Reason, pressure_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from qops.settings import Database

ASK_EVERY_SECONDS = 1.0
ANSWER_SECONDS = 3  # to connect, and for each answer
SILENT_SECONDS = 5.0
FIRST_ANSWER_SECONDS = 2.0
RETRY_SECONDS = 5.0  # at most: a replica that hangs must not collect connections
PEEK_SECONDS = 0.005
CLOSE_SECONDS = 0.5


@dataclass(frozen=True)
class Heard:
    """What a replica said last, and when; `refusal` where asking again is of no use."""

    lag: ReplicaLag
    at: float
    refusal: QopsError | None = None


class ReplicaWatch:
    """Asks one replica for its lag, once a second, until closed. Raises Misconfigured for a TLS mode that cannot be."""

    def __init__(self, name: str, database: Database) -> None:
        self.name = name
        login = prepare(database)
        arguments = login.arguments
        if database.address is None or "connect_timeout" not in database.address.options:
            arguments["connect_timeout"] = ANSWER_SECONDS
        arguments.update(read_timeout=ANSWER_SECONDS, write_timeout=ANSWER_SECONDS)
        arguments.pop("database", None)  # nothing in it is read
        self.server = server_of(login)
        self.heard: Heard | None = None
        self.begun = monotonic()
        self.closed = Stop()
        self.thread = threading.Thread(target=self._keep_asking, name=f"replica {name}", daemon=True)
        self.thread.start()

    def close(self) -> None:
        """End asking. A thread that waits for a frozen replica is left behind; its timeout ends it."""
        self.closed.request()
        self.thread.join(CLOSE_SECONDS)

    def lag(self) -> ReplicaLag:
        """Return what was heard last; silence is trouble. Raises what makes it useless to ask again."""
        heard = self.heard
        if heard and heard.refusal:
            raise heard.refusal
        if heard and heard.lag.trouble:
            return heard.lag
        silent = monotonic() - (heard.at if heard else self.begun)
        if heard is None or silent > SILENT_SECONDS:
            return ReplicaLag(trouble=f"it has not answered for {silent:.0f} s")
        return heard.lag

    def _keep_asking(self) -> None:
        hung = 0
        while not self.closed.requested:
            try:
                with self.server.observe() as connection:
                    while not self.closed.requested:
                        self.heard = Heard(read_replica(connection), monotonic())
                        hung = 0
                        sleep(ASK_EVERY_SECONDS, self.closed)
            except (PrivilegeMissing, OtherServer) as error:
                self._hear(str(error), self._refusal(error))
                return
            except QopsError as error:
                hung = hung + 1 if isinstance(error, ConnectionLost) else 0
                self._hear(str(error))
            except Exception as error:  # noqa: BLE001 - a thread has nobody else to tell
                self._hear(f"{type(error).__name__}: {error}")
            sleep(backoff(hung, base=ASK_EVERY_SECONDS, limit=RETRY_SECONDS), self.closed)

    def _hear(self, trouble: str, refusal: QopsError | None = None) -> None:
        self.heard = Heard(ReplicaLag(trouble=trouble), monotonic(), refusal)

    def _refusal(self, error: QopsError) -> QopsError:
        """Return what ends the run: a privilege that is missing comes with the GRANT for this replica's account."""
        text = f"replica {self.name!r} ({self.server.place}): {error}"
        if not isinstance(error, PrivilegeMissing):
            return Misconfigured(text)
        account = quote_account(self.server.login.account or "")
        grants = "\n".join(line.format(account=account) for line in PRIVILEGES)
        return PrivilegeMissing(f"{text}; an administrator can run, there or on its source:\n{grants}")


class ReplicaLagThrottle:
    """Wait while a replica is more than `limit` seconds behind, or its lag is not known; go on below half of it.

    Once each replica has answered, it costs the run nothing: the answers are there already. Raises PrivilegeMissing
    where an account may not ask.
    """

    name = "replica-lag"

    def __init__(self, watches: Sequence[ReplicaWatch], limit: float, stop: Stop) -> None:
        self.watches = watches
        self.limit = limit
        self.stop = stop
        self.words = ""
        self.pressure = 0.0
        self.held: set[str] = set()

    def __call__(self) -> Reason | None:
        """Return why to wait now, or None; all replicas that are a reason are named."""
        self._await_first_answers()
        lags = {watch.name: watch.lag() for watch in self.watches}
        self.words = "; ".join(self._words(name, lag) for name, lag in lags.items())
        self.pressure = max(
            1.0 if lag.seconds is None else pressure_of(lag.seconds, self.limit) for lag in lags.values()
        )
        self.held = {name for name, lag in lags.items() if self._holds(name, lag)}
        if not self.held:
            return None
        message = "; ".join(self._words(name, lag) for name, lag in lags.items() if name in self.held)
        curable = None if any(lags[name].trouble for name in self.held) else True
        return Reason(self.name, message, curable)

    def _holds(self, name: str, lag: ReplicaLag) -> bool:
        if lag.seconds is None:
            return True
        return lag.seconds > (self.limit / 2 if name in self.held else self.limit)

    def _await_first_answers(self) -> None:
        """Give the replicas a moment where they have not been heard yet; most answer within milliseconds."""
        until = max(watch.begun for watch in self.watches) + FIRST_ANSWER_SECONDS
        while any(watch.heard is None for watch in self.watches) and monotonic() < until:
            if sleep(PEEK_SECONDS, self.stop):
                return

    def _words(self, name: str, lag: ReplicaLag) -> str:
        if lag.seconds is None:
            return f"replica {name!r}: its lag is not known: {lag.trouble}"
        delay = f", delayed on purpose by {lag.delay} s (SOURCE_DELAY)" if lag.delay else ""
        limits = f"limit {self.limit:g} s, resuming at {self.limit / 2:g} s"
        return f"replica {name!r} is {lag.seconds:g} s behind{delay} ({limits})"


@contextmanager
def watch_replicas(
    replicas: Mapping[str, Database], limit: float, stop: Stop
) -> Iterator[tuple[ReplicaLagThrottle, ...]]:
    """Yield the throttle for these replicas, none where there are none; they are asked until the end of the `with`."""
    watches: list[ReplicaWatch] = []
    try:
        watches.extend(ReplicaWatch(name, database) for name, database in replicas.items())
        yield (ReplicaLagThrottle(watches, limit, stop),) if watches else ()
    finally:
        for watch in watches:
            watch.closed.request()
        for watch in watches:
            watch.close()
