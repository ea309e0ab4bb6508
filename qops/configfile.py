"""The configuration file: where it is, reading it, and refusing what it should not hold."""

from __future__ import annotations

import difflib
import os
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qops.errors import Misconfigured

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


def reject_unknown(values: Mapping[str, Any], known: tuple[str, ...], where: str, path: Path | None) -> None:
    """Raise Misconfigured for the first key of `values` that is not in `known`, naming the nearest one."""
    for key in values:
        if key not in known:
            raise Misconfigured(f"{path}: unknown key {key!r} in {where}; {nearest(key, known)}")


def nearest(word: str, known: Iterable[str]) -> str:
    """Say which of `known` was probably meant by `word`."""
    choices = sorted(known)
    close = difflib.get_close_matches(word, choices, n=1, cutoff=0.5)
    if close:
        return f"did you mean {close[0]!r}?"
    return f"known are: {', '.join(choices)}" if choices else "none is configured"


def config_path(given: str | None, environment: Mapping[str, str]) -> Path | None:
    """Return the file that was given, else the first that exists; Misconfigured (78) where a given one does not."""
    if given:
        path = path_of(given)
        if not path.exists() or path.is_dir():
            raise Misconfigured(f"configuration file {path} does not exist; check --config or QOPS_CONFIG")
        return path
    home = environment.get("HOME")
    candidates = [Path("qops.toml")]
    if home:
        candidates.append(Path(home) / ".config" / "qops" / "qops.toml")
    return next((path for path in candidates if path.is_file()), None)


def path_of(text: str) -> Path:
    """Return the path that a user wrote, with `~` resolved. Raises Misconfigured where no file can be called so."""
    if "\0" in text:
        raise Misconfigured(f"{text!r} cannot be the name of a file")
    return Path(os.path.expanduser(text))  # noqa: PTH111 - pathlib's raises for a user who does not exist


def read(path: Path) -> dict[str, Any]:
    """Return the file as TOML. Raises Misconfigured for what is not TOML or cannot be read."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise Misconfigured(f"{path}: not valid TOML: {error}") from None
    except OSError as error:
        raise Misconfigured(f"{path}: cannot be read: {error.strerror}") from None


def section_of(document: Mapping[str, Any], name: str, path: Path | None) -> Mapping[str, Any]:
    """Return table `name` of a document, empty if it is not there. Raises Misconfigured for anything but a table."""
    value = document.get(name, {})
    if not isinstance(value, dict):
        raise Misconfigured(f"{path}: {name!r} must be a table, as in [{name}]")
    return value
