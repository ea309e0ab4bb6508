"""What a new job's row holds: payload, priority, time, and whatever other columns the caller names."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from qops.configfile import nearest
from qops.errors import Misconfigured
from qops.statements import worker as st
from qops.worker.session import Prepared, prepare

if TYPE_CHECKING:
    from collections.abc import Mapping

    import sqlalchemy as sa
    from sqlalchemy.engine import Dialect

    from qops.queue import QueueTable


class Enqueuer:
    """Makes the INSERT for a job; one for each set of columns is compiled."""

    def __init__(self, queue: QueueTable, dialect: Dialect) -> None:
        self._queue = queue
        self._dialect = dialect
        self._prepared: dict[tuple[str, ...], Prepared] = {}

    def prepare(
        self,
        payload: Any,  # noqa: ANN401 - text, bytes or a document
        priority: int | None,
        delay_microseconds: int,
        columns: Mapping[str, Any],
    ) -> tuple[Prepared, dict[str, Any]]:
        """Return the statement and its parameters. Raises Misconfigured for what the queue cannot store."""
        if delay_microseconds < 0:
            raise ValueError("a delay is not negative")
        delayed = delay_microseconds > 0
        given: dict[str, Any] = dict(columns)
        if payload is not None:
            given["payload"] = payload
        if priority is not None:
            given["priority"] = priority
        self._check_roles(given, delayed=delayed)
        key = (*given, "delayed" if delayed else "now")
        names = {name: f"column_{number}" for number, name in enumerate(given)}
        chosen = {name: self._column(name) for name in given}
        if key not in self._prepared:
            self._prepared[key] = self._compile({names[name]: column for name, column in chosen.items()}, delayed)
        values = {names[name]: self._value(column, given[name]) for name, column in chosen.items()}
        if delayed:
            values["delay_microseconds"] = delay_microseconds
        return self._prepared[key], values

    def _compile(self, columns: Mapping[str, sa.Column[Any]], delayed: bool) -> Prepared:  # noqa: FBT001
        if len(set(columns.values())) < len(columns):
            raise Misconfigured(f"a column of table {self._queue.table.name!r} was given twice, by role and by name")
        return prepare(st.enqueue(self._queue, columns, delayed=delayed), self._dialect)

    def _check_roles(self, given: Mapping[str, Any], *, delayed: bool) -> None:
        queue = self._queue
        for role in ("payload", "priority"):
            if role in given:
                queue.require(f"enqueue with a {role}", roles=(role,))
        if delayed:
            queue.require("enqueue with a delay", roles=("available_at",))
            if queue.columns["available_at"] in {self._column(name) for name in given}:
                raise Misconfigured("a job has a delay or a time of its own in available_at, not both")
        extra = queue.facts[queue.id.name].extra
        if "AUTO_INCREMENT" not in extra and self._column("id") not in {self._column(name) for name in given}:
            raise Misconfigured(
                f"table {queue.table.name!r} does not number its rows (column {queue.id.name!r} is not "
                "AUTO_INCREMENT): give each job its id, enqueue(…, id=…)"
            )

    def _column(self, name: str) -> sa.Column[Any]:
        queue = self._queue
        column = queue.columns.get(name, queue.table.columns.get(name))
        if column is None:
            raise Misconfigured(
                f"{name!r} is neither a role of queue {queue.name!r} nor a column of table {queue.table.name!r}; "
                f"{nearest(name, [*queue.columns, *queue.table.columns.keys()])}"
            )
        return column

    def _value(self, column: sa.Column[Any], value: Any) -> Any:  # noqa: ANN401 - a column's value
        """Return `value` as the driver has to be given it."""
        fact = self._queue.facts[column.name]
        if isinstance(value, datetime) and value.tzinfo is not None:
            if fact.data_type != "timestamp" and self._queue.settings.clock != "utc":
                raise Misconfigured(
                    f"column {column.name!r} of table {self._queue.table.name!r} is no TIMESTAMP and its clock is not "
                    "UTC: give its time without a zone, as the workers write it"
                )
            return value.astimezone(UTC).replace(tzinfo=None)
        if fact.data_type == "json" and isinstance(value, bytes):
            return value.decode()
        if column is self._queue.columns.get("payload") or fact.data_type == "json":
            return value if isinstance(value, str | bytes) else json.dumps(value, allow_nan=False)
        return value
