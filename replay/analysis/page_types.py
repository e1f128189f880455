"""Classify pages that change hourly, daily or weekly, not at random: likelihood-ratio tests on each page's history.

Under a Poisson process the K intervals of a page, seen at whole steps and S steps long in total, are equally likely to
be any K positive integers with that sum. So P(an interval > x) is C(S - x - 1, K - 1)/C(S - 1, K - 1) at any rate, and
no parameter is estimated. The alternatives are pages with more intervals near a period, and pages with any other
distribution of intervals.

- *Near a period*: W of K intervals lie within the tolerance, a share pi is expected. The likelihood ratio rises with W,
  so the test rejects for large W, and its p-value is the tail of the binomial distribution.
- *Any other way*: bins have equal probability for Poisson intervals. The likelihood ratio of observed to expected
  counts (G) follows a chi-square distribution with two degrees of freedom fewer than bins.

A page is classified if one of the tests rejects at the level divided by their number, so at most the level of all
Poisson pages are misclassified. Its type is the period with the smallest p-value among those near at least a third of
its intervals, or "other" if there is none.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.special import chdtrc

from streamsched.numerics.arrays import Bools, Floats, Ints
from streamsched.numerics.jit import kernel
from streamsched.replay.analysis.observation import Observation

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


PERIODS_S: Final = {"hourly": 3_600.0, "daily": 86_400.0, "weekly": 604_800.0}
PAGE_TYPES: Final = ("poisson", *PERIODS_S, "other", "fast", "few")
"""Page types: consistent with Poisson, near a period, neither, changed at nearly every visit so that no test applies,
or with too few intervals."""

_SIMULATED: Final = 20_000  # simulated pages: they estimate a level of 1 % to within 0.1 % ...
_INTERVALS: Final = 4_000_000  # ... fewer if they have many intervals
_GENERAL: Final = len(PERIODS_S)  # index of the test for any other distribution

_PERIOD_SHARE: Final = 1 / 3  # share of its intervals near a period for a page to have that type
_FAST_SHARE: Final = 0.9  # share of intervals of one step, above which a page changes at nearly every visit
UNTESTED: Final = ("fast", "few")
"""Page types to which no test applies."""

_POISSON, _OTHER, _FAST, _FEW = (PAGE_TYPES.index(kind) for kind in ("poisson", "other", "fast", "few"))


@dataclass(frozen=True, slots=True, eq=False)
class Tests:
    """Test results of n pages.

    ``p_values``: float64[n, 4], for each period and for any other distribution, NaN if not tested. ``near``:
    int64[n, 3] and ``expected``: float64[n, 3], intervals near each period, observed and under Poisson, 0 if not
    tested.
    ``counts``: int64[n], intervals. ``fast``: bool[n], whether nearly all of them are one step long.
    """

    p_values: Floats
    near: Ints
    expected: Floats
    counts: Ints
    fast: Bools

    @property
    def tested(self) -> Bools:
        """Which pages had any test: bool[n]."""
        return np.asarray(~np.isnan(self.p_values).all(axis=1))


@dataclass(frozen=True, slots=True, eq=False)
class PageTypes:
    """Number of pages of each type, and the expected number of misclassified pages.

    By type in PAGE_TYPES: ``counts``, pages of the log; ``simulated``, shares of ``drawn`` simulated Poisson pages with
    as many intervals of the same mean as the tested pages. By period: ``near`` and ``expected``, intervals of tested
    pages near it, observed and under Poisson; ``intervals``, the total. ``unclear``: periods that the step is too long
    to distinguish from shorter ones; ``untestable``: periods shorter than the step.
    """

    counts: dict[str, int]
    simulated: dict[str, float]
    drawn: int
    near: dict[str, int]
    expected: dict[str, float]
    intervals: dict[str, int]
    unclear: tuple[str, ...]
    untestable: tuple[str, ...]
    level: float

    @property
    def tested(self) -> int:
        """Pages with at least one test."""
        return sum(count for kind, count in self.counts.items() if kind not in UNTESTED)


def test_pages(seen: Observation) -> Tests:
    """Return the tests of all pages. O(intervals)."""
    pages = seen.visits.size
    periods = np.array(list(PERIODS_S.values()))
    p_values = np.full((pages, _GENERAL + 1), np.nan)
    near, expected = np.zeros((pages, _GENERAL), np.int64), np.zeros((pages, _GENERAL))
    ratio, freedom = np.zeros(pages), np.zeros(pages, np.int64)
    score_intervals(seen.steps, seen.offsets, seen.step_s, periods, (p_values, near, expected, ratio, freedom))
    general = freedom > 0
    p_values[general, _GENERAL] = chdtrc(freedom[general], ratio[general])
    ones = np.concatenate([[0], np.cumsum(seen.steps == 1)])
    quick, counts = ones[seen.offsets[1:]] - ones[seen.offsets[:-1]], np.diff(seen.offsets)
    return Tests(p_values, near, expected, counts, quick >= np.maximum(1, _FAST_SHARE * counts))


test_pages.__test__ = False  # type: ignore[attr-defined]


def classify_pages(tests: Tests, level: float) -> Ints:
    """Return the index in PAGE_TYPES of each page's type: int64[n]. O(n).

    >>> p_values = np.array([[1.0, 1e-9, 0.5, 1e-12], [1.0, 0.4, 0.5, 1e-5], [np.nan] * 4])
    >>> near, counts = np.full((3, 3), 8), np.array([20, 40, 2])
    >>> tests = Tests(p_values, near, np.zeros((3, 3)), counts, np.zeros(3, np.bool_))
    >>> [PAGE_TYPES[index] for index in classify_pages(tests, 0.01)]
    ['daily', 'other', 'few']
    """
    p_values = np.where(np.isnan(tests.p_values), 1.0, tests.p_values)
    bound = level / (_GENERAL + 1)
    rejected = (p_values <= bound).any(axis=1)
    periods = np.where(tests.near >= _PERIOD_SHARE * tests.counts[:, None], p_values[:, :_GENERAL], 1.0)
    best = periods.argmin(axis=1)
    types = np.where(rejected, _OTHER, np.where(tests.fast, _FAST, _POISSON))
    types = np.where(periods[np.arange(best.size), best] <= bound, best + 1, types)
    return np.asarray(np.where(tests.tested, types, _FEW), np.int64)


def count_page_types(seen: Observation, level: float, seed: int = 0) -> PageTypes:
    """Return the number of pages of each type, and what Poisson pages would give. O(intervals)."""
    tests = test_pages(seen)
    types = classify_pages(tests, level)
    found = np.bincount(types[seen.visits > 0], minlength=len(PAGE_TYPES))
    drawn = simulate_poisson(seen, np.flatnonzero(tests.tested & (types != _FAST)), seed)
    misclassified = np.bincount(classify_pages(test_pages(drawn), level), minlength=len(PAGE_TYPES)) / max(
        1, drawn.visits.size
    )
    counts = np.diff(seen.offsets)
    totals = [int(counts[~np.isnan(tests.p_values[:, place])].sum()) for place in range(_GENERAL)]
    active = seen.step_s[counts >= MIN_INTERVALS]
    typical = float(np.median(active)) if active.size else 0.0
    return PageTypes(
        counts=dict(zip(PAGE_TYPES, found.tolist(), strict=True)),
        simulated=dict(zip(PAGE_TYPES, misclassified.tolist(), strict=True)),
        drawn=drawn.visits.size,
        near=dict(zip(PERIODS_S, tests.near.sum(0).tolist(), strict=True)),
        expected=dict(zip(PERIODS_S, tests.expected.sum(0).tolist(), strict=True)),
        intervals=dict(zip(PERIODS_S, totals, strict=True)),
        unclear=tuple(name for name, period_s in PERIODS_S.items() if period_s / CLEAR < typical <= period_s / NEARLY),
        untestable=tuple(name for name, period_s in PERIODS_S.items() if typical > period_s / NEARLY),
        level=level,
    )


def simulate_poisson(seen: Observation, pages: Ints, seed: int) -> Observation:
    """Return Poisson pages with as many intervals of the same mean as ``pages``: int64[k] have, about 20,000 in total.

    O(intervals). The same seed gives the same pages.
    """
    rng = np.random.default_rng(seed)
    counts = np.diff(seen.offsets)
    if pages.size:
        most = min(_SIMULATED, max(1, int(_INTERVALS / counts[pages].mean())))
        pages = pages[rng.permutation(max(most, pages.size))[:most] % pages.size]  # each about equally often
    counts = counts[pages]
    sums = np.concatenate([[0], np.cumsum(seen.steps)])
    totals = sums[seen.offsets[pages + 1]] - sums[seen.offsets[pages]]
    chance = np.repeat(counts / np.maximum(totals, 1), counts)
    offsets = np.zeros(pages.size + 1, np.int64)
    np.cumsum(counts, out=offsets[1:])
    steps = rng.geometric(chance) if chance.size else np.zeros(0, np.int64)
    step_s = seen.step_s[pages]
    return Observation(step_s, totals, counts, totals * step_s, steps, offsets)
