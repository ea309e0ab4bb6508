"""The demo, step by step: provision, work, a crash, recovery, archiving, a fault and its repair, the accounts."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dev.demo.crew import BATCH, LEASE_SECONDS, Crew

if TYPE_CHECKING:
    from collections.abc import Callable

    from dev.demo.database import Database
    from dev.demo.terminal import Terminal

JOBS = 2000
MORE_JOBS = 500
FAILS_ONCE = 10  # every tenth job fails at its first attempt
FAILS_ALWAYS = 100  # every hundredth fails whenever it is tried, and may be tried twice
WORKERS = ("worker-1", "worker-2", "worker-3", "worker-4")
WAIT_SECONDS = 60.0

ENQUEUE = f"""\
INSERT /*+ SET_VAR(cte_max_recursion_depth = {JOBS}) */ INTO jobs (payload, max_attempts)
WITH RECURSIVE s AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM s WHERE n < {JOBS})
SELECT JSON_OBJECT('n', n, 'fails', IF(n % {FAILS_ALWAYS} = 0, 99, n % {FAILS_ONCE} = 0)),
       IF(n % {FAILS_ALWAYS} = 0, 2, 5)
FROM s"""  # noqa: S608 - numbers of our own
MORE = f"""\
INSERT INTO jobs (payload)
WITH RECURSIVE s AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM s WHERE n < {MORE_JOBS})
SELECT JSON_OBJECT('n', n, 'fails', 0) FROM s"""  # noqa: S608 - as above
FAULT = "ALTER TABLE jobs DROP INDEX claim_idx, ADD INDEX status_idx (status)"
CURE = "DROP INDEX status_idx ON jobs"
HELD = "SELECT COUNT(*) FROM jobs WHERE status = 'running' AND claimed_by = :worker"
WAITING = "SELECT COUNT(*) FROM jobs WHERE status = 'pending'"
UNDUE = "SELECT COUNT(*) FROM jobs WHERE status = 'scheduled' AND available_at > NOW(6)"
LEASED = "SELECT COUNT(*) FROM jobs WHERE status = 'running' AND lease_until >= NOW(6)"
IN_BOTH = "SELECT COUNT(*) FROM jobs JOIN jobs_archive USING (id)"


@dataclass(frozen=True)
class Story:
    """What is told, to whom, on which schema, by which workers."""

    terminal: Terminal
    database: Database
    crew: Crew

    def tell(self) -> None:
        """Tell all of it; what was not as it should be is in the terminal's problems."""
        self.provision()
        self.work()
        self.recover()
        self.archive()
        self.repair()
        self.account()

    def provision(self) -> None:
        """Create the queue, and have it audited."""
        self.terminal.heading("1. A queue")
        self.terminal.qops("init --dry-run")
        self.terminal.qops("init")
        self.terminal.say("The audit. A server as it comes out of the box earns a few warnings.")
        self.terminal.qops("doctor", expect=(0, 1))

    def work(self) -> None:
        """Enqueue jobs, let workers loose on them, and kill one in the middle."""
        show = self.terminal
        show.heading("2. Work, and a crash")
        show.sql(ENQUEUE)
        self.database.run(ENQUEUE)
        show.say(
            f"""{JOBS} jobs for {len(WORKERS)} workers, processes around qops.worker.Worker. Every tenth job fails once,
            every hundredth always."""
        )
        victim, *others = WORKERS
        # The victim begins alone: with jobs for seconds before it, it is caught whatever else the machine does.
        self.crew.start(victim)
        self._wait("the first jobs are done", lambda: self.database.states().get("done", 0) >= JOBS // 50)
        self.crew.start(*others)
        killed = self.crew.kill_when(victim, lambda: self._held(victim) > BATCH // 2, seconds=WAIT_SECONDS)
        show.check(killed, f"{victim} could not be caught with jobs in hand")
        show.say(f"{victim} was killed (SIGKILL) with {self._held(victim)} jobs in hand. The others go on.")
        show.qops("health", expect=(0, 1))
        show.say("Archiving beside the workers: rows that others hold are passed over.")
        show.qops("archive --batch 100 --limit 500")
        self._wait("nothing is left to claim", lambda: self.database.number(WAITING) == 0)
        self._dismiss()
        show.say(f"In the queue now: {_words(self.database.states())}.")

    def recover(self) -> None:
        """Put back what the dead worker held, promote the retries, and finish the work."""
        show = self.terminal
        show.heading("3. Recovery")
        show.say(f"Nobody may touch the dead worker's jobs before their leases of {LEASE_SECONDS:g} s have passed.")
        self._wait("the leases have passed", lambda: self.database.number(LEASED) == 0)
        show.qops("requeue --expired --dry-run")
        show.qops("requeue --expired --reason 'worker-1 was killed'")
        show.check("running" not in self.database.states(), "jobs are still running although all leases have passed")
        show.say("Failed attempts wait as scheduled jobs. These workers leave the promotion to qops.")
        self._wait("the retries are due", lambda: self.database.number(UNDUE) == 0)
        show.qops("promote")
        self.crew.start(*WORKERS[:2])
        self._finish()
        self._dismiss()
        show.say("What is left has used up its attempts, so it is not put back, unless that is said aloud.")
        show.qops("requeue --failed")
        failed = self.database.states().get("failed", 0)
        show.check(failed == JOBS // FAILS_ALWAYS, f"{failed} jobs have failed instead of {JOBS // FAILS_ALWAYS}")
        show.qops("requeue --failed --reset-attempts --yes --reason 'the mail server is back'")

    def archive(self) -> None:
        """Move what is done out of the way, and show the brake."""
        show = self.terminal
        show.heading("4. The archive, and the brake")
        show.qops("archive --dry-run")
        show.qops("pause --reason 'backup' --for 1h")
        show.qops("archive", expect=(75,))
        show.qops("resume")
        show.qops("archive --batch 500")
        show.check("done" not in self.database.states(), "done jobs were left in the queue")

    def repair(self) -> None:
        """Break the claim index, and have it found and repaired."""
        show = self.terminal
        show.heading("5. A fault, found and repaired")
        show.sql(MORE)
        self.database.run(MORE)
        show.say(
            """Then somebody thinks that an index on the status is enough. From now on every claim sorts, and locks, all
            the pending jobs."""
        )
        show.sql(FAULT)
        self.database.run(FAULT)
        show.qops("doctor", expect=(2,))
        show.qops("init", expect=(78,))
        show.qops("init --repair")
        show.say("qops drops nothing. The index that is in the way goes by hand, as doctor advises.")
        show.sql(CURE)
        self.database.run(CURE)
        show.qops("doctor --only claim-index --only claim-plan")

    def account(self) -> None:
        """Count all jobs that there ever were."""
        show = self.terminal
        show.heading("6. The accounts")
        show.qops("health", expect=(0, 1))
        inserted = JOBS + MORE_JOBS
        live = sum(self.database.states().values())
        archived = self.database.number("SELECT COUNT(*) FROM jobs_archive")
        both = self.database.number(IN_BOTH)
        show.say(f"{inserted} jobs were ever inserted; {live} are live, {archived} archived: {live + archived}.")
        show.check(live + archived == inserted, f"{live} live and {archived} archived jobs are not {inserted}")
        show.check(both == 0, f"{both} jobs are in both tables")

    def _held(self, worker: str) -> int:
        return self.database.number(HELD, worker=worker)

    def _dismiss(self) -> None:
        """Stop the workers; each ends with 0 when its jobs in hand are finished."""
        codes = self.crew.stop()
        self.terminal.check(not any(codes), f"the workers ended with {codes} instead of 0")

    def _finish(self) -> None:
        """Let the workers and promotions alternate until only done and failed jobs are left."""
        ended = {"done", "failed"}
        deadline = time.monotonic() + WAIT_SECONDS
        while not set(self.database.states()) <= ended and time.monotonic() < deadline:
            if self.database.number(WAITING) == 0 and self.database.number(UNDUE) == 0:
                self.terminal.qops("promote")
            time.sleep(0.1)
        self.terminal.check(set(self.database.states()) <= ended, f"unfinished: {_words(self.database.states())}")

    def _wait(self, what: str, condition: Callable[[], bool]) -> None:
        """Wait until the condition holds, and say for how long it did not."""
        started = time.monotonic()
        while not condition():
            if time.monotonic() - started > WAIT_SECONDS:
                self.terminal.check(False, f"waited {WAIT_SECONDS:.0f} s in vain until {what}")
                return
            time.sleep(0.05)
        self.terminal.say(f"Waited {time.monotonic() - started:.1f} s until {what}.")


def _words(states: dict[str, int]) -> str:
    return ", ".join(f"{number} {state}" for state, number in sorted(states.items())) or "empty"
