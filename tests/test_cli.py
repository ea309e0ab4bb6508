"""The frame around commands: streams, formats, exit codes, signals, terminals; the same for every command."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import socket
import subprocess
import sys
from typing import Any

import pytest

from qops.cli.main import app
from tests.accounts import account
from tests.conftest import Database, Ran, run_here, run_process, start_process, wait_until
from tests.queues import fill, init

PROBE = """
import sys, time, warnings
from typing import Annotated
import typer
from qops.cli import main as entry
from qops.cli.command import register
from qops.errors import Failure, TryLater
from qops.report import Report, Table

ODD = "\\U0001f600 \\u00e9 \\x1b[31m\\x07\\u202e\\udcff line\\nline"

def probe(invocation, *, what: str = "", number: int = 0):
    '''Do what a test wants.'''
    if what == "odd":
        invocation.events.inform(ODD)
        table = Table(("text",), ((ODD,), (b"\\xff\\xfe",)), ODD)
        return Report({"text": ODD, "bytes": b"\\xff\\xfe"}, (table,), (ODD,))
    if what == "large":
        return Report({"text": ["x" * 100] * 100_000}, (Table(("text",), (("x" * 100,),) * 100_000),))
    if what == "speak":
        warnings.warn("a library is deprecated", DeprecationWarning)
        warnings.warn("a library is worried", RuntimeWarning)
        for say in ("progress", "inform", "warn", "detail"):
            getattr(invocation.showing_progress(True).events, say)(say)
        return Report({"done": True}, (), ("done",))
    if what == "sleep":
        print("ready", file=sys.stderr, flush=True)
        time.sleep(60)
    if what == "query":
        with invocation.server().session() as connection:
            connection.exec_driver_sql("SELECT SLEEP(60)")
    if what == "failed":
        return Report({"done": 3}, (), ("three were done",), 0, Failure(75, "try-later", "the fourth was locked"))
    if what == "raise":
        raise TryLater("locked\\x1b[2J\\nGRANT x;")
    return Report({"number": number}, (), (f"number {number}",), number)

register(entry.app, probe)
entry.main()
"""


def probe(
    *options: str, environment: dict[str, str] | None = None, **settings: Any
) -> subprocess.CompletedProcess[str]:
    """Run the command `probe`, which is registered like a real one, as a process of its own."""
    command = [sys.executable, "-c", PROBE, "probe", *options]
    defaults: dict[str, Any] = {"stdin": subprocess.DEVNULL, "timeout": 60, "encoding": "utf-8"}
    if not {"stdout", "stderr"} & set(settings):
        defaults["capture_output"] = True
    return subprocess.run(command, check=False, env={**os.environ, **(environment or {})}, **(defaults | settings))


# The command line

COMMANDS = sorted(command.name for command in app.registered_commands if command.name)
ARGUMENTS = {
    "requeue": ["--failed"],
    "restore": ["1", "--yes"],
    "show": ["1"],
    "discard": ["1", "--reason", "x", "--yes"],
    "release": ["--worker", "w", "--yes"],
}
ENDLESS = {"schedule"}


def commands() -> list[list[str]]:
    return [[name, *ARGUMENTS.get(name, [])] for name in COMMANDS if name not in ENDLESS]


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["bogus"],
        ["--bogus"],
        ["archive", "--bogus"],
        ["archive", "word"],
        ["archive", "--batch"],
        ["archive", "--batch", "x"],
        ["archive", "--batch", "0"],
        ["archive", "--older-than", "soon"],
        ["archive", "--format", "xml"],
    ],
)
@pytest.mark.parametrize("as_json", ["no", "flag", "environment"])
def test_a_wrong_command_line(words: list[str], as_json: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit 64, the reason on stderr, and where JSON was asked for an error object and nothing else on stdout."""
    if as_json == "environment":
        monkeypatch.setenv("QOPS_FORMAT", "json")
    if as_json == "flag":
        if "xml" in words or not words:
            return
        words = [words[0], "--format", "json", *words[1:]] if words[0] == "archive" else [*words, "--format", "json"]
    ran = run_here(*words)
    assert ran.code == 64
    assert re.search(r"^qops: error: .+", ran.err, re.MULTILINE)
    if as_json == "no" or "xml" in words:
        assert ran.out == ""
    else:
        assert set(ran.json) == {"error"}
        assert (ran.json["error"]["exit"], ran.json["error"]["kind"]) == (64, "usage")


def test_help_names_every_command_and_the_common_options() -> None:
    """`qops --help` names the commands; `qops COMMAND --help` the options that all commands share."""
    ran = run_here("--help")
    assert ran.code == 0
    assert all(re.search(rf"^  {name} ", ran.out, re.MULTILINE) for name in COMMANDS)
    common = ("--url", "--defaults-file", "--defaults-group", "--config", "--queue", "--format", "--quiet", "--verbose")
    for name in COMMANDS:
        ran = run_here(name, "--help")
        assert ran.code == 0
        assert ran.err == ""
        assert not [option for option in common if option not in ran.out], name


def test_without_a_command_the_help_goes_to_stderr() -> None:
    """`qops` alone shows what there is, and is wrong."""
    ran = run_here()
    assert (ran.code, ran.out) == (64, "")
    assert "archive" in ran.err


@pytest.mark.parametrize("words", commands(), ids=lambda words: words[0])
def test_a_dead_server(words: list[str]) -> None:
    """Each command says in one line that the server is not there (69), and in one JSON document where asked for."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    ran = run_here(*words, "--url", f"mysql://u@127.0.0.1:{port}/d")
    assert (ran.code, ran.out, len(ran.err.splitlines())) == (69, "", 1), ran
    assert str(port) in ran.err
    ran = run_here(*words, "--url", f"mysql://u@127.0.0.1:{port}/d", "--format", "json")
    assert ran.code == 69
    assert set(ran.json) == {"error"}
    assert ran.json["error"].keys() == {"exit", "kind", "message"}
    assert (ran.json["error"]["exit"], ran.json["error"]["kind"]) == (69, "unavailable")


@pytest.mark.parametrize("words", commands(), ids=lambda words: words[0])
def test_an_unknown_queue_and_a_missing_configuration(words: list[str], database: Database) -> None:
    """Each command refuses a queue that is not configured, and a configuration that is not there (78)."""
    for options in (["--queue", "nothing"], ["--config", "nothing.toml"]):
        ran = run_here(*words, *options, "--url", database.url, "--format", "json")
        assert ran.code == 78
        assert "nothing" in ran.json["error"]["message"]


@pytest.mark.parametrize("words", commands(), ids=lambda words: words[0])
def test_json_is_one_document(words: list[str], database: Database) -> None:
    """On an empty queue each command prints one JSON document, whatever it has to say."""
    init(database)
    ran = run_process(*words, "--format", "json", url=database.url)
    assert isinstance(json.loads(ran.out), dict), ran
    assert ran.out.count("\n") == 1
    assert "Traceback" not in ran.err
    assert ran.code in {0, 1, 2, 75}, ran


@pytest.mark.parametrize("words", commands(), ids=lambda words: words[0])
def test_one_connection_is_enough(words: list[str], database: Database) -> None:
    """Each command works for an account that may have one connection at a time: an incident may take the rest."""
    init(database)
    with account(database, "ALL ON {db}.*", "SELECT ON performance_schema.*") as limited:
        database.execute(f"GRANT PROCESS, REPLICATION CLIENT ON *.* TO '{limited.user}'@'%'")
        database.execute(f"ALTER USER '{limited.user}'@'%' WITH MAX_USER_CONNECTIONS 1")
        ran = run_here(*words, "--url", limited.url, "--format", "json")
    assert ran.code in {0, 1, 2}, ran
    assert "max_user_connections" not in ran.out + ran.err


# Formats and streams


def test_flag_beats_environment_for_the_format() -> None:
    """`--format` beats QOPS_FORMAT, and without either the output is a table."""
    assert probe().stdout == "number 0\n"
    assert json.loads(probe(environment={"QOPS_FORMAT": "json"}).stdout) == {"number": 0}
    assert probe("--format", "table", environment={"QOPS_FORMAT": "json"}).stdout == "number 0\n"
    assert probe(environment={"QOPS_FORMAT": ""}).stdout == "number 0\n"


@pytest.mark.parametrize("code", [0, 1, 2])
def test_the_exit_code_comes_from_the_result(code: int) -> None:
    """What a report says is what the process returns."""
    assert probe("--number", str(code)).returncode == code


def test_quiet() -> None:
    """A successful quiet run prints nothing at all; one that needs attention prints its result, and JSON is printed."""
    for options in (["--what", "speak"], []):
        ran = probe(*options, "--quiet")
        assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")
    assert probe("--number", "1", "--quiet").stdout == "number 1\n"
    assert json.loads(probe("--quiet", "--format", "json").stdout) == {"number": 0}


def test_stdout_is_for_results_alone() -> None:
    """Progress, warnings and messages go to stderr; details with --verbose alone; libraries' warnings never."""
    ran = probe("--what", "speak")
    assert ran.stdout == "done\n"
    assert ran.stderr.splitlines() == ["qops: progress", "qops: inform", "qops: warning: warn"]
    assert "qops: detail" in probe("--what", "speak", "--verbose").stderr


def test_a_failure_in_the_middle() -> None:
    """A command that stopped after it began says what it did and why it stopped, with the failure's exit code."""
    ran = probe("--what", "failed")
    assert (ran.returncode, ran.stdout) == (75, "three were done\n")
    assert "the fourth was locked" in ran.stderr
    ran = probe("--what", "failed", "--format", "json")
    assert json.loads(ran.stdout)["done"] == 3
    assert json.loads(ran.stdout)["error"] == {"exit": 75, "kind": "try-later", "message": "the fourth was locked"}


TERMINALS = [
    {"LC_ALL": "C"},
    {"LC_ALL": "POSIX"},
    {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    {"PYTHONIOENCODING": "latin-1"},
    {"PYTHONIOENCODING": "ascii"},
    {"PYTHONUNBUFFERED": "1"},
]


@pytest.mark.parametrize("environment", TERMINALS, ids=str)
def test_any_text_on_any_terminal(environment: dict[str, str]) -> None:
    """Control characters, invalid UTF-8 and letters that a terminal lacks are spelled out; nothing breaks."""
    for options in ([], ["--format", "json"]):
        ran = probe("--what", "odd", *options, environment=environment, encoding=None)
        assert ran.returncode == 0, ran.stderr
        for stream in (ran.stdout, ran.stderr):
            text = bytes(stream)  # type: ignore[arg-type]
            assert text
            assert not re.search(rb"[\x00-\x09\x0b-\x1f\x7f]", text)
            assert b"\xe2\x80\xae" not in text
        if options:
            document = json.loads(ran.stdout)
            assert document["text"].startswith("\U0001f600 é \x1b[31m")
    assert probe("--help", environment=environment, encoding=None).returncode == 0


def test_messages_cannot_drive_the_terminal() -> None:
    """Control characters in an error are spelled out; its line breaks stay."""
    ran = probe("--what", "raise")
    assert ran.returncode == 75
    assert ran.stderr == "qops: error: locked\\x1b[2J\nGRANT x;\n"


@pytest.mark.parametrize("option", ["--what", "--queue", "--config", "--url"])
def test_words_that_are_not_text(option: str) -> None:
    """A word of the command line that is not valid text is refused, not a bug."""
    ran = probe(option, os.fsdecode(b"x\xff"), encoding=None)
    assert ran.returncode in {64, 78}, ran.stderr
    assert b"Traceback" not in ran.stderr  # type: ignore[operator]


# Closed, broken and full streams


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("options", [["--what", "large"], ["--what", "large", "--format", "json"], ["--help"]])
def test_a_reader_that_goes_away(options: list[str], unbuffered: str) -> None:
    """`| head -c 1` ends the output and is no error: no traceback, no complaint of the interpreter, exit 0 or 141."""
    command = [sys.executable, "-c", PROBE, "probe", *options]
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        if options != ["--help"]:
            assert len(process.stdout.read(1)) == 1
        process.stdout.close()
        err = process.stderr.read()
        assert process.wait(60) in {0, 141}
    assert err == b""


@pytest.mark.parametrize("redirections", ["<&-", ">&-", "2>&-", "<&- >&-", "<&- >&- 2>&-"])
def test_closed_streams(database: Database, redirections: str) -> None:
    """Streams that were closed before the start change only where output goes; no connection takes their place."""
    init(database)
    fill(database, 2, status="'done'", finished_at="NOW(6)")
    script = f'exec "$@" {redirections}'
    command = ["/bin/sh", "-c", script, "sh", sys.executable, "-m", "qops", "archive", "--url", database.url]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, stdin=subprocess.DEVNULL)
    assert ran.returncode == 0, ran
    assert "Traceback" not in ran.stderr
    assert database.value("SELECT COUNT(*) FROM jobs_archive") == 2
    ran = subprocess.run([*command, "--batch", "x"], capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 64


def test_a_full_disk() -> None:
    """A result that cannot be written needs attention (1) and says so, without a traceback."""
    with open("/dev/full", "w", encoding="utf-8") as full:  # noqa: PTH123 - a device
        ran = probe("--what", "large", stdout=full, stderr=subprocess.PIPE)
    assert ran.returncode == 1
    assert "could not be written" in ran.stderr
    assert "Traceback" not in ran.stderr
    assert "Exception ignored" not in ran.stderr


# Signals


@pytest.mark.parametrize(("signum", "code", "name"), [(signal.SIGINT, 130, "SIGINT"), (signal.SIGTERM, 143, "SIGTERM")])
def test_a_signal_ends_a_command(signum: signal.Signals, code: int, name: str) -> None:
    """SIGINT is 130 and SIGTERM 143, with an error object where JSON was asked for, and without a traceback."""
    command = [sys.executable, "-c", PROBE, "probe", "--what", "sleep", "--format", "json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "ready\n"
        process.send_signal(signum)
        out, err = process.communicate(timeout=60)
    assert process.returncode == code
    assert json.loads(out)["error"] == {"exit": code, "kind": "signal", "message": f"stopped by {name}"}
    assert "Traceback" not in err


@pytest.mark.parametrize(("signum", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_a_command_that_waits_for_the_server(
    database: Database, signum: signal.Signals, code: int
) -> None:
    """A query that does not come back does not keep a command from ending."""
    command = [sys.executable, "-c", PROBE, "probe", "--what", "query", "--url", database.url]
    asleep = "SELECT 1 FROM performance_schema.threads WHERE processlist_db = %s AND processlist_info = %s"
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        wait_until(lambda: database.rows(asleep, (database.name, "SELECT SLEEP(60)")), what="the query")
        process.send_signal(signum)
        _, err = process.communicate(timeout=60)
    assert process.returncode == code
    assert "Traceback" not in err


# Questions


def ask(database: Database, answer: bytes) -> Ran:
    """Requeue all failed jobs from a terminal and give `answer` when asked."""
    leader, follower = pty.openpty()
    process = start_process(
        "requeue", "--failed", url=database.url, stdin=follower, stderr=follower, start_new_session=True,
        preexec_fn=lambda: os.close(leader),
    )  # fmt: skip
    os.close(follower)
    said = b""
    while b"?" not in said:
        said += os.read(leader, 1000)
    if answer == b"\x03":
        process.send_signal(signal.SIGINT)
    else:
        os.write(leader, answer)
    try:
        out, _ = process.communicate(timeout=60)
    finally:
        process.kill()
        os.close(leader)
    return Ran(process.returncode, out, said.decode())


@pytest.mark.parametrize(
    ("answer", "code", "pending"),
    [(b"y\n", 0, 2), (b"n\n", 1, 0), (b"\n", 1, 0), (b"\x04", 1, 0), (b"\x03", 130, 0)],
    ids=["yes", "no", "nothing", "end of input", "interrupt"],
)
def test_answers_on_a_terminal(database: Database, answer: bytes, code: int, pending: int) -> None:
    """On a terminal a change of several jobs is asked for: yes does it, anything else does not (1, or 130)."""
    init(database)
    fill(database, 2, status="'failed'")
    ran = ask(database, answer)
    assert ran.code == code
    assert database.value("SELECT COUNT(*) FROM jobs WHERE status = 'pending'") == pending
