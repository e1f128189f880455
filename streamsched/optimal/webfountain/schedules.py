"""A good plan to start from: whole buckets, each crawled in the periods that are best at prices of the budgets.

A bucket that is crawled whole is fresh, whatever was before, so that its best periods at given prices are a shortest
path. The prices come from a linear program that mixes the schedules found so far (column generation). It mixes several
schedules for no more buckets than there are periods; those are crawled in part.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from streamsched.numerics.arrays import Bools, Floats
    from streamsched.optimal.webfountain.bucket_model import BucketModel

__all__ = ["scheduled_shares"]

_FIRST_PRICES: Final = (0.03, 0.1, 0.2, 0.4, 0.8, 1.6, 3.0)  # of a crawl, in obsolete pages
_MOST_STEPS: Final = 40  # of the linear program; further ones gain little
_GAP: Final = 5e-3  # of the cost; the solver gains more


def scheduled_shares(model: BucketModel, weights: Floats, new_crawled: Floats) -> Floats:
    """Return the share of each bucket to crawl, float64[T, B], mostly 0 or 1, if `new_crawled` pages join them.

    ``weights``, ``new_crawled``: float64[T]. The weighted sum of obsolete old pages is near the lowest. Each of 5 to 15
    steps takes O(T**2 B) and a linear program of B + T rows.
    """
    unit = model.pages.mean()
    growth = 1.0 + np.concatenate(([0.0], np.cumsum(new_crawled)[:-1])) / model.pages.sum()
    sizes = np.outer(growth, model.pages / unit)
    room = np.clip((model.budget - model.new.cost * new_crawled) / unit, 0.0, sizes.sum(axis=1))
    paths = _Paths(model, weights / weights.max(), sizes)
    mix = _Mix(sizes, room)
    mix.add(np.zeros(sizes.shape, np.bool_), paths.costs[0, -1])
    left = np.arange(room.size, 0.0, -1.0)
    for price in _FIRST_PRICES:
        mix.add(*paths.cheapest(np.full(room.size, price)))
        mix.add(*paths.cheapest(price / left))
    for _ in range(_MOST_STEPS):
        cost, prices = mix.solve()
        schedules, costs = paths.cheapest(prices)
        lower_bound = float((costs + prices @ (schedules * sizes)).sum() - prices @ room)
        if cost - lower_bound <= _GAP * cost:
            break
        mix.add(schedules, costs)
    return mix.shares()


class _Paths:
    """Schedules of whole crawls, as paths from crawl to crawl."""

    def __init__(self, model: BucketModel, weights: Floats, sizes: Floats) -> None:
        """Set ``costs``: float64[T + 1, T + 2, B], weighted obsolete pages after one crawl and before the next.

        The indices are the periods of the two; period 0 is the start, T + 1 the end. ``sizes``: float64[T, B], pages of
        the buckets before each period.
        """
        periods, buckets = sizes.shape
        self.sizes = sizes
        self.costs = np.full((periods + 1, periods + 2, buckets), np.inf)
        for last in range(periods + 1):
            stale = model.obsolete / model.pages.mean() if last == 0 else np.zeros(buckets)
            self.costs[last, last + 1] = 0.0
            for t in range(last, periods):
                stale = (1.0 - model.change_share) * stale + model.change_share * sizes[t]
                self.costs[last, t + 2] = self.costs[last, t + 1] + weights[t] * stale

    def cheapest(self, prices: Floats) -> tuple[Bools, Floats]:
        """Return the best schedule of each bucket at the `prices` of a crawl, bool[T, B]; and its obsolete pages."""
        periods, buckets = self.sizes.shape
        paid = np.vstack((np.zeros(buckets), prices[:, np.newaxis] * self.sizes, np.zeros(buckets)))
        best = np.zeros((periods + 2, buckets))
        before = np.zeros((periods + 2, buckets), np.int64)
        each = np.arange(buckets)
        for t in range(1, periods + 2):
            ways = best[:t] + self.costs[:t, t]
            before[t] = ways.argmin(axis=0)
            best[t] = ways[before[t], each] + paid[t]
        schedules = np.zeros((periods + 1, buckets), np.bool_)
        last = before[-1]
        for _ in range(periods):
            schedules[last, each] = True  # row 0 is no crawl
            last = before[last, each]
        chosen = schedules[1:]
        return chosen, best[-1] - prices @ (chosen * self.sizes)


class _Mix:
    """The linear program: shares of each bucket's pages that follow each of its schedules, within the budgets."""

    def __init__(self, sizes: Floats, room: Floats) -> None:
        self.sizes = sizes
        self.room = room
        self.schedules = np.empty((room.size, 0), np.bool_)  # bool[T, k]
        self.bucket = np.empty(0, np.int64)
        self.costs = np.empty(0)
        self.parts = np.empty(0)

    def add(self, schedules: Bools, costs: Floats) -> None:
        """Add a schedule of each bucket, bool[T, B], with its obsolete pages `costs`."""
        self.schedules = np.hstack((self.schedules, schedules))
        self.bucket = np.concatenate((self.bucket, np.arange(costs.size)))
        self.costs = np.concatenate((self.costs, costs))

    def solve(self) -> tuple[float, Floats]:
        """Find the best parts; return their cost and the prices of a crawl in each period, [T]."""
        from scipy.optimize import linprog  # noqa: PLC0415  needed here only, and slow to import
        from scipy.sparse import csr_array  # noqa: PLC0415

        count, buckets = self.bucket.size, self.sizes.shape[1]
        whole: Any = csr_array((np.ones(count), (self.bucket, np.arange(count))), shape=(buckets, count))
        crawls: Any = csr_array(self.schedules * self.sizes[:, self.bucket])
        found: Any = linprog(self.costs, A_ub=crawls, b_ub=self.room, A_eq=whole, b_eq=np.ones(buckets))
        self.parts = found.x
        return float(found.fun), -found.ineqlin.marginals

    def shares(self) -> Floats:
        """Return the share of each bucket that is crawled in each period, float64[T, B]."""
        shares = np.zeros(self.sizes.shape[::-1])
        solved = self.parts.size  # schedules added since are in no mix
        np.add.at(shares, self.bucket[:solved], (self.schedules[:, :solved] * self.parts).T)
        return np.ascontiguousarray(shares.T)
