"""The Gamma posterior of a page's change rate: updates by observed intervals, and probabilities of a change.

An interval is observed from a page's last visit that could show a change to one that did or did not show it.

A rate λ per cycle is Gamma(shape, exposure), mean shape / exposure: ``shape`` counts changes, ``exposure`` cycles. All
functions are accurate to a few units in the last place for interval / exposure from 1e-12 to 1e12 and shape from 1e-6
to 1e9. Probabilities of blocks of pages are computed a column at a time, so that loops vectorise.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np

from streamsched.numerics.arrays import Floats, Record, Records
from streamsched.numerics.compilation.machine_operations import widen_vectors
from streamsched.numerics.jit import bare_kernel, inlined_kernel, kernel
from streamsched.numerics.vector_math import expm1, log1p
from streamsched.records.page_schema import LONGEST_INTERVAL, SHORTEST_INTERVAL

# Bounds of a learned prior's shape. Below 0.3 a page without a change is visited again too late to be known; chosen on
# the three logs of data/: without it, two of them teach 0.05 and 0.06. Above 50 the pages of a group are practically
# equal, and a year of daily visits could not move a page's own rate.
LOWEST_SHAPE: Final = 0.3
HIGHEST_SHAPE: Final = 50.0

_LARGEST_RATIO: Final = 1e300  # interval over exposure, so that no step below overflows
_WIDEST: Final = 40.0  # of the logarithm of a mean rate over the one guessed
_LARGEST_POWER: Final = 700.0  # e to the power of it is finite
_SERIES_BELOW: Final = 0.25  # below this the Bernoulli series converges to float64 in six terms
_MOST_VISITS = (1 << 32) - 1  # greatest value of PAGE.visits


class ObservedInterval(NamedTuple):
    """The interval from ``last_visit_s`` in the page's record to a visit, and whether that saw a change."""

    end_s: float  # end of the visit, UTC epoch seconds
    cycles: float  # length of the interval in cycles, not yet clipped
    cycle_s: float  # seconds per cycle
    changed: bool


class Announced(NamedTuple):
    """The announcements of an interval before its visit: see `estimation.signal_update`."""

    spared: float  # probability that no signal was true; 1 without signals
    effective: float  # part of the interval in which changes would have been unannounced; 1 without sources
    alone: float  # probability that the page itself changed in that part


@kernel
def after_no_change(shape: float, exposure: float, interval: float) -> tuple[float, float]:
    """Return shape and exposure after a visit that found no change since `interval` cycles ago: exact. O(1).

    >>> after_no_change(2.0, 10.0, 3.0)
    (2.0, 13.0)
    """
    return shape, exposure + interval


@kernel
def after_change(shape: float, exposure: float, interval: float) -> tuple[float, float]:
    """Return shape and exposure after "a change somewhere in `interval`", by the exact mean and variance. O(1).

    The exact posterior is proportional to Gamma(λ; a, b)·(1 - e^(-λτ)), a > 0, b > 0. With u = ln(1 + τ/b),
    s = 1 - e^(-u) and h = s/(e^(au) - 1) its mean is (a/b)(1 + h) and its variance (a/b²)(1 + 2h - sh - ah(s + h)),
    by algebra that leaves no cancelling differences. Neither result is less than before; the shape
    grows by at most 1 and the exposure by at most τ/2: a change over a long interval is little evidence. An `interval`
    of 0 or less (or NaN) is the limit, a change seen at once: (a + 1, b).

    >>> after_change(2.0, 10.0, 0.0)
    (3.0, 10.0)
    >>> tuple(round(value, 6) for value in after_change(1.0, 1.0, 1.0))
    (1.8, 1.2)
    """
    ratio = min(interval / exposure, _LARGEST_RATIO)
    if not ratio > 0.0:
        return shape + 1.0, exposure
    log_growth = math.log1p(ratio)  # u, so e^u - 1 is the ratio itself
    share = ratio / (1.0 + ratio)  # s
    power = shape * log_growth
    lag = _deficit(power, math.expm1(power))
    weight = share / log_growth * (1.0 - lag)  # ah, from 0 to 1
    spread = shape * (1.0 - weight * share) + weight * (2.0 - share - weight)  # the variance times b²
    seen = (1.0 + shape) * weight * (shape * share + weight) / spread
    watched = weight * share * (power - lag + _deficit(log_growth, ratio)) / (log_growth * spread)
    return shape + seen, exposure + exposure * watched


@kernel
def probability_changed(shape: float, exposure: float, elapsed: float) -> float:
    """Return P(at least one change within `elapsed` cycles) = 1 - (b/(b + t))^a; 0 if `elapsed` is 0 or less. O(1).

    >>> round(probability_changed(1.0, 1.0, 1.0), 12)
    0.5
    """
    if elapsed <= 0.0:
        return 0.0
    return -math.expm1(-shape * math.log1p(elapsed / exposure))


def probabilities_changed(shape: Floats, exposure: Floats, elapsed: Floats, out: Floats) -> Floats:
    """Fill `out` with `probability_changed` of each row and return it; all are float64[n].

    Allocates nothing; `out` may be `elapsed` itself, but none of the others. O(n), with NumPy's vector instructions.

    >>> probabilities_changed(np.ones(2), np.ones(2), np.array([1.0, -1.0]), np.empty(2)).round(12).tolist()
    [0.5, 0.0]
    """
    with np.errstate(over="ignore"):
        np.divide(elapsed, exposure, out=out)
    np.maximum(out, 0.0, out=out)
    np.log1p(out, out=out)
    np.multiply(out, shape, out=out)
    np.negative(out, out=out)
    np.expm1(out, out=out)
    return np.negative(out, out=out)


@kernel
def mean_of_intervals(
    unchanged: Floats, changed: Floats, cycles: Floats, shape: float, guess: float, strength: float
) -> float:
    """Return the mean rate that makes intervals most likely, one of each page: float64[n] numbers of intervals. O(n).

    Of ``unchanged[i]`` + ``changed[i]`` intervals, ``cycles[i]`` is the total length; rates are Gamma of `shape`. There
    are `strength` > 0 more intervals, half of them changed, so long that the mean `guess` expects just that. By
    bisection of the derivative of the log-likelihood by the logarithm of the mean, to 1e-15 of it.

    >>> round(mean_of_intervals(np.array([90.0]), np.array([10.0]), np.array([100.0]), 2.0, 0.1, 1.0), 3)
    0.108
    """
    lowest, highest = math.log(guess) - _WIDEST, math.log(guess) + _WIDEST
    even = shape / guess * (2.0 ** (1.0 / shape) - 1.0)
    for _ in range(60):
        middle = 0.5 * (lowest + highest)
        rate = math.exp(middle) / shape
        rising = _pull(0.5 * strength, 0.5 * strength, rate * even, shape)
        for i in range(cycles.size):
            count = unchanged[i] + changed[i]
            if count > 0.0:
                rising += _pull(unchanged[i], changed[i], rate * (cycles[i] / count), shape)
        if rising > 0.0:
            lowest = middle
        else:
            highest = middle
    return math.exp(lowest)


@kernel
def _pull(unchanged: float, changed: float, expected: float, shape: float) -> float:
    """Return the derivative of the log-likelihood of intervals in which a rate of the mean makes shape · `expected`
    changes, by the logarithm of the mean, over `shape`.
    """
    share = expected / (1.0 + expected)
    quiet = shape * math.log1p(expected)
    return share * (changed / math.expm1(quiet) - unchanged) if quiet < _LARGEST_POWER else -share * unchanged


@kernel
def _deficit(x: float, grown: float) -> float:
    """Return 1 - x/(e^x - 1), given `grown` = e^x - 1, for x ≥ 0: x/2 for small x, 1 for large x."""
    if x < _SERIES_BELOW:
        y = x * x
        return 0.5 * x - y * (1 / 12 - y * (1 / 720 - y * (1 / 30240 - y * (1 / 1209600 - y / 47900160))))
    return 1.0 - x / grown


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


@bare_kernel
def convert_to_posterior(pages: Records, out: Floats) -> None:
    """Replace cycles by the probability that each of ``pages``: PAGE[m] changes in as many, at its rate. O(m)."""
    for i in range(out.size):
        out[i] = out[i] / (pages[i].prior_exposure + pages[i].own_exposure)
    take_log1p(out)
    for i in range(out.size):
        out[i] = out[i] * (pages[i].prior_shape + pages[i].own_shape)
    convert_to_probability(out)


@bare_kernel
def take_log1p(out: Floats) -> None:
    """Replace each of ``out``: float64[m] by the logarithm of 1 plus it. O(m)."""
    widen_vectors()
    for i in range(out.size):
        out[i] = log1p(out[i])


@bare_kernel
def convert_to_probability(out: Floats) -> None:
    """Replace expected numbers of changes by the probability of at least one. O(m)."""
    widen_vectors()
    for i in range(out.size):
        out[i] = min(0.0 - expm1(-out[i]), 1.0)
