"""Checks of what the columns can hold, of indexes that are written for nothing, and of states that nobody named."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qops.doctor.facts import Unknown
from qops.doctor.model import Check, NotKnownError, Outcome, advice, known, passed

if TYPE_CHECKING:
    from qops.doctor.facts import Facts
    from qops.doctor.type_facts import Doubtful, Moments

TABLE = ("storage-engine",)
END = "2038-01-19 03:14:07 UTC"
WARN_DAYS = 730  # before the end: the table has to be rebuilt by then, and its workers changed
DAY = 86_400  # what was not read for less than a day may be a nightly report's
NAMED_INDEX = (
    "first see that no worker names such an index, in FORCE INDEX or USE INDEX: a statement that does then fails "
    "(1176), "
    "also while it is INVISIBLE"
)
REBUILDS = "each statement rewrites its table and blocks its writers"


def time_range(facts: Facts) -> Outcome:
    """Check that times do not reach the end of their type."""
    moments = known(facts.types).moments
    expected = f"no time in the last year before a TIMESTAMP ends, {END}"
    notes = _integers(moments)
    if not moments.columns:
        return passed("; ".join(["not applicable: the queue has no TIMESTAMP", *notes]), expected)
    if moments.late:
        rows = "; ".join(f"{name}: {sample}" for name, sample in moments.late)
        return Outcome("warning", f"near the end of the type: {rows}", expected, advice(_LATER))
    if moments.days_left < WARN_DAYS:
        named = ", ".join(f"{name} {kind}" for name, kind in moments.columns)
        return Outcome("warning", f"{named} end in {moments.days_left} days", expected, advice(_LATER))
    looked = ", ".join(moments.seen) or "none, as no index leads to one"
    return passed("; ".join([f"TIMESTAMP to {END}; none near it (looked at: {looked})", *notes]), expected)


_LATER = (
    "where such a time stands for never: another state says so, or NULL;\n"
    "where it is meant: make the columns of both tables DATETIME(6), in a session with SET time_zone = '+00:00' and "
    "while no worker writes,\n"
    'have the workers write UTC_TIMESTAMP(6), and say clock = "utc" in qops.toml'
)


def _integers(moments: Moments) -> list[str]:
    """Say up to when whole numbers count seconds, if that is what they do."""
    return [
        f"{one} is none of qops's; if it counts seconds it ends in {'2106' if 'unsigned' in one else '2038'}"
        for one in moments.others
    ]


def attempts_type(facts: Facts) -> Outcome:
    """Check that attempts can be counted up to their limit."""
    room = known(facts.types).attempts
    expected = "a type that holds the attempts of every job up to its limit"
    if room is None:
        return passed("not applicable: the queue has no attempts", expected)
    observed = f"{room.column_type}, which ends at {room.end}"
    parts = []
    if room.limit > room.end:
        parts.append(f"the configured limit is {room.limit}")
    if room.beyond and room.beyond.found:
        parts.append(f"live jobs that come near it or have a higher limit: {room.beyond}")
    if not parts:
        return passed(observed, expected)
    return Outcome("warning", f"{observed}; {'; '.join(parts)}", expected, _statements(room.widen))


def text_width(facts: Facts) -> Outcome:
    """Check that names and errors fit their columns."""
    widths = known(facts.types).widths
    expected = "room for the name of a worker (16 characters) and for the text of an error (100)"
    if not widths:
        return passed("not applicable: the queue keeps neither", expected)
    narrow = [one for one in widths if one.length < one.least]
    if not narrow:
        return passed(", ".join(f"{one.column} {one.column_type}" for one in widths), expected)
    observed = "; ".join(f"{one.column} {one.column_type} is narrow for {one.purpose}" for one in narrow)
    return Outcome("warning", observed, expected, _statements(tuple(line for one in narrow for line in one.widen)))


def _statements(lines: tuple[str, ...]) -> str:
    """Return statements that rebuild tables, or words where the columns have what cannot be said again."""
    if not lines:
        return advice("give the column more room with ALTER TABLE … MODIFY, in the archive first")
    return "\n".join([advice(REBUILDS), *lines])


def redundant_indexes(facts: Facts) -> Outcome:
    """Check that no index is written for nothing."""
    found = known(facts.spare)
    expected = "no index that another one replaces or that nothing reads"
    doubtful = () if isinstance(found.doubtful, Unknown) else found.doubtful
    unused = [one for one in doubtful if one.reads == 0 and found.uptime_seconds >= DAY]
    if found.spare or unused:
        days = found.uptime_seconds // DAY
        parts = [f"{one.index}: {one.why}" for one in found.spare]
        parts += [f"{one.index}: not read since the server started {days} days ago" for one in unused]
        lines = [advice(NAMED_INDEX), *(one.drop for one in found.spare)]
        if unused:
            said = (
                "what nothing read may be needed once a month; INVISIBLE for a while shows what gets slow without it:"
            )
            lines += [advice(said), *(one.drop for one in unused)]
        return Outcome("warning", "; ".join(parts), expected, "\n".join(lines))
    if isinstance(found.doubtful, Unknown):
        raise NotKnownError(found.doubtful)
    return passed("; ".join(map(_reads, doubtful)) or "none", expected)


def _reads(one: Doubtful) -> str:
    reads = "how often it is read is not kept" if one.reads is None else f"{one.reads} rows were read by it"
    return f"{one.index} serves no statement of qops, and every claim writes it; {reads}"


def unknown_states(facts: Facts) -> Outcome:
    """Check that every job is in a state that qops knows."""
    found = known(facts.strays)
    expected = "no job whose status is none of the configured values"
    if not found.strays:
        more = f"none among the first {found.looked_at} values" if found.more else "none"
        return passed(more, expected)
    observed = "; ".join(f"{one.value}: {one.jobs}" for one in found.strays)
    most = f"; only {found.looked_at} different values were looked at" if found.more else ""
    said = (
        f"if these jobs are in one of the queue's states, name the value with it in {found.section} of qops.toml: "
        'done = ["done", …];\nif they are a mistake, until no row changes, with the state that they belong in:'
    )
    lines = "\n".join(dict.fromkeys(line for one in found.strays for line in one.update.split("\n")))
    return Outcome("warning", f"{observed}{most}", expected, advice(f"{said}\n{lines}"))


CHECKS = (
    Check(
        "time-range",
        "Times do not reach the end of their type",
        "warning",
        "A TIMESTAMP ends in January 2038: a later time is refused (1292), and a delay or lease that is added to one "
        "near the end fails with it.",
        time_range,
        TABLE,
        how="The columns' types, and along indexes the latest times there are; needs SELECT on the table.",
        cure="DATETIME in place of TIMESTAMP, with a clock declared, where times come near 2038.",
    ),
    Check(
        "attempts-type",
        "Attempts can be counted up to their limit",
        "warning",
        "Where the count does not fit, the claim itself fails (1264), or outside of strict mode the count stands "
        "still and the job is tried for ever.",
        attempts_type,
        TABLE,
        how=(
            "The column's type beside the limits of the configuration and of at most 1,000 jobs of a state; "
            "needs SELECT on the table."
        ),
        cure="ALTER TABLE that widens the column.",
    ),
    Check(
        "text-width",
        "Names of workers and texts of errors fit",
        "warning",
        "A longer text is refused (1406), and the job that failed stays running; cut, two workers have one name, "
        "and each can finish the other's jobs.",
        text_width,
        TABLE,
        how="The columns' types; needs SELECT on the table.",
        cure="ALTER TABLE that widens the column.",
    ),
    Check(
        "redundant-indexes",
        "No index is written for nothing",
        "warning",
        "Every claim and every end of a job writes all indexes that hold the status, and the optimizer may choose "
        "one that makes the claim sort.",
        redundant_indexes,
        TABLE,
        how=(
            "The indexes in information_schema, their foreign keys, and how often each was read in "
            "performance_schema.table_io_waits_summary_by_index_usage; needs SELECT on performance_schema."
        ),
        cure="DROP INDEX, once no worker names the index: FORCE INDEX of one that is gone or invisible fails (1176).",
    ),
    Check(
        "unknown-states",
        "Every job is in a state that qops knows",
        "warning",
        "Nobody claims, puts back or archives a job with such a status, and no number of qops counts it.",
        unknown_states,
        TABLE,
        how="The values of the status, one step along an index for each; needs SELECT on the table.",
        cure="The state named in the configuration, or jobs brought to one that is.",
    ),
)
