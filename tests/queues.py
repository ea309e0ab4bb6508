"""Queues for tests: the default one as `qops init` makes it, rows in every state, and what must hold afterwards."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.conftest import Database, run_here

if TYPE_CHECKING:
    from pathlib import Path

COLUMNS = (
    "id, status, priority, payload, claimed_by, lease_until, available_at, attempts, max_attempts, last_error, "
    "created_at, finished_at"
)

GUIDE = """
CREATE TABLE jobs (
  id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT,
  status ENUM('pending','running','done','failed') NOT NULL DEFAULT 'pending',
  priority INT NOT NULL DEFAULT 0,
  payload JSON NOT NULL,
  claimed_by VARCHAR(64) NULL,
  lease_until TIMESTAMP(6) NULL,
  PRIMARY KEY (id),
  KEY claim_idx (status, priority DESC, id)
) ENGINE=InnoDB
"""
GUIDE_TOML = '[queues.guide]\ntable = "jobs"\narchive_table = "jobs_archive"\n'

RECIPE = """
CREATE TABLE jobs (id INT PRIMARY KEY, task VARCHAR(100), state VARCHAR(20) NOT NULL, KEY (state, id)) ENGINE=InnoDB
"""
RECIPE_TOML = """
[queues.recipe]
table = "jobs"
[queues.recipe.columns]
status = "state"
payload = "task"
[queues.recipe.states]
pending = "queued"
done = "done"
"""

ARTICLE = """
CREATE TABLE job_queue (
  id BIGINT PRIMARY KEY,
  payload JSON NOT NULL,
  status VARCHAR(16) NOT NULL,
  available_at DATETIME NOT NULL,
  lease_until DATETIME NULL,
  attempts INT NOT NULL DEFAULT 0,
  KEY idx_claim (status, available_at, id)
) ENGINE=InnoDB
"""
ARTICLE_TOML = """
[queues.article]
table = "job_queue"
archive_table = "job_queue_archive"
order = ["available_at", "id"]
clock = "utc"
attempts_counted = "requeue"
[queues.article.states]
pending = "ready"
running = "processing"
done = "done"
"""


def init(database: Database, *options: str) -> None:
    """Create the queue with `qops init`."""
    ran = run_here("init", "--url", database.url, "--quiet", *options)
    assert ran.code == 0, ran.err


def fill(database: Database, number: int, **values: str) -> None:
    """Insert `number` jobs into the default table; `values` are SQL expressions, with `n` from 1 on."""
    database.execute("SET SESSION cte_max_recursion_depth = 10000000")
    columns = {"payload": "JSON_OBJECT('n', n)"} | values
    database.execute(
        f"INSERT INTO jobs ({', '.join(columns)}) WITH RECURSIVE s AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM s "
        f"WHERE n < {number}) SELECT {', '.join(columns.values())} FROM s"
    )


def contents(database: Database, table: str, columns: str = COLUMNS) -> dict[Any, tuple[Any, ...]]:
    """Return a table's rows by id, every column as bytes, so that nothing is compared by collation."""
    names = [name.strip() for name in columns.split(",")]
    exact = ", ".join(f"HEX(CAST({name} AS CHAR))" for name in names)
    return {row[0]: row[1:] for row in database.rows(f"SELECT {names[0]}, {exact} FROM `{table}`")}


def counts(database: Database, table: str = "jobs") -> dict[str, int]:
    """Return how many rows a table has in each state."""
    return dict(database.rows(f"SELECT status, COUNT(*) FROM `{table}` GROUP BY status"))


def write_config(folder: Path, text: str) -> Path:
    """Write a qops.toml and return its path."""
    path = folder / "qops.toml"
    path.write_text(text, encoding="utf-8")
    return path
