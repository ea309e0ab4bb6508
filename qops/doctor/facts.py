"""Everything that checks know, as plain values: no connection, no library, so that any of it can be a literal."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from qops.doctor.limits import Limits

if TYPE_CHECKING:
    from collections.abc import Mapping

    from qops.doctor.row_facts import LinkFacts, Maintenance, RowFacts, Sample
    from qops.doctor.traffic_facts import LockError, Traffic
    from qops.doctor.type_facts import SpareFacts, StrayFacts, TypeFacts
    from qops.purge import PurgeLag


@dataclass(frozen=True)
class Unknown:
    """In place of a fact: why it could not be read, and the GRANT or other remedy that makes it readable."""

    reason: str
    remedy: str | None = None


UNREAD = Unknown("it was not read")


@dataclass(frozen=True)
class ServerFacts:
    """Which server answers, and as whom. `numbers` is the version as numbers; the rest is None on other products."""

    flavor: str
    version: str
    numbers: tuple[int, ...]
    host: str
    port: int | None
    hostname: str | None = None
    socket: str | None = None
    uuid: str | None = None
    account: str | None = None
    comment: str | None = None


@dataclass(frozen=True)
class TableFacts:
    """The queue's table. `problem` says what keeps the configuration and it from fitting each other.

    `identified`: a unique index begins with the id. `convert` makes it InnoDB, `add_key` gives it what it lacks.
    `generated_keys` are the tables, of this and its archive, whose primary key the server made up, and what ends that.
    """

    name: str
    exists: bool
    engine: str | None = None
    primary_key: tuple[str, ...] = ()
    identified: bool = False
    problem: str | None = None
    convert: str | None = None
    add_key: str | None = None
    generated_keys: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Wanted:
    """An index that a statement of qops walks along: which serve, what makes one."""

    name: str
    columns: str
    command: str
    serving: tuple[str, ...]
    create: str


@dataclass(frozen=True)
class IndexFacts:
    """The claim's index: `serving` give its order and are visible, `hidden` would if they were.

    `similar` are those that were probably meant, in words. `redundant` are single-column indexes on the status
    beside one that serves, with the statement that drops each.
    """

    claim: Wanted
    hidden: tuple[tuple[str, str], ...] = ()
    similar: tuple[str, ...] = ()
    redundant: tuple[tuple[str, str], ...] = ()
    maintenance: tuple[Wanted, ...] = ()


@dataclass(frozen=True)
class PlanFacts:
    """What the optimizer intends to do with the queue's claim."""

    access: str | None
    key: str | None
    extra: str
    statement: str


@dataclass(frozen=True)
class Session:
    """A session of a worker or producer: it ran a statement on the queue's table or holds a lock on it.

    `isolation` is that of its last transaction, else of the session.
    """

    connection_id: int
    user: str | None
    isolation: str


@dataclass(frozen=True)
class Transaction:
    """An open transaction; age in seconds. The rows are None where InnoDB could not be asked."""

    connection_id: int
    user: str | None
    seconds: int
    isolation: str
    rows_locked: int | None
    rows_modified: int | None
    statement: str | None


@dataclass(frozen=True)
class Missing:
    """A privilege that a command lacks: on what, what for, the server's refusal, and the GRANT."""

    privileges: str
    on: str
    purpose: str
    refusal: str
    grant: str
    optional: bool


@dataclass(frozen=True)
class Access:
    """What one command may not do."""

    command: str
    missing: tuple[Missing, ...]


@dataclass(frozen=True)
class Roles:
    """Roles that the account was granted and that are not active in a new session, and what activates them."""

    inactive: tuple[str, ...] = ()
    activate: str = ""


@dataclass(frozen=True)
class Drift:
    """A difference between the tables and what the queue needs."""

    object: str
    expected: str
    found: str


@dataclass(frozen=True)
class DriftFacts:
    """The differences, and the statements for them that `qops init` leaves to people.

    `creatable`: a table is missing, which plain `qops init` creates. `repairable`: `--repair` ends some difference.
    """

    differences: tuple[Drift, ...] = ()
    by_hand: tuple[str, ...] = ()
    creatable: bool = False
    repairable: bool = False


@dataclass(frozen=True)
class Clock:
    """The time columns that are compared with the clock, `(column, type)`, and what the configuration says."""

    columns: tuple[tuple[str, str], ...]
    declared: str | None


@dataclass(frozen=True)
class AutocommitClaim:
    """A session that read jobs FOR UPDATE in autocommit; the statement without its values."""

    connection_id: int
    user: str | None
    statement: str


@dataclass(frozen=True)
class ClockUse:
    """A statement on the queue's table with a time in it, and the time zone of its session.

    `offsets` are its seconds east of UTC today and half a year on; None where the server cannot tell.
    """

    connection_id: int
    user: str | None
    zone: str
    offsets: tuple[int | None, ...]
    statement: str


@dataclass(frozen=True)
class Link:
    """Our own connection: whether it leaves this machine, and its cipher, None without TLS."""

    remote: bool
    cipher: str | None


@dataclass(frozen=True)
class Replica:
    """A server of `[replicas]`: what is wrong with it, or why it may not be asked."""

    name: str
    place: str
    trouble: str | None = None
    refused: Unknown | None = None


@dataclass(frozen=True)
class Replication:
    """The members of the server's group that take writes, and the replicas that the configuration names."""

    primaries: tuple[str, ...] | Unknown = ()
    replicas: tuple[Replica, ...] = ()


@dataclass(frozen=True)
class Facts:
    """Everything that was collected; what could not be is Unknown with the reason.

    `naming` are the options by which a command means this queue and this configuration, where they have to be said.
    """

    queue: str
    server: ServerFacts
    limits: Limits = field(default_factory=Limits)
    variables: Mapping[str, str] | Unknown = UNREAD
    table: TableFacts | Unknown = UNREAD
    indexes: IndexFacts | Unknown = UNREAD
    plan: PlanFacts | Unknown = UNREAD
    clock: Clock | Unknown = UNREAD
    drift: DriftFacts | Unknown = UNREAD
    links: LinkFacts | Unknown = UNREAD
    rows: RowFacts | Unknown = UNREAD
    purge: PurgeLag | Unknown = UNREAD
    transactions: tuple[Transaction, ...] | Unknown = UNREAD
    sessions: tuple[Session, ...] | Unknown = UNREAD
    access: tuple[Access, ...] | Unknown = UNREAD
    roles: Roles | Unknown = UNREAD
    autocommit_claims: tuple[AutocommitClaim, ...] | Unknown = UNREAD
    clock_uses: tuple[ClockUse, ...] | Unknown = UNREAD
    traffic: Traffic | Unknown = UNREAD
    late: Sample | Unknown | None = UNREAD
    lock_errors: tuple[LockError, ...] | Unknown = UNREAD
    purge_counter: str | Unknown | None = UNREAD
    link: Link | Unknown = UNREAD
    replication: Replication | Unknown = UNREAD
    types: TypeFacts | Unknown = UNREAD
    spare: SpareFacts | Unknown = UNREAD
    strays: StrayFacts | Unknown = UNREAD
    maintenance: Maintenance | Unknown = UNREAD
    naming: str = ""
