"""Checks of what sessions really sent to the queue's table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qops.doctor.model import Check, Outcome, advice, known, passed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qops.doctor.facts import ClockUse, Facts

NAMED = 10
SHOWN = 200  # characters of a statement
LOCAL_TIMES = (" NOW ", " SYSDATE ")
UTC = " UTC_TIMESTAMP "


def autocommit_claims(facts: Facts) -> Outcome:
    """Check that nobody locks jobs in autocommit, where the lock ends with the statement."""
    claims = known(facts.autocommit_claims)
    expected = "SELECT … FOR UPDATE only inside transactions"
    if not claims:
        return passed("none seen", expected)
    named = [
        f"connection {one.connection_id} ({one.user or 'unknown user'}): {one.statement[:SHOWN]}" for one in claims
    ]
    return Outcome(
        "critical",
        _listed(named),
        expected,
        advice(
            "in the workers: START TRANSACTION; before the SELECT, COMMIT; after the UPDATE that marks the job\n"
            "or, after connecting: SET SESSION autocommit = 0;\n"
            "this stays until those sessions have run ten other statements, or have ended"
        ),
    )


def worker_time_zone(facts: Facts) -> Outcome:
    """Check that the times which sessions put into DATETIME columns are those of the declared clock."""
    clock = known(facts.clock)
    columns = [name for name, kind in clock.columns if kind.startswith("datetime")]
    expected = f"the time that clock = {clock.declared!r} means, in every session"
    if not columns or clock.declared is None:
        return passed("not applicable: no DATETIME is compared with the clock", "times that mean the same to all")
    declared = _seconds(clock.declared)
    touching = [
        one
        for one in known(facts.clock_uses)
        if any(_names(one.statement, name) for name in columns) and not _only_reads(one.statement)
    ]
    wrong = {one.connection_id: one for one in touching if set(_offsets(one)) - {declared, None}}
    if not wrong:
        seen = len({one.connection_id for one in touching})
        return passed(f"{seen} session{'' if seen == 1 else 's'} with such times seen", expected)
    named = [
        f"connection {one.connection_id} ({one.user or 'unknown user'}) "
        f"{'writes UTC_TIMESTAMP()' if _in_utc(one) else f'has time_zone {one.zone}'}: {one.statement[:SHOWN]}"
        for one in wrong.values()
    ]
    zone = "+00:00" if clock.declared == "utc" else clock.declared
    lines = [f"in these sessions, after connecting: SET SESSION time_zone = '{zone}';"]
    if any(_in_utc(one) for one in wrong.values()):
        lines.append(f'and NOW(6) instead of UTC_TIMESTAMP(6), or clock = "utc" in [queues.{facts.queue}] of qops.toml')
    elif clock.declared == "utc":
        lines.append("or UTC_TIMESTAMP(6) instead of NOW(6) in their statements")
    return Outcome("critical", _listed(named), expected, advice("\n".join(lines)))


def _offsets(one: ClockUse) -> tuple[int | None, ...]:
    """Return how far east of UTC the times of a statement are; with both kinds in it nobody can tell."""
    text = f"{one.statement} "
    if not _in_utc(one):
        return one.offsets
    return (None,) if any(word in text for word in LOCAL_TIMES) else (0,)


def _in_utc(one: ClockUse) -> bool:
    return UTC in f"{one.statement} "


def _names(digest: str, column: str) -> bool:
    """Tell whether a digest names a column; one that is a word of MySQL's stands there in capitals, without quotes."""
    # Not column.upper(): the names of SQLAlchemy keep their case.
    return f"`{column.replace('`', '``')}`" in digest or f" {column} ".upper() in f" {digest} "


def _only_reads(text: str) -> bool:
    """Tell whether a statement neither changes nor claims: a person who looks at jobs does no harm by their zone."""
    return text.removeprefix("EXECUTE ").startswith("SELECT ") and "FOR UPDATE" not in text


def _seconds(declared: str) -> int:
    """Return the seconds east of UTC that a declared clock stands for."""
    if declared == "utc":
        return 0
    hours, minutes = declared[1:].split(":")
    return (int(hours) * 3600 + int(minutes) * 60) * (-1 if declared[0] == "-" else 1)


def _listed(parts: Sequence[str]) -> str:
    more = f"; and {len(parts) - NAMED} more" if len(parts) > NAMED else ""
    return f"{'; '.join(parts[:NAMED])}{more}"


CHECKS = (
    Check(
        "autocommit-claims",
        "Jobs are locked inside transactions",
        "critical",
        "In autocommit the lock of SELECT … FOR UPDATE is gone when the answer arrives: two workers get the same job, "
        "without an error.",
        autocommit_claims,
        how=(
            "performance_schema: the last statements of each session that were transactions of their own; needs "
            "SELECT on performance_schema."
        ),
        cure="Claim inside a transaction, or without autocommit, in the workers.",
    ),
    Check(
        "worker-time-zone",
        "Sessions change and claim jobs by the clock that is declared",
        "critical",
        "In a DATETIME column the time of a session in another zone is hours off: its leases expire at once or hold "
        "for hours, and its jobs are late or early.",
        worker_time_zone,
        ("clock",),
        how=(
            "performance_schema: the last statements of each session that have a time in them, and its time_zone; "
            "needs SELECT on performance_schema."
        ),
        cure=(
            "SET SESSION time_zone in the workers after they connect, or UTC_TIMESTAMP in their statements, or "
            "another clock in qops.toml."
        ),
    ),
)
