"""Job ids as people type them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from qops.columns import INTEGERS
from qops.errors import UsageError

if TYPE_CHECKING:
    from qops.queue import QueueTable

_WHOLE_NUMBER = re.compile(r"-?[0-9]{1,20}")


def parse_id(queue: QueueTable, text: str) -> Any:  # noqa: ANN401 - whatever the id column holds
    """Return a job id as the id column holds it, because MySQL would take `12abc` for 12. Raises UsageError."""
    if queue.facts[queue.id.name].data_type not in INTEGERS:
        return text
    if not _WHOLE_NUMBER.fullmatch(text):
        raise UsageError(f"{text!r} is not an id of queue {queue.name!r}, whose ids are whole numbers")
    return int(text)
