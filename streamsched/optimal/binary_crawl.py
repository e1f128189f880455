"""BinaryLambdaCrawl: how often to visit each page so that the stale share of the copies, by importance, is least.

Azar et al. (2018), "Tractable near-optimal policies for crawling", PNAS; the floor is that of Kolobov et al. (2019),
supplement 9.3: without it, pages that change too often for their importance are never visited.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from streamsched.numerics.arrays import Floats, frozen
from streamsched.optimal.array_checks import check_number
from streamsched.optimal.budget_division import divide_budget
from streamsched.optimal.crawl_problem import CrawlRates, Hosts, check_budget, check_hosts, check_pages
from streamsched.optimal.policy_cost import mean_binary_cost
from streamsched.optimal.visit_rates import BINARY

__all__ = ["binary_crawl"]


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
