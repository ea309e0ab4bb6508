"""The connection attribute `program_name=qops`, which the driver has no argument for.

Attributes travel with a login. mysqlclient logs in as it constructs a connection and offers no way to add
one, so qops adds it to the connected handle through the same client library (`mysql_options4`) and logs in
again on the same connection (COM_CHANGE_USER), which sends it. The handle is the first member of the
driver's object. Nothing in it is believed unseen: the connection id that the library reads there must be the
one that the driver reports, and the login is taken from the members beside the two whose addresses the
library tells (server version and host info; MySQL's and MariaDB's headers agree on their order). A driver or
library with another layout is left alone.
"""

from __future__ import annotations

import ctypes
from typing import Any

_CONNECT_ATTR_ADD = 33  # MYSQL_OPT_CONNECT_ATTR_ADD, the same in MySQL's and MariaDB's client library
_POINTER = ctypes.sizeof(ctypes.c_void_p)


def name_connection(connection: Any, program: str) -> bool:  # noqa: ANN401 - the driver is untyped
    """Give `connection` the attribute program_name; return False where that cannot be done safely.

    Session settings are back at the server's defaults afterwards. Raises the driver's error if the second login
    is refused: the connection is then unusable.
    """
    from MySQLdb import _mysql  # noqa: PLC0415 - the driver is loaded when a connection exists

    library = ctypes.CDLL(_mysql.__file__)
    handle = id(connection) + object.__basicsize__
    try:
        add, read_id = library.mysql_options4, library.mysql_thread_id
    except AttributeError:
        return False
    read_id.restype = ctypes.c_ulong
    if read_id(ctypes.c_void_p(handle)) != connection.thread_id():
        return False
    login = _login(library, handle, _mysql.connection.__basicsize__)
    if login is None or add(ctypes.c_void_p(handle), _CONNECT_ATTR_ADD, b"program_name", program.encode()):
        return False
    with connection.cursor() as cursor:
        cursor.execute("SELECT DATABASE(), USER()")
        database, user = cursor.fetchone()
    if user.rpartition("@")[0] != login[0]:
        return False
    connection.change_user(*login, database or "")
    return True


def _login(library: ctypes.CDLL, handle: int, size: int) -> tuple[str, str] | None:
    """Return user and password of a connected handle of at most `size` bytes, None if the layout is unknown.

    The members stand in the order host, user, passwd, unix_socket, server_version, host_info.
    """
    anchors = []
    for name in ("mysql_get_server_info", "mysql_get_host_info"):
        read = getattr(library, name)
        read.restype = ctypes.c_void_p
        anchors.append(read(ctypes.c_void_p(handle)))
    words = (ctypes.c_void_p * (size // _POINTER - 2)).from_address(handle)
    for place in range(4, len(words) - 1):
        if words[place] == anchors[0] and words[place + 1] == anchors[1]:
            user, password = (ctypes.cast(words[place - back] or 0, ctypes.c_char_p).value for back in (3, 2))
            return (user or b"").decode(), (password or b"").decode()
    return None
