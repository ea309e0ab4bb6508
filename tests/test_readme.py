"""What README.md says is true: its session runs, its tables come from the code, its configurations load."""

from __future__ import annotations

import os
import pkgutil
import re
import shlex
import signal
import subprocess
import sys
import tomllib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from dev import readme
from dev.server import private_server
from qops import errors
from qops.archive.options import choose
from qops.archive.result import Options
from qops.doctor.audit import CHECKS, limits
from qops.doctor.audit import choose as choose_checks
from qops.doctor.limits import Limits
from qops.health.thresholds import HealthThresholds, thresholds
from qops.privileges import NEEDS
from qops.queue_settings import QUEUE_KEYS, ROLES, STATES, QueueSettings
from qops.settings import Flags, load
from qops.worker import open_worker
from tests import queues
from tests.accounts import account
from tests.conftest import Database, run_here

if TYPE_CHECKING:
    from collections.abc import Iterator

TEXT = readme.README.read_text(encoding="utf-8")
CHANGES = readme.README.with_name("CHANGELOG.md").read_text(encoding="utf-8")
ROOT = readme.README.parent
SITES = {"dev.mysql.com", "keepachangelog.com", "semver.org"}
ANYTHING = "…"


@dataclass(frozen=True)
class Step:
    """A command of the session, its output (`…` is anything), and its exit code."""

    command: str
    output: tuple[str, ...]
    code: int = 0


def blocks(language: str, heading: str = "") -> list[str]:
    """Return the code blocks in a language, of the whole file or of the section under `heading`."""
    text = section(heading) if heading else TEXT
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def section(heading: str) -> str:
    """Return the text from a `## heading` to the next."""
    (text,) = re.findall(rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", TEXT, re.MULTILINE | re.DOTALL)
    return str(text)


def session() -> Iterator[Step]:
    """Yield the steps of all console blocks; `$ echo $?` shows the exit code of the step before, else it is 0."""
    lines = "".join(blocks("console")).splitlines()
    starts = [number for number, line in enumerate(lines) if line.startswith("$ ")]
    found: list[Step] = []
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        command, output = lines[start].removeprefix("$ "), tuple(lines[start + 1 : end])
        if command == "echo $?":
            found[-1] = replace(found[-1], code=int(output[0]))
        else:
            found.append(Step(command, output))
    yield from found


def plain(text: str) -> str:
    """Return output without what depends on the width of a column: runs of spaces and of dashes."""
    return "".join(re.sub("-{3,}", "---", " ".join(line.split())) + "\n" for line in text.splitlines())


def shape(output: tuple[str, ...]) -> str:
    """Return the pattern of an output: a line `…` is any number of lines, a `…` inside a line any text."""
    lines = plain("\n".join(output)).splitlines()
    return "".join(
        r"(?:.*\n)*?" if line == ANYTHING else re.escape(line).replace(ANYTHING, ".*") + r"\n" for line in lines
    )


def test_generated_parts_are_what_the_code_makes_of_them() -> None:
    """The command table and the grants are those of the code (python3 -m dev.readme writes them)."""
    assert readme.fill(TEXT) == TEXT


def preparation(port: int) -> tuple[str, str]:
    """Return the URL and the command that creates the schema, as the session begins, with the server's port."""
    (block,) = blocks("sh", "A session")
    lines = [line.partition("  #")[0].rstrip().replace("PORT", str(port)) for line in block.splitlines()]
    start, activate, export, create = lines
    assert (start, activate) == ("make server", ". .venv/bin/activate")
    return export.removeprefix("export QOPS_URL="), create


def test_the_session_runs_as_it_is_shown(tmp_path: Path) -> None:
    """The commands of the README, one after another on a new server, say what the README shows and end so."""
    for block in blocks("python"):
        name = re.match(r"# (\w+\.py)\n", block)
        if name:
            (tmp_path / name[1]).write_text(block, encoding="utf-8")
    steps = list(session())
    assert {step.command.split()[0] for step in steps} == {"qops", "python"}
    # A server of its own: health and doctor see everything that is on a server.
    with private_server() as server:
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        url, create = preparation(urlsplit(server.url).port or 3306)
        environment = {**os.environ, "PATH": path, "QOPS_URL": url}
        for step in (Step(create, ()), *steps):
            ran = subprocess.run(
                ["/bin/sh", "-c", step.command],
                cwd=tmp_path,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=60,
                check=False,
            )
            said = f"$ {step.command}\n{ran.stdout}(exit {ran.returncode})"
            assert ran.returncode == step.code, said
            assert re.fullmatch(shape(step.output), plain(ran.stdout)), said


def test_a_changed_output_would_be_noticed() -> None:
    """A `…` stands for any text on its line or for any lines, and nothing else may differ but widths."""
    shown = shape(("put back 1 jobs, … s", "id    result", "----  ------", "…", "end"))
    assert re.fullmatch(shown, plain("put back 1 jobs, 0.1 s\nid  result\n---  --------\nx\ny\nend\n"))
    assert not re.fullmatch(shown, plain("put back 2 jobs, 0.1 s\nid  result\n---  --------\nend\n"))
    assert not re.fullmatch(shown, plain("put back 1 jobs, 0.1 s\nid  result\n---  --------\nend\nmore\n"))


def test_the_exit_codes_are_those_of_the_code() -> None:
    """The table of exit codes has every code that the error family has, the results' own, and the signals'."""
    rows = re.findall(r"^\| ([\d, ]+) \|", section("Exit codes"), re.MULTILINE)
    listed = [int(code) for row in rows for code in row.split(",")]
    family = {errors.QopsError.exit_code, *(kind.exit_code for kind in errors.QopsError.__subclasses__())}
    signals = {128 + signal.SIGINT, 128 + signal.SIGTERM}
    assert sorted(listed) == sorted({errors.OK, errors.ATTENTION, errors.CRITICAL, *family, *signals})


def test_the_configuration_shows_the_defaults(tmp_path: Path) -> None:
    """The configuration of the README loads, and says of every setting in it what holds without it."""
    (text,) = blocks("toml", "Configuration")
    settings = load(Flags(config=str(queues.write_config(tmp_path, text))), {})
    written = QueueSettings(
        order=("priority desc", "id"),
        columns={role: role for role in ROLES},
        states={state: (state,) for state in STATES},
        strict=False,
    )
    assert settings.queue == written
    assert set(tomllib.loads(text)["queues"]["jobs"]) | {"clock"} == set(QUEUE_KEYS)
    assert choose({}, settings, dry_run=False) == Options()
    assert thresholds(settings) == HealthThresholds()
    assert limits(settings) == Limits()
    assert choose_checks([], [], settings).wanted == tuple(check.id for check in CHECKS)


def test_a_dry_run_leaves_no_trace(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every command with --dry-run changes no row and no table, and is not recorded either."""
    monkeypatch.setenv("QOPS_URL", database.url)
    dry = [name for name, command in readme.commands().items() if any("--dry-run" in p.opts for p in command.params)]
    assert set(dry) == set(re.findall(r"`(\w+) --dry-run`", section("Dry run")))
    assert run_here("init", "--dry-run").code == 0
    assert database.rows("SHOW TABLES") == []
    queues.init(database)
    queues.fill(database, 5, status="ELT(n, 'done', 'failed', 'scheduled', 'running', 'pending')")
    before = queues.contents(database, "jobs")
    for name in dry:
        assert run_here(*COMMANDS[name], "--dry-run").code == 0
    assert queues.contents(database, "jobs") == before
    assert database.value("SELECT COUNT(*) FROM jobs_archive") == 0
    assert database.value("SELECT COUNT(*) FROM qops_runs") == 0


@dataclass(frozen=True)
class Adopted:
    """A table of the field: its definition, a done job, and a command that needs more than it has."""

    table: str
    definition: str
    done: str
    refused: tuple[str, ...]


ADOPTED = {
    "guide": Adopted(
        "jobs", queues.GUIDE, "(status, payload) VALUES ('done', '{}')", ("archive", "--older-than", "1d")
    ),
    "recipe": Adopted("jobs", queues.RECIPE, "(id, task, state) VALUES (1, 'x', 'done')", ("requeue", "--expired")),
    "article": Adopted(
        "job_queue",
        queues.ARTICLE,
        "(id, payload, status, available_at) VALUES (1, '{}', 'done', NOW())",
        ("requeue", "--failed"),
    ),
}


@pytest.mark.parametrize("text", blocks("toml", "Adopting a table"))
def test_an_adopted_table_is_operated_through_its_configuration_alone(
    text: str, database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the README's configuration a table of the field is archived and measured, and what it lacks is refused."""
    (name,) = tomllib.loads(text)["queues"]
    adopted = ADOPTED[name]
    queues.write_config(tmp_path, text)
    monkeypatch.setenv("QOPS_URL", database.url)
    database.execute(adopted.definition)
    database.execute(f"INSERT INTO {adopted.table} {adopted.done}")
    assert run_here("init").code == 0
    assert run_here("archive", "--format", "json").json["archived"] == 1
    assert database.value(f"SELECT COUNT(*) FROM {adopted.table}_archive") == 1
    assert run_here("health", "--format", "json").json["depth"]["done"] == 0
    assert run_here(*adopted.refused).code == errors.Misconfigured.exit_code


def test_every_configuration_for_a_table_of_the_field_is_there() -> None:
    """The section on adopting a table has one configuration for each table that is tested."""
    assert [*ADOPTED] == [name for text in blocks("toml", "Adopting a table") for name in tomllib.loads(text)["queues"]]


COMMANDS: dict[str, tuple[str, ...]] = {
    "init": ("init",),
    "doctor": ("doctor", "--fail-on", "never"),
    "archive": ("archive",),
    "expire": ("expire", "--older-than", "1h"),
    "restore": ("restore", "3"),
    "requeue": ("requeue", "--failed"),
    "promote": ("promote",),
    "discard": ("discard", "4", "--reason", "not wanted"),
    "release": ("release", "--worker", "w"),
    "pause": ("pause",),
    "resume": ("resume",),
    "health": ("health", "--fail-on", "never"),
    "history": ("history",),
    "jobs": ("jobs",),
    "show": ("show", "1"),
}


OPEN_RUN = """
INSERT INTO qops_runs (command, queue, arguments, operator, host, connection_id)
VALUES ('archive', 'jobs', '{}', 'another', 'elsewhere', 4294967295)
"""


def archive_third(database: Database) -> None:
    """Put a third job into the archive, finished just now."""
    queues.fill(database, 1, id="3", status="'done'", finished_at="NOW(6)")
    database.execute("INSERT INTO jobs_archive SELECT * FROM jobs WHERE id = 3")
    database.execute("DELETE FROM jobs WHERE id = 3")


@pytest.mark.parametrize(
    ("heading", "states"),
    [
        ("Looking at jobs", {"failed": 3, "running": 2}),
        ("Putting jobs back", {"scheduled": 3, "pending": 1, "running": 1}),
        ("A dead worker, a hopeless job, and who did what", {"failed": 3, "pending": 2}),
    ],
)
def test_the_examples_do_what_they_say(
    database: Database, monkeypatch: pytest.MonkeyPatch, heading: str, states: dict[str, int]
) -> None:
    """The command lines of a section run as they are shown, and leave the jobs as its text says."""
    queues.init(database)
    queues.fill(
        database,
        3,
        id="48122 + n",
        status="'failed'",
        last_error="'connection refused by a host'",
        finished_at="NOW(6) - INTERVAL 2 HOUR",
    )
    queues.fill(
        database,
        2,
        status="'running'",
        attempts="1",
        claimed_by="'mail-7'",
        lease_until="NOW(6) + INTERVAL IF(n = 1, -60, 60) MINUTE",
    )
    (block,) = blocks("sh", heading)
    lines = [line.partition("  #")[0] for line in block.splitlines()]
    monkeypatch.setenv("QOPS_URL", database.url)
    for line in lines:
        name, *words = shlex.split(line)
        assert name == "qops"
        assert run_here(*words).code in {0, 1}, line
    assert len(lines) > 2
    assert dict(database.rows("SELECT status, COUNT(*) FROM jobs GROUP BY status")) == states


def test_every_command_with_privileges_is_tried_with_exactly_these() -> None:
    """The next test leaves no command out."""
    assert {*COMMANDS, *readme.NO_COMMANDS} >= set(NEEDS)
    assert set(readme.commands()) <= set(NEEDS)


@pytest.mark.parametrize("optional", [True, False], ids=["all", "required"])
@pytest.mark.parametrize("name", [name for name in COMMANDS if name in readme.commands()])
def test_a_command_works_with_the_privileges_of_the_readme(
    name: str, *, optional: bool, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With all of its privileges a command misses nothing; with the required ones it does its work."""
    if name != "init":
        queues.init(database)
        queues.fill(database, 2, status="IF(n = 1, 'done', 'failed')")
        archive_third(database)
    if name == "discard":
        queues.fill(database, 1, id="4")
    if name == "history":
        database.execute(OPEN_RUN)
    with account(database) as limited:
        grant(database, limited, name, optional=optional)
        monkeypatch.setenv("QOPS_URL", limited.url)
        ran = run_here(*COMMANDS[name], "--format", "json")
        assert ran.code == 0, ran.out + ran.err
        # What is called optional is missed, or it would not belong in the list.
        unseen = [one["metric"] for one in ran.json.get("unknown", ()) if "GRANT" in one["needs"]]
        # The sums of the shared server's statements may be full, which no privilege helps against.
        checks = [one for one in ran.json.get("checks", ()) if one["status"] == "unknown"]
        unseen += [one["id"] for one in checks if "summary of statements is full" not in one["observed"]]
        unseen += [line for line in ran.err.splitlines() if "denied" in line]
        unseen += [one["id"] for one in ran.json.get("runs", ()) if one["running"] is None]
        wants = any(need.optional for need in NEEDS[name])
        assert bool(unseen) == (wants and not optional), ran.out + ran.err
    left = dict(database.rows("SELECT status, COUNT(*) FROM jobs GROUP BY status"))
    done = {
        "archive": {"failed": 1},
        "restore": {"done": 1, "failed": 1, "pending": 1},
        "requeue": {"done": 1, "pending": 1},
        "discard": {"done": 1, "failed": 2},
        "init": {},
    }
    assert left == done.get(name, {"done": 1, "failed": 1})


@pytest.mark.parametrize(
    ("name", "without"),
    [
        (name, number)
        for name in COMMANDS
        if name in readme.commands() and name != "doctor"  # which reports what it may not see
        for number, need in enumerate(NEEDS[name])
        if not need.optional
    ],
)
def test_without_a_required_privilege_a_command_names_the_grant(
    name: str, without: int, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every required privilege is needed: without it the command ends with 77, changes nothing, and shows its GRANT."""
    if name != "init":
        queues.init(database)
        queues.fill(database, 2, status="IF(n = 1, 'done', 'failed')")
        archive_third(database)
    with account(database) as limited:
        lines = readme.grants_of(name, f"{limited.user}@%", database.name)
        for line in [*lines[:without], *lines[without + 1 :]]:
            database.execute(line.partition(readme.OPTIONAL)[0])
        # An account without any privilege in a schema cannot even select it.
        database.execute(f"GRANT SHOW VIEW ON `{database.name}`.* TO '{limited.user}'@'%'")
        monkeypatch.setenv("QOPS_URL", limited.url)
        ran = run_here(*COMMANDS[name])
        assert ran.code == errors.PrivilegeMissing.exit_code, ran.out + ran.err
        assert lines[without] in ran.err
    if name != "init":
        assert dict(database.rows("SELECT status, COUNT(*) FROM jobs GROUP BY status")) == {"done": 1, "failed": 1}


@pytest.mark.parametrize("optional", [True, False], ids=["all", "required"])
def test_a_worker_works_with_the_privileges_of_the_readme(*, optional: bool, database: Database) -> None:
    """With a worker's privileges jobs are enqueued, claimed, extended, completed and failed; archived with all."""
    queues.init(database)
    with account(database) as limited:
        grant(database, limited, "worker", optional=optional)
        with open_worker("w", url=limited.url) as worker:
            for number in range(2):
                worker.enqueue({"n": number})
            first, second = worker.claim_batch(2)
            worker.complete(worker.heartbeat(first), archive=optional)
            assert worker.fail(second, "no") == "scheduled"
    assert database.value("SELECT COUNT(*) FROM jobs_archive") == int(optional)


def grant(database: Database, limited: Database, name: str, *, optional: bool) -> None:
    """Give an account the privileges that the README names for a command."""
    for line in readme.grants_of(name, f"{limited.user}@%", database.name):
        sql, mark, _ = line.partition(readme.OPTIONAL)
        if optional or not mark:
            database.execute(sql.removesuffix(";"))


def test_what_the_readme_links_to_is_there() -> None:
    """Every link to a file, every path of the layout and every anchor leads somewhere."""
    targets = re.findall(r"\]\(([^)]+)\)", TEXT)
    headings = {
        re.sub(r"[^\w -]", "", one.lower()).replace(" ", "-") for one in re.findall(r"^## (.+)$", TEXT, re.MULTILINE)
    }
    anchors = {target[1:] for target in targets if target.startswith("#")}
    assert anchors <= headings
    files = {target for target in targets if not target.startswith(("#", "https:"))}
    files |= {
        path
        for row in re.findall(r"^\| (`[^|]+`) \|", section("Development"), re.MULTILINE)
        for path in row.split("`")[1::2]
    }
    files |= set(re.findall(r"`((?:\.ci|dev|sql|qops|tests)/[^` ]*)`", TEXT))
    assert len(files) > 20
    assert {path for path in files if not (ROOT / path).exists()} == set()


def test_commands_options_and_names_that_are_mentioned_exist() -> None:
    """No command, option or Python name is mentioned that the code does not have."""
    text = TEXT + CHANGES
    commands = readme.commands()
    assert set(re.findall(r"(?:`|\$ )qops ([a-z]+)", text)) == set(commands)
    options = {one for command in commands.values() for p in command.params for one in (*p.opts, *p.secondary_opts)}
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", text)) <= options | {"--help"}
    names = set(re.findall(r"`(qops(?:\.[a-z_]+)+)`", text)) - {"qops.toml"}
    names |= {f"qops.worker:{name}" for name in re.findall(r"`(LeaseLost|Worker\.\w+)`", text)}
    assert len(names) > 3
    for name in names:
        pkgutil.resolve_name(name)


def test_the_texts_speak_of_the_project_alone() -> None:
    """Neither text names a machine's folder, or a site that is no reference."""
    for text in (TEXT, CHANGES):
        assert re.findall(r"(?<![\w.:/])/(?:home|root|work|usr|tmp|opt|srv|var|mnt)\b", text) == []
        assert {urlsplit(url).hostname for url in re.findall(r"https?://[^\s)>]+", text)} <= SITES


def test_a_change_is_one_sentence_on_one_line_that_says_why() -> None:
    """Every entry of the changelog is one line, one sentence, with its reason."""
    entries = re.findall(r"^- (.+)$", CHANGES, re.MULTILINE)
    assert entries
    assert not re.findall(r"^ +\S", CHANGES, re.MULTILINE)
    for entry in entries:
        assert re.fullmatch(r"[^.]+(?:\.\w[^.]*)*\.", entry), entry
        assert re.search(r", because |, so that ", entry), entry
