"""A worker from the same configuration as the command line."""

from __future__ import annotations

import os
from typing import Any

from qops.db import open_server
from qops.privileges import grants_for
from qops.queue import load
from qops.settings import Flags
from qops.settings import load as load_settings
from qops.worker.protocol import Worker


def open_worker(
    name: str,
    *,
    url: str | None = None,
    config: str | None = None,
    queue: str | None = None,
    **options: Any,  # noqa: ANN401
) -> Worker:
    """Return a worker configured as the command line is: arguments, then QOPS_ variables, then qops.toml.

    `options` are those of Worker. Raises Misconfigured (78) for what is wrong with it, Unavailable without a server.
    """
    settings = load_settings(Flags(url=url, config=config, queue=queue), os.environ)
    server = open_server(settings.database).for_command(grants_for("worker", settings.queue))
    with server.session() as connection:
        table = load(connection, settings.queue)
    return Worker(server, table, name, **options)
