"""`qops show`: one job wherever it is now, with all that is known of it."""

from __future__ import annotations

import codecs
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from sqlalchemy import exc

from qops.archived import view
from qops.db import DENIED, NO_SUCH_OBJECT, Server, errno
from qops.holder import Holder, Unknown, holder_of
from qops.ids import parse_id
from qops.jobs.entries import entries
from qops.jobs.listing import warn_of_times
from qops.jobs.result import KEYS, Found, Payload, job_of
from qops.ledger import LedgerMissing
from qops.queue import QueueTable, load
from qops.statements import jobs as st

if TYPE_CHECKING:
    from collections.abc import Callable

    import sqlalchemy as sa

    from qops.events import Events
    from qops.queue_settings import QueueSettings

T = TypeVar("T")


def show(server: Server, settings: QueueSettings, text: str, events: Events) -> Found:
    """Return the job with the id `text` from the queue or the archive. Raises UsageError for what is no id."""
    with server.observe() as connection:
        queue = load(connection, settings)
        look = _Look(server, connection, queue, parse_id(queue, text), events)
        found = look.up()
        warn_of_times(queue, events)
        return found


@dataclass
class _Look:
    server: Server
    connection: sa.Connection
    queue: QueueTable
    id: Any
    events: Events

    def up(self) -> Found:
        row, home = self._read(self.queue), self.queue
        if row is None:
            archive = self._reach(
                lambda: view(self.connection, self.queue, self.queue.settings.archive_table), "archive"
            )
            if archive and archive.has("id") and archive.id_index:
                row, home = self._read(archive), archive
            if row is None:  # it may have been restored meanwhile
                row, home = self._read(self.queue), self.queue
        ledger = self._reach(lambda: entries(self.connection, self.queue.name, self.id), "ledger")
        if row is None:
            return Found(self.queue.name, dict.fromkeys(KEYS) | {"id": self.id}, ledger=ledger)
        holder = self._holder() if home is self.queue else None
        return Found(
            queue=self.queue.name,
            job=job_of(home, row),
            table=str(home.table.name),
            payload=self._payload(home, row),
            remaining=None if row["lease_left"] is None else row["lease_left"] / 1e6,
            held_by=None if isinstance(holder, Unknown) else holder,
            seen=not isinstance(holder, Unknown),
            ledger=ledger,
        )

    def _read(self, home: QueueTable) -> sa.RowMapping | None:
        return self.connection.execute(st.read_job(home, self.id)).mappings().first()

    def _reach(self, read: Callable[[], T], what: str) -> T | None:
        """Return what was read; None, and why on stderr, where it is missing or this account may not."""
        try:
            return read()
        except LedgerMissing as error:
            why: object = error
        except exc.DBAPIError as error:
            if errno(error) not in DENIED | NO_SUCH_OBJECT:
                raise
            why = self.server.translate(error)
        self.events.warn(f"the {what} is out of reach, so what it knows of the job is not shown: {why}")
        return None

    def _holder(self) -> Holder:
        holder = holder_of(self.server, self.queue, self.id)
        if isinstance(holder, Unknown):
            self.events.warn(f"which connection holds the row is unknown: {holder.reason}")
        return holder

    def _payload(self, home: QueueTable, row: sa.RowMapping) -> Payload:
        shown, size = row["payload"], row["payload_bytes"]
        if shown is None:
            return Payload()
        is_json = home.facts[home.columns["payload"].name].data_type == "json"
        if is_json and not shown:  # no document is empty, but the server makes its text so
            self.events.warn("the payload's text is longer than max_allowed_packet, so it cannot be shown")
            return Payload()
        whole = len(shown) < st.LONGEST_PAYLOAD or size <= st.LONGEST_PAYLOAD
        text = readable(shown, whole=whole)
        if not whole:
            self.events.warn(f"the payload has {size} bytes; only its beginning is shown")
        return Payload(text, json.loads(text) if whole and is_json else text, size)


def readable(payload: str | bytes, *, whole: bool) -> str:
    """Return a payload as text; bytes that are no UTF-8 as MySQL writes them: 0x and hexadecimal.

    One that is not `whole` may end in the middle of a character, which is left out.
    """
    if not isinstance(payload, bytes):
        return str(payload)
    try:
        return codecs.getincrementaldecoder("utf-8")().decode(payload, final=whole)
    except UnicodeDecodeError:
        return f"0x{payload.hex().upper()}"
