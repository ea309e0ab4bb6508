"""Bounds that several commands share."""

MAX_BATCH = 10_000
"""Rows in one transaction: beyond this, undo, binlog events and replica lag grow and nothing gets faster."""

MAX_REASON = 1_000
"""Characters of a reason in the ledger; a longer one is a document, not a reason."""

REPLICA_LAG_SECONDS = 10.0
"""How far a replica may be behind before writing waits: past what one large batch or a busy second makes of it, and
well before people who read there notice."""

READ_VIEW_SECONDS = 60.0
"""From when on an open read view is warned of: nothing that works on jobs reads for a minute."""
