"""The thresholds of doctor: each can be set, is held to its range, and decides when its check finds something."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

import pytest

from qops.doctor.audit import BY_ID, audit, limits
from qops.doctor.limits import LIMITS, Limits
from qops.doctor.row_facts import Finished, Increment, Overdue, Sample
from qops.errors import Misconfigured
from qops.settings import Flags, load
from tests.conftest import Database, run_here
from tests.queues import fill, init, write_config
from tests.test_doctor import HEALTHY, HEALTHY_ROWS

if TYPE_CHECKING:
    from pathlib import Path

    from qops.doctor.facts import Facts
    from qops.doctor.model import Result


def read(folder: Path, text: str) -> Limits:
    return limits(load(Flags(config=str(write_config(folder, f"[doctor]\n{text}\n"))), {}))


def result(facts: Facts, id_: str) -> Result:
    (only,) = [one for one in audit(facts, [id_]).results if one.id == id_]
    return only


def test_every_threshold_has_a_default_in_its_range_and_a_check() -> None:
    """No threshold is without its key, its range and a check that it is for."""
    assert [*LIMITS] == [field.name for field in fields(Limits)]
    assert len({limit.key for limit in LIMITS.values()}) == len(LIMITS)
    for name, limit in LIMITS.items():
        assert limit.least <= getattr(Limits(), name) <= limit.most
        assert limit.checks
        assert set(limit.checks) <= set(BY_ID)


@pytest.mark.parametrize("name", LIMITS)
def test_a_threshold_can_be_set_from_end_to_end(tmp_path: Path, name: str) -> None:
    """What is written for a limit, its default and both ends of its range, is what is read; beyond it is refused."""
    limit = LIMITS[name]
    for value in (limit.least, limit.most, getattr(Limits(), name)):
        assert getattr(read(tmp_path, f"{limit.key} = {limit.written(value)}"), name) == value
    beyond = limit.written(limit.most * 2 + 1)
    with pytest.raises(Misconfigured, match=limit.key):
        read(tmp_path, f"{limit.key} = {beyond}")


def test_an_unknown_threshold_names_the_nearest(tmp_path: Path) -> None:
    """A misspelt key is refused with the one that was meant."""
    with pytest.raises(Misconfigured, match="did you mean 'delayed_pending'"):
        read(tmp_path, "delayed_pendings = 5")


@pytest.mark.parametrize(
    ("id_", "changed", "limit"),
    [
        ("finished-rows", {"finished": Finished("done", 500, 1000, 1, "qops archive")}, {"finished_rows": 500}),
        (
            "auto-increment",
            {"increment": Increment("int", 2**30, 2**31 - 1, None, widen=("ALTER",))},
            {"ids_used": 0.5},
        ),
    ],
)
def test_a_threshold_decides(id_: str, changed: dict[str, Any], limit: dict[str, Any]) -> None:
    """What is no finding by default is one where the configuration says so."""
    facts = replace(HEALTHY, rows=replace(HEALTHY_ROWS, **changed))
    assert result(facts, id_).status == "pass"
    assert result(replace(facts, limits=Limits(**limit)), id_).status == "warning"


def test_the_lock_wait_timeout_is_held_against_the_limit() -> None:
    """A timeout above the one that is configured is a finding, whose remedy sets that one."""
    assert isinstance(HEALTHY.variables, dict)
    facts = replace(HEALTHY, variables=HEALTHY.variables | {"innodb_lock_wait_timeout": "20"})
    assert result(facts, "lock-wait-timeout").status == "pass"
    found = result(replace(facts, limits=Limits(lock_wait_seconds=5)), "lock-wait-timeout")
    assert (found.status, found.remedy) == ("warning", "SET PERSIST innodb_lock_wait_timeout = 5;")


def test_the_expectation_names_the_limit() -> None:
    """Who set a limit reads it in what is expected."""
    expired = Overdue(Sample(1, 1, ids=("1",)), 5, "qops requeue --expired")
    facts = replace(HEALTHY, limits=Limits(grace_seconds=5), rows=replace(HEALTHY_ROWS, expired=expired))
    assert result(facts, "expired-leases").expected == "no running job whose lease passed 5 s ago or longer"


def test_the_grace_decides_on_a_real_queue(database: Database, tmp_path: Path) -> None:
    """A lease that passed half an hour ago is a finding after the default minute, and none after an hour."""
    init(database)
    fill(database, 1, status="'running'", attempts="1", lease_until="NOW(6) - INTERVAL 30 MINUTE")
    for grace, expected in (("1m", "warning"), ("1h", "pass")):
        config = write_config(tmp_path, f'[doctor]\ngrace = "{grace}"\n')
        line = ("doctor", "--only", "expired-leases", "--config", str(config), "--url", database.url)
        assert run_here(*line, "--format", "json").json["checks"][0]["status"] == expected
