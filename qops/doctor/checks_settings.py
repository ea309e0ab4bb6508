"""Checks of what surrounds the queue: lock waits, deadlocks, purge's counter, encryption and replication."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qops.doctor.facts import Unknown
from qops.doctor.model import Check, NotKnownError, Outcome, advice, known, passed

if TYPE_CHECKING:
    from qops.doctor.facts import Facts, Replica, Replication


def lock_wait_timeout(facts: Facts) -> Outcome:
    """Check how long a statement of a new session waits for a lock before it gives up."""
    variables, longest = known(facts.variables), int(facts.limits.lock_wait_seconds)
    expected = f"innodb_lock_wait_timeout of {longest} s or less"
    value = variables.get("innodb_lock_wait_timeout")
    if value is None:
        raise NotKnownError(Unknown("innodb_lock_wait_timeout is not among the server's variables"))
    observed = (
        f"innodb_lock_wait_timeout {value} s, lock_wait_timeout {variables.get('lock_wait_timeout', '?')} s "
        f"(metadata locks), innodb_rollback_on_timeout {variables.get('innodb_rollback_on_timeout', 'OFF')}"
    )
    if int(value) <= longest:
        return passed(observed, expected)
    return Outcome("warning", observed, expected, f"SET PERSIST innodb_lock_wait_timeout = {longest};")


def deadlock_detection(facts: Facts) -> Outcome:
    """Check whether InnoDB ends deadlocks itself."""
    value = known(facts.variables).get("innodb_deadlock_detect", "ON")
    if value == "ON":
        return passed(value, "ON")
    return Outcome(
        "warning",
        f"innodb_deadlock_detect is {value}: a deadlock lasts until innodb_lock_wait_timeout",
        "ON",
        "SET PERSIST innodb_deadlock_detect = ON;",
    )


def purge_counter(facts: Facts) -> Outcome:
    """Check that the counter is on by which monitoring sees purge fall behind."""
    status = known(facts.purge_counter)
    expected = "trx_rseg_history_len in information_schema.innodb_metrics is enabled"
    if status == "enabled":
        variables = {} if isinstance(facts.variables, Unknown) else facts.variables
        return passed(f"enabled; innodb_purge_threads {variables.get('innodb_purge_threads', 'unknown')}", expected)
    if status is None:
        raise NotKnownError(Unknown("this server has no counter trx_rseg_history_len"))
    return Outcome("warning", status, expected, "SET GLOBAL innodb_monitor_enable = 'trx_rseg_history_len';")


def tls(facts: Facts) -> Outcome:
    """Check that our own connection is encrypted where it leaves this machine."""
    link = known(facts.link)
    expected = "TLS to a server on another machine"
    if link.cipher:
        return passed(link.cipher, expected)
    if not link.remote:
        return passed("no TLS, and the connection does not leave this machine", expected)
    return Outcome(
        "warning",
        f"the connection to {facts.server.host} is not encrypted",
        expected,
        advice(
            "in --url, QOPS_URL or [database] url: ?ssl_mode=VERIFY_IDENTITY&ssl_ca=/path/to/ca.pem\n"
            "or, encrypted without proof of who answers: ?ssl_mode=REQUIRED"
        ),
    )


def replication(facts: Facts) -> Outcome:
    """Check that one server alone takes the queue's writes, and that the replicas that are named work."""
    found, variables = known(facts.replication), known(facts.variables)
    expected = "one server that takes writes, and every server of [replicas] at work"
    wrong: list[tuple[str, str]] = []
    if variables.get("wsrep_on") == "ON":
        wrong.append(
            (
                "this is a node of a Galera cluster, and every node takes writes",
                advice(
                    "use one node for all workers and for qops, also in a proxy; where that is so:\n"
                    '[doctor] skip = ["replication"] in qops.toml'
                ),
            )
        )
    if variables.get("group_replication_single_primary_mode") == "OFF":
        if variables.get("performance_schema", "ON") != "ON":
            raise NotKnownError(Unknown("performance_schema is OFF, so the members of the group are not to be seen"))
        primaries = known(found.primaries)
        if primaries:
            wrong.append(
                (
                    f"its replication group is in multi-primary mode: {', '.join(primaries)} take writes",
                    "SELECT group_replication_switch_to_single_primary_mode();",
                )
            )
    wrong += [_broken(one) for one in found.replicas if one.trouble]
    if wrong:
        remedy = "\n".join(cure for _, cure in wrong)
        return Outcome("warning", "; ".join(text for text, _ in wrong), expected, remedy)
    _require_answers(found)
    return passed(_well(found), expected)


def _broken(one: Replica) -> tuple[str, str]:
    text = f"replica {one.name!r}: {one.trouble}"
    if "is stopped" in (one.trouble or ""):
        return text, advice(f"on {one.place}, once the cause is gone: START REPLICA;")
    return text, advice(f"look at {one.place} with SHOW REPLICA STATUS, or take it out of [replicas] in qops.toml")


def _require_answers(found: Replication) -> None:
    """Raise for what may not be seen; what is wrong with the others was told before."""
    refused = [one.refused for one in found.replicas if one.refused]
    if refused:
        remedy = "\n".join(dict.fromkeys(one.remedy for one in refused if one.remedy))
        raise NotKnownError(Unknown("; ".join(one.reason for one in refused), remedy or None))


def _well(found: Replication) -> str:
    names = ", ".join(one.name for one in found.replicas)
    return f"replicas at work: {names}" if names else "no replica is named in [replicas]"


CHECKS = (
    Check(
        "lock-wait-timeout",
        "Nobody waits for a lock for long",
        "warning",
        "A worker that waits for a row does nothing meanwhile, and its own locks stay as long. After the timeout "
        "(1205) InnoDB undoes the statement alone unless innodb_rollback_on_timeout is ON: a worker that commits "
        "then commits half of its work.",
        lock_wait_timeout,
        how="@@GLOBAL.innodb_lock_wait_timeout, lock_wait_timeout and innodb_rollback_on_timeout; needs no privilege.",
        cure="SET PERSIST of a shorter innodb_lock_wait_timeout; or in the workers' sessions alone.",
    ),
    Check(
        "deadlock-detection",
        "InnoDB ends deadlocks itself",
        "warning",
        "Without detection the sessions of a deadlock wait for innodb_lock_wait_timeout, and all who need their rows "
        "wait behind them.",
        deadlock_detection,
        how="@@GLOBAL.innodb_deadlock_detect; needs no privilege.",
        cure="SET PERSIST of ON.",
    ),
    Check(
        "purge-counter",
        "What waits for purge is counted",
        "warning",
        "Monitoring that reads a counter which is off sees the last value that it had, for ever, while every claim "
        "gets slower.",
        purge_counter,
        how="The status of trx_rseg_history_len in information_schema.innodb_metrics; needs PROCESS.",
        cure="SET GLOBAL innodb_monitor_enable; for good in the server's option file.",
    ),
    Check(
        "tls",
        "A connection to another machine is encrypted",
        "warning",
        "Without TLS everybody on the way reads the jobs, and can change them. The client library of MariaDB, which "
        "many systems link, does not encrypt unless it is told to.",
        tls,
        how="Ssl_cipher of this very connection, and from where the server sees it come; needs no privilege.",
        cure="ssl_mode and ssl_ca in qops's URL, and the like in the workers'.",
    ),
    Check(
        "replication",
        "One server takes the writes, and its replicas work",
        "warning",
        "Row locks are known to one server only: workers on two that take writes claim the same job, and one of them "
        "fails at COMMIT. A replica that is broken makes qops archive and qops expire wait for nothing.",
        replication,
        how=(
            "@@GLOBAL.wsrep_on and group_replication_single_primary_mode, the members in performance_schema, and SHOW "
            "REPLICA STATUS on each server of [replicas]; needs SELECT on performance_schema where the group has "
            "several primaries, and REPLICATION CLIENT on the replicas."
        ),
        cure=(
            "One node for all who write, or the group's single-primary mode; a replica that stands still is started "
            "again or taken out of [replicas]."
        ),
    ),
)
