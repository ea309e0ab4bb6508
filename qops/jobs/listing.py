"""`qops jobs`: the jobs of some states, or the errors that they have in common."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from qops.fold import READ, Groups
from qops.jobs.result import Grouping, Listing, job_of
from qops.jobs.scan import CHUNK, Scan, Scope, scopes
from qops.queue import QueueTable, load
from qops.statements import jobs as st
from qops.statements.filters import Filters

if TYPE_CHECKING:
    import sqlalchemy as sa

    from qops.db import Server
    from qops.events import Events
    from qops.queue_settings import QueueSettings

EXAMINED = 20_000
"""Rows of one status value that are looked at for a list."""
GROUPED = 100_000
"""Rows that are looked at for groups, in all."""
DETAILED = 100
LIMIT = 50


@dataclass(frozen=True)
class Options:
    """The command line. `states` none: all, for groups the failed ones; `limit`: jobs, or groups."""

    states: tuple[str, ...] = ()
    chosen: Filters = field(default_factory=Filters)
    limit: int = LIMIT


def list_jobs(server: Server, settings: QueueSettings, options: Options, events: Events) -> Listing:
    """Return up to `limit` jobs, the most urgent first. Reads no more than EXAMINED rows of any status value."""
    with server.observe() as connection:
        queue = load(connection, settings)
        warn_of_times(queue, events)
        jobs: list[dict[str, Any]] = []
        more = False
        for scope in scopes(queue, options.states, options.chosen):
            wanted = options.limit - len(jobs)
            chunk = CHUNK if options.chosen or scope.narrower else min(CHUNK, wanted + 1)
            scan = Scan(connection, queue, scope, max(EXAMINED, wanted + 1), chunk=chunk)
            found: list[Any] = []
            for id_, *_ in scan:
                found.append(id_)
                if len(found) > wanted:
                    break
            jobs += _details(connection, queue, scope, found[:wanted])
            more = more or len(found) > wanted or not scan.complete
            if len(found) > wanted:
                break
            if not scan.complete:
                events.warn(_how_far(scope, scan.examined))
        return Listing(queue.name, jobs, more)


def group_errors(server: Server, settings: QueueSettings, options: Options, events: Events) -> Grouping:
    """Return up to `limit` groups of jobs with the same error. Reads no more than GROUPED rows."""
    with server.observe() as connection:
        queue = load(connection, settings)
        queue.require("jobs --by error", roles=("last_error",))
        warn_of_times(queue, events)
        states = options.states or (("failed",) if queue.has_state("failed") else ())
        groups, examined, complete = Groups(), 0, True
        for scope in scopes(queue, states, options.chosen):
            shown = st.error_head(queue, READ), st.instant(queue, scope.age)
            scan = Scan(connection, queue, scope, GROUPED - examined, shown)
            for id_, error, at in scan:
                groups.add(error, id_, at)
            examined += scan.examined
            if not scan.complete:
                complete = False
                events.warn(_how_far(scope, scan.examined))
        return Grouping(queue.name, groups.largest_first()[: options.limit], complete)


def warn_of_times(queue: QueueTable, events: Events) -> None:
    """Say which times are unknown because nothing says in which zone they were written."""
    unknown = [queue.columns[role].name for role in st.TIME_ROLES if queue.has(role) and not queue.tells_time(role)]
    if unknown:
        events.warn(
            f"{', '.join(map(repr, unknown))} of table {queue.table.name!r}: a DATETIME does not say in which zone it "
            f'was written, so these times are unknown; set clock = "utc", or an offset, in [queues.{queue.name}]'
        )


def _details(connection: sa.Connection, queue: QueueTable, scope: Scope, ids: list[Any]) -> list[dict[str, Any]]:
    """Read jobs by their ids, in this order; those that meet the scope no more are left out."""
    condition = scope.condition(queue)
    jobs: dict[Any, dict[str, Any]] = {}
    for start in range(0, len(ids), DETAILED):
        query = st.read_jobs(queue, ids[start : start + DETAILED], condition)
        jobs |= {row["id"]: job_of(queue, row) for row in connection.execute(query).mappings()}
    return [jobs[id_] for id_ in ids if id_ in jobs]


def _how_far(scope: Scope, examined: int) -> str:
    order = f"{scope.name} jobs" if scope.name else "the newest jobs (no index begins with the status)"
    return f"looked at {examined} {order} and no further; narrow it down with --state, or look at one with: qops show"
