"""How many rows the next batch takes, and how long the rest after it is.

A batch is a block that a replica applies whole, and whose undo purge has to read; so it has a target time. It shrinks
at once where it takes longer, or where the server is unwell, and grows back by a quarter at a time.
"""

from __future__ import annotations

TARGET_SECONDS = 0.5  # of a batch; a thousand rows of 300 bytes take a tenth of it
TARGET_BYTES = 16_000_000  # of the first batch, as far as can be told; an event of the binary log is at most 1 GB
LEAST = 10  # rows: below, the transaction costs more than what it moves
REST_FACTOR = 8.0  # rest eight times as long as the last batch took: eight ninths of the time belong to the workers
MAX_REST_SECONDS = 1.0
STRAINED_REST_SECONDS = 2.0  # more at the limit of a throttle, none below half of it: slowing down beats stopping


class Pace:
    """The size of batches, at most `most` rows. `row_bytes` is what a row weighs on average, None if unknown.

    `rest_factor`: how many times as long as a batch took the rest after it is.
    """

    def __init__(self, most: int, row_bytes: int | None = None, *, rest_factor: float = REST_FACTOR) -> None:
        self.most = most
        self.rest_factor = rest_factor
        self.size = most
        self.seconds = 0.0
        if row_bytes:
            self._set(TARGET_BYTES // row_bytes)

    def took(self, seconds: float, rows: int) -> None:
        """Learn from a batch of `rows` that took `seconds`; one that had less to do than it might says nothing."""
        self.seconds = seconds
        if seconds > TARGET_SECONDS:
            self._set(min(self.size, int(rows * TARGET_SECONDS / seconds)))
        elif seconds < TARGET_SECONDS / 2 and rows >= self.size:
            self._set(self.size + max(1, self.size // 4))

    def suffer(self) -> None:
        """Halve the batch: it met a lock or a deadlock, or the run had to wait for the server."""
        self._set(self.size // 2)

    def rest(self, pressure: float) -> float:
        """Return the seconds to rest after the last batch; `pressure` (0 to 1): how near a throttle is to its limit."""
        return min(MAX_REST_SECONDS, self.rest_factor * self.seconds) + STRAINED_REST_SECONDS * pressure

    def _set(self, size: int) -> None:
        self.size = min(self.most, max(LEAST, size))
