"""One step of learning sync rates from a gradient: mirror descent with the log barrier, or projected gradient descent.

Either projection on lowest <= rate <= highest, sum of rates <= budget has a closed form for a given price of the
budget, so one search for the price finds it. Kolobov, Bubeck and Zimmert (2020), "Online learning for active cache
synchronization"; their code calls a general solver with n**2 numbers in memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from streamsched.errors import SettingsError
from streamsched.numerics.arrays import Floats, frozen
from streamsched.numerics.jit import inlined_kernel, kernel
from streamsched.optimal.array_checks import check_amount, check_length, check_values

MIRROR: Final = 0
GRADIENT: Final = 1

_TOLERANCE: Final = 1e-12  # of the budget
_NEWTON_STEPS: Final = 60  # far more than it takes; then bisection, which cannot fail
_MOST_STEPS: Final = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class RateLimits:
    """Which sync rates are allowed: each from `lowest` to `highest`, and no more than `budget` in total.

    Raises SettingsError unless 0 < lowest <= highest, all finite, and budget > 0.
    """

    lowest: float
    highest: float
    budget: float

    def __post_init__(self) -> None:
        check_amount("lowest", self.lowest)
        check_amount("highest", self.highest)
        check_amount("budget", self.budget)
        if self.highest < self.lowest:
            raise SettingsError("highest", self.highest, f"at least lowest = {self.lowest:g}")


def mirror_step(rates: npt.ArrayLike, gradient: npt.ArrayLike, learning_rate: float, limits: RateLimits) -> Floats:
    """Return the rates r within `limits` that minimise learning_rate * <gradient, r> + D(r, rates). O(n).

    D is the log barrier's Bregman divergence, the sum of -ln(r/rate) + r/rate - 1. ``rates``: float64[n] above 0;
    ``gradient``: float64[n]. If the limits bind, the rates add up to the budget within 1e-9 of it. Raises SettingsError
    for invalid arrays, and for a budget below n times the lowest rate.

    >>> limits = RateLimits(lowest=0.1, highest=3, budget=3)
    >>> mirror_step([1, 1, 1], [-2, -1, 0], 0.5, limits).round(6).tolist()
    [1.528918, 0.866508, 0.604574]
    """
    return _step(rates, gradient, learning_rate, limits, MIRROR)


def gradient_step(rates: npt.ArrayLike, gradient: npt.ArrayLike, learning_rate: float, limits: RateLimits) -> Floats:
    """Return the point within `limits` that is nearest to rates - learning_rate * gradient. O(n).

    Arguments and errors are those of `mirror_step`.

    >>> gradient_step([1, 1, 1], [-2, -1, 0], 0.5, RateLimits(lowest=0.1, highest=3, budget=3)).tolist()
    [1.5, 1.0, 0.5]
    """
    return _step(rates, gradient, learning_rate, limits, GRADIENT)


def _step(rates: npt.ArrayLike, gradient: npt.ArrayLike, learning_rate: float, limits: RateLimits, kind: int) -> Floats:
    present = check_values("rates", rates, 1e-300, expected="a finite number above 0")
    slopes = check_values("gradient", gradient, -np.finfo(np.float64).max)
    check_length("gradient", slopes, present.size, "arm")
    if limits.budget < limits.lowest * present.size * (1.0 - _TOLERANCE):
        least = (
            f"at least {limits.lowest * present.size:g}, {present.size} arms at the lowest rate: raise it or lower that"
        )
        raise SettingsError("budget", limits.budget, least)
    return project(present, slopes, check_amount("learning_rate", learning_rate), limits, kind)


def project(rates: Floats, gradient: Floats, learning_rate: float, limits: RateLimits, kind: int) -> Floats:
    """Return the rates after a step of the `kind`, of checked arguments."""
    moved = 1.0 / rates + learning_rate * gradient if kind == MIRROR else rates - learning_rate * gradient
    result = np.empty(moved.size)
    _project(frozen(moved), np.array([limits.lowest, limits.highest, limits.budget]), kind, result)
    return result


def spend_budget(rates: Floats, more: Floats, budget: float) -> Floats:
    """Return rates from `rates`, whose sum is at most `budget`, to `more`, that spend it.

    The two are those at neighbouring prices. They differ where a derivative is flat: there all rates are worth the
    same, and only the budget decides.
    """
    gap = float((more - rates).sum())
    if gap <= 0.0:
        return rates
    return rates + min(1.0, max(0.0, (budget - float(rates.sum())) / gap)) * (more - rates)


@kernel
def _project(moved: Floats, limits: Floats, kind: int, rates: Floats) -> None:
    """Set `rates` to those at the least price of the budget, 0 or more, at which they keep to it."""
    budget = limits[2]
    low, high = 0.0, (1.0 / limits[0] - moved.min() if kind == MIRROR else moved.max() - limits[0])
    price = 0.0
    for step in range(_MOST_STEPS):
        total, fall = _fill(moved, limits, kind, price, rates)
        if abs(total - budget) <= _TOLERANCE * budget or (total < budget and price == 0.0):
            return
        low, high = (price, high) if total > budget else (low, price)
        price = low + (high - low) * 0.5
        if fall > 0.0 and step < _NEWTON_STEPS:
            newton = (low if total > budget else high) + (total - budget) / fall
            price = newton if low < newton < high else price
        if not low < price < high:
            break
    _fill(moved, limits, kind, high, rates)


@inlined_kernel
def _fill(moved: Floats, limits: Floats, kind: int, price: float, rates: Floats) -> tuple[float, float]:
    """Set the rates at a price; return their sum, and how fast it falls as the price rises."""
    lowest, highest = limits[0], limits[1]
    total, fall = 0.0, 0.0
    for i in range(moved.size):
        if kind == MIRROR:
            inverse = moved[i] + price
            free = highest if inverse * highest <= 1.0 else 1.0 / inverse
        else:
            free = moved[i] - price
        rates[i] = min(max(free, lowest), highest)
        total += rates[i]
        if lowest < free < highest:
            fall += free * free if kind == MIRROR else 1.0
    return total, fall
