"""Checks of what workers really send, and of how their lock waits end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qops.doctor.facts import PlanFacts, Unknown
from qops.doctor.model import Check, NotKnownError, Outcome, advice, known, passed
from qops.doctor.row_facts import Sample

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from qops.doctor.facts import Facts
    from qops.doctor.traffic_facts import Sent, Traffic

TABLE = ("storage-engine",)
LEAST = 10  # executions, errors or lost jobs: fewer are somebody's hands, or bad luck
SORTED = 0.1  # of a claim's executions
WALKED = 100  # rows examined for one that is sent or changed
LOST = 0.05  # of the jobs that were finished
RECENT_SECONDS = 3600
NAMED = 5
SHOWN = 300  # characters of a statement
SUMMARY = "TRUNCATE TABLE performance_schema.events_statements_summary_by_digest;"
ERRORS = "TRUNCATE TABLE performance_schema.events_errors_summary_global_by_error;"
LONGER = (
    "in the server's option file: max_digest_length = 4096 and performance_schema_max_digest_length = 4096, "
    "and a restart"
)
SUMS = (
    "they begin with FIRST_SEEN, and count where it was sent within the last hour from a session whose default "
    "schema is "
    "the queue's; needs SELECT on performance_schema"
)
AGAIN = (
    "this stays until the old statement has not been sent for an hour; if its text stays the same, let the server's "
    f"sums of statements begin anew: {SUMMARY}"
)


def skip_locked(facts: Facts) -> Outcome:
    """Check that claims pass over the jobs that others have locked."""
    expected = "SKIP LOCKED in every FOR UPDATE that chooses jobs by their status"
    waiting = [one for one in known(facts.traffic).statements if one.waits and one.executions >= LEAST]
    if not waiting:
        _require_all(facts)
        cut = [one for one in known(facts.traffic).statements if one.cut and one.executions >= LEAST]
        if cut:
            raise NotKnownError(Unknown(f"the end is not kept of {_listed(cut, lambda _: '')}", advice(LONGER)))
        return passed(_seen(facts, "claim"), expected)
    remedy = advice(f"in the workers: {_claim(facts)}\n{AGAIN}")
    return Outcome("critical", _listed(waiting, lambda _: ""), expected, remedy)


def sorted_claims(facts: Facts) -> Outcome:
    """Check that claims take jobs in the order of an index."""
    expected = "claims that read their jobs in order and sort nothing"
    found = [one for one in known(facts.traffic).statements if _sorts(one)]
    if not found:
        _require_all(facts)
        return passed(_seen(facts, "claim"), expected)
    observed = _listed(
        found,
        lambda one: f", sorted {one.sorts} times, {one.examined} rows examined for {one.rows}",
    )
    return Outcome("warning", observed, expected, advice(f"in the workers: {_claim(facts)}\n{AGAIN}"))


def rows_examined(facts: Facts) -> Outcome:
    """Check that claims and changes find their jobs without reading over others."""
    expected = f"fewer than {WALKED} rows examined for one that is locked or changed"
    # A claim that sorts reads all candidates for that reason, which is the finding of the check above.
    found = [
        one
        for one in known(facts.traffic).statements
        if one.executions >= LEAST and one.examined >= WALKED * (one.rows + one.executions) and not _sorts(one)
    ]
    if not found:
        _require_all(facts)
        return passed(_seen(facts, "statement that locks or changes jobs"), expected)
    observed = _listed(found, lambda one: f", {one.examined} rows examined for {one.rows}")
    return Outcome(
        "warning",
        observed,
        expected,
        advice(
            "look at the plan of each with EXPLAIN FORMAT=TRADITIONAL, and give it an index that finds its jobs\n"
            f"a claim is right so: {_claim(facts)}\n"
            "the index of the claim and those of qops are added by: qops init --repair\n"
            f"{AGAIN}"
        ),
    )


def lease_length(facts: Facts) -> Outcome:
    """Check that workers finish their jobs while their leases last."""
    expected = f"fewer than {LEAST} jobs, or {LOST:.0%}, that were finished after their lease"
    parts = [*_turned_away(facts.traffic), *_finished_late(facts.late)]
    if parts:
        return Outcome(
            "warning",
            "; ".join(parts),
            expected,
            advice(
                "in the workers: a lease of several times what a job takes, or a heartbeat that renews it meanwhile\n"
                "jobs that were late are no longer counted when they have left the table: qops archive\n"
                f"then, so that the sums begin anew: {SUMMARY}"
            ),
        )
    traffic, late = known(facts.traffic), known(facts.late)
    if not traffic.leased:
        return passed("not applicable: the queue has no leases", expected)
    fenced = [one for one in traffic.statements if one.fenced]
    _require_all(facts)
    seen = f"{sum(map(_lost, fenced))} of {sum(one.executions for one in fenced)} were turned away"
    if late is not None:
        seen = f"{seen}, and {late.found} of the last {late.examined} that are done bear an earlier lease"
    return passed(seen, expected)


def _turned_away(traffic: Traffic | Unknown) -> list[str]:
    """Name the statements that often found that the job was no longer their worker's."""
    statements = () if isinstance(traffic, Unknown) or not traffic.leased else traffic.statements
    late = [one for one in statements if one.fenced and _lost(one) >= max(LEAST, LOST * one.executions)]
    return [_listed(late, lambda one: f", {_lost(one)} of them found their job no longer held")] if late else []


def _finished_late(late: Sample | Unknown | None) -> list[str]:
    if not isinstance(late, Sample) or late.found < max(LEAST, LOST * late.examined):
        return []
    return [f"of the last {late.examined} jobs that are done {late} were finished after the lease that they bear"]


def lock_errors(facts: Facts) -> Outcome:
    """Check that lock waits do not end in deadlocks and timeouts all the time."""
    expected = f"fewer than {LEAST} deadlocks, or lock wait timeouts, an hour"
    errors = known(facts.lock_errors)
    names = {1213: "deadlocks (1213)", 1205: "lock wait timeouts (1205)"}
    parts, often = [], False
    for one in errors:
        hours = max(one.first_seconds, RECENT_SECONDS) / RECENT_SECONDS
        many = one.raised / hours >= LEAST and one.last_seconds < RECENT_SECONDS
        often = often or many
        by = f"; in this hour: {', '.join(one.accounts)}" if many and one.accounts else ""
        parts.append(f"{one.raised} {names.get(one.code, one.code)} from {one.first_seen} to {one.last_seen}{by}")
    observed = f"on the whole server: {'; '.join(parts) or 'none'}"
    if not often:
        return passed(observed, expected)
    return Outcome(
        "warning",
        observed,
        expected,
        advice(
            "who waits for whom now: qops health; the last deadlock, with both statements: SHOW ENGINE INNODB STATUS\n"
            "in the workers: READ COMMITTED, FOR UPDATE SKIP LOCKED and then changes by id, short transactions\n"
            f"then, so that the count begins anew: {ERRORS}"
        ),
    )


def _sorts(one: Sent) -> bool:
    """Tell whether a claim sorts now and then, and candidates that it does not take."""
    return (
        one.claims
        and one.sorts >= max(LEAST, SORTED * one.executions)
        # Each row that is sorted counts twice: a sort of one candidate, which locks no other, is none.
        and one.examined - 2 * one.rows >= one.sorts
    )


def _lost(one: Sent) -> int:
    return max(0, one.executions - one.errors - one.rows)


def _require_all(facts: Facts) -> None:
    """End the check as unknown where statements may have been sent that the server did not keep."""
    traffic = known(facts.traffic)
    if traffic.full:
        raise NotKnownError(traffic.full)


def _claim(facts: Facts) -> str:
    """Return the claim that is right for this queue."""
    if isinstance(facts.plan, PlanFacts):
        return f"{facts.plan.statement};"
    return "FOR UPDATE SKIP LOCKED, along the claim's index by its name (FORCE INDEX)"


def _seen(facts: Facts, what: str) -> str:
    statements = known(facts.traffic).statements
    number = sum(1 for one in statements if one.claims or what != "claim")
    return f"{number} kind{'' if number == 1 else 's'} of {what} seen in the last hour"


def _listed(found: Sequence[Sent], measure: Callable[[Sent], str]) -> str:
    named = [
        f"{one.executions} times from {one.first_seen} to {one.last_seen}{measure(one)}: {_shown(one.statement)}"
        for one in found[:NAMED]
    ]
    more = f"; and {len(found) - NAMED} more" if len(found) > NAMED else ""
    return f"{'; '.join(named)}{more}"


def _shown(statement: str) -> str:
    """Return a statement's beginning and its end, where FOR UPDATE is."""
    return statement if len(statement) <= SHOWN else f"{statement[: SHOWN // 2]} … {statement[-SHOWN // 2 :]}"


CHECKS = (
    Check(
        "skip-locked",
        "Claims pass over jobs that others have locked",
        "critical",
        "FOR UPDATE without SKIP LOCKED makes every worker wait for the same first job: the queue then is as fast as "
        "one worker, however many there are.",
        skip_locked,
        TABLE,
        how=(
            f"The server's sums (events_statements_summary_by_digest) of statements that lock jobs by their state: "
            f"{SUMS}; "
            f"from {LEAST} executions on."
        ),
        cure="The worker's claim with SKIP LOCKED.",
    ),
    Check(
        "sorted-claims",
        "The claims that are sent take jobs in order and sort nothing",
        "warning",
        "A claim that sorts locks every pending job before it takes its own, so others find an empty queue; on small "
        "tables the optimizer chooses that although the index is there, unless the claim names it.",
        sorted_claims,
        TABLE,
        how=(
            f"The sorts in the server's sums of claims: {SUMS}; from {LEAST} sorts on, and {SORTED:.0%} of the "
            "executions."
        ),
        cure="The worker's claim with the index named: FORCE INDEX.",
    ),
    Check(
        "rows-examined",
        "Claims and changes read few rows that they do not need",
        "warning",
        "A claim or change that reads over many rows takes longer the more jobs there are, and at REPEATABLE READ "
        "locks all of them.",
        rows_examined,
        TABLE,
        how=(
            f"The rows examined in the server's sums by statement: {SUMS}; from {LEAST} executions on, and "
            f"{WALKED} rows "
            "for each that was sent or changed."
        ),
        cure="The index that the statement lacks, or the statement in a form that an index serves.",
    ),
    Check(
        "lease-length",
        "Leases last as long as the work",
        "warning",
        "A job whose lease passes while its worker is at it is given to another: it is done twice, and what the first "
        "did is thrown away.",
        lease_length,
        TABLE,
        how=(
            "The last 1,000 finished jobs along an index, whose lease and finish time are compared where both "
            f"stay, and changes by owner that met no row, in the server's sums: {SUMS}; from {LEAST} on, and "
            f"{LOST:.0%} "
            "of them. Needs SELECT on the table."
        ),
        cure="A longer lease, or heartbeats while the work lasts.",
    ),
    Check(
        "lock-errors",
        "Lock waits seldom end in deadlocks and timeouts",
        "warning",
        "Each deadlock undoes a transaction, and each timeout leaves one open with half of its work: workers that do "
        "not begin again from the start lose jobs or do them twice.",
        lock_errors,
        how=(
            "The server's counts of the errors 1205 and 1213 (events_errors_summary_global_by_error), with the "
            f"accounts that met them, averaged since the first one; from {LEAST} an hour on, where the last is of this "
            "hour; needs SELECT on performance_schema."
        ),
        cure="READ COMMITTED and SKIP LOCKED in whoever meets them, and smaller transactions.",
    ),
)
