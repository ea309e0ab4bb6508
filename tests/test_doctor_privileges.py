"""What doctor says an account may do is what the commands can do: each kind of grant, tried both ways."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from dev.server import private_server
from qops.doctor.audit import CHECKS
from tests.accounts import account
from tests.conftest import Database, fresh_database, run_here
from tests.queues import fill, init, write_config

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ALL_FOUR = "SELECT, INSERT, UPDATE, DELETE"
COMMANDS: dict[str, tuple[str, ...]] = {
    "archive": ("archive", "--assume-no-children"),
    "expire": ("expire", "--assume-no-children", "--older-than", "1d"),
    "restore": ("restore", "--assume-no-children", "900001"),
    "requeue": ("requeue", "--expired"),
    "promote": ("promote",),
    "pause": ("pause", "--reason", "trying"),
    "resume": ("resume",),
    "health": ("health", "--fail-on", "never"),
}
PRIVILEGE_MISSING = 77
MOVERS = {"archive", "expire", "restore"}


@pytest.fixture
def queue(database: Database) -> Database:
    init(database)
    return database


def examine(database: Database, *options: str) -> dict[str, Any]:
    ran = run_here("doctor", "--url", database.url, "--format", "json", *options)
    assert "error" not in ran.json, ran.out
    document: dict[str, Any] = ran.json
    return document


def privileges(database: Database) -> dict[str, Any]:
    """Return the result of the check."""
    (only,) = examine(database, "--only", "privileges")["checks"]
    return dict(only)


def refused(database: Database, limited: Database) -> set[str]:
    """Return the commands that a privilege keeps from running, by running them all."""
    database.execute("DELETE FROM jobs WHERE id IN (900001, 900002)")
    fill(database, 2, status="'running'", claimed_by="'w'", lease_until="NOW(6) - INTERVAL 1 SECOND")
    fill(database, 2, status="'done'", finished_at="NOW(6)")
    fill(database, 2, status="'scheduled'")
    # One to restore and one to expire.
    fill(database, 2, id="900000 + n", status="'done'", finished_at="NOW(6) - INTERVAL n - 1 WEEK")
    database.execute("REPLACE INTO jobs_archive SELECT * FROM jobs WHERE id IN (900001, 900002)")
    database.execute("DELETE FROM jobs WHERE id IN (900001, 900002)")
    codes = {name: run_here(*line, "--url", limited.url, "--quiet").code for name, line in COMMANDS.items()}
    assert set(codes.values()) <= {0, 1, PRIVILEGE_MISSING}, codes
    return {name for name, code in codes.items() if code == PRIVILEGE_MISSING}


def reported(result: dict[str, Any]) -> set[str]:
    """Return the commands that the check says cannot run."""
    if result["status"] == "pass":
        return set()
    parts = result["observed"].rpartition(" not active; ")[2].split("; ")
    return {command for part in parts for command in part.partition(" cannot ")[0].split(", ")} & set(COMMANDS)


def compare(database: Database, limited: Database) -> dict[str, Any]:
    """Hold the check against the commands, and return its result."""
    result = privileges(limited)
    assert reported(result) == refused(database, limited)
    return result


def test_a_schema_with_an_escaped_underscore(queue: Database) -> None:
    """u1: all four privileges on the schema, written with its escape, suffice."""
    name = queue.name.replace("_", "\\_")
    with account(queue, f"{ALL_FOUR} ON `{name}`.*") as limited:
        assert compare(queue, limited)["status"] == "pass"


@contextmanager
def role(database: Database, privilege: str) -> Iterator[str]:
    """Yield a role of its own with one privilege."""
    name = f"r_{database.name}"[:32]
    database.execute(f"CREATE ROLE '{name}'")
    try:
        database.execute(f"GRANT {privilege} TO '{name}'")
        yield name
    finally:
        database.execute(f"DROP ROLE '{name}'")


def test_privileges_through_a_default_role(queue: Database) -> None:
    """u2: an active role counts as a grant does."""
    with role(queue, f"{ALL_FOUR} ON `{queue.name}`.*") as name, account(queue) as limited:
        queue.execute(f"GRANT '{name}' TO '{limited.user}'@'%'")
        queue.execute(f"SET DEFAULT ROLE '{name}' TO '{limited.user}'@'%'")
        assert compare(queue, limited)["status"] == "pass"


@pytest.mark.parametrize("own", ["nothing", "SELECT ON {db}.*"])
def test_a_role_that_is_not_active(queue: Database, own: str) -> None:
    """u3: an inactive role counts for nothing, in the schema or outside of it, and the remedy ends that."""
    grants = () if own == "nothing" else (own,)
    with role(queue, f"{ALL_FOUR} ON `{queue.name}`.*") as name, account(queue, *grants) as limited:
        queue.execute(f"GRANT '{name}' TO '{limited.user}'@'%'")
        result = compare(queue, limited)
        assert result["status"] == "warning"
        assert f"{name}@%" in result["observed"]
        cure = result["remedy"].splitlines()[0]
        assert cure == f"SET DEFAULT ROLE ALL TO '{limited.user}'@'%';"
        queue.execute(cure.removesuffix(";"))
        assert compare(queue, limited)["status"] == "pass"


def test_everything_on_everything(queue: Database) -> None:
    """u4: GRANT ALL ON *.*, which SHOW GRANTS spells out as a list, suffices."""
    with account(queue, "ALL ON *.*") as limited:
        assert compare(queue, limited)["status"] == "pass"


def test_nothing_but_reading(queue: Database) -> None:
    """An account that may only read can look at the queue; for the rest the GRANTs are printed, and they help."""
    with account(queue, "SELECT ON {db}.*") as limited:
        result = compare(queue, limited)
        assert reported(result) == {"archive", "expire", "restore", "requeue", "promote", "pause", "resume"}
        for line in result["remedy"].splitlines():
            assert line.startswith("GRANT ")
            queue.execute(line.removesuffix(";"))
        assert compare(queue, limited)["status"] == "pass"


def test_tables_and_columns(queue: Database) -> None:
    """u5: privileges on tables and single columns are judged by what the statements touch."""
    put_back = "status, claimed_by, lease_until, finished_at, last_error, attempts"
    with account(
        queue,
        "SELECT ON {db}.*",
        f"UPDATE ({put_back}) ON {{db}}.jobs",
        "INSERT, UPDATE ON {db}.qops_runs",
        "INSERT (status, payload) ON {db}.jobs",
    ) as limited:
        assert reported(compare(queue, limited)) == MOVERS
        queue.execute(f"REVOKE UPDATE (lease_until) ON jobs FROM '{limited.user}'@'%'")
        result = compare(queue, limited)
        assert {"requeue", *MOVERS} == reported(result)
        assert "lease_until" in result["observed"]


def test_no_privilege_on_the_archive(queue: Database) -> None:
    """An account that may change jobs and not write the archive cannot archive, expire and restore, and all else."""
    with account(queue, f"{ALL_FOUR} ON {{db}}.jobs", f"{ALL_FOUR} ON {{db}}.qops_runs") as limited:
        result = compare(queue, limited)
        assert reported(result) == MOVERS
        assert f"ON `{queue.name}`.`jobs_archive` TO" in result["remedy"]


def test_partial_revokes() -> None:
    """u6: what was taken away from a global grant for this schema is missing."""
    with private_server(options=["--partial-revokes=ON"]) as server, fresh_database(server) as database:
        init(database)
        with account(database, f"{ALL_FOUR} ON *.*") as limited:
            assert compare(database, limited)["status"] == "pass"
            database.execute(f"REVOKE DELETE ON `{database.name}`.* FROM '{limited.user}'@'%'")
            assert reported(compare(database, limited)) == MOVERS
            database.execute(f"REVOKE UPDATE ON `{database.name}`.* FROM '{limited.user}'@'%'")
            assert {"requeue", "promote", "archive"} <= reported(compare(database, limited))


def test_a_table_that_may_not_be_seen_is_unknown(queue: Database) -> None:
    """Without any privilege on the table nothing about it passes, and the GRANT is printed."""
    with account(queue, "SELECT ON {db}.jobs_archive") as limited:
        document = examine(limited)
        by_id = {check["id"]: check for check in document["checks"]}
        assert by_id["storage-engine"]["status"] == "unknown"
        assert by_id["claim-index"]["status"] == "unknown"
        assert by_id["storage-engine"]["remedy"].startswith(f"GRANT SELECT ON `{queue.name}`.`jobs` TO ")
        assert by_id["binlog-format"]["status"] == "pass"


def test_what_needs_more_than_the_account_has_is_unknown(queue: Database) -> None:
    """Without PROCESS and performance_schema these checks are unknown with the GRANT, which makes them known."""
    with account(queue, f"{ALL_FOUR} ON {{db}}.*") as limited:
        document = examine(limited)
        unknown = {check["id"]: check for check in document["checks"] if check["status"] == "unknown"}
        assert set(unknown) == {
            "worker-isolation",
            "purge-lag",
            "purge-counter",
            "long-transactions",
            "autocommit-claims",
            "skip-locked",
            "sorted-claims",
            "rows-examined",
            "lease-length",
            "lock-errors",
            "foreign-keys",
            "triggers",
        }
        for check in unknown.values():
            for grant in check["remedy"].splitlines():
                queue.execute(grant.removesuffix(";"))
        after = examine(limited)
        assert not [check for check in after["checks"] if check["status"] == "unknown"]


def test_an_account_that_sees_no_server_is_unavailable(database: Database) -> None:
    """A login that the server refuses is exit 69, not a finding."""
    ran = run_here("doctor", "--url", replace(database, user="nobody", password="x").url, "--format", "json")
    assert ran.code == 69


def test_columns_out_of_sight_are_not_taken_for_missing(queue: Database, tmp_path: Path) -> None:
    """Where some columns may not be read, nothing about the table passes as not applicable, and the GRANT helps."""
    config = ("--config", str(write_config(tmp_path, "[queues.jobs]\n")))
    of_the_table = {check.id for check in CHECKS if "storage-engine" in (check.id, *check.after)} - {"privileges"}
    seen = "id, status, priority"
    with account(
        queue, f"SELECT ({seen}), UPDATE (status) ON {{db}}.jobs", f"{ALL_FOUR} ON {{db}}.qops_runs"
    ) as limited:
        result = {check["id"]: check for check in examine(limited, *config)["checks"]}
        assert {id_ for id_ in of_the_table if result[id_]["status"] == "pass"} == set()
        assert {result[id_]["remedy"].partition(" TO ")[0] for id_ in of_the_table} == {
            f"GRANT SELECT ON `{queue.name}`.`jobs`"
        }
        assert "requeue" in reported(result["privileges"])
        assert run_here("requeue", "--expired", "--url", limited.url, *config).code == PRIVILEGE_MISSING
        queue.execute(result["clock"]["remedy"].removesuffix(";"))
        after = {check["id"]: check for check in examine(limited, *config)["checks"]}
        left = {id_ for id_ in of_the_table if after[id_]["status"] == "unknown"}
        assert left >= {"archive-drift", "auto-increment", "foreign-keys", "triggers"}
        of_jobs = f"GRANT SELECT ON `{queue.name}`.`jobs` TO "
        assert not [id_ for id_ in left if (after[id_]["remedy"] or "").startswith(of_jobs)]


def test_an_archive_out_of_sight_is_not_taken_for_missing(queue: Database) -> None:
    """Who may use the table alone cannot tell whether there is an archive: the drift is unknown, with both GRANTs."""
    with account(queue, f"{ALL_FOUR} ON {{db}}.jobs") as limited:
        (drift,) = examine(limited, "--only", "archive-drift")["checks"]
        assert drift["status"] == "unknown"
        grants = drift["remedy"].splitlines()
        assert [line.partition(" TO ")[0] for line in grants] == [
            f"GRANT SELECT ON `{queue.name}`.`{name}`" for name in ("jobs_archive", "qops_runs")
        ]
        for line in grants:
            queue.execute(line.removesuffix(";"))
        assert examine(limited, "--only", "archive-drift")["verdict"] == "ok"
