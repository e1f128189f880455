"""Metrics of a replay by cycle: ChangeRate, NDCG, freshness, detection delay, visits by decile.

Sources: ChangeRate is Douglis et al. 1997 as GP4C's equation 1 has it; NDCG is GP4C's equations 2 and 3 with the
discount of Järvelin & Kekäläinen, who do not discount ranks below the base of the logarithm.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np

from streamsched.numerics.arrays import Bools, Floats, Hashes, Ints
from streamsched.scheduler.monitoring import Reliability

DECILES: Final = 10
WAITS_DAYS: Final[Floats] = np.geomspace(1 / 48, 3650, 161)  # half an hour to ten years, about 30 steps per decade


def change_rate(changed: Bools) -> float:
    """Return the share of changed pages among the visited, ``changed``: bool[k], k of 1 or more. O(k).

    >>> change_rate(np.array([True, False, False, True]))
    0.5
    """
    return float(np.count_nonzero(changed) / changed.size)


def ndcg(changed: Bools, relevant: int) -> float:
    """Return NDCG@k of a ranking, ``changed``: bool[k], best first, if `relevant` of all pages had changed. O(k).

    The gain of rank i, counted from 1, is 1/max(1, ln i) for a changed page; the ideal ranking starts with all
    `relevant` pages, cut at k. `relevant` is 1 or more: without a changed page there is no ideal ranking.

    >>> ndcg(np.array([True, False, True]), relevant=2)
    0.9551
    >>> ndcg(np.array([True, True, False]), relevant=2)
    1.0
    """
    gains = discounts(changed.size)
    return float(gains[changed].sum() / gains[: min(changed.size, relevant)].sum())


def weighted_ndcg(found: Floats, relevant: Floats) -> float:
    """Return NDCG@k of a ranking whose gains are weighted: ``found``: float64[k], best first, 0 for no change.

    ``relevant``: float64[r], the weights of all pages that had changed, one of them above 0. The ideal ranking has them
    in descending order, cut at k. O(r log r).

    >>> weighted_ndcg(np.array([0.5, 0.0, 1.0]), np.array([0.5, 1.0]))
    0.9401
    >>> weighted_ndcg(np.array([1.0, 0.5]), np.array([0.5, 1.0, 0.1]))
    1.0
    """
    gains = discounts(found.size)
    ideal = np.sort(relevant)[::-1][: found.size]
    return float((gains * found).sum() / (gains[: ideal.size] * ideal).sum())


@lru_cache(maxsize=8)
def discounts(k: int) -> Floats:
    """Return 1/max(1, ln i) for ranks i = 1..k: float64[k], not writable. O(k), cached for recent sizes.

    >>> discounts(4).round(4).tolist()
    [1.0, 1.0, 0.9102, 0.7213]
    """
    gains: Floats = 1.0 / np.maximum(1.0, np.log(np.arange(1, k + 1)))
    gains.flags.writeable = False
    return gains


def stale_seconds(first_unseen_s: Floats, start_s: float, end_s: float) -> Floats:
    """Return how long each page's copy was out of date within [start, end): float64[pages]. O(pages).

    ``first_unseen_s``: float64[pages], the page's first change after its last visit; inf if there is none, -inf if
    there is no copy. No visit lies within the span.

    >>> stale_seconds(np.array([np.inf, 25.0, 10.0, -np.inf]), 20.0, 30.0).tolist()
    [0.0, 5.0, 10.0, 10.0]
    """
    return np.asarray(np.clip(end_s - first_unseen_s, 0.0, end_s - start_s))


def freshness(first_unseen_s: Floats, start_s: float, end_s: float, weights: Floats | None = None) -> float:
    """Return the share of pages whose copy is current, averaged exactly over [start, end). O(pages).

    ``first_unseen_s`` as in `stale_seconds`; ``weights``: float64[pages], importance, with a sum above 0.

    >>> freshness(np.array([np.inf, 25.0]), 20.0, 30.0)
    0.75
    >>> freshness(np.array([np.inf, 25.0]), 20.0, 30.0, weights=np.array([3.0, 1.0]))
    0.875
    """
    stale = stale_seconds(first_unseen_s, start_s, end_s)
    span = end_s - start_s
    if weights is None:
        return float(1.0 - stale.sum() / (span * stale.size))
    return float(1.0 - (stale * weights).sum() / (span * weights.sum()))


def assign_deciles(changes: Ints, ties: Hashes) -> Ints:
    """Return each page's decile by number of changes: int64[pages], 0 for the least changing. O(pages log pages).

    ``changes``: int64[pages]; ``ties``: uint64[pages] orders pages with equal numbers, so that a boundary within a
    long run of equal pages (most never change) is random and not by URL.

    >>> assign_deciles(np.array([5, 0, 9, 1]), np.arange(4, dtype=np.uint64)).tolist()
    [5, 0, 7, 2]
    """
    order = np.lexsort((ties, changes))
    deciles = np.empty(changes.size, np.int64)
    deciles[order] = np.arange(changes.size) * DECILES // max(1, changes.size)
    return deciles


def moving_mean(series: Floats, counted: Bools, width: int) -> Floats:
    """Return the mean of the counted values among the last `width`: float64[n], NaN if there are none. O(n).

    ``series``: float64[n]; ``counted``: bool[n], which of them are valid.

    >>> moving_mean(np.array([1.0, 9.0, 3.0, 5.0]), np.array([True, False, True, True]), 2).tolist()
    [1.0, 1.0, 3.0, 4.0]
    """
    sums = np.concatenate([[0.0], np.cumsum(np.where(counted, series, 0.0))])
    counts = np.concatenate([[0], np.cumsum(counted)])
    begin = np.maximum(0, np.arange(series.size) + 1 - width)
    with np.errstate(invalid="ignore"):
        return np.asarray((sums[1:] - sums[begin]) / (counts[1:] - counts[begin]))


class Forecast(NamedTuple):
    """What a policy expects of k pages: ``probabilities`` of a change: float64[k], ``surge_shown``: bool[k]."""

    probabilities: Floats
    surge_shown: Bools


@dataclass(frozen=True, slots=True, eq=False)
class Calibration:
    """Visits to pages without and with a surge shown in their group at the moment of choice."""

    without_surge: Reliability
    with_surge: Reliability

    @property
    def all_visits(self) -> Reliability:
        """All visits."""
        return self.without_surge + self.with_surge

    @classmethod
    def of(cls, forecast: Forecast, changed: Bools) -> Calibration:
        """Return the counts of k visits with their forecast, ``changed``: bool[k]. O(k)."""
        parts = (~forecast.surge_shown, forecast.surge_shown)
        return cls(*(Reliability.of(forecast.probabilities[part], changed[part]) for part in parts))

    @classmethod
    def empty(cls) -> Calibration:
        """Return the counts of no visits."""
        return cls(Reliability.empty(), Reliability.empty())

    def __add__(self, other: Calibration) -> Calibration:
        """Return the counts of both."""
        return Calibration(self.without_surge + other.without_surge, self.with_surge + other.with_surge)
