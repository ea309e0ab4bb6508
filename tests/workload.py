"""A queue under way: jobs in every state, and what must hold whatever happens to those who work on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.conftest import wait_until
from tests.queues import COLUMNS, contents, fill

if TYPE_CHECKING:
    from tests.conftest import Database

NAMES = tuple(name.strip() for name in COLUMNS.split(","))
Rows = dict[Any, dict[str, Any]]

MOVES = {"failed": "pending", "running": "pending", "scheduled": "pending"}
"""What requeue and promote make of a job: from which state to which."""


def fill_all_states(database: Database, number: int) -> None:
    """Add `number` jobs: half of them done, the rest failed, expired, due, and a few that nobody may touch."""
    fill(
        database,
        number,
        status="ELT(1 + n % 10, 'done', 'done', 'done', 'done', 'done', 'failed', 'running', 'scheduled', 'failed', "
        "IF(n % 20 = 9, 'running', 'pending'))",
        priority="n % 5",
        payload="JSON_OBJECT('n', n, 'text', REPEAT(CHAR(97 + n % 26), n % 300), 'float', n / 7)",
        attempts="1 + n % 2",
        claimed_by="IF(n % 10 = 6, 'dead', NULL)",
        lease_until="CASE n % 20 WHEN 9 THEN NOW(6) + INTERVAL 1 DAY ELSE IF(n % 10 = 6, NOW(6), NULL) END",
        available_at="NOW(6) - INTERVAL n SECOND",
        last_error="IF(n % 10 IN (5, 8), CONCAT('error ', n), NULL)",
        finished_at="IF(n % 10 < 6 OR n % 10 = 8, NOW(6) - INTERVAL n SECOND, NULL)",
    )


def all_rows(database: Database) -> tuple[Rows, Rows]:
    """Return the queue's and the archive's rows by id, each value as the bytes that it is stored as."""
    queue, archive = (contents(database, table) for table in ("jobs", "jobs_archive"))
    return (
        {id_: dict(zip(NAMES, row, strict=True)) for id_, row in queue.items()},
        {id_: dict(zip(NAMES, row, strict=True)) for id_, row in archive.items()},
    )


def text(value: str) -> str:
    """Return a text as `all_rows` gives it."""
    return value.encode().hex().upper()


def check_moves(before: Rows, queue: Rows, archive: Rows, copied: frozenset[int] = frozenset()) -> dict[str, int]:
    """Hold the tables against what was inserted; return how many jobs moved, by where from.

    No job is in both (but those `copied` by hand), none is lost, none is new. Archived ones were done and are
    equal in every column. The others are equal too, or were put back as requeue and promote put back.
    """
    assert not (set(queue) & set(archive)) - copied
    assert set(queue) | set(archive) == set(before)
    moved = {"archived": 0, **dict.fromkeys(MOVES, 0)}
    for id_, row in archive.items():
        assert row == before[id_]
        assert row["status"] == text("done")
        moved["archived"] += id_ not in queue
    for id_, row in queue.items():
        if row == before[id_]:
            continue
        (state,) = (state for state in MOVES if text(state) == before[id_]["status"])
        cleared = {"claimed_by": None, "lease_until": None, "finished_at": None} if state != "scheduled" else {}
        assert row == before[id_] | {"status": text(MOVES[state])} | cleared
        moved[state] += 1
    return moved


def connections(database: Database) -> set[int]:
    """Return the connections of qops in this schema."""
    rows = database.rows(
        "SELECT a.processlist_id FROM performance_schema.session_connect_attrs a "
        "JOIN performance_schema.threads t ON t.processlist_id = a.processlist_id "
        "WHERE a.attr_name = 'program_name' AND a.attr_value = 'qops' AND t.processlist_db = %s",
        [database.name],
    )
    return {id_ for (id_,) in rows}


def check_nothing_open(database: Database) -> None:
    """Wait until qops has no connection here; a connection ends after its transaction is undone."""
    wait_until(lambda: not connections(database), seconds=10, what="the end of all connections of qops")
