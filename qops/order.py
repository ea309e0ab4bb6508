"""The order in which workers claim: as configured, and what of it decides."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy.sql import operators
from sqlalchemy.sql.elements import UnaryExpression

from qops.configfile import nearest
from qops.errors import Misconfigured

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import sqlalchemy as sa

    from qops.queue_settings import QueueSettings


def choose_order(
    settings: QueueSettings, table: sa.Table, columns: Mapping[str, sa.Column[Any]]
) -> tuple[sa.ColumnElement[Any], ...]:
    """Return the claim's ORDER BY; an item is a role or a column, optionally with `asc` or `desc`."""
    written = settings.order
    if written is None:
        written = ("priority desc", "id") if "priority" in columns else ("id",)
    known: dict[str, sa.Column[Any]] = {name.lower(): column for name, column in table.columns.items()}
    known |= columns
    chosen: list[sa.ColumnElement[Any]] = []
    for item in written:
        name, direction = _split_direction(item, known)
        column = known.get(name.lower())
        if column is None:
            raise Misconfigured(
                f"[queues.{settings.name}] order names {name!r}, which is neither a role nor a column of table "
                f"{settings.table!r}; {nearest(name, [*columns, *table.columns.keys()])}"
            )
        chosen.append(column.desc() if direction == "desc" else column)
    return tuple(chosen)


def decisive_order(
    order: Sequence[sa.ColumnElement[Any]], roles: Mapping[str, sa.Column[Any]]
) -> list[tuple[str, bool]]:
    """Return an order as (column, descending), without the status, which is fixed, and what follows the id."""
    kept: list[tuple[str, bool]] = []
    for name, descending in map(direction, order):
        if name != roles["status"].name:
            kept.append((name, descending))
        if name == roles["id"].name:
            break
    return kept


def direction(part: sa.ColumnElement[Any]) -> tuple[str, bool]:
    """Return a key part's column name, and whether it is descending."""
    if isinstance(part, UnaryExpression):
        return str(part.element.name), part.modifier is operators.desc_op
    return str(part.name), False


def _split_direction(item: str, known: Mapping[str, object]) -> tuple[str, str]:
    """Return name and direction of one item of `order`; a column may be called `desc`, or `my desc`."""
    words = item.rsplit(None, 1)
    if item.lower() not in known and len(words) > 1 and words[1].lower() in {"asc", "desc"}:
        return words[0].strip(), words[1].lower()
    return item.strip(), "asc"
