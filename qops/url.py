"""The database URL: strict about what it accepts, and careful never to show what it was given.

A password with a raw `@`, `/`, `?` or `#` would move the border between password and host. Guessing there
means connecting to the wrong server or printing half a secret, so such a URL is refused with advice.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from urllib.parse import unquote

from qops.errors import Misconfigured

QUERY_KEYS = (
    "unix_socket",
    "ssl_ca",
    "ssl_capath",
    "ssl_cert",
    "ssl_key",
    "ssl_cipher",
    "ssl_mode",
    "connect_timeout",
)
SSL_MODES = ("DISABLED", "PREFERRED", "REQUIRED", "VERIFY_CA", "VERIFY_IDENTITY")
SCHEMES = ("mysql", "mysql+mysqldb")
ADVICE = (
    "percent-encode special characters in user, password and database name "
    "(@ is %40, : is %3A, / is %2F, ? is %3F, # is %23, % is %25), or leave the password out and set QOPS_PASSWORD"
)
_PART = r"(?:[A-Za-z0-9._~!$&'()*+,;=-]|%[0-9A-Fa-f]{2})"
_URL = re.compile(
    rf"(?P<scheme>[a-z+]+)://"
    rf"(?:(?P<user>{_PART}*)(?::(?P<password>(?:{_PART}|:)*))?@)?"
    rf"(?P<host>[A-Za-z0-9._-]*|\[[0-9A-Fa-f:.]+\])(?::(?P<port>\d{{1,5}}))?"
    rf"(?:/(?P<database>{_PART}*))?"
    r"(?:\?(?P<query>[^#@\s]*))?"  # a raw @ would mean that all of this is a password
)


class Secret:
    """A password that cannot be printed by accident; `reveal()` is for the driver alone."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """Return the password itself."""
        return self._value

    def __repr__(self) -> str:
        return "'***'"

    __str__ = __repr__


@dataclass(frozen=True)
class Address:
    """A parsed URL; None where a part was left out. An explicit port means TCP."""

    host: str | None = None
    port: int | None = None
    user: str | None = None
    password: Secret | None = None
    database: str | None = None
    options: dict[str, str] = field(default_factory=dict)


def parse_url(text: str) -> Address:
    """Parse `mysql://user:password@host:port/db?unix_socket=…`. Raises Misconfigured without echoing it."""
    match = _URL.fullmatch(text.strip())
    if not match:
        raise Misconfigured(f"the database URL does not parse as mysql://user:password@host:port/db; {ADVICE}")
    if match["scheme"] not in SCHEMES:
        raise Misconfigured("the database URL must begin with mysql://")
    port = int(match["port"]) if match["port"] else None
    if port is not None and not 0 < port < 65536:  # noqa: PLR2004 - the range of TCP ports
        raise Misconfigured("the port in the database URL must be between 1 and 65535")
    password = _decode(match["password"])
    return Address(
        host=(match["host"] or "").strip("[]") or None,
        port=port,
        user=_decode(match["user"]),
        password=Secret(password) if password is not None else None,
        database=_decode(match["database"]) or None,
        options=_options(match["query"] or ""),
    )


def _decode(part: str | None) -> str | None:
    """Undo percent-encoding; a plus sign stays a plus sign, as everywhere but in HTML forms."""
    if part is None:
        return None
    try:
        text = unquote(part, errors="strict")
    except UnicodeDecodeError:
        raise Misconfigured("the database URL holds percent-encoded bytes that are not UTF-8") from None
    if "\0" in text:
        raise Misconfigured("the database URL holds a NUL character (%00), which MySQL cannot be given")
    return text


def _options(query: str) -> dict[str, str]:
    options: dict[str, str] = {}
    for item in filter(None, query.split("&")):
        name, _, value = item.partition("=")
        key = name.replace("-", "_")
        if key not in QUERY_KEYS:
            raise Misconfigured(
                f"the database URL has an option that is not known here; known are: {', '.join(QUERY_KEYS)} "
                f"(if it is part of a password: {ADVICE})"
            )
        options[key] = _decode(value) or ""
        if not options[key]:
            raise Misconfigured(f"{key} in the database URL has no value")
    if "ssl_mode" in options:
        options["ssl_mode"] = ssl_mode(options["ssl_mode"], "the database URL")
    if not re.fullmatch(r"[1-9][0-9]{0,4}", options.get("connect_timeout", "1")):
        raise Misconfigured("connect_timeout in the database URL is a whole number of seconds above 0")
    return options


def ssl_mode(text: str, where: str) -> str:
    """Return a TLS mode as MySQL spells it; `verify-ca` means VERIFY_CA."""
    mode = text.upper().replace("-", "_")
    if mode not in SSL_MODES:
        raise Misconfigured(f"ssl_mode in {where} must be one of {', '.join(SSL_MODES)}")
    return mode
