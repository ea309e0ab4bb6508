"""What differs between versions of MySQL, which are tuples of numbers here; none is compared as text."""

from __future__ import annotations


def lock_tables_stall(version: tuple[int, ...]) -> bool:
    """Whether reading data_locks and data_lock_waits can stall InnoDB under load on this version.

    Corrected in the releases of October 2024: 8.0.40, 8.4.3 and 9.1.0 (bug 112035 in their release notes).
    """
    return version < (8, 0, 40) or (8, 1) <= version < (8, 4, 3) or (9, 0) <= version < (9, 1)
