"""Each check has its proofs: broken alone, found, and cured on a real server, and judged from literals without one."""

from __future__ import annotations

import importlib
import re
import shlex
import socket
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import MySQLdb
import pytest
from _pytest.mark.structures import ParameterSet

from dev.server import private_server, restart
from dev.server.files import read_record
from qops.cli.main import app
from qops.doctor.audit import BY_ID, CHECKS
from qops.doctor.facts import Facts
from tests.accounts import account
from tests.conftest import Database, fresh_database
from tests.queues import ARTICLE, ARTICLE_TOML, init, write_config
from tests.test_doctor import advised, cure, examine, findings, of, result, session

if TYPE_CHECKING:
    from collections.abc import Iterator

TESTS = Path(__file__).parent
COMMITTED = "--transaction-isolation=READ-COMMITTED"
REPEATABLE = "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ"

LITERAL_ONLY = {
    "server-version": "versions before 8.0.1, and those on which reading lock tables stalls the server",
    "replication": "a node of a Galera cluster",
    "read-only": "innodb_read_only",
}
"""What no server here can show, so that literals alone do."""


def marked_tests(mark: str) -> Iterator[tuple[Any, Any]]:
    """Yield the test functions of the modules about doctor that have a mark, each with that mark."""
    for path in sorted([*TESTS.glob("test_doctor*.py"), TESTS / "test_server_variants.py"]):
        for test in vars(importlib.import_module(f"tests.{path.stem}")).values():
            for one in getattr(test, "pytestmark", []) if callable(test) else []:
                if one.name == mark:
                    yield test, one


def cases(test: Any) -> Iterator[dict[str, Any]]:
    """Yield the arguments of each case of a test that is parametrized over `id_`."""
    for one in test.pytestmark:
        if one.name == "parametrize":
            names = [name.strip() for name in one.args[0].split(",")] if isinstance(one.args[0], str) else one.args[0]
            if "id_" in names:
                for case in one.args[1]:
                    values = case.values if isinstance(case, ParameterSet) else case
                    yield dict(zip(names, values if len(names) > 1 else [values], strict=True))


def ids_of(mark: str) -> set[str]:
    """Return the checks that the tests with a mark are about: its arguments, else the cases of the test."""
    return {id_ for test, one in marked_tests(mark) for id_ in one.args or {str(case["id_"]) for case in cases(test)}}


LITERALS = [
    (case["id_"], case["facts"]) for test, one in marked_tests("literal") for case in cases(test) if "facts" in case
]
FINDINGS = [
    (id_, found)
    for id_, facts in LITERALS
    if isinstance(facts, Facts) and (found := result(facts, id_)).status in {"warning", "critical"}
]


@pytest.mark.parametrize("mark", ["breaks", "literal"])
def test_every_check_has_its_proofs(mark: str) -> None:
    """For each check a test breaks it on a real server and cures it, and a literal lets it find something."""
    assert ids_of(mark) == set(BY_ID)
    assert set(LITERAL_ONLY) <= ids_of("literal")


def test_every_check_finds_something_in_a_literal() -> None:
    """The literals do not only pass: each check is a finding in one, of the worst kind that the check can find."""
    statuses = {id_: {found.status for one, found in FINDINGS if one == id_} for id_ in BY_ID}
    assert {check.id for check in CHECKS if check.severity not in statuses[check.id]} == set()


def test_every_finding_is_complete() -> None:
    """Each names what was observed, what was expected, what it does to the queue, and what to do."""
    assert len(FINDINGS) > len(BY_ID)
    for id_, found in FINDINGS:
        assert all((found.title, found.observed, found.expected, found.why, found.remedy)), (id_, found)
        assert found.observed != found.expected, (id_, found)


def command_words(line: str) -> None:
    """Hold a command line against the command's own options; raises for one that is not understood."""
    import typer.main  # noqa: PLC0415 - for this test alone

    group: Any = typer.main.get_command(app)
    _, name, *arguments = shlex.split(line)
    group.commands[name].make_context(name, arguments, resilient_parsing=False)


def test_every_remedy_can_be_typed(database: Database) -> None:
    """Each line of a remedy is a comment, a command of qops with options that it has, or SQL that the server parses."""
    seen: dict[str, int] = dict.fromkeys(("comment", "command", "sql"), 0)
    wrong = []
    with closing(database.connect(database="")) as root:
        for id_, found in FINDINGS:
            for line in found.remedy.splitlines():
                if line.startswith("-- "):
                    seen["comment"] += 1
                elif line.startswith("qops "):
                    command_words(line)
                    seen["command"] += 1
                elif "…" not in line and " " in line:  # else it is a stand-in, no statement
                    if not (line.endswith(";") and parses(root, line)):
                        wrong.append((id_, line))
                    seen["sql"] += 1
    assert wrong == []  # a stand-in in a literal must have … in it
    assert min(seen.values()) > 3, seen


def parses(root: Any, statement: str) -> bool:
    """Tell whether the server understands a statement; preparing it does not run it."""
    with root.cursor() as cursor:
        try:
            cursor.execute("SET @remedy = %s", (statement.removesuffix(";"),))
            cursor.execute("PREPARE remedy FROM @remedy")
        except MySQLdb.Error as error:
            return int(error.args[0]) not in {1064, 1149, 1193}
    return True


def test_a_remedy_that_cannot_be_parsed_would_be_seen(database: Database) -> None:
    """The parser of the test before tells sense from nonsense."""
    with closing(database.connect(database="")) as root:
        assert parses(root, "CREATE INDEX a ON `no`.`table` (b);")
        assert not parses(root, "CREATE INDX a ON `no`.`table` (b);")
    with pytest.raises(KeyError):
        command_words("qops rekue --expired")
    with pytest.raises(Exception, match="No such option"):
        command_words("qops requeue --expried")


# Those of the older checks that need more than a setting


@pytest.fixture(scope="module")
def committed() -> Iterator[Any]:
    """Give a server whose sessions are at READ COMMITTED."""
    with private_server(options=[COMMITTED]) as server:
        yield server


@pytest.mark.breaks("worker-isolation")
def test_a_worker_at_repeatable_read_is_found_and_told(committed: Any) -> None:
    """A worker that does what the finding advises passes from its next transaction on, also for unquoted names."""
    with fresh_database(committed) as database:
        init(database)
        with session(database, REPEATABLE, "SELECT * FROM jobs LIMIT 1", "COMMIT"):
            document = examine(database)
            assert findings(document) == {"worker-isolation": "warning"}
        with closing(database.connect()) as worker, worker.cursor() as cursor:
            for statement in (REPEATABLE, "SELECT * FROM jobs LIMIT 1", "COMMIT"):
                cursor.execute(statement)
            document = examine(database)
            assert findings(document) == {"worker-isolation": "warning"}
            own, for_all = advised(document, "worker-isolation")
            for statement in (own, "SELECT * FROM jobs LIMIT 1", "COMMIT"):
                cursor.execute(statement)
            assert findings(examine(database)) == {}
            database.execute(for_all)
            database.execute("RESET PERSIST")


def test_a_worker_is_known_by_what_it_works_on(committed: Any, tmp_path: Path) -> None:
    """It counts from another schema, and by a name that digests show without quotes; a namesake's table does not."""
    text = ARTICLE_TOML.replace('"job_queue"', '"events"').replace('"job_queue_archive"', '"old"')
    config = str(write_config(tmp_path, text))
    with fresh_database(committed) as database, fresh_database(committed) as other:
        database.execute(ARTICLE.replace("job_queue", "events"))
        init(database, "--config", config, "--repair")
        other.execute("CREATE TABLE events (id INT PRIMARY KEY)")
        for where, table, found in (
            (database, "events", True),
            (database, "`events`", True),
            (other, f"{database.name}.events", True),
            (other, f"{database.name}.`events`", True),
            (other, "events", False),
            (database, f"{other.name}.events", False),
            (database, f"{other.name}.`events`", False),
        ):
            with session(where, REPEATABLE, f"SELECT id FROM {table} LIMIT 1", "COMMIT") as worker:
                document = examine(database, "--config", config, "--only", "worker-isolation")
                seen = f"{worker} (root@" in str(of(document, "worker-isolation")["observed"])
                assert seen == found, (where == database, table)


@pytest.mark.breaks("privileges")
def test_an_account_that_may_not_delete_is_found_and_granted(committed: Any) -> None:
    """With every privilege but one there is one finding, and its GRANT ends it."""
    with fresh_database(committed) as database:
        init(database)
        everywhere = ("PROCESS, SELECT, TRIGGER, REFERENCES ON *.*", "INSERT, UPDATE ON {db}.*")
        with account(database, *everywhere) as limited:
            document = examine(limited)
            assert findings(document) == {"privileges": "warning"}
            assert "DELETE command denied" in of(document, "privileges")["observed"]
            cure(database, document, "privileges")
            assert findings(examine(limited)) == {}


@pytest.mark.breaks("performance-schema")
def test_a_server_without_performance_schema_is_found_and_restarted() -> None:
    """What cannot be seen then is unknown for this reason; the option and a restart cure it."""
    off = "--performance-schema=OFF"
    with private_server(options=[COMMITTED, off]) as server:
        record = read_record(server.name)
        if server.socket is None or record is None:
            pytest.skip("a server in a container keeps its options")
        with fresh_database(server) as database:
            init(database)
            document = examine(database)
            found = findings(document)
            assert found.pop("performance-schema") == "warning"
            assert found
            assert set(found.values()) == {"unknown"}
            assert all("performance_schema is OFF" in of(document, id_)["observed"] for id_ in found)
            remedy = of(document, "performance-schema")["remedy"]
            (option,) = re.findall(r"performance_schema = \w+", remedy)
            options = tuple(one for one in record.options if one != off)
            replace(record, options=(*options, f"--{option.replace(' ', '')}")).save()
            restart(server.name)
            assert findings(examine(database)) == {}


@pytest.mark.breaks("tls")
def test_an_unencrypted_way_to_another_machine_is_found_and_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Over an address of the network, on a server that takes us for a stranger, TLS is missed until it is asked for."""
    with closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends nothing
        except OSError:
            pytest.skip("this machine has no way into a network")
        address = str(probe.getsockname()[0])
    with private_server(options=[COMMITTED, f"--bind-address=127.0.0.1,{address}"]) as server:
        if server.socket is None:
            pytest.skip("a server in a container has another address")
        with fresh_database(server) as database, account(database, "ALL ON *.*") as near:
            init(database)
            far = replace(near, host=address)
            assert findings(examine(far)) == {}  # it is this machine
            monkeypatch.setattr("qops.doctor.surroundings.socket.gethostname", lambda: "far.example")
            document = examine(far)
            assert findings(document) == {"tls": "warning"}
            assert address in of(document, "tls")["observed"]
            option = of(document, "tls")["remedy"].splitlines()[-1].rpartition("?")[2]
            assert findings(examine(replace(far, name=f"{far.name}?{option}"))) == {}
