"""Flags beat the environment, which beats qops.toml; whatever is wrong in the file is an error with a name."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qops.errors import Misconfigured
from qops.queue_settings import QueueSettings
from qops.settings import Flags, Settings, duration, load
from tests.queues import ARTICLE_TOML, GUIDE_TOML, RECIPE_TOML, write_config

if TYPE_CHECKING:
    from pathlib import Path


def refused(text: str, folder: Path, flags: Flags | None = None) -> str:
    """Return why a qops.toml is refused."""
    write_config(folder, text)
    with pytest.raises(Misconfigured) as caught:
        load(flags or Flags(), {})
    assert caught.value.exit_code == 78
    return str(caught.value)


def queue_of(text: str, folder: Path, name: str | None = None) -> QueueSettings:
    write_config(folder, text)
    return load(Flags(queue=name), {}).queue


def host_of(settings: Settings) -> str | None:
    assert settings.database.address is not None
    return settings.database.address.host


# Precedence


@pytest.mark.parametrize(
    ("flag", "variable", "file", "expected"),
    [
        ("flag", "env", "file", "flag"),
        (None, "env", "file", "env"),
        (None, None, "file", "file"),
        ("flag", None, "file", "flag"),
        ("flag", "env", None, "flag"),
        (None, "", "file", "file"),
    ],
)
def test_each_database_setting_by_itself(
    tmp_path: Path, flag: str | None, variable: str | None, file: str | None, expected: str
) -> None:
    """URL, option file and group: the flag beats the environment, which beats the file; empty means unset."""
    for name in ("flag", "env", "file"):
        (tmp_path / name).write_text("[client]\n", encoding="utf-8")
    lines = [f'url = "mysql://{file}/"', f'defaults_file = "{file}"', f'defaults_group = "{file}"'] if file else []
    write_config(tmp_path, "\n".join(["[database]", *lines]))
    names = ("QOPS_URL", "QOPS_DEFAULTS_FILE", "QOPS_DEFAULTS_GROUP")
    values = (f"mysql://{variable}/" if variable else variable, variable, variable)
    environment = {name: value for name, value in zip(names, values, strict=True) if value is not None}
    url = f"mysql://{flag}/" if flag else None
    settings = load(Flags(url=url, defaults_file=flag, defaults_group=flag), environment)
    assert host_of(settings) == expected
    assert settings.database.option_file == tmp_path / expected
    assert settings.database.option_group == expected
    assert not settings.database.url_yields


def test_settings_of_different_levels_are_combined(tmp_path: Path) -> None:
    """What one level leaves out comes from the next, setting by setting."""
    (tmp_path / "my.cnf").write_text("[client]\n", encoding="utf-8")
    write_config(tmp_path, '[database]\nurl = "mysql://file/"\ndefaults_group = "file"\n')
    settings = load(Flags(defaults_group="flag"), {"QOPS_DEFAULTS_FILE": "my.cnf"})
    assert host_of(settings) == "file"
    assert settings.database.option_file == tmp_path / "my.cnf"
    assert settings.database.option_group == "flag"
    assert settings.database.url_yields  # the option file was asked for more closely: it says who and where


@pytest.mark.parametrize(
    ("flag", "variable", "expected"), [("flag", "env", "flag"), (None, "env", "env"), (None, None, "here")]
)
def test_the_configuration_file(tmp_path: Path, flag: str | None, variable: str | None, expected: str) -> None:
    """`--config` beats QOPS_CONFIG, which beats ./qops.toml."""
    for name, path in (("flag", "flag"), ("env", "env"), ("here", "qops.toml")):
        (tmp_path / path).write_text(f'[database]\nurl = "mysql://{name}/"', encoding="utf-8")
    environment = {"QOPS_CONFIG": variable} if variable else {}
    assert host_of(load(Flags(config=flag), environment)) == expected


def test_the_file_in_the_home_comes_last(tmp_path: Path) -> None:
    """Without ./qops.toml, ~/.config/qops/qops.toml is read."""
    home = tmp_path / "home"
    (home / ".config/qops").mkdir(parents=True)
    (home / ".config/qops/qops.toml").write_text('[database]\nurl = "mysql://home/"', encoding="utf-8")
    assert host_of(load(Flags(), {"HOME": str(home)})) == "home"
    write_config(tmp_path, '[database]\nurl = "mysql://here/"')
    assert host_of(load(Flags(), {"HOME": str(home)})) == "here"


@pytest.mark.parametrize(("flag", "variable", "expected"), [("a", "b", "a"), (None, "b", "b"), (None, None, "jobs")])
def test_the_queue(tmp_path: Path, flag: str | None, variable: str | None, expected: str) -> None:
    """`--queue` beats QOPS_QUEUE; without either, of several queues it is `jobs`."""
    write_config(tmp_path, "[queues.a]\n[queues.b]\n[queues.jobs]\n")
    environment = {"QOPS_QUEUE": variable} if variable else {}
    assert load(Flags(queue=flag), environment).queue.name == expected


def test_the_only_queue_is_the_default(tmp_path: Path) -> None:
    """One configured queue needs no `--queue`, whatever it is called."""
    assert queue_of("[queues.mail]", tmp_path).name == "mail"
    assert queue_of("", tmp_path) == QueueSettings()


def test_several_queues_without_jobs_must_be_chosen_from(tmp_path: Path) -> None:
    """Where several queues are configured and none is called jobs, the message names all of them."""
    message = refused("[queues.mail]\n[queues.sms]\n", tmp_path)
    assert all(word in message for word in ("mail", "sms", "--queue"))


@pytest.mark.parametrize("text", ["[queues.mail]\n[queues.sms]\n", "[queues.mail]\n"])
def test_an_unknown_queue_names_the_nearest(tmp_path: Path, text: str) -> None:
    """A misspelt `--queue` is an error that names what was probably meant."""
    message = refused(text, tmp_path, Flags(queue="mial"))
    assert "'mial'" in message
    assert "'mail'" in message


def test_an_unknown_queue_where_none_is_configured(tmp_path: Path) -> None:
    """`--queue other` without configuration is an error and never the default table."""
    assert "[queues.other]" in refused("", tmp_path, Flags(queue="other"))


# Passwords


def test_the_password_of_the_environment_fills_a_gap() -> None:
    """QOPS_PASSWORD is used where the URL has no password, and only there."""
    environment = {"QOPS_PASSWORD": "from environment"}
    for url, expected in (
        ("mysql://u@h/d", "from environment"),
        ("mysql://u:own@h/d", "own"),
        ("mysql://u:@h/d", ""),
    ):
        password = load(Flags(url=url), environment).database.password
        assert password is not None
        assert password.reveal() == expected
    assert load(Flags(url="mysql://u@h/d"), {"QOPS_PASSWORD": ""}).database.password is None


def test_no_password_in_what_settings_show() -> None:
    """Printing the settings shows no password."""
    settings = load(Flags(url="mysql://u:hushhush@h/d"), {"QOPS_PASSWORD": "whisper"})
    assert "hushhush" not in repr(settings)
    settings = load(Flags(url="mysql://u@h/d"), {"QOPS_PASSWORD": "whisper"})
    assert "whisper" not in repr(settings)


def test_a_password_in_another_encoding_is_refused_without_an_echo() -> None:
    """Bytes that are not text in this environment's encoding are an error that shows none of them."""
    value = os.fsdecode(b"hush\xe9hush")
    with pytest.raises(Misconfigured, match="QOPS_PASSWORD") as caught:
        load(Flags(url="mysql://u@h/d"), {"QOPS_PASSWORD": value})
    assert "hush" not in str(caught.value)


# Files


@pytest.mark.parametrize("how", ["flag", "environment"])
def test_a_missing_configuration_file_is_an_error(tmp_path: Path, how: str) -> None:
    """A file that was named and is not there is an error with its name, not silence."""
    flags, environment = (Flags(config="gone.toml"), {}) if how == "flag" else (Flags(), {"QOPS_CONFIG": "gone.toml"})
    with pytest.raises(Misconfigured, match=r"gone\.toml"):
        load(flags, environment)


@pytest.mark.parametrize("path", ["gone.cnf", ".", "~nobody_of_this_name/my.cnf", "\0"])
def test_an_option_file_that_cannot_be_read_is_an_error(path: str) -> None:
    """A missing option file, or a folder in its place, is an error that names it; the library would be silent."""
    with pytest.raises(Misconfigured) as caught:
        load(Flags(defaults_file=path), {})
    assert caught.value.exit_code == 78
    assert repr(path)[1:-1].removeprefix(".") in str(caught.value)


def test_a_configuration_from_a_pipe(tmp_path: Path) -> None:
    """`--config <(…)` is read like a file."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_text, args=["[queues.piped]\n"], kwargs={"encoding": "utf-8"})
    writer.start()
    assert load(Flags(config=str(path)), {}).queue.name == "piped"
    writer.join()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[databse]", ["'databse'", "'database'", "top level"]),
        ("[database]\nuri = 'x'", ["'uri'", "'url'", "[database]"]),
        ("[database]\nurl = 3", ["url", "string"]),
        ("[queues.q]\ntabel = 'x'", ["'tabel'", "'table'", "[queues.q]"]),
        ("[queues.q.columns]\nlease = 'x'", ["'lease'", "'lease_until'", "[queues.q.columns]"]),
        ("[queues.q.states]\nrunnning = 'x'", ["'runnning'", "'running'", "[queues.q.states]"]),
        ("[queues.q]\narchive_by = 'magic'", ["archive_by", "copy", "trigger"]),
        ("[queues.q]\nattempts_counted = 'never'", ["attempts_counted", "claim", "requeue"]),
        ("[queues.q]\nmax_attempts = 0", ["max_attempts"]),
        ("[queues.q]\nmax_attempts = true", ["max_attempts"]),
        ("[queues.q]\nclock = 'Europe/Berlin'", ["clock", "utc", "+08:00"]),
        ("[queues.q]\nclock = '+8:00'", ["clock", "+08:00"]),
        ("[queues.q]\norder = 'id'", ["order"]),
        ("[queues.q]\norder = []", ["order"]),
        ("[queues.q]\ntable = ''", ["table"]),
        ("[queues.q]\ntable = 'x '", ["table", "'x '"]),
        ("[queues.q]\ntable = '" + "x" * 65 + "'", ["table", "64"]),
        ('[queues.q]\ntable = "a\\u0000b"', ["table"]),
        ("[queues.q]\ntable = '😀'", ["table", "U+FFFF"]),
        ("[queues.q.columns]\nid = false", ["'id'"]),
        ("[queues.q.columns]\npriority = 3", ["priority"]),
        ("[queues.q.columns]\npriority = 'x'\nattempts = 'X'", ["'x'", "two roles"]),
        ("[queues.q.states]\npending = 'x'", ["'done'"]),
        ("[queues.q.states]\npending = 'x'\ndone = 'X'", ["'x'", "twice"]),
        ("[queues.q.states]\npending = 'x'\ndone = []", ["done"]),
        ("[queues.q.states]\npending = 1.5\ndone = 2", ["pending", "1.5"]),
        ("[queues]\nq = 3", ["'q'", "table"]),
        ("[[queues]]", ["'queues'", "table"]),
        ("[database\n", ["not valid TOML"]),
    ],
)
def test_mistakes_have_names(tmp_path: Path, text: str, words: list[str]) -> None:
    """Each mistake in qops.toml is a configuration error that names the key, what is allowed, or what was meant."""
    message = refused(text, tmp_path)
    assert all(word in message for word in words), message


def test_a_file_that_is_not_text(tmp_path: Path) -> None:
    """Bytes that are not UTF-8 are an error with the file's name."""
    (tmp_path / "qops.toml").write_bytes(b"[database]\nurl = '\xff'")
    with pytest.raises(Misconfigured, match=r"qops\.toml"):
        load(Flags(), {})


def test_sections_of_commands_refuse_unknown_keys(tmp_path: Path) -> None:
    """The owner of a section gets its values, and a misspelt key is an error that names the nearest."""
    write_config(tmp_path, "[archive]\nmax_purge_lag = 5\n[health]\nmax_purge_lagg = 5\n")
    settings = load(Flags(), {})
    assert settings.section("archive", ("max_purge_lag",)) == {"max_purge_lag": 5}
    assert settings.section("doctor", ("skip",)) == {}
    with pytest.raises(Misconfigured, match=r"'max_purge_lagg'.*'max_purge_lag'"):
        settings.section("health", ("max_purge_lag",))


# Queues


def test_a_section_without_keys_has_the_defaults(tmp_path: Path) -> None:
    """`[queues.jobs]` alone is the default queue, but its table need not have every role."""
    queue = queue_of("[queues.jobs]", tmp_path)
    assert (queue.table, queue.archive_table, queue.archive_by) == ("jobs", "jobs_archive", "copy")
    assert (queue.attempts_counted, queue.max_attempts, queue.clock) == ("claim", 5, None)
    assert (queue.order, queue.columns, queue.states, queue.strict) == (None, {}, None, False)
    assert QueueSettings().strict


def test_the_queues_of_the_field_are_read(tmp_path: Path) -> None:
    """The configurations of three known queues are understood as they are written."""
    guide = queue_of(GUIDE_TOML, tmp_path)
    assert (guide.table, guide.archive_table) == ("jobs", "jobs_archive")
    recipe = queue_of(RECIPE_TOML, tmp_path)
    assert recipe.columns == {"status": "state", "payload": "task"}
    assert recipe.states == {"pending": ("queued",), "done": ("done",)}
    article = queue_of(ARTICLE_TOML, tmp_path)
    assert (article.order, article.clock, article.attempts_counted) == (("available_at", "id"), "utc", "requeue")


def test_values_and_roles_are_kept_as_written(tmp_path: Path) -> None:
    """A list of values keeps its order, numbers stay numbers, and `false` says that there is no such role."""
    text = '[queues.q.columns]\npriority = false\n[queues.q.states]\npending = ["new", "NEWER"]\ndone = 3\n'
    queue = queue_of(text, tmp_path)
    assert queue.columns == {"priority": None}
    assert queue.states == {"pending": ("new", "NEWER"), "done": (3,)}


# Durations


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("200ms", 0.2), ("0.5s", 0.5), ("90s", 90), ("15m", 900), ("2h", 7200), ("7d", 604800), ("0s", 0), (" 1s ", 1)],
)
def test_durations(text: str, seconds: float) -> None:
    """Durations are a number and a unit."""
    assert duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "text", ["", "5", "s", "-1s", "1 s", "1S", "1e3s", ".5s", "1w", "1h30m", "inf", "nans", "\u0661s", "36501d"]
)
def test_what_is_not_a_duration(text: str) -> None:
    """Anything else is refused, also what the server's arithmetic could not hold."""
    with pytest.raises(ValueError, match=r"duration|more than"):
        duration(text)


@given(st.integers(0, 36_500 * 86_400_000))
def test_a_duration_in_milliseconds_is_exact(milliseconds: int) -> None:
    """Every whole number of milliseconds up to a century survives being written and read."""
    assert round(duration(f"{milliseconds}ms") * 1000) == milliseconds
