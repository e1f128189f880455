"""WebFountain's model twice more: by all schedules of whole crawls, which no plan beats, and period by period.

A page is crawled in some of the periods. A plan that crawls a share of a bucket at random in each period is a mixture
of such schedules, and the number of obsolete pages is linear in the mixture. So the best mixture within the budgets is
a lower bound of all plans. Columns are priced one by one for all 2**periods schedules. New pages are left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
from scipy.optimize import linprog

from streamsched.numerics.arrays import Floats
from streamsched.optimal import BucketModel

_GAP = 1e-4  # of the cost


@dataclass(frozen=True)
class Mixture:
    """The best mixture: its cost, a lower bound, the share of pages crawled more than once, and crawls per page."""

    cost: float
    bound: float
    again: float
    crawls: float


def best_mixture(model: BucketModel, weights: Floats, most_again: float = 1.0) -> Mixture:
    """Return the best mixture in which at most the share `most_again` of all pages is crawled more than once."""
    periods, buckets = model.budget.size, model.pages.size
    schedules = np.array(list(product([0.0, 1.0], repeat=periods)))
    cost = np.zeros((len(schedules), buckets))
    stale = np.tile(model.obsolete, (len(schedules), 1))
    for t in range(periods):
        stale = (1.0 - schedules[:, [t]]) * ((1.0 - model.change_share) * stale + model.change_share * model.pages)
        cost += weights[t] * stale
    again = schedules.sum(axis=1) > 1.0
    limits = np.append(model.budget, most_again * model.pages.sum())
    uses = np.column_stack((schedules, again))  # of a page, of each limit
    chosen = {(0, b) for b in range(buckets)}
    for start in range(1, len(schedules), max(1, len(schedules) // 8)):
        chosen |= {(start, b) for b in range(buckets)}
    while True:
        columns = np.array(sorted(chosen))
        which, bucket = columns.T
        whole = (np.arange(buckets)[:, np.newaxis] == bucket).astype(float)
        found = linprog(
            cost[which, bucket], A_ub=(uses[which] * model.pages[bucket, np.newaxis]).T, b_ub=limits,
            A_eq=whole, b_eq=np.ones(buckets),
        )  # fmt: skip
        prices = -found.ineqlin.marginals
        reduced = cost + (uses @ prices)[:, np.newaxis] * model.pages
        bound = float(reduced.min(axis=0).sum() - prices @ limits)
        if found.fun - bound <= _GAP * found.fun:
            parts = found.x * model.pages[bucket] / model.pages.sum()
            return Mixture(found.fun, bound, float(parts @ again[which]), float(parts @ schedules[which].sum(axis=1)))
        chosen |= {(int(row), b) for b, row in enumerate(reduced.argmin(axis=0))}


def best_by_descent(model: BucketModel, weights: Floats, starts: int, seed: int) -> float:
    """Return the least cost of plans that no other choice of a single period improves, from random starts.

    If the other periods stay, obsolete pages are linear in the shares of a period, and the best are those of the
    buckets that gain most for a crawl.
    """
    rng, periods, buckets = np.random.default_rng(seed), model.budget.size, model.pages.size
    found = []
    for _ in range(starts):
        shares = rng.random((periods, buckets)) * (rng.random((periods, buckets)) < 0.4)
        cost, before = np.inf, None
        while before is None or cost < before - 1e-9:
            before = cost
            for t in rng.permutation(periods):
                shares[t] = 0.0
                gains = (_cost(model, weights, shares) - _costs_with(model, weights, shares, t)) / model.pages
                left = model.budget[t]
                for bucket in np.argsort(-gains)[: np.count_nonzero(gains > 0.0)]:
                    shares[t, bucket] = min(1.0, left / model.pages[bucket])
                    left -= shares[t, bucket] * model.pages[bucket]
            cost = _cost(model, weights, shares)
        found.append(cost)
    return float(min(found))


def _costs_with(model: BucketModel, weights: Floats, shares: Floats, period: int) -> Floats:
    """Return the cost if one bucket is crawled whole in a period, for each bucket."""
    costs = np.empty(model.pages.size)
    for bucket in range(model.pages.size):
        crawled = shares.copy()
        crawled[period, bucket] = 1.0
        costs[bucket] = _cost(model, weights, crawled)
    return costs


def _cost(model: BucketModel, weights: Floats, shares: Floats) -> float:
    stale, cost = model.obsolete, 0.0
    for weight, crawled in zip(weights, shares, strict=True):
        stale = (1.0 - crawled) * ((1.0 - model.change_share) * stale + model.change_share * model.pages)
        cost += weight * stale.sum()
    return cost
