"""WebFountain's experiments: crawl plans of three strategies, for two distributions of pages and two change rates.

Edwards, McCurley and Tomlin (2001), "An adaptive model for optimizing performance of an incremental web crawler",
section 5. The paper prints no budget: the one taken here makes strategy 1 end with as many obsolete pages as in table
3.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from streamsched.numerics.argument_checks import check_whole
from streamsched.numerics.arrays import Floats
from streamsched.optimal import CrawlPlan, paper_model, strategy_weights, webfountain
from streamsched.replay.experiment import Progress

OBSOLETE: Final = 30.86  # million pages that are obsolete at the end of strategy 1 in table 3
_FIRST_BUDGETS: Final = (50.0, 58.0)  # million pages a period; the one that fits lies between
_NEAR: Final = 5e-3  # of the obsolete pages: how near a budget comes to those in print
_MOST_STEPS: Final = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanSettings:
    """Settings of the experiments; the defaults are the paper's.

    - ``budget``: million pages a period; None finds the one that fits table 3;
    - ``starts`` of the search for each plan, ``buckets``, ``periods``: experiment 3 has twice as many too.

    Raises SettingsError for numbers that are too small.
    """

    budget: float | None = None
    starts: int = 1
    buckets: int = 255
    periods: int = 14
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("starts", "buckets", "periods"):
            check_whole(name, getattr(self, name), 1, f"a whole number of {name}, 1 or more")
        check_whole("seed", self.seed, 0, "a whole number, 0 or more")


class _Model(NamedTuple):
    """A run: version 3 is version 1 with half the change rates."""

    version: int
    strategy: int
    cycles: int  # of `periods` each


@dataclass(frozen=True, slots=True, eq=False)
class SolvedPlan:
    """A plan and what it was solved for; ``change_share``: float64[B]; ``plan``: in millions of pages."""

    version: int
    strategy: int
    periods: int
    change_share: Floats
    plan: CrawlPlan

    @property
    def crawls(self) -> Floats:
        """How often the pages of each bucket are crawled: float64[B], fastest first."""
        shares: Floats = self.plan.crawl_share.sum(axis=0)
        return shares

    @property
    def obsolete(self) -> Floats:
        """Obsolete pages after each period: float64[T], millions."""
        pages: Floats = self.plan.obsolete.sum(axis=1)
        return pages


@dataclass(frozen=True, slots=True, eq=False)
class WebExperiment:
    """All plans, at one budget."""

    settings: PlanSettings
    budget: float
    plans: Sequence[SolvedPlan]

    def find(self, version: int, strategy: int, cycles: int = 1) -> SolvedPlan:
        """Return the plan of a version and a strategy, for that many times the periods."""
        wanted = version, strategy, cycles * self.settings.periods
        return next(one for one in self.plans if (one.version, one.strategy, one.periods) == wanted)


_MODELS: Final = (
    *(_Model(1, strategy, 1) for strategy in (1, 2, 3)),
    *(_Model(2, strategy, 1) for strategy in (1, 3)),
    *(_Model(version, 1, cycles) for version, cycles in ((1, 2), (3, 1), (3, 2))),
)


def run_webfountain(settings: PlanSettings, progress: Progress | None = None) -> WebExperiment:
    """Run experiments 1 to 3; the same settings give the same result on the same machine.

    `progress` is called after each plan. A plan takes 2 to 30 s a start. Raises SettingsError if CasADi is missing.
    """
    budget = settings.budget
    if budget is None:
        budget = _calibrate(lambda trial: float(_solve(_MODELS[0], trial, settings, 1).obsolete[-1]))
    plans = []
    for place, model in enumerate(_MODELS):
        plans.append(_solve(model, budget, settings, settings.starts))
        if progress is not None:
            progress(place + 1, len(_MODELS), f"version {model.version}, strategy {model.strategy}")
    return WebExperiment(settings, budget, tuple(plans))


def _solve(model: _Model, budget: float, settings: PlanSettings, starts: int) -> SolvedPlan:
    periods = model.cycles * settings.periods
    slower = model.version == 3
    pages = paper_model(
        budget,
        version=1 if slower else model.version,
        periods=periods,
        change_scale=0.5 if slower else 1.0,
        buckets=settings.buckets,
    )
    plan = webfountain(pages, strategy_weights(model.strategy, periods), starts=starts, seed=settings.seed)
    return SolvedPlan(model.version, model.strategy, periods, pages.change_share, plan)


def _calibrate(obsolete: Callable[[float], float]) -> float:
    """Return the budget at which `obsolete` pages are nearest to those of table 3, by the secant method.

    A plan is a local optimum, so that its obsolete pages jump by 1 % from one budget to the next.
    """
    tried = [(budget, obsolete(budget)) for budget in _FIRST_BUDGETS]
    for _ in range(_MOST_STEPS):
        (before, found_before), (budget, found) = tried[-2:]
        if abs(found - OBSOLETE) <= _NEAR * OBSOLETE or found == found_before:
            break
        step = (OBSOLETE - found) * (budget - before) / (found - found_before)
        budget = min(max(budget + step, _FIRST_BUDGETS[0]), _FIRST_BUDGETS[1])
        tried.append((budget, obsolete(budget)))
    return min(tried, key=lambda one: abs(one[1] - OBSOLETE))[0]
