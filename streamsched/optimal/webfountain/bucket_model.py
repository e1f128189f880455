"""Buckets of pages with like change rates, crawled period by period, and what becomes of them under a plan.

Edwards, McCurley and Tomlin (2001), "An adaptive model for optimizing performance of an incremental web crawler",
section 4. The left sides of the paper's balance equations (2) to (4) are lost in print; these are the readings.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from streamsched.errors import SettingsError
from streamsched.numerics.argument_checks import check_type, check_whole
from streamsched.optimal.array_checks import check_amount, check_length, check_number, check_values

if TYPE_CHECKING:
    from streamsched.numerics.arrays import Floats

__all__ = ["BucketModel", "CrawlPlan", "NewPages", "follow_plan", "strategy_weights"]

_LEAST: Final = 1e-300  # above 0
_MOST_BUCKETS: Final = 256  # a byte of a page's record
_LOW_WEIGHT: Final = 0.01  # of all periods but the last in strategy 3; the paper says very low


@dataclass(frozen=True, slots=True, kw_only=True)
class NewPages:
    """Pages that are known but were never crawled. They count as obsolete.

    - ``waiting``: n, how many there are at the start;
    - ``arrivals``: how many come from elsewhere in each period;
    - ``found_by_old``, ``found_by_new``: how many are found per old and per new page crawled, 0 to 1;
    - ``cost``: what crawling one takes of the budget, in old pages.

    Raises SettingsError for invalid values.
    """

    waiting: float = 0.0
    arrivals: float = 0.0
    found_by_old: float = 0.0
    found_by_new: float = 0.0
    cost: float = 1.0

    def __post_init__(self) -> None:
        for name in ("waiting", "arrivals"):
            check_number(name, getattr(self, name))
        for name in ("found_by_old", "found_by_new"):
            check_number(name, getattr(self, name), most=1.0)
        check_amount("cost", self.cost)


@dataclass(frozen=True, slots=True)
class BucketModel:
    """B buckets of pages and T periods; numbers of pages are in any unit, such as millions.

    - ``pages``: float64[B], b: pages of each bucket at the start, above 0; at most 256 buckets;
    - ``change_share``: float64[B], a: the share of a bucket's pages that change in a period, 0 to 1;
    - ``obsolete``: float64[B], y: pages whose copies are obsolete at the start;
    - ``budget``: float64[T], how many old pages can be crawled in each period, above 0;
    - ``new``: pages never crawled; once crawled, they join the buckets in proportion to their pages.

    Arrays are checked and become read-only. Raises SettingsError for invalid values and unequal lengths.

    >>> model = BucketModel(pages=[2, 2], change_share=[0.5, 0.1], obsolete=[1, 0.2], budget=[1, 1, 1])
    >>> model.budget.size
    3
    """

    pages: Floats
    change_share: Floats
    obsolete: Floats
    budget: Floats
    new: NewPages = field(default_factory=NewPages)

    def __post_init__(self) -> None:
        pages = check_values("pages", self.pages, _LEAST, expected="a finite number above 0")
        if pages.size > _MOST_BUCKETS:
            raise SettingsError("pages", f"{pages.size} buckets", f"at most {_MOST_BUCKETS} buckets")
        shares = check_values("change_share", self.change_share, most=1.0)
        obsolete = check_values("obsolete", self.obsolete)
        for name, column in (("change_share", shares), ("obsolete", obsolete)):
            check_length(name, column, pages.size, "bucket")
        over = np.flatnonzero(obsolete > pages)
        if over.size:
            index = int(over[0])
            expected = f"at most {pages[index]:g}, the pages of the bucket"
            raise SettingsError(f"obsolete[{index}]", float(obsolete[index]), expected)
        budget = check_values("budget", self.budget, _LEAST, expected="a finite number above 0")
        check_type("new", self.new, NewPages, "a NewPages")
        columns = {"pages": pages, "change_share": shares, "obsolete": obsolete, "budget": budget}
        for name, column in columns.items():
            object.__setattr__(self, name, column)


@dataclass(frozen=True, slots=True)
class CrawlPlan:
    """How many pages to crawl in each period, and what comes of it.

    - ``crawl_share``: float64[T, B], x/b: the share of each bucket's pages that is crawled;
    - ``new_crawled``: float64[T], z: new pages crawled;
    - ``crawled``: float64[T, B], x: old pages crawled;
    - ``obsolete``: float64[T, B], y: obsolete pages at the end of the period;
    - ``pages``: float64[T, B], b: pages at the end of the period;
    - ``new_pages``: float64[T], n: new uncrawled pages at the end of the period;
    - ``objective``: the weighted sum of obsolete and new pages over the periods.
    """

    crawl_share: Floats
    new_crawled: Floats
    crawled: Floats
    obsolete: Floats
    pages: Floats
    new_pages: Floats
    objective: float


def strategy_weights(strategy: int, periods: int) -> Floats:
    """Return the weight of each period's obsolete pages, float64[T], in one of the paper's three strategies.

    1 weighs all periods alike, 2 the last alone, 3 the last highly and the others very little. Raises SettingsError for
    another strategy.

    >>> strategy_weights(3, 4).tolist()
    [0.01, 0.01, 0.01, 1.0]
    """
    others = (1.0, 0.0, _LOW_WEIGHT)[check_whole("strategy", strategy, 1, "1, 2 or 3", most=3) - 1]
    weights = np.full(check_whole("periods", periods, 1, "a whole number of periods, 1 or more"), others)
    weights[-1] = 1.0
    return weights


def follow_plan(model: BucketModel, weights: Floats, crawl_share: Floats, new_crawled: Floats) -> CrawlPlan:
    """Return what comes of a plan, cut to what is possible: shares from 0 to 1, known new pages, the budget. O(T B).

    ``weights``: float64[T], of each period; ``crawl_share``: float64[T, B]; ``new_crawled``: float64[T]. Raises
    SettingsError for other shapes, and for numbers that are not finite.
    """
    periods, buckets = model.budget.size, model.pages.size
    plan = {"weights": weights, "crawl_share": crawl_share, "new_crawled": new_crawled}
    for name, shape in (("weights", (periods,)), ("crawl_share", (periods, buckets)), ("new_crawled", (periods,))):
        if np.shape(plan[name]) != shape:
            raise SettingsError(name, f"an array of shape {list(np.shape(plan[name]))}", f"one of shape {list(shape)}")
        if not np.isfinite(plan[name]).all():
            raise SettingsError(name, "NaN or an infinite number", "finite numbers")
    shares, chosen = np.clip(crawl_share, 0.0, 1.0), np.maximum(new_crawled, 0.0)
    crawled, obsolete, pages = np.empty_like(shares), np.empty_like(shares), np.empty_like(shares)
    waiting = np.empty_like(chosen)
    bucket, stale, new = model.pages, model.obsolete, model.new.waiting
    for t, budget in enumerate(model.budget.tolist()):
        chosen[t] = min(chosen[t], new)
        used = max(budget, float((shares[t] * bucket).sum()) + model.new.cost * chosen[t])
        shares[t], chosen[t] = budget / used * shares[t], budget / used * chosen[t]
        crawled[t] = shares[t] * bucket
        stale = (1.0 - shares[t]) * ((1.0 - model.change_share) * stale + model.change_share * bucket)
        found = model.new.arrivals + model.new.found_by_old * crawled[t].sum() + model.new.found_by_new * chosen[t]
        new = new - chosen[t] + found
        bucket = bucket + chosen[t] * model.pages / model.pages.sum()
        obsolete[t], pages[t], waiting[t] = stale, bucket, new
    objective = float((weights * (obsolete.sum(axis=1) + waiting)).sum())
    return CrawlPlan(shares, chosen, crawled, obsolete, pages, waiting, objective)
