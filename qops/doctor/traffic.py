"""What workers really send: the server's sums by statement, and what each statement does to jobs.

A statement is known by its digest: its text without values, in which names stand in backticks, and words of MySQL's
that were written without quotes in capitals.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

from qops.db import statement
from qops.doctor.facts import Unknown
from qops.doctor.history import names_in_digests
from qops.doctor.sampling import BOUND, sample
from qops.doctor.traffic_facts import LockError, Sent, Traffic
from qops.statements.sample import first_rows
from qops.statements.walk import choose_walk

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import sqlalchemy as sa

    from qops.doctor.row_facts import Sample
    from qops.queue import QueueTable

TOKEN = re.compile(r"/\*.*?\*/|`(?:[^`]|``)*`|\(\.\.\.\)|\(\?\)|[^\s`]+")
NAME_BYTES = 68  # of the longest name, and so about what is free where the next word did not fit
ENDS = frozenset({"GROUP", "HAVING", "WINDOW", "ORDER", "LIMIT", "FOR", "LOCK", "PROCEDURE", "UNION"})
TABLES = frozenset({"JOIN", "STRAIGHT_JOIN", ","})
ADVERBS = frozenset({"LOW_PRIORITY", "IGNORE", "QUICK"})
OWN = re.compile(r"/\*\+.*?(?:`qops_due`|INDEX \( `(?:[^`]|``)*` `PRIMARY` \)).*?\*/")
"""A hint of qops's own statements, which choose jobs without a lock and then act on exactly these."""


@dataclass(frozen=True)
class Names:
    """What a queue calls its schema, its table and the columns that tell what a statement is about."""

    schema: str
    table: str
    columns: Mapping[str, str]


def read_traffic(connection: sa.Connection, queue: QueueTable) -> Traffic | Unknown:
    """Return the statements that lock or change jobs, sent within the last hour. Raises the driver's errors."""
    kept = connection.execute(statement("digests_kept")).all()
    off = [row.remedy for row in kept if row.trouble == "off"]
    if off:
        return Unknown("the server does not sum up the statements of its sessions", "\n".join(off))
    full = [row.remedy for row in kept if row.trouble == "full"]
    roles = ("id", "status", "claimed_by", "lease_until", "attempts")
    columns = {role: queue.columns[role].name for role in roles if queue.has(role)}
    names = Names(queue.schema, queue.table.name, columns)
    rows = connection.execute(statement("statement_digests"), names_in_digests(connection, names.schema, names.table))
    understood = [(row, understand(row.statement_text, names, row.kept_bytes)) for row in rows]
    return Traffic(
        statements=tuple(
            Sent(
                statement=row.statement_text,
                executions=int(row.executions),
                errors=int(row.errors),
                sent=int(row.sent),
                affected=int(row.affected),
                examined=int(row.examined),
                sorts=int(row.sorts),
                first_seen=row.first_seen,
                last_seen=row.last_seen,
                claims=does.claims,
                waits=does.waits,
                fenced=does.fenced,
                cut=does.cut,
            )
            for row, does in understood
            if does
        ),
        full=Unknown("the server's summary of statements is full, so others may have been sent", full[0])
        if full
        else None,
        leased=queue.has("lease_until"),
    )


def read_lock_errors(connection: sa.Connection) -> tuple[LockError, ...] | Unknown:
    """Return how often lock waits ended in timeouts and deadlocks. Raises the driver's errors."""
    off = connection.execute(statement("errors_counted")).scalar()
    if off:
        return Unknown("the server does not count the errors of its sessions", off)
    counted = connection.execute(statement("lock_errors")).all()
    accounts = connection.execute(statement("lock_error_accounts")).all() if counted else []
    return tuple(
        LockError(
            code=row.code,
            raised=int(row.raised),
            first_seconds=int(row.first_seconds),
            last_seconds=int(row.last_seconds),
            first_seen=row.first_seen,
            last_seen=row.last_seen,
            accounts=tuple(f"{one.account}: {one.raised}" for one in accounts if one.code == row.code),
        )
        for row in counted
    )


def read_late(connection: sa.Connection, queue: QueueTable) -> Sample | None:
    """Return which of the jobs that were done last were done after a lease that they still bear.

    None where that cannot be: a worker that clears the lease leaves nothing to see. Raises the driver's errors.
    """
    if not (queue.has("lease_until") and queue.has("finished_at") and queue.has_state("done")):
        return None
    lease, finished = queue.columns["lease_until"], queue.columns["finished_at"]
    walks = [choose_walk(queue, value, by="finished_at") for value in queue.states["done"]]
    kinds = {queue.facts[column.name].data_type for column in (lease, finished)}
    if len(kinds) > 1 or any(walk.steps[0].column is not finished for walk in walks):
        return None  # their clocks may differ, or no index gives the last ones
    looks = (first_rows(queue, walk, finished > lease, BOUND, (finished.desc(),)) for walk in walks)
    return replace(sample(connection, looks), bounded=False)  # it is about the last ones, not about all


@dataclass(frozen=True)
class Understood:
    """What a statement does, as the fields of `Sent` say."""

    claims: bool = False
    waits: bool = False
    fenced: bool = False
    cut: bool = False


def understand(digest: str, names: Names, kept_bytes: int) -> Understood | None:
    """Return what a statement does to jobs; None where it only reads them, is not about them alone, or is qops's.

    A statement that fills nearly all of `kept_bytes` is taken to be cut.
    """
    if OWN.search(digest):
        return None
    tokens = [token for token in TOKEN.findall(digest.removeprefix("EXECUTE ")) if not token.startswith("/*")]
    cut = _bytes(tokens) > kept_bytes - NAME_BYTES
    verb = tokens[0] if tokens else ""
    if verb in {"UPDATE", "DELETE"}:
        return _change(tokens, names, cut=cut)
    if verb != "SELECT":
        return None
    place = _locking(tokens)
    if place is None:
        part = _from(tokens, names)
        return Understood(cut=True) if cut and part is not None else None
    return _locking_read(tokens, place, names)


def _bytes(tokens: Sequence[str]) -> int:
    """Return the length of a digest as the server keeps it: two bytes a word, and for a name its text and two more."""
    return sum(len(token.encode()) + 2 if token.startswith("`") else 2 for token in tokens)


def _locking_read(tokens: Sequence[str], place: int, names: Names) -> Understood | None:
    """Return what a SELECT … FOR UPDATE does, of which the clause is at `place`."""
    begin = place - 1 - tokens[:place][::-1].index("SELECT") if "SELECT" in tokens[:place] else place
    part = _from(tokens[begin:place], names)
    if part is None:
        return None
    where = _where(part)
    one = _compared(where, names, "id", {"=", "IN", "<=>"})
    claims = _named(where, names, "status") and not one
    after = tokens[place + 2 :]
    waits = claims and "SKIP" not in after and "NOWAIT" not in after
    fenced = begin == 0 and _fenced(where, names)
    return Understood(claims=claims, waits=waits, fenced=fenced)


def _change(tokens: Sequence[str], names: Names, *, cut: bool) -> Understood | None:
    part = _target(tokens[1:], names)
    if part is None or TABLES & set(_head(part)):
        return None
    place = _locking(tokens)
    inner = _locking_read(tokens, place, names) if place is not None else None
    if inner:  # a claim in one statement: UPDATE … WHERE id IN (SELECT … FOR UPDATE)
        return Understood(claims=inner.claims, waits=inner.waits)
    where = () if "SELECT" in part or cut else _where(part)
    one = _compared(where, names, "id", {"=", "IN", "<=>"})
    changed = part[: part.index("WHERE")] if "WHERE" in part else part
    finishes = tokens[0] == "DELETE" or _named(changed, names, "status")
    return Understood(claims=_named(where, names, "status") and not one, fenced=finishes and _fenced(where, names))


def _fenced(where: Sequence[str], names: Names) -> bool:
    """Tell whether a condition lets through one job while it is still in the hands of who claimed it.

    Not one that asks for a lease that has passed, for attempts that are left, or whether nobody has the job, as a claim
    by id does: that it is not met is no lost lease.
    """
    one = _compared(where, names, "id", {"=", "<=>"})
    owned = _compared(where, names, "claimed_by", {"=", "<=>"})
    held = _compared(where, names, "lease_until", {">", ">="})
    passed = _compared(where, names, "lease_until", {"<", "<=", "IS"})
    free = _compared(where, names, "claimed_by", {"IS"})
    return one and (owned or held) and not passed and not free and not _limited(where, names)


def _limited(where: Sequence[str], names: Names) -> bool:
    """Tell whether attempts are compared with a limit."""
    return any(
        _is(token, names.columns.get("attempts")) and {"<", "<="} & set(where[i + 1 : i + 5])
        for i, token in enumerate(where)
    )


def _locking(tokens: Sequence[str]) -> int | None:
    """Return where FOR UPDATE is."""
    pairs = pairwise(tokens)
    return next((i for i, pair in enumerate(pairs) if pair == ("FOR", "UPDATE")), None)


def _from(tokens: Sequence[str], names: Names) -> Sequence[str] | None:
    """Return what follows the table in the FROM of a SELECT; None unless it is the queue's table alone."""
    if "FROM" not in tokens:
        return None
    part = _target(tokens[tokens.index("FROM") :], names)
    return None if part is None or TABLES & set(_head(part)) else part


def _target(tokens: Sequence[str], names: Names) -> Sequence[str] | None:
    """Return what follows the table that a statement is about; None unless it is the queue's."""
    rest = list(tokens)
    while rest and (rest[0] in ADVERBS or rest[0] == "FROM"):
        rest.pop(0)
    if rest[1:2] == ["."]:
        if not _is(rest[0], names.schema):
            return None
        rest = rest[2:]
    return rest[1:] if rest and _is(rest[0], names.table) else None


def _head(part: Sequence[str]) -> Sequence[str]:
    """Return what is between the table and SET or WHERE, where other tables would be named."""
    end = next((i for i, token in enumerate(part) if token in {"SET", "WHERE"} | ENDS), len(part))
    return part[:end]


def _where(part: Sequence[str]) -> Sequence[str]:
    if "WHERE" not in part:
        return ()
    rest = part[part.index("WHERE") + 1 :]
    end = next((i for i, token in enumerate(rest) if token in ENDS), len(rest))
    return rest[:end]


def _named(tokens: Sequence[str], names: Names, role: str) -> bool:
    return any(_is(token, names.columns.get(role)) for token in tokens)


def _compared(where: Sequence[str], names: Names, role: str, operators: set[str]) -> bool:
    """Tell whether a column stands before one of these operators."""
    return any(_is(token, names.columns.get(role)) and following in operators for token, following in pairwise(where))


def _is(token: str, name: str | None) -> bool:
    """Tell whether a word of a digest is a name."""
    if name is None:
        return False
    plain = token[1:-1].replace("``", "`") if token.startswith("`") else token
    return plain.casefold() == name.casefold()
