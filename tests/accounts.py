"""Accounts with exactly the privileges that a test is about, for as long as it needs them."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conftest import Database

PASSWORD = "pw"


@contextmanager
def account(database: Database, *grants: str) -> Iterator[Database]:
    """Yield `database` as a new account sees it; each grant is like `SELECT ON {db}.jobs`."""
    name = f"u_{database.name}"[:32]
    database.execute(f"CREATE USER '{name}'@'%' IDENTIFIED BY '{PASSWORD}'")
    try:
        for grant in grants:
            database.execute(f"GRANT {grant.replace('{db}', f'`{database.name}`')} TO '{name}'@'%'")
        yield replace(database, user=name, password=PASSWORD)
    finally:
        database.execute(f"DROP USER '{name}'@'%'")


def revoke(database: Database, limited: Database, privileges: str) -> None:
    """Take privileges such as `SELECT ON {db}.jobs` away from an account."""
    database.execute(f"REVOKE {privileges.replace('{db}', f'`{database.name}`')} FROM '{limited.user}'@'%'")
