"""Divides a budget of visits among pages, so that no visit would lower the cost more elsewhere, within host limits.

All pages of a host share a price for a visit: the price of the budget, or a higher one if the host is at its limit.
Visits fall as the price rises, so each price is the root of a monotone function of one variable.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import numpy as np

from streamsched.numerics.arrays import Bools, Floats, Ints, Rows, frozen
from streamsched.optimal.crawl_problem import Hosts, PageColumns
from streamsched.optimal.visit_rates import BINARY, fill_visit_rates, sum_by_host, sum_visits

__all__ = ["Division", "divide_budget"]

_TOLERANCE: Final = 1e-12  # of a budget; rounding of ten million summands is below it
_NEWTON_STEPS: Final = 60  # far more than it takes; then bisection, which cannot fail
_MOST_STEPS: Final = 300

Spend: TypeAlias = Callable[[Floats, Bools], tuple[Floats, Floats]]


class Division:
    """The visit rate of each page, and the multipliers of the budget and of each host's limit."""

    __slots__ = ("host_multiplier", "multiplier", "visit_rate")

    def __init__(self, visit_rate: Floats, multiplier: float, host_multiplier: Floats) -> None:
        self.visit_rate = visit_rate
        self.multiplier = multiplier
        self.host_multiplier = host_multiplier


def divide_budget(pages: PageColumns, hosts: Hosts | None, budget: float, objective: int) -> Division:
    """Return the visit rates that minimise `objective` with at most `budget` visits per cycle. O(n) a step, 20 or so.

    The whole budget is spent, unless pages with signals need less. Without hosts, all pages are those of one host.
    """
    shared = hosts or Hosts(frozen(np.empty(0, np.int64)), np.array([budget]), np.array([pages.importance.size]))
    search = _LevelSearch(pages, shared, objective)
    level = search.common_level(budget)
    levels, capped = search.host_levels(level)
    rates = np.empty(pages.importance.size)
    fill_visit_rates(pages, shared.host, levels, objective, rates)
    if not search.exact:
        search.scale_down(rates, capped, budget)
    with np.errstate(divide="ignore"):
        prices = 1.0 / levels**2
    if hosts is None:
        return Division(rates, float(prices[0]), np.empty(0))
    return Division(rates, 1.0 / level**2, prices)


class _LevelSearch:
    """The levels, 1/sqrt(price), at which hosts and budget are used up; `exact` where float64 levels can do so."""

    def __init__(self, pages: PageColumns, hosts: Hosts, objective: int) -> None:
        self.pages = pages
        self.hosts = hosts
        self.objective = objective
        self.exact = True
        count = hosts.budget.size
        self.changes, self.roots, self.most = np.zeros(count), np.zeros(count), np.zeros(count)
        sum_by_host(pages, hosts.host, self.changes, self.roots, self.most)
        self.used = self.most  # by host, at the common level

    def common_level(self, budget: float) -> float:
        """Return the level at which all hosts together, each within its limit, use up `budget`; infinite for none."""
        limits = self.hosts.budget
        if float(np.minimum(limits, self.most).sum()) <= budget:
            return np.inf
        everywhere = np.ones(limits.size, np.bool_)

        def spend(level: Floats, _: Bools) -> tuple[Floats, Floats]:
            levels = np.full(limits.size, level[0])
            self.used, slopes = self._sum(self.pages, self.hosts.host, levels, everywhere)
            total = np.minimum(self.used, limits).sum(keepdims=True)
            return total, slopes.sum(where=self.used < limits, keepdims=True)

        target = np.array([budget])
        start = self._guess(target, self.changes.sum(keepdims=True), self.roots.sum(keepdims=True))
        return float(self._find(spend, target, start)[0])

    def host_levels(self, level: float) -> tuple[Floats, Bools]:
        """Return the level of each host: `level`, or the one at which it is at its limit; and which those hosts are."""
        limits = self.hosts.budget
        capped = (self.used > limits) & (self.roots > 0.0)  # else floors alone, which rounding may lift above
        levels = np.where(capped, 0.0, level)
        limited = np.flatnonzero(capped & (limits > 0.0))
        if limited.size:
            pages, host = self._pages_of(limited)

            def spend(levels: Floats, missing: Bools) -> tuple[Floats, Floats]:
                return self._sum(pages, host, levels, missing)

            start = self._guess(limits[limited], self.changes[limited], self.roots[limited])
            levels[limited] = self._find(spend, limits[limited], np.minimum(start, level))
        return levels, capped

    def scale_down(self, rates: Floats, capped: Bools, budget: float) -> None:
        """Scale visit rates above their floors to meet a limit that lies between those of neighbouring levels.

        Where a limit is tiny beside the change rates, a level has too few digits.
        """
        limits = self.hosts.budget
        host = self.hosts.host if self.hosts.host.size else np.zeros(rates.size, np.int64)
        group = np.where(capped, np.arange(limits.size), limits.size)[host]  # the last is that of all other hosts
        targets = np.append(np.where(capped, limits, 0.0), max(0.0, budget - float(limits[capped].sum())))
        floor = self.pages.floor if self.pages.floor.size else np.zeros(rates.size)
        floors = np.bincount(group, floor, targets.size)
        above = np.bincount(group, rates, targets.size) - floors
        factors = np.ones(targets.size)
        room = np.maximum(targets - floors, 0.0)
        np.divide(room, above, out=factors, where=above > room)
        rates[:] = floor + (rates - floor) * factors[group]

    def _guess(self, limits: Floats, changes: Floats, roots: Floats) -> Floats:
        """Return levels near those at which the limits are met: exact if all pages are alike."""
        if self.objective == BINARY:
            return (limits + changes) / roots
        return np.sqrt(limits) * np.sqrt(limits + changes) / roots

    def _find(self, spend: Spend, target: Floats, start: Floats) -> Floats:
        levels, exact = find_levels(spend, target, start)
        self.exact = self.exact and exact
        return levels

    def _pages_of(self, chosen: Rows) -> tuple[PageColumns, Ints]:
        """Return the pages of the `chosen` hosts, and the position of each page's host among them."""
        if self.hosts.host.size == 0:
            return self.pages, self.hosts.host
        position = np.full(self.hosts.budget.size, -1)
        position[chosen] = np.arange(chosen.size)
        host = position[self.hosts.host]
        rows = np.flatnonzero(host >= 0)
        columns: Any = [frozen(column[rows]) if column.size else column for column in self.pages]
        return PageColumns(*columns), frozen(host[rows])

    def _sum(self, pages: PageColumns, host: Ints, levels: Floats, chosen: Bools) -> tuple[Floats, Floats]:
        sums = np.zeros(levels.size), np.zeros(levels.size)
        sum_visits(pages, host, levels, self.objective, chosen, sums)
        return sums


def find_levels(spend: Spend, target: Floats, start: Floats) -> tuple[Floats, bool]:
    """Return the levels at which `spend` gives `target`, and whether all do: Newton's method between bounds.

    spend: increasing functions of the levels, and their slopes, at least for those still missing; all arrays [g]. If
    rounding keeps a function from meeting its target, the level is the least one found above it.
    """
    low, high, level = np.zeros(target.size), np.full(target.size, np.inf), start.astype(np.float64)
    missing = np.ones(target.size, np.bool_)
    for step in range(_MOST_STEPS):
        value, slope = spend(level, missing)
        missing &= np.abs(value - target) > _TOLERANCE * target
        if not missing.any():
            return level, True
        low, high = np.where(missing & (value < target), level, low), np.where(missing & (value > target), level, high)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            newton = level + (target - value) / slope
        middle = np.where(high < np.inf, low + 0.5 * (high - low), 2.0 * level)
        inside = (newton > low) & (newton < high) & (step < _NEWTON_STEPS)
        level = np.where(missing, np.where(inside, newton, middle), level)
        if np.all(~missing | (middle <= low) | (middle >= high)):
            break
    return np.where(missing & (high < np.inf), high, level), False
