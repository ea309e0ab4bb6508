"""Counting rows of walks up to a bound: exact below it, `{"at_least": N}` above."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import sqlalchemy as sa

    from qops.statements.walk import Walk

Count = int | dict[str, int]


def count_walks(
    connection: sa.Connection, walks: Sequence[Walk], query: Callable[[Walk, int], sa.Select[Any]], bound: int
) -> Count:
    """Return how many rows `query(walk, limit)` counts over all walks; reads at most `bound` + 1 rows of each."""
    counts = [int(connection.execute(query(walk, bound + 1)).scalar_one()) for walk in walks]
    if all(count <= bound for count in counts):
        return sum(counts)
    return {"at_least": sum(min(count, bound) for count in counts)}


def at_most(count: Count, limit: int | None) -> Count:
    """Return `count`, cut to `limit` where there is one."""
    known = least(count)
    if limit is None or (isinstance(count, int) and count <= limit):
        return count
    return limit if known >= limit else count


def least(count: Count) -> int:
    """Return the number that is certain."""
    return count["at_least"] if isinstance(count, dict) else count


def words(count: Count, noun: str = "job") -> str:
    """Return a count in words: `1 job`, `3 jobs`, `at least 100000 jobs`."""
    number = least(count)
    plural = f"{noun}es" if noun.endswith("ch") else f"{noun}s"
    text = f"{number} {noun if number == 1 else plural}"
    return f"at least {text}" if isinstance(count, dict) else text
