"""Names that need quoting work in every command: they are used literally and quoted everywhere."""

from __future__ import annotations

import secrets
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest

from qops.cli.main import app
from tests.conftest import Database, Ran, fresh_database, run_here
from tests.queues import write_config
from tests.test_init import paste
from tests.test_schema import shown

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from dev.server import Server

ODD_TABLES = [
    "order",
    "my jobs",
    "a.b",
    "back`tick",
    "100%",
    "%s",
    ":x",
    "it's",
    'dou"ble',
    "back\\slash",
    "größe",
    "--",
]
ODD_COLUMNS = """
[queues.odd.columns]
status = "group"
payload = "it's 100%"
claimed_by = "who`s"
lease_until = ":until"
attempts = "%(tries)s"
finished_at = "the end"
[queues.odd.states]
pending = "pending"
running = "running"
done = "done"
failed = "failed"
scheduled = "scheduled"
"""
COMMANDS = {command.name for command in app.registered_commands}
RUNS = [
    ("archive",),
    ("archive", "--older-than", "1h", "--dry-run"),
    ("requeue", "--failed"),
    ("requeue", "--expired"),
    ("promote",),
    ("pause", "--reason", "x"),
    ("resume",),
    ("doctor", "--fail-on", "never"),
    ("health", "--fail-on", "never"),
    ("locks",),
    ("jobs",),
    ("show", "1"),
    ("discard", "1", "--reason", "x"),
    ("release", "--worker", "it's 100%", "--yes"),
    ("expire", "--older-than", "1d", "--yes"),
    ("restore", "2", "--yes"),
    ("history",),
]


@pytest.fixture
def odd_database(main_server: Server) -> Iterator[Database]:
    """Return a schema whose own name needs quoting, on the command line and in SQL."""
    with fresh_database(main_server, f"jobs-prod`{secrets.token_hex(3)} 100%") as database:
        yield database


def odd_url(database: Database) -> str:
    return replace(database, name=quote(database.name, safe="")).url


def run(*arguments: str) -> Ran:
    return run_here(*arguments, "--format", "json")


def backticked(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


@pytest.mark.parametrize("table", ODD_TABLES)
def test_every_command_works_with_odd_names(
    odd_database: Database, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, table: str
) -> None:
    """init, its repair, its script and all other commands do their work on tables whose names need quoting."""
    archive = f"{table} old"
    text = f"[queues.odd]\ntable = '''{table}'''\narchive_table = '''{archive}'''\n{ODD_COLUMNS}"
    write_config(tmp_path, text)
    monkeypatch.setenv("QOPS_URL", odd_url(odd_database))
    assert run("init").code == 0
    assert run("init").json["actions"] == []
    made = shown(odd_database)
    assert set(made) == {table, archive, "qops_runs"}
    spoil(odd_database, backticked(table), backticked(archive))
    assert paste(odd_database, run_here("init", "--repair", "--dry-run").out) == 0
    assert run("init").json["drift"] == []
    spoil(odd_database, backticked(table), backticked(archive))
    assert run("init", "--repair").code == 0
    fill(odd_database, backticked(table))
    for arguments in RUNS:
        if arguments[0] in COMMANDS:
            ran = run(*arguments)
            assert ran.code in {0, 1}, (arguments, ran.out, ran.err)
            assert "error" not in ran.json
    assert odd_database.value(f"SELECT COUNT(*) FROM {backticked(archive)}") > 0


def spoil(database: Database, table: str, archive: str) -> None:
    """Take away what --repair can bring back."""
    database.execute(
        f"ALTER TABLE {table} DROP KEY claim_idx, MODIFY `group` ENUM('pending','running','done','failed') NOT NULL "
        "DEFAULT 'pending'"
    )
    database.execute(f"ALTER TABLE {archive} DROP COLUMN `the end`")


def fill(database: Database, table: str) -> None:
    """Insert jobs in every state, some of them due for something."""
    states: list[tuple[Any, ...]] = [
        ("pending", None),
        ("done", None),
        ("failed", None),
        ("scheduled", None),
        ("running", "it's 100%"),
    ]
    insert = (
        f"INSERT INTO {table.replace('%', '%%')} "
        "(`group`, `it's 100%%`, `who``s`, `:until`, `the end`, available_at) VALUES (%s, '{}', %s, "
        "IF(%s IS NULL, NULL, NOW(6) - INTERVAL 1 MINUTE), IF(%s IN ('done', 'failed'), NOW(6), NULL), "
        "NOW(6) - INTERVAL 1 MINUTE)"
    )
    for state, worker in states * 3:
        database.execute(insert, (state, worker, worker, state))


@pytest.mark.parametrize("index", ["%", "100%", "%s", "50%%", ":x", "a  b"])
def test_an_index_may_have_an_odd_name(odd_database: Database, tmp_path: Path, index: str) -> None:
    """What goes along an index by its name sends that name as it is, and doctor prints it so."""
    odd_database.execute(
        f"CREATE TABLE jobs (id BIGINT PRIMARY KEY, status VARCHAR(9) NOT NULL, KEY {backticked(index)} (status, id))"
    )
    odd_database.execute("INSERT INTO jobs VALUES (1, 'done'), (2, '5  %')")
    config = '[queues.odd]\ntable = "jobs"\norder = ["id"]\n[queues.odd.states]\npending = "pending"\ndone = "done"\n'
    options = ("--url", odd_url(odd_database), "--config", str(write_config(tmp_path, config)))
    assert run("init", *options).code == 0
    checks = {one["id"]: one for one in run("doctor", *options, "--fail-on", "never").json["checks"]}
    assert checks["claim-plan"]["status"] == "pass"
    assert f"key {index}," in checks["claim-plan"]["observed"]
    assert checks["unknown-states"]["observed"] == "'5  %': 1 (id 2)"
    assert "`status` = '5  %' LIMIT" in checks["unknown-states"]["remedy"]
    assert run("health", *options).code in {0, 1}
    assert run("archive", *options).code == 0
    assert odd_database.value("SELECT COUNT(*) FROM jobs_archive") == 1
