"""Checks of the server: its version, its settings, and what its sessions do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qops.doctor.facts import Unknown
from qops.doctor.model import Check, NotKnownError, Outcome, advice, known, passed
from qops.versions import lock_tables_stall

if TYPE_CHECKING:
    from qops.doctor.facts import Facts, Transaction

MINIMUM = "MySQL 8.0.1 or later"
RELATIVES = ("tidb", "oceanbase", "singlestore", "memsql", "vitess", "dolt", "mariadb")
STRICT_MODES = frozenset({"STRICT_TRANS_TABLES", "STRICT_ALL_TABLES", "TRADITIONAL"})
READ_COMMITTED = "READ-COMMITTED"


def server_version(facts: Facts) -> Outcome:
    """Check that it is MySQL, of a version that qops knows and whose lock tables can be read."""
    server = facts.server
    observed = f"{server.flavor} {server.version}"
    relative = next((name for name in RELATIVES if name in f"{server.version} {server.comment or ''}".lower()), None)
    if server.flavor != "MySQL" or relative or server.numbers < (8, 0, 1):
        return Outcome(
            "critical",
            f"{observed}{f' ({server.comment})' if relative and server.comment else ''}: not supported",
            MINIMUM,
            advice(f"connect qops to {MINIMUM}"),
        )
    if lock_tables_stall(server.numbers):
        return Outcome(
            "warning",
            f"{observed}: reading data_locks and data_lock_waits can stall InnoDB on this version",
            "8.0.40, 8.4.3, 9.1.0 or later",
            advice("upgrade within the release series; until then look at lock waits rarely"),
        )
    return passed(observed, MINIMUM)


def isolation_level(facts: Facts) -> Outcome:
    """Check the server's default for new sessions."""
    level = known(facts.variables).get("transaction_isolation", "")
    if level == READ_COMMITTED:
        return passed(level, READ_COMMITTED)
    return Outcome(
        "warning",
        f"{level or 'unreadable'} is the default of new sessions",
        READ_COMMITTED,
        "SET PERSIST transaction_isolation = 'READ-COMMITTED';",
    )


def worker_isolation(facts: Facts) -> Outcome:
    """Check what the sessions that use the queue's table really have."""
    sessions = known(facts.sessions)
    expected = "READ COMMITTED in every session that uses the table"
    wrong = [session for session in sessions if session.isolation != "READ COMMITTED"]
    if not wrong:
        return passed(f"{_number(len(sessions), 'session')} seen", expected)
    named = ", ".join(f"{one.connection_id} ({one.user or 'unknown user'}, {one.isolation})" for one in wrong[:10])
    more = f" and {len(wrong) - 10} more" if len(wrong) > 10 else ""  # noqa: PLR2004 - as many as are named
    return Outcome(
        "warning",
        f"{_number(len(wrong), 'session')} of {len(sessions)}: {named}{more}",
        expected,
        advice(
            "in the workers, after connecting: SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED;\n"
            "or for all new sessions: SET PERSIST transaction_isolation = 'READ-COMMITTED';"
        ),
    )


def binlog_format(facts: Facts) -> Outcome:
    """Check whether writes at READ COMMITTED can be logged."""
    variables = known(facts.variables)
    expected = "ROW or MIXED where the binary log is on"
    if variables.get("log_bin", "OFF") != "ON":
        return passed("not applicable: log_bin is OFF", expected)
    value = variables.get("binlog_format", "ROW")
    if value != "STATEMENT":
        return passed(value, expected)
    return Outcome(
        "critical",
        "STATEMENT: every write and every FOR UPDATE at READ COMMITTED fails with error 1665",
        expected,
        "SET PERSIST binlog_format = 'ROW';",
    )


def read_only(facts: Facts) -> Outcome:
    """Check whether this server takes writes."""
    variables = known(facts.variables)
    on = [name for name in ("innodb_read_only", "super_read_only", "read_only") if variables.get(name) == "ON"]
    expected = "a server that takes writes"
    if not on:
        return passed("read_only is OFF", expected)
    here = f"SET GLOBAL {on[-1]} = OFF;"
    if "innodb_read_only" in on:
        here = "innodb_read_only = OFF in the server's option file, and a restart"
    return Outcome(
        "critical",
        f"{on[0]} is ON: this server takes no writes and no FOR UPDATE",
        expected,
        advice(f"connect to the writable source instead; if this is it: {here}"),
    )


def sql_mode(facts: Facts) -> Outcome:
    """Check whether the server refuses values that do not fit."""
    modes = {mode for mode in known(facts.variables).get("sql_mode", "").split(",") if mode}
    expected = "STRICT_TRANS_TABLES or STRICT_ALL_TABLES"
    if modes & STRICT_MODES:
        return passed(", ".join(sorted(modes & STRICT_MODES)), expected)
    return Outcome(
        "warning",
        f"the default of new sessions is {','.join(sorted(modes)) or 'empty'!r}",
        expected,
        "SET PERSIST sql_mode = CONCAT_WS(',', NULLIF(@@GLOBAL.sql_mode, ''), 'STRICT_TRANS_TABLES');",
    )


def deadlock_logging(facts: Facts) -> Outcome:
    """Check whether every deadlock is written to the error log."""
    value = known(facts.variables).get("innodb_print_all_deadlocks", "OFF")
    expected = "OFF, save while a fleet of workers is brought up"
    if value != "ON":
        return passed(value, expected)
    return Outcome("warning", value, expected, "SET PERSIST innodb_print_all_deadlocks = OFF;")


def performance_schema(facts: Facts) -> Outcome:
    """Check whether sessions and lock waits can be seen."""
    value = known(facts.variables).get("performance_schema", "OFF")
    if value == "ON":
        return passed(value, "ON")
    return Outcome(
        "warning",
        f"{value}: its tables are there and empty, so nobody can see lock waits or what workers do",
        "ON",
        advice("in the server's option file: performance_schema = ON, and a restart"),
    )


def purge_lag(facts: Facts) -> Outcome:
    """Check how many committed transactions purge has not reached."""
    purge = known(facts.purge)
    lag, limit = purge.unpurged_transactions, facts.limits.purge_lag
    if lag is None:
        raise NotKnownError(Unknown("purge lag is not to be seen", purge.unknown))
    expected = f"fewer than {limit} committed transactions that wait for purge"
    observed = f"{lag} (history list length {purge.history_list_length}, {purge.read_views} read views open)"
    if lag < limit:
        return passed(observed, expected)
    holder = purge.blocker
    if holder is None:
        return Outcome(
            "warning", observed, expected, advice("no holder of a read view is to be seen; look again in a minute")
        )
    return Outcome(
        "warning",
        f"{observed}; held up by connection {holder.connection_id} ({holder.user}), {holder.seconds} s, "
        f"{holder.statement or 'statement unknown'}",
        expected,
        f"KILL {holder.connection_id};",
    )


def long_transactions(facts: Facts) -> Outcome:
    """Check for transactions that are open longer than any work on jobs takes."""
    limit = facts.limits.long_transaction_seconds
    expected = f"no transaction open for {limit:g} s"
    old = [one for one in known(facts.transactions) if one.seconds >= limit]
    if not old:
        return passed("none", expected)
    named = "; ".join(
        f"connection {one.connection_id} ({one.user or 'unknown user'}) {one.seconds} s, {one.isolation}, "
        f"{_rows(one)}{one.statement or 'statement unknown'}"
        for one in old
    )
    return Outcome("warning", named, expected, "\n".join(f"KILL {one.connection_id};" for one in old))


def _rows(one: Transaction) -> str:
    return "" if one.rows_locked is None else f"{one.rows_locked} rows locked, {one.rows_modified} changed, "


def _number(count: int, word: str) -> str:
    return f"{count} {word}{'' if count == 1 else 's'}"


CHECKS = (
    Check(
        "server-version",
        "The server is a MySQL that qops works with",
        "critical",
        "Relatives of MySQL speak its protocol and lack what a queue relies on: SKIP LOCKED with MySQL's error codes, "
        "data_lock_waits, visible index directions.",
        server_version,
        how="VERSION() and @@version_comment, read before anything that only MySQL has; needs no privilege.",
        cure=(
            "Connect to MySQL 8.0.1 or later; a version whose lock tables stall the server is upgraded within its "
            "series."
        ),
    ),
    Check(
        "isolation-level",
        "New sessions use READ COMMITTED",
        "warning",
        "At REPEATABLE READ, MySQL's default, a claim locks the gaps beside its rows: enqueuing waits for claims, an "
        "empty queue is locked as a whole, and any plain SELECT holds up purge until its transaction ends.",
        isolation_level,
        how="@@GLOBAL.transaction_isolation; needs no privilege.",
        cure=(
            "SET PERSIST of READ COMMITTED for all new sessions; sessions that are open keep the level that they have."
        ),
    ),
    Check(
        "worker-isolation",
        "Sessions that use the queue are at READ COMMITTED",
        "warning",
        "A session can differ from the server's default. One worker at REPEATABLE READ is enough to block those who "
        "enqueue.",
        worker_isolation,
        how=(
            "performance_schema: the last statements of each session, its metadata locks, and the isolation level of "
            "its last transaction; needs SELECT on performance_schema."
        ),
        cure=(
            "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED in the workers after they connect, or the "
            "server's default and new connections."
        ),
    ),
    Check(
        "binlog-format",
        "The binary log can hold changes at READ COMMITTED",
        "critical",
        "With statement-based logging InnoDB refuses every write at READ COMMITTED, and every FOR UPDATE as well, with "
        "error 1665.",
        binlog_format,
        how="@@GLOBAL.log_bin and @@GLOBAL.binlog_format; needs no privilege.",
        cure="SET PERSIST of ROW, and new connections: those that are open keep the format that they have.",
    ),
    Check(
        "read-only",
        "The server takes writes",
        "critical",
        "On a replica neither workers nor qops can lock or change a job; GET_LOCK works there and protects nothing.",
        read_only,
        how="@@GLOBAL.read_only, super_read_only and innodb_read_only; needs no privilege.",
        cure=(
            "Connect to the source that takes the writes; where this is it, whoever runs the server ends the read- "
            "only state."
        ),
    ),
    Check(
        "sql-mode",
        "New sessions use a strict SQL mode",
        "warning",
        "Without it MySQL cuts what does not fit, an error text or a worker's name, and tells nobody.",
        sql_mode,
        how="@@GLOBAL.sql_mode; needs no privilege.",
        cure=(
            "SET PERSIST of the same modes with STRICT_TRANS_TABLES added, once no application relies on values being "
            "cut."
        ),
    ),
    Check(
        "deadlock-logging",
        "Not every deadlock is logged",
        "warning",
        "Deadlocks of a busy queue fill the error log; the counters in performance_schema say how many there are.",
        deadlock_logging,
        how="@@GLOBAL.innodb_print_all_deadlocks; needs no privilege.",
        cure="SET PERSIST of OFF; the counters of deadlocks stay.",
    ),
    Check(
        "performance-schema",
        "Sessions and lock waits can be seen",
        "warning",
        "Where performance_schema is OFF, its lock tables are empty, which looks like a server without lock waits.",
        performance_schema,
        how="@@GLOBAL.performance_schema; needs no privilege.",
        cure="performance_schema = ON in the server's option file, and a restart.",
    ),
    Check(
        "purge-lag",
        "Purge keeps up",
        "warning",
        "Index entries of finished jobs stay until purge removes them, and every claim steps over them: 50,000 of them "
        "made a claim 40 times slower.",
        purge_lag,
        how=(
            "SHOW ENGINE INNODB STATUS for the numbers, information_schema.innodb_trx for who holds the oldest read "
            "view; needs PROCESS."
        ),
        cure="End the transaction that holds the read view, with its owner's consent: KILL and its connection.",
    ),
    Check(
        "long-transactions",
        "No transaction is open for long",
        "warning",
        "A transaction that stays open keeps its row locks, holds up ALTER TABLE and everybody behind it, and at "
        "REPEATABLE READ stops purge.",
        long_transactions,
        how="information_schema.innodb_trx, with performance_schema for the last statement of each; needs PROCESS.",
        cure="KILL of each connection that is named, with its owner's consent; or commit in the application.",
    ),
)
