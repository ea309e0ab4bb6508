"""Starting is quick because nothing is loaded before it is needed."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = {"sqlalchemy", "apscheduler", "MySQLdb", "tabulate", "rich"}


@pytest.mark.parametrize("option", ["--help", "--version"])
def test_help_and_version_import_nothing_heavy(option: str) -> None:
    """`qops --help` and `qops --version` load neither the database libraries nor a scheduler."""
    program = (
        "import sys; from qops.cli.main import run; run([sys.argv[1]]); "
        "print('|'.join(m for m in sys.modules if '.' not in m), file=sys.stderr)"
    )
    ran = subprocess.run([sys.executable, "-c", program, option], capture_output=True, text=True, check=True)
    assert ran.stdout
    assert not HEAVY & set(ran.stderr.strip().split("|"))
