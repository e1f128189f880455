"""What one visit adds to the numbers from which a page's change rate is estimated."""

from __future__ import annotations

import numpy as np

from streamsched.arrays import Record
from streamsched.jit import inlined
from streamsched.posterior import after_change
from streamsched.tables import LONGEST_INTERVAL, SHORTEST_INTERVAL

__all__ = ["count_visit", "learn"]

_MOST_VISITS = (1 << 32) - 1  # what the count of a page's visits holds


@inlined
def learn(page: Record, trace: Record, shape: float, exposure: float, interval: float, changed: bool) -> None:
    """Update a page's PAGE and TRACE by one observed interval, in cycles. O(1).

    `shape` and `exposure` are those of its prior at this time (SPEC 3).
    """
    interval = min(max(interval, SHORTEST_INTERVAL), LONGEST_INTERVAL)
    count_visit(page, trace, changed)
    if not changed:
        page.own_exposure += interval
        return
    shape_before = shape + page.own_shape
    exposure_before = exposure + page.own_exposure
    shape_after, exposure_after = after_change(shape_before, exposure_before, interval)
    page.own_shape += shape_after - shape_before
    page.own_exposure += exposure_after - exposure_before


@inlined
def count_visit(page: Record, trace: Record, changed: bool) -> None:
    """Update what the published estimators read: n, X, the history and AAD's weighted sum. O(1)."""
    if page.visits < _MOST_VISITS:
        page.visits += 1
        page.changes += changed
    trace.history = (trace.history << np.uint64(1)) | np.uint64(changed)
    if changed:
        trace.weighted_changes += page.visits
