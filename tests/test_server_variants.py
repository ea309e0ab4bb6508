"""Servers that are set up differently, or are another product, are recognised and nothing is taken for granted."""

from __future__ import annotations

import re
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from dev.server import private_server
from qops.cli.main import app
from qops.db import statement
from qops.errors import Misconfigured
from qops.worker import open_worker
from tests.accounts import account
from tests.conftest import Database, fresh_database, run_here
from tests.queues import counts, fill, init

if TYPE_CHECKING:
    from collections.abc import Iterator

QUERIES = Path(__file__).parent.parent / "qops" / "queries"
EVERY_COMMAND = (
    ("init",),
    ("doctor", "--fail-on", "never"),
    ("health", "--fail-on", "never"),
    ("archive",),
    ("requeue", "--expired"),
    ("promote",),
    ("pause",),
    ("resume",),
    ("history",),
)
OF_THE_DRIVER = re.compile("SET NAMES utf8mb4", re.IGNORECASE)
"""What the driver sends of its own while it connects; nothing of it is MySQL's alone."""
PRIVILEGED = re.compile(
    r"\s*SET\b.*(sql_log_bin|binlog_format|sql_require_primary_key|\bGLOBAL\b|\bPERSIST)", re.IGNORECASE
)


def statuses(database: Database) -> dict[str, str]:
    ran = run_here("doctor", "--url", database.url, "--format", "json")
    return {check["id"]: check["status"] for check in ran.json["checks"]}


def observed(database: Database, id_: str) -> str:
    ran = run_here("doctor", "--url", database.url, "--only", id_, "--format", "json")
    return str(ran.json["checks"][0]["observed"])


def test_statement_logging_is_found_before_it_hurts() -> None:
    """With binlog_format=STATEMENT doctor says why nothing can work, and archive stops before it touches a row."""
    with private_server(options=["--binlog-format=STATEMENT"]) as server, fresh_database(server) as database:
        init(database)
        database.execute("SET SESSION transaction_isolation = 'REPEATABLE-READ'")
        fill(database, 3, status="'done'", finished_at="NOW(6)")
        ran = run_here("doctor", "--url", database.url, "--format", "json")
        assert (ran.code, ran.json["verdict"]) == (2, "critical")
        assert statuses(database)["binlog-format"] == "critical"
        assert "1665" in observed(database, "binlog-format")
        archived = run_here("archive", "--url", database.url, "--format", "json")
        assert archived.code == 78
        assert "binlog_format" in archived.json["error"]["message"]
        assert counts(database) == {"done": 3}


def test_statement_format_does_not_matter_without_a_log() -> None:
    """With the binary log off the format is not applicable, and archive works."""
    options = ["--skip-log-bin", "--binlog-format=STATEMENT"]
    with private_server(options=options) as server, fresh_database(server) as database:
        init(database)
        fill(database, 3, status="'done'", finished_at="NOW(6)")
        assert statuses(database)["binlog-format"] == "pass"
        assert observed(database, "binlog-format").startswith("not applicable")
        assert run_here("archive", "--url", database.url).code == 0
        assert counts(database, "jobs_archive") == {"done": 3}


def test_without_performance_schema_sessions_are_unknown() -> None:
    """Where performance_schema is OFF its empty tables are not taken for a server without sessions."""
    options = ["--performance-schema=OFF", "--transaction-isolation=READ-COMMITTED"]
    with private_server(options=options) as server, fresh_database(server) as database:
        init(database)
        found = {id_: status for id_, status in statuses(database).items() if status != "pass"}
        assert found == {
            "performance-schema": "warning",
            "worker-isolation": "unknown",
            "autocommit-claims": "unknown",
            "skip-locked": "unknown",
            "sorted-claims": "unknown",
            "rows-examined": "unknown",
            "lease-length": "unknown",
            "lock-errors": "unknown",
        }


def test_a_managed_server_is_enough() -> None:
    """An account with schema privileges and PROCESS runs every command, and nothing sets what needs more."""
    with private_server() as server, fresh_database(server) as database:
        grants = ("SELECT, INSERT, UPDATE, DELETE, CREATE, INDEX ON {db}.*", "PROCESS ON *.*")
        with account(database, *grants) as limited:
            database.execute("SET GLOBAL log_output = 'TABLE'")
            database.execute("SET GLOBAL general_log = ON")
            codes = {line[0]: run_here(*line, "--url", limited.url, "--quiet").code for line in EVERY_COMMAND}
            database.execute("SET GLOBAL general_log = OFF")
            assert codes == dict.fromkeys(codes, 0)
            sent = statements(database, limited)
    assert any("FOR UPDATE" in text or "GLOBAL VARIABLES" in text for text in sent)
    assert [text for text in sent if PRIVILEGED.match(text)] == []


def statements(database: Database, limited: Database) -> list[str]:
    """Return what an account sent, from the general log."""
    rows = database.rows(
        "SELECT CONVERT(argument USING utf8mb4) FROM mysql.general_log WHERE user_host LIKE %s", (f"{limited.user}%",)
    )
    return [str(text) for (text,) in rows]


@pytest.fixture(scope="module")
def mariadb() -> Iterator[Any]:
    with private_server(product="mariadb") as server:
        yield server


@contextmanager
def listening(database: Database) -> Iterator[list[str]]:
    """Yield a list that holds, once the `with` is over, what others sent to the server meanwhile."""
    sent: list[str] = []
    database.execute("TRUNCATE mysql.general_log")
    database.execute("SET GLOBAL log_output = 'TABLE'")
    database.execute("SET GLOBAL general_log = ON")
    try:
        yield sent
    finally:
        database.execute("SET GLOBAL general_log = OFF")
    own = database.value("SELECT CONNECTION_ID()")
    rows = database.rows(
        "SELECT command_type, argument FROM mysql.general_log WHERE thread_id <> %s",
        (own,),
    )
    connected = "SELECT COUNT(*) FROM mysql.general_log WHERE thread_id <> %s AND command_type = 'Connect'"
    assert database.value(connected, (own,)) > 0
    sent += [str(text) for kind, text in rows if kind not in {"Connect", "Quit"}]


@pytest.mark.breaks("server-version")
def test_mariadb_is_named_and_left_alone(mariadb: Any, database: Database) -> None:
    """On MariaDB doctor answers with one critical check and exit 2, everything else skipped, nothing sent."""
    with fresh_database(mariadb) as maria, listening(maria) as sent:
        ran = run_here("doctor", "--url", maria.url, "--format", "json")
    assert (ran.code, ran.json["verdict"]) == (2, "critical")
    version = ran.json["server"]["version"]
    assert ran.json["server"] == {"flavor": "MariaDB", "version": version, "host": maria.host, "port": maria.port}
    assert re.fullmatch(r"1\d\.\d+\.\d+", version)
    by_id = {check["id"]: check for check in ran.json["checks"]}
    found = by_id.pop("server-version")
    assert found["status"] == "critical"
    assert {check["status"] for check in by_id.values()} == {"skipped"}
    assert [text for text in sent if not OF_THE_DRIVER.fullmatch(text)] == []
    # The remedy is to connect to MySQL instead.
    assert found["remedy"].startswith("-- connect qops to MySQL")
    assert observed(database, "server-version").startswith("MySQL ")
    assert statuses(database)["server-version"] == "pass"


def test_mariadb_in_a_table(mariadb: Any) -> None:
    """The table says what the server is, and that it is not supported."""
    with fresh_database(mariadb) as database:
        ran = run_here("doctor", "--url", database.url)
    assert ran.code == 2
    assert "MariaDB" in ran.out
    assert "not supported" in ran.out


REFUSED = (
    *EVERY_COMMAND,
    ("expire", "--older-than", "1d"),
    ("restore", "1"),
    ("jobs",),
    ("show", "1"),
    ("discard", "1", "--reason", "x"),
    ("release", "--worker", "w"),
)


@pytest.mark.parametrize("line", [line for line in REFUSED if line[0] != "doctor"], ids=lambda line: line[0])
def test_other_commands_refuse_mariadb(mariadb: Any, line: tuple[str, ...]) -> None:
    """Every other command is exit 78, names the product and its version, and has sent nothing."""
    with fresh_database(mariadb) as database, listening(database) as sent:
        ran = run_here(*line, "--url", database.url, "--format", "json")
    assert ran.code == 78
    assert "MariaDB 1" in ran.json["error"]["message"]
    assert [text for text in sent if not OF_THE_DRIVER.fullmatch(text)] == []


def test_every_command_was_tried_on_mariadb() -> None:
    """No command is left out of these tests."""
    assert {line[0] for line in REFUSED} == {command.name for command in app.registered_commands}


def test_a_worker_refuses_mariadb(mariadb: Any) -> None:
    """So does the Worker class."""
    with (
        fresh_database(mariadb) as database,
        listening(database) as sent,
        pytest.raises(Misconfigured, match="MariaDB 1"),
    ):
        open_worker("w", url=database.url)
    assert [text for text in sent if not OF_THE_DRIVER.fullmatch(text)] == []


@pytest.mark.parametrize("name", [path.stem for path in sorted(QUERIES.glob("*.sql"))])
def test_queries_name_their_columns(database: Database, name: str) -> None:
    """Every query has lower-case names of its own, since 8.0 returns the dictionary's in upper case, and it runs."""
    query = statement(name)
    if "SELECT" not in query.text:
        pytest.skip("SHOW and SET have the server's own names, and are read by position")
    many: list[sa.BindParameter[object]] = [
        sa.bindparam(key, expanding=True) for key in ("ids",) if f":{key}" in query.text
    ]
    values = {key: [0] if key == "ids" else "0" for key in re.findall(r"(?<!:):([a-z]+)", query.text)}
    with database.server().observe() as connection:
        keys = list(connection.execute(query.bindparams(*many), values).keys())
    assert keys == [key.lower() for key in keys]
    assert len(set(keys)) == len(keys)
