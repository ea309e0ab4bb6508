"""The GRANT statements that qops prints: they run as they stand, and they are enough."""

from __future__ import annotations

import itertools
import os
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from qops.cli.main import app
from qops.privileges import NEEDS, grant, grants_for
from qops.queue_settings import QueueSettings
from tests.accounts import account
from tests.conftest import Database, Ran, fresh_database, run_here
from tests.queues import fill, init

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dev.server import Server

_numbers = itertools.count()
COMMANDS = {
    "init": ["init"],
    "doctor": ["doctor"],
    "archive": ["archive"],
    "requeue": ["requeue", "--failed"],
    "promote": ["promote"],
    "pause": ["pause"],
    "resume": ["resume"],
    "health": ["health"],
    "locks": ["locks"],
    "jobs": ["jobs"],
    "show": ["show", "1"],
    "discard": ["discard", "2", "--reason", "x"],
    "release": ["release", "--worker", "w"],
    "expire": ["expire"],
    "restore": ["restore", "1"],
    "history": ["history"],
}
KNOWN = sorted({str(command.name) for command in app.registered_commands} & set(COMMANDS))


@pytest.fixture
def odd_schema(main_server: Server) -> Iterator[Database]:
    """Return a schema with the default queue and a few jobs; its name has a wildcard of GRANT."""
    with fresh_database(main_server, f"my_q-{os.getpid()}_{next(_numbers)}") as database:
        yield database


def prepare(database: Database, command: str) -> None:
    if command == "init":
        return
    init(database)
    fill(database, 2, status="'done'", finished_at="NOW(6)")
    fill(database, 2, status="'failed'")


def run(database: Database, command: str) -> Ran:
    return run_here(*COMMANDS[command], "--url", database.url, "--format", "json")


def refused(ran: Ran) -> bool:
    return ran.code == 77


@pytest.mark.parametrize("command", KNOWN)
def test_the_printed_grants_run_and_are_enough(odd_schema: Database, command: str) -> None:
    """An account without rights is told what an administrator can run (77); after that, the command works."""
    prepare(odd_schema, command)
    with account(odd_schema, "CREATE ROUTINE ON {db}.*") as limited:
        ran = run(limited, command)
        if command == "doctor":
            assert ran.code in {1, 2}  # says what it could not see
            text = grants_for(command, QueueSettings())(f"{limited.user}@%", odd_schema.name)
        else:
            assert refused(ran), ran
            text = ran.json["error"]["message"].partition("can run:\n")[2]
        assert text.startswith("GRANT ")
        for statement in text.splitlines():
            odd_schema.execute(statement.rstrip(";"))
        ran = run(limited, command)
        assert not refused(ran), ran
        assert ran.code in {0, 1, 2}, ran
        assert "denied" not in ran.err


@pytest.mark.parametrize("command", KNOWN)
def test_what_is_optional_can_be_left_out(odd_schema: Database, command: str) -> None:
    """With the required privileges alone a command works, and says on stderr what it cannot do without the others."""
    prepare(odd_schema, command)
    with account(odd_schema) as limited:
        for need in NEEDS[command]:
            if not need.optional:
                odd_schema.execute(grant(need, QueueSettings(), f"{limited.user}@%", odd_schema.name).rstrip(";"))
        ran = run(limited, command)
    assert not refused(ran), ran
    assert ran.code in {0, 1, 2}, ran


@pytest.mark.parametrize("command", KNOWN)
def test_every_command_has_its_needs(command: str) -> None:
    """No command is without an entry, so no refusal is without its GRANT."""
    assert NEEDS[command]


def test_a_schema_level_grant_does_not_reach_other_schemas(odd_schema: Database, main_server: Server) -> None:
    """The wildcards of GRANT in a schema's name are taken literally."""
    other = odd_schema.name.replace("_", "x", 1)
    with fresh_database(main_server, other), account(odd_schema) as limited:
        for need in NEEDS["init"]:
            odd_schema.execute(grant(need, QueueSettings(), f"{limited.user}@%", odd_schema.name).rstrip(";"))
        ran = run_here("init", "--url", replace(limited, name=other).url)
    assert ran.code == 77
