"""95 % confidence intervals of a replay's figures: over time by the jackknife, over seeds by Student's t.

Consecutive cycles are not independent: a page visited today is not visited tomorrow, and busy weeks follow one another.
So the measured cycles are cut into batches of 28 days or more, and the jackknife leaves out one batch at a time. It
works for any figure: a mean, a ratio, a percentile, or the difference of two policies over the same batches, which is
a paired comparison. The intervals cover other times of the same log, not other logs.

An interval over seeds covers only the luck of breaking ties.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.special import stdtrit

from streamsched.numerics.arrays import Bools, Floats, Ints

BATCH_DAYS: Final = 28  # four weeks: figures of successive weeks correlate by 0.25 to 0.87 on real logs
FEWEST_BATCHES: Final = 5  # for an interval: t of 1 degree of freedom is 12.7, of 4 it is 2.8; two alike give ±0
_DAY_S: Final = 86_400.0
_ROUNDING: Final = 1e-9  # of a cycle
_UPPER_TAIL: Final = 0.975


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure and its 95 % interval; None if there was nothing to measure, or too little for an interval."""

    value: float | None
    low: float | None = None
    high: float | None = None

    @property
    def half_width(self) -> float | None:
        """Half the width of the interval; None if there is no interval."""
        return None if self.low is None or self.high is None else (self.high - self.low) / 2


def over_seeds(figures: Sequence[float | None]) -> Estimate:
    """Return the mean of one figure per seed and its t-interval. O(seeds).

    Seeds without a figure (None) are left out; fewer than two figures have no interval.

    >>> over_seeds([0.25, 0.27, 0.26])
    Estimate(value=0.26, low=0.235..., high=0.284...)
    """
    known = np.array([figure for figure in figures if figure is not None])
    if not known.size:
        return Estimate(None)
    value = float(known.mean())
    if known.size < 2:
        return Estimate(value)
    return _around(value, float(known.std(ddof=1) / np.sqrt(known.size)), known.size)


def band_over_runs(runs: Floats) -> tuple[Floats, Floats]:
    """Return the means over runs and half the widths of their t-intervals, both [points]. O(size).

    ``runs``: float64[runs, points]. The half widths of a single run are NaN.

    >>> mean, half_width = band_over_runs(np.array([[1.0, 5.0], [2.0, 5.0], [3.0, 5.0]]))
    >>> mean.tolist(), half_width.round(3).tolist()
    ([2.0, 5.0], [2.484, 0.0])
    """
    count = runs.shape[0]
    if count < 2:
        return runs[0].copy(), np.full(runs.shape[1], np.nan)
    half_width = stdtrit(count - 1, _UPPER_TAIL) * runs.std(axis=0, ddof=1) / np.sqrt(count)
    return runs.mean(axis=0), np.asarray(half_width)


def cut_batches(cycles: int, cycle_s: float) -> Ints:
    """Return the edges of the batches of `cycles` cycles: int64[batches + 1]. O(batches).

    There are as many batches of 28 days or more as fit, of nearly equal lengths, and at least one.

    >>> cut_batches(60, 86400.0).tolist(), cut_batches(5, 86400.0).tolist()
    ([0, 30, 60], [0, 5])
    """
    least = max(1, math.ceil(BATCH_DAYS * _DAY_S / cycle_s - _ROUNDING))
    count = max(1, cycles // least)
    return np.arange(count + 1, dtype=np.int64) * cycles // count


def replicate_mean(series: Floats, weights: Floats | Ints | Bools, edges: Ints) -> Floats:
    """Return the weighted mean of a series, and those without each batch: float64[1 + batches]. O(cycles).

    ``series``, ``weights``: [cycles]; ``edges`` as of `cut_batches`. A mean of no weight is NaN.

    >>> replicate_mean(np.array([1.0, 3.0, 5.0, 7.0]), np.ones(4), np.array([0, 2, 4])).tolist()
    [4.0, 6.0, 2.0]
    """
    sums, totals = (np.add.reduceat(part, edges[:-1]) for part in (series * weights, np.asarray(weights, np.float64)))
    kept, weight = (np.concatenate([[part.sum()], part.sum() - part]) for part in (sums, totals))
    means: Floats = np.divide(kept, weight, out=np.full(kept.size, np.nan), where=weight > 0)
    return means


def replicate_figure(values: Floats, cycles: Ints, edges: Ints, figure: Callable[[Floats], float]) -> Floats:
    """Return a figure of `values`, and those without each batch: float64[1 + batches]. O(values · batches).

    ``values``: float64[n], such as delays; ``cycles``: int64[n], the cycle of each; ``edges`` as of `cut_batches`. A
    figure of no values is NaN.

    >>> delays, cycles = np.array([1.0, 2.0, 9.0]), np.array([0, 0, 1])
    >>> replicate_figure(delays, cycles, np.array([0, 1, 2]), lambda part: float(part.mean())).tolist()
    [4.0, 9.0, 1.5]
    """
    batches = np.searchsorted(edges, cycles, "right") - 1
    parts = [values, *(values[batches != batch] for batch in range(edges.size - 1))]
    return np.array([figure(part) if part.size else np.nan for part in parts])


def jackknife(replicates: Floats) -> Estimate:
    """Return a figure and its interval by the delete-one jackknife. O(batches).

    ``replicates``: float64[1 + batches], the figure and those without each batch, NaN if undefined. Fewer than five
    batches, or a figure that needs one of them, have no interval. Source: Efron & Stein 1981.

    >>> jackknife(np.array([4.0, 3.0, 3.5, 4.0, 4.5, 5.0]))
    Estimate(value=4.0, low=..., high=...)
    >>> jackknife(np.array([4.0, 6.0, 2.0]))
    Estimate(value=4.0, low=None, high=None)
    """
    if not np.isfinite(replicates[0]):
        return Estimate(None)
    value, without = float(replicates[0]), replicates[1:]
    if without.size < FEWEST_BATCHES or not np.isfinite(without).all():
        return Estimate(value)
    error = math.sqrt((without.size - 1) * float(without.var()))
    return _around(value, error, without.size)


def _around(value: float, error: float, count: int) -> Estimate:
    """Return `value` with the t-interval of a standard error estimated from `count` figures."""
    half_width = float(stdtrit(count - 1, _UPPER_TAIL)) * error
    return Estimate(value, value - half_width, value + half_width)
