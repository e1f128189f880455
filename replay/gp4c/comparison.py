"""Paired comparisons of methods across the five test folds (GP4C, section 5.3): overall and by cycle.

All methods are tested on the same pages in the same cycles, so Student's t is computed over the differences within
folds. Folds hold different pages but the same cycles: the intervals do not cover differences between seasons.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from streamsched.replay.confidence_intervals import Estimate, over_seeds

if TYPE_CHECKING:
    from streamsched.numerics.arrays import Floats

__all__ = [
    "Contest",
    "by_fold",
    "compare_cycles",
    "compare_folds",
    "compare_with_zero",
    "estimate",
    "estimate_cycles",
    "estimate_folds",
]


@dataclass(frozen=True, slots=True)
class Contest:
    """Cycles in which one method is significantly better than another, worse, and neither.

    ``gain``: the mean relative difference over the victories; ``drop``: over the losses, below 0. None if there are
    none, or the other method found nothing in them.
    """

    victories: int
    losses: int
    ties: int
    gain: float | None
    drop: float | None


def by_fold(series: Floats) -> Floats:
    """Return each fold's mean over its cycles: float64[folds] of ``series``: float64[folds, cycles]. O(size).

    Cycles that are NaN, in which no page of the fold changed, are left out; a fold with no other cycles is NaN.

    >>> by_fold(np.array([[0.25, 0.75], [0.5, np.nan]])).tolist()
    [0.5, 0.5]
    """
    counted = ~np.isnan(series)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.where(counted, series, 0.0).sum(1) / counted.sum(1))


def estimate(figures: Floats) -> Estimate:
    """Return the mean over the folds and its t-interval, ``figures``: float64[folds] without NaN. O(folds)."""
    return over_seeds(_known(figures))


def estimate_folds(series: Floats) -> Estimate:
    """Return the mean of the folds' means and its t-interval, ``series``: float64[folds, cycles]. O(size)."""
    return estimate(by_fold(series))


def estimate_cycles(series: Floats) -> list[Estimate]:
    """Return each cycle's mean over the folds and its t-interval, ``series``: float64[folds, cycles]. O(size)."""
    return [estimate(series[:, cycle]) for cycle in range(series.shape[1])]


def compare_folds(ours: Floats, theirs: Floats) -> Estimate:
    """Return the relative difference of `ours` to `theirs`, with the interval of the paired difference. O(size).

    Both: float64[folds, cycles]. Differences and interval are divided by the mean of `theirs`; the estimate has no
    value if that is 0.

    >>> compare_folds(np.array([[0.55], [0.54], [0.56]]), np.array([[0.5], [0.5], [0.5]]))
    Estimate(value=0.1, low=0.05..., high=0.14...)
    """
    base = over_seeds(_known(by_fold(theirs))).value
    if not base:
        return Estimate(None)
    return estimate((by_fold(ours) - by_fold(theirs)) / base)


def compare_cycles(ours: Floats, theirs: Floats) -> Contest:
    """Return the cycles in which `ours` differs from `theirs` at 95 %, both float64[folds, cycles]. O(size).

    Without a true difference, one cycle in 40 is expected as a victory and one in 40 as a loss.
    """
    gains: list[float] = []
    drops: list[float] = []
    victories = losses = 0
    for cycle in range(ours.shape[1]):
        difference = estimate(ours[:, cycle] - theirs[:, cycle])
        side = compare_with_zero(difference)
        base = over_seeds(_known(theirs[:, cycle])).value
        victories += side > 0
        losses += side < 0
        if side and base and difference.value is not None:
            (gains if side > 0 else drops).append(difference.value / base)
    return Contest(victories, losses, ours.shape[1] - victories - losses, _mean(gains), _mean(drops))


def compare_with_zero(difference: Estimate) -> int:
    """Return 1 if the interval of a difference lies above 0, -1 if below, 0 if it holds 0 or there is none.

    >>> [compare_with_zero(Estimate(0.0, *ends)) for ends in ((0.1, 0.3), (-0.3, -0.1), (-0.1, 0.5))]
    [1, -1, 0]
    """
    if difference.low is None or difference.high is None:
        return 0
    return (difference.low > 0) - (difference.high < 0)


def _known(figures: Floats) -> list[float | None]:
    return [None if np.isnan(figure) else float(figure) for figure in figures]


def _mean(shares: list[float]) -> float | None:
    return sum(shares) / len(shares) if shares else None
