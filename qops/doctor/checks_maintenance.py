"""The check of the maintenance: that it runs, that it goes well, and that it ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qops.doctor.facts import Unknown
from qops.doctor.model import Check, NotKnownError, Outcome, advice, known, passed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from qops.doctor.facts import Facts
    from qops.doctor.limits import Limits
    from qops.doctor.row_facts import Maintenance, Upkeep

DAY, HOUR, MINUTE = 86_400, 3_600, 60
SHOWN = 200  # characters of an error


def maintenance(facts: Facts) -> Outcome:
    """Check that maintenance was done within its time, and that its runs do not fail or die."""
    found, limits = known(facts.maintenance), facts.limits
    expected = (
        f"finished jobs archived within {_time(limits.maintenance_seconds)} of their time, fewer than "
        f"{limits.failed_runs} failed runs in a row, and no run left open"
    )
    findings = [*_overdue(found, limits), *_failing(found, limits), *_left_open(found, limits)]
    if not findings:
        doubtful = [one for one in found.commands if _is_old(one, limits) and not one.is_gone]
        if doubtful:
            runs = ", ".join(f"{one.left_open} of {one.command}" for one in doubtful)
            raise NotKnownError(Unknown(f"whether run {runs} is still under way is not to be seen", found.grant))
        ran = (
            f"archived {_time(found.archived_seconds)} ago"
            if found.archived_seconds is not None
            else "not archived yet"
        )
        return passed(ran if found.is_due is not None else f"{ran}; no index tells what is due", expected)
    said = "what each run did and how it ended: qops history\nthe latest run counts, so once it goes well:"
    commands = dict.fromkeys(words for _, words in findings)
    return Outcome(
        "warning",
        "; ".join(text for text, _ in findings),
        expected,
        "\n".join([advice(said), *(f"qops {words}" for words in commands)]),
    )


def _overdue(found: Maintenance, limits: Limits) -> Iterator[tuple[str, str]]:
    seconds = found.archived_seconds
    if found.is_due and (seconds is None or seconds > limits.maintenance_seconds):
        when = "never" if seconds is None else f"{_time(seconds)} ago"
        due = f"jobs have been due for the archive for more than {_time(limits.maintenance_seconds)}"
        yield f"{due}, and a run of archive last went well {when}", "archive"


def _failing(found: Maintenance, limits: Limits) -> Iterator[tuple[str, str]]:
    for one in found.commands:
        if len(one.failed) >= limits.failed_runs:
            why = f": {' '.join(one.last_error.split())[:SHOWN]}" if one.last_error else ""
            yield f"the last {len(one.failed)} runs of {one.command} failed ({one.failed[0]}{why})", one.words


def _left_open(found: Maintenance, limits: Limits) -> Iterator[tuple[str, str]]:
    for one in found.commands:
        if one.is_gone and _is_old(one, limits):
            begun = f"began {_time(one.open_seconds or 0)} ago and never ended; its connection is gone"
            yield f"run {one.left_open} of {one.command} {begun}", one.words


def _is_old(one: Upkeep, limits: Limits) -> bool:
    return one.open_seconds is not None and one.open_seconds >= limits.open_run_seconds


def _time(seconds: float) -> str:
    for unit, length in (("d", DAY), ("h", HOUR), ("m", MINUTE)):
        if seconds >= length:
            return f"{seconds / length:.0f}{unit}"
    return f"{seconds:.0f}s"


CHECKS = (
    Check(
        "maintenance",
        "Maintenance runs, goes well, and ends",
        "warning",
        "A crontab that was lost in a move, or a run that fails each night, is noticed when the table is too large to "
        "be mended in an hour.",
        maintenance,
        ("storage-engine",),
        how=(
            "The latest runs of each command in the ledger, and along an index whether a finished job is past its "
            "time; needs SELECT on both, and PROCESS to tell dead runs from those of other accounts."
        ),
        cure="The command that did not run, and the crontab or timer that runs it.",
    ),
)
