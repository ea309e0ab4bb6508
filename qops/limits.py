"""Bounds that several commands share."""

MAX_BATCH = 10_000
"""Rows in one transaction: beyond this, undo, binlog events and replica lag grow and nothing gets faster."""

MAX_REASON = 1_000
"""Characters of a reason in the ledger; a longer one is a document, not a reason."""
