"""A wire between qops and the server that breaks at a chosen statement."""

from __future__ import annotations

import contextlib
import socket
import threading
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conftest import Database

HEADER = 5  # length, number, and the command: 3 is a query
QUERY = b"\x03"


@dataclass
class Wire:
    """What happens at the statement number `at` (from 1, over all connections) that contains `said`.

    `before`: the connection ends before the server hears of it; `after`: when the server has answered. With
    `for_good` nobody can connect afterwards. COMMIT is meant alone, not inside another word.
    """

    at: int
    when: str
    said: str = "COMMIT"
    for_good: bool = False
    heard: int = 0
    cut: threading.Event = field(default_factory=threading.Event)

    def is_due(self, packet: bytes) -> bool:
        """Count a statement that is meant, and say whether it is the one."""
        command, text = packet[HEADER - 1 : HEADER], packet[HEADER:].decode(errors="replace")
        meant = text == self.said if self.said == "COMMIT" else self.said in text
        if command != QUERY or not meant:
            return False
        self.heard += 1
        return self.heard == self.at


@contextlib.contextmanager
def broken_wire(database: Database, wire: Wire) -> Iterator[Database]:
    """Yield `database` as it is reached through `wire`."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=_accept, args=(listener, database, wire), daemon=True).start()
        yield replace(database, host="127.0.0.1", port=listener.getsockname()[1])
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)


def _accept(listener: socket.socket, database: Database, wire: Wire) -> None:
    with contextlib.suppress(OSError):
        while True:
            client, _ = listener.accept()
            if wire.for_good and wire.cut.is_set():
                client.close()
                continue
            server = socket.create_connection((database.host, database.port))
            threading.Thread(target=_carry, args=(client, server, wire), daemon=True).start()


def _carry(client: socket.socket, server: socket.socket, wire: Wire) -> None:
    """Carry what both say, the client's part packet by packet, until one ends or the wire is cut."""
    answers = threading.Thread(target=_answer, args=(server, client), daemon=True)
    answers.start()
    with client, server:
        with contextlib.suppress(OSError):
            while packet := read_packet(client):
                if wire.is_due(packet):
                    # With the client's end closed, the answer is read from the server and reaches nobody.
                    wire.cut.set()
                    client.shutdown(socket.SHUT_RDWR)
                    if wire.when == "after":
                        server.sendall(packet)
                        answers.join()
                    break
                server.sendall(packet)
        with contextlib.suppress(OSError):
            server.shutdown(socket.SHUT_RDWR)
        answers.join()


def _answer(server: socket.socket, client: socket.socket) -> None:
    """Carry what the server says; ends as well when the client is gone."""
    with contextlib.suppress(OSError):
        while data := server.recv(65536):
            client.sendall(data)


def read_packet(source: socket.socket) -> bytes:
    """Read one packet of the protocol: three bytes of length, a number, the payload."""
    header = _read(source, HEADER - 1)
    return header + _read(source, int.from_bytes(header[:3], "little")) if header else b""


def _read(source: socket.socket, wanted: int) -> bytes:
    data = b""
    while len(data) < wanted:
        part = source.recv(wanted - len(data))
        if not part:
            return b""
        data += part
    return data
