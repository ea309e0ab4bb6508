"""What is around the queue's tables: purge's counter, our own connection, the group and the replicas."""

from __future__ import annotations

import socket
from contextlib import suppress
from typing import TYPE_CHECKING

from qops.clock import Stop
from qops.db import statement
from qops.doctor.facts import Link, Replica, Unknown
from qops.errors import PrivilegeMissing, QopsError
from qops.replica_throttle import watch_replicas

if TYPE_CHECKING:
    from collections.abc import Mapping

    import sqlalchemy as sa

    from qops.replica_throttle import ReplicaWatch
    from qops.settings import Database

NO_LIMIT = float("inf")
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


def read_purge_counter(connection: sa.Connection) -> str | None:
    """Return the state of InnoDB's counter of what waits for purge, None if there is none."""
    status: str | None = connection.execute(statement("purge_counter")).scalar()
    return status


def read_link(connection: sa.Connection, host: str, hostname: str | None) -> Link:
    """Return whether our own connection leaves this machine, and its cipher; `host` is what was connected to."""
    seen = connection.execute(statement("session_link")).scalar_one()
    row = connection.execute(statement("session_cipher")).first()
    return Link(is_remote(host, seen.rpartition("@")[2], hostname, socket.gethostname()), (row and row[1]) or None)


def is_remote(host: str, seen_from: str, hostname: str | None, here: str) -> bool:
    """Tell whether a connection leaves the machine, by either end: its address, its origin, the machines' names."""
    near = host.startswith(("/", "127.")) or host.lower() in LOOPBACK
    return not near and seen_from.lower() not in LOOPBACK and hostname != here


def read_primaries(connection: sa.Connection) -> tuple[str, ...]:
    """Return the members of the server's group that take writes, none outside of a group."""
    return tuple(row.place for row in connection.execute(statement("group_primaries")))


def ask_replicas(replicas: Mapping[str, Database]) -> tuple[Replica, ...]:
    """Ask the servers of [replicas] how they are, as archiving does; those that are silent take two seconds.

    Raises Misconfigured for a TLS mode that cannot be had.
    """
    with watch_replicas(replicas, NO_LIMIT, Stop()) as throttles:
        for throttle in throttles:
            with suppress(QopsError):
                throttle()  # which gives them the moment that they need for their first answer
        return tuple(_judge(watch) for throttle in throttles for watch in throttle.watches)


def _judge(watch: ReplicaWatch) -> Replica:
    place = watch.server.place
    try:
        return Replica(watch.name, place, watch.lag().trouble)
    except PrivilegeMissing as error:
        reason, _, grants = str(error).partition("; an administrator can run, there or on its source:\n")
        return Replica(watch.name, place, refused=Unknown(reason, grants or None))
    except QopsError as error:
        return Replica(watch.name, place, str(error))
