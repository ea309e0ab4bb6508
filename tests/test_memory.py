"""However large the jobs, the rows stay in the server: qops needs the memory of their ids."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from dev.server import private_server
from tests.conftest import Database, fresh_database
from tests.measure import run_measured
from tests.queues import fill, init

if TYPE_CHECKING:
    from collections.abc import Iterator

ROWS = int(os.environ.get("QOPS_TEST_LARGE_ROWS", "120"))
PAYLOAD_BYTES = 700_000
MOST_BYTES = 100_000_000
FINGERPRINTS = "SELECT id, SHA2(payload, 256), LENGTH(payload) FROM {} ORDER BY id"


@pytest.fixture
def narrow() -> Iterator[Database]:
    """Give a queue on a server that takes packets of 1 MB at most."""
    with private_server(options=["--max-allowed-packet=1M"]) as server, fresh_database(server) as database:
        init(database)
        yield database


@pytest.mark.parametrize("doubles", [False, True])
def test_large_payloads_need_little_memory(narrow: Database, doubles: bool) -> None:  # noqa: FBT001 - a parameter
    """Jobs of 700 KB in one batch under max_allowed_packet=1M: all are moved, unchanged, in less than 100 MB.

    With `doubles`, a third of them is in the archive already and one of these is different: the server compares them.
    """
    fill(
        narrow,
        ROWS,
        status="'done'",
        finished_at="NOW(6)",
        payload=f"JSON_OBJECT('n', n, 'text', REPEAT(CHAR(97 + n % 26), {PAYLOAD_BYTES}))",
    )
    before = narrow.rows(FINGERPRINTS.format("jobs"))
    if doubles:
        narrow.execute("INSERT INTO jobs_archive SELECT * FROM jobs WHERE id % 3 = 0")
        narrow.execute("UPDATE jobs_archive SET payload = JSON_SET(payload, '$.n', -1) WHERE id = 3")
    ran, peak = run_measured("archive", "--batch", "1000", "--format", "json", url=narrow.url)
    print(f"{ROWS} rows, {peak / 1e6:.1f} MB at most, {ran.json['elapsed_seconds']} s")  # noqa: T201 - the number of interest
    there = ROWS // 3 if doubles else 0
    counted = (ran.json["archived"], ran.json["reconciled"], [row["id"] for row in ran.json["refused"]])
    assert counted == (ROWS - there, max(0, there - 1), [3] if doubles else []), ran.err
    assert ran.json["batches"] == 1
    assert peak < MOST_BYTES
    after = {id_: (id_, *rest) for id_, *rest in narrow.rows(FINGERPRINTS.format("jobs_archive"))}
    after |= {id_: (id_, *rest) for id_, *rest in narrow.rows(FINGERPRINTS.format("jobs"))}
    assert [after[id_] for id_ in sorted(after)] == before
