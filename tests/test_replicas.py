"""Archiving waits for a replica that is behind, broken or silent, names it, and goes on when it has recovered."""

from __future__ import annotations

import os
import re
import signal
import socket
import time
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from dev import server as throwaway
from qops.replicas import ReplicaLag, judge_channel, judge_member, worst
from tests.accounts import PASSWORD, account
from tests.conftest import Database, Ran, fresh_database, run_here, start_process, wait_until
from tests.queues import counts, fill, init, write_config

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator
    from pathlib import Path

ROWS = 100
OPEN = (
    "SELECT COUNT(*) FROM performance_schema.events_transactions_current x JOIN performance_schema.threads t "
    "ON t.thread_id = x.thread_id JOIN performance_schema.session_account_connect_attrs a "
    "ON a.processlist_id = t.processlist_id AND a.attr_name = 'program_name' AND a.attr_value = 'qops' "
    "WHERE x.state = 'ACTIVE' AND x.timer_wait > 2e11"  # picoseconds: more than the moment that asking takes
)


@dataclass
class Pair:
    """A queue on a source, and a replica of it that can be broken."""

    source: Database
    server: throwaway.Server

    def connect(self) -> Any:
        """Return root's autocommit session on the replica."""
        url = f"mysql://root@{self.server.host}:{self.server.port}/"
        return Database("mysql", self.server.host, self.server.port, url).connect(autocommit=True)

    def run(self, *statements: str) -> list[dict[str, Any]]:
        """Run statements on the replica and return the rows of the last one, names as MySQL 8.0.22 and later say."""
        with closing(self.connect()) as connection, closing(connection.cursor()) as cursor:
            for statement in statements:
                cursor.execute(statement)
            names = [column[0] for column in cursor.description or ()]
            return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

    @property
    def status(self) -> dict[str, Any]:
        return self.run("SHOW REPLICA STATUS")[0]

    def caught_up(self) -> bool:
        """Whether the replica has what the source has: a row that is written now."""
        self.source.execute("REPLACE INTO mark VALUES (1, UUID())")
        mark = self.source.value("SELECT v FROM mark")
        self.healthy()
        wait_until(lambda: mark in str(self.run(f"SELECT v FROM `{self.source.name}`.mark")), what="the replica")
        return True

    def healthy(self) -> None:
        wait_until(
            lambda: {self.status[f"Replica_{thread}_Running"] for thread in ("IO", "SQL")} == {"Yes"},
            what="its threads",
        )


@pytest.fixture(scope="module")
def servers() -> Iterator[Pair]:
    """Give two servers, of which one replicates the other from here on."""
    with (
        throwaway.private_server(options=["--server-id=11"]) as source,
        throwaway.private_server(options=["--server-id=12", "--replica-net-timeout=10"]) as replica,
    ):
        if source.socket is None:
            pytest.skip("servers in containers do not reach each other")
        with fresh_database(source) as database:
            database.execute("CREATE USER repl@'%' IDENTIFIED BY 'r'")
            database.execute("GRANT REPLICATION SLAVE ON *.* TO repl@'%'")
            log, position, *_ = database.rows("SHOW BINARY LOGS")[-1]
            pair = Pair(database, replica)
            pair.run(
                f"CREATE DATABASE `{database.name}`",
                f"CHANGE REPLICATION SOURCE TO SOURCE_HOST = '127.0.0.1', SOURCE_PORT = {source.port}, "
                f"SOURCE_USER = 'repl', SOURCE_PASSWORD = 'r', GET_SOURCE_PUBLIC_KEY = 1, SOURCE_CONNECT_RETRY = 1, "
                f"SOURCE_RETRY_COUNT = 100000, SOURCE_LOG_FILE = '{log}', SOURCE_LOG_POS = {position}",
                "START REPLICA",
            )
            database.execute("CREATE TABLE mark (id INT PRIMARY KEY, v VARCHAR(40))")
            database.execute(f"CREATE USER watcher@'%' IDENTIFIED BY '{PASSWORD}'")
            database.execute("GRANT REPLICATION CLIENT ON *.* TO watcher@'%'")
            init(database)
            yield pair


@pytest.fixture
def pair(servers: Pair, clean_environment: Path, monkeypatch: pytest.MonkeyPatch) -> Pair:
    """Give the two with 100 finished jobs, the replica in step with its source, and a configuration that names it."""
    for table in ("jobs", "jobs_archive", "qops_runs"):
        servers.source.execute(f"DELETE FROM {table}")
    fill(servers.source, ROWS, status="'done'", finished_at="NOW(6)")
    servers.caught_up()
    name_replicas(clean_environment, one=f"mysql://watcher:{PASSWORD}@127.0.0.1:{servers.server.port}/not_there")
    monkeypatch.setenv("QOPS_URL", servers.source.url)
    return servers


def name_replicas(folder: Path, **urls: str) -> None:
    lines = "".join(f'{name} = "{url}"\n' for name, url in urls.items())
    write_config(folder, f"[replicas]\n{lines}")


def archive(*options: str) -> Ran:
    return run_here("archive", "--batch", "10", "--pause", "0s", "--format", "json", *options)


def start(*options: str) -> subprocess.Popen[str]:
    return start_process("archive", "--batch", "10", "--pause", "0s", "--format", "json", *options)


def finish(process: subprocess.Popen[str], seconds: float = 30) -> Ran:
    out, err = process.communicate(timeout=seconds)
    return Ran(process.returncode, out, err)


def next_line(process: subprocess.Popen[str]) -> str:
    assert process.stderr
    return process.stderr.readline()


@contextmanager
def applier_stopped(pair: Pair) -> Iterator[None]:
    pair.run("STOP REPLICA SQL_THREAD")
    try:
        yield
    finally:
        pair.run("START REPLICA SQL_THREAD")


@contextmanager
def receiver_stopped(pair: Pair) -> Iterator[None]:
    pair.run("STOP REPLICA IO_THREAD")
    try:
        yield
    finally:
        pair.run("START REPLICA IO_THREAD")


@contextmanager
def applier_broken(pair: Pair) -> Iterator[None]:
    """Give the replica a row that it then gets from its source: its applier ends with an error."""
    pair.run(f"INSERT INTO `{pair.source.name}`.mark VALUES (7, 'here')")
    pair.source.execute("INSERT INTO mark VALUES (7, 'there')")
    wait_until(lambda: pair.status["Replica_SQL_Running"] == "No", what="the applier's error")
    try:
        yield
    finally:
        pair.run(f"DELETE FROM `{pair.source.name}`.mark WHERE id = 7", "START REPLICA")
        pair.source.execute("DELETE FROM mark WHERE id = 7")


@contextmanager
def applier_blocked(pair: Pair) -> Iterator[None]:
    """Somebody on the replica locks a row that the applier needs."""
    with closing(pair.connect()) as holder:
        holder.autocommit(False)
        holder.query(f"SELECT * FROM `{pair.source.name}`.mark FOR UPDATE")
        holder.store_result()
        pair.source.execute("UPDATE mark SET v = 'wanted'")
        wait_until(lambda: (pair.status["Seconds_Behind_Source"] or 0) > 1, what="a lag of two seconds")
        yield


@contextmanager
def delayed(pair: Pair) -> Iterator[None]:
    pair.run("STOP REPLICA SQL_THREAD", "CHANGE REPLICATION SOURCE TO SOURCE_DELAY = 3600", "START REPLICA SQL_THREAD")
    pair.source.execute("UPDATE mark SET v = 'in an hour'")
    wait_until(lambda: (pair.status["Seconds_Behind_Source"] or 0) > 1, what="a lag of two seconds")
    try:
        yield
    finally:
        pair.run("STOP REPLICA SQL_THREAD", "CHANGE REPLICATION SOURCE TO SOURCE_DELAY = 0", "START REPLICA SQL_THREAD")


@contextmanager
def killed(pair: Pair) -> Iterator[None]:
    throwaway.kill(pair.server.name)
    try:
        yield
    finally:
        pair.server = throwaway.restart(pair.server.name)


@contextmanager
def frozen(pair: Pair) -> Iterator[None]:
    assert pair.server.pid
    os.kill(pair.server.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pair.server.pid, signal.SIGCONT)


TROUBLE = {
    "applier stopped": (applier_stopped, "the applier (SQL thread) is stopped", None),
    "applier broken": (applier_broken, "the applier (SQL thread) is stopped: ", None),
    "receiver stopped": (receiver_stopped, "the receiver (IO thread) is stopped", None),
    "applier blocked": (applier_blocked, " s behind (limit 1 s, resuming at 0.5 s)", True),
    "delayed": (delayed, " s behind, delayed on purpose by 3600 s (SOURCE_DELAY)", True),
    "killed": (killed, "its lag is not known: cannot connect", None),
    "frozen": (frozen, "its lag is not known: ", None),
}


@pytest.mark.parametrize("name", TROUBLE)
def test_a_run_waits_for_the_replica_and_finishes_when_it_has_recovered(pair: Pair, name: str) -> None:
    """Before the first batch it waits, names the replica and holds nothing open; afterwards every job is archived."""
    trouble, words, _ = TROUBLE[name]
    with trouble(pair):
        process = start("--max-replica-lag", "1s")
        said = next_line(process)
        assert said.startswith("qops: waiting: replica 'one'")
        assert words in said
        for _ in range(30):
            assert pair.source.value(OPEN) == 0
            time.sleep(0.02)
        assert counts(pair.source) == {"done": ROWS}
    ran = finish(process)
    assert (ran.code, ran.json["archived"], ran.json["stopped_by"]) == (0, ROWS, "done"), ran.err
    assert [wait["reason"] for wait in ran.json["throttles"]] == ["replica-lag"]
    assert ran.json["throttled_seconds"] > 0
    assert "going on after" in ran.err


@pytest.mark.parametrize("name", ["applier stopped", "applier blocked", "frozen", "killed"])
def test_a_replica_that_does_not_recover_ends_the_run(pair: Pair, name: str) -> None:
    """After --max-wait: 75, stopped by the throttle, the replica named, and the batches that were committed counted."""
    trouble, words, curable = TROUBLE[name]
    process = start("--max-replica-lag", "1s", "--max-wait", "2s", "--batch", "5", "--pause", "400ms")
    wait_until(lambda: pair.source.value("SELECT COUNT(*) FROM jobs_archive") >= 20, what="two batches")
    with trouble(pair):
        ran = finish(process)
    assert ran.code == 75, ran
    assert (ran.json["stopped_by"], ran.json["error"]["kind"]) == ("throttle", "try-later")
    (wait,) = ran.json["throttles"]
    assert (wait["reason"], wait["curable"]) == ("replica-lag", curable)
    assert 1.5 <= wait["seconds"] < 6
    assert "replica 'one'" in wait["message"]
    assert "replica 'one'" in ran.json["error"]["message"]
    assert name == "killed" or words in wait["message"]
    assert 20 <= ran.json["archived"] == pair.source.value("SELECT COUNT(*) FROM jobs_archive") < ROWS
    assert ran.json["batches"] == ran.json["archived"] // 5


@pytest.mark.parametrize("name", ["frozen", "applier stopped"])
def test_a_signal_ends_the_wait_at_once(pair: Pair, name: str) -> None:
    """SIGTERM ends a run that waits for a replica within a second or so: 143, with its document."""
    with TROUBLE[name][0](pair):
        process = start("--max-replica-lag", "1s")
        assert "waiting: replica" in next_line(process)
        begun = time.monotonic()
        process.send_signal(signal.SIGTERM)
        ran = finish(process)
        assert time.monotonic() - begun < 2
    assert (ran.code, ran.json["stopped_by"], ran.json["archived"]) == (143, "signal", 0)


def test_a_replica_in_step_costs_no_wait(pair: Pair) -> None:
    """With the default limit a healthy replica is asked, and nothing is waited for; a dry run shows its lag."""
    plan = archive("--dry-run").json["plan"]["throttles"]
    assert [(one["reason"], one["waits"]) for one in plan] == [("purge-lag", False), ("replica-lag", False)]
    assert re.fullmatch(r"replica 'one' is [0-2] s behind \(limit 10 s, resuming at 5 s\)", plan[1]["message"])
    ran = archive()
    assert (ran.code, ran.json["archived"], ran.json["throttles"], ran.err) == (0, ROWS, [], "")


def test_a_frozen_replica_does_not_slow_a_dry_run_for_long(pair: Pair) -> None:
    """A dry run gives every replica two seconds, then says that it has not answered."""
    with frozen(pair):
        begun = time.monotonic()
        ran = archive("--dry-run")
        assert time.monotonic() - begun < 5
    lag = ran.json["plan"]["throttles"][1]
    assert (ran.code, lag["reason"], lag["waits"]) == (0, "replica-lag", True)
    assert "has not answered for" in lag["message"]


def test_asking_is_left_to_about_once_a_second(pair: Pair) -> None:
    """A run of many short batches asks its replica a few times, not once a batch."""
    text = "SELECT SUM(count_star) n FROM performance_schema.events_statements_summary_global_by_event_name"
    query = f"{text} WHERE event_name IN ('statement/sql/show_replica_status', 'statement/sql/show_slave_status')"
    before = int(pair.run(query)[0]["n"])
    begun = time.monotonic()
    assert archive("--batch", "2").json["batches"] == ROWS // 2
    asked = int(pair.run(query)[0]["n"]) - before
    assert 1 <= asked <= 2 + (time.monotonic() - begun)


def test_a_missing_privilege_is_named_with_a_grant_that_helps(pair: Pair, clean_environment: Path) -> None:
    """An account that may not ask is 77 before the first batch; the GRANTs of the message, run as printed, help."""
    with account(pair.source) as limited:
        pair.caught_up()
        name_replicas(clean_environment, one=f"mysql://{limited.user}:{limited.password}@127.0.0.1:{pair.server.port}/")
        ran = archive()
        assert (ran.code, ran.json["archived"], ran.json["stopped_by"]) == (77, 0, "refused")
        message = ran.json["error"]["message"]
        assert "replica 'one'" in message
        grants = [line for line in message.splitlines() if line.startswith("GRANT ")]
        assert grants
        for grant in grants:
            pair.source.execute(grant)
        pair.caught_up()
        assert archive().json["archived"] == ROWS


def test_what_is_no_replica_is_not_without_lag(pair: Pair, clean_environment: Path) -> None:
    """The source itself under [replicas], a port where nobody listens, a wrong password: 75, each named, no secret."""
    ports = [pair.server.port, throwaway_port()]
    name_replicas(
        clean_environment,
        itself=f"mysql://root@127.0.0.1:{pair.source.port}/",
        wrong=f"mysql://watcher:s3cret-pw@127.0.0.1:{ports[0]}/",
        nobody=f"mysql://watcher:s3cret-pw@127.0.0.1:{ports[1]}/",
    )
    ran = archive("--max-wait", "500ms")
    assert (ran.code, ran.json["archived"]) == (75, 0)
    message = ran.json["throttles"][0]["message"]
    assert "replica 'itself': its lag is not known: it is not a replica" in message
    assert "replica 'wrong': its lag is not known: 127.0.0.1" in message
    assert "replica 'nobody': its lag is not known: cannot connect" in message
    assert "s3cret" not in ran.out + ran.err


def throwaway_port() -> int:
    """Return a port on which nobody listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def test_a_replicas_password_may_come_from_the_environment(
    pair: Pair, clean_environment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """QOPS_PASSWORD serves a replica whose URL has no password, as accounts are replicated with the rest."""
    name_replicas(clean_environment, one=f"mysql://watcher@127.0.0.1:{pair.server.port}/")
    assert archive("--max-wait", "0s").code == 75
    monkeypatch.setenv("QOPS_PASSWORD", PASSWORD)
    monkeypatch.setenv("QOPS_URL", pair.source.url.replace("root@", "watcher@"))
    pair.source.execute(f"GRANT ALL ON `{pair.source.name}`.* TO watcher@'%'")
    pair.source.execute("GRANT PROCESS ON *.* TO watcher@'%'")
    assert archive().json["archived"] == ROWS


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[replicas]\none = 3306\n", "[replicas] one must be a URL"),
        ('[replicas]\none = "mysql://u:p@ss@h/"\n', "[replicas] one: the database URL does not parse"),
        ('[replicas]\none = "mysql://u:sesame@/db"\n', "[replicas] one names no host"),
        ("[archive]\nmax_replica_lag = '5s'\n", "write in"),
        ("[replicas]\n[archive]\nmax_replica_lag = '5s'\n", '[replicas]\nreplica1 = "mysql://'),
        ('[replicas]\none = "mysql://u@h/"\n[archive]\nmax_replica_lag = 5\n', "max_replica_lag"),
    ],
)
def test_a_wrong_configuration_is_refused(clean_environment: Path, text: str, words: str) -> None:
    """What is wrong with [replicas], or missing for its limit, is 78 before anything connects, without a secret."""
    write_config(clean_environment, text)
    ran = run_here("archive", "--url", "mysql://root@127.0.0.1:1/x", "--format", "json")
    assert ran.code == 78
    assert words in ran.json["error"]["message"]
    assert "p@ss" not in ran.out + ran.err
    assert "sesame" not in ran.out + ran.err


def test_a_limit_without_replicas_is_refused(clean_environment: Path) -> None:
    """--max-replica-lag where no replica is configured is 78 and says what to write."""
    ran = run_here("archive", "--url", "mysql://root@127.0.0.1:1/x", "--max-replica-lag", "5s", "--format", "json")
    assert ran.code == 78
    assert '[replicas]\nreplica1 = "mysql://' in ran.json["error"]["message"]


RUNS: dict[str, Any] = {"replica_io_running": "Yes", "replica_sql_running": "Yes", "seconds_behind_source": 0}


@pytest.mark.parametrize(
    ("channel", "expected"),
    [
        ({}, ReplicaLag(0.0)),
        ({"seconds_behind_source": 12, "sql_delay": 10}, ReplicaLag(12.0, delay=10)),
        ({"seconds_behind_source": None}, ReplicaLag(trouble="the lag is not known to the replica itself")),
        (
            {"replica_io_running": "Connecting", "last_io_error": "error\nconnecting", "channel_name": "b"},
            ReplicaLag(trouble="the receiver of channel 'b' does not reach the source: error connecting"),
        ),
    ],
)
def test_a_channel_is_judged(channel: dict[str, Any], expected: ReplicaLag) -> None:
    """A channel that runs has the lag that it reports; one that does not has none, but a reason."""
    assert judge_channel(RUNS | channel) == expected


def test_the_worst_channel_counts() -> None:
    """Of several sources the longest lag counts, and one that is broken more than any lag."""
    broken = ReplicaLag(trouble="stopped")
    assert worst([ReplicaLag(1.0), ReplicaLag(9.0), ReplicaLag(0.0)]) == ReplicaLag(9.0)
    assert worst([ReplicaLag(1.0), broken, ReplicaLag(9000.0)]) == broken


@dataclass
class Member:
    state: str = "ONLINE"
    role: str = "SECONDARY"
    queued: int | None = 0
    applying_seconds: float | None = None
    distributing_seconds: float | None = None


@pytest.mark.parametrize(
    ("member", "seconds"),
    [
        (Member(), 0.0),
        (Member(role="PRIMARY", queued=3), 0.0),
        (Member(queued=3, applying_seconds=2.5, distributing_seconds=1.0), 2.5),
        (Member(applying_seconds=-0.2), 0.0),
        (Member(state="RECOVERING"), None),
        (Member(state="ERROR"), None),
        (Member(queued=None), None),
    ],
)
def test_a_group_member_is_judged_by_its_applier(member: Member, seconds: float | None) -> None:
    """A secondary is as far behind as the oldest transaction in hand; one that is not ONLINE is not without lag."""
    lag = judge_member(member)
    assert lag.seconds == seconds
    assert (lag.trouble is None) == (seconds is not None)
