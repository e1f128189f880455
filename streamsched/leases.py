"""Leases: pages handed out and not yet reported on are out of the ranking until an outcome or the expiry frees them.

A lease is a flag in the page's record and a time beside it. An outcome that is applied clears the flag; an expired
lease stays flagged and no longer counts, so nothing has to run when it expires.
"""

from __future__ import annotations

import numpy as np

from streamsched.arrays import Bools, Ints
from streamsched.tables import FOR_PANEL, LEASED, Tables

__all__ = ["are_leased", "grant", "release"]


def grant(tables: Tables, rows: Ints, until_s: float, panel: int = 0) -> None:
    """Lease `rows`: int64[m] until `until_s`, UTC epoch seconds, the first `panel` of them for the panel. O(m)."""
    release(tables, rows)
    tables.lease_until_s[rows] = until_s
    tables.pages["flags"][rows] |= np.uint8(LEASED)
    tables.pages["flags"][rows[:panel]] |= np.uint8(FOR_PANEL)


def release(tables: Tables, rows: Ints) -> None:
    """Take back the leases of `rows`: int64[m], as an outcome would. O(m)."""
    tables.pages["flags"][rows] &= np.uint8(0xFF ^ LEASED ^ FOR_PANEL)


def are_leased(tables: Tables, rows: Ints, now: float) -> Bools:
    """Return whether each of `rows`: int64[m] is out at `now`: bool[m]. At the second of its expiry it is not. O(m)."""
    flagged: Bools = (tables.pages["flags"][rows] & LEASED) != 0
    return flagged & (tables.lease_until_s[rows] > now)
