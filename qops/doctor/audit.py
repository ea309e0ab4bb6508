"""Run checks over facts: prerequisites first, then each by itself, so that none can spoil another."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from qops.configfile import nearest
from qops.doctor import (
    checks_links,
    checks_maintenance,
    checks_rows,
    checks_server,
    checks_sessions,
    checks_settings,
    checks_table,
    checks_traffic,
    checks_types,
)
from qops.doctor.limits import KEYS, Limits, read_limits
from qops.doctor.model import Check, NotKnownError, Outcome, Result
from qops.errors import Misconfigured, UsageError
from qops.report import worst

if TYPE_CHECKING:
    from collections.abc import Sequence
    from collections.abc import Set as AbstractSet

    from qops.doctor.facts import Facts, ServerFacts
    from qops.settings import Settings

ROOT = "server-version"
CHECKS: tuple[Check, ...] = (
    *checks_server.CHECKS,
    *checks_settings.CHECKS,
    *checks_table.CHECKS,
    *checks_links.CHECKS,
    *checks_rows.CHECKS,
    *checks_types.CHECKS,
    *checks_sessions.CHECKS,
    *checks_traffic.CHECKS,
    *checks_maintenance.CHECKS,
)
BY_ID = {check.id: check for check in CHECKS}
# In a remedy: a line of its own, or what a comment ends with after a colon.
_COMMAND = re.compile(r"(?:^|(?<=: ))qops [a-z].*$", re.MULTILINE)
SECTION = (*KEYS, "skip")


@dataclass(frozen=True)
class Audit:
    """What doctor found, and where."""

    queue: str
    server: ServerFacts
    results: tuple[Result, ...]

    @property
    def verdict(self) -> str:
        """The worst status there is; a check that was skipped has told nothing, so it is not "ok"."""
        return worst("unknown" if result.status == "skipped" else result.status for result in self.results)

    def document(self) -> dict[str, Any]:
        """Return the JSON document, docs/json.md."""
        server = self.server
        return {
            "verdict": self.verdict,
            "queue": self.queue,
            "server": {"version": server.version, "flavor": server.flavor, "host": server.host, "port": server.port},
            "checks": [asdict(result) for result in self.results],
        }


@dataclass(frozen=True)
class Choice:
    """Which checks to report, and which not to report whatever they find."""

    wanted: tuple[str, ...]
    without: frozenset[str]


def audit(facts: Facts, wanted: Sequence[str] | None = None, without: AbstractSet[str] = frozenset()) -> Audit:
    """Run the checks `wanted` (None: all) and what they rest on.

    Reported are those that are wanted, and what kept any of them from meaning something, unless it is in `without`.
    """
    run = _Run(facts, without)
    reported = {check.id for check in CHECKS if wanted is None or check.id in wanted}
    for id_ in list(reported):
        run.result(BY_ID[id_])
    reported |= {run.causes[id_] for id_ in reported if id_ in run.causes} - set(without)
    return Audit(facts.queue, facts.server, tuple(run.done[check.id] for check in CHECKS if check.id in reported))


class _Run:
    """The results so far, and for each check that was skipped the one that is the cause."""

    def __init__(self, facts: Facts, without: AbstractSet[str]) -> None:
        self.facts, self.without = facts, without
        self.done: dict[str, Result] = {}
        self.causes: dict[str, str] = {}

    def result(self, check: Check) -> Result:
        """Return a check's result, running it once."""
        if check.id not in self.done:
            outcome = self._skipped(check) or self._outcome(check)
            self.done[check.id] = Result(
                id=check.id,
                title=check.title,
                status=outcome.status,
                observed=outcome.observed,
                expected=outcome.expected or None,
                why=check.why,
                remedy=self._named(outcome.remedy),
            )
        return self.done[check.id]

    def _named(self, remedy: str | None) -> str | None:
        """Return a remedy whose commands say which queue they are for, where there are several to choose from."""
        return remedy and _COMMAND.sub(lambda found: f"{found[0]}{self.facts.naming}", remedy)

    def _skipped(self, check: Check) -> Outcome | None:
        """Return why a check means nothing now: one that it rests on has failed, or was skipped itself."""
        before = () if check.id == ROOT else (ROOT, *check.after)
        for one in before:
            if self.result(BY_ID[one]).status in {"critical", "skipped"}:
                cause = self.done[self.causes.get(one, one)]
                self.causes[check.id] = cause.id
                said = f"{cause.id} is {cause.status}"
                # The cause is told once, by its own result, where that is reported.
                return Outcome("skipped", f"{said}: {cause.observed}" if cause.id in self.without else said, "")
        return None

    def _outcome(self, check: Check) -> Outcome:
        try:
            return check.test(self.facts)
        except NotKnownError as error:
            return Outcome("unknown", error.unknown.reason, "", error.unknown.remedy)
        except Exception as error:  # noqa: BLE001 - a check that crashes is a finding, and the others go on
            return Outcome(
                "unknown", f"the check itself failed: {type(error).__name__}: {error}; please report this", ""
            )


def choose(only: Sequence[str], skip: Sequence[str], settings: Settings) -> Choice:
    """Return what to report: `only` these, without those to `skip` here or in [doctor].

    Raises UsageError for an unknown id on the command line or if nothing is left, Misconfigured for an unknown id
    in the file.
    """
    configured = settings.section("doctor", SECTION).get("skip", [])
    if not isinstance(configured, list):
        raise Misconfigured(f'[doctor] skip must be a list such as ["sql-mode"], not {configured!r}')
    for one in (*only, *skip):
        find(one)
    for one in configured:
        if not isinstance(one, str) or one not in BY_ID:
            raise Misconfigured(f"[doctor] skip names no check {one!r}; {nearest(str(one), BY_ID)}")
    without = frozenset((*skip, *(one for one in configured if one not in only)))
    wanted = tuple(one for one in BY_ID if (not only or one in only) and one not in without)
    if not wanted:
        raise UsageError("no check is left: --skip and [doctor] skip leave out all that was to be run; see --list")
    return Choice(wanted, without)


def find(id_: str) -> Check:
    """Return a check. Raises UsageError naming the nearest for an unknown id."""
    if id_ not in BY_ID:
        raise UsageError(f"there is no check {id_!r}; {nearest(id_, BY_ID)}")
    return BY_ID[id_]


def limits(settings: Settings) -> Limits:
    """Return the limits as configured. Raises Misconfigured for a wrong value."""
    return read_limits(settings.section("doctor", SECTION))
