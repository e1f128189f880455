"""Divides a budget of visits among pages, so that no visit would lower the cost more elsewhere, within host limits.

All pages of a host share a price for a visit: the price of the budget, or a higher one if the host is at its limit.
Visits fall as the price rises, so each price is the root of a monotone function of one variable. Kernels search for the
levels of the prices, at which hosts use up their limits and all hosts together the budget: Newton's method between
bounds.
"""

from __future__ import annotations

import math
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from streamsched.numerics.arrays import Bools, Floats, Ints, Rows, frozen
from streamsched.numerics.jit import inlined_kernel, kernel
from streamsched.optimal.crawl_problem import (
    BINARY,
    Hosts,
    PageColumns,
    Units,
    fill_visit_rates,
    in_units,
    sum_needs,
    sum_visits,
)

TOLERANCE: Final = 1e-12  # of a budget; rounding of ten million summands is below it
_NEWTON_STEPS: Final = 60  # far more than it takes; then bisection, which cannot fail
_MOST_STEPS: Final = 300
Needs: TypeAlias = tuple[Floats, Floats, Floats, Floats]
"""Of each host, [h]: change rates, sqrt(importance * change rate), the least and the most useful visits."""


class ServedPages(NamedTuple):
    """Pages in the order of their hosts."""

    pages: PageColumns
    offsets: Ints  # int64[h + 1]: the pages of host h are from offsets[h] to offsets[h + 1]
    limit: Floats  # float64[h]: visits per cycle that the host takes, infinite for no limit


@kernel
def group_pages(pages: PageColumns, host: Ints, begins: Ints, grouped: PageColumns) -> None:
    """Copy the columns of `pages` into `grouped`, host after host, and move `begins` to the ends. O(n).

    ``begins``: int64[h], where the pages of each host begin in `grouped`.
    """
    for i in range(host.size):
        k = begins[host[i]]
        begins[host[i]] += 1
        grouped.importance[k] = pages.importance[i]
        grouped.change_rate[k] = pages.change_rate[i]
        if pages.complete.size > 0:
            grouped.complete[k] = pages.complete[i]
        if pages.floor.size > 0:
            grouped.floor[k] = pages.floor[i]


@kernel
def find_common_level(
    served: ServedPages, budget: float, objective: int, start: float, used: Floats
) -> tuple[float, bool]:
    """Return the level at which all hosts, each within its limit, use up `budget`; and whether they do. O(n) a step.

    Set ``used``: float64[h] to the visits of each host at that level; of a host above its limit, to any number above.
    If rounding keeps the sum from meeting the budget, the level is the least one found at which the sum is above it.
    """
    low, level, high = 0.0, start, math.inf
    full = np.zeros(used.size, np.bool_)
    for step in range(_MOST_STEPS):
        total, slope = _sum_within_limits(served, objective, level, full, used)
        if abs(total - budget) <= TOLERANCE * budget:
            return level, True
        if total < budget:
            full |= used > served.limit  # at all levels from here on
        low, level, high = _narrow(low, level, high, total - budget, slope, step)
        if not low < level < high:
            break
    level = high if high < math.inf else level
    _sum_within_limits(served, objective, level, full, used)
    return level, False


@kernel
def find_host_levels(served: ServedPages, limited: Bools, objective: int, common: float, levels: Floats) -> bool:
    """Set the levels at which the `limited` hosts use up their limits; return whether all do. O(n) a step.

    ``levels``: float64[h], where to start; ``common``: a level at which they use more. If rounding keeps a host from
    meeting its limit, its level is the least one found at which it is above it.
    """
    exact = True
    for h in range(levels.size):
        if not limited[h]:
            continue
        limit = served.limit[h]
        low, level, high = 0.0, min(levels[h], common), common
        met = False
        for step in range(_MOST_STEPS):
            used, slope = sum_visits(served.pages, served.offsets[h], served.offsets[h + 1], level, objective)
            met = abs(used - limit) <= TOLERANCE * limit
            if met:
                break
            low, level, high = _narrow(low, level, high, used - limit, slope, step)
            if not low < level < high:
                break
        exact = exact and met
        levels[h] = level if met or high == math.inf else high
    return exact


@inlined_kernel
def _sum_within_limits(
    served: ServedPages, objective: int, level: float, full: Bools, used: Floats
) -> tuple[float, float]:
    """Return the sums of the hosts' visits within their limits, and of their slopes; renew `used` but of full hosts."""
    total, slopes = 0.0, 0.0
    for h in range(used.size):
        limit, slope = served.limit[h], 0.0
        if not full[h]:
            used[h], slope = sum_visits(served.pages, served.offsets[h], served.offsets[h + 1], level, objective)
        total += min(used[h], limit)
        slopes += slope if used[h] < limit else 0.0
    return total, slopes


@inlined_kernel
def _narrow(
    low: float, level: float, high: float, excess: float, slope: float, step: int
) -> tuple[float, float, float]:
    """Return bounds of the root, and the next level to try between them, after `excess` at `level`."""
    low, high = (low, level) if excess > 0.0 else (level, high)
    newton = level - excess / slope
    if low < newton < high and step < _NEWTON_STEPS:
        return low, newton, high
    return low, (low + 0.5 * (high - low) if high < math.inf else 2.0 * level), high


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
