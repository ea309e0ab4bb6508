"""Text that comes from anywhere, made fit for a terminal."""

from __future__ import annotations

import re

# C0 and C1 control characters, DEL, the marks that change the direction of what follows, and lone surrogates.
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def escape(text: str) -> str:
    """Return text with control characters spelled out, so that a job's error cannot drive the terminal."""
    return _UNSAFE.sub(lambda match: match[0].encode("unicode_escape", "surrogatepass").decode(), text)


def is_text(word: str) -> bool:
    """Whether a word of the command line or the environment was valid in the encoding that it came in."""
    return not any("\ud800" <= character <= "\udfff" for character in word)


def conceal(text: str, given: list[str]) -> str:
    """Return `text` without those of the words `given` on a command line that may be a URL with a password in it."""
    for word in given:
        value = word.partition("=")[2] if word.startswith("--") else word
        if "://" in value or (":" in value and "@" in value):
            for form in (value, repr(value)[1:-1]):
                text = text.replace(form, "(not shown)")
    return text
