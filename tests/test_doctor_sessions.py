"""The checks of sessions, settings and surroundings: broken on a real server, found, cured; and with literals."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from dev.server import private_server
from qops.doctor.facts import AutocommitClaim, Clock, ClockUse, Facts, Link, Replica, Replication, Unknown
from qops.doctor.surroundings import is_remote
from tests.accounts import PASSWORD, account
from tests.conftest import Database, fresh_database, wait_until
from tests.queues import ARTICLE, ARTICLE_TOML, init, write_config
from tests.test_doctor import HEALTHY, advised, cure, examine, findings, of, result, session, with_variables
from tests.test_replica_group import options as group_options
from tests.test_replica_group import two_ports

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

COMMITTED = "--transaction-isolation=READ-COMMITTED"
CLAIM = "SELECT id FROM jobs WHERE status = 'pending' ORDER BY priority DESC, id LIMIT 1 FOR UPDATE SKIP LOCKED"
SETUP = "performance_schema.setup_consumers SET enabled = 'NO' WHERE name = 'events_transactions_history'"
RENEWED = "UPDATE job_queue SET lease_until = {} + INTERVAL 60 SECOND WHERE id = 1"


@pytest.fixture(scope="module")
def server() -> Iterator[Any]:
    """Give a server whose sessions are at READ COMMITTED, for tests that change its settings."""
    with private_server(options=[COMMITTED]) as server:
        yield server


@pytest.fixture
def own(server: Any) -> Iterator[Database]:
    with fresh_database(server) as database:
        init(database)
        try:
            yield database
        finally:
            database.execute("RESET PERSIST")


@pytest.fixture
def article(server: Any) -> Iterator[Database]:
    """Give a queue whose times are DATETIMEs."""
    with fresh_database(server) as database:
        database.execute(ARTICLE)
        yield database


def fit(database: Database, folder: Path, clock: str = "utc") -> str:
    """Make the queue complete, and return its configuration."""
    path = write_config(folder, ARTICLE_TOML.replace('"utc"', f'"{clock}"'))
    init(database, "--config", str(path), "--repair")
    return str(path)


@contextmanager
def worker(database: Database, *statements: str) -> Iterator[Any]:
    """Yield the cursor of a session in autocommit that ran `statements`."""
    connection = database.connect(autocommit=True)
    try:
        with connection.cursor() as cursor:
            run(cursor, *statements)
            yield cursor
    finally:
        connection.close()


def run(cursor: Any, *statements: str) -> None:
    for statement in statements:
        cursor.execute(statement)
        cursor.fetchall()


# On the real server


@pytest.mark.breaks
@pytest.mark.parametrize(
    ("id_", "setting", "value"),
    [("lock-wait-timeout", "innodb_lock_wait_timeout", "300"), ("deadlock-detection", "innodb_deadlock_detect", "OFF")],
)
def test_a_setting_is_found_and_cured(own: Database, id_: str, setting: str, value: str) -> None:
    """A setting that makes lock waits long is exactly one finding, which its remedy ends."""
    before = own.value(f"SELECT @@GLOBAL.{setting}")
    own.execute(f"SET GLOBAL {setting} = {value}")
    try:
        document = examine(own)
        assert findings(document) == {id_: "warning"}
        assert f"{setting} {value}" in of(document, id_)["observed"].replace(" is ", " ")
        cure(own, document, id_)
        assert findings(examine(own)) == {}
    finally:
        own.execute(f"SET GLOBAL {setting} = %s", (before,))


@pytest.mark.breaks("purge-counter")
def test_a_counter_that_is_off_is_found_and_turned_on(own: Database) -> None:
    """Without the counter of what waits for purge there is one finding, which its remedy ends."""
    own.execute("SET GLOBAL innodb_monitor_disable = 'trx_rseg_history_len'")
    try:
        document = examine(own)
        assert findings(document) == {"purge-counter": "warning"}
        cure(own, document, "purge-counter")
        assert findings(examine(own)) == {}
    finally:
        own.execute("SET GLOBAL innodb_monitor_enable = 'trx_rseg_history_len'")


@pytest.mark.breaks("autocommit-claims")
@pytest.mark.parametrize(
    "statements",
    [(CLAIM,), (f'PREPARE claim FROM "{CLAIM}"', "EXECUTE claim")],
    ids=["as text", "prepared"],
)
def test_a_claim_in_autocommit_is_found(own: Database, statements: tuple[str, ...]) -> None:
    """A session that claims in autocommit is named with its statement; when it does as advised it passes."""
    with worker(own, *statements) as cursor:
        document = examine(own)
        assert findings(document) == {"autocommit-claims": "critical"}
        observed = of(document, "autocommit-claims")["observed"]
        assert f"connection {cursor.connection.thread_id()} (root@" in observed
        assert "FOR UPDATE SKIP LOCKED" in observed
        assert "SET SESSION autocommit = 0" in advised(document, "autocommit-claims")
        run(cursor, "SET SESSION autocommit = 0")
        for _ in range(5):
            run(cursor, CLAIM, "COMMIT")
        assert findings(examine(own)) == {}


def test_claims_in_transactions_are_right(own: Database) -> None:
    """Workers in transactions, one at work, an application in autocommit and a stranger's table give no finding."""
    own.execute("CREATE TABLE other (id INT PRIMARY KEY)")
    own.execute("INSERT INTO jobs (payload) VALUES ('{}')")
    update = (
        "UPDATE jobs SET status = 'running', claimed_by = 'w', attempts = attempts + 1, "
        "lease_until = NOW(6) + INTERVAL 60 SECOND"
    )
    with (
        session(own, CLAIM, f"{update} WHERE id = 1", "COMMIT", CLAIM),
        worker(own, "START TRANSACTION", CLAIM, "COMMIT", "SELECT * FROM jobs WHERE id = 1"),
        worker(
            own, "SET SESSION time_zone = '-05:00'", "INSERT INTO jobs (payload, available_at) VALUES ('{}', NOW(6))"
        ),
        worker(own, "SELECT * FROM other FOR UPDATE"),
    ):
        assert findings(examine(own)) == {}


@pytest.mark.parametrize(
    ("off", "cured"),
    [
        (f"UPDATE {SETUP}", "setup_consumers"),
        ("UPDATE performance_schema.setup_instruments SET enabled = 'NO' WHERE name = 'transaction'", "transaction"),
    ],
    ids=["consumer", "instrument"],
)
def test_what_the_server_does_not_keep_is_unknown(own: Database, off: str, cured: str) -> None:
    """Where the transactions of sessions are not kept, nobody is acquitted, and the remedy turns it on."""
    own.execute(off)
    try:
        document = examine(own)
        assert findings(document) == {"autocommit-claims": "unknown"}
        assert cured in of(document, "autocommit-claims")["remedy"]
        cure(own, document, "autocommit-claims")
        assert findings(examine(own)) == {}
    finally:
        own.execute(off.replace("'NO'", "'YES'"))


@pytest.mark.breaks("worker-time-zone")
def test_a_session_in_another_time_zone_is_found(article: Database, tmp_path: Path) -> None:
    """A lease in a DATETIME that is written by the clock of another zone is named; in the advised zone it passes."""
    config = fit(article, tmp_path)
    with worker(article, "SET SESSION time_zone = '-05:00'", RENEWED.format("NOW()")) as cursor:
        document = examine(article, "--config", config)
        assert findings(document) == {"worker-time-zone": "critical"}
        observed = of(document, "worker-time-zone")["observed"]
        assert f"connection {cursor.connection.thread_id()} (root@" in observed
        assert "time_zone -05:00" in observed
        (statement,) = advised(document, "worker-time-zone")
        run(cursor, statement)
        assert findings(examine(article, "--config", config)) == {}


def test_utc_in_a_queue_of_another_clock_is_found(article: Database, tmp_path: Path) -> None:
    """UTC_TIMESTAMP() in a queue whose clock is an offset is a finding; NOW() in a session of that offset is none."""
    config = fit(article, tmp_path, "+08:00")
    with worker(article, "SET SESSION time_zone = '+08:00'", RENEWED.format("UTC_TIMESTAMP(6)")):
        document = examine(article, "--config", config)
        assert findings(document) == {"worker-time-zone": "critical"}
        assert "writes UTC_TIMESTAMP()" in of(document, "worker-time-zone")["observed"]
        assert 'clock = "utc"' in of(document, "worker-time-zone")["remedy"]
        assert findings(examine(article, "--config", fit(article, tmp_path, "utc"))) == {}
    config = fit(article, tmp_path, "+08:00")
    with worker(article, "SET SESSION time_zone = '+08:00'", RENEWED.format("NOW(6)")):
        assert findings(examine(article, "--config", config)) == {}


def test_times_that_mean_the_same_are_right(article: Database, tmp_path: Path) -> None:
    """UTC_TIMESTAMP() in any zone, NOW() in UTC, and other zones away from these columns give no finding."""
    config = fit(article, tmp_path)
    with (
        worker(article, "SET SESSION time_zone = '-05:00'", RENEWED.format("UTC_TIMESTAMP(6)")),
        worker(article, "SET SESSION time_zone = '+00:00'", RENEWED.format("NOW(6)")),
        worker(article, "SET SESSION time_zone = '+02:00'", "SELECT NOW(6), id FROM job_queue LIMIT 1"),
        worker(
            article, "SET SESSION time_zone = '+02:00'", "SELECT id FROM job_queue WHERE lease_until < NOW() LIMIT 1"
        ),
    ):
        assert findings(examine(article, "--config", config)) == {}


def test_names_that_are_words_of_the_server_are_known(server: Any, tmp_path: Path) -> None:
    """A table and a column with names that digests write without quotes are found, and those with quotes as well."""
    text = ARTICLE_TOML.replace('"job_queue"', '"events"').replace('"job_queue_archive"', '"old"')
    text = text.replace(
        "[queues.article.states]", '[queues.article.columns]\nlease_until = "ends"\n[queues.article.states]'
    )
    config = str(write_config(tmp_path, text))
    with fresh_database(server) as database:
        database.execute(ARTICLE.replace("job_queue", "events").replace("lease_until", "ends"))
        init(database, "--config", config, "--repair")
        zone = "SET SESSION time_zone = '-05:00'"
        for quote in ("", "`"):
            change = f"UPDATE {quote}events{quote} SET {quote}ends{quote} = NOW() WHERE id = 1"
            with worker(database, zone, change, f"SELECT id FROM {quote}events{quote} LIMIT 1 FOR UPDATE"):
                document = examine(
                    database, "--config", config, "--only", "worker-time-zone", "--only", "autocommit-claims"
                )
                assert findings(document) == {"worker-time-zone": "critical", "autocommit-claims": "critical"}
            wait_until(lambda: not findings(examine(database, "--config", config)), what="the end of the session")


def test_a_cipher_is_seen(own: Database) -> None:
    """Over TLS the connection's cipher is what was observed."""
    document = examine(replace(own, name=f"{own.name}?ssl_mode=REQUIRED"), "--only", "tls")
    assert of(document, "tls")["status"] == "pass"
    assert "TLS" in of(document, "tls")["observed"]
    assert "no TLS" not in of(document, "tls")["observed"]
    assert "no TLS" in of(examine(own, "--only", "tls"), "tls")["observed"]


def test_what_may_not_be_seen_is_unknown_until_it_is_granted(own: Database) -> None:
    """Without PROCESS and performance_schema two checks here are unknown, each with the GRANT that ends it."""
    ids = ("purge-counter", "autocommit-claims", "lock-wait-timeout", "tls", "replication")
    options = [part for id_ in ids for part in ("--only", id_)]
    with account(own, "SELECT ON {db}.*") as limited:
        document = examine(limited, *options)
        assert findings(document) == {"purge-counter": "unknown", "autocommit-claims": "unknown"}
        cure(own, document, "purge-counter")
        assert findings(examine(limited, *options)) == {"autocommit-claims": "unknown"}
        cure(own, document, "autocommit-claims")
        assert findings(examine(limited, *options)) == {}


@pytest.mark.breaks("replication")
def test_a_replica_that_is_stopped_is_found(tmp_path: Path) -> None:
    """A replica of [replicas] that does not apply is named, with its cure; one that may not be asked is unknown."""
    with (
        private_server(options=["--server-id=11", COMMITTED]) as source,
        private_server(options=["--server-id=12"]) as replica,
        fresh_database(source) as database,
        fresh_database(replica, name="own") as there,
    ):
        if source.socket is None:
            pytest.skip("servers in containers do not reach each other")
        init(database)
        for one in (database, there):
            one.execute(f"CREATE USER watcher@'%' IDENTIFIED BY '{PASSWORD}'")
        database.execute("CREATE USER repl@'%' IDENTIFIED BY 'r'")
        database.execute("GRANT REPLICATION SLAVE ON *.* TO repl@'%'")
        log, position, *_ = database.rows("SHOW BINARY LOGS")[-1]
        there.execute(
            f"CHANGE REPLICATION SOURCE TO SOURCE_HOST = '127.0.0.1', SOURCE_PORT = {source.port}, SOURCE_USER = "
            f"'repl', SOURCE_PASSWORD = 'r', GET_SOURCE_PUBLIC_KEY = 1, SOURCE_LOG_FILE = '{log}', "
            f"SOURCE_LOG_POS = {position}"
        )
        there.execute("START REPLICA")
        url = f"mysql://watcher:{PASSWORD}@127.0.0.1:{replica.port}/"
        config = str(write_config(tmp_path, f'[replicas]\nfar = "{url}"\n'))
        document = examine(database, "--config", config)
        assert findings(document) == {"replication": "unknown"}
        cure(there, document, "replication")
        wait_until(lambda: findings(examine(database, "--config", config)) == {}, what="the replica")
        there.execute("STOP REPLICA SQL_THREAD")
        document = examine(database, "--config", config)
        assert findings(document) == {"replication": "warning"}
        assert "replica 'far': the applier (SQL thread) is stopped" in of(document, "replication")["observed"]
        assert advised(document, "replication") == ["START REPLICA"]
        there.execute("START REPLICA")
        wait_until(lambda: findings(examine(database, "--config", config)) == {}, what="the replica")
        there.execute("STOP REPLICA")


@pytest.mark.breaks("replication")
def test_a_group_in_which_all_take_writes_is_found_and_cured() -> None:
    """A member of a group in multi-primary mode is a finding, and the remedy gives the group one primary."""
    options = [*group_options(0, two_ports()), "--loose-group-replication-single-primary-mode=OFF", COMMITTED]
    with private_server(options=options) as member, fresh_database(member) as database:
        plugin = "SELECT COUNT(*) FROM information_schema.plugins WHERE plugin_name = 'group_replication'"
        if member.socket is None or not database.value(plugin):
            pytest.skip("there is no plugin for groups here")
        init(database)
        assert findings(examine(database)) == {}  # it is in no group yet
        database.execute("SET GLOBAL group_replication_bootstrap_group = ON")
        database.execute("START GROUP_REPLICATION")
        document = examine(database)
        assert findings(document) == {"replication": "warning"}
        assert f"127.0.0.1:{member.port} take" in of(document, "replication")["observed"]
        cure(database, document, "replication")
        assert findings(examine(database)) == {}
        database.execute("STOP GROUP_REPLICATION")


# With literals

DATETIMES = replace(HEALTHY, clock=Clock((("lease_until", "datetime(6)"),), "utc"))
LEASE = "UPDATE `jobs` SET `lease_until` = NOW (?)"
DUE = "SELECT `id` FROM `jobs` WHERE `lease_until` < NOW ( )"
USE = ClockUse(7, "app@host", "Europe/London", (0, 3600), LEASE)


def clocks(*uses: ClockUse, declared: str = "utc") -> Facts:
    return replace(HEALTHY, clock=Clock((("lease_until", "datetime(6)"),), declared), clock_uses=uses)


def surrounded(*replicas: Replica, primaries: tuple[str, ...] = (), **values: str) -> Facts:
    return replace(with_variables(**values), replication=Replication(primaries, replicas))


@pytest.mark.literal
@pytest.mark.parametrize(
    ("id_", "facts", "status", "remedy"),
    [
        ("lock-wait-timeout", with_variables(innodb_lock_wait_timeout="51"), "warning", "SET PERSIST"),
        ("lock-wait-timeout", with_variables(innodb_lock_wait_timeout="50"), "pass", None),
        ("lock-wait-timeout", with_variables(innodb_rollback_on_timeout="ON"), "pass", None),
        ("deadlock-detection", with_variables(innodb_deadlock_detect="OFF"), "warning", "SET PERSIST"),
        ("purge-counter", replace(HEALTHY, purge_counter="disabled"), "warning", "SET GLOBAL"),
        ("autocommit-claims", replace(HEALTHY, autocommit_claims=(AutocommitClaim(7, None, "S"),)), "critical", "--"),
        ("worker-time-zone", clocks(USE), "critical", "-- in these"),
        ("worker-time-zone", clocks(replace(USE, offsets=(0, 0))), "pass", None),
        ("worker-time-zone", clocks(replace(USE, offsets=(None, None))), "pass", None),
        ("worker-time-zone", clocks(replace(USE, offsets=(-19800, -19800)), declared="-05:30"), "pass", None),
        ("worker-time-zone", clocks(replace(USE, offsets=(0, 0)), declared="+08:00"), "critical", "--"),
        ("worker-time-zone", clocks(replace(USE, statement=LEASE.replace("NOW", "UTC_TIMESTAMP"))), "pass", None),
        ("worker-time-zone", clocks(replace(USE, statement=f"{LEASE}, `b` = UTC_TIMESTAMP ( )")), "pass", None),
        ("worker-time-zone", clocks(replace(USE, statement="UPDATE `jobs` SET `made` = NOW (?)")), "pass", None),
        ("worker-time-zone", clocks(replace(USE, statement=DUE)), "pass", None),  # somebody looks
        ("worker-time-zone", clocks(replace(USE, statement=f"{DUE} FOR UPDATE SKIP LOCKED")), "critical", "--"),
        ("worker-time-zone", replace(HEALTHY, clock_uses=(USE,)), "pass", None),  # its columns are TIMESTAMPs
        ("worker-time-zone", replace(HEALTHY, clock_uses=Unknown("denied")), "pass", None),
        ("worker-time-zone", replace(DATETIMES, clock_uses=Unknown("denied", "GRANT …;")), "unknown", "GRANT"),
        ("tls", replace(HEALTHY, link=Link(remote=True, cipher=None)), "warning", "--"),
        ("tls", replace(HEALTHY, link=Link(remote=True, cipher="TLS_AES_256_GCM_SHA384")), "pass", None),
        ("replication", surrounded(wsrep_on="ON"), "warning", "--"),
        ("replication", surrounded(wsrep_on="OFF"), "pass", None),
        (
            "replication",
            surrounded(primaries=("a:1", "b:1"), group_replication_single_primary_mode="OFF"),
            "warning",
            "SELECT group_replication_switch_to_single_primary_mode();",
        ),
        ("replication", surrounded(group_replication_single_primary_mode="OFF"), "pass", None),
        ("replication", surrounded(primaries=("a:1",), group_replication_single_primary_mode="ON"), "pass", None),
        (
            "replication",
            surrounded(group_replication_single_primary_mode="OFF", performance_schema="OFF"),
            "unknown",
            None,
        ),
        ("replication", surrounded(Replica("r", "h:1", "the applier (SQL thread) is stopped")), "warning", "-- on h:1"),
        ("replication", surrounded(Replica("r", "h:1", "it has not answered for 2 s")), "warning", "-- look at h:1"),
        ("replication", surrounded(Replica("r", "h:1", refused=Unknown("no", "GRANT x;"))), "unknown", "GRANT x;"),
        ("replication", surrounded(Replica("r", "h:1")), "pass", None),
    ],
)
def test_a_check_judges_literal_facts(id_: str, facts: Facts, status: str, remedy: str | None) -> None:
    """From the facts alone follow the status and the kind of remedy."""
    found = result(facts, id_)
    assert found.status == status
    assert found.observed
    assert found.remedy is None if remedy is None else found.remedy.startswith(remedy)


@pytest.mark.parametrize(
    ("host", "seen_from", "hostname", "remote"),
    [
        ("db.example", "app.example", "db", True),
        ("10.0.0.5", "10.0.0.6", "db", True),
        ("/run/mysqld/mysqld.sock", "localhost", "db", False),
        ("127.0.0.1", "172.17.0.1", "3f2a", False),  # a container's port on this machine
        ("db.example", "127.0.0.1", "db", False),  # a tunnel, or a proxy beside the server
        ("10.0.0.5", "10.0.0.5", "here", False),
    ],
)
def test_a_connection_leaves_the_machine_or_not(host: str, seen_from: str, hostname: str, remote: bool) -> None:  # noqa: FBT001
    """Either end can tell that it does not."""
    assert is_remote(host, seen_from, hostname, "here") == remote
