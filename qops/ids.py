"""Job ids as people type them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from qops.columns import INTEGERS
from qops.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from qops.queue import QueueTable

_WHOLE_NUMBER = re.compile(r"-?[0-9]{1,20}")


def parse_id(queue: QueueTable, text: str) -> Any:  # noqa: ANN401 - whatever the id column holds
    """Return a job id as the id column holds it, because MySQL would take `12abc` for 12. Raises UsageError."""
    if queue.facts[queue.id.name].data_type not in INTEGERS:
        return text
    if not _WHOLE_NUMBER.fullmatch(text):
        raise UsageError(f"{text!r} is not an id of queue {queue.name!r}, whose ids are whole numbers")
    return int(text)


def named_ids(connection: sa.Connection, table: QueueTable, texts: Iterable[str]) -> list[Any]:
    """Return the ids that were typed, each once and as its row in `table` has it: a collation may call two equal.

    An id without a row stays as it was typed. Raises UsageError for what is no id.
    """
    typed = [parse_id(table, text) for text in texts]
    if table.facts[table.id.name].data_type not in INTEGERS:
        rows = (connection.execute(sa.select(table.id).where(table.id == id_)).scalar() for id_ in typed)
        typed = [id_ if row is None else row for id_, row in zip(typed, rows, strict=True)]
    return list(dict.fromkeys(typed))
