"""WebFountain's model: how many old and new pages to crawl in each period, by buckets of pages with like change rates.

Edwards, McCurley and Tomlin (2001), "An adaptive model for optimizing performance of an incremental web crawler",
section 4. The left sides of the paper's balance equations (2) to (4) are lost in print; these are the readings.

`paper_model` is that of the paper's experiments, as far as it is printed: 500 million pages, growing to twice that in
400 days. The paper prints neither its crawl budget nor its buckets' change rates. Here the buckets' mean lifetimes are
equally spaced: of the simple distributions tried, the one that comes nearest to tables 3 and 4. The budget is an
argument; with 54 million pages, strategy 1 ends with as many obsolete pages as in table 3.

Plans start from whole buckets, each crawled in the periods that are best at prices of the budgets. A bucket that is
crawled whole is fresh, whatever was before, so that its best periods at given prices are a shortest path. The prices
come from a linear program that mixes the schedules found so far (column generation). It mixes several schedules for no
more buckets than there are periods; those are crawled in part.

CasADi's IPOPT solves the model, the states eliminated: ``pip install streamsched[webfountain]``. The variables are the
share of each bucket and the number of new pages that each period crawls: the balance equations (2) to (4) hold by
construction. The problem is not convex, so IPOPT improves plans that crawl whole buckets.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from streamsched.errors import NOTHING, SettingsError
from streamsched.numerics.argument_checks import check_whole
from streamsched.numerics.arrays import Bools, Floats
from streamsched.optimal.array_checks import check_amount, check_length, check_number, check_values

_LEAST: Final = 1e-300  # above 0
_MOST_BUCKETS: Final = 256  # a byte of a page's record
_LOW_WEIGHT: Final = 0.01  # of all periods but the last in strategy 3; the paper says very low
_BUCKETS: Final = 255
_DOUBLING: Final = 400.0  # periods, days
_LIFETIMES: Final = (0.5, 230.0)  # days, of the fastest and of the slowest pages
_FIRST_PRICES: Final = (0.03, 0.1, 0.2, 0.4, 0.8, 1.6, 3.0)  # of a crawl, in obsolete pages
_MOST_STEPS: Final = 40  # of the linear program; further ones gain little
_GAP: Final = 5e-3  # of the cost; the solver gains more
_OPTIONS: Final = {
    "print_time": False,
    "ipopt.print_level": 0,
    "ipopt.sb": "yes",  # no banner
    "ipopt.max_iter": 150,  # what further steps gain is less than what another start does
    "ipopt.tol": 1e-5,
    "ipopt.mu_init": 1e-7,  # a start is mostly 0s and 1s, as solutions are: a larger barrier would leave it
    "ipopt.bound_push": 1e-6,
    "ipopt.bound_frac": 1e-6,
}

_OTHER_RATES: Final = (0.8, 1.2)  # times the change shares: from which and to which random starts assume them
_CRAWL_WEIGHT: Final = 1e-3  # obsolete pages that a crawl counts as, so that none is made to no effect


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
        columns = {"pages": pages, "change_share": shares, "obsolete": obsolete, "budget": budget}
        for name, column in columns.items():
            object.__setattr__(self, name, column)


@dataclass(frozen=True, slots=True)
class CrawlPlan:
    """The number of pages to crawl in each period, and the result.

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


def paper_model(
    budget: float, *, version: int = 1, periods: int = 14, change_scale: float = 1.0, buckets: int = _BUCKETS
) -> BucketModel:
    """Return the paper's model in millions of pages: 255 buckets, fastest first, and `periods` of a day each.

    ``budget``: million pages per period; ``version``: 1 has 2 million pages in each bucket, 2 has 3 million in the
    fastest and in the slowest quarter of the buckets and 1 million in the others; ``change_scale``: multiplies change
    rates, 0.5 for experiment 3; ``buckets``: other numbers of them divide the same pages. At the start, the changes of
    one period are obsolete. Raises SettingsError for invalid arguments.

    >>> float(paper_model(54).pages.sum())
    510.0
    """
    count = check_whole("buckets", buckets, 1, "a whole number of buckets, 1 to 256", most=256)
    rank = (np.arange(count) + 0.5) / count
    lifetimes = np.interp(rank, (0.0, 1.0), _LIFETIMES)
    change = -np.expm1(-check_amount("change_scale", change_scale) / lifetimes)
    unit = _BUCKETS / count
    pages = np.full(count, 2.0 * unit)
    if check_whole("version", version, 1, "1 or 2", most=2) == 2:
        pages = np.where((rank < 0.25) | (rank > 0.75), 3.0 * unit, unit)
    days = check_whole("periods", periods, 1, "a whole number of periods, 1 or more")
    growth = float(pages.sum()) * np.log(2.0) / _DOUBLING
    return BucketModel(
        pages, change, change * pages, np.full(days, check_amount("budget", budget)), NewPages(arrivals=growth)
    )


def scheduled_shares(model: BucketModel, weights: Floats, new_crawled: Floats) -> Floats:
    """Return the share of each bucket to crawl, float64[T, B], mostly 0 or 1, if `new_crawled` pages join them.

    ``weights``, ``new_crawled``: float64[T]. The weighted sum of obsolete old pages is near the lowest. Each of 5 to 15
    steps takes O(T**2 B) and a linear program of B + T rows.
    """
    unit = model.pages.mean()
    growth = 1.0 + np.concatenate(([0.0], np.cumsum(new_crawled)[:-1])) / model.pages.sum()
    sizes = np.outer(growth, model.pages / unit)
    room = np.clip((model.budget - model.new.cost * new_crawled) / unit, 0.0, sizes.sum(axis=1))
    paths = _Paths(model, weights / weights.max(), sizes)
    mix = _Mix(sizes, room)
    mix.add(np.zeros(sizes.shape, np.bool_), paths.costs[0, -1])
    left = np.arange(room.size, 0.0, -1.0)
    for price in _FIRST_PRICES:
        mix.add(*paths.cheapest(np.full(room.size, price)))
        mix.add(*paths.cheapest(price / left))
    for _ in range(_MOST_STEPS):
        cost, prices = mix.solve()
        schedules, costs = paths.cheapest(prices)
        lower_bound = float((costs + prices @ (schedules * sizes)).sum() - prices @ room)
        if cost - lower_bound <= _GAP * cost:
            break
        mix.add(schedules, costs)
    return mix.shares()


class _Paths:
    """Schedules of whole crawls, as paths from crawl to crawl."""

    def __init__(self, model: BucketModel, weights: Floats, sizes: Floats) -> None:
        """Set ``costs``: float64[T + 1, T + 2, B], weighted obsolete pages after one crawl and before the next.

        The indices are the periods of the two; period 0 is the start, T + 1 the end. ``sizes``: float64[T, B], pages of
        the buckets before each period.
        """
        periods, buckets = sizes.shape
        self.sizes = sizes
        self.costs = np.full((periods + 1, periods + 2, buckets), np.inf)
        for last in range(periods + 1):
            stale = model.obsolete / model.pages.mean() if last == 0 else np.zeros(buckets)
            self.costs[last, last + 1] = 0.0
            for t in range(last, periods):
                stale = (1.0 - model.change_share) * stale + model.change_share * sizes[t]
                self.costs[last, t + 2] = self.costs[last, t + 1] + weights[t] * stale

    def cheapest(self, prices: Floats) -> tuple[Bools, Floats]:
        """Return the best schedule of each bucket at the `prices` of a crawl, bool[T, B]; and its obsolete pages."""
        periods, buckets = self.sizes.shape
        paid = np.vstack((np.zeros(buckets), prices[:, np.newaxis] * self.sizes, np.zeros(buckets)))
        best = np.zeros((periods + 2, buckets))
        before = np.zeros((periods + 2, buckets), np.int64)
        each = np.arange(buckets)
        for t in range(1, periods + 2):
            ways = best[:t] + self.costs[:t, t]
            before[t] = ways.argmin(axis=0)
            best[t] = ways[before[t], each] + paid[t]
        schedules = np.zeros((periods + 1, buckets), np.bool_)
        last = before[-1]
        for _ in range(periods):
            schedules[last, each] = True  # row 0 is no crawl
            last = before[last, each]
        chosen = schedules[1:]
        return chosen, best[-1] - prices @ (chosen * self.sizes)


class _Mix:
    """The linear program: shares of each bucket's pages that follow each of its schedules, within the budgets."""

    def __init__(self, sizes: Floats, room: Floats) -> None:
        self.sizes = sizes
        self.room = room
        self.schedules = np.empty((room.size, 0), np.bool_)  # bool[T, k]
        self.bucket = np.empty(0, np.int64)
        self.costs = np.empty(0)
        self.parts = np.empty(0)

    def add(self, schedules: Bools, costs: Floats) -> None:
        """Add a schedule of each bucket, bool[T, B], with its obsolete pages `costs`."""
        self.schedules = np.hstack((self.schedules, schedules))
        self.bucket = np.concatenate((self.bucket, np.arange(costs.size)))
        self.costs = np.concatenate((self.costs, costs))

    def solve(self) -> tuple[float, Floats]:
        """Find the best parts; return their cost and the prices of a crawl in each period, [T]."""
        from scipy.optimize import linprog  # noqa: PLC0415  needed here only, and slow to import
        from scipy.sparse import csr_array  # noqa: PLC0415

        count, buckets = self.bucket.size, self.sizes.shape[1]
        whole: Any = csr_array((np.ones(count), (self.bucket, np.arange(count))), shape=(buckets, count))
        crawls: Any = csr_array(self.schedules * self.sizes[:, self.bucket])
        found: Any = linprog(self.costs, A_ub=crawls, b_ub=self.room, A_eq=whole, b_eq=np.ones(buckets))
        self.parts = found.x
        return float(found.fun), -found.ineqlin.marginals

    def shares(self) -> Floats:
        """Return the share of each bucket that is crawled in each period, float64[T, B]."""
        shares = np.zeros(self.sizes.shape[::-1])
        solved = self.parts.size  # schedules added since are in no mix
        np.add.at(shares, self.bucket[:solved], (self.schedules[:, :solved] * self.parts).T)
        return np.ascontiguousarray(shares.T)


def webfountain(model: BucketModel, weights: npt.ArrayLike, *, starts: int = 3, seed: int = 0) -> CrawlPlan:
    """Return the best plan found from `starts` points: the least weighted sum of obsolete and new pages.

    ``weights``: float64[T], of each period, as `strategy_weights` gives them. The first start crawls new pages at once
    and whole buckets in the periods that are best for them; further ones do so for random other change rates. A local
    optimum: another start may find a better one. Crawls that would change little are left out. The paper's size, 14
    periods of 255 buckets, takes about 1.5 s a start and 1 s once. Raises SettingsError for invalid arguments, and if
    CasADi is not installed.
    """
    shares = check_values("weights", weights)
    check_length("weights", shares, model.budget.size, "period")
    if not shares.any():
        raise SettingsError("weights", shares.tolist(), "one or more weights above 0")
    count = check_whole("starts", starts, 1, "a whole number of starts, 1 or more")
    rng = np.random.default_rng(check_whole("seed", seed, 0, "a whole number, 0 or more"))
    solve = _build(import_casadi(), model, shares)
    plans = []
    for start in range(count):
        begin = follow_plan(model, shares, *_start(model, shares, start, rng))
        plans += [begin, follow_plan(model, shares, *solve(begin))]
    return min(plans, key=lambda plan: plan.objective)


def import_casadi() -> Any:
    """Return CasADi. Raises SettingsError if it is not installed."""
    try:
        return import_module("casadi")  # an optional dependency, used here only
    except ImportError as error:
        raise SettingsError(
            "casadi", NOTHING, "an installed package: pip install 'streamsched[webfountain]'"
        ) from error


def _build(casadi: Any, model: BucketModel, weights: Floats) -> Any:
    """Return a function that improves a plan: from one to the shares and the new pages crawled of a better one."""
    periods, buckets = model.budget.size, model.pages.size
    unit = float(model.pages.mean())  # so that all quantities are near 1
    shares, chosen = casadi.SX.sym("shares", buckets, periods), casadi.SX.sym("chosen", periods)
    pages, change = casadi.DM(model.pages / unit), casadi.DM(model.change_share)
    stale, grown, new = casadi.DM(model.obsolete / unit), 1.0, model.new.waiting / unit
    objective, spare = 0.0, []
    for t in range(periods):
        bucket, share = pages * grown, shares[:, t]
        crawled = casadi.dot(share, bucket)
        spare += [1.0 - (crawled + model.new.cost * chosen[t]) * unit / model.budget[t], new - chosen[t]]
        stale = (1.0 - share) * ((1.0 - change) * stale + change * bucket)
        found = model.new.arrivals / unit + model.new.found_by_old * crawled + model.new.found_by_new * chosen[t]
        new = new - chosen[t] + found
        grown = grown + chosen[t] / buckets
        objective += weights[t] * (casadi.sum1(stale) + new) + _CRAWL_WEIGHT * weights.max() * crawled
    problem = {
        "x": casadi.veccat(shares, chosen),
        "f": objective / (weights.sum() * buckets / 50.0),  # about 1 where a fiftieth of the pages is obsolete
        "g": casadi.vertcat(*spare),
    }
    solver = casadi.nlpsol("webfountain", "ipopt", problem, _OPTIONS)
    bounds = np.concatenate((np.ones(periods * buckets), np.full(periods, np.inf)))

    def solve(plan: CrawlPlan) -> tuple[Floats, Floats]:
        begin = np.concatenate((plan.crawl_share.ravel(), plan.new_crawled / unit))
        found = np.array(solver(x0=begin, lbx=0.0, ubx=bounds, lbg=0.0, ubg=np.inf)["x"]).ravel()
        return found[: bounds.size - periods].reshape(periods, buckets), found[bounds.size - periods :] * unit

    return solve


def _start(model: BucketModel, weights: Floats, start: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Return the shares, [T, B], and the new pages, [T], that the search starts from."""
    eager, planned = 1.0, model
    if start > 0:
        eager = rng.random()
        change = np.minimum(1.0, model.change_share * rng.uniform(*_OTHER_RATES, model.pages.size))
        planned = replace(model, change_share=change)
    known, chosen = model.new.waiting, np.empty(weights.size)
    for t, budget in enumerate(model.budget.tolist()):
        chosen[t] = eager * min(known, budget / model.new.cost)
        known += model.new.arrivals - chosen[t]
    return scheduled_shares(planned, weights, chosen), chosen
