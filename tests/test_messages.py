"""What qops tells people to type can be typed."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING

import qops
from qops.cli.main import app

if TYPE_CHECKING:
    from collections.abc import Iterator

SOURCES = sorted(Path(qops.__file__).parent.rglob("*.py"))
COMMAND = re.compile(r"(?:: |`|run |run: |with: |with |see |and )qops (?!needs)([a-z]+)")


def texts(tree: ast.Module) -> Iterator[str]:
    """Yield the string constants of a module that are not docstrings."""
    described = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, described) and node.body and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.value
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "command":
            yield from (f"`qops {word.value!s}`" for word in node.args if isinstance(word, ast.Constant))


def test_every_command_that_a_message_names_exists() -> None:
    """A message that tells to type `qops WORD` names a command of this version."""
    commands = {command.name for command in app.registered_commands}
    named = {
        (path.name, match[1])
        for path in SOURCES
        for text in texts(ast.parse(path.read_text(encoding="utf-8")))
        for match in COMMAND.finditer(text)
    }
    assert len(named) > 10
    assert {(file, word) for file, word in named if word not in commands} == set()


def test_every_command_that_a_text_names_exists() -> None:
    """README, changelog, docs and the comments of all SQL name commands of this version only."""
    root = Path(qops.__file__).parents[1]
    files = [*root.glob("*.md"), *root.glob("docs/*.md"), *root.glob("sql/*.sql"), *root.glob("qops/queries/*.sql")]
    named = {
        (path.name, match[1])
        for path in files
        for match in re.finditer(r"(?:`|\$ |^-- )qops ([a-z]+)\b", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    commands = {command.name for command in app.registered_commands}
    assert {file for file, _ in named} >= {"README.md", "CHANGELOG.md", "json.md", "jobs.sql", "promote.sql"}
    assert {(file, word) for file, word in named if word not in commands} == set()
