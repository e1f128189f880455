"""How often to visit each page: LambdaCrawl, by the harmonic cost of missed changes, and BinaryLambdaCrawl, by stale
copies.

LambdaCrawl: Kolobov et al. (2019), "Staying up to date with online content changes using reinforcement learning for
scheduling", algorithms 1 to 3, with host limits of Kolobov et al. (2019), "Optimal freshness crawl under politeness
constraints". The papers split the budget between completely and incompletely observed pages by a nested search; here
both kinds have the same price for a visit, which is the same optimum by one search.

BinaryLambdaCrawl makes the stale share of the copies, by importance, least: Azar et al. (2018), "Tractable near-optimal
policies for crawling", PNAS; the floor is that of Kolobov et al. (2019), supplement 9.3: without it, pages that change
too often for their importance are never visited.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from streamsched.numerics.arrays import Bools, Floats, frozen
from streamsched.optimal.array_checks import check_number
from streamsched.optimal.budget_division import divide_budget
from streamsched.optimal.crawl_problem import (
    BINARY,
    HARMONIC,
    CrawlRates,
    Hosts,
    PageColumns,
    check_budget,
    check_hosts,
    check_pages,
    in_units,
    mean_binary_cost,
    mean_harmonic_cost,
)

_STEPS: Final = 200  # of a bisection between floats of any size
_LEAST_PRICE: Final = 1e-300  # of a visit that is worth nothing


def lambda_crawl(
    importance: npt.ArrayLike,
    change_rate: npt.ArrayLike,
    *,
    budget: float,
    complete: npt.ArrayLike | None = None,
    host: npt.ArrayLike | None = None,
    host_budget: npt.ArrayLike | None = None,
) -> CrawlRates:
    """Return the visit rates of the least harmonic cost with `budget` visits per cycle. O(n), some 20 passes.

    - ``importance``, ``change_rate``: float64[n], 0 or more; changes per cycle;
    - ``complete``: bool[n], whether a signal announces each change of the page; default none;
    - ``host``, ``host_budget``: int64[n] and float64[h], the host of each page and the visits per cycle it takes.

    Visits add up to `budget` within 1e-9 of it, unless pages with signals and hosts' limits need less: a page whose
    every change is announced and visited needs no more. Pages without importance or changes are not visited. Raises
    SettingsError for NaN, negative or infinite values, unequal lengths, and a budget above what all hosts take.

    >>> crawl = lambda_crawl([1, 2, 3], [0.1, 0.5, 1], budget=1)
    >>> crawl.visit_rate.round(6).tolist()
    [0.124208, 0.333939, 0.541852]
    >>> lambda_crawl([1, 2, 3], [0.1, 0.5, 1], budget=1, complete=[True] * 3).visit_probability.round(6).tolist()
    [1.0, 0.72, 0.54]
    """
    pages = check_pages(importance, change_rate, complete)
    amount = check_budget(budget)
    hosts = check_hosts(host, host_budget, pages.importance.size, amount)
    division = divide_budget(pages, hosts, amount, HARMONIC)
    return _result(pages, division.visit_rate, division.multiplier, division.host_multiplier)


def approximate_crawl(
    importance: npt.ArrayLike, change_rate: npt.ArrayLike, *, budget: float, complete: npt.ArrayLike | None = None
) -> CrawlRates:
    """Return visit rates in proportion to importance, LambdaCrawl's approximation where change rates are unknown. O(n).

    It is exact where importance/change rate is the same for all pages (proposition 9). Completely observed pages get
    probabilities as in `lambda_crawl`, and the share of `budget` that makes the cost least.

    >>> approximate_crawl([1, 2, 3], [0.1, 0.5, 1], budget=1).visit_rate.round(6).tolist()
    [0.166667, 0.333333, 0.5]
    """
    pages = check_pages(importance, change_rate, complete)
    amount = check_budget(budget)
    guessed = ~pages.complete if pages.complete.size else np.ones(pages.importance.size, np.bool_)
    if not pages.importance[guessed].any():
        return lambda_crawl(importance, change_rate, budget=budget, complete=complete)
    scaled, units = in_units(pages, amount)
    amount /= units.visits
    price = _balance_price(scaled, guessed, amount)
    rates = np.minimum(scaled.importance / price, scaled.change_rate)
    weights = scaled.importance[guessed]
    rates[guessed] = (amount - rates[~guessed].sum()) * weights / weights.sum()
    return _result(pages, rates * units.visits, price * units.price, np.empty(0))


def _balance_price(pages: PageColumns, guessed: Bools, budget: float) -> float:
    """Return the price of a visit at which one more is worth the same after a signal and in proportion to importance.

    One more visit for pages that share `left` visits in proportion is worth the sum of their binary costs over `left`.
    """
    changing = guessed & (pages.importance > 0.0) & (pages.change_rate > 0.0)
    importance, change_rate = pages.importance[changing], pages.change_rate[changing]
    shares = importance / pages.importance[guessed].sum()
    weights, rates = pages.importance[~guessed], pages.change_rate[~guessed]

    def is_too_low(price: float) -> bool:
        left = budget - float(np.minimum(weights / price, rates).sum())
        return left <= 0.0 or float((importance * (change_rate / (shares * left + change_rate))).sum()) > price * left

    low, high, price = 0.0, np.inf, float(pages.importance.sum()) / budget
    for _ in range(_STEPS):
        low, high = (price, high) if is_too_low(price) else (low, price)
        middle = 2.0 * low if high == np.inf else 0.5 * high if low == 0.0 else low * np.sqrt(high / low)
        if not low < middle < high or middle < _LEAST_PRICE:
            break
        price = float(middle)
    return high


def _result(pages: PageColumns, rates: Floats, price: float, host_prices: Floats) -> CrawlRates:
    chances = np.full(rates.size, np.nan)
    if pages.complete.size:
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            shares = np.where(rates < pages.change_rate, rates / pages.change_rate, 1.0)
        chances = np.where(pages.complete, shares, np.nan)
    cost = mean_harmonic_cost(pages.importance, pages.change_rate, rates, chances if pages.complete.size else None)
    return CrawlRates(rates, chances, price, host_prices, cost)


def binary_crawl(
    importance: npt.ArrayLike,
    change_rate: npt.ArrayLike,
    *,
    budget: float,
    floor: float = 0.4,
    host: npt.ArrayLike | None = None,
    host_budget: npt.ArrayLike | None = None,
) -> CrawlRates:
    """Return the visit rates of the least binary cost with `budget` visits per cycle. O(n), some 20 passes.

    Arguments are those of `lambda_crawl`; all pages are incompletely observed. ``floor``, from 0 to 1, is the share of
    the budget that goes to all pages alike: the least visit rate is floor * budget/n, or a page's equal share of its
    host's limit if that is less. With 0, pages may starve; 1 is a uniform crawl. Raises SettingsError as `lambda_crawl`
    does.

    >>> binary_crawl([1, 2, 3], [0.1, 0.5, 1], budget=1, floor=0).visit_rate.round(6).tolist()
    [0.169723, 0.35294, 0.477336]
    """
    pages = check_pages(importance, change_rate)
    amount = check_budget(budget)
    hosts = check_hosts(host, host_budget, pages.importance.size, amount)
    least = _floors(
        check_number("floor", floor, most=1.0) * amount / pages.importance.size, hosts, pages.importance.size
    )
    division = divide_budget(pages._replace(floor=frozen(least)), hosts, amount, BINARY)
    return CrawlRates(
        division.visit_rate,
        np.full(pages.importance.size, np.nan),
        division.multiplier,
        division.host_multiplier,
        mean_binary_cost(pages.importance, pages.change_rate, division.visit_rate, None),
    )


def _floors(least: float, hosts: Hosts | None, pages: int) -> Floats:
    """Return the least visit rate of each page, within its equal share of its host's limit; empty if it is 0."""
    if least == 0.0:
        return np.empty(0)
    if hosts is None:
        return np.full(pages, least)
    return np.minimum(least, hosts.budget / np.maximum(hosts.pages, 1))[hosts.host]
