"""What happened to every job, written down by the server itself in the transactions that did it."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.queues import COLUMNS, contents

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import Database

KEPT = ("priority", "payload", "max_attempts", "created_at")  # what nobody may ever change
MUTABLE = ("status", "claimed_by", "lease_until", "available_at", "attempts", "last_error", "finished_at")


def install(database: Database) -> None:
    """Have triggers record each job as it was inserted, each change of it, and its deletion.

    `at` is the time of the statement, which is what it compares leases with.
    """
    database.execute("CREATE TABLE inserted LIKE jobs")
    database.execute(
        "CREATE TABLE changes (seq BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY, id BIGINT UNSIGNED NOT NULL, "
        "at TIMESTAMP(6) NOT NULL, connection BIGINT NOT NULL, old_status VARCHAR(20), new_status VARCHAR(20), "
        "old_by VARCHAR(64), new_by VARCHAR(64), old_lease TIMESTAMP(6) NULL, new_lease TIMESTAMP(6) NULL, "
        "available_at TIMESTAMP(6) NULL, old_attempts INT, attempts INT, max_attempts INT, last_error TEXT, "
        "finished_at TIMESTAMP(6) NULL, account VARCHAR(300) NOT NULL)"
    )
    values = ", ".join(f"NEW.{name.strip()}" for name in COLUMNS.split(","))
    database.execute(
        f"CREATE TRIGGER on_insert AFTER INSERT ON jobs FOR EACH ROW INSERT INTO inserted ({COLUMNS}) VALUES ({values})"
    )
    before, after = "OLD.status, NEW.status, OLD.claimed_by, NEW.claimed_by, OLD.lease_until, NEW.lease_until", "NEW"
    tail = "{0}.available_at, OLD.attempts, {0}.attempts, {0}.max_attempts, {0}.last_error, {0}.finished_at, USER()"
    record = "INSERT INTO changes VALUES (NULL, OLD.id, NOW(6), CONNECTION_ID(), "
    database.execute(
        f"CREATE TRIGGER on_update AFTER UPDATE ON jobs FOR EACH ROW {record}{before}, {tail.format(after)})"
    )
    gone = "OLD.status, NULL, OLD.claimed_by, NULL, OLD.lease_until, NULL"
    database.execute(
        f"CREATE TRIGGER on_delete AFTER DELETE ON jobs FOR EACH ROW {record}{gone}, {tail.format('OLD')})"
    )


@dataclass(frozen=True)
class Change:
    """One change of one job, or its deletion (`new_status` is None)."""

    seq: int
    id: int
    at: Any
    connection: int
    old_status: str
    new_status: str | None
    old_by: str | None
    new_by: str | None
    old_lease: Any
    new_lease: Any
    available_at: Any
    old_attempts: int
    attempts: int
    max_attempts: int
    last_error: str | None
    finished_at: Any
    account: str

    @property
    def held(self) -> bool:
        """Whether the lease of before was still good for the statement."""
        return self.old_lease is not None and self.old_lease >= self.at

    @property
    def kind(self) -> str | None:
        """What the change was by its states, owners and times; None for one that nobody may make."""
        return next((name for name, meets in KINDS.items() if meets(self)), None)


KINDS: dict[str, Callable[[Change], Any]] = {
    "claim": lambda c: (
        (c.old_status, c.new_status) == ("pending", "running") and c.new_by and c.new_lease > c.at and not c.old_lease
    ),
    "heartbeat": lambda c: (
        (c.old_status, c.new_status) == ("running", "running")
        and c.held
        and c.new_by == c.old_by
        and c.attempts == c.old_attempts
    ),
    "complete": lambda c: (c.old_status, c.new_status) == ("running", "done") and c.held and c.new_by == c.old_by,
    "complete to archive": lambda c: (c.old_status, c.new_status) == ("running", None) and c.held,
    "retry": lambda c: (
        (c.old_status, c.new_status) == ("running", "scheduled") and c.held and c.attempts < c.max_attempts
    ),
    "fail": lambda c: (c.old_status, c.new_status) == ("running", "failed") and c.held and c.new_by == c.old_by,
    "expire": lambda c: (
        (c.old_status, c.new_status, c.new_by, c.new_lease) == ("running", "pending", None, None)
        and c.old_lease <= c.at
        and c.attempts == c.old_attempts < c.max_attempts
    ),
    "exhaust": lambda c: (
        (c.old_status, c.new_status, c.new_by) == ("running", "failed", None)
        and c.old_lease <= c.at
        and c.attempts >= c.max_attempts
    ),
    "requeue": lambda c: (
        (c.old_status, c.new_status, c.new_by, c.finished_at) == ("failed", "pending", None, None)
        and c.attempts < c.max_attempts
    ),
    "promote": lambda c: (c.old_status, c.new_status) == ("scheduled", "pending") and c.available_at <= c.at,
    "archive": lambda c: c.old_status in {"done", "failed"} and c.new_status is None,
}
"""Every change that is right, and when. A claim of a job that is running is none, whatever its lease."""


def changes(database: Database) -> dict[int, list[Change]]:
    """Return all changes by job, in the order in which they were made."""
    found: dict[int, list[Change]] = defaultdict(list)
    for row in database.rows("SELECT * FROM changes ORDER BY id, seq"):
        found[row[1]].append(Change(*row))
    return found


def beliefs(folder: Path) -> list[dict[str, Any]]:
    """Return all that the members of a fleet wrote into their diaries."""
    lines = [line for diary in sorted(folder.glob("*.jsonl")) for line in diary.read_text().splitlines()]
    return [json.loads(line) for line in lines]


def check_history(history: dict[int, list[Change]], initial: dict[int, str]) -> Counter[str]:
    """Follow each job from its insertion on; return how often which change was made.

    Each change begins where the one before ended, and is one that may be made then. So no job has two holders
    whose leases are good, and none is finished twice.
    """
    made: Counter[str] = Counter()
    for id_, steps in history.items():
        status, owner, lease = initial[id_], None, None
        for step in steps:
            assert (step.old_status, step.old_by, step.old_lease) == (status, owner, lease), (step, steps)
            assert step.kind, (step, steps)
            made[step.kind] += 1
            status, owner, lease = step.new_status or "gone", step.new_by, step.new_lease
    return made


def check_beliefs(history: dict[int, list[Change]], told: list[dict[str, Any]]) -> Counter[str]:
    """Hold what workers were told against what happened: each claim and each finish, one for one, and no other.

    But for those that had no answer to their COMMIT: of these, what happened may have happened. Returns how often it
    did, by what it was.
    """
    believed: Counter[tuple[str, str, int]] = Counter()
    for line in told:
        if line["event"] in {"claim", "complete", "fail"}:
            believed[line["event"], line["by"], line["id"]] += 1
    names = {"complete to archive": "complete", "retry": "fail"}
    happened: Counter[tuple[str, str, int]] = Counter()
    for id_, steps in history.items():
        for step in steps:
            kind = names.get(step.kind or "", step.kind)
            if kind in {"claim", "complete", "fail"}:
                happened[kind, str(step.new_by if kind == "claim" else step.old_by), id_] += 1
    assert not believed - happened  # whatever a worker was told is so
    unheard = happened - believed
    unsure = {(line["by"], line["id"]) for line in told if line["event"] == "error" and line["unsure"]}
    claims: Counter[str] = Counter()
    for line in told:
        if line["event"] == "away":
            claims[line["by"]] += line["unsure"]
    missed: Counter[str] = Counter()
    for (kind, by, id_), number in unheard.items():
        missed[kind] += number
        if kind == "claim":
            claims[by] -= number
        else:
            assert (by, id_) in unsure, (kind, by, id_)
            assert number == 1
    assert all(left >= 0 for left in claims.values()), claims
    return missed


def check_contents(database: Database, history: dict[int, list[Change]]) -> None:
    """Nothing is lost, doubled or invented, and every column of every job is what it was last set to."""
    names = ("status", *KEPT, *(name for name in MUTABLE if name != "status"))
    columns = ", ".join(("id", *names))
    inserted = contents(database, "inserted", columns)
    queue, archive = contents(database, "jobs", columns), contents(database, "jobs_archive", columns)
    kept, rest = slice(2, 2 + len(KEPT)), slice(2 + len(KEPT), None)
    assert not set(queue) & set(archive)
    assert set(queue) | set(archive) == set(inserted)
    for id_, row in (queue | archive).items():
        assert row[kept] == inserted[id_][kept]
        if id_ not in history:
            assert row == inserted[id_]
    last = {row[0]: row[1:] for row in database.rows(LAST)}
    for id_, row in (queue | archive).items():
        if id_ not in history:
            continue
        if history[id_][-1].kind == "complete to archive":
            # Set while it was copied: done, without a lease, finished; owner, time, attempts and error as they were.
            done, left = list(row[1:2] + row[rest]), list(last[id_])
            assert (done[0], done[2], done[6] is None) == (b"done".hex().upper(), None, False), id_
            assert [done[n] for n in (1, 3, 4, 5)] == [left[n] for n in (1, 3, 4, 5)], id_
        else:
            assert row[1:2] + row[rest] == last.get(id_, inserted[id_][1:2] + inserted[id_][rest]), id_


_SET = "new_status", "new_by", "new_lease", "available_at", "attempts", "last_error", "finished_at"
LAST = (
    f"SELECT id, {', '.join(f'HEX(CAST({name} AS CHAR))' for name in _SET)} FROM changes "
    "WHERE seq IN (SELECT MAX(seq) FROM changes WHERE new_status IS NOT NULL GROUP BY id)"
)
"""The last values that every job was given."""
