"""A middleman between qops and the server, as a proxy or a cluster in between can behave."""

from __future__ import annotations

import contextlib
import socket
import threading
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tests.proxy import HEADER, read_packet

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conftest import Database

RESET_CONNECTION = b"\x01\x00\x00\x00\x1f"


@dataclass
class Middleman:
    """Refuses the first `refusals` COMMITs with error `code`, as a group does: the transaction is rolled back.

    With `forgets`, a session is back at the server's defaults before each transaction, as behind a proxy that gives
    every transaction the next free connection.
    """

    code: int = 0
    refusals: int = 0
    forgets: bool = False
    refused: int = 0
    swallow: bytes | None = None
    swallowed: threading.Event = field(default_factory=threading.Event)

    def carry(self, client: socket.socket, server: socket.socket) -> None:
        """Carry what both say until one of them ends."""
        threading.Thread(target=self._answer, args=(server, client), daemon=True).start()
        with client, server, contextlib.suppress(OSError):
            while packet := read_packet(client):
                said = packet[HEADER:]
                if said == b"START TRANSACTION" and self.forgets:
                    self._instead(server, RESET_CONNECTION, b"")
                if said == b"COMMIT" and self.refused < self.refusals:
                    self.refused += 1
                    rollback = b"\x03ROLLBACK"
                    self._instead(server, len(rollback).to_bytes(3, "little") + b"\x00" + rollback, self._error())
                else:
                    server.sendall(packet)
            server.shutdown(socket.SHUT_RDWR)

    def _instead(self, server: socket.socket, packet: bytes, answer: bytes) -> None:
        """Send `packet` to the server, and the client `answer` in place of the server's."""
        self.swallowed.clear()
        self.swallow = answer
        server.sendall(packet)
        assert self.swallowed.wait(10)

    def _answer(self, server: socket.socket, client: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := server.recv(65536):
                if self.swallow is not None:
                    data, self.swallow = self.swallow, None
                    self.swallowed.set()
                client.sendall(data)

    def _error(self) -> bytes:
        text = b"\xff" + self.code.to_bytes(2, "little") + b"#HY000" + b"the group says no"
        return len(text).to_bytes(3, "little") + b"\x01" + text


@contextlib.contextmanager
def behind(database: Database, middleman: Middleman) -> Iterator[Database]:
    """Yield `database` as it is reached through `middleman`, without TLS."""

    def accept(listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = listener.accept()
                server = socket.create_connection((database.host, database.port))
                threading.Thread(target=middleman.carry, args=(client, server), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=accept, args=(listener,), daemon=True).start()
        yield replace(database, host="127.0.0.1", port=listener.getsockname()[1])
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
