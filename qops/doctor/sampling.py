"""Looking at some rows, never at more than a bound: how many are wanted, and the ids of a few."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from qops.doctor.row_facts import Sample
from qops.statements.sample import count_hits, name_hits

if TYPE_CHECKING:
    from collections.abc import Iterable

    import sqlalchemy as sa

BOUND, NAMED = 1_000, 5


def sample(connection: sa.Connection, looks: Iterable[sa.Subquery]) -> Sample:
    """Return what is found in `looks`, each of at most BOUND rows with `id` and `hit`. Raises the driver's errors."""
    found, examined, bounded = 0, 0, False
    ids: list[Any] = []
    for rows in looks:
        seen = connection.execute(count_hits(rows)).one()
        found, examined = found + int(seen.found), examined + seen.examined
        bounded = bounded or seen.examined == BOUND
        if seen.found:
            ids += connection.execute(name_hits(rows, NAMED)).scalars().all()
    return Sample(found, examined, bounded, tuple(map(str, ids[:NAMED])))
