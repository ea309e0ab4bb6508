"""Every query of doctor, once. Each that fails for a reason that somebody can cure leaves an Unknown behind."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

import sqlalchemy as sa
from sqlalchemy import exc

from qops.columns import require_whole
from qops.db import (
    DENIED,
    INTERRUPTED,
    LOCK_TIMEOUT,
    NO_SUCH_INDEX,
    NO_SUCH_OBJECT,
    READ_ONLY,
    UNREADABLE,
    Server,
    errno,
    open_server,
    prose,
    quote_account,
    statement,
)
from qops.doctor.access import no_access, probe_access
from qops.doctor.claim import read_clock, read_plan
from qops.doctor.facts import (
    Access,
    DriftFacts,
    Facts,
    Replication,
    Roles,
    ServerFacts,
    TableFacts,
    Unknown,
)
from qops.doctor.history import read_autocommit_claims, read_clock_uses
from qops.doctor.links import read_links
from qops.doctor.maintenance import read_maintenance
from qops.doctor.rows import read_rows
from qops.doctor.sessions import read_open_transactions, read_worker_sessions
from qops.doctor.spare import read_spare
from qops.doctor.states import read_strays
from qops.doctor.surroundings import ask_replicas, read_link, read_primaries, read_purge_counter
from qops.doctor.tables import read_drift, read_indexes, read_table_facts, why_hidden
from qops.doctor.traffic import read_late, read_lock_errors, read_traffic
from qops.doctor.types import read_types
from qops.errors import Misconfigured, PrivilegeMissing
from qops.login import OtherServer, version_tuple
from qops.privileges import LEDGER_TABLE, Need, grant
from qops.purge import read_purge
from qops.queue import QueueTable, load

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from qops.doctor.limits import Limits
    from qops.settings import Settings

T = TypeVar("T")

UNKNOWN_TABLE = 1109  # an information_schema table that this version does not have
METADATA_LOCKS = (
    "SELECT processlist_id, processlist_user, processlist_info, object_type, object_schema, object_name, lock_type, "
    "lock_status FROM performance_schema.metadata_locks JOIN performance_schema.threads "
    "ON thread_id = owner_thread_id WHERE object_type IN ('GLOBAL', 'TABLE') ORDER BY lock_status, processlist_id;"
)
"""Shows also the global lock, which sys.schema_table_lock_waits does not."""
PROCESS = Need("PROCESS", "server", "see transactions")
SESSIONS = Need("SELECT", "performance_schema.*", "see sessions")
READ = Need("SELECT", "table", "read jobs")
LEDGER = Need("SELECT", "ledger", "see past runs")


def collect(server: Server, settings: Settings, limits: Limits) -> Facts:
    """Return what can be known. Raises Unavailable where no server answers or the login is refused."""
    try:
        with _connect(server, settings) as (connection, refusal):
            return _Collector(connection, server, settings, limits, refusal).facts()
    except OtherServer as other:
        identity = ServerFacts(other.flavor, other.version, version_tuple(other.version), server.host, server.port)
        return Facts(settings.queue.name, identity, limits)


@contextmanager
def _connect(server: Server, settings: Settings) -> Iterator[tuple[sa.Connection, str | None]]:
    """Yield a connection; where the account may not enter the schema, one without it and the refusal."""
    with ExitStack() as stack:
        refusal = None
        try:
            connection = stack.enter_context(server.observe())
        except PrivilegeMissing as error:
            address = settings.database.address
            if address is None or address.database is None:
                raise
            refusal = str(error).partition("\n")[0].partition("; an administrator")[0]
            outside = replace(settings.database, address=replace(address, database=None))
            connection = stack.enter_context(open_server(outside).observe())
        yield connection, refusal


@dataclass
class _Collector:
    """One connection in autocommit, and what is asked over it."""

    connection: sa.Connection
    server: Server
    settings: Settings
    limits: Limits
    refusal: str | None
    account: str = ""
    blocked: Unknown | None = None

    @property
    def schema(self) -> str:
        """The schema's name, also where it may not be entered."""
        address = self.settings.database.address
        selected = self.connection.execute(sa.select(sa.func.database())).scalar_one()
        return selected or (address.database if address else None) or ""

    def facts(self) -> Facts:
        """Collect everything."""
        server = self._server()
        variables = self.attempt(self._variables)
        loaded, table = self._queue()
        indexes = self._of(loaded, lambda q: read_indexes(self.connection, q))
        queue = self._of(loaded, self._whole)
        if isinstance(queue, Unknown) and isinstance(loaded, QueueTable) and not self.blocked:
            table = indexes = queue
        sessions = self._in_history(variables, read_worker_sessions)
        purge = self.attempt(lambda: read_purge(self.connection))
        return Facts(
            queue=self.settings.queue.name,
            server=server,
            limits=self.limits,
            variables=variables,
            table=table,
            indexes=indexes,
            plan=self._of(queue, lambda q: read_plan(self.connection, q)),
            clock=self._of(queue, read_clock),
            drift=self._drift(table),
            links=self._of(queue, lambda q: read_links(self.connection, q, self._grant)),
            rows=self._of(
                queue, lambda q: read_rows(self.connection, q, self.settings, self.limits, self._of, self._grant)
            ),
            purge=purge,
            transactions=self.attempt(
                lambda: read_open_transactions(self.connection, self.limits.long_transaction_seconds), PROCESS
            ),
            sessions=sessions,
            access=self._access(loaded),
            roles=self.attempt(self._roles),
            autocommit_claims=self._in_history(variables, read_autocommit_claims),
            clock_uses=self._in_history(variables, read_clock_uses),
            traffic=self._summed(
                variables, lambda: self._of(queue, lambda q: read_traffic(self.connection, q), SESSIONS)
            ),
            late=self._of(queue, lambda q: read_late(self.connection, q)),
            lock_errors=self._summed(
                variables, lambda: self.attempt(lambda: read_lock_errors(self.connection), SESSIONS)
            ),
            purge_counter=self.attempt(lambda: read_purge_counter(self.connection), PROCESS),
            link=self.attempt(lambda: read_link(self.connection, self.server.host, server.hostname)),
            replication=Replication(
                self.attempt(lambda: read_primaries(self.connection), SESSIONS), ask_replicas(self.settings.replicas)
            ),
            maintenance=self._of(
                queue, lambda q: read_maintenance(self.connection, q, self.settings, self.limits, self._grant), LEDGER
            ),
            types=self._of(queue, lambda q: read_types(self.connection, q)),
            spare=self._of(queue, lambda q: read_spare(self.connection, q, self._grant)),
            strays=self._of(queue, lambda q: read_strays(self.connection, q)),
            naming=self.settings.naming,
        )

    def attempt(self, read: Callable[[], T | Unknown], need: Need | None = None) -> T | Unknown:
        """Return what `read` returns, or why it could not be read and what cures that."""
        try:
            return read()
        except exc.DBAPIError as error:
            code = errno(error)
            if code in DENIED:
                return Unknown(prose(error), self._grant(need) if need else None)
            if code == LOCK_TIMEOUT:
                queue = self.settings.queue
                self.blocked = Unknown(
                    f"the metadata lock of table {queue.table!r}, of its archive or of {LEDGER_TABLE!r} did not come "
                    "in time: somebody changes one of them, or holds LOCK TABLES or FLUSH TABLES WITH READ LOCK",
                    METADATA_LOCKS,
                )
                return self.blocked
            if code in INTERRUPTED | NO_SUCH_OBJECT | READ_ONLY | {NO_SUCH_INDEX, UNKNOWN_TABLE, UNREADABLE}:
                return Unknown(prose(error))
            raise

    def _grant(self, need: Need) -> str:
        return grant(need, self.settings.queue, self.account, self.schema)

    def _of(
        self, queue: QueueTable | Unknown, read: Callable[[QueueTable], T | Unknown], need: Need = READ
    ) -> T | Unknown:
        """Return what `read` returns of the queue; after one wait for the metadata lock the others are spared."""
        if isinstance(queue, Unknown):
            return queue
        if self.blocked:
            return self.blocked
        try:
            return self.attempt(lambda: read(queue), need)
        except Misconfigured as error:
            return Unknown(str(error))

    def _whole(self, queue: QueueTable) -> QueueTable:
        """Return the queue where this account sees all of it: a column or index out of sight looks like none."""
        require_whole(self.connection, queue.table)
        return queue

    def _server(self) -> ServerFacts:
        row = self.connection.execute(statement("server_identity")).one()
        self.account = row.account
        address = self.settings.database.address
        named = address is not None and address.host is not None and not self.settings.database.url_yields
        return ServerFacts(
            flavor="MySQL",
            version=row.version,
            numbers=version_tuple(row.version),
            host=self.server.host if named else row.hostname,
            port=self.server.port or row.port,
            hostname=row.hostname,
            socket=row.socket,
            uuid=row.uuid,
            account=row.account,
            comment=row.comment,
        )

    def _variables(self) -> dict[str, str]:
        return {row[0]: row[1] for row in self.connection.execute(statement("server_variables"))}

    def _queue(self) -> tuple[QueueTable | Unknown, TableFacts | Unknown]:
        """Return the verified queue and its table, or why there is none."""
        settings = self.settings.queue
        if self.refusal:
            refused = Unknown(self.refusal, self._grant(READ))
            return refused, refused
        problem = None
        queue: QueueTable | Unknown
        try:
            queue = self.attempt(lambda: load(self.connection, settings), READ)
        except Misconfigured as error:
            queue, problem = Unknown(str(error)), str(error)
        if not self.schema:
            return queue, TableFacts(settings.table, exists=True, problem=problem)
        table = read_table_facts(self.connection, self.schema, settings)
        if isinstance(queue, Unknown) and queue.remedy:  # what may not be seen is not missing
            return queue, queue
        return queue, replace(table, problem=problem or table.problem)

    def _drift(self, table: TableFacts | Unknown) -> DriftFacts | Unknown:
        """Compare the tables, also where the configuration does not fit them yet."""
        if isinstance(table, Unknown):
            return table
        if self.blocked:
            return self.blocked
        return self.attempt(lambda: self._hidden() or read_drift(self.connection, self.settings.queue), READ)

    def _hidden(self) -> Unknown | None:
        """Return which of the other tables this account may not read: it cannot tell these from missing ones."""
        refusals = {}
        for on, name in (("archive", self.settings.queue.archive_table), ("ledger", LEDGER_TABLE)):
            refusal = why_hidden(self.connection, name)
            if refusal:
                refusals[self._grant(Need("SELECT", on, "compare it"))] = refusal
        return Unknown("; ".join(refusals.values()), "\n".join(refusals)) if refusals else None

    def _summed(self, variables: dict[str, str] | Unknown, read: Callable[[], T | Unknown]) -> T | Unknown:
        """Return what `read` finds in the sums that performance_schema keeps."""
        if not isinstance(variables, Unknown) and variables.get("performance_schema") != "ON":
            return Unknown("performance_schema is OFF, so what was sent is not to be seen")
        return read()

    def _in_history(self, variables: dict[str, str] | Unknown, read: Callable[..., T]) -> T | Unknown:
        """Return what `read` finds in the kept statements of sessions on the queue's table."""
        if not isinstance(variables, Unknown) and variables.get("performance_schema") != "ON":
            return Unknown("performance_schema is OFF, so sessions are not to be seen")
        return self.attempt(lambda: read(self.connection, self.schema, self.settings.queue.table), SESSIONS)

    def _access(self, queue: QueueTable | Unknown) -> tuple[Access, ...] | Unknown:
        if isinstance(queue, Unknown):
            if queue.remedy is None:
                return queue
            return no_access(self.settings.queue, self.account, self.schema, queue.reason)
        return self._of(queue, lambda one: probe_access(self.connection, one, self.account))

    def _roles(self) -> Roles:
        inactive = tuple(row.role for row in self.connection.execute(statement("inactive_roles")))
        activate = f"SET DEFAULT ROLE ALL TO {quote_account(self.account)};"
        return Roles(inactive, activate if inactive else "")
