"""The triggers on a queue and its archive: which of them fills the archive, and what that asks of the archiver."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from qops.db import quote_name, statement

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import sqlalchemy as sa

    from qops.queue import QueueTable

_GRANT = re.compile(r"GRANT (?P<words>.+?) ON (?P<place>\*\.\*|`(?:[^`]|``)+`\.(?:\*|`(?:[^`]|``)+`)) TO ", re.DOTALL)
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


def unseen_triggers(connection: sa.Connection, schema: str, table: str, archive: str) -> list[str]:
    """Return the names of those of the two tables that may have triggers which this account does not see."""
    names = {"schema": schema, "table": table, "archive": archive}
    unsure = [row for row in connection.execute(statement("sees_triggers"), names) if not row.sure]
    if not any(row.roles for row in unsure):
        return [row.name for row in unsure]
    grants = connection.execute(statement("own_grants")).scalars().all()
    revoked = any(line.startswith("REVOKE ") for line in grants)  # partial revokes, which only global grants have
    places = [place for line in grants if (place := _may_trigger(line)) and not (revoked and place == "*.*")]
    return [row.name for row in unsure if not any(_includes(place, schema, row.name) for place in places)]


def _may_trigger(grant: str) -> str | None:
    """Return what a line of SHOW GRANTS gives TRIGGER on, as it is written there."""
    found = _GRANT.match(grant)
    held = {word.strip() for word in found["words"].split(",")} if found else set()
    return found["place"] if found and held & {"TRIGGER", "ALL PRIVILEGES"} else None


def _includes(place: str, schema: str, table: str) -> bool:
    """Whether a place of SHOW GRANTS is, or has in it, a table.

    A schema counts where it is written as this one, with or without its wildcards escaped; wildcards that stand for
    more do not, because partial_revokes decides whether they are any.
    """
    quoted = quote_name(schema)
    schemas = {quoted, quoted.replace("_", "\\_").replace("%", "\\%")}
    return place in {"*.*", f"{quoted}.{quote_name(table)}", *(f"{one}.*" for one in schemas)}


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
