"""What keeps an archive from taking a queue's rows unchanged, column by column, and the ALTER that ends it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from qops.columns import INTEGERS, TIMES
from qops.db import quote_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from qops.columns import ColumnFact
    from qops.indexes import Index
    from qops.queue import QueueTable

RANKS = (
    ("tinyint", "smallint", "mediumint", "int", "bigint"),
    ("varchar", "text", "mediumtext", "longtext"),
    ("tinytext", "text", "mediumtext", "longtext"),
    ("varbinary", "blob", "mediumblob", "longblob"),
    ("tinyblob", "blob", "mediumblob", "longblob"),
)
"""Types of which each takes every value of those before it, and keeps it as it is."""
MEASURED = frozenset({"varchar", "varbinary"})  # of these the length decides, of those the fractions of a second
CLOCKED = TIMES | {"time"}


@dataclass(frozen=True)
class Difference:
    """What is wrong with `table`, and the clause of ALTER TABLE that cures it; None where no ALTER does."""

    table: str
    text: str
    clause: str | None = None

    def __str__(self) -> str:
        return self.text


def find_differences(queue: QueueTable) -> Iterator[Difference]:
    """Yield what could lose or change data on the way from the queue's table to its archive.

    Where a trigger makes the way, only the id has to be the same, so that rows of both can be held together.
    """
    archive, copying = queue.archive.name, queue.settings.archive_by == "copy"
    by_lower = {name.lower(): fact for name, fact in queue.archive_facts.items()}
    for name, source in queue.facts.items() if copying else [(queue.id.name, queue.facts[queue.id.name])]:
        target = queue.archive_facts.get(name) or by_lower.get(name.lower())
        found = _compare(source, target, is_id=name == queue.id.name)
        if found:
            yield Difference(archive, *found)
    here = {name.lower() for name in queue.facts}
    for name, target in by_lower.items():
        if copying and name not in here and target.must_be_given:
            text = f"column {target.name!r} is NOT NULL there, without a default, and missing here"
            yield Difference(archive, text, _modify(target, target.name, null=True))


def alters(schema: str, differences: Iterable[Difference]) -> str:
    """Return the statements that end `differences`, one a line for each table; empty if there is none to run.

    Where values that are there already are converted, it is by the rules by which they were copied, and none is cut.
    """
    clauses: dict[str, dict[str, None]] = {}
    for difference in differences:
        if difference.clause:
            clauses.setdefault(difference.table, {})[difference.clause] = None
    lines = [
        f"ALTER TABLE {quote_name(schema)}.{quote_name(table)} {', '.join(several)};"
        for table, several in clauses.items()
    ]
    if any(clause.startswith("MODIFY") for several in clauses.values() for clause in several):
        lines.insert(0, "SET SESSION sql_mode = 'STRICT_ALL_TABLES', time_zone = '+00:00';")
    return "\n".join(lines)


def add_key(indexes: Iterable[Index], column: str) -> str:
    """Return the clause that makes `column` identify a row: the primary key where there is none."""
    taken = any(index.name == "PRIMARY" for index in indexes)
    return f"ADD {'UNIQUE KEY' if taken else 'PRIMARY KEY'} ({quote_name(column)})"


def forbid_null(fact: ColumnFact) -> str | None:
    """Return the clause that has a column be NOT NULL."""
    return _modify(fact, fact.name, null=False)


def fits(source: ColumnFact, target: ColumnFact) -> bool:
    """Whether a column of `target`'s type takes every value of `source`'s, and keeps it as it is."""
    if (source.charset, source.collation) != (target.charset, target.collation):
        return False
    mine, theirs = source.data_type, target.data_type
    if source.column_type == target.column_type:
        return True
    if mine != theirs:
        alike = mine not in INTEGERS or _sign(source) == _sign(target)
        return alike and any({mine, theirs} <= set(rank) and rank.index(mine) < rank.index(theirs) for rank in RANKS)
    if mine == "enum":  # members are compared as text and sorted by number
        return target.labels[: len(source.labels)] == source.labels
    if mine in MEASURED or mine in CLOCKED:
        return (target.length or 0, target.precision or 0) >= (source.length or 0, source.precision or 0)
    return mine in INTEGERS and _sign(source) == _sign(target)  # the rest of the type is a display width


def _sign(fact: ColumnFact) -> tuple[bool, bool]:
    return "unsigned" in fact.column_type, "zerofill" in fact.column_type


def _compare(source: ColumnFact, target: ColumnFact | None, *, is_id: bool) -> tuple[str, str | None] | None:
    """Return what is wrong with the archive's column, and the clause that cures it; None if nothing is."""
    name = source.name
    if target is None:
        return f"column {name!r} is missing", _add(source)
    if target.name != name:
        rename = f"RENAME COLUMN {quote_name(target.name)} TO {quote_name(name)}"
        return f"column {name!r} is written {target.name!r} there", rename
    if target.generated:
        if source.expression == target.expression:
            return None
        how = "otherwise there" if source.generated else "there and given here"
        return f"column {name!r} is computed {how}", _make_plain(source, target)
    fitting = fits(source, target)
    if fitting and (target.nullable or not source.nullable):
        return None
    if source.nullable and not target.nullable:
        text = f"column {name!r} is NOT NULL there"
    elif source.collation != target.collation and source.column_type == target.column_type:
        text = f"column {name!r} is {target.collation} there and {source.collation} here"
    else:
        text = f"column {name!r} is {target.column_type} there and {source.column_type} here"
    null = not is_id and (source.nullable or target.nullable)
    return text, _modify(target if fitting else source, name, null=null)


def _modify(fact: ColumnFact, name: str, *, null: bool) -> str | None:
    definition = _definition(fact, null=null)
    return definition and f"MODIFY COLUMN {quote_name(name)} {definition}"


def _add(fact: ColumnFact) -> str | None:
    """Return the clause that adds a column; rows that are there already have no value for it."""
    definition = _definition(fact, null=True)
    return definition and f"ADD COLUMN {quote_name(fact.name)} {definition}"


def _make_plain(source: ColumnFact, target: ColumnFact) -> str | None:
    """Return the clause that has the archive keep values instead of computing them.

    A virtual column has none to keep and cannot become a plain one (3106).
    """
    if "STORED" in target.extra:
        return _modify(source, target.name, null=True)
    added = _add(source)
    return added and f"DROP COLUMN {quote_name(target.name)}, {added}"


def _definition(fact: ColumnFact, *, null: bool) -> str | None:
    if "\\" in fact.column_type:
        return None  # the server escapes some characters of a type's text and does not undo that on the way in
    collation = f" COLLATE {fact.collation}" if fact.collation else ""
    return f"{fact.column_type}{collation} {'NULL' if null else 'NOT NULL'}"
