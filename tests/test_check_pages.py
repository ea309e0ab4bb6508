"""There is a page for each of doctor's checks, and it says what the check says."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from dev import checks
from qops.doctor.audit import BY_ID, CHECKS

if TYPE_CHECKING:
    from qops.doctor.model import Check


def test_the_pages_are_those_of_the_checks() -> None:
    """docs/checks holds what `python -m dev.checks` makes, and no other page."""
    found = {path.name: path.read_text(encoding="utf-8") for path in checks.FOLDER.iterdir()}
    assert found == checks.pages(), "make them anew: .venv/bin/python -m dev.checks"


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.id)
def test_a_check_says_all_that_a_person_needs(check: Check) -> None:
    """Each has an id, a title, a severity, why, how it is observed with the privilege for that, and a cure."""
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", check.id)
    assert check.severity in {"warning", "critical"}
    assert not check.title.endswith(".")
    for text in (check.why, check.how, check.cure):
        assert text.endswith(".")
    assert re.search(r"\b(needs|an account that|with PROCESS)\b", check.how)
    assert set(check.after) <= set(BY_ID)
