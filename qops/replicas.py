"""How far a replica is behind, read on the replica itself: its source does not know.

A replica that is broken, or a server that is none, has no lag that could be told: then `trouble` says why.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from qops.db import statement

if TYPE_CHECKING:
    import sqlalchemy as sa

NEW_NAMES = (8, 0, 22)  # the first with SHOW REPLICA STATUS
GROUP = "group_replication_"
PRIVILEGES = (
    "GRANT REPLICATION CLIENT ON *.* TO {account};",
    "GRANT SELECT ON performance_schema.* TO {account};  -- members of a replication group only",
)


@dataclass(frozen=True)
class ReplicaLag:
    """A replica as it stands: seconds behind its source (None: `trouble` says why), and its configured delay."""

    seconds: float | None = None
    trouble: str | None = None
    delay: int = 0


def read_replica(connection: sa.Connection) -> ReplicaLag:
    """Return how far the server behind `connection` (in autocommit, `observe`) is; of its channels the worst counts.

    The lag is MySQL's own, the age of what is being applied, in whole seconds; 0 when all that was received is
    applied. So a source that went silent shows only when the connection to it ends (replica_net_timeout, a minute).
    A member of a group is judged by its applier's queue. Raises the driver's errors.
    """
    channels = [_in_new_names(row) for row in connection.execute(statement(_query(connection))).mappings()]
    own = [channel for channel in channels if not str(channel.get("channel_name") or "").startswith(GROUP)]
    if own:
        return worst([judge_channel(channel) for channel in own])
    member = connection.execute(statement("group_member")).first()
    return judge_member(member) if member else ReplicaLag(trouble="it is not a replica: SHOW REPLICA STATUS is empty")


def judge_channel(channel: dict[str, Any]) -> ReplicaLag:
    """Return the lag of one channel, a row of SHOW REPLICA STATUS with its names in lower case."""
    name = channel.get("channel_name")
    where = f" of channel {name!r}" if name else ""
    delay = int(channel.get("sql_delay") or 0)
    receiver, applier = channel.get("replica_io_running"), channel.get("replica_sql_running")
    if receiver != "Yes":
        does = "does not reach the source" if receiver == "Connecting" else "(IO thread) is stopped"
        return ReplicaLag(trouble=f"the receiver{where} {does}{_error(channel, 'last_io_error')}", delay=delay)
    if applier != "Yes":
        return ReplicaLag(
            trouble=f"the applier{where} (SQL thread) is stopped{_error(channel, 'last_sql_error')}", delay=delay
        )
    seconds = channel.get("seconds_behind_source")
    if seconds is None:
        return ReplicaLag(trouble=f"the lag{where} is not known to the replica itself", delay=delay)
    return ReplicaLag(float(seconds), delay=delay)


def judge_member(member: Any) -> ReplicaLag:  # noqa: ANN401 - a row of the driver
    """Return the lag of a member of a group, a row of `group_member`; the primary has none."""
    if member.state != "ONLINE":
        return ReplicaLag(trouble=f"as a member of its group it is {member.state}")
    if member.role == "PRIMARY":
        return ReplicaLag(0.0)
    ages = [float(age) for age in (member.applying_seconds, member.distributing_seconds) if age is not None]
    if member.queued is None:
        return ReplicaLag(trouble="how much waits for its applier is not to be seen")
    # A queue of which nobody has a transaction in hand is a moment between two of them.
    return ReplicaLag(max(0.0, *ages) if ages else 0.0)


def worst(lags: list[ReplicaLag]) -> ReplicaLag:
    """Return the lag that counts among several channels': one that is not known, else the longest."""
    return max(lags, key=lambda lag: (lag.trouble is not None, lag.seconds or 0.0))


def _query(connection: sa.Connection) -> str:
    version = connection.dialect.server_version_info or NEW_NAMES
    return "replica_status" if version >= NEW_NAMES else "slave_status"


def _in_new_names(row: Any) -> dict[str, Any]:  # noqa: ANN401 - a mapping of the driver
    return {key.lower().replace("slave", "replica").replace("master", "source"): value for key, value in row.items()}


def _error(channel: dict[str, Any], name: str) -> str:
    text = " ".join(str(channel.get(name) or "").split())
    return f": {text}" if text else ""
