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

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
from scipy.special import chdtrc

from streamsched.replay.analysis.statistics.observation import Observation
from streamsched.replay.analysis.statistics.poisson_null import CLEAR, MIN_INTERVALS, NEARLY, score_intervals

if TYPE_CHECKING:
    from streamsched.numerics.arrays import Bools, Floats, Ints

__all__ = [
    "PAGE_TYPES",
    "PERIODS_S",
    "UNTESTED",
    "PageTypes",
    "Tests",
    "classify_pages",
    "count_page_types",
    "simulate_poisson",
    "test_pages",
]

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
