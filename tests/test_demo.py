"""The parts of the demo: it notes what is not as it should be, shows no password, and leaves no process behind.

The whole of it is run by `make demo` and by .ci/run.
"""

from __future__ import annotations

import signal
from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import dev.demo.database
from dev.demo.crew import BATCH, Crew
from dev.demo.terminal import Terminal, environment
from tests import queues
from tests.accounts import account

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from dev.server import Server
    from tests.conftest import Database

HELD = "SELECT COUNT(*) FROM jobs WHERE status = 'running' AND claimed_by = 'w'"


def test_a_command_is_shown_with_its_output_and_a_wrong_exit_code_is_noted(
    database: Database, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is shown is the command line, all it says, and its exit code; one that was not expected is a problem."""
    terminal = Terminal(environment(database.url, None, tmp_path), tmp_path)
    terminal.qops("pause", expect=(78,))
    terminal.qops("init --quiet")
    assert terminal.problems == []
    terminal.qops("promote --batch 0")
    assert terminal.problems == ["qops promote --batch 0: exit 64 instead of 0"]
    shown = capsys.readouterr().out
    assert "$ qops pause\n" in shown
    assert "'qops_runs' does not exist" in shown
    assert "(exit 64)\n" in shown


def test_the_demo_runs_on_nothing_but_its_own_configuration(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A developer's own QOPS_ variables and home do not reach the demo's commands."""
    monkeypatch.setenv("QOPS_QUEUE", "other")
    names = {name: value for name, value in environment("mysql://h/d", "pw", tmp_path).items() if "QOPS" in name}
    assert names == {"QOPS_URL": "mysql://h/d", "QOPS_PASSWORD": "pw"}
    assert environment("mysql://h/d", None, tmp_path)["HOME"] == str(tmp_path)


def test_the_url_that_the_demo_shows_has_no_password(
    database: Database, main_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The schema is made anew, and its URL is the server's without the password."""
    monkeypatch.setattr(dev.demo.database, "SCHEMA", database.name)
    queues.init(database)
    with account(database) as limited:
        database.execute(f"GRANT ALL ON *.* TO '{limited.user}'@'%'")
        server = replace(main_server, url=f"mysql://{limited.user}:{limited.password}@{limited.host}:{limited.port}/")
        with dev.demo.database.fresh(server) as fresh:
            assert fresh.run("SHOW TABLES") == []
            assert fresh.password == limited.password
            parts = urlsplit(fresh.url)
            assert (parts.username, parts.password, parts.path) == (limited.user, None, f"/{database.name}")
            assert (parts.hostname, parts.port) == (limited.host, limited.port)


def test_a_worker_is_killed_with_jobs_in_hand_and_none_is_left_behind(database: Database, tmp_path: Path) -> None:
    """The victim dies while it holds jobs; whatever happens, no worker outlives the crew."""
    queues.init(database)
    queues.fill(database, 500, payload="JSON_OBJECT('fails', 0)")
    with Crew(environment(database.url, None, tmp_path)) as crew:
        crew.start("w", "other")
        assert crew.kill_when("w", lambda: database.value(HELD) > BATCH // 2, seconds=60)
        assert database.value(HELD) > BATCH // 2
        other = crew.processes["other"]
        assert set(crew.processes) == {"other"}
    assert other.returncode == -signal.SIGKILL
