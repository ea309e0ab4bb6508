"""The connection attribute `program_name=qops`, which the driver has no argument for.

Attributes travel with a login. mysqlclient logs in as it constructs a connection and offers no way to add
one, so qops adds it to the connected handle through the same client library (`mysql_options4`) and logs in
again on the same connection (COM_CHANGE_USER), which sends it. The handle is the first member of the
driver's object. Nothing in it is believed unseen: the connection id that the library reads there must be the
one that the driver reports, and the login is taken from the members beside the two whose addresses the
library tells (server version and host info; MySQL's and MariaDB's headers agree on their order, and the user
must be the one that the server knows). A driver or library with another layout is left alone.
"""

from __future__ import annotations

import ctypes
import sys
from functools import cache
from typing import Any

from MySQLdb import _mysql

_CONNECT_ATTR_ADD = 33  # MYSQL_OPT_CONNECT_ATTR_ADD, the same in MySQL's and MariaDB's client library
_USED = ("mysql_thread_id", "mysql_get_server_info", "mysql_get_host_info", "mysql_options4", "mysql_change_user")
_POINTER = ctypes.sizeof(ctypes.c_void_p)


def name_connection(connection: Any, program: str, worker: str | None = None) -> bool:  # noqa: ANN401 - untyped driver
    """Give `connection` the attribute program_name, and qops_worker for a `worker`, where that can be done safely.

    Session settings are back at the server's defaults afterwards. Returns False when the server refused the second
    login (an account may be at its limit of connections): the connection is then unusable.
    """
    library = client_library()
    if sys.implementation.name != "cpython" or not all(hasattr(library, name) for name in _USED):
        return True
    handle = ctypes.c_void_p(id(connection) + object.__basicsize__)
    library.mysql_thread_id.restype = ctypes.c_ulong
    if library.mysql_thread_id(handle) != connection.thread_id():
        return True
    login = _login(library, handle)
    if login is None:
        return True
    with connection.cursor() as cursor:
        cursor.execute("SELECT USER(), DATABASE()")
        account, database = cursor.fetchone()
    if account.rpartition("@")[0].encode() != login[0]:
        return True
    if library.mysql_options4(handle, _CONNECT_ATTR_ADD, b"program_name", program.encode()):
        return True
    if worker is not None:
        library.mysql_options4(handle, _CONNECT_ATTR_ADD, b"qops_worker", worker.encode("utf-8", "replace"))
    return not library.mysql_change_user(handle, *login, (database or "").encode())


@cache
def client_library() -> ctypes.CDLL:
    """Return the client library that the driver is linked with; one that is built in may hide its functions."""
    return ctypes.CDLL(_mysql.__file__)


def is_mariadb_library() -> bool:
    """Whether the driver is linked with MariaDB's client library, whose TLS options differ from MySQL's.

    Its versions begin with 3, MySQL's with 8 or more; older ones of MariaDB's copied the server's.
    """
    return _mysql.get_client_info().startswith("3.") or hasattr(client_library(), "mariadb_get_infov")


def _login(library: ctypes.CDLL, handle: ctypes.c_void_p) -> tuple[bytes, bytes] | None:
    """Return user and password of a connected handle, None if the layout is unknown.

    The members stand in the order host, user, passwd, unix_socket, server_version, host_info. They are looked for
    within the driver's object alone.
    """
    anchors = []
    for name in ("mysql_get_server_info", "mysql_get_host_info"):
        read = getattr(library, name)
        read.restype = ctypes.c_void_p
        anchors.append(read(handle))
    size = _mysql.connection.__basicsize__ - object.__basicsize__
    words = (ctypes.c_void_p * (size // _POINTER)).from_address(handle.value or 0)
    for place in range(4, len(words) - 1):
        if words[place] == anchors[0] and words[place + 1] == anchors[1]:
            user, password = (ctypes.cast(words[place - back] or 0, ctypes.c_char_p).value for back in (3, 2))
            return user or b"", password or b""
    return None
