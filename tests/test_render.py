"""What a report looks like: one JSON document, or tables that no value can break."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qops.errors import Failure
from qops.render import render
from qops.render.table import cell
from qops.report import Report, Table
from qops.text import conceal, escape


def as_json(value: Any) -> Any:
    text = render(Report({"value": value}), "json")
    assert text.endswith("\n")
    return json.loads(text)["value"]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        (0, 0),
        (True, True),
        (Decimal(12), 12),
        (Decimal("12.50"), 12.5),
        (Decimal(18446744073709551615), 18446744073709551615),
        (datetime(2026, 3, 8, 2, 30, 0, 5), "2026-03-08T02:30:00.000005Z"),  # noqa: DTZ001 - as the driver gives it
        (datetime(2026, 3, 8, 2, 30, tzinfo=UTC), "2026-03-08T02:30:00Z"),
        (datetime(2026, 3, 8, 2, 30, tzinfo=timezone(timedelta(hours=8))), "2026-03-07T18:30:00Z"),
        (date(2026, 3, 8), "2026-03-08"),
        (timedelta(minutes=1, milliseconds=5), 60.005),
        (b"abc", "abc"),
        (b"\xff\x00a", "\\xff\x00a"),
        ({3, 1, 2}, [1, 2, 3]),
        ("\ud800 lone", "\ud800 lone"),
        ("\x1b[31m", "\x1b[31m"),
        ({"at_least": 1001}, {"at_least": 1001}),
    ],
)
def test_values_have_their_json(value: object, expected: object) -> None:
    """Numbers are numbers, times are ISO 8601 with Z, unknown is null, and bytes of any kind are text."""
    got = as_json(value)
    assert (got, type(got)) == (expected, type(expected))


def test_json_is_ascii() -> None:
    """The document can be written to any terminal and file, whatever is in it."""
    assert render(Report({"value": "😀é\u202e\x1b"}), "json").isascii()


def test_a_failure_in_the_middle_stands_beside_the_result() -> None:
    """A report that was cut short keeps its own keys and has `error` beside them."""
    report = Report({"archived": 7}, failure=Failure(69, "unavailable", "gone"))
    expected = {"archived": 7, "error": {"exit": 69, "kind": "unavailable", "message": "gone"}}
    assert json.loads(render(report, "json")) == expected


@given(st.text(max_size=60))
def test_one_row_is_one_line(text: str) -> None:
    """Whatever a job's error says, it stays on its line and sends nothing to the terminal."""
    lines = render(Report({}, (Table(("id", "error"), ((1, text), (2, text))),)), "table").split("\n")
    assert len(lines) == 5
    assert not any(ord(c) < 32 or 0x7F <= ord(c) < 0xA0 for line in lines for c in line)
    assert not set("".join(lines)) & set("\u202a\u202e\u2066\u2028\u200f\u061c")


def test_values_are_shown_in_full() -> None:
    """No value is cut to the width of a terminal."""
    assert "x" * 5000 in render(Report({}, (Table(("a",), (("x" * 5000,),)),)), "table")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, "?"),
        (0, "0"),
        (True, "yes"),
        (False, "no"),
        ({"at_least": 1001}, ">= 1001"),
        (datetime(2026, 3, 8, 2, 30), "2026-03-08T02:30:00Z"),  # noqa: DTZ001 - as the driver gives it
        (b"\xff\n", "\\xff\\n"),
        ("007", "007"),
        ("1e5", "1e5"),
    ],
)
def test_cells(value: object, expected: str) -> None:
    """Unknown is a question mark, never a zero; text that looks like a number stays as it is."""
    assert cell(value) == expected
    assert expected in render(Report({}, (Table(("a",), ((value,),)),)), "table")


def test_titles_and_headings_are_escaped_too() -> None:
    """A queue's name in a title cannot drive the terminal either."""
    text = render(Report({}, (Table(("\x9bh",), (), "\x9bt"),), ("\x9bl",)), "table")
    assert "\x9b" not in text
    assert text.count("\\x9b") == 3


def test_nothing_is_printed_for_nothing() -> None:
    """A report without tables and lines is no output at all."""
    assert render(Report({}), "table") == ""


def test_escape_leaves_ordinary_text_alone() -> None:
    """Letters of any script are shown."""
    assert escape("größe 名前 😀 it's") == "größe 名前 😀 it's"


def test_a_url_in_the_wrong_place_is_not_repeated() -> None:
    """A word of the command line that may hold a password is left out of messages, also where it was quoted."""
    given_words = ["archive", "mysql://u:a'b\\c@h", "--queue=u:secret@h", "w1@host"]
    told = conceal(f"no {given_words[1]!r}, {given_words[1]}, 'u:secret@h', w1@host", given_words)
    assert told == "no \"(not shown)\", (not shown), '(not shown)', w1@host"
