"""Checks of the queue's rows: leases, delays, finished jobs, ids and attempts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qops.doctor.model import Check, Outcome, advice, known, passed

if TYPE_CHECKING:
    from qops.doctor.facts import Facts, Unknown
    from qops.doctor.row_facts import Overdue

TABLE = ("storage-engine",)
TIMED = (*TABLE, "clock")
AT_END = 0.95  # of the ids that there are


def expired_leases(facts: Facts) -> Outcome:
    """Check that somebody puts back the jobs of workers that are gone."""
    expected = f"no running job whose lease passed {facts.limits.grace_seconds:g} s ago or longer"
    return _overdue(facts, known(facts.rows).expired, "running, and the lease has passed", expected)


def scheduled_promotion(facts: Facts) -> Outcome:
    """Check that somebody makes scheduled jobs pending when their time has come."""
    expected = f"no scheduled job that has been due for {facts.limits.grace_seconds:g} s or longer"
    return _overdue(facts, known(facts.rows).due, "scheduled, and their time has come", expected)


def _overdue(facts: Facts, fact: Overdue | Unknown | None, what: str, expected: str) -> Outcome:
    overdue = known(fact)
    if overdue is None:
        return passed("not applicable: the queue has no such state, or no such time", expected)
    if not overdue.jobs.found:
        return passed("none", expected)
    observed = f"{overdue.jobs}: {what} for more than {overdue.grace_seconds:g} s{_paused(facts)}"
    return Outcome("warning", observed, expected, overdue.command)


def _paused(facts: Facts) -> str:
    brake = known(facts.rows).brake
    return f"; the queue is {brake}" if brake else ""


def delayed_pending(facts: Facts) -> Outcome:
    """Check that claims do not read over jobs whose time has not come."""
    delayed = known(known(facts.rows).delayed)
    limit = facts.limits.delayed_pending
    expected = f"fewer than {limit} pending jobs whose time has not come among the first that a claim reads"
    if delayed is None:
        return passed("not applicable: no claim reads over jobs that wait for their time", expected)
    jobs = delayed.jobs
    observed = f"{jobs.found} of the first {jobs.examined}"
    if jobs.found < limit:
        return passed(observed, expected)
    return Outcome("warning", f"{observed} (id {', '.join(jobs.ids)}, …)", expected, delayed.cure)


def finished_rows(facts: Facts) -> Outcome:
    """Check that finished jobs leave the table."""
    finished = known(known(facts.rows).finished)
    least = facts.limits.finished_rows
    expected = f"few jobs that the archiver is to move: from {least} on fewer than there are live ones"
    if finished is None:
        return passed("not applicable: the queue has no finished jobs", expected)
    if finished.rows >= finished.bound:
        observed = f"at least {finished.bound} are {finished.state}{_paused(facts)}"
        return Outcome("warning", observed, expected, finished.command)
    observed = f"{finished.rows} are {finished.state}"
    if finished.live is None or finished.rows < max(least, finished.live + 1):
        return passed(observed, expected)
    observed = f"{observed}, and {finished.live} are not finished{_paused(facts)}"
    return Outcome("warning", observed, expected, finished.command)


def auto_increment(facts: Facts) -> Outcome:
    """Check that the next ids are new and that there are enough of them."""
    ids = known(known(facts.rows).increment)
    near = facts.limits.ids_used
    expected = f"a next id above the archive's highest, and below {near:.0%} of what the type holds"
    if ids is None:
        return passed("not applicable: the queue does not number its jobs", expected)
    observed = f"next id {ids.next_id} of {ids.column_type}"
    if ids.archived is not None and ids.next_id <= ids.archived:
        return Outcome("critical", f"{observed}; the archive's highest is {ids.archived}", expected, ids.raise_)
    used = ids.next_id / ids.end
    if used < near:
        return passed(observed, expected)
    said = "each statement rewrites its table and blocks its writers, and columns that refer to the id must follow"
    nothing = "MySQL has no wider type: bring the ids down with a new table"
    return Outcome(
        "critical" if used >= AT_END else "warning",
        f"{observed}, which ends at {ids.end}",
        expected,
        "\n".join([advice(said), *ids.widen]) if ids.widen else advice(nothing),
    )


def attempts_counted(facts: Facts) -> Outcome:
    """Check that a job which ends its workers is tried a limited number of times."""
    attempts = known(known(facts.rows).attempts)
    expected = "attempts of every running job above 0 and within its limit, and of every pending one below it"
    if attempts is None:
        return passed("not applicable: the queue has no attempts", expected)
    parts, cures = [], []
    if attempts.uncounted and attempts.uncounted.found:
        parts.append(f"running with attempts 0: {attempts.uncounted}")
        cures.append(
            advice(
                "in the workers' claim: attempts = attempts + 1;\n"
                f"or in qops.toml, where qops shall count when it puts a job back: {attempts.section} "
                'attempts_counted = "requeue"'
            )
        )
    if attempts.spent.found:
        parts.append(f"pending with their attempts used up: {attempts.spent}")
        cures.append(attempts.cure)
    if attempts.beyond.found:
        parts.append(f"running although their attempts were used up: {attempts.beyond}")
        cures.append(
            advice(
                "whoever puts jobs back to pending must give up on those at their limit, as this does once their "
                "leases have passed: qops requeue --expired"
            )
        )
    if not parts:
        return passed("none that is not counted or used up", expected)
    return Outcome("warning", "; ".join(parts), expected, "\n".join(cures))


CHECKS = (
    Check(
        "expired-leases",
        "Jobs of workers that are gone are put back",
        "warning",
        "Nobody works on a running job whose lease has passed, and nobody can claim it until it is put back.",
        expired_leases,
        TIMED,
        how=(
            "The first rows of the running state along an index, at most 1,000 of each value; needs SELECT on the "
            "table."
        ),
        cure="qops requeue --expired now, and regularly.",
    ),
    Check(
        "scheduled-promotion",
        "Scheduled jobs become pending when they are due",
        "warning",
        "Claims see pending jobs only: a scheduled one that nobody promotes is never done.",
        scheduled_promotion,
        TIMED,
        how=(
            "The first rows of the scheduled state along an index, at most 1,000 of each value; needs SELECT on the "
            "table."
        ),
        cure="qops promote now, and regularly.",
    ),
    Check(
        "delayed-pending",
        "Jobs that wait for their time are not in the claim's way",
        "warning",
        "Every claim reads over pending jobs whose time has not come: with 20,000 of them on top it took 70 times as "
        "long.",
        delayed_pending,
        TIMED,
        how="The first 1,000 pending rows in the claim's order; needs SELECT on the table.",
        cure="Enqueue such jobs as scheduled; an UPDATE that is printed moves those that are there.",
    ),
    Check(
        "finished-rows",
        "Finished jobs leave the table",
        "warning",
        "A table that keeps them grows without end: its indexes no longer fit in memory, and backups, ALTER TABLE and "
        "every report take longer.",
        finished_rows,
        TIMED,
        how=(
            "A count along an index that ends at 100,000 rows, of what qops archive would move with the options in "
            "qops.toml; needs SELECT on the table."
        ),
        cure="qops archive now, and regularly.",
    ),
    Check(
        "auto-increment",
        "New jobs get new ids, and there are enough",
        "critical",
        "A new job with an id that the archive holds cannot be archived, and a table whose ids are used up takes no "
        "job at all.",
        auto_increment,
        TABLE,
        how="The table's next id in information_schema.tables and the archive's highest; needs SELECT on both tables.",
        cure=(
            "ALTER TABLE … AUTO_INCREMENT above the archive's highest id; a wider type where the ids come to their end."
        ),
    ),
    Check(
        "attempts-counted",
        "Attempts are counted, and end",
        "warning",
        "A job that kills its worker is tried for ever where nobody counts its attempts, and so is one that goes "
        "back to pending with its attempts used up.",
        attempts_counted,
        TABLE,
        how="The first 1,000 running and pending rows along an index; needs SELECT on the table.",
        cure=(
            "Add 1 in the workers' claim, or attempts_counted in qops.toml; an UPDATE that is printed gives up on "
            "jobs at their limit."
        ),
    ),
)
