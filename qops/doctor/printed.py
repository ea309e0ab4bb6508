"""Statements of SQLAlchemy as people can type them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy.dialects import mysql

from qops.columns import quoted

if TYPE_CHECKING:
    from sqlalchemy.sql import ClauseElement

    from qops.queue import QueueTable

_DIALECT = mysql.dialect()


def as_typed(element: ClauseElement, queue: QueueTable) -> str:
    """Return an element with its values, on one line, and tables with their schema.

    It is compiled as for the driver, which takes every percent sign twice, those of hints too.
    """
    options: Any = {"schema_translate_map": {None: quoted(queue.schema)}, "render_schema_translate": True}
    text = str(element.compile(dialect=_DIALECT, compile_kwargs={"literal_binds": True}, **options))
    return text.replace("%%", "%").replace("\n", " ")
