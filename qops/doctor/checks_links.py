"""Checks of what hangs on the queue's tables: foreign keys that refer to them, triggers on them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qops.doctor.facts import Unknown
from qops.doctor.model import Check, NotKnownError, Outcome, advice, known, passed

if TYPE_CHECKING:
    from qops.doctor.facts import Facts

TABLE = ("storage-engine",)


def foreign_keys(facts: Facts) -> Outcome:
    """Check that deleting a job deletes or changes no row of another table."""
    links = known(facts.links).children
    expected = "no foreign key whose ON DELETE reaches other rows"
    found = links.children.found
    reaching = [child for child in found if child.changes_rows]
    if reaching:
        cures = dict(links.cures)
        lines = [
            advice(
                "either let such a job stay until its rows are gone, as these statements do, "
                "or accept what happens to them: archive --allow-cascade"
            )
        ]
        for child in reaching:
            lines += cures.get(child.name) or [advice(f"make {child} restrict; its columns are not to be seen")]
        return Outcome("warning", "; ".join(map(str, reaching)), expected, "\n".join(lines))
    if not links.children.complete:
        raise NotKnownError(
            Unknown(
                "this account does not see the foreign keys of every table, and a DELETE could cascade", links.grant
            )
        )
    if found:
        return passed(f"{'; '.join(map(str, found))}: a job that has such rows is not archived", expected)
    return passed("none", expected)


def triggers(facts: Facts) -> Outcome:
    """Check that the statements of workers and archiver do only what they say."""
    links = known(facts.links).triggers
    fills = links.archive_by == "trigger"
    expected = "the trigger that fills the archive, and no other" if fills else "no trigger on either table"
    if links.refusals:
        drops = "\n".join(drop for one, drop in links.found if one in links.filling and not fills)
        return Outcome(
            "critical",
            "; ".join(text.partition("; ")[0] for text in links.refusals),
            expected,
            drops or advice("; ".join(links.refusals)),
        )
    others = [(one, drop) for one, drop in links.found if one not in links.filling]
    if others:
        drops = "\n".join(drop for _, drop in others)
        said = advice("where nothing needs them; one that is needed is left out with [doctor] skip")
        return Outcome("warning", "; ".join(str(one) for one, _ in others), expected, f"{said}\n{drops}")
    if links.hidden:
        names = " and ".join(repr(name) for name, _ in links.hidden)
        grants = "\n".join(grant for _, grant in links.hidden)
        raise NotKnownError(Unknown(f"this account may not see all triggers on {names}", grants))
    return passed(", ".join(map(str, links.filling)) or "none", expected)


CHECKS = (
    Check(
        "foreign-keys",
        "Deleting a job reaches no other table",
        "warning",
        "ON DELETE CASCADE and SET NULL delete or change rows of other tables when a job is archived, and nothing "
        "copies those: the archiver refuses.",
        foreign_keys,
        TABLE,
        how=(
            "information_schema.innodb_foreign with PROCESS, else information_schema.referential_constraints, which "
            "shows all only to an account that may read every schema."
        ),
        cure=(
            "ALTER TABLE of the child that makes the foreign key restrict; or archive --allow-cascade, which accepts "
            "what happens to its rows."
        ),
    ),
    Check(
        "triggers",
        "No trigger acts on the tables unawares",
        "critical",
        "A trigger runs for every row inside the worker's or archiver's transaction: it can slow or stop each of them, "
        "alter what is copied, or fill the archive a second time.",
        triggers,
        TABLE,
        how="information_schema.triggers of the queue's table and its archive; needs TRIGGER on both.",
        cure="DROP TRIGGER, or [doctor] skip for one that is needed.",
    ),
)
