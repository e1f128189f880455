"""MirrorSync's policy: crawl rates that follow the costs which visits observe, without a model of changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from streamsched.optimal.mirrorsync.mirror_step import RateLimits, mirror_step

if TYPE_CHECKING:
    from streamsched.numerics.arrays import Floats, Rows
    from streamsched.scheduler.planning.page_snapshot import PageSnapshot
    from streamsched.scheduler.planning.seen_costs import SeenCosts

__all__ = ["step_rates"]

_LEARNING_RATE: Final = 0.2  # share by which a pair that differs changes 1/rate, for a page of mean importance
_LOWEST: Final = 1.0 / 16.0  # of the mean rate, and ...
_HIGHEST: Final = 7.5  # ... these are the paper's limits: 0.025, 0.4 and 3


def step_rates(pages: PageSnapshot, rows: Rows, visits: float, seen: SeenCosts) -> Floats:
    """Return the crawl rates of the pages ``rows`` after an asynchronous mirror step: float64[m]. O(n).

    Pages with a new pair move and share their present total. They start at the mean rate, and so do pages that had no
    rate before; all rates are scaled to `visits` per cycle.
    """
    mean = visits / rows.size
    rates = np.where(pages.crawl_rate[rows] > 0.0, pages.crawl_rate[rows], mean)
    rates = _within(rates, mean, visits)
    counts = np.bincount(seen.rows, minlength=pages.crawl_rate.size)[rows]
    sums = np.bincount(seen.rows, seen.probed - seen.synced, pages.crawl_rate.size)[rows]
    moving = np.flatnonzero(counts)
    if moving.size:
        weights = pages.importance[rows[moving]] / pages.importance[rows].mean()
        slopes = weights * sums[moving] / counts[moving] / rates[moving]
        limits = RateLimits(lowest=_LOWEST * mean, highest=_HIGHEST * mean, budget=float(rates[moving].sum()))
        rates[moving] = mirror_step(rates[moving], slopes, _LEARNING_RATE, limits)
    return rates


def _within(rates: Floats, mean: float, visits: float) -> Floats:
    """Return rates nearest to multiples of `rates` within the limits, that add up to `visits` per cycle."""
    limits = RateLimits(lowest=_LOWEST * mean, highest=_HIGHEST * mean, budget=visits)
    return mirror_step(rates * (visits / rates.sum()), np.zeros(rates.size), 1.0, limits)
