"""What counts as the same error: literal pairs, and what holds for any text."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qops.fold import LONGEST, MOST_GROUPS, OTHERS, SAMPLES, Groups, fold

FOLDED = {
    "order 17 was refused": "order # was refused",
    "order #17 was refused": "order # was refused",
    "order17 of worker-3": "order# of worker-#",
    "timed out after 1.5s": "timed out after #",
    "timed out after 1m30s": "timed out after #",
    "timed out after 300ms (limit 250ms)": "timed out after # (limit #)",
    "sent 2.5MB of 10 MB": "sent # of # MB",
    "balance -1,234.50 or 1e-9": "balance # or #",
    "ids [1, 2, 3] are gone": "ids [#] are gone",
    "ids [4] are gone": "ids [#] are gone",
    "no user 123e4567-e89b-12d3-a456-426614174000": "no user #",
    "no user 123E4567-E89B-12D3-A456-426614174000.": "no user #.",
    "at 0x7f3a9c00de10 in <Task object at 0x1F>": "at # in <Task object at #>",
    "commit 9fceb02 of d670460b4b4aece5915caf5c68d12f560a9fe3e4": "commit # of #",
    "charge ch_1Kx9fZ2eZvKYlo2C failed": "charge ch_# failed",
    "event 01ARZ3NDEKTSV4RRFFQ69G5FAV": "event #",
    "no key 'order-77:eu' here": "no key '#' here",
    '{"why": "card 4242 was declined"}': '{"why": "card # was declined"}',
    "Duplicate entry '9-x' for key 'jobs.u1'": "Duplicate entry '#' for key '#'",
    "Unknown column 'price' in 'field list'": "Unknown column 'price' in 'field list'",
    "can't read user 12's file": "can't read user #'s file",
    "2026-11-30T22:38:44.123Z lost": "# lost",
    "2026-11-30 22:38:44+02:00 lost": "# lost",
    "2026-11-30 lost": "# lost",
    "Mon, 30 Nov 2026 22:38:44 GMT lost": "# lost",
    "Nov  3 22:38:44 lost": "# lost",
    "at 22:38:44 lost": "at # lost",
    "connect to 10.0.0.17:3306 failed": "connect to # failed",
    "connect to 10.0.0.9 failed": "connect to # failed",
    "connect to fe80::1ff:fe23:4567:890a failed": "connect to # failed",
    "connect to ::1 failed": "connect to # failed",
    "std::bad_alloc in a::b": "std::bad_alloc in a::b",
    "mail to ann.b+c@mail.example.org bounced": "mail to # bounced",
    "HTTP 503 from 10.1.2.3 for order 9": "HTTP 503 from # for order #",
    "HTTP/1.1 404 for order 9": "HTTP/1.1 404 for order #",
    "status code: 429, request 7": "status code: 429, request #",
    "[Errno 111] Connection refused by 17": "[Errno 111] Connection refused by #",
    "MySQL error 1205": "MySQL error #",
    "\n\n  ---- \n  Real cause 5\nmore": "Real cause #",
    'Traceback (most recent call last):\n  File "a.py", line 3, in f\n    raise E\nKeyError: 17\n': "KeyError: #",
    "much   \t space": "much space",
    "Zahlung 17 überfällig 💥": "Zahlung # überfällig 💥",
    "\x1b[31mred 5": "\\x1b[#m" + "red #",
    "": "",
    " \n\t ": "",
    "----": "----",
}


@pytest.mark.parametrize("text", FOLDED)
def test_an_error_is_folded_to_what_it_shares_with_its_like(text: str) -> None:
    """Numbers, hex, UUIDs, times, addresses and quoted ids are one placeholder; words and status codes stay."""
    assert fold(text) == FOLDED[text]


@given(st.integers(min_value=0), st.integers(min_value=0))
def test_numbers_never_split_a_group(one: int, other: int) -> None:
    """Two errors that differ in a number alone are one line."""
    for form in ("job {} failed", "job{}: x", "key 'a-{}'", "[{}]", "x={};", "{}%", "-{}", "{}ms", "v{}.2", "{}.5 s"):
        assert fold(form.format(one)) == fold(form.format(other))


IDS = (
    st.uuids(),
    st.uuids().map(lambda value: value.hex),
    st.datetimes(),
    st.ip_addresses().filter(lambda address: any(map(str.isdigit, str(address)))),
)


@given(st.one_of(*(st.tuples(ids, ids) for ids in IDS)))
def test_ids_never_split_a_group(pair: tuple[object, object]) -> None:
    """Two errors that differ in a UUID, a time or an address alone are one line."""
    one, other = pair
    assert fold(f"lost {one} again") == fold(f"lost {other} again")


@given(st.text() | st.text("0123456789abcdef:-.'\"` @#\n\x1b", max_size=3_000))
def test_a_folded_error_is_one_short_safe_line(text: str) -> None:
    """Whatever an error holds, its line is bounded, and no control character is left in it."""
    line = fold(text)
    assert len(line) <= LONGEST
    assert not any(unicodedata.category(character) in {"Cc", "Cs"} for character in line)


def test_a_traceback_that_was_cut_shows_how_far_it_came() -> None:
    """A traceback without its exception is told apart by its last line."""
    assert fold("Traceback (most recent call last):\n  File x\n    charge(order)") == "charge(order)"


def test_groups_count_and_keep_first_last_and_samples() -> None:
    """A group knows how many, the first and last time, and the first few ids; jobs without a text are a group."""
    groups = Groups()
    for number in range(10):
        groups.add(f"order {number}", number, f"2026-01-{10 - number:02}")
    groups.add(None, 99)
    first, second = groups.largest_first()
    assert (first.error, first.count, first.first_at, first.last_at) == ("order #", 10, "2026-01-01", "2026-01-10")
    assert first.sample_ids == list(range(SAMPLES))
    assert (second.error, second.count, second.first_at, second.last_at) == (None, 1, None, None)


def test_groups_are_bounded() -> None:
    """However many different errors there are, memory is bounded, and no job is left uncounted."""
    groups = Groups()
    words = [chr(97 + a) + chr(103 + b) + chr(103 + c) for a in range(26) for b in range(20) for c in range(4)]
    for number, word in enumerate(words):
        groups.add(f"no {word}", number)
    found = groups.largest_first()
    assert len(found) == MOST_GROUPS + 1
    assert found[0].error == OTHERS
    assert sum(group.count for group in found) == len(words)
