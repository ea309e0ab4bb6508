"""Doctor never hurts: what it reads does not grow with the table, nor with the locks that somebody holds."""

from __future__ import annotations

import time
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from dev.server import private_server
from qops.doctor.rows import FINISHED_BOUND
from qops.doctor.sampling import BOUND
from tests.accounts import account
from tests.conftest import Database, Ran, fresh_database, run_process
from tests.measure import Spent, spent_by
from tests.queues import fill, init

if TYPE_CHECKING:
    from collections.abc import Iterator

SMALL, LARGE = 10_000, 500_000
SECONDS = 5
"""Of the whole process, as promised."""
OPTIONS = (
    "--transaction-isolation=READ-COMMITTED",
    "--skip-log-bin",
    "--innodb-buffer-pool-size=512M",
    "--loose-innodb-redo-log-capacity=512M",
)
STATES = "ELT(1 + n % 8, 'pending', 'running', 'scheduled', 'failed', 'done', 'done', 'done', 'done')"
PAST = "NOW(6) - INTERVAL 1 HOUR - INTERVAL n SECOND"
GRANTS = ("ALL ON {db}.*", "PROCESS ON *.*", "SELECT ON performance_schema.*")


@pytest.fixture
def queue() -> Iterator[Database]:
    """Give a queue on a server of its own; its jobs are overdue in every way that is looked for."""
    with private_server(options=OPTIONS) as server, fresh_database(server) as database:
        init(database)
        fill(
            database,
            SMALL,
            status=STATES,
            priority="n % 5",
            available_at=PAST,
            lease_until=PAST,
            finished_at=PAST,
            attempts="n % 7",
        )
        yield database


def grow(database: Database, rows: int) -> None:
    """Double the jobs until there are so many; the indexes are quicker made afterwards."""
    indexes = database.rows(
        "SELECT DISTINCT index_name FROM information_schema.statistics "
        "WHERE table_schema = DATABASE() AND table_name = 'jobs' AND index_name <> 'PRIMARY'"
    )
    database.execute(f"ALTER TABLE jobs {', '.join(f'DROP INDEX {name}' for (name,) in indexes)}")
    columns = "status, priority, payload, available_at, lease_until, finished_at, attempts"
    while (have := database.value("SELECT COUNT(*) FROM jobs")) < rows:
        database.execute(f"INSERT INTO jobs ({columns}) SELECT {columns} FROM jobs LIMIT {rows - have}")
    init(database, "--repair")


def examine(database: Database, mine: Database) -> tuple[Ran, Spent, float]:
    """Run doctor as a process; return what it said, what its statements read, and the seconds that it took."""
    before, started = spent_by(database, mine.user), time.monotonic()
    ran = run_process("doctor", "--format", "json", "--fail-on", "never", url=mine.url)
    seconds = time.monotonic() - started
    return ran, spent_by(database, mine.user) - before, seconds


def statuses(ran: Ran) -> dict[str, Any]:
    return {check["id"]: check["status"] for check in ran.json["checks"]}


def test_a_large_table_with_many_locks_costs_no_more_than_the_bounds(queue: Database) -> None:
    """With 500,000 jobs, all locked by somebody, doctor sees all, in time, and reads what its bounds allow."""
    with account(queue, *GRANTS) as mine, closing(queue.connect()) as holder:
        small, spent_small, _ = examine(queue, mine)
        grow(queue, LARGE)
        large, spent_large, _ = examine(queue, mine)
        holder.cursor().execute("SELECT COUNT(*) FROM jobs FOR UPDATE")
        locked, spent_locked, seconds = examine(queue, mine)
        for _ in range(2):  # the machine may be busy with something else
            seconds = seconds if seconds < SECONDS else examine(queue, mine)[2]
    assert queue.value("SELECT COUNT(*) FROM jobs") == LARGE
    for ran in (small, large, locked):
        assert ran.code == 0, ran.err
        assert not {"unknown", "skipped"} & set(statuses(ran).values()), ran.out
    assert {statuses(large)[id_] for id_ in ("expired-leases", "scheduled-promotion", "finished-rows")} == {"warning"}
    assert statuses(locked) == statuses(large)
    assert spent_large.examined < spent_small.examined + 2 * FINISHED_BOUND + 20 * BOUND
    assert spent_locked.examined < spent_large.examined + 5 * BOUND
    assert seconds < SECONDS
