"""What the archiver reads depends on what it moves, not on what else there is."""

from __future__ import annotations

import os

from tests.accounts import account
from tests.conftest import Database, run_process
from tests.measure import spent_by
from tests.queues import fill, init

PENDING = int(os.environ.get("QOPS_TEST_PENDING", "30000"))
DONE, IDLE_BOUND = 10_000, 2_000


def test_rows_examined_stay_below_four_for_each_row_moved(database: Database) -> None:
    """With many pending jobs before and after the done ones, all of qops' statements examine fewer than 4 rows a move.

    Catalog and performance schema included. A second run, with nothing to do, is cheap.
    """
    init(database)
    fill(database, PENDING, priority="n % 5")
    fill(database, DONE, status="'done'", finished_at="NOW(6) - INTERVAL n SECOND")
    fill(database, PENDING, priority="n % 5")
    with account(database, "ALL ON {db}.*", "PROCESS ON *.*", "SELECT ON performance_schema.*") as mine:
        before = spent_by(database, mine.user)
        ran = run_process("archive", "--pause", "0s", "--format", "json", url=mine.url, timeout=150)
        middle = spent_by(database, mine.user)
        assert (ran.code, ran.json["archived"]) == (0, DONE), ran.err
        again = run_process("archive", "--pause", "0s", "--format", "json", url=mine.url)
        after = spent_by(database, mine.user)
    assert (again.code, again.json["archived"]) == (0, 0), again.err
    spent, idle = middle - before, after - middle
    print(f"{spent.examined / DONE:.3f} rows examined for each moved; {idle.examined} by a run without work")  # noqa: T201 - the number of interest
    assert spent.examined < 4 * DONE
    assert idle.examined < IDLE_BOUND
