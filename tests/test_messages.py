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
