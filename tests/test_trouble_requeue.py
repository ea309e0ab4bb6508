"""Clocks: zones that differ, hours that come twice or not at all, machines whose clock is wrong, and 2038."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from dev.server import packages, private_server
from dev.server.files import ServerError
from tests.conftest import Database, Ran, fresh_database, run_here, run_process
from tests.queues import ARTICLE, ARTICLE_TOML, fill, init, write_config

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

AUTUMN = "@2026-11-01 01:45:00"  # in New York, for the first time; 05:45 in UTC, and at 06:45 it is 01:45 again
SPRING = "@2026-03-08 01:59:30"  # 06:59:30 in UTC; then it is 03:00
CLIENTS = {"Tokyo": "Asia/Tokyo", "New York": "America/New_York", "UTC": "UTC"}


def shifted(offset: str) -> dict[str, str]:
    """Return the environment of a process whose clock is off by `offset`, or starts at an instant."""
    try:
        folder = packages.unpack("libfaketime")
    except ServerError as error:
        pytest.skip(f"libfaketime is not to be had: {error}")
    library = next(folder.rglob("libfaketimeMT.so.1"))
    return {"LD_PRELOAD": str(library), "FAKETIME": offset, "FAKETIME_DONT_FAKE_MONOTONIC": "1"}


@pytest.fixture(scope="module", params=[AUTUMN, SPRING], ids=["autumn", "spring"])
def turning(request: pytest.FixtureRequest) -> Iterator[tuple[Any, str]]:
    """Give a server in New York whose clock is just before a change of its zone, and the leases around it, in UTC."""
    with private_server(env={"TZ": "America/New_York"} | shifted(request.param)) as server:
        yield server, request.param


def leases(moment: str) -> tuple[str, str]:
    """Return a lease that has passed and one that has not: in autumn both are 01:30 there, in spring 02:30 is none."""
    day = moment[1:11]
    return (f"{day} 05:30:00", f"{day} 06:30:00") if moment == AUTUMN else (f"{day} 02:30:00", f"{day} 07:30:00")


def write_in_utc(database: Database, statement: str, *values: tuple[Any, ...]) -> None:
    """Write with a session at +00:00, whatever the zone of the server."""
    with database.connect() as session, session.cursor() as cursor:
        cursor.execute("SET time_zone = '+00:00'")
        cursor.executemany(statement, values)
        session.commit()


@pytest.mark.parametrize("zone", CLIENTS.values(), ids=list(CLIENTS))
def test_leases_around_a_change_of_the_clocks(turning: tuple[Any, str], zone: str) -> None:
    """Of two leases around the change the one that has passed is put back, whatever the client's zone."""
    server, moment = turning
    with fresh_database(server) as database:
        init(database)
        insert = (
            "INSERT INTO jobs (status, payload, claimed_by, attempts, lease_until) VALUES ('running', '{}', 'w', 1, %s)"
        )
        write_in_utc(database, insert, *((lease,) for lease in leases(moment)))
        env = {"TZ": zone}
        depth = run_process("health", "--format", "json", "--fail-on", "never", url=database.url, env=env).json["depth"]
        assert (depth["running"], depth["expired"]) == (2, 1)
        ran = run_process("requeue", "--expired", "--format", "json", url=database.url, env=env)
        assert (ran.code, ran.json["requeued"], ran.json["changed"]) == (0, 1, 0)
        assert database.rows("SELECT status FROM jobs ORDER BY id") == [("pending",), ("running",)]


def test_leases_of_a_declared_clock_around_a_change(turning: tuple[Any, str], tmp_path: Path) -> None:
    """A DATETIME in UTC is judged right in an hour that its server's zone has twice, or not at all."""
    server, moment = turning
    with fresh_database(server) as database:
        database.execute(ARTICLE)
        config = ("--config", str(write_config(tmp_path, ARTICLE_TOML)), "--url", database.url)
        assert run_here("init", *config).code == 0
        columns = "id, payload, status, available_at, lease_until"
        insert = f"INSERT INTO job_queue ({columns}) VALUES (%s, '{{}}', 'processing', %s, %s)"
        past, future = leases(moment)
        write_in_utc(database, insert, (1, past, past), (2, past, future))
        assert run_here("requeue", "--expired", "--format", "json", *config).json["requeued"] == 1
        assert database.rows("SELECT id, status FROM job_queue ORDER BY id") == [(1, "ready"), (2, "processing")]


@pytest.mark.parametrize("offset", ["+2h", "-2h", "+0"])
def test_the_clients_clock_does_not_matter(database: Database, offset: str) -> None:
    """With the client's clock hours off, leases, ages and depths are what they are with a right one."""
    init(database)
    fill(
        database,
        2,
        status="'running'",
        claimed_by="'w'",
        attempts="1",
        lease_until="NOW(6) + INTERVAL 180 * n - 270 MINUTE",
    )
    fill(database, 2, status="'done'", finished_at="NOW(6) - INTERVAL 90 * n - 60 MINUTE")
    env = shifted(offset)
    health = run_process("health", "--format", "json", "--fail-on", "never", url=database.url, env=env).json
    assert (health["depth"]["running"], health["depth"]["expired"], health["depth"]["done"]) == (2, 1, 2)
    ran = run_process("archive", "--older-than", "1h", "--format", "json", url=database.url, env=env)
    assert (ran.code, ran.json["archived"]) == (0, 1)
    ran = run_process("requeue", "--expired", "--format", "json", url=database.url, env=env)
    assert (ran.code, ran.json["requeued"]) == (0, 1)
    assert ran.json["elapsed_seconds"] < 60
    states = {"pending": 1, "running": 1, "done": 1}
    assert dict(database.rows("SELECT status, COUNT(*) FROM jobs GROUP BY status")) == states


def test_dates_beyond_2038_in_a_datetime(database: Database, tmp_path: Path) -> None:
    """A lease that ends in 2041 is valid, and a job of 2041 can be put back and delayed beyond 2038."""
    database.execute(ARTICLE)
    toml = f'{ARTICLE_TOML}failed = "failed"\nscheduled = "later"\n'
    config = ("--config", str(write_config(tmp_path, toml)), "--url", database.url)
    assert run_here("init", *config).code == 0
    database.execute(
        "INSERT INTO job_queue (id, payload, status, available_at, lease_until) VALUES "
        "(1, '{}', 'processing', '2041-01-01', '2041-01-01'), (2, '{}', 'failed', '2041-01-01', NULL)"
    )
    assert run_here("requeue", "--expired", "--format", "json", *config).json["requeued"] == 0
    ran = run_here("requeue", "2", "--delay", "5500d", "--format", "json", *config)
    assert (ran.code, ran.json["requeued"]) == (0, 1)
    assert database.rows("SELECT status, available_at > '2041-01-01' FROM job_queue WHERE id = 2") == [("later", 1)]


@pytest.mark.parametrize("attempts", range(5))
@pytest.mark.parametrize("limit", ["3", "0"])
def test_where_expired_and_failed_jobs_end(
    database: Database, qops: Callable[..., Ran], attempts: int, limit: str
) -> None:
    """Below the limit both come back with their attempts; at it an expired one fails and a failed one stays."""
    init(database)
    fill(
        database,
        1,
        status="'running'",
        attempts=str(attempts),
        max_attempts=limit,
        lease_until="NOW(6) - INTERVAL 1 HOUR",
    )
    fill(database, 1, status="'failed'", attempts=str(attempts), max_attempts=limit, last_error="'first'")
    below = attempts < int(limit)
    for _ in range(2):
        for kind in ("--expired", "--failed"):
            assert qops("requeue", kind).code == 0
        found = database.rows("SELECT status, attempts, last_error IS NULL FROM jobs ORDER BY id")
        state = "pending" if below else "failed"
        assert found == [(state, attempts, int(below)), (state, attempts, 0)]
