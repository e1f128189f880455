"""The numbers from which a page's change rate is estimated: the prior it is given, and what one visit adds."""

from __future__ import annotations

import numpy as np

from streamsched.estimation.gamma_posterior import after_change
from streamsched.numerics.arrays import Record
from streamsched.numerics.jit import inlined_kernel
from streamsched.records.page_schema import LONGEST_INTERVAL, SHORTEST_INTERVAL

__all__ = ["count_visit", "update_page"]

_MOST_VISITS = (1 << 32) - 1  # what the count of a page's visits holds


@inlined_kernel
def update_page(page: Record, trace: Record, interval: float, changed: bool, own: float) -> None:
    """Update a page's PAGE and TRACE by one observed interval, in cycles, under the prior it has (SPEC 3). O(1).

    `own`: how probable it is that a change was the page's own. As far as it was not, the page itself did not change:
    the posterior is a mixture of the two, and what is added that of both.
    """
    interval = min(max(interval, SHORTEST_INTERVAL), LONGEST_INTERVAL)
    count_visit(page, trace, changed)
    if not changed:
        page.own_exposure += interval
        return
    shape_before = page.prior_shape + page.own_shape
    exposure_before = page.prior_exposure + page.own_exposure
    shape_after, exposure_after = after_change(shape_before, exposure_before, interval)
    page.own_shape += own * (shape_after - shape_before)
    page.own_exposure += own * (exposure_after - exposure_before) + (1.0 - own) * interval


@inlined_kernel
def count_visit(page: Record, trace: Record, changed: bool) -> None:
    """Update what the published estimators read: n, X, the history and AAD's weighted sum. O(1)."""
    if page.visits < _MOST_VISITS:
        page.visits += 1
        page.changes += changed
    trace.history = (trace.history << np.uint64(1)) | np.uint64(changed)
    if changed:
        trace.weighted_changes += page.visits
