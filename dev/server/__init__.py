"""Throwaway MySQL servers for the demo, the tests and the benchmarks.

`start()` returns the shared server `main`, `private_server()` one of one's own. They come from, in this
order: QOPS_TEST_URL, a `mysqld` on the PATH, a Docker engine, the distribution's packages unpacked
privately. All state is in the folder `.dev` of the checkout. `python3 -m dev.server` is the command line.
"""

from dev.server.files import Server, ServerError
from dev.server.installation import client_command
from dev.server.servers import kill, names, private_server, restart, running, start, stop

__all__ = [
    "Server",
    "ServerError",
    "client_command",
    "kill",
    "names",
    "private_server",
    "restart",
    "running",
    "start",
    "stop",
]
