"""Learns how often pages change from their histories of visits or of signals, which may differ in length.

Maximum likelihood for Poisson changes, smoothed by imagined observations so that rates stay finite. Kolobov et al.
(2019), "Staying up to date with online content changes using reinforcement learning for scheduling", equations 10, 11.
`learn_and_crawl` is their algorithm 4, on simulated pages: epochs of solving for visit rates, crawling, and learning
from what visits saw.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from streamsched.errors import SettingsError
from streamsched.numerics.argument_checks import check_whole
from streamsched.numerics.arrays import Bools, Floats, Ints
from streamsched.numerics.jit import inlined_kernel, kernel
from streamsched.numerics.vector_math import expm1
from streamsched.optimal.array_checks import check_flags, check_length, check_offsets, check_values
from streamsched.optimal.crawl_problem import (
    CrawlRates,
    check_budget,
    check_pages,
    mean_binary_cost,
    mean_harmonic_cost,
)
from streamsched.optimal.lambda_crawl import lambda_crawl

LOWEST_RATE: Final = 0.0005  # changes per cycle; the bounds are the authors'
HIGHEST_RATE: Final = 7.0
_IMAGINED: Final = 0.5  # cycles: length of an imagined interval with a change, and of one without
_TOLERANCE: Final = 1e-14  # of a rate
_MOST_STEPS: Final = 100  # of Newton's method, which takes about five
_FIRST_RATE: Final = 1.0  # changes per cycle of every page, before anything is learned
_LENGTH: Final = 1.0  # cycles, of an epoch


def learn_rates(times: npt.ArrayLike, changed: npt.ArrayLike, offsets: npt.ArrayLike | None = None) -> Floats:
    """Return the change rates, float64[n], of pages whose changes only visits can see. O(visits).

    - ``times``: float64[v], of visits, ascending for each page, in cycles since the page was known to be fresh;
    - ``changed``: bool[v], whether the visit found the page changed since the one before it;
    - ``offsets``: int64[n + 1]; the visits of page i are those from ``offsets[i]`` to ``offsets[i + 1]``. Default: all
      visits are of one page.

    A rate is the root of sum over changed intervals of w/(e^(rate w) - 1) = sum over the others of w, with an imagined
    interval of half a cycle of either kind, from `LOWEST_RATE` to `HIGHEST_RATE`. Raises SettingsError for times that
    are negative, not finite or descending, and for unequal lengths.

    >>> learn_rates([1, 2, 4], [True, False, True]).round(6).tolist()
    [1.068025]
    >>> learn_rates([1, 2, 4, 9], [True, False, True, False], offsets=[0, 3, 3, 4]).round(6).tolist()
    [1.068025, 1.386294, 0.102587]
    """
    moments, bounds = _check_histories(times, offsets)
    flags = check_flags("changed", changed, may_be_empty=True)
    check_length("changed", flags, moments.size, "visit")
    rates = np.empty(bounds.size - 1)
    _learn(moments, flags, bounds, rates)
    return rates


def learn_complete_rates(times: npt.ArrayLike, offsets: npt.ArrayLike | None = None, *, until: npt.ArrayLike) -> Floats:
    """Return the change rates, float64[n], of pages whose changes are all announced. O(changes).

    A rate is (changes + 0.5)/(time + 0.5). Arguments are those of `learn_rates`, with the times of changes; ``until``:
    float or float64[n], the end of the time in which changes were announced. Raises SettingsError likewise, and for a
    change after `until`.

    >>> learn_complete_rates([1, 2.5], until=4).round(6).tolist()
    [0.555556]
    """
    moments, bounds = _check_histories(times, offsets)
    ends = _check_ends(until, bounds.size - 1)
    last = np.diff(bounds, prepend=0)[1:] > 0
    late = np.flatnonzero(last)[moments[bounds[1:][last] - 1] > ends[last]]
    if late.size:
        index = int(bounds[late[0] + 1]) - 1
        raise SettingsError(f"times[{index}]", float(moments[index]), f"at most until = {ends[late[0]]:g}")
    return smoothed_rate(np.diff(bounds), ends)


def smoothed_rate(changes: Ints, time: Floats | float) -> Floats:
    """Return the change rates of pages with `changes` in `time` cycles, and half a change in half a cycle more."""
    return np.asarray((changes + _IMAGINED) / (time + _IMAGINED), np.float64)


def _check_histories(times: npt.ArrayLike, offsets: npt.ArrayLike | None) -> tuple[Floats, Ints]:
    moments = check_values("times", times, may_be_empty=offsets is not None)
    bounds = check_offsets([0, moments.size] if offsets is None else offsets, moments.size)
    first = np.zeros(moments.size, np.bool_)
    first[bounds[:-1][bounds[:-1] < moments.size]] = True
    falls = np.flatnonzero((np.diff(moments) < 0.0) & ~first[1:])
    if falls.size:
        index = int(falls[0]) + 1
        expected = f"{moments[index - 1]:g} or more, the page's time before it"
        raise SettingsError(f"times[{index}]", float(moments[index]), expected)
    return moments, bounds


def _check_ends(until: npt.ArrayLike, pages: int) -> Floats:
    if isinstance(until, int | float | np.integer | np.floating):
        return np.repeat(check_values("until", [float(until)]), pages)
    ends = check_values("until", until)
    check_length("until", ends, pages, "page")
    return ends


@kernel
def _learn(times: Floats, changed: Bools, offsets: Ints, rates: Floats) -> None:
    for page in range(rates.size):
        rates[page] = _most_likely_rate(times, changed, offsets[page], offsets[page + 1])


@inlined_kernel
def _most_likely_rate(times: Floats, changed: Bools, begin: int, end: int) -> float:
    """Return the root of `_slope`, which falls and is convex: Newton's method from below never passes it."""
    changes, changed_time, same_time = 1.0, _IMAGINED, _IMAGINED
    before = 0.0
    for i in range(begin, end):
        interval = times[i] - before
        before = times[i]
        if changed[i]:
            changes += 1.0
            changed_time += interval
        else:
            same_time += interval
    rate = max(LOWEST_RATE, changes / (0.5 * changed_time + same_time))  # below the root: 1/(e^y - 1) >= 1/y - 1/2
    for _ in range(_MOST_STEPS):
        if rate >= HIGHEST_RATE:
            return HIGHEST_RATE
        value, fall = _slope(times, changed, begin, end, rate)
        step = (value - same_time) / fall
        if step <= _TOLERANCE * rate:
            return rate
        rate += step
    return rate


@inlined_kernel
def _slope(times: Floats, changed: Bools, begin: int, end: int, rate: float) -> tuple[float, float]:
    """Return the sum of w/(e^(rate w) - 1) over intervals w with a change, and how fast it falls with the rate."""
    term = _IMAGINED / expm1(rate * _IMAGINED)
    value, fall = term, term * (term + _IMAGINED)
    before = 0.0
    for i in range(begin, end):
        interval = times[i] - before
        before = times[i]
        if changed[i]:
            growth = expm1(rate * interval)
            term = interval / growth if growth > 0.0 else 1.0 / rate
            value += term
            fall += term * (term + interval)
    return value, fall


class Solve(Protocol):
    """Gives the visit rates of an epoch: `lambda_crawl`, `approximate_crawl`, or a function of these arguments."""

    def __call__(self, importance: Floats, change_rate: Floats, /, *, budget: float, complete: Bools) -> CrawlRates:
        """Return visit rates for the change rates as learned so far."""
        ...


@dataclass(frozen=True, slots=True)
class LearnedCrawl:
    """The result of learning while crawling.

    - ``harmonic_cost``, ``binary_cost``: float64[epochs], of each epoch's visit rates at the true change rates;
    - ``change_rate``: float64[n], learned by the end.
    """

    harmonic_cost: Floats
    binary_cost: Floats
    change_rate: Floats


class SimulatedPages:
    """Pages that change as Poisson processes of known rates, and the history of visits to them.

    - ``change_rate``: float64[n], true changes per cycle;
    - ``complete``: bool[n], whether a signal announces each change of the page.
    """

    def __init__(self, change_rate: npt.ArrayLike, complete: npt.ArrayLike | None = None, *, seed: int = 0) -> None:
        self.change_rate = check_values("change_rate", change_rate)
        count = self.change_rate.size
        self.complete = check_flags("complete", np.zeros(count, np.bool_) if complete is None else complete)
        check_length("complete", self.complete, count, "page")
        self.now = 0.0
        self._rng = np.random.default_rng(check_whole("seed", seed, 0, "a whole number, 0 or more"))
        self._signals = np.zeros(count, np.int64)
        self._last_visit = np.zeros(count)
        self._pages = np.empty(0, np.int64)
        self._times = np.empty(0)
        self._changed = np.empty(0, np.bool_)

    def crawl(self, visit_rate: Floats, length: float) -> None:
        """Visit incompletely observed pages as Poisson processes of `visit_rate`, for `length` cycles."""
        seen = np.where(self.complete, 0.0, visit_rate)
        pages = np.repeat(np.arange(seen.size), self._rng.poisson(seen * length))
        times = self.now + length * self._rng.random(pages.size)
        order = np.lexsort((times, pages))
        times = times[order]
        before = np.concatenate(([0.0], times[:-1]))[: times.size]
        first = np.diff(pages, prepend=-1) > 0
        before[first] = self._last_visit[pages[first]]
        changed = self._rng.random(pages.size) < -np.expm1(-self.change_rate[pages] * (times - before))
        self._last_visit[pages] = times  # the last of a page's visits wins
        self._pages = np.concatenate((self._pages, pages))
        self._times = np.concatenate((self._times, times))
        self._changed = np.concatenate((self._changed, changed))
        self._signals += self._rng.poisson(np.where(self.complete, self.change_rate, 0.0) * length)
        self.now += length

    def learn(self) -> Floats:
        """Return the change rates, float64[n], that the history so far makes most likely. O(n + visits)."""
        order = np.argsort(self._pages, kind="stable")
        counts = np.bincount(self._pages, minlength=self.complete.size)
        offsets = np.concatenate(([0], np.cumsum(counts)))
        seen = learn_rates(self._times[order], self._changed[order], offsets)
        return np.where(self.complete, smoothed_rate(self._signals, self.now), seen)


def learn_and_crawl(
    importance: npt.ArrayLike,
    simulated: SimulatedPages,
    *,
    budget: float,
    epochs: int = 21,
    solve: Solve = lambda_crawl,
) -> LearnedCrawl:
    """Crawl `simulated` pages for `epochs` of one cycle, each with the visit rates of what was learned before it.

    O(epochs * (n + visits so far)). All pages change once a cycle before anything is learned. ``importance``:
    float64[n]; ``budget``: visits per cycle. The default of 21 epochs is the authors' experiment 3. Raises
    SettingsError for invalid arguments.

    >>> pages = SimulatedPages([0.1, 0.5, 1.0], seed=1)
    >>> learned = learn_and_crawl([1, 2, 3], pages, budget=1, epochs=200)
    >>> learned.harmonic_cost[[0, -1]].round(2).tolist()
    [1.89, 1.86]
    """
    rates = simulated.change_rate
    pages = check_pages(importance, rates, simulated.complete)
    amount = check_budget(budget)
    count = check_whole("epochs", epochs, 1, "a whole number of epochs, 1 or more")
    harmonic, binary = np.empty(count), np.empty(count)
    learned = np.full(rates.size, _FIRST_RATE)
    for epoch in range(count):
        crawl = solve(pages.importance, learned, budget=amount, complete=pages.complete)
        policy = crawl.visit_rate, crawl.visit_probability
        harmonic[epoch] = mean_harmonic_cost(pages.importance, rates, *policy)
        binary[epoch] = mean_binary_cost(pages.importance, rates, *policy)
        simulated.crawl(crawl.visit_rate, _LENGTH)
        learned = simulated.learn()
    return LearnedCrawl(harmonic, binary, learned)
