"""docs/json.md is true: real runs print exactly the keys that it lists, with values of the types that it names."""

from __future__ import annotations

import re
from contextlib import contextmanager
from dataclasses import fields
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from dev.readme import commands
from dev.server import private_server
from qops.errors import Failure, QopsError
from tests.conftest import Database, fresh_database, run_here
from tests.queues import RECIPE, RECIPE_TOML, fill, init, write_config

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TEXT = (Path(__file__).parents[1] / "docs" / "json.md").read_text(encoding="utf-8")
OBJECTS = """
CREATE TRIGGER objects BEFORE UPDATE ON jobs FOR EACH ROW
IF OLD.id = 5 THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'not this one'; END IF
"""
KEEPS = """
CREATE TRIGGER keeps BEFORE DELETE ON jobs_archive FOR EACH ROW
SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'this one stays'
"""
THROTTLED = '[archive]\nmax_purge_lag = 1\nmax_wait = "200ms"\n'
Documents = dict[str, list[dict[str, Any]]]


def documented() -> dict[str, dict[str, str]]:
    """Return the types by key, of each section."""
    sections = re.findall(r"^## ([^\n]+)\n(.*?)(?=^## |\Z)", TEXT, re.MULTILINE | re.DOTALL)
    return {name: dict(re.findall(r"^\| `([^`]+)` \| ([^|]+) \|", body, re.MULTILINE)) for name, body in sections}


def is_text(value: Any) -> bool:
    return isinstance(value, str)


def is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def is_time(value: Any) -> bool:
    return isinstance(value, str) and value.endswith("Z") and bool(datetime.fromisoformat(value))


def is_count(value: Any) -> bool:
    return is_integer(value) or (isinstance(value, dict) and [*value] == ["at_least"] and is_integer(value["at_least"]))


TYPES: dict[str, Callable[[Any], bool]] = {
    "text": is_text,
    "integer": is_integer,
    "number": lambda value: is_integer(value) or isinstance(value, float),
    "boolean": lambda value: isinstance(value, bool),
    "time": is_time,
    "id": lambda value: is_integer(value) or is_text(value),
    "count": is_count,
    "list": lambda value: isinstance(value, list) and all(isinstance(one, dict) for one in value),
    "list of ids": lambda value: isinstance(value, list) and all(TYPES["id"](one) for one in value),
    "list of integers": lambda value: isinstance(value, list) and all(map(is_integer, value)),
    "list of texts": lambda value: isinstance(value, list) and all(map(is_text, value)),
    "object": lambda value: isinstance(value, dict),
    "map": lambda value: isinstance(value, dict),
    "null": lambda value: value is None,
}


def flat(value: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the keys of a document by their paths, with their values."""
    for key, inner in value.items():
        path = f"{prefix}{key}"
        yield path, inner
        if isinstance(inner, dict) and [*inner] != ["at_least"]:
            yield from flat(inner, f"{path}.")
        elif isinstance(inner, list):
            for one in inner:
                if isinstance(one, dict):
                    yield from flat(one, f"{path}[].")


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> Documents:  # noqa: PLR0915 - a statement a run
    """Return what commands print, by section: runs in which every list has members and every object is there."""
    found: Documents = {}
    recipe = str(write_config(tmp_path_factory.mktemp("recipe"), RECIPE_TOML))
    throttled = str(write_config(tmp_path_factory.mktemp("throttled"), THROTTLED))
    strict = str(write_config(tmp_path_factory.mktemp("strict"), "[health]\nfailed = 1\n"))
    # A server of its own: nobody else's read view hides the one that is to be seen.
    with private_server() as server, fresh_database(server) as database, fresh_database(server) as other:

        def run(*words: str, section: str | None = None, where: Database = database) -> None:
            document = run_here(*words, "--url", where.url, "--format", "json").json
            if "error" in document:
                found.setdefault("error", []).append({"error": document.pop("error")})
            found.setdefault(section or f"qops {words[0]}", []).append(document)

        other.execute(RECIPE)
        run("init", "--config", recipe, where=other)
        run("health", "--config", recipe, where=other)  # what this queue has not is unknown
        init(database)
        database.execute("ALTER TABLE jobs DROP INDEX claim_idx")
        run("init")
        run("init", "--repair")
        run("doctor", "--config", strict)
        run("doctor", "--list", section="qops doctor --list")
        run("doctor", "--explain", "claim-plan", section="qops doctor --explain")
        states = "ELT(n, 'done', 'done', 'failed', 'failed', 'scheduled', 'scheduled', 'pending')"
        fill(database, 7, status=states, finished_at="IF(n < 5, NOW(6), NULL)")
        database.execute(OBJECTS)
        database.execute("INSERT INTO jobs_archive SELECT * FROM jobs WHERE id = 1")
        database.execute("UPDATE jobs_archive SET last_error = 'another one'")
        with read_view(database):
            run("archive", "--max-purge-lag", "1", "--max-wait", "200ms")
            run("expire", "--older-than", "0s", "--config", throttled)
            run("requeue", "--failed", "--config", throttled)
            run("health", "--config", strict)
        run("archive", "--dry-run")
        run("archive")
        run("restore", "1", "2", "99")
        database.execute(KEEPS)
        run("expire", "--older-than", "0s", "--dry-run")
        run("expire", "--older-than", "0s")
        run("jobs")
        run("jobs", "--by", "error", section="qops jobs --by error")
        run("requeue", "3", "7", "99", "--dry-run")
        run("requeue", "3", "7", "99")
        run("requeue", "--failed")
        fill(database, 3, id="n + 19", status="ELT(n, 'pending', 'done', 'pending')")
        with row_lock(database, 22):
            run("discard", "1", "5", "20", "21", "22", "99", "--reason", "trying", "--yes")
        fill(database, 2, status="'running'", claimed_by="'w'", lease_until="NOW(6) + INTERVAL 1 HOUR")
        run("release", "--worker", "w")
        run("promote", "--dry-run")
        run("promote")
        run("pause", "--for", "1h", "--reason", "trying")
        run("resume")
        run("pause")
        database.execute("UPDATE qops_runs SET summary = NULL WHERE id = 1")
        run("history", "--limit", "100")
        run("show", "3")
    return found


@contextmanager
def row_lock(database: Database, id_: int) -> Iterator[None]:
    """Hold the row of a job."""
    holder = database.connect()
    holder.cursor().execute("SELECT id FROM jobs WHERE id = %s FOR UPDATE", [id_])
    yield
    holder.close()


@contextmanager
def read_view(database: Database) -> Iterator[None]:
    """Keep a read view open for which some transactions wait to be purged."""
    holder = database.connect()
    holder.cursor().execute("START TRANSACTION WITH CONSISTENT SNAPSHOT")
    database.execute("CREATE TABLE other (v INT)")
    for number in range(50):
        database.execute("INSERT INTO other VALUES (%s)", (number,))
        database.execute("UPDATE other SET v = v + 1 WHERE v = %s", (number,))
    yield
    holder.close()


SECTIONS = sorted(documented())


@pytest.mark.parametrize("section", SECTIONS)
def test_real_runs_print_the_keys_of_the_document(printed: Documents, section: str) -> None:
    """The keys that runs of a command print are those of its section, no more and no fewer."""
    seen = {path for document in printed[section] for path, _ in flat(document)}
    types = documented()[section]
    # An object that is always there needs no line of its own.
    implied = {path.rpartition(".")[0] for path in types} - set(types)
    inside = tuple(f"{key}." for key, kind in types.items() if "map" in kind.split(" or "))
    assert {path for path in seen - implied if not path.startswith(inside)} == set(types)


@pytest.mark.parametrize("section", SECTIONS)
def test_values_have_the_types_of_the_document(printed: Documents, section: str) -> None:
    """Every value is of a type that the document names for its key; null comes only where it says so."""
    types = documented()[section]
    for document in printed[section]:
        for path, value in flat(document):
            if path in types:
                assert any(TYPES[kind](value) for kind in types[path].split(" or ")), (path, value)


def test_every_command_has_a_section() -> None:
    """No command is left out, and none is described that does not exist."""
    assert {name.split()[1] for name in SECTIONS if name.startswith("qops ")} == set(commands())
    assert set(documented()["error"]) == {f"error.{field.name}" for field in fields(Failure)}


def test_every_kind_of_error_is_named() -> None:
    """The kinds and exit codes of errors are those of the code, and the signals'."""
    lines = {key: line for line in TEXT.splitlines() for key in re.findall(r"^\| `(error\.\w+)`", line)}
    # The worker has errors of its own, which no command ends with.
    family: list[type[QopsError]] = [
        QopsError,
        *(kind for kind in QopsError.__subclasses__() if kind.__module__ == QopsError.__module__),
    ]
    kinds = {"signal", *(kind.kind for kind in family)}
    assert set(re.findall(r"`([a-z-]+)`", lines["error.kind"])) == kinds
    codes = {130, 143, *(kind.exit_code for kind in family)}
    assert {int(code) for code in re.findall(r"\b\d+\b", lines["error.exit"])} == codes


def test_a_document_that_differs_would_be_noticed() -> None:
    """Paths are told apart, also inside of lists and objects, and a null is no text."""
    assert dict(flat({"a": {"b": [{"c": 1}]}, "d": {"at_least": 3}})) == {
        "a": {"b": [{"c": 1}]},
        "a.b": [{"c": 1}],
        "a.b[].c": 1,
        "d": {"at_least": 3},
    }
    assert not TYPES["text"](None)
    assert not TYPES["integer"](True)
    assert not TYPES["time"]("2026-01-31T12:00:00")
    assert TYPES["count"]({"at_least": 3})
