"""The tables that are compared: the guide's with its one index, the default table with more and more."""

from __future__ import annotations

import dataclasses
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
    "SELECT id, payload FROM jobs WHERE status = 'pending' AND available_at <= NOW(6) "
    "ORDER BY priority DESC, id LIMIT 1 FOR UPDATE SKIP LOCKED",
    "UPDATE jobs SET status = 'running', claimed_by = %s, lease_until = NOW(6) + INTERVAL 5 MINUTE, "
    "attempts = attempts + 1 WHERE id = %s",
)
_COMPLETE = (
    "UPDATE jobs SET status = 'done', lease_until = NULL, finished_at = NOW(6) "
    "WHERE id = %s AND status = 'running' AND claimed_by = %s"
)
_DUE = "CASE status WHEN 'running' THEN lease_until WHEN 'scheduled' THEN available_at END"
_NEXT = "CASE status WHEN 'running' THEN lease_until WHEN 'scheduled' THEN available_at ELSE finished_at END"


@dataclasses.dataclass(frozen=True)
class Variant:
    """A table with its worker's statements; `name` is its database, `indexes` what it has beside claim_idx."""

    name: str
    indexes: tuple[str, ...] = ()
    table: str = _TABLE
    claim: tuple[str, str] = _CLAIM
    complete: str = _COMPLETE
    # What maintenance compares with the clock, where an index is on an expression.
    expires: str = "lease_until"
    promotes: str = "available_at"
    finishes: str = "finished_at"

    @property
    def description(self) -> str:
        """Return the indexes as they are named in a table's row."""
        return " + ".join(self.indexes) or ("guide's table" if self is GUIDE else "claim_idx only")


GUIDE = Variant("guide", table=_GUIDE_TABLE, claim=_GUIDE_CLAIM, complete=_GUIDE_COMPLETE)
LEASE, DUE, END = "(status, lease_until)", "(status, available_at)", "(status, finished_at)"
END_DUE = "(status, finished_at, available_at)"
VARIANTS = (
    GUIDE,
    Variant("plain"),
    Variant("a", (LEASE, DUE, END)),
    Variant("b", ("(lease_until)", DUE, "(finished_at)")),
    Variant("c", (LEASE, END_DUE)),
    Variant("d", ("(lease_until)", END_DUE)),
    Variant("e", (f"(({_DUE}))", END), expires=_DUE, promotes=_DUE),
    Variant("f", ("(lease_until)", DUE, END)),
    Variant("g1", (LEASE,)),
    Variant("g2", (END_DUE,)),
    Variant("h", (f"(status, ({_NEXT}))",), expires=_NEXT, promotes=_NEXT, finishes=_NEXT),
)


def connect(server: Server, database: str = "") -> Any:  # noqa: ANN401 - mysqlclient has no types
    """Return a new mysqlclient connection at READ COMMITTED with autocommit off."""
    connection = MySQLdb.connect(host=server.host, port=server.port, user="root", database=database)
    connection.cursor().execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
    return connection


def create(cursor: Any, variant: Variant) -> None:  # noqa: ANN401 - as above
    """Create the variant's database with its empty table, and make it the current one."""
    cursor.execute(f"CREATE DATABASE {variant.name}")
    cursor.execute(f"USE {variant.name}")
    cursor.execute(variant.table)
    for index in variant.indexes:
        cursor.execute(f"ALTER TABLE jobs ADD KEY {index}")
