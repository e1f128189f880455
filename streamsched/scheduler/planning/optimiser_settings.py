"""Settings of an optimiser beside a scheduler: its policy, its budget of visits, and how often it plans again."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Final

import numpy as np

from streamsched.errors import SettingsError
from streamsched.numerics.argument_checks import check_part
from streamsched.numerics.durations import parse_duration
from streamsched.optimal.array_checks import check_number
from streamsched.scheduler.planning.planned_rates import PLANNERS, Planner

_WRITTEN: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(?:(%)|/\s*(s|m|h|d))?\s*")
_SECONDS: Final = {"s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}
_DAY_S: Final = 86_400.0
_LEAST, _MOST = 1e-12, 1e12  # of any unit: beyond any crawler, and within what solvers and float32 hold
_EXPECTED: Final = 'visits a second, or a text such as "20/s", "5000/h", or "5%" of the pages a day; 1e-12 to 1e12'


@dataclass(frozen=True, slots=True)
class Budget:
    """Visits that a crawler can make: a number a second, and a share of all pages a day; one of the two is 0."""

    visits_per_s: float
    share_per_day: float

    def visits_of(self, pages: int) -> float:
        """Return the visits a second for a number of pages.

        >>> parse_budget("5%").visits_of(17_280)
        0.01
        """
        return self.visits_per_s + self.share_per_day * pages / _DAY_S


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimiserSettings:
    """What an optimiser plans. Raises SettingsError for an invalid value.

    - ``policy``: "lambdacrawl" minimises the harmonic cost of missed changes; "polite" does so within the delays of
      hosts; "binary" minimises the stale share of the copies, weighted by importance; "mirrorsync" learns from the
      costs that visits observe, without a model of changes; "webfountain" plans the next periods of groups of pages
      with like change rates, and of new pages;
    - ``budget``: visits that the crawler makes: a number a second, or a text such as ``"20/s"``, ``"5000/h"``, or
      ``"5%"`` of the pages a day;
    - ``every``: time between two plans;
    - ``floor``: of "binary", the share of the budget that all pages get alike;
    - ``complete_from``: of "lambdacrawl" and "polite", the share of a page's changes that a source must announce for
      visits to follow its signals.
    """

    policy: str = "lambdacrawl"
    budget: str | float = "5%"
    every: str | float = "1d"
    floor: float = 0.4
    complete_from: float = 0.95

    def __post_init__(self) -> None:
        if not isinstance(self.policy, str) or self.policy not in PLANNERS:
            raise SettingsError("policy", self.policy, f"one of {', '.join(PLANNERS)}")
        parse_budget(self.budget)
        parse_duration(self.every, "every")
        check_number("floor", self.floor, most=1.0)
        check_part("complete_from", self.complete_from)

    @property
    def planner(self) -> Planner:
        """The planner of the policy."""
        return PLANNERS[self.policy]

    @property
    def every_s(self) -> float:
        """The seconds between two plans."""
        return parse_duration(self.every, "every")


def parse_budget(budget: str | float) -> Budget:
    """Return a budget of visits; raises SettingsError unless it is from 1e-12 to 1e12, in its unit.

    >>> parse_budget("7200/h"), parse_budget("5%")
    (Budget(visits_per_s=2.0, share_per_day=0.0), Budget(visits_per_s=0.0, share_per_day=0.05))
    """
    number, unit = math.nan, "s"
    if isinstance(budget, str):
        written = _WRITTEN.fullmatch(budget)
        if written:
            number, unit = float(written[1]), written[2] or written[3] or "s"
    elif isinstance(budget, int | float | np.integer | np.floating) and not isinstance(budget, bool):
        number = float(budget) if budget <= _MOST else math.nan
    if not _LEAST <= number <= _MOST:
        raise SettingsError("budget", budget, _EXPECTED)
    return Budget(0.0, number / 100.0) if unit == "%" else Budget(number / _SECONDS[unit], 0.0)
