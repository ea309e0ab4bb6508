"""What each command needs to be allowed to do: the one list behind messages, doctor and README.

Measured with fresh accounts: FOR UPDATE needs UPDATE or DELETE on the table, INSERT alone on the archive is not
enough to compare what arrived, and the InnoDB status needs PROCESS.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from qops.db import quote_account, quote_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from qops.queue_settings import QueueSettings

LEDGER_TABLE = "qops_runs"


@dataclass(frozen=True)
class Need:
    """Privileges on one object: `table`, `archive`, `ledger`, `schema`, `server`, or `schema.table` by name.

    A command works without an optional one and says what it then cannot do (`purpose`).
    """

    privileges: str
    on: str
    purpose: str
    optional: bool = False


_LEDGER = Need("SELECT, INSERT, UPDATE", "ledger", "record the run and see the brake", optional=True)
_PURGE = Need("PROCESS", "server", "see purge lag and who causes it", optional=True)
_READ = Need("SELECT", "table", "read jobs")
_CHANGE = Need("SELECT, UPDATE", "table", "lock and change jobs")

NEEDS: dict[str, tuple[Need, ...]] = {
    "init": (Need("SELECT, CREATE, ALTER, INDEX", "schema", "create tables and indexes"),),
    "doctor": (
        _READ,
        _PURGE,
        Need("SELECT", "performance_schema.*", "see sessions and their isolation levels", optional=True),
        Need("SELECT", "archive", "compare it with the table, and see the ids that it holds", optional=True),
        Need("SELECT", "ledger", "see past runs and the brake", optional=True),
        Need("TRIGGER", "table", "see its triggers", optional=True),
        Need("TRIGGER", "archive", "see its triggers", optional=True),
    ),
    "archive": (
        Need("SELECT, DELETE", "table", "lock finished jobs and delete what was copied"),
        Need("SELECT, INSERT", "archive", "copy jobs and compare what arrived"),
        Need("PROCESS", "server", "see every foreign key (or --assume-no-children) and purge lag"),
        Need("TRIGGER", "table", "see its triggers (without that it compares every copy)", optional=True),
        Need("TRIGGER", "archive", "see its triggers (without that it compares every copy)", optional=True),
        _LEDGER,
    ),
    "expire": (
        Need("SELECT", "table", "see which columns the queue has"),
        Need("SELECT, DELETE", "archive", "lock and delete archived jobs"),
        Need("SELECT, INSERT, UPDATE, DELETE", "ledger", "record the run, see the brake, delete old entries"),
        Need("PROCESS", "server", "see every foreign key (or --assume-no-children) and purge lag"),
    ),
    "restore": (
        Need("SELECT, INSERT", "table", "put jobs back and compare what arrived"),
        Need("SELECT, DELETE", "archive", "lock archived jobs and delete what was put back"),
        Need("PROCESS", "server", "see every foreign key (or --assume-no-children)"),
        _LEDGER,
    ),
    "requeue": (
        _CHANGE,
        _LEDGER,
        _PURGE,
        Need("SELECT", "archive", "say of a named job that it is archived", optional=True),
        Need("SELECT", "performance_schema.*", "say which connection holds a named job", optional=True),
    ),
    "promote": (_CHANGE, _LEDGER),
    "discard": (
        _CHANGE,
        Need("SELECT", "archive", "tell jobs that were archived from ones that are not there", optional=True),
        Need("SELECT", "performance_schema.*", "see who holds a locked job", optional=True),
        _LEDGER,
    ),
    "release": (
        _CHANGE,
        Need("SELECT", "performance_schema.*", "see whether the worker still has a connection", optional=True),
        _LEDGER,
    ),
    "pause": (Need("SELECT, INSERT, UPDATE", "ledger", "set the brake"),),
    "resume": (Need("SELECT, INSERT, UPDATE", "ledger", "release the brake"),),
    "health": (
        _READ,
        _PURGE,
        Need("SELECT", "performance_schema.*", "see lock waits and who blocks purge", optional=True),
        Need("SELECT", "ledger", "see the brake and past runs", optional=True),
    ),
    "jobs": (_READ,),
    "show": (
        _READ,
        Need("SELECT", "archive", "find a job that was archived", optional=True),
        Need("SELECT", "performance_schema.*", "see which connection holds its row", optional=True),
        Need("SELECT", "ledger", "see the runs that named it", optional=True),
    ),
    "history": (
        Need("SELECT", "ledger", "read the ledger"),
        Need("PROCESS", "server", "see whether the runs of other accounts are still under way", optional=True),
    ),
    "worker": (
        Need("SELECT, INSERT, UPDATE", "table", "enqueue, claim, complete and fail jobs"),
        Need("DELETE", "table", "complete jobs with archive=True", optional=True),
        Need("SELECT, INSERT", "archive", "complete jobs with archive=True", optional=True),
        Need("SELECT", "ledger", "leave due jobs alone while the queue is paused", optional=True),
    ),
}


def grants_for(command: str, settings: QueueSettings) -> Callable[[str, str], str]:
    """Return a function (account, schema) → the GRANT statements that `command` needs, one a line."""

    def render(account: str, schema: str) -> str:
        lines: list[str] = []
        for need in NEEDS.get(command, ()):
            if need.optional:
                lines.append(f"-- optional: {need.purpose}")
            lines.append(grant(need, settings, account, schema))
        return "\n".join(lines)

    return render


def grant(need: Need, settings: QueueSettings, account: str, schema: str) -> str:
    """Return the GRANT statement for one need, quoted for this queue."""
    return f"GRANT {need.privileges} ON {_object(need.on, settings, schema)} TO {quote_account(account)};"


def _object(on: str, settings: QueueSettings, schema: str) -> str:
    tables = {"table": settings.table, "archive": settings.archive_table, "ledger": LEDGER_TABLE}
    if on in tables:
        return f"{quote_name(schema)}.{quote_name(tables[on])}"
    if on == "server":
        return "*.*"
    if on == "schema":
        # At this level, and only there, MySQL reads _ and % in the schema's name as wildcards.
        return quote_name(schema.replace("\\", "\\\\").replace("_", "\\_").replace("%", "\\%")) + ".*"
    return on
