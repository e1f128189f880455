"""Update of a page's counts and Gamma posterior by one observed interval."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from streamsched.estimation.gamma_posterior import after_change
from streamsched.numerics.jit import inlined_kernel
from streamsched.records.page_schema import LONGEST_INTERVAL, SHORTEST_INTERVAL

if TYPE_CHECKING:
    from streamsched.numerics.arrays import Record

__all__ = ["count_visit", "update_page"]

_MOST_VISITS = (1 << 32) - 1  # greatest value of PAGE.visits


@inlined_kernel
def update_page(page: Record, trace: Record, interval: float, changed: bool, own: float) -> None:
    """Update a page's PAGE and TRACE by one observed interval, in cycles, under its current prior. O(1).

    `own`: the probability that a change was the page's own. Otherwise the page itself did not change: the posterior is
    a mixture of the two cases, and the update is their mean.
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
