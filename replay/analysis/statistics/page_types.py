"""Which pages change hourly, daily or weekly rather than at random: a likelihood-ratio test on each page's history.

Under a Poisson process the K intervals of a page, seen at whole steps and S steps long together, are as likely to
be any K whole numbers with that sum. So whatever the page's rate, P(an interval > x) is
C(S - x - 1, K - 1)/C(S - 1, K - 1): nothing is estimated. Against this stand, for each period, pages of whose intervals
more lie near the period, and pages whose intervals are spread in any other way.

- *Near a period*: W of K intervals within the tolerance, pi expected. The likelihood ratio of "W/K of them" to "pi"
  rises with W, so the test rejects for large W, and its p-value is the binomial's tail.
- *Any other way*: the intervals are sorted into bins that Poisson intervals fill alike, and the likelihood ratio of
  "as found" to "as expected" (G) is a chi-square with two degrees of freedom less than bins.

A page is named where one of the tests rejects at the level over their number: so no more than the level of all Poisson
pages are misnamed. It is named after the period of the smallest p-value among those that a third of its intervals or
more are near; "other" where there is none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.special import chdtrc

from streamsched.numerics.arrays import Bools, Floats, Ints
from streamsched.replay.analysis.statistics.observation import Observation
from streamsched.replay.analysis.statistics.poisson_null import CLEAR, MIN_INTERVALS, NEARLY, score_intervals

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
"""What a page may be named: consistent with Poisson, near a period, neither, changed at nearly every visit so that no
test could tell, or of too few intervals."""

_SIMULATED: Final = 20_000  # pages drawn to see how many Poisson ones are misnamed: a level of 1 % to within 0.1 % ...
_INTERVALS: Final = 4_000_000  # ... or fewer of many intervals
_GENERAL: Final = len(PERIODS_S)  # the place of the test for other ways among the tests

_PERIOD_SHARE: Final = 1 / 3  # of its intervals near a period, from which on a page is named after that
_FAST_SHARE: Final = 0.9  # of intervals of one step, from which on a page changes at nearly every visit
UNTESTED: Final = ("fast", "few")
"""The kinds of pages of which no test tells anything."""

_POISSON, _OTHER, _FAST, _FEW = (PAGE_TYPES.index(kind) for kind in ("poisson", "other", "fast", "few"))


@dataclass(frozen=True, slots=True, eq=False)
class Tests:
    """What the tests found on n pages.

    ``p_values``: float64[n, 4], for each period and for other ways, NaN where a page was not tested so. ``near``:
    int64[n, 3] and ``expected``: float64[n, 3], intervals near each period, seen and under Poisson, 0 where not tested.
    ``counts``: int64[n], intervals; ``fast``: bool[n], whether nearly all of them are of one step.
    """

    p_values: Floats
    near: Ints
    expected: Floats
    counts: Ints
    fast: Bools

    @property
    def tested(self) -> Bools:
        """Which pages were tested at all: bool[n]."""
        return np.asarray(~np.isnan(self.p_values).all(axis=1))


@dataclass(frozen=True, slots=True, eq=False)
class PageTypes:
    """How many pages are of each kind, and how many would be misnamed.

    By kind in PAGE_TYPES: ``counts``, pages of the log; ``simulated``, shares of ``drawn`` simulated Poisson pages with as
    many intervals of the same mean as those tested. By period: ``near`` and ``expected``, how many intervals of tested
    pages lie near it and how many would under Poisson; ``intervals``, of how many. ``unclear``: periods that the step
    is too long to tell from shorter ones; ``untestable``: those shorter than the step.
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
        """How many pages a test could tell something of."""
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
    """Return the place in PAGE_TYPES of each page's kind: int64[n]. O(n).

    >>> p_values = np.array([[1.0, 1e-9, 0.5, 1e-12], [1.0, 0.4, 0.5, 1e-5], [np.nan] * 4])
    >>> near, counts = np.full((3, 3), 8), np.array([20, 40, 2])
    >>> tests = Tests(p_values, near, np.zeros((3, 3)), counts, np.zeros(3, np.bool_))
    >>> [PAGE_TYPES[kind] for kind in classify_pages(tests, 0.01)]
    ['daily', 'other', 'few']
    """
    p_values = np.where(np.isnan(tests.p_values), 1.0, tests.p_values)
    bound = level / (_GENERAL + 1)
    rejected = (p_values <= bound).any(axis=1)
    periods = np.where(tests.near >= _PERIOD_SHARE * tests.counts[:, None], p_values[:, :_GENERAL], 1.0)
    best = periods.argmin(axis=1)
    kinds = np.where(rejected, _OTHER, np.where(tests.fast, _FAST, _POISSON))
    kinds = np.where(periods[np.arange(best.size), best] <= bound, best + 1, kinds)
    return np.asarray(np.where(tests.tested, kinds, _FEW), np.int64)


def count_page_types(seen: Observation, level: float, seed: int = 0) -> PageTypes:
    """Return how many pages are of each kind, and what to expect of Poisson pages. O(intervals)."""
    tests = test_pages(seen)
    named = classify_pages(tests, level)
    found = np.bincount(named[seen.visits > 0], minlength=len(PAGE_TYPES))
    drawn = simulate_poisson(seen, np.flatnonzero(tests.tested & (named != _FAST)), seed)
    misnamed = np.bincount(classify_pages(test_pages(drawn), level), minlength=len(PAGE_TYPES)) / max(
        1, drawn.visits.size
    )
    counts = np.diff(seen.offsets)
    totals = [int(counts[~np.isnan(tests.p_values[:, place])].sum()) for place in range(_GENERAL)]
    active = seen.step_s[counts >= MIN_INTERVALS]
    typical = float(np.median(active)) if active.size else 0.0
    return PageTypes(
        counts=dict(zip(PAGE_TYPES, found.tolist(), strict=True)),
        simulated=dict(zip(PAGE_TYPES, misnamed.tolist(), strict=True)),
        drawn=drawn.visits.size,
        near=dict(zip(PERIODS_S, tests.near.sum(0).tolist(), strict=True)),
        expected=dict(zip(PERIODS_S, tests.expected.sum(0).tolist(), strict=True)),
        intervals=dict(zip(PERIODS_S, totals, strict=True)),
        unclear=tuple(name for name, period_s in PERIODS_S.items() if period_s / CLEAR < typical <= period_s / NEARLY),
        untestable=tuple(name for name, period_s in PERIODS_S.items() if typical > period_s / NEARLY),
        level=level,
    )


def simulate_poisson(seen: Observation, pages: Ints, seed: int) -> Observation:
    """Return Poisson pages with as many intervals of the same mean as ``pages``: int64[k] have, some 20,000 in all.

    O(intervals). The same seed gives the same pages.
    """
    rng = np.random.default_rng(seed)
    counts = np.diff(seen.offsets)
    if pages.size:
        most = min(_SIMULATED, max(1, int(_INTERVALS / counts[pages].mean())))
        pages = pages[rng.permutation(max(most, pages.size))[:most] % pages.size]  # each as often as any, about
    counts = counts[pages]
    sums = np.concatenate([[0], np.cumsum(seen.steps)])
    totals = sums[seen.offsets[pages + 1]] - sums[seen.offsets[pages]]
    chance = np.repeat(counts / np.maximum(totals, 1), counts)
    offsets = np.zeros(pages.size + 1, np.int64)
    np.cumsum(counts, out=offsets[1:])
    steps = rng.geometric(chance) if chance.size else np.zeros(0, np.int64)
    step_s = seen.step_s[pages]
    return Observation(step_s, totals, counts, totals * step_s, steps, offsets)
