"""Checks of the queue's tables: engine, keys, the claim's index and plan, and who may do what."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qops.doctor.facts import DriftFacts
from qops.doctor.model import Check, Outcome, advice, known, passed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from qops.doctor.facts import Access, Facts, Missing, Wanted

TABLE = ("storage-engine",)


def storage_engine(facts: Facts) -> Outcome:
    """Check that the table is there, fits the configuration, and has row locks."""
    table = known(facts.table)
    expected = "an InnoDB table that fits the configuration"
    if not table.exists:
        return Outcome("critical", f"table {table.name!r} does not exist", expected, "qops init")
    if table.problem:
        repairable = isinstance(facts.drift, DriftFacts) and facts.drift.repairable
        cure = "qops init --repair" if repairable else advice("change qops.toml or the table, as the message says")
        return Outcome("critical", table.problem, expected, cure)
    if (table.engine or "").lower() != "innodb":
        return Outcome(
            "critical",
            f"{table.engine}: it has no row locks, so SKIP LOCKED is ignored",
            expected,
            table.convert,
        )
    return passed("InnoDB", expected)


def primary_key(facts: Facts) -> Outcome:
    """Check that each job is found by its id."""
    table = known(facts.table)
    expected = "a primary key, and a unique index that begins with the id"
    if not table.primary_key:
        return Outcome("critical", "there is no primary key", expected, table.add_key)
    observed = f"PRIMARY KEY ({', '.join(table.primary_key)})"
    if table.generated_keys:
        return Outcome(
            "warning",
            "the server made up the primary key of "
            f"{' and '.join(repr(name) for name, _ in table.generated_keys)}: an invisible column, which every other "
            "index holds in place of the id",
            expected,
            "\n".join([advice("each statement rewrites its table"), *(cure for _, cure in table.generated_keys)]),
        )
    if table.identified:
        return passed(observed, expected)
    return Outcome(
        "warning",
        f"{observed}, and no unique index begins with the id: a statement for one job reads and locks many",
        expected,
        table.add_key,
    )


def claim_index(facts: Facts) -> Outcome:
    """Check that an index gives the claim's rows in the claim's order."""
    indexes = known(facts.indexes)
    claim = indexes.claim
    expected = f"a visible index on ({claim.columns})"
    if not claim.serving:
        if indexes.hidden:
            name, show = indexes.hidden[0]
            return Outcome("critical", f"{name} is invisible, so the optimizer does not use it", expected, show)
        found = f"; there are {', '.join(indexes.similar)}" if indexes.similar else ""
        return Outcome("critical", f"no index gives this order{found}", expected, claim.create)
    if indexes.redundant:
        names = ", ".join(name for name, _ in indexes.redundant)
        return Outcome(
            "warning",
            f"{', '.join(claim.serving)}; but {names} on the status alone too: the optimizer may choose it and sort, "
            "and every change of state writes it",
            f"{expected}, and none on the status alone",
            "\n".join(drop for _, drop in indexes.redundant),
        )
    return passed(", ".join(claim.serving), expected)


def claim_plan(facts: Facts) -> Outcome:
    """Check that the optimizer goes along that index and does not sort."""
    plan, indexes = known(facts.plan), known(facts.indexes)
    expected = f"the claim goes along {' or '.join(indexes.claim.serving) or 'its index'} and does not sort"
    observed = f"type {plan.access}, key {plan.key}, {plan.extra or 'nothing extra'}"
    sorts = "filesort" in plan.extra
    if plan.key in indexes.claim.serving and not sorts:
        return passed(observed, expected)
    consequence = (
        "every candidate is locked before LIMIT counts, and other workers get nothing"
        if sorts
        else ("rows of other states are read and locked on the way")
    )
    return Outcome(
        "critical",
        f"{observed}: {consequence}",
        expected,
        advice(
            f"EXPLAIN FORMAT=TRADITIONAL {plan.statement};\n"
            "the index is there and does not give the order: a ready state with several values is read in several "
            "pieces, so give it one value; else renew the statistics with ANALYZE TABLE"
        ),
    )


def lease_index(facts: Facts) -> Outcome:
    """Check that expired jobs are found by index."""
    return _maintenance(facts, "lease_until")


def archive_index(facts: Facts) -> Outcome:
    """Check that finished jobs are found by age."""
    return _maintenance(facts, "finished_at")


def _maintenance(facts: Facts, role: str) -> Outcome:
    wanted: Wanted | None = next((one for one in known(facts.indexes).maintenance if one.name == role), None)
    if wanted is None:
        return passed(f"not applicable: the queue has no {role}", "an index where the queue has it")
    expected = f"a visible index that begins with ({wanted.columns})"
    if wanted.serving:
        return passed(", ".join(wanted.serving), expected)
    return Outcome("warning", f"none, so qops {wanted.command} reads all jobs of the state", expected, wanted.create)


def archive_drift(facts: Facts) -> Outcome:
    """Check that the tables are what the queue needs."""
    found = known(facts.drift)
    expected = "an archive with the columns of the queue's table, of the same types, and the run ledger"
    if not found.differences:
        return passed("no difference", expected)
    named = "; ".join(f"{one.object}: {one.found}, not {one.expected}" for one in found.differences)
    init = ["qops init --repair"] if found.repairable else ["qops init"] if found.creatable else []
    remedy = [*init, *found.by_hand]
    return Outcome("warning", named, expected, "\n".join(remedy) or advice("see the differences: qops init --dry-run"))


def clock(facts: Facts) -> Outcome:
    """Check that it is known what the time columns mean."""
    found = known(facts.clock)
    expected = "TIMESTAMP, or DATETIME with `clock` in qops.toml"
    if not found.columns:
        return passed("not applicable: the queue has no times", expected)
    observed = ", ".join(f"{name} {kind}" for name, kind in found.columns)
    ambiguous = [name for name, kind in found.columns if kind.startswith("datetime")]
    if not ambiguous:
        return passed(f"{observed}; TIMESTAMP ends at 2038-01-19 03:14:07 UTC", expected)
    if found.declared:
        return passed(f"{observed}; clock = {found.declared!r}", expected)
    return Outcome(
        "critical",
        f"{observed}; a DATETIME does not say in which time zone it was written, so qops does not compare it",
        expected,
        advice(
            f'in [queues.{facts.queue}] of qops.toml: clock = "utc" if the workers write UTC_TIMESTAMP() or their '
            'sessions are at +00:00, else an offset such as "+08:00"'
        ),
    )


def privileges(facts: Facts) -> Outcome:
    """Check what this account's commands may do; it was tried, not read from SHOW GRANTS."""
    access, roles = known(facts.access), facts.roles
    expected = "the privileges of every command that this account is to run"
    refused = [(one, missing) for one in access for missing in one.missing if not missing.optional]
    if not refused:
        return passed(_able(access), expected)
    observed = "; ".join(_refusals(refused))
    grants = list(dict.fromkeys(missing.grant for _, missing in refused))
    inactive = getattr(roles, "inactive", ())
    if inactive:
        return Outcome(
            "warning",
            f"the roles {', '.join(inactive)} were granted and are not active; {observed}",
            expected,
            f"{roles.activate}\n{advice(chr(10).join(('or, without the roles:', *grants)))}",  # type: ignore[union-attr]
        )
    return Outcome("warning", observed, expected, "\n".join(grants))


def _refusals(refused: list[tuple[Access, Missing]]) -> Iterator[str]:
    """Yield each refusal of the server once, with the commands that it keeps from their work."""
    for refusal in dict.fromkeys(missing.refusal for _, missing in refused):
        alike = [(one.command, missing.purpose) for one, missing in refused if missing.refusal == refusal]
        commands = ", ".join(dict.fromkeys(command for command, _ in alike))
        purposes = {purpose for _, purpose in alike}
        yield f"{commands} cannot {purposes.pop() if len(purposes) == 1 else 'run'}: {refusal}"


def _able(access: tuple[Access, ...]) -> str:
    able = f"{', '.join(one.command for one in access)} can run"
    without = [
        f"{one.command} cannot {missing.purpose}" for one in access for missing in one.missing if missing.optional
    ]
    return f"{able}; without privileges that they can do without: {'; '.join(without)}" if without else able


CHECKS = (
    Check(
        "storage-engine",
        "The queue's table is an InnoDB table that fits the configuration",
        "critical",
        "Claims rest on row locks, which only InnoDB has; and a role or state that the table does not have is found "
        "out here rather than in the middle of a run.",
        storage_engine,
        how="information_schema.tables and columns, compared with qops.toml; needs any privilege on the table.",
        cure=(
            "qops init creates a table that is missing; ALTER TABLE to InnoDB rewrites one of another engine; "
            "qops.toml or the table is changed where they do not fit."
        ),
    ),
    Check(
        "primary-key",
        "Each job is found by its id",
        "critical",
        "qops selects ids and acts on exactly those. Without a key every such statement reads and locks the table, "
        "and replicas and groups cannot apply its changes.",
        primary_key,
        TABLE,
        how="information_schema.statistics; needs any privilege on the table.",
        cure="ALTER TABLE that adds the key online; it ends with an error where ids are there twice.",
    ),
    Check(
        "claim-index",
        "An index gives the claim's order",
        "critical",
        "Without it MySQL sorts all candidates, locks all of them before LIMIT counts, and the other workers' SKIP "
        "LOCKED finds nothing to claim.",
        claim_index,
        TABLE,
        how=(
            "information_schema.statistics: columns, directions and visibility of each index; needs any privilege on "
            "the table."
        ),
        cure=(
            "CREATE INDEX in the claim's order, online, as qops init --repair does it; or ALTER INDEX that makes an "
            "invisible one visible."
        ),
    ),
    Check(
        "claim-plan",
        "The optimizer uses that index for the claim",
        "critical",
        "An index helps only if it is chosen. The plan of the real claim statement tells; its row estimate does not.",
        claim_plan,
        (*TABLE, "clock", "claim-index"),
        how="EXPLAIN of the claim as the Worker class sends it; needs SELECT and UPDATE or DELETE on the table.",
        cure=(
            "One value for the ready state, or fresh statistics with ANALYZE TABLE; the statement to try it with is "
            "printed."
        ),
    ),
    Check(
        "lease-index",
        "An index leads to expired leases",
        "warning",
        "Without it every look for expired jobs reads all running ones, and reapers of your own lock them.",
        lease_index,
        TABLE,
        how="information_schema.statistics; needs any privilege on the table.",
        cure="CREATE INDEX, online, as qops init --repair does it.",
    ),
    Check(
        "archive-index",
        "An index leads to finished jobs by age",
        "warning",
        "Without it archiving by age reads every finished job each time, also when none is old enough.",
        archive_index,
        TABLE,
        how="information_schema.statistics; needs any privilege on the table.",
        cure="CREATE INDEX, online, as qops init --repair does it.",
    ),
    Check(
        "archive-drift",
        "The tables are what the queue needs",
        "warning",
        "A difference between queue and archive could lose or change data, so qops archive refuses to run with one.",
        archive_drift,
        TABLE,
        how=(
            "information_schema.tables, columns and statistics of the queue's table, its archive and qops_runs, as "
            "qops init compares them; needs any privilege on each."
        ),
        cure=(
            "qops init for a table that is missing, qops init --repair for what can be added online, and the "
            "statements that are printed for the rest."
        ),
    ),
    Check(
        "clock",
        "It is known what the time columns mean",
        "critical",
        "A DATETIME written by a session in another time zone is hours off: leases expire at once or never.",
        clock,
        TABLE,
        how=(
            "The types of the time columns in information_schema.columns, and clock in qops.toml; needs any privilege "
            "on the table."
        ),
        cure="clock in qops.toml, which says what the times in the table mean.",
    ),
    Check(
        "privileges",
        "This account may do what its commands need",
        "warning",
        "A privilege that is missing shows in the middle of a run otherwise; one that a role would give does not count "
        "while the role is not active.",
        privileges,
        ("read-only", "clock"),
        how=(
            "EXPLAIN of the statements of each command, which asks for their privileges and changes nothing; needs "
            "none of its own."
        ),
        cure="The GRANT for each privilege that is missing, or SET DEFAULT ROLE where a role has it.",
    ),
)
