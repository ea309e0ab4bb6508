"""What the ledger keeps of a command line: the options that were given, of bounded size, and no secret."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any

LONGEST_TEXT = 2_000  # characters: a reason has half of it, and more of an error nobody reads in a list
LONGEST_LIST = 1_000  # what is named beyond is counted: `ids` and `ids_left_out`
NOT_ARGUMENTS = frozenset({"reason", "dry_run"})
_SECRET = re.compile(r"(\w+://[^\s:/@]*):[^\s@/]*@")


def given(options: Any, *, seconds: tuple[str, ...] = ()) -> dict[str, Any]:  # noqa: ANN401 - any command's options
    """Return the fields of a command's options that differ from their defaults; those in `seconds` say so by name.

    Of addresses by name only the names are returned, because an address can hold a password.
    """
    found: dict[str, Any] = {}
    for field in fields(options):
        value = getattr(options, field.name)
        default = field.default_factory() if field.default_factory is not MISSING else field.default
        if field.name in NOT_ARGUMENTS or value == default:
            continue
        name = f"{field.name}_seconds" if field.name in seconds else field.name
        found[name] = sorted(value) if isinstance(value, Mapping) else value
    return found


def bounded(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values as the ledger keeps them: long texts and lists are cut, passwords in addresses are masked."""
    kept: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, str):
            kept[name] = text(value)
        elif isinstance(value, list | tuple):
            kept[name] = [text(one) if isinstance(one, str) else one for one in value[:LONGEST_LIST]]
            if len(value) > LONGEST_LIST:
                kept[f"{name}_left_out"] = len(value) - LONGEST_LIST
        else:
            kept[name] = value
    return kept


def text(value: str) -> str:
    """Return a text as the ledger keeps it."""
    masked = _SECRET.sub(r"\1:***@", value)
    return masked if len(masked) <= LONGEST_TEXT else masked[: LONGEST_TEXT - 1] + "…"
