"""The tables that are compared: the guide's with its one index, the default table with more and more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import MySQLdb

if TYPE_CHECKING:
    from dev.server import Server

_GUIDE_TABLE = """
CREATE TABLE jobs (
  id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT,
  status ENUM('pending','running','done','failed') NOT NULL DEFAULT 'pending',
  priority INT NOT NULL DEFAULT 0,
  payload JSON NOT NULL,
  claimed_by VARCHAR(64) NULL,
  lease_until TIMESTAMP(6) NULL,
  PRIMARY KEY (id),
  KEY claim_idx (status, priority DESC, id)
) ENGINE=InnoDB"""

_TABLE = """
CREATE TABLE jobs (
  id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT,
  status ENUM('pending','running','done','failed','scheduled') NOT NULL DEFAULT 'pending',
  priority INT NOT NULL DEFAULT 0,
  payload JSON NOT NULL,
  available_at TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
  claimed_by VARCHAR(64) NULL,
  lease_until TIMESTAMP(6) NULL,
  attempts INT UNSIGNED NOT NULL DEFAULT 0,
  max_attempts INT UNSIGNED NOT NULL DEFAULT 5,
  last_error TEXT NULL,
  created_at TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
  finished_at TIMESTAMP(6) NULL,
  PRIMARY KEY (id),
  KEY claim_idx (status, priority DESC, id)
) ENGINE=InnoDB"""

_GUIDE_CLAIM = (
    "SELECT id, payload FROM jobs WHERE status = 'pending' ORDER BY priority DESC, id LIMIT 1 FOR UPDATE SKIP LOCKED",
    "UPDATE jobs SET status = 'running', claimed_by = %s, lease_until = NOW(6) + INTERVAL 5 MINUTE WHERE id = %s",
)
_GUIDE_COMPLETE = (
    "UPDATE jobs SET status = 'done', lease_until = NULL WHERE id = %s AND status = 'running' AND claimed_by = %s"
)
_CLAIM = (
    """
SELECT id, payload FROM jobs WHERE status = 'pending' AND available_at <= NOW(6)
ORDER BY priority DESC, id LIMIT 1 FOR UPDATE SKIP LOCKED""",
    """
UPDATE jobs SET status = 'running', claimed_by = %s, lease_until = NOW(6) + INTERVAL 5 MINUTE, attempts = attempts + 1
WHERE id = %s""",
)
_COMPLETE = (
    "UPDATE jobs SET status = 'done', lease_until = NULL, finished_at = NOW(6) "
    "WHERE id = %s AND status = 'running' AND claimed_by = %s"
)
_DUE = "CASE status WHEN 'running' THEN lease_until WHEN 'scheduled' THEN available_at END"
_NEXT = "CASE status WHEN 'running' THEN lease_until WHEN 'scheduled' THEN available_at ELSE finished_at END"


@dataclass(frozen=True)
class Variant:
    """A table with its worker's statements; `name` is its database, `indexes` are those beside claim_idx."""

    name: str
    indexes: tuple[str, ...] = ()
    table: str = _TABLE
    claim: tuple[str, str] = _CLAIM
    complete: str = _COMPLETE
    # What maintenance compares with the clock: the column, or the expression that is indexed.
    lease: str = "lease_until"
    available: str = "available_at"
    finished: str = "finished_at"

    def label(self) -> str:
        """Return what the variant is called in a table."""
        return " + ".join(f"`{index}`" for index in self.indexes) or "none"


_LEASE, _AVAILABLE, _FINISHED = "(status, lease_until)", "(status, available_at)", "(status, finished_at)"
BOTH = "(status, finished_at, available_at)"
"""Leads to finished jobs by their age and, where finished_at is NULL, to scheduled ones by their time."""

GUIDE = Variant("guide", table=_GUIDE_TABLE, claim=_GUIDE_CLAIM, complete=_GUIDE_COMPLETE)
CLAIM_ONLY = Variant("claim_idx")
DEFAULT = Variant("lease_available_finished", (_LEASE, _AVAILABLE, _FINISHED))
"""What `qops init` creates."""

VARIANTS = (
    CLAIM_ONLY,
    Variant("lease", (_LEASE,)),
    Variant("both", (BOTH,)),
    Variant("lease_both", (_LEASE, BOTH)),
    DEFAULT,
    Variant("bare_lease_both", ("(lease_until)", BOTH)),
    Variant("bare_lease_available_finished", ("(lease_until)", _AVAILABLE, _FINISHED)),
    Variant("bare_lease_available_bare_finished", ("(lease_until)", _AVAILABLE, "(finished_at)")),
    Variant("expression_finished", (f"(({_DUE}))", _FINISHED), lease=_DUE, available=_DUE),
    Variant("expression", (f"(status, ({_NEXT}))",), lease=_NEXT, available=_NEXT, finished=_NEXT),
)
"""The default table with each set of indexes."""


def connect(server: Server, database: str = "") -> Any:  # noqa: ANN401 - mysqlclient has no types
    """Return a new mysqlclient connection at READ COMMITTED, autocommit off."""
    connection = MySQLdb.connect(host=server.host, port=server.port, user="root", database=database)
    connection.cursor().execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
    return connection


def create(cursor: Any, variant: Variant) -> None:  # noqa: ANN401 - as above
    """Create the variant's database with its empty table, and make it the current one."""
    cursor.execute(f"CREATE DATABASE `{variant.name}`")
    cursor.execute(f"USE `{variant.name}`")
    cursor.execute(variant.table)
    for index in variant.indexes:
        cursor.execute(f"ALTER TABLE jobs ADD KEY {index}")
