"""Learns change rates from all costs that syncs and probes see, if a cost is 1 once a page has changed since its sync.

A sync, or a probe and the sync after it, says of one or two intervals whether they had a change. The estimate is that
of maximum likelihood. Changed intervals are counted in bins of their length, 5 % apart; a bin counts as intervals of
its mean length, so that memory does not grow with the number of syncs.

A page that is taken for a fast one gets the lowest rate, at which little more is learned of it. `best_rates` with a
random generator draws change rates from what they may be (Thompson sampling), so that such pages are tried again.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from streamsched.numerics.arrays import Bools, Floats, Ints
from streamsched.optimal.mirror_step import RateLimits, spend_budget

_BIN: Final = 0.05  # logarithm of the ratio of neighbouring bins' lengths
_SHORTEST: Final = 1 / 64  # of the shortest sync interval: the bin of all shorter intervals
_IMAGINED: Final = 0.5  # of an interval with a change and of one without, so that estimates are finite
_MOST_CHANGES: Final = 700.0  # in an interval, expected: e to this is finite
_TOLERANCE: Final = 1e-9  # of a rate
_MOST_STEPS: Final = 100  # of Newton's method, which takes about ten
_HALVINGS: Final = 45  # of a bisection of the price
_WIDEST: Final = 1.0  # standard deviation of a rate's logarithm, where next to nothing was seen


class PoissonLearner:
    """Change rates of arms, learned from syncs and probes, and the sync rates that are best for them."""

    def __init__(self, arms: int, limits: RateLimits) -> None:
        """Set out from no evidence of `arms` arms, whose sync rates are within `limits`. O(arms * bins)."""
        self._limits = limits
        self._shortest = _SHORTEST / limits.highest
        bins = math.ceil(math.log(1.0 / (limits.lowest * self._shortest)) / _BIN) + 1
        self._changed = np.zeros((arms, bins))  # intervals
        self._changed_time = np.zeros((arms, bins))
        self._unchanged_time = np.zeros(arms)
        mean = min(limits.budget / arms, limits.highest)
        self._imagined = np.full(arms, 1.0 / mean)  # length of the imagined intervals, that of the shortest real one

    def observe(self, arm: Ints, probe_age: Floats, sync_age: Floats, probe_cost: Floats, sync_cost: Floats) -> None:
        """Take in a sync of each `arm`, and the probe before it; all [s]. Without a probe, age and cost of it are 0."""
        np.minimum.at(self._imagined, arm, sync_age)
        by_probe, probed = probe_cost > 0.0, probe_age > 0.0
        self._add(arm[probed], probe_age[probed], by_probe[probed])
        after = ~by_probe  # a sync after a probe that saw a change tells nothing new
        self._add(arm[after], (sync_age - probe_age)[after], sync_cost[after] > 0.0)

    def _add(self, arm: Ints, length: Floats, changed: Bools) -> None:
        np.add.at(self._unchanged_time, arm[~changed], length[~changed])
        seen = length[changed]
        place = np.log(np.maximum(seen, self._shortest) / self._shortest) / _BIN
        bins = np.minimum(place.astype(np.int64), self._changed.shape[1] - 1)
        np.add.at(self._changed, (arm[changed], bins), 1.0)
        np.add.at(self._changed_time, (arm[changed], bins), seen)

    def estimate(self) -> tuple[Floats, Floats]:
        """Return the change rates and the standard deviations of their logarithms, both float64[n]. O(arms * bins).

        A rate is the root of sum over changed intervals of w/(e^(rate w) - 1) = sum over the others of w. The left
        side is convex and falls, and the start is below the root, so that Newton's method only rises.
        """
        arms = self._imagined.size
        cells = np.nonzero(self._changed)
        arm = np.concatenate((cells[0], np.arange(arms)))
        times = np.concatenate((self._changed_time[cells], _IMAGINED * self._imagined))
        counts = np.concatenate((self._changed[cells], np.full(arms, _IMAGINED)))
        lengths = times / counts
        unchanged = self._unchanged_time + _IMAGINED * self._imagined
        rates = np.bincount(arm, counts) / (unchanged + 0.5 * np.bincount(arm, times))
        information: Floats = np.ones(arms)
        for _ in range(_MOST_STEPS):
            odds = 1.0 / np.expm1(np.minimum(rates[arm] * lengths, _MOST_CHANGES))
            slope = np.bincount(arm, times * odds) - unchanged
            information = np.asarray(np.bincount(arm, times * lengths * odds * (1.0 + odds)), np.float64)
            step = slope / information
            rates = rates + step
            if np.all(np.abs(step) <= _TOLERANCE * rates):
                break
        return rates, np.minimum(1.0 / (rates * np.sqrt(information)), _WIDEST)

    def best_rates(self, rng: np.random.Generator | None = None) -> Floats:
        """Return the sync rates of least cost for the change rates as learned, or as drawn with `rng`: float64[n]."""
        rates, deviation = self.estimate()
        if rng is not None:
            rates = rates * np.exp(deviation * rng.standard_normal(rates.size))
        return poisson_sync_rates(rates, self._limits)


def poisson_sync_rates(change_rate: Floats, limits: RateLimits) -> Floats:
    """Return the sync rates within `limits` at which copies are current for the most time: float64[n]. O(n).

    Where the rate is free, a further sync is worth the price: 1 - (1 + x)e^-x = price * change rate, with x expected
    changes between syncs. The left side is the lower incomplete gamma function of 2.

    >>> poisson_sync_rates(np.array([0.5, 1.0, 4.0]), RateLimits(lowest=0.1, highest=3, budget=1.5)).round(4).tolist()
    [0.6334, 0.7666, 0.1]
    """
    from scipy.special import gammaincinv  # noqa: PLC0415  slow to import

    def rates_at(price: float) -> Floats:
        with np.errstate(divide="ignore"):
            free = change_rate / gammaincinv(2.0, np.minimum(price * change_rate, 1.0))
        rates: Floats = np.clip(free, limits.lowest, limits.highest)
        return rates

    if change_rate.size * limits.highest <= limits.budget:
        return np.full(change_rate.size, limits.highest)
    low, high = 0.0, 1.0 / float(change_rate.min())  # nothing is worth the higher one
    for _ in range(_HALVINGS):
        price = 0.5 * (low + high)
        low, high = (price, high) if rates_at(price).sum() > limits.budget else (low, price)
    return spend_budget(rates_at(high), rates_at(low), limits.budget)
