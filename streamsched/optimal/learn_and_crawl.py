"""Learns change rates while it crawls: epochs of solving for visit rates, crawling, and learning from what visits saw.

Kolobov et al. (2019), "Staying up to date with online content changes using reinforcement learning for scheduling",
algorithm 4, on simulated pages.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np
import numpy.typing as npt

from streamsched.numerics.argument_checks import check_whole
from streamsched.optimal.array_checks import check_flags, check_length, check_values
from streamsched.optimal.crawl_problem import CrawlRates, check_budget, check_pages
from streamsched.optimal.lambda_crawl import lambda_crawl
from streamsched.optimal.policy_cost import mean_binary_cost, mean_harmonic_cost
from streamsched.optimal.rate_learning import learn_rates, smoothed_rate

if TYPE_CHECKING:
    from streamsched.numerics.arrays import Bools, Floats

__all__ = ["LearnedCrawl", "SimulatedPages", "Solve", "learn_and_crawl"]

_FIRST_RATE: Final = 1.0  # changes per cycle of every page, before anything is learned
_LENGTH: Final = 1.0  # cycles, of an epoch


class Solve(Protocol):
    """What gives the visit rates of an epoch: `lambda_crawl`, `approximate_crawl`, or a function of these arguments."""

    def __call__(self, importance: Floats, change_rate: Floats, /, *, budget: float, complete: Bools) -> CrawlRates:
        """Return visit rates for the change rates as learned so far."""
        ...


@dataclass(frozen=True, slots=True)
class LearnedCrawl:
    """What learning while crawling came to.

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
