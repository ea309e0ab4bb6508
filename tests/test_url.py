"""The database URL: every part comes back as it was encoded, and no part of a wrong one is shown."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from qops.errors import Misconfigured
from qops.url import QUERY_KEYS, Address, Secret, parse_url

PARTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=30)
AWKWARD = "p@ss/w:rd?&#%2F \"'\\é"


def encoded(text: str) -> str:
    return quote(text, safe="")


@given(user=PARTS, password=PARTS, database=PARTS)
@example(user="we@ird", password=AWKWARD, database="jobs-prod")
@example(user="a+b", password="+", database="100%")
def test_percent_encoded_parts_come_back_exactly(user: str, password: str, database: str) -> None:
    """Whatever user, password and database are, their percent-encoded URL gives them back."""
    address = parse_url(f"mysql://{encoded(user)}:{encoded(password)}@db.example:3307/{encoded(database)}")
    assert (address.user, address.database) == (user, database)
    assert address.password is not None
    assert address.password.reveal() == password
    assert (address.host, address.port) == ("db.example", 3307)


@given(password=PARTS)
@example(password=AWKWARD)
@example(password="12?unix_socket=/x")
@example(password="12/x")
def test_a_raw_password_never_becomes_another_part(password: str) -> None:
    """A password that was not encoded is taken as it stands or refused; it never moves into host, port or query."""
    try:
        address = parse_url(f"mysql://u:{password}@db.example:3307/app")
    except Misconfigured:
        return
    assert (address.user, address.host, address.port, address.database) == ("u", "db.example", 3307, "app")
    assert address.options == {}
    assert address.password is not None


@pytest.mark.parametrize(
    "url",
    [
        f"mysql://we@ird:{AWKWARD}@127.0.0.1:3306/jobs-prod",
        "mysql://u:sec ret@h/db",
        "mysql://u:sec#ret@h/db",
        "mysql://u:sec%ret@h/db",
        "mysql://u:sec/ret@h/db",
        "mysql://u:12?sec=ret@h/db",
        "mysql://u:12?ssl_ca=ret@h/db",
        "mysql://u:sec%00ret@h/db",
        "mysql://u:sec%e9ret@h/db",
        "sec://u:sec@ret",
        "u:sec@ret",
        "mysql://u:sec@ret:0/db",
        "mysql://u:sec@ret:65536/db",
        "mysql://u:sec@ret:port/db",
        "mysql://u:p@h/db?sec=ret",
        "mysql://u:p@h/db?ssl_mode=sec",
        "mysql://u:p@h/db?connect_timeout=sec",
        "mysql://u:p@h/db?connect_timeout=0",
        "mysql://u:p@h/db?connect_timeout=²",
        "mysql://u:p@h/db?ssl_ca=",
    ],
)
def test_a_wrong_url_is_refused_without_an_echo(url: str) -> None:
    """A URL that does not parse is a configuration error that repeats no part of what may be a secret."""
    with pytest.raises(Misconfigured) as caught:
        parse_url(url)
    assert "sec" not in str(caught.value).replace("seconds", "")
    assert "ret" not in str(caught.value)
    assert caught.value.exit_code == 78


@pytest.mark.parametrize("password", [AWKWARD, "a b", "a#b", "50%off"])
def test_advice_is_to_percent_encode(password: str) -> None:
    """Special characters that were not encoded lead to advice that says how."""
    with pytest.raises(Misconfigured, match=r"percent-encode.*%40.*QOPS_PASSWORD"):
        parse_url(f"mysql://u:{password}@h/db")


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("mysql://h", Address(host="h")),
        ("mysql://h/", Address(host="h")),
        ("mysql://u@h:1/d", Address(host="h", port=1, user="u", database="d")),
        ("mysql+mysqldb://u@h/d", Address(host="h", user="u", database="d")),
        ("mysql:///d?unix_socket=/a%20b/s", Address(database="d", options={"unix_socket": "/a b/s"})),
        ("mysql://u@[::1]:3306/d", Address(host="::1", port=3306, user="u", database="d")),
        (
            "mysql://h/?ssl-mode=verify-ca&ssl_ca=/c+d",
            Address(host="h", options={"ssl_mode": "VERIFY_CA", "ssl_ca": "/c+d"}),
        ),
        (" mysql://h/d\n", Address(host="h", database="d")),
    ],
)
def test_parts_may_be_left_out(url: str, expected: Address) -> None:
    """What a URL leaves out is None; the plus sign is a plus sign, and surrounding blanks do not matter."""
    assert parse_url(url) == expected


def test_an_empty_password_is_a_password() -> None:
    """`user:@host` says that there is no password, which is not the same as leaving it out."""
    address = parse_url("mysql://u:@h/d")
    assert address.password is not None
    assert address.password.reveal() == ""


def test_every_documented_option_is_known() -> None:
    """The documented options are accepted."""
    assert {"unix_socket", "ssl_ca", "ssl_mode"} <= set(QUERY_KEYS)


def test_a_secret_shows_itself_to_nobody() -> None:
    """Printing, formatting or logging an address shows no password."""
    address = parse_url("mysql://u:hush@h/d")
    assert "hush" not in f"{address} {address!r} {Secret('hush')} {Secret('hush')!r} {[address.password]}"
