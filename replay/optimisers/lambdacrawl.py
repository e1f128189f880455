"""LambdaCrawl's experiments: what policies cost if change rates are known, and while they are learned.

Kolobov et al. (2019), "Staying up to date with online content changes using reinforcement learning for scheduling",
figures 1 to 3, with the settings of the authors' code. That code stores the costs of one algorithm as those of all
three in experiment 3; here each has its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from streamsched.connectors.formats.microsoft import PageHistories, read_page_histories
from streamsched.connectors.reading.rejections import Rejections
from streamsched.connectors.source import Rejection
from streamsched.errors import SourceError
from streamsched.numerics.argument_checks import check_whole
from streamsched.numerics.arrays import Bools, Floats, Rows
from streamsched.optimal import (
    CrawlRates,
    SimulatedPages,
    approximate_crawl,
    binary_cost,
    binary_crawl,
    harmonic_cost,
    lambda_crawl,
    learn_and_crawl,
    learn_rates,
)
from streamsched.replay.experiment import Progress

_COMPLETE: Final = 25  # one page in 25 has complete observations, as in the published data
_IMPORTANCE: Final = (1, 1000)
_RATES: Final = (0.0005, 7.0)  # changes a day; the bounds of the authors' estimates
_LOG_RATE: Final = (-2.0, 1.2)  # mean and standard deviation of the rates' logarithms


@dataclass(frozen=True, slots=True, eq=False)
class CrawlPages:
    """Pages: ``importance``, ``change_rate``: float64[n]; ``complete``: bool[n], whether a signal announces changes."""

    importance: Floats
    change_rate: Floats
    complete: Bools

    def take(self, rows: Rows | Bools) -> CrawlPages:
        """Return the pages at `rows`. O(n)."""
        return CrawlPages(self.importance[rows], self.change_rate[rows], self.complete[rows])


@dataclass(frozen=True, slots=True, eq=False)
class PageFile:
    """Pages of Microsoft's files; ``unknown``: how many were left out because they have no importance."""

    pages: CrawlPages
    unknown: int
    rejected: int
    rejections: Sequence[Rejection]


def generate_pages(count: int, seed: int | Sequence[int]) -> CrawlPages:
    """Return `count` random pages, the first 4 % with complete observations. O(count).

    Importances are uniform from 1 to 1000, change rates log-normal from 0.0005 to 7 a day. The same seed gives the same
    pages; those of seed 0 are the ones that the authors' code was run on.
    """
    rng = np.random.default_rng(seed)
    importance = rng.integers(_IMPORTANCE[0], _IMPORTANCE[1] + 1, count).astype(np.float64)
    change_rate = np.clip(rng.lognormal(*_LOG_RATE, count), *_RATES)
    return CrawlPages(importance, change_rate, np.arange(count) < count // _COMPLETE)


def sample_pages(pages: CrawlPages, count: int, seed: int | Sequence[int]) -> CrawlPages:
    """Return at most `count` of the pages, as large a share of those with complete observations as of the others. O(n).

    >>> sampled = sample_pages(generate_pages(1000, 0), 100, 1)
    >>> sampled.complete.size, int(sampled.complete.sum())
    (100, 4)
    """
    rng = np.random.default_rng(seed)
    share = min(1.0, count / pages.complete.size)
    kinds = [np.flatnonzero(pages.complete == kind) for kind in (False, True)]
    return pages.take(np.concatenate([rng.choice(rows, int(share * rows.size), replace=False) for rows in kinds]))


def read_pages(path: str) -> PageFile:
    """Read Microsoft's ``urlid_offset_history.txt`` and its companions; learn change rates as the authors do. O(bytes).

    Pages without a published change rate have the most likely one of their visits. Raises SourceError if a file cannot
    be read, and if no page has an importance.
    """
    rejections, chunks, unknown = Rejections(), [], 0
    for histories in read_page_histories(path, rejections):
        pages = _learn_pages(histories)
        known = ~np.isnan(pages.importance)
        unknown += int(np.count_nonzero(~known))
        chunks.append(pages.take(known))
    if not any(chunk.complete.size for chunk in chunks):
        raise SourceError(path, "expected one page or more with an importance, found none")
    columns = zip(*((one.importance, one.change_rate, one.complete) for one in chunks), strict=True)
    return PageFile(CrawlPages(*map(np.concatenate, columns)), unknown, rejections.count, tuple(rejections.last))


def _learn_pages(histories: PageHistories) -> CrawlPages:
    complete = ~np.isnan(histories.change_rate)
    if not complete.size:
        return CrawlPages(histories.importance, histories.change_rate, complete)
    seen = learn_rates(histories.times, histories.changed, histories.offsets)
    return CrawlPages(histories.importance, np.where(complete, histories.change_rate, seen), complete)


BUDGET: Final = 0.2  # visits a page and day
FLOOR: Final = 0.4  # of the binary policy: the best of 0, 0.1 to 1 on the authors' data


@dataclass(frozen=True, slots=True, kw_only=True)
class CrawlSettings:
    """Settings of the experiments; the defaults are the authors'.

    - ``data``: Microsoft's ``urlid_offset_history.txt``, its companions beside it; None generates pages;
    - ``pages``: how many pages are generated; how many each run of experiment 3 samples or generates;
    - ``runs``, ``epochs``: of experiment 3; an epoch is a day.

    Raises SettingsError for numbers that are too small.
    """

    data: str | None = None
    pages: int = 100_000
    runs: int = 20
    epochs: int = 21
    seed: int = 0

    def __post_init__(self) -> None:
        check_whole("pages", self.pages, 25, "a whole number of pages, 25 or more: one of 25 announces its changes")
        for name in ("runs", "epochs"):
            check_whole(name, getattr(self, name), 1, f"a whole number of {name}, 1 or more")
        check_whole("seed", self.seed, 0, "a whole number, 0 or more")


@dataclass(frozen=True, slots=True)
class PolicyCost:
    """Mean costs of a policy; ``signals``: whether it uses complete observations or ignores them."""

    policy: str
    signals: bool
    harmonic: float
    binary: float


@dataclass(frozen=True, slots=True, eq=False)
class LearningRuns:
    """Harmonic costs while a policy learns, float64[runs, epochs], and with known rates, float64[runs]."""

    policy: str
    costs: Floats
    known: Floats


@dataclass(frozen=True, slots=True, eq=False)
class CrawlExperiment:
    """Results: ``every_page`` of experiment 1; ``announced`` of 2, empty without such pages; ``learning`` of 3."""

    settings: CrawlSettings
    pages: int
    complete: int
    every_page: Sequence[PolicyCost]
    announced: Sequence[PolicyCost]
    learning: Sequence[LearningRuns]
    file: PageFile | None


class _Policy(NamedTuple):
    name: str
    signals: bool
    solve: Callable[..., CrawlRates]


def _binary(importance: Floats, change_rate: Floats, /, *, budget: float, complete: Bools) -> CrawlRates:  # noqa: ARG001  it ignores signals
    return binary_crawl(importance, change_rate, budget=budget, floor=FLOOR)


_LEARNERS: Final = (
    _Policy("LambdaCrawl", True, lambda_crawl),
    _Policy("approximation", True, approximate_crawl),
    _Policy("binary, floor 0.4", False, _binary),
)


def run_lambdacrawl(settings: CrawlSettings, progress: Progress | None = None) -> CrawlExperiment:
    """Run experiments 1 to 3; the same settings give the same result to the last bit.

    `progress` is called after each step. O(runs * epochs * (pages + visits)). Raises SourceError if the data cannot be
    read.
    """
    file = None if settings.data is None else read_pages(settings.data)
    pages = generate_pages(settings.pages, settings.seed) if file is None else file.pages
    every_page = _cost_policies(pages)
    announced = _cost_policies(pages.take(pages.complete)) if pages.complete.any() else ()
    learning = _learn_in_runs(pages, settings, progress)
    return CrawlExperiment(
        settings, pages.complete.size, int(pages.complete.sum()), every_page, announced, learning, file
    )


def _cost_policies(pages: CrawlPages) -> tuple[PolicyCost, ...]:
    """Return the costs of the policies of experiments 1 and 2, in the authors' order."""
    importance, rates, complete = pages.importance, pages.change_rate, pages.complete
    budget = BUDGET * rates.size
    uniform, proportional = np.full(rates.size, BUDGET), rates * (budget / rates.sum())
    found = [_cost(name, pages, visits) for name, visits in (("uniform", uniform), ("proportional", proportional))]
    for floor in (FLOOR, 0.0):
        crawl = binary_crawl(importance, rates, budget=budget, floor=floor)
        found.append(_cost(f"binary, floor {floor:g}", pages, crawl.visit_rate))
    for name, solve in (("approximation", approximate_crawl), ("LambdaCrawl", lambda_crawl)):
        crawl = solve(importance, rates, budget=budget, complete=complete)
        found.append(_cost(name, pages, crawl.visit_rate, crawl.visit_probability))
        found.append(_cost(name, pages, solve(importance, rates, budget=budget).visit_rate))
    return tuple(found)


def _cost(name: str, pages: CrawlPages, visits: Floats, chances: Floats | None = None) -> PolicyCost:
    columns = (pages.importance, pages.change_rate, visits, chances)
    return PolicyCost(name, chances is not None, harmonic_cost(*columns), binary_cost(*columns))


def _learn_in_runs(pages: CrawlPages, settings: CrawlSettings, progress: Progress | None) -> tuple[LearningRuns, ...]:
    costs = np.empty((len(_LEARNERS), settings.runs, settings.epochs))
    known = np.empty((len(_LEARNERS), settings.runs))
    for run in range(settings.runs):
        seeds = settings.seed, 1 + run
        drawn = sample_pages(pages, settings.pages, seeds) if settings.data else generate_pages(settings.pages, seeds)
        for place, policy in enumerate(_LEARNERS):
            costs[place, run], known[place, run] = _learn(policy, drawn, settings, run)
            if progress is not None:
                done = len(_LEARNERS) * run + place + 1
                progress(done, len(_LEARNERS) * settings.runs, f"experiment 3, run {run + 1}, {policy.name}")
    return tuple(LearningRuns(one.name, costs[place], known[place]) for place, one in enumerate(_LEARNERS))


def _learn(policy: _Policy, pages: CrawlPages, settings: CrawlSettings, run: int) -> tuple[Floats, float]:
    """Return the harmonic cost of each epoch of learning, and that of the policy if rates are known."""
    importance, rates = pages.importance, pages.change_rate
    complete = pages.complete if policy.signals else np.zeros(rates.size, np.bool_)
    budget = BUDGET * rates.size
    seed = int(np.random.SeedSequence((settings.seed, run)).generate_state(1)[0])
    simulated = SimulatedPages(rates, complete, seed=seed)
    learned = learn_and_crawl(importance, simulated, budget=budget, epochs=settings.epochs, solve=policy.solve)
    crawl = policy.solve(importance, rates, budget=budget, complete=complete)
    return learned.harmonic_cost, harmonic_cost(importance, rates, crawl.visit_rate, crawl.visit_probability)
