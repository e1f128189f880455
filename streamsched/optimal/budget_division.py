"""Divides a budget of visits among pages, so that no visit would lower the cost more elsewhere, within host limits.

All pages of a host share a price for a visit: the price of the budget, or a higher one if the host is at its limit.
Visits fall as the price rises, so each price is the root of a monotone function of one variable.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np

from streamsched.numerics.arrays import Bools, Floats, Rows, frozen
from streamsched.optimal.crawl_problem import Hosts, PageColumns, Units, in_units
from streamsched.optimal.level_search import (
    TOLERANCE,
    ServedPages,
    find_common_level,
    find_host_levels,
    group_pages,
)
from streamsched.optimal.visit_rates import BINARY, fill_visit_rates, sum_needs

__all__ = ["Division", "divide_budget"]

Needs: TypeAlias = tuple[Floats, Floats, Floats, Floats]
"""Of each host, [h]: change rates, sqrt(importance * change rate), the least and the most useful visits."""


class Division(NamedTuple):
    """The visit rate of each page, and the multipliers of the budget and of each host's limit."""

    visit_rate: Floats  # float64[n]
    multiplier: float
    host_multiplier: Floats  # float64[h]; empty without hosts


def divide_budget(pages: PageColumns, hosts: Hosts | None, budget: float, objective: int) -> Division:
    """Return the visit rates that minimise `objective` with at most `budget` visits per cycle. O(n) a step, 20 or so.

    The whole budget is spent, unless pages with signals need less. Without hosts, all pages are those of one host.
    """
    pages, units = in_units(pages, budget)
    hosts, budget = _host_units(hosts, units), budget / units.visits
    served = _by_host(pages, hosts, budget)
    needs = _needs(served)
    level, used, exact = _common_level(served, needs, budget, objective)
    levels, capped, met = _host_levels(served, needs, level, used, objective)
    host = hosts.host if hosts else frozen(np.empty(0, np.int64))
    rates = np.empty(pages.importance.size)
    fill_visit_rates(pages, host, levels, objective, rates)
    if not (exact and met):
        group = np.where(capped, np.arange(levels.size), levels.size)  # the last is that of all other hosts
        targets = np.append(np.where(capped, served.limit, 0.0), max(0.0, budget - float(served.limit[capped].sum())))
        _scale_down(rates, pages.floor, group[host] if hosts else np.repeat(group, rates.size), targets)
        _scale_down(rates, pages.floor, np.zeros(rates.size, np.int64), np.array([budget]))
    rates *= units.visits
    levels = np.append(levels, level)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        prices = np.where(np.isinf(levels), 0.0, units.price / levels**2)
    if hosts is None:
        return Division(rates, float(prices[0]), np.empty(0))
    return Division(rates, float(prices[-1]), prices[:-1])


def _host_units(hosts: Hosts | None, units: Units) -> Hosts | None:
    with np.errstate(over="ignore"):
        return hosts and hosts._replace(budget=frozen(hosts.budget / units.visits))


def _by_host(pages: PageColumns, hosts: Hosts | None, budget: float) -> ServedPages:
    if hosts is None:
        return ServedPages(pages, np.array([0, pages.importance.size]), np.array([budget]))
    offsets = np.concatenate(([0], np.cumsum(hosts.pages)))
    columns: Any = [np.empty_like(column) for column in pages]
    grouped = PageColumns(*columns)
    group_pages(pages, hosts.host, offsets[:-1].copy(), grouped)
    columns = [frozen(column) for column in columns]
    return ServedPages(PageColumns(*columns), offsets, hosts.budget)


def _needs(served: ServedPages) -> Needs:
    changes, roots, least, most = np.zeros((4, served.limit.size))
    sum_needs(served.pages, served.offsets, (changes, roots, least, most))
    return changes, roots, least, most


def _common_level(served: ServedPages, needs: Needs, budget: float, objective: int) -> tuple[float, Floats, bool]:
    """Return the level at which hosts within their limits use up `budget`, infinite for none; each host's visits there.

    And whether they use up just that.
    """
    changes, roots, _, most = needs
    if float(np.minimum(served.limit, most).sum()) <= budget:
        return np.inf, most, True
    used = np.empty(most.size)
    start = _guess(np.array([budget]), changes.sum(keepdims=True), roots.sum(keepdims=True), objective)
    level, exact = find_common_level(served, budget, objective, float(start[0]), used)
    return level, used, exact


def _host_levels(
    served: ServedPages, needs: Needs, level: float, used: Floats, objective: int
) -> tuple[Floats, Bools, bool]:
    """Return the level of each host: `level`, or the one at which it is at its limit; which those hosts are.

    And whether all of those use up just their limit.
    """
    changes, roots, least, _ = needs
    capped = (used > served.limit) & (roots > 0.0)  # else floors alone, which rounding may lift above
    limited = capped & (least < served.limit * (1.0 - TOLERANCE))  # else nothing is left above the floors
    levels = np.where(capped, 0.0, level)
    levels[limited] = _guess(served.limit[limited], changes[limited], roots[limited], objective)
    exact = find_host_levels(served, limited, objective, level, levels)
    return levels, capped, exact


def _guess(limits: Floats, changes: Floats, roots: Floats, objective: int) -> Floats:
    """Return levels near those at which the limits are met: exact if all pages are alike."""
    if objective == BINARY:
        return (limits + changes) / roots
    return np.sqrt(limits) * np.sqrt(limits + changes) / roots


def _scale_down(rates: Floats, floor: Floats, group: Rows, targets: Floats) -> None:
    """Scale visit rates above their floors so that each group's sum is at most its target.

    For a limit that lies between the visits of neighbouring levels: where it is tiny beside the change rates, a level
    has too few digits.
    """
    least = floor if floor.size else np.zeros(rates.size)
    floors = np.bincount(group, least, targets.size)
    above = np.bincount(group, rates, targets.size) - floors
    factors = np.ones(targets.size)
    room = np.maximum(targets - floors, 0.0)
    np.divide(room, above, out=factors, where=above > room)
    rates[:] = least + (rates - least) * factors[group]
