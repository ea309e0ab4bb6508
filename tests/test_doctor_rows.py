"""What doctor finds in the queue's rows and in what hangs on its tables: each broken, found alone, and cured."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest

from qops.children import Child, Children
from qops.db import quote_name
from qops.doctor.facts import Unknown
from qops.doctor.row_facts import (
    Attempts,
    ChildFacts,
    Delayed,
    Finished,
    Increment,
    LinkFacts,
    Overdue,
    RowFacts,
    Sample,
    TriggerFacts,
)
from qops.triggers import Trigger
from qops.worker import open_worker
from tests.accounts import account
from tests.conftest import Database, fresh_database, run_here
from tests.queues import ARTICLE, ARTICLE_TOML, fill, init, write_config
from tests.test_doctor import HEALTHY, HEALTHY_LINKS, HEALTHY_ROWS, cure, examine, findings, of, result

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from qops.doctor.facts import Facts

COPY_TRIGGER = "CREATE TRIGGER keep BEFORE DELETE ON jobs FOR EACH ROW INSERT INTO jobs_archive (id) VALUES (OLD.id)"
AUDIT_TRIGGER = "CREATE TRIGGER note BEFORE UPDATE ON jobs FOR EACH ROW SET NEW.last_error = 'x'"
ARCHIVE_TRIGGER = "CREATE TRIGGER change_it BEFORE INSERT ON jobs_archive FOR EACH ROW SET NEW.last_error = 'x'"
ROLES = (
    "id",
    "status",
    "priority",
    "payload",
    "claimed_by",
    "lease_until",
    "available_at",
    "attempts",
    "max_attempts",
    "last_error",
    "created_at",
    "finished_at",
)
CHILD = "CREATE TABLE child (id INT PRIMARY KEY, job BIGINT UNSIGNED, CONSTRAINT of_job FOREIGN KEY (job) REFERENCES "


@pytest.fixture
def queue(own_server: Any) -> Iterator[Database]:
    with fresh_database(own_server) as database:
        init(database)
        yield database


def find_and_cure(queue: Database, id_: str, status: str, *options: str) -> dict[str, Any]:
    """See exactly one finding, run its remedy, see none; return the finding."""
    document = examine(queue, *options)
    assert findings(document) == {id_: status}
    cure(queue, document, id_, *options)
    assert findings(examine(queue, *options)) == {}
    return of(document, id_)


def test_workers_at_work_are_no_finding(queue: Database) -> None:
    """Claims, retries, delays and finished jobs of the Worker class give no finding, nor do an application's reads."""
    fill(queue, 50)
    fill(queue, 20, status="'scheduled'", available_at="NOW(6) + INTERVAL 1 HOUR")
    with open_worker("one", url=queue.url, lease_seconds=30) as worker:
        jobs = worker.claim_batch(8)
        worker.complete(jobs[0])
        worker.complete(jobs[1], archive=True)
        worker.fail(jobs[2], "once more", backoff_seconds=600)
        worker.fail(jobs[3], "never", retry=False)
        assert findings(examine(queue)) == {}


@pytest.mark.breaks("foreign-keys")
@pytest.mark.parametrize(("action", "word"), [("CASCADE", "CASCADE"), ("SET NULL", "SET NULL")])
@pytest.mark.parametrize("parent", ["jobs", "jobs_archive"])
def test_a_child_whose_rows_change_is_found_and_made_to_restrict(
    queue: Database, *, parent: str, action: str, word: str
) -> None:
    """A foreign key that reaches other rows is a warning; its remedy makes it restrict and keeps ON UPDATE."""
    queue.execute(f"{CHILD}{parent} (id) ON DELETE {action} ON UPDATE CASCADE)")
    found = find_and_cure(queue, "foreign-keys", "warning")
    assert f"{queue.name}/child" in found["observed"]
    assert word in found["observed"]
    rules = (
        "SELECT delete_rule, update_rule FROM information_schema.referential_constraints WHERE constraint_schema = %s"
    )
    assert queue.rows(rules, (queue.name,)) == [("RESTRICT", "CASCADE")]


def test_a_restricting_child_is_told_and_passes(queue: Database) -> None:
    """A foreign key that restricts is named and is no finding."""
    queue.execute(f"{CHILD}jobs (id))")
    document = examine(queue)
    assert findings(document) == {}
    assert f"{queue.name}/child (constraint {queue.name}/of_job, ON DELETE RESTRICT)" in str(
        of(document, "foreign-keys")["observed"]
    )


def test_children_that_cannot_be_seen_are_unknown(queue: Database) -> None:
    """Without PROCESS a child may be out of sight: unknown, and with the GRANT it is seen."""
    queue.execute(f"{CHILD}jobs (id) ON DELETE CASCADE)")
    with account(
        queue, "SELECT, INSERT, UPDATE, DELETE, TRIGGER ON {db}.jobs", "SELECT ON {db}.jobs_archive"
    ) as limited:
        check = of(examine(limited, "--only", "foreign-keys"), "foreign-keys")
        assert check["status"] == "unknown"
        queue.execute(check["remedy"].removesuffix(";"))
        assert findings(examine(limited, "--only", "foreign-keys")) == {"foreign-keys": "warning"}


def test_a_child_whose_columns_are_out_of_sight_is_found(queue: Database) -> None:
    """With PROCESS alone a child is named whose columns are not seen; then the remedy is words and runs nothing."""
    queue.execute(f"{CHILD}jobs (id) ON DELETE CASCADE)")
    with account(queue, "SELECT ON {db}.jobs", "PROCESS ON *.*") as limited:
        check = of(examine(limited, "--only", "foreign-keys"), "foreign-keys")
        assert check["status"] == "warning"
        assert f"{queue.name}/child" in check["observed"]
        assert all(line.startswith("-- ") for line in check["remedy"].splitlines())


@pytest.mark.breaks("triggers")
@pytest.mark.parametrize(
    ("trigger", "status"),
    [(COPY_TRIGGER, "critical"), (AUDIT_TRIGGER, "warning"), (ARCHIVE_TRIGGER, "warning")],
    ids=["fills the archive", "changes jobs", "changes copies"],
)
def test_a_trigger_is_found_and_dropped(queue: Database, trigger: str, status: str) -> None:
    """A trigger on either table is a finding, critical where it fills the archive as the copy does."""
    queue.execute(trigger)
    found = find_and_cure(queue, "triggers", status)
    assert f"trigger `{trigger.split()[2]}`" in found["observed"]


def test_the_trigger_that_is_to_fill_the_archive_passes(queue: Database, tmp_path: Path) -> None:
    """With archive_by = "trigger" a DELETE trigger is expected, and its absence is critical."""
    config = str(write_config(tmp_path, '[queues.jobs]\narchive_by = "trigger"\n'))
    document = examine(queue, "--config", config)
    assert findings(document) == {"triggers": "critical"}
    assert of(document, "triggers")["remedy"].startswith("-- ")
    queue.execute(COPY_TRIGGER)
    assert findings(examine(queue, "--config", config)) == {}


def test_triggers_that_cannot_be_seen_are_unknown(queue: Database) -> None:
    """Without TRIGGER on both tables the answer is unknown, and each GRANT lets its table's triggers be seen."""
    queue.execute(ARCHIVE_TRIGGER)
    with account(queue, "SELECT, INSERT, UPDATE, DELETE ON {db}.*", "TRIGGER ON {db}.jobs") as limited:
        check = of(examine(limited, "--only", "triggers"), "triggers")
        assert check["status"] == "unknown"
        (line,) = check["remedy"].splitlines()
        queue.execute(line.removesuffix(";"))
        assert findings(examine(limited, "--only", "triggers")) == {"triggers": "warning"}


@pytest.mark.breaks("expired-leases")
def test_expired_leases_are_found_and_put_back(queue: Database) -> None:
    """Running jobs whose lease passed a minute ago are a warning that names them; those of a moment ago are not."""
    fill(queue, 3, status="'running'", claimed_by="'w'", attempts="1", lease_until="NOW(6) - INTERVAL 10 SECOND")
    assert findings(examine(queue)) == {}
    fill(queue, 3, status="'running'", claimed_by="'w'", attempts="1", lease_until="NOW(6) - INTERVAL 2 MINUTE")
    first = queue.value("SELECT MIN(id) FROM jobs WHERE lease_until < NOW(6) - INTERVAL 1 MINUTE")
    found = find_and_cure(queue, "expired-leases", "warning")
    assert found["remedy"] == "qops requeue --expired"
    assert f"3 (id {first}, {first + 1}, {first + 2})" in found["observed"]


@pytest.mark.breaks("scheduled-promotion")
def test_scheduled_jobs_that_nobody_promotes_are_found_and_promoted(queue: Database) -> None:
    """Scheduled jobs that have been due for a minute are a warning; later ones and those due a moment ago are not."""
    fill(queue, 3, status="'scheduled'", available_at="NOW(6) + INTERVAL (n - 2) * 30 SECOND")
    assert findings(examine(queue)) == {}
    fill(queue, 7, status="'scheduled'", available_at="NOW(6) - INTERVAL 2 MINUTE")
    found = find_and_cure(queue, "scheduled-promotion", "warning")
    assert found["remedy"] == "qops promote"
    assert found["observed"].startswith("7 (id ")


def test_a_pause_is_told_where_it_is_the_cause(queue: Database) -> None:
    """While the queue is paused the finding says so, and the remedy ends the pause first."""
    assert run_here("pause", "--reason", "moving house", "--url", queue.url, "--quiet").code == 0
    fill(queue, 1, status="'scheduled'", available_at="NOW(6) - INTERVAL 2 MINUTE")
    found = find_and_cure(queue, "scheduled-promotion", "warning")
    assert "moving house" in found["observed"]
    assert found["remedy"].splitlines() == ["qops resume", "qops promote"]


@pytest.mark.breaks("delayed-pending")
def test_delayed_jobs_in_the_claims_way_are_found_and_scheduled(queue: Database) -> None:
    """A hundred pending jobs for later are a warning where they come first in the claim, and not behind ready ones."""
    fill(queue, 300, priority="0", available_at="NOW(6) + INTERVAL 1 DAY")
    fill(queue, 1000, priority="5")
    assert findings(examine(queue)) == {}
    queue.execute("UPDATE jobs SET priority = 9 WHERE priority = 0")
    found = find_and_cure(queue, "delayed-pending", "warning")
    assert found["observed"].startswith("300 of the first 1000")
    assert queue.value("SELECT COUNT(*) FROM jobs WHERE status = 'scheduled'") == 300


def test_delayed_jobs_do_no_harm_where_claims_go_by_time(own_server: Any, tmp_path: Path) -> None:
    """In a queue that claims by available_at, jobs for later are behind all that are ready."""
    config = str(write_config(tmp_path, ARTICLE_TOML))
    with fresh_database(own_server) as database:
        database.execute(ARTICLE)
        values = ", ".join(f"({n}, '{{}}', 'ready', UTC_TIMESTAMP() + INTERVAL 1 DAY, 0)" for n in range(500))
        database.execute(f"INSERT INTO job_queue (id, payload, status, available_at, attempts) VALUES {values}")
        document = examine(database, "--config", config)
        assert of(document, "delayed-pending")["status"] == "pass"


@pytest.mark.breaks("finished-rows")
def test_finished_jobs_that_outweigh_live_ones_are_found_and_archived(queue: Database, tmp_path: Path) -> None:
    """Ten thousand finished jobs, more than live ones, are a warning; not those that are to stay for a while."""
    fill(queue, 10_000, status="'done'", finished_at="NOW(6) - INTERVAL 1 HOUR")
    (tmp_path / "kept").mkdir()
    kept = str(write_config(tmp_path / "kept", '[archive]\nolder_than = "7d"\n'))
    assert findings(examine(queue, "--config", kept)) == {}
    fill(queue, 10_000)
    assert findings(examine(queue)) == {}
    queue.execute("DELETE FROM jobs WHERE status = 'pending' LIMIT 1")
    found = find_and_cure(queue, "finished-rows", "warning")
    assert found["remedy"] == "qops archive"
    assert "10000 are done, and 9999" in found["observed"]


@pytest.mark.breaks("auto-increment")
def test_ids_that_the_archive_holds_are_found_and_passed_over(queue: Database) -> None:
    """A next id that is not above the archive's highest is critical, and the ALTER ends that."""
    fill(queue, 1, id="500", status="'done'", finished_at="NOW(6)")
    queue.execute("INSERT INTO jobs_archive SELECT * FROM jobs")
    queue.execute("DELETE FROM jobs")
    assert findings(examine(queue)) == {}
    queue.execute("ALTER TABLE jobs AUTO_INCREMENT = 1")
    found = find_and_cure(queue, "auto-increment", "critical")
    assert "the archive's highest is 500" in found["observed"]
    fill(queue, 1)
    assert queue.value("SELECT MAX(id) FROM jobs") == 501


@pytest.mark.breaks("auto-increment")
@pytest.mark.parametrize(
    ("kind", "highest", "status"),
    [
        ("INT UNSIGNED", 4_000_000_000, "warning"),
        ("INT", 2_100_000_000, "critical"),
        ("MEDIUMINT", 8_000_000, "critical"),
    ],
)
def test_ids_that_run_out_are_found_and_given_room(queue: Database, kind: str, highest: int, status: str) -> None:
    """Near the end of the id's type there is a finding, and the ALTERs widen both tables alike."""
    queue.execute(f"ALTER TABLE jobs MODIFY id {kind} NOT NULL AUTO_INCREMENT, AUTO_INCREMENT = {highest}")
    queue.execute(f"ALTER TABLE jobs_archive MODIFY id {kind} NOT NULL")
    find_and_cure(queue, "auto-increment", status)


def test_an_archive_that_cannot_be_read_leaves_ids_unknown(queue: Database) -> None:
    """Without SELECT on the archive its highest id is unknown, and the GRANT makes it known."""
    with account(queue, "SELECT ON {db}.jobs") as limited:
        check = of(examine(limited, "--only", "auto-increment"), "auto-increment")
        assert check["status"] == "unknown"
        queue.execute(check["remedy"].removesuffix(";"))
        assert findings(examine(limited, "--only", "auto-increment")) == {}


@pytest.mark.breaks("attempts-counted")
def test_attempts_that_nobody_counts_are_found(queue: Database, tmp_path: Path) -> None:
    """Running jobs with attempts 0 are a warning, unless attempts are counted when jobs are put back."""
    fill(queue, 2, status="'running'", claimed_by="'w'", lease_until="NOW(6) + INTERVAL 1 HOUR")
    document = examine(queue)
    assert findings(document) == {"attempts-counted": "warning"}
    remedy = of(document, "attempts-counted")["remedy"]
    assert all(line.startswith("-- ") for line in remedy.splitlines())
    section, _, setting = remedy.splitlines()[-1].rpartition(": ")[2].partition(" ")
    config = write_config(tmp_path, f"{section}\n{setting}\n")
    assert findings(examine(queue, "--config", str(config))) == {}


@pytest.mark.breaks("attempts-counted")
def test_pending_jobs_with_their_attempts_used_up_are_found_and_failed(queue: Database) -> None:
    """A pending job at its limit is a warning, and the remedy makes exactly those jobs failed, with a reason."""
    fill(queue, 2, attempts="0", max_attempts="0")  # never tried
    assert findings(examine(queue)) == {}
    fill(queue, 3, attempts="n", max_attempts="3")
    found = find_and_cure(queue, "attempts-counted", "warning")
    assert "1 (id " in found["observed"]
    assert queue.rows("SELECT attempts, last_error, finished_at IS NULL FROM jobs WHERE status = 'failed'") == [
        (3, "the attempts are used up", 0)
    ]


def test_no_more_than_a_bound_is_read(queue: Database) -> None:
    """Of 5,000 jobs in each state a sample is read: the audit's statements examine a bounded number of rows."""
    fill(queue, 5000, available_at="NOW(6) + INTERVAL 1 DAY")
    fill(queue, 5000, status="'running'", claimed_by="'w'", lease_until="NOW(6) - INTERVAL 1 DAY")
    fill(queue, 5000, status="'scheduled'", available_at="NOW(6) - INTERVAL 1 DAY")
    queue.execute("TRUNCATE performance_schema.events_statements_summary_by_digest")
    ids = ("expired-leases", "scheduled-promotion", "delayed-pending", "attempts-counted")
    document = examine(queue, *(word for id_ in ids for word in ("--only", id_)))
    assert findings(document) == dict.fromkeys(ids, "warning")
    assert of(document, "expired-leases")["observed"].startswith("at least 1000 (id ")
    rows = queue.rows(
        "SELECT digest_text, sum_rows_examined / count_star "
        "FROM performance_schema.events_statements_summary_by_digest "
        "WHERE schema_name = %s AND digest_text LIKE '%%`hit`%%'",
        (queue.name,),
    )
    assert rows
    assert max(examined for _, examined in rows) <= 3_100  # the bound, the derived table, and its reading


# Each check with literals: no server


def linked(**parts: Any) -> Facts:
    return replace(HEALTHY, links=replace(HEALTHY_LINKS, **parts))


def rows(**parts: Any) -> Facts:
    return replace(HEALTHY, rows=replace(HEALTHY_ROWS, **parts))


CASCADE = Child("app/of_job", "app/child", cascades=True, sets_null=False)
RESTRICT = replace(CASCADE, cascades=False)
DELETING = Trigger("keep", "jobs", "BEFORE", "DELETE", "INSERT INTO jobs_archive VALUES (1)")
TWO = Sample(2, 2, bounded=False, ids=("4", "7"))
INT = Increment("int", 10, 2**31 - 1, None, "", ("ALTER TABLE a;",))


@pytest.mark.literal
@pytest.mark.parametrize(
    ("id_", "facts", "status", "remedy"),
    [
        ("foreign-keys", linked(children=ChildFacts(Children((CASCADE,), complete=False))), "warning", "--"),
        ("foreign-keys", linked(children=ChildFacts(Children((RESTRICT,), complete=True))), "pass", None),
        (
            "foreign-keys",
            linked(children=ChildFacts(Children((RESTRICT,), complete=False), (), "GRANT")),
            "unknown",
            "GR",
        ),
        ("triggers", linked(triggers=TriggerFacts(((DELETING, "DROP"),), (DELETING,), ("fills",))), "critical", "DROP"),
        ("triggers", linked(triggers=TriggerFacts(((DELETING, "DROP;"),))), "warning", "--"),
        (
            "triggers",
            linked(triggers=TriggerFacts(((DELETING, "DROP;"),), (DELETING,), archive_by="trigger")),
            "pass",
            None,
        ),
        ("triggers", linked(triggers=TriggerFacts(refusals=("no trigger",), archive_by="trigger")), "critical", "--"),
        ("triggers", linked(triggers=TriggerFacts(hidden=(("jobs", "GRANT TRIGGER;"),))), "unknown", "GRANT"),
        ("expired-leases", rows(expired=Overdue(TWO, 60, "qops requeue")), "warning", "qops requeue"),
        ("expired-leases", rows(expired=None), "pass", None),
        ("scheduled-promotion", rows(due=Overdue(TWO, 60, "qops promote")), "warning", "qops promote"),
        ("scheduled-promotion", rows(due=None), "pass", None),
        ("delayed-pending", rows(delayed=Delayed(Sample(99, 1000, bounded=True), "UPDATE")), "pass", None),
        ("delayed-pending", rows(delayed=Delayed(Sample(100, 100, bounded=False), "UPDATE")), "warning", "UPDATE"),
        ("delayed-pending", rows(delayed=None), "pass", None),
        ("finished-rows", rows(finished=Finished("done", 9_999, 100_000, 0, "qops archive")), "pass", None),
        ("finished-rows", rows(finished=Finished("done", 20_000, 100_000, 20_000, "qops archive")), "pass", None),
        ("finished-rows", rows(finished=Finished("done", 20_000, 100_000, 5, "qops archive")), "warning", "qops"),
        ("finished-rows", rows(finished=Finished("done", 100_000, 100_000, None, "qops archive")), "warning", "qops"),
        ("auto-increment", rows(increment=replace(INT, archived=10, raise_="ALTER …;")), "critical", "ALTER"),
        ("auto-increment", rows(increment=replace(INT, archived=9)), "pass", None),
        ("auto-increment", rows(increment=replace(INT, next_id=1_800_000_000)), "warning", "--"),
        ("auto-increment", rows(increment=replace(INT, next_id=2**31 - 1)), "critical", "--"),
        ("auto-increment", rows(increment=replace(INT, next_id=2**31 - 1, widen=())), "critical", "--"),
        ("auto-increment", rows(increment=None), "pass", None),
        ("auto-increment", rows(increment=Unknown("denied", "GRANT SELECT;")), "unknown", "GRANT"),
        ("attempts-counted", rows(attempts=Attempts(TWO, Sample(), "", "[queues.jobs]")), "warning", "--"),
        ("attempts-counted", rows(attempts=Attempts(None, TWO, "UPDATE", "[queues.jobs]")), "warning", "UPDATE"),
        ("attempts-counted", rows(attempts=None), "pass", None),
    ],
)
def test_a_check_judges_literal_facts(id_: str, facts: Facts, status: str, remedy: str | None) -> None:
    """From the facts alone follow the status and the kind of remedy."""
    found = result(facts, id_)
    assert found.status == status
    assert found.observed
    assert found.remedy is None if remedy is None else found.remedy.startswith(remedy)


def test_a_queue_without_these_things_passes() -> None:
    """Where the queue has no leases, delays, numbers or attempts nothing is found."""
    bare = replace(HEALTHY, rows=RowFacts())
    ids = ("expired-leases", "scheduled-promotion", "delayed-pending", "finished-rows", "auto-increment")
    assert {result(bare, id_).status for id_ in (*ids, "attempts-counted")} == {"pass"}
    assert isinstance(bare.links, LinkFacts)


def test_promotion_is_of_this_queue(queue: Database) -> None:
    """Where several queues are configured the remedy names the one that was examined."""
    text = '[queues.jobs]\n[queues.other]\ntable = "other"\n'
    with open("qops.toml", "w", encoding="utf-8") as file:  # noqa: PTH123 - the working folder is the test's
        file.write(text)
    fill(queue, 1, status="'scheduled'", available_at="NOW(6) - INTERVAL 2 MINUTE")
    document = examine(queue, "--queue", "jobs")
    assert of(document, "scheduled-promotion")["remedy"] == "qops promote --queue jobs"
    assert run_here("promote", "--queue", "jobs", "--url", queue.url, "--quiet").code == 0


@pytest.mark.parametrize(("schema", "table"), [("jobs-prod", "my jobs"), ("q%d`s", "a.b%s`:x"), ("select", "order")])
def test_names_that_need_quoting(own_server: Any, tmp_path: Path, schema: str, table: str) -> None:
    """Names with spaces, quotes, percent signs, colons and reserved words go through the checks and their remedies."""
    odd = {role: f"{role[:3]} %s:x`'{table[:2]}" for role in ROLES}
    columns = "".join(f'{role} = "{name}"\n' for role, name in odd.items())
    text = f'[queues.odd]\ntable = "{table}"\n[queues.odd.columns]\n{columns}'
    config = str(write_config(tmp_path, text))
    name, archive = (quote_name(one) for one in (table, f"{table}_archive"))
    column = {role: quote_name(name) for role, name in odd.items()}
    with fresh_database(own_server, name=schema) as database:
        quoted = replace(database, name=quote(schema, safe=""))
        init(quoted, "--config", config)
        assert findings(examine(quoted, "--config", config)) == {}
        now = "NOW(6)"
        for kind in ("DELETE", "UPDATE"):
            database.execute(f"CREATE TRIGGER `odd``{kind}` BEFORE {kind} ON {name} FOR EACH ROW SET @a = 1")
        for number, action in enumerate(("ON DELETE CASCADE", "ON UPDATE SET NULL ON DELETE SET NULL")):
            child = (
                f"{quote_name(f'a `child {number}')} (`it's` BIGINT UNSIGNED, CONSTRAINT {quote_name(f'c`%s{number}')}"
            )
            parent = (name, archive)[number]
            database.execute(
                f"CREATE TABLE {child} FOREIGN KEY (`it's`) REFERENCES {parent} ({column['id']}) {action})"
            )
        fields = ", ".join(
            column[role] for role in ("id", "status", "attempts", "payload", "available_at", "lease_until")
        )

        def insert(*values: str) -> None:
            rows = ", ".join(f"({one})" for one in values)
            database.execute(f"INSERT INTO {name} ({fields}) VALUES {rows}")

        insert(f"NULL, 'pending', 5, '{{}}', {now}, NULL")
        insert(f"NULL, 'running', 0, '{{}}', {now}, {now} - INTERVAL 1 DAY")
        insert(f"NULL, 'scheduled', 0, '{{}}', {now} - INTERVAL 1 DAY, NULL")
        insert(*[f"NULL, 'pending', 0, '{{}}', {now} + INTERVAL 1 DAY, NULL"] * 150)
        insert(f"900, 'done', 1, '{{}}', {now}, NULL")
        database.execute(f"INSERT INTO {archive} SELECT * FROM {name} WHERE {column['id']} = 900")
        database.execute(f"DELETE FROM {name} WHERE {column['id']} = 900")
        database.execute(f"ALTER TABLE {name} AUTO_INCREMENT = 1")
        document = examine(quoted, "--config", config)
        ids = (
            "foreign-keys",
            "triggers",
            "expired-leases",
            "scheduled-promotion",
            "delayed-pending",
            "attempts-counted",
        )
        assert findings(document) == {"auto-increment": "critical", **dict.fromkeys(ids, "warning")}
        for id_ in (*ids, "auto-increment"):
            cure(quoted, document, id_, "--config", config)
        assert findings(examine(quoted, "--config", config)) == {}
        database.execute("DROP TABLE `a ``child 0`, `a ``child 1`")  # whose columns would have to follow
        small = "INT NOT NULL"
        database.execute(f"ALTER TABLE {archive} MODIFY {quote_name(odd['id'])} {small}")
        database.execute(
            f"ALTER TABLE {name} MODIFY {quote_name(odd['id'])} {small} AUTO_INCREMENT, AUTO_INCREMENT = 2100000000"
        )
        for change, id_, status in (
            (None, "auto-increment", "critical"),
            (f"DROP INDEX claim_idx ON {name}", "claim-index", "critical"),
            (f"DROP INDEX lease_idx ON {name}", "lease-index", "warning"),
            (f"DROP INDEX finished_idx ON {name}", "archive-index", "warning"),
            (f"ALTER TABLE {archive} DROP COLUMN {quote_name(odd['last_error'])}", "archive-drift", "warning"),
            (f"ALTER TABLE {archive} ENGINE = MyISAM", "archive-drift", "warning"),
        ):
            if change:
                database.execute(change)
            document = examine(quoted, "--config", config)
            found = {one: is_ for one, is_ in findings(document).items() if is_ != "skipped"}
            assert found == {id_: status}
            cure(quoted, document, id_, "--config", config)
            assert findings(examine(quoted, "--config", config)) == {}
