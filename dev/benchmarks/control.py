"""A throwaway server under measurement: its durability, its rest between two runs, and what it has used."""

from __future__ import annotations

import math
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dev.benchmarks.tables import connect

if TYPE_CHECKING:
    from dev.server import Server

SERVER_OPTIONS = (
    "--innodb-buffer-pool-size=2G",
    "--loose-innodb-redo-log-capacity=1G",
    "--innodb-io-capacity=10000",
    "--binlog-format=ROW",
    "--local-infile=ON",
    # The history length then says what there is to purge, and not what there was.
    "--innodb-purge-rseg-truncate-frequency=1",
)
_HISTORY = "SELECT count FROM information_schema.innodb_metrics WHERE name = 'trx_rseg_history_len'"
_DIRTY = "SHOW GLOBAL STATUS LIKE 'Innodb_buffer_pool_pages_dirty'"
_FEW_PAGES = 64
_POLL_SECONDS = 0.02


class Control:
    """An administrator's session on a server started with SERVER_OPTIONS; nothing it does is in the binary log."""

    def __init__(self, server: Server) -> None:
        """Connect as the one who may set globals."""
        self.server = server
        connection = connect(server)
        connection.autocommit(True)
        self.cursor = connection.cursor()
        self.run("SET SESSION sql_log_bin = 0, cte_max_recursion_depth = 4294967295")

    def run(self, sql: str, *values: Any) -> None:  # noqa: ANN401 - whatever SQL takes
        """Run a statement and forget its rows."""
        self.cursor.execute(sql, values or None)
        self.cursor.fetchall()

    def number(self, sql: str) -> int:
        """Return the last value of the first row."""
        self.cursor.execute(sql)
        return int(self.cursor.fetchall()[0][-1])

    def durable(self, *, on: bool) -> None:
        """Switch the wait for the disk at every commit on or off, for the redo log and the binary log."""
        self.run("SET GLOBAL innodb_flush_log_at_trx_commit = %s", 1 if on else 2)
        self.run("SET GLOBAL sync_binlog = %s", int(on))

    def purged(self, seconds: float) -> bool:
        """Wait until nothing is left to purge, for so long; return whether that came about."""
        return self._wait(_HISTORY, 0, seconds)

    def settle(self) -> None:
        """Wait until the server owes nothing for what it did before: purge, dirty pages, old binary logs.

        Raises RuntimeError if that takes longer than a few minutes.
        """
        rested = self.purged(180)
        self.run("SET GLOBAL innodb_max_dirty_pages_pct_lwm = 0, GLOBAL innodb_max_dirty_pages_pct = 0")
        rested = self._wait(_DIRTY, _FEW_PAGES, 120) and rested
        self.run("SET GLOBAL innodb_max_dirty_pages_pct = 90, GLOBAL innodb_max_dirty_pages_pct_lwm = 10")
        self.run("FLUSH BINARY LOGS")
        self.run("PURGE BINARY LOGS BEFORE NOW() + INTERVAL 1 DAY")
        if not rested:
            raise RuntimeError("the server does not come to rest: purge or the writing of dirty pages takes too long")

    def redo(self) -> int:
        """Return how many bytes of redo were written since the server was created."""
        return self.number("SHOW GLOBAL STATUS LIKE 'Innodb_redo_log_current_lsn'")

    def cpu(self) -> float:
        """Return the CPU seconds that the server has used; NaN for one in a container."""
        if self.server.pid is None:
            return math.nan
        stat = Path(f"/proc/{self.server.pid}/stat").read_text(encoding="utf-8")
        user, system = stat.rpartition(")")[2].split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")

    def _wait(self, sql: str, most: int, seconds: float) -> bool:
        end = time.monotonic() + seconds
        while self.number(sql) > most:
            if time.monotonic() > end:
                return False
            time.sleep(_POLL_SECONDS)
        return True
