"""`qops pause` and `qops resume`: the brake."""

from __future__ import annotations

from typing import Annotated

from qops.cli.command import Invocation
from qops.cli.options import Reason, duration_option
from qops.errors import UsageError
from qops.report import Report

SHORTEST_SECONDS, LONGEST_SECONDS = 0.001, 365 * 86_400


def pause(
    invocation: Invocation,
    *,
    reason: Reason = None,
    for_: Annotated[float | None, duration_option("resume by itself after this time", "--for")] = None,
) -> Report:
    """Put on the brake: runs that change rows stop before their next batch."""
    from qops.ledger import set_brake

    if for_ is not None and not SHORTEST_SECONDS <= for_ <= LONGEST_SECONDS:
        raise UsageError("--for is between 1ms and 365d; leave it out to pause until: qops resume")
    name = invocation.settings.queue.name
    server = invocation.server()
    with server.session() as connection:
        brake = set_brake(server, connection, name, reason=reason, seconds=for_)
    document = {"queue": name, "paused": True, "since": brake.since, "until": brake.until, "reason": brake.reason}
    release = invocation.settings.queue.command("resume")
    return Report(
        document,
        (),
        (f"queue {name!r} is {brake}; workers go on; release it with: {release}",),
    )


def resume(invocation: Invocation) -> Report:
    """Release the brake."""
    from qops.ledger import release_brake

    name = invocation.settings.queue.name
    server = invocation.server()
    with server.session() as connection:
        released = release_brake(server, connection, name)
    line = f"queue {name!r} is no longer paused" if released else f"queue {name!r} was not paused"
    return Report({"queue": name, "paused": False, "released": released}, (), (line,))
