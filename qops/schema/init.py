"""`qops init`: plan, apply, look again, until nothing is left that this run may do."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import sqlalchemy as sa
from sqlalchemy import exc

from qops.errors import Failure, Misconfigured, PrivilegeMissing, QopsError
from qops.schema.apply import DDL_WAIT_SECONDS, Applier, Outcome
from qops.schema.plan import make_plan
from qops.schema.result import Action, Plan, Result, When

if TYPE_CHECKING:
    from qops.clock import Stop
    from qops.db import Server
    from qops.events import Events
    from qops.queue_settings import QueueSettings

NAMED = 6  # objects in the one-line message; all of them are in the report


def init(server: Server, settings: QueueSettings, *, repair: bool, dry_run: bool, stop: Stop, events: Events) -> Result:
    """Create what is missing, with `repair` also change what is there, and return what was done and what remains.

    Drift that remains is a failure in the result (78), as is whatever stopped the work. Raises the family's
    errors for what is wrong before the first statement.
    """
    with server.observe() as connection:
        plan = make_plan(connection, settings, repair=repair)
        run = Run(server, connection, settings, stop, events, repair=repair)
        failure = None
        if not dry_run:
            plan, failure = run.carry_out(plan)
        for advice in plan.advice:
            events.warn(advice)
        return Result(
            queue=settings.name,
            schema=plan.schema,
            actions=(*run.done, *plan.actions),
            drift=plan.drift,
            dry_run=dry_run,
            repair=repair,
            failure=failure or _drift_failure(plan, settings, repair=repair, dry_run=dry_run),
        )


@dataclass
class Run:
    """One run: what it has done, and what it is not to try again."""

    server: Server
    connection: sa.Connection
    settings: QueueSettings
    stop: Stop
    events: Events
    repair: bool
    done: list[Action] = field(default_factory=list)
    created: set[str] = field(default_factory=set)
    settled: set[str] = field(default_factory=set)
    overtaken: set[str] = field(default_factory=set)

    def means(self, action: Action) -> bool:
        """Whether this run is to apply the action: once, whatever comes of it."""
        return action.runs(repair=self.repair) and action.need not in self.settled

    def carry_out(self, plan: Plan) -> tuple[Plan, Failure | None]:
        """Apply what the plan says and plan again until nothing is left; return the last plan and what stopped it."""
        applier = Applier(self.server, self.connection, plan.schema, self.stop, self.events)
        patience = sa.text("SET SESSION lock_wait_timeout = :seconds")
        self.connection.execute(patience, {"seconds": DDL_WAIT_SECONDS})
        try:
            while todo := [action for action in plan.actions if self.means(action)]:
                for action in todo:
                    if self.stop.requested:
                        return self._now(plan), self._stopped()
                    if not self._apply(applier, action):
                        break
                plan = make_plan(self.connection, self.settings, repair=self.repair, created=self.created)
        except exc.DBAPIError as error:
            return self._now(plan), Failure.of(self.server.translate(error))
        except QopsError as error:
            return self._now(plan), self._stopped() if self.stop.requested else Failure.of(error)
        return plan, None

    def _apply(self, applier: Applier, action: Action) -> bool:
        """Apply one action; return whether to go on with the next one of the same plan."""
        outcome, action = applier.apply(action)
        if outcome is Outcome.OVERTAKEN:
            if action.need in self.overtaken:
                raise PrivilegeMissing(
                    self.server.with_grants(f"{action.object} exists, but this account may not see it")
                )
            self.overtaken.add(action.need)
            return False
        self.settled.add(action.need)
        if outcome is Outcome.APPLIED:
            self.done.append(action)
            self.events.detail(f"{action.action} {action.object}: done")
            if action.when is When.ALWAYS:
                self.created.add(action.table)
        return True

    def _now(self, plan: Plan) -> Plan:
        """Return the plan without what was done: what a run that was stopped leaves."""
        applied = {(action.action, action.object) for action in self.done}
        left = tuple(action for action in plan.actions if (action.action, action.object) not in applied)
        objects = {action.object for action in self.done}
        drift = tuple(one for one in plan.drift if one.object not in objects)
        return Plan(plan.schema, left, drift, plan.advice)

    def _stopped(self) -> Failure:
        return Failure(128 + self.stop.signum, "signal", "stopped by a signal; run qops init again for the rest")


def _drift_failure(plan: Plan, settings: QueueSettings, *, repair: bool, dry_run: bool) -> Failure | None:
    """Say that drift remains and what can be done about it."""
    if not plan.drift:
        return None
    objects = list(dict.fromkeys(drift.object for drift in plan.drift))
    more = f" and {len(objects) - NAMED} more" if len(objects) > NAMED else ""
    differs = f"{', '.join(objects[:NAMED])}{more}"
    remedy = "it takes SQL that blocks writers, to be run by hand, or another configuration in qops.toml"
    if any(action.when is When.REPAIR for action in plan.actions) and (dry_run or not repair):
        remedy = f"add what is missing, online, with: {settings.command('init --repair')}"
    return Failure.of(
        Misconfigured(f"what is there differs from what queue {settings.name!r} needs: {differs}; {remedy}")
    )
