"""What this account's commands may do: tried with EXPLAIN of the statements they send.

EXPLAIN needs the privileges of the statement, down to columns, and changes nothing. So what is found out is what
the server will say, however the privileges came about: roles, wildcards, columns, partial revokes.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy import exc

from qops.children import find_children
from qops.columns import bare_table
from qops.db import DENIED, NO_SUCH_TABLE, STATEMENT_BINLOG, errno, prose, statement
from qops.doctor.facts import Access, Missing
from qops.explain import explain
from qops.privileges import LEDGER_TABLE, NEEDS, Need, grant
from qops.purge import read_purge
from qops.statements import archive, requeue, worker
from qops.statements.common import delete_ids
from qops.triggers import unseen_triggers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from qops.queue import QueueTable
    from qops.queue_settings import QueueSettings

NOT_TRIED = frozenset({"init", "doctor"})
"""DDL cannot be tried without doing it; what doctor lacks shows in its own checks."""
_IDS = (0, 1)
_ROLES_OF = {"promote": ("available_at",)}
_STATES_OF = {"promote": ("scheduled",)}


def probe_access(connection: sa.Connection, queue: QueueTable, account: str) -> tuple[Access, ...]:
    """Return what each command that this queue can have lacks. Raises the driver's error for other refusals."""
    probe = _Probe(connection, queue, account)
    return tuple(Access(command, tuple(probe.missing(command))) for command in NEEDS if probe.applies(command))


def no_access(settings: QueueSettings, account: str, schema: str, refusal: str) -> tuple[Access, ...]:
    """Return what every command lacks where the account may not even see the table."""
    return tuple(
        Access(
            command,
            tuple(
                Missing(need.privileges, need.on, need.purpose, refusal, grant(need, settings, account, schema), False)
                for need in needs
                if not need.optional
            ),
        )
        for command, needs in NEEDS.items()
        if command not in NOT_TRIED
    )


class _Probe:
    def __init__(self, connection: sa.Connection, queue: QueueTable, account: str) -> None:
        self.connection, self.queue, self.account = connection, queue, account
        self.tried: dict[tuple[str, str, str], str | None] = {}

    def applies(self, command: str) -> bool:
        """Whether the queue has what the command is about."""
        return (
            command not in NOT_TRIED
            and all(self.queue.has(role) for role in _ROLES_OF.get(command, ()))
            and all(self.queue.has_state(state) for state in _STATES_OF.get(command, ()))
        )

    def missing(self, command: str) -> Iterator[Missing]:
        for need in NEEDS[command]:
            refusal = self._refusal(command, need)
            if refusal:
                yield Missing(
                    privileges=need.privileges,
                    on=need.on,
                    purpose=need.purpose,
                    refusal=refusal,
                    grant=grant(need, self.queue.settings, self.account, self.queue.schema),
                    # archive, expire and restore --assume-no-children do without seeing every foreign key
                    optional=need.optional or need.on == "server",
                )

    def _refusal(self, command: str, need: Need) -> str | None:
        """Return what the server says against the first statement that it refuses, None if it refuses none."""
        for attempt in self._attempts(command, need):
            try:
                refusal = attempt()
            except exc.DBAPIError as error:
                if errno(error) in DENIED:
                    return prose(error)
                if errno(error) not in {NO_SUCH_TABLE, STATEMENT_BINLOG}:
                    raise
                # A table that is not there and a log format that forbids the statement are not about privileges.
                continue
            if refusal:
                return refusal
        return None

    def _attempts(self, command: str, need: Need) -> list[Callable[[], str | None]]:
        if need.on == "server":
            parent = {"archive": self.queue.table, "expire": self.queue.archive, "restore": self.queue.archive}
            return [partial(self._children, parent[command])] if command in parent else [self._process]
        if need.privileges == "TRIGGER":
            return [partial(self._triggers, need.on)]
        if need.on.startswith("performance_schema"):
            return [self._sessions]
        return [lambda one=one: self._explain(one) for one in self._statements(command, need)]  # type: ignore[misc]

    def _explain(self, one: Any) -> None:  # noqa: ANN401 - any statement
        explain(self.connection, one, _PARAMETERS)

    def _process(self) -> str | None:
        return "PROCESS is missing" if read_purge(self.connection, name_blocker=False).unknown else None

    def _children(self, parent: sa.Table) -> str | None:
        complete = find_children(self.connection, self.queue.schema, parent.name).complete
        return None if complete else "foreign keys of other tables are not to be seen"

    def _triggers(self, on: str) -> str | None:
        """Say that there may be triggers which this account cannot see."""
        queue = self.queue
        name = (queue.table if on == "table" else queue.archive).name
        unseen = unseen_triggers(self.connection, queue.schema, queue.table.name, queue.archive.name)
        unsure = any(one.lower() == name.lower() for one in unseen)
        return "TRIGGER is missing" if unsure else None

    def _sessions(self) -> None:
        query = statement("connections").bindparams(sa.bindparam("ids", expanding=True))
        self.connection.execute(query, {"ids": [0]})

    def _statements(self, command: str, need: Need) -> list[Any]:
        """Return statements as the command sends them, for one need."""
        special = {
            ("archive", "table"): self._archive_live,
            ("archive", "archive"): lambda: self._archive_copies(need),
            ("requeue", "table"): self._requeue,
            ("restore", "table"): lambda: [_whole(self.queue.table), *self._plain(need)],
            ("restore", "archive"): lambda: [_whole(self.queue.archive), *self._plain(need)],
            ("worker", "table"): self._worker,
        }.get((command, need.on))
        return special() if special else self._plain(need)

    def _archive_live(self) -> list[Any]:
        queue = self.queue
        names = queue.copied if queue.archive_facts else tuple(queue.facts)
        return [sa.select(*(queue.table.columns[name] for name in names)), delete_ids(queue, _IDS)]

    def _archive_copies(self, need: Need) -> list[Any]:
        queue = self.queue
        if not queue.archive_facts.keys() >= set(queue.copied):
            return self._plain(need)  # the two tables differ, which is another check's business
        counts = [archive.count_archived(queue, _IDS)]
        if queue.settings.archive_by == "trigger":
            return counts
        return [archive.copy_ids(queue, _IDS), *counts, archive.twins(queue, _IDS)]

    def _requeue(self) -> list[Any]:
        queue = self.queue
        count = queue.settings.attempts_counted == "requeue"
        statements: list[Any] = [
            _whole(queue.table),
            sa.select(queue.id, *requeue.situation(queue)),
            requeue.put_back(queue, _IDS, count_attempt=count, reset_attempts=False),
        ]
        if queue.has_state("failed"):
            statements.append(requeue.give_up(queue, _IDS, "", count_attempt=count))
        return statements

    def _worker(self) -> list[Any]:
        queue = self.queue
        payload = {"payload": queue.columns["payload"]} if queue.has("payload") else {}
        statements: list[Any] = [worker.enqueue(queue, payload, delayed=False), worker.select_claim(queue)]
        if queue.has_state("running"):
            statements += [worker.mark_running(queue), worker.complete(queue)]
        else:
            statements.append(worker.complete_held_row(queue))
        return statements

    def _plain(self, need: Need) -> list[Any]:
        """Return one simple statement for each word of a need."""
        tables = {"table": self.queue.table, "archive": self.queue.archive, "ledger": _LEDGER}
        table = tables.get(need.on)
        if table is None:
            return []
        column = self.queue.columns["status"] if need.on == "table" else next(iter(table.columns), None)
        if column is None:
            return [sa.select(sa.literal(1)).select_from(table)]
        statements = {
            "SELECT": sa.select(column),
            "INSERT": sa.insert(table).values({column: None}),
            "UPDATE": sa.update(table).where(column.is_(None)).values({column: None}),
            "DELETE": sa.delete(table).where(column.is_(None)),
        }
        return [statements[word.strip()] for word in need.privileges.split(",") if word.strip() in statements]


def _whole(table: sa.Table) -> sa.Select[Any]:
    """Return what `require_whole` asks."""
    return sa.select(sa.text("*")).select_from(table)


_LEDGER = bare_table(LEDGER_TABLE, dict.fromkeys(("id", "command", "queue", "finished_at")))  # type: ignore[arg-type]
_PARAMETERS = {
    "id": 0,
    "limit": 1,
    "worker": "",
    "payload": "{}",
    "lease_microseconds": 1,
    "attempts": 0,
    "error": "",
}
