"""Run checks over facts: prerequisites first, then each by itself, so that none can spoil another."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from qops.configfile import nearest
from qops.doctor import checks_server, checks_table
from qops.doctor.facts import Limits
from qops.doctor.model import Check, NotKnownError, Outcome, Result
from qops.errors import Misconfigured, UsageError
from qops.report import worst
from qops.settings import duration

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qops.doctor.facts import Facts, ServerFacts
    from qops.settings import Settings

ROOT = "server-version"
CHECKS: tuple[Check, ...] = (*checks_server.CHECKS, *checks_table.CHECKS)
BY_ID = {check.id: check for check in CHECKS}
SECTION = ("long_transaction", "purge_lag", "skip")


@dataclass(frozen=True)
class Audit:
    """What doctor found, and where."""

    queue: str
    server: ServerFacts
    results: tuple[Result, ...]

    @property
    def verdict(self) -> str:
        """The worst status there is; skipped checks add nothing to what they were skipped for."""
        return worst(result.status for result in self.results)

    def document(self) -> dict[str, Any]:
        """Return the JSON document of the contract."""
        server = self.server
        return {
            "verdict": self.verdict,
            "queue": self.queue,
            "server": {"version": server.version, "flavor": server.flavor, "host": server.host, "port": server.port},
            "checks": [asdict(result) for result in self.results],
        }


def audit(facts: Facts, wanted: Sequence[str] | None = None) -> Audit:
    """Run the checks `wanted` (None: all) and what they rest on; report those that are wanted."""
    run = _Run(facts)
    ids = [check.id for check in CHECKS if wanted is None or check.id in wanted]
    return Audit(facts.queue, facts.server, tuple(run.result(BY_ID[one]) for one in ids))


class _Run:
    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.done: dict[str, Result] = {}

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
                remedy=outcome.remedy,
            )
        return self.done[check.id]

    def _skipped(self, check: Check) -> Outcome | None:
        """Return why a check means nothing now: one that it rests on has failed, or was skipped itself."""
        before = () if check.id == ROOT else (ROOT, *check.after)
        for one in before:
            result = self.result(BY_ID[one])
            if result.status in {"critical", "skipped"}:
                return Outcome("skipped", f"{one} is {result.status}: {result.observed}", "")
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


def choose(only: Sequence[str], skip: Sequence[str], settings: Settings) -> list[str]:
    """Return the ids to report: `only` these, without those to `skip` here or in [doctor].

    Raises UsageError for an unknown id on the command line, Misconfigured for one in the file.
    """
    configured = settings.section("doctor", SECTION).get("skip", [])
    if not isinstance(configured, list):
        raise Misconfigured(f'[doctor] skip must be a list such as ["sql-mode"], not {configured!r}')
    for one in (*only, *skip):
        find(one)
    for one in configured:
        if one not in BY_ID:
            raise Misconfigured(f"[doctor] skip names no check {one!r}; {nearest(str(one), BY_ID)}")
    without = {*skip, *(one for one in configured if one not in only)}
    return [one for one in BY_ID if (not only or one in only) and one not in without]


def find(id_: str) -> Check:
    """Return a check. Raises UsageError naming the nearest for an unknown id."""
    if id_ not in BY_ID:
        raise UsageError(f"there is no check {id_!r}; {nearest(id_, BY_ID)}")
    return BY_ID[id_]


def limits(settings: Settings) -> Limits:
    """Return the limits as configured. Raises Misconfigured for a wrong value."""
    section = settings.section("doctor", SECTION)
    chosen: dict[str, Any] = {}
    if "long_transaction" in section:
        try:
            chosen["long_transaction_seconds"] = duration(section["long_transaction"])
        except (ValueError, AttributeError) as error:
            raise Misconfigured(f'[doctor] long_transaction must be a duration such as "60s": {error}') from None
    lag = section.get("purge_lag")
    if lag is not None:
        if not isinstance(lag, int) or isinstance(lag, bool) or lag < 1:
            raise Misconfigured(f"[doctor] purge_lag must be a whole number above 0, not {lag!r}")
        chosen["purge_lag"] = lag
    return Limits(**chosen)
