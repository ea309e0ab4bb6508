"""A member of a replication group has no channel of its own to ask: its applier's queue says how late it is."""

from __future__ import annotations

import socket
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Any

import MySQLdb
import pytest

from dev.server import Server, private_server
from qops.db import open_server
from qops.replicas import ReplicaLag, read_replica
from qops.settings import Database
from qops.url import parse_url
from tests.accounts import PASSWORD
from tests.conftest import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

GROUP = "8c2b6f2e-5a3c-4a3e-9d6f-0d5b7c1e2a90"
STATE = "SELECT member_state FROM performance_schema.replication_group_members WHERE member_id = @@server_uuid"


def connect(server: Server) -> Any:
    return MySQLdb.connect(host="127.0.0.1", port=server.port, user="root", autocommit=True)


def run(server: Server, *statements: str) -> Any:
    """Run statements as root and return the first value of the last one."""
    with closing(connect(server)) as connection, closing(connection.cursor()) as cursor:
        for statement in statements:
            cursor.execute(statement)
        row = cursor.fetchone()
        return row[0] if row else None


def lag(server: Server) -> ReplicaLag:
    database = Database(parse_url(f"mysql://root@127.0.0.1:{server.port}/"))
    with open_server(database).observe() as connection:
        return read_replica(connection)


def options(number: int, ports: list[int]) -> list[str]:
    seeds = ",".join(f"127.0.0.1:{port}" for port in ports)
    return [
        f"--server-id={number + 1}",
        "--gtid-mode=ON",
        "--enforce-gtid-consistency=ON",
        "--report-host=127.0.0.1",
        "--loose-plugin-load-add=group_replication.so",
        f"--loose-group-replication-group-name={GROUP}",
        "--loose-group-replication-start-on-boot=OFF",
        f"--loose-group-replication-local-address=127.0.0.1:{ports[number]}",
        f"--loose-group-replication-group-seeds={seeds}",
        "--loose-group-replication-recovery-get-public-key=ON",
    ]


def two_ports() -> list[int]:
    """Return two ports on which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as other:
        return [one.getsockname()[1], other.getsockname()[1]]


@pytest.fixture
def members() -> Iterator[tuple[Server, Server]]:
    """Give two servers that could form a group: the first has formed one, the second has not joined it yet."""
    ports = two_ports()
    with ExitStack() as stack:
        first, second = (stack.enter_context(private_server(options=options(number, ports))) for number in (0, 1))
        if first.socket is None or not run(
            first, "SELECT COUNT(*) FROM information_schema.plugins WHERE plugin_name = 'group_replication'"
        ):
            pytest.skip("there is no plugin for groups here, or servers do not reach each other")
        for server in (first, second):
            run(
                server,
                "SET SESSION sql_log_bin = 0",
                f"CREATE USER member@'%' IDENTIFIED BY '{PASSWORD}'",
                "GRANT REPLICATION SLAVE, BACKUP_ADMIN, CONNECTION_ADMIN ON *.* TO member@'%'",
                f"CHANGE REPLICATION SOURCE TO SOURCE_USER = 'member', SOURCE_PASSWORD = '{PASSWORD}' "
                "FOR CHANNEL 'group_replication_recovery'",
            )
        run(first, "SET GLOBAL group_replication_bootstrap_group = ON", "START GROUP_REPLICATION")
        yield first, second


def test_a_secondary_is_as_late_as_what_its_applier_has_in_hand(members: tuple[Server, Server]) -> None:
    """Outside its group it is not without lag; inside, it has none until its applier is held up, and then that age."""
    primary, secondary = members
    assert lag(primary) == ReplicaLag(0.0)
    assert lag(secondary) == ReplicaLag(trouble="as a member of its group it is OFFLINE")
    run(secondary, "START GROUP_REPLICATION")
    wait_until(lambda: run(secondary, STATE) == "ONLINE", what="the secondary")
    wait_until(lambda: lag(secondary) == ReplicaLag(0.0), what="no lag")
    run(primary, "CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY, v INT)", "INSERT INTO d.t VALUES (1, 1)")
    wait_until(lambda: run(secondary, "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = 'd'"))
    with closing(connect(secondary)) as holder:
        holder.query("FLUSH TABLES WITH READ LOCK")
        run(primary, *(f"UPDATE d.t SET v = {value}" for value in range(5)))
        wait_until(lambda: (lag(secondary).seconds or 0) > 1.2, what="a lag")
        assert (lag(secondary).seconds or 0) < 30
    wait_until(lambda: lag(secondary) == ReplicaLag(0.0), what="no lag")
