"""The triggers on a queue and its archive: which of them fills the archive, and what that asks of the archiver."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from qops.db import quote_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import sqlalchemy as sa

    from qops.queue import QueueTable

_COMMENT = re.compile(r"/\*.*?\*/|--\s[^\n]*|#[^\n]*", re.DOTALL)


@dataclass(frozen=True)
class Trigger:
    """One trigger, with the text of its body."""

    name: str
    table: str
    timing: str
    event: str
    body: str

    def __str__(self) -> str:
        return f"trigger {quote_name(self.name)} ({self.timing} {self.event} ON {quote_name(self.table)})"

    def inserts_into(self, table: str) -> bool:
        """Whether its text inserts into `table`. What a procedure does that it calls is not seen."""
        name = rf"(?:`{re.escape(table.replace('`', '``'))}`|{re.escape(table)})(?![\w$])"
        schema = r"(?:(?:`[^`]+`|[\w$]+)\s*\.\s*)?"
        words = r"\b(?:INSERT|REPLACE)\b(?:\s+(?:LOW_PRIORITY|HIGH_PRIORITY|DELAYED|IGNORE|INTO))*\s*"
        return re.search(words + schema + name, _COMMENT.sub(" ", self.body), re.IGNORECASE) is not None


def read_triggers(pair: Sequence[sa.Row[tuple[object, ...]]]) -> tuple[Trigger, ...]:
    """Return the triggers in the rows of `archive_pair`, in no order that means anything."""
    found = [Trigger(body[0], row.name, *body[1:]) for row in pair for body in json.loads(row.triggers or "[]")]
    return tuple(sorted(found, key=lambda trigger: (trigger.table, trigger.name)))


def why_triggers_refuse(queue: QueueTable, triggers: Iterable[Trigger], *, all_seen: bool) -> Iterator[str]:
    """Yield what speaks against moving rows the way `archive_by` says."""
    archive, name = queue.archive.name, queue.table.name
    deleting = [one for one in triggers if one.event == "DELETE" and one.table.lower() == name.lower()]
    filling = [one for one in deleting if one.inserts_into(archive)]
    section = f"[queues.{queue.name}]"
    if queue.settings.archive_by == "copy" and filling:
        drop = f"DROP TRIGGER {quote_name(queue.schema)}.{quote_name(filling[0].name)};"
        yield (
            f"{filling[0]} seems to fill {archive!r} by itself, and would meet the copy there; have it do so with "
            f'archive_by = "trigger" in {section}, or drop it: {drop}'
        )
    if queue.settings.archive_by == "trigger" and not deleting and all_seen:
        yield (
            f'archive_by = "trigger" in {section} says that a trigger fills {archive!r}, but no DELETE trigger is on '
            f'{name!r}; create it, or set archive_by = "copy"'
        )
