"""What a check is, what it answers, and what stands for a fact that could not be read."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from qops.doctor.facts import Unknown

if TYPE_CHECKING:
    from collections.abc import Callable

    from qops.doctor.facts import Facts

T = TypeVar("T")


class NotKnownError(Exception):
    """A check asked for a fact that could not be read."""

    def __init__(self, unknown: Unknown) -> None:
        super().__init__(unknown.reason)
        self.unknown = unknown


def known(fact: T | Unknown) -> T:
    """Return a fact, or end the check as `unknown`."""
    if isinstance(fact, Unknown):
        raise NotKnownError(fact)
    return fact


@dataclass(frozen=True)
class Outcome:
    """What a check found. `remedy` is SQL or a command that cures it as it stands; advice is an SQL comment."""

    status: str
    observed: str
    expected: str
    remedy: str | None = None


@dataclass(frozen=True)
class Check:
    """A question about the server or the queue, with a stable id.

    `severity` is the worst it can find, `why` what happens to those who do not know, `after` the checks that
    must not have failed for this one to mean anything. `how` says in one sentence which view or statement tells and
    which privilege that needs, `cure` in words what a remedy looks like.
    """

    id: str
    title: str
    severity: str
    why: str
    test: Callable[[Facts], Outcome]
    after: tuple[str, ...] = ()
    how: str = field(kw_only=True)
    cure: str = field(kw_only=True)


@dataclass(frozen=True)
class Result:
    """One line of the audit, as scripts see it."""

    id: str
    title: str
    status: str
    observed: str | None
    expected: str | None
    why: str
    remedy: str | None


def passed(observed: str, expected: str) -> Outcome:
    """Return the outcome of a check that found nothing wrong."""
    return Outcome("pass", observed, expected)


def advice(text: str) -> str:
    """Return words as an SQL comment, a line each, so that whoever pastes them runs nothing."""
    return "\n".join(f"-- {line}" for line in text.splitlines())
