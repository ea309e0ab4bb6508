"""Cutting a text to what its column can hold: an error message must never keep a job from being marked."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from qops.queue import QueueTable

_BYTES_COUNTED = frozenset({"tinytext", "text", "mediumtext", "longtext"})  # their length is in bytes
_WIDE = "\uffff"  # the last character of three-byte character sets


def fit(queue: QueueTable, role: str, text: str) -> str:
    """Return `text` as column `role` can hold it: no longer, and with `?` for characters that it does not have."""
    column = queue.columns.get(role)
    if column is None:
        return text
    fact = queue.facts[column.name]
    text = text.encode("utf-8", "replace").decode("utf-8")
    if fact.charset in {"utf8mb3", "utf8", "ucs2"}:
        text = "".join(character if character <= _WIDE else "?" for character in text)
    elif fact.charset not in {"utf8mb4", "utf16", "utf16le", "utf32"}:
        text = text.encode("ascii", "replace").decode("ascii")
    if fact.length is None:
        return text
    if fact.data_type in _BYTES_COUNTED:
        return text.encode("utf-8")[: fact.length].decode("utf-8", "ignore")
    return text[: fact.length]
