"""No transaction of qops touches more than about a batch, also not the last, partial one: the server's own count."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from tests.proxy import HEADER, Wire, broken_wire
from tests.queues import fill, init
from tests.workload import connections

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.conftest import Database, Ran

BATCH, ROWS = 100, 230
COMMANDS = {
    "archive": ("done", ("archive", "--pause", "1ms")),
    "failed": ("failed", ("requeue", "--failed")),
    "expired": ("running", ("requeue", "--expired")),
    "promote": ("scheduled", ("promote",)),
}
TRANSACTION = re.compile(r"(\d+) row lock\(s\)(?:, undo log entries (\d+))?\nMySQL thread id (\d+),")
"""In the text of the InnoDB monitor, because information_schema.innodb_trx may show what was 100 ms ago or longer."""


@dataclass
class Scales(Wire):
    """A wire that weighs each transaction right before its COMMIT, when it is as large as it will be."""

    database: Database | None = None
    weighed: list[tuple[int, int]] = field(default_factory=list)

    def is_due(self, packet: bytes) -> bool:
        """Note rows modified and locked; never break."""
        if packet[HEADER:] == b"COMMIT" and self.database:
            monitor = self.database.rows("SHOW ENGINE INNODB STATUS")[0][2]
            ours = connections(self.database)
            self.weighed += [(int(u), int(n)) for n, u, id_ in TRANSACTION.findall(monitor) if u and int(id_) in ours]
        return False


@pytest.fixture
def queue(database: Database) -> Database:
    """Give a queue with jobs in every state, each state's on their own pages and among many that wait."""
    init(database)
    for state in ("pending", *(state for state, _ in COMMANDS.values()), "pending"):
        fill(
            database,
            ROWS if state != "pending" else 3_000,
            status=f"'{state}'",
            priority="n % 5",
            attempts="1",
            available_at="NOW(6) - INTERVAL n SECOND",
            lease_until="NOW(6) - INTERVAL n SECOND" if state == "running" else "NULL",
            claimed_by="'dead'" if state == "running" else "NULL",
            finished_at="NOW(6) - INTERVAL n SECOND" if state in {"done", "failed"} else "NULL",
        )
    return database


@pytest.mark.parametrize("name", COMMANDS)
def test_no_transaction_is_larger_than_twice_the_batch(queue: Database, qops: Callable[..., Ran], name: str) -> None:
    """Rows modified and locked stay within twice the batch in each transaction; locks within two for each row moved."""
    weighed, ran = weigh(queue, qops, *COMMANDS[name][1])
    assert ran.code == 0, ran.err
    changes = 2 if name == "archive" else 1  # of one row
    assert sum(modified for modified, _ in weighed) == changes * ROWS
    assert len(weighed) >= ROWS / BATCH
    for modified, locked in weighed:
        assert modified <= 2 * BATCH
        assert locked <= 2 * modified / changes
    assert weighed[-1][0] < changes * BATCH


def test_rows_that_object_do_not_make_a_transaction_larger(queue: Database, qops: Callable[..., Ran]) -> None:
    """Copies that are there already, equal or not, are within the bound too."""
    queue.execute("INSERT INTO jobs_archive SELECT * FROM jobs WHERE status = 'done' AND id % 3 = 0")
    queue.execute("UPDATE jobs_archive SET priority = priority + 1 WHERE id % 30 = 0")
    weighed, ran = weigh(queue, qops, *COMMANDS["archive"][1])
    assert (ran.code, ran.json["batches"]) == (1, 3), ran.err
    assert ran.json["reconciled"] > 0 < len(ran.json["refused"])
    assert max(map(max, weighed)) <= 2 * BATCH


def weigh(queue: Database, qops: Callable[..., Ran], *arguments: Any) -> tuple[list[tuple[int, int]], Ran]:
    """Run a command; return (rows modified, rows locked) of its transactions but the ledger's, and how it ended."""
    scales = Scales(at=0, when="", database=queue)
    with broken_wire(queue, scales) as wired:
        ran = qops(*arguments, "--batch", BATCH, "--url", wired.url, "--format", "json")
    return scales.weighed[1:-1], ran
