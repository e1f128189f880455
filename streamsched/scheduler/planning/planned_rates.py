"""Crawl rates of all pages by a policy: its solver over the pages that may be visited, nothing for the others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from streamsched.optimal.binary_crawl import binary_crawl
from streamsched.optimal.lambda_crawl import lambda_crawl
from streamsched.scheduler.planning.bucket_rates import plan_buckets
from streamsched.scheduler.planning.sync_rates import step_rates

if TYPE_CHECKING:
    from streamsched.numerics.arrays import Floats, Rows
    from streamsched.scheduler.planning.optimiser_settings import OptimiserSettings
    from streamsched.scheduler.planning.page_snapshot import PageSnapshot
    from streamsched.scheduler.planning.seen_costs import SeenCosts

__all__ = ["PlannedRates", "plan_rates"]

_WITHIN: Final = 1.0 - 1e-9  # of what all hosts take together: the budget may not exceed it


class PlannedRates(NamedTuple):
    """The crawl rates of n pages, and the share of the visits that goes to new pages, None if it is not planned."""

    rates: npt.NDArray[np.float32]  # float32[n], visits per cycle
    new_share: float | None


def plan_rates(
    settings: OptimiserSettings, pages: PageSnapshot, visits: float, seen: SeenCosts, every: float
) -> PlannedRates:
    """Return the crawl rates of all pages with a budget of `visits` per cycle. O(n), and what the policy takes.

    Pages that are not available, of no importance, or on hosts that take no visits have a rate of 0. `seen`: what
    visits since the last plan have observed, which mirrorsync alone reads; `every`: cycles between two plans.
    """
    rates, new_share = np.zeros(pages.available.size, np.float32), None
    rows = np.flatnonzero(pages.available & (pages.importance > 0.0))
    if rows.size:
        if settings.policy == "webfountain":
            solved, new_share = plan_buckets(pages, rows, visits, every)
        elif settings.policy == "mirrorsync":
            solved = step_rates(pages, rows, visits, seen)
        else:
            solved = _solve(settings, pages, rows, visits)
        rates[rows] = np.minimum(solved, np.finfo(np.float32).max)
    return PlannedRates(rates, new_share)


def _solve(settings: OptimiserSettings, pages: PageSnapshot, rows: Rows, visits: float) -> Floats:
    """Return the crawl rates of the pages ``rows`` by an optimiser of LambdaCrawl's kind: float64[m]."""
    importance, change_rate = pages.importance[rows], pages.change_rate[rows]
    if settings.policy == "binary":
        return binary_crawl(importance, change_rate, budget=visits, floor=settings.floor).visit_rate
    complete = pages.recall[rows] >= settings.complete_from
    hosts: dict[str, Any] = {}
    if settings.policy == "polite":
        hosts = {"host": pages.host[rows], "host_budget": pages.host_visits}
        visits = min(visits, float(pages.host_visits[np.unique(hosts["host"])].sum()) * _WITHIN)
    rates = lambda_crawl(importance, change_rate, budget=visits, complete=complete, **hosts).visit_rate
    return np.where(complete, rates * (1.0 - pages.recall[rows]), rates)
