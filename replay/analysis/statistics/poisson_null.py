"""Distribution of intervals under a Poisson process, the null hypothesis of `page_types`, and the test statistics."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from streamsched.numerics.jit import kernel

if TYPE_CHECKING:
    from streamsched.numerics.arrays import Floats, Ints

__all__ = ["CLEAR", "MIN_INTERVALS", "NEARLY", "binomial_tail", "exceedance", "score_intervals"]

MIN_INTERVALS: Final = 5  # minimum of intervals of a page for the tests of periods ...
_PER_BIN: Final = 5  # ... and per bin of the test for any other distribution
_MIN_BINS: Final = 3
_MAX_BINS: Final = 8
_TOLERANCE: Final = (
    24.0  # an interval is near a period within this fraction of it (an hour for a day), or within a step
)
CLEAR: Final = 4.0  # steps per period; with fewer, an interval "near" it may belong to a shorter period
NEARLY: Final = 0.9  # of a step: daily visits may be slightly more than a day apart


@kernel
def score_intervals(
    steps: Ints, offsets: Ints, step_s: Floats, periods_s: Floats, out: tuple[Floats, Ints, Floats, Floats, Ints]
) -> None:
    """Fill `out`: p-values, intervals near each period, expected ones, G and its degrees of freedom."""
    p_values, near, expected, ratio, freedom = out
    for page in range(step_s.size):
        own = steps[offsets[page] : offsets[page + 1]]
        count, total = own.size, own.sum()
        if count < MIN_INTERVALS:
            continue
        for place in range(periods_s.size):
            low, high = _near_steps(periods_s[place] / step_s[page])
            if high < low:
                continue
            found = 0
            for i in range(count):
                found += low <= own[i] <= high
            share = exceedance(low - 1, count, total) - exceedance(high, count, total)
            near[page, place] = found
            expected[page, place] = count * share
            p_values[page, place] = binomial_tail(found, count, share)
        ratio[page], freedom[page] = _test_shape(own, total)


@kernel
def _near_steps(period: float) -> tuple[int, int]:
    """Return the least and the most steps near a period given in steps; 1 and 0 if it is shorter than a step."""
    if period < NEARLY:
        return 1, 0
    if period < CLEAR:
        nearest = max(1, int(np.rint(period)))
        return nearest, nearest
    within = max(1.0, period / _TOLERANCE)
    return max(1, int(np.ceil(period - within - 1e-9))), int(np.floor(period + within + 1e-9))


@kernel
def exceedance(steps: float, count: int, total: int) -> float:
    """Return P(an interval > steps) for `count` random intervals with a sum of `total` steps. O(1)."""
    if steps <= 0:
        return 1.0
    if total - steps < count:
        return 0.0
    if total > 1_000_000_000 or total > 10_000 * count:  # whole steps make no difference, and lgamma loses digits
        return float((1.0 - steps / total) ** (count - 1))
    left = math.lgamma(total - steps) - math.lgamma(total - steps - count + 1)
    return float(math.exp(left - math.lgamma(total) + math.lgamma(total - count + 1)))


@kernel
def binomial_tail(found: int, count: int, share: float) -> float:
    """Return P(X ≥ found) for X ~ Binomial(count, share). O(count)."""
    if found <= 0 or share >= 1.0:
        return 1.0
    if share <= 0.0:
        return 0.0
    log_term = (
        math.lgamma(count + 1)
        - math.lgamma(found + 1)
        - math.lgamma(count - found + 1)
        + found * math.log(share)
        + (count - found) * math.log1p(-share)
    )
    term, tail = 1.0, 0.0  # relative to the first term, which may underflow
    odds = share / (1.0 - share)
    for k in range(found, count + 1):
        tail += term
        term *= (count - k) / (k + 1) * odds
    return float(min(1.0, math.exp(log_term + math.log(tail))))


@kernel
def _test_shape(own: Ints, total: int) -> tuple[float, int]:
    """Return G of the intervals `own` against random ones of the same sum, and its degrees of freedom (0: no test)."""
    count = own.size
    bins = min(_MAX_BINS, count // _PER_BIN)
    if bins < _MIN_BINS:
        return 0.0, 0
    edges, filled = np.zeros(bins + 1, np.int64), 0
    for place in range(1, bins):
        beyond = 1.0 - place / bins
        edge = np.int64(np.rint(total * (1.0 - beyond ** (1.0 / (count - 1)))))
        if edge > edges[filled]:
            filled += 1
            edges[filled] = edge
    filled += 1
    edges[filled] = total
    if filled < _MIN_BINS:
        return 0.0, 0
    found = np.zeros(filled, np.int64)
    for i in range(count):
        place = 0
        while own[i] > edges[place + 1]:
            place += 1
        found[place] += 1
    ratio = 0.0
    for place in range(filled):
        expected = count * (exceedance(edges[place], count, total) - exceedance(edges[place + 1], count, total))
        if found[place] > 0:
            ratio += 2.0 * found[place] * math.log(found[place] / max(expected, 1e-300))
    correction = 1.0 + (filled + 1) / (6.0 * count)  # Williams's correction for small samples
    return ratio / correction, filled - 2
