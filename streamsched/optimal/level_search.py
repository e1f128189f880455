"""Kernels: the levels at which hosts use up their limits and all hosts together the budget.

Visits grow with the level, so each level is the root of a monotone function: Newton's method between bounds.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from streamsched.numerics.jit import inlined_kernel, kernel
from streamsched.optimal.visit_rates import sum_visits

if TYPE_CHECKING:
    from streamsched.numerics.arrays import Bools, Floats, Ints
    from streamsched.optimal.crawl_problem import PageColumns

__all__ = ["TOLERANCE", "ServedPages", "find_common_level", "find_host_levels", "group_pages"]

TOLERANCE: Final = 1e-12  # of a budget; rounding of ten million summands is below it
_NEWTON_STEPS: Final = 60  # far more than it takes; then bisection, which cannot fail
_MOST_STEPS: Final = 300


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
