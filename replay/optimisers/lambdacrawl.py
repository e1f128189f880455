"""LambdaCrawl's experiments: what policies cost if change rates are known, and while they are learned.

Kolobov et al. (2019), "Staying up to date with online content changes using reinforcement learning for scheduling",
figures 1 to 3, with the settings of the authors' code. That code stores the costs of one algorithm as those of all
three in experiment 3; here each has its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from streamsched.numerics.argument_checks import check_whole
from streamsched.optimal import (
    CrawlRates,
    SimulatedPages,
    approximate_crawl,
    binary_cost,
    binary_crawl,
    harmonic_cost,
    lambda_crawl,
    learn_and_crawl,
)
from streamsched.replay.optimisers.crawl_pages import CrawlPages, PageFile, generate_pages, read_pages, sample_pages

if TYPE_CHECKING:
    from streamsched.numerics.arrays import Bools, Floats
    from streamsched.replay.experiment import Progress

__all__ = ["BUDGET", "FLOOR", "CrawlExperiment", "CrawlSettings", "LearningRuns", "PolicyCost", "run_lambdacrawl"]

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


class PolicyCost(NamedTuple):
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
