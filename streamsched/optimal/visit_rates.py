"""Kernels: how often each page should be visited when a visit costs a given price, and what that sums to.

The price is the multiplier of the budget. It is given as its *level*, 1/sqrt(price): visit rates grow with the level
and at high levels linearly, so that Newton's method needs few steps.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from streamsched.numerics.jit import inlined_kernel, kernel

if TYPE_CHECKING:
    from streamsched.numerics.arrays import Floats, Ints
    from streamsched.optimal.crawl_problem import PageColumns

__all__ = ["BINARY", "HARMONIC", "fill_visit_rates", "sum_needs", "sum_visits"]

HARMONIC: Final = 0  # minimise the mean of -importance * ln(visit rate/(visit rate + change rate))
BINARY: Final = 1  # minimise the mean of importance * change rate/(visit rate + change rate)


@kernel
def sum_needs(pages: PageColumns, offsets: Ints, needs: tuple[Floats, Floats, Floats, Floats]) -> None:
    """Set what the pages of each host add up to; those of host h are from offsets[h] to offsets[h + 1]. O(n).

    ``needs``: float64[h] of change rates, of sqrt(importance * change rate), of the least visits, and of the most that
    lower the cost.
    """
    changes, roots, least, most = needs
    for h in range(offsets.size - 1):
        for i in range(offsets[h], offsets[h + 1]):
            importance, change_rate = pages.importance[i], pages.change_rate[i]
            changes[h] += change_rate
            least[h] += _floor(pages, i)
            if importance > 0.0 and change_rate > 0.0:
                roots[h] += math.sqrt(importance) * math.sqrt(change_rate)
                most[h] += change_rate if _is_complete(pages, i) else math.inf
            else:
                most[h] += _floor(pages, i)


@inlined_kernel
def sum_visits(pages: PageColumns, begin: int, end: int, level: float, objective: int) -> tuple[float, float]:
    """Return the sums of the visit rates at a level, and of their slopes in it, of pages `begin` to `end`."""
    rates, slopes = 0.0, 0.0
    for i in range(begin, end):
        rate, slope = _visit(pages, i, level, objective)
        rates += rate
        slopes += slope
    return rates, slopes


@kernel
def fill_visit_rates(pages: PageColumns, host: Ints, levels: Floats, objective: int, out: Floats) -> None:
    """Set ``out``: float64[n] to the visit rate of each page at the level of its host. O(n)."""
    for i in range(pages.importance.size):
        h = host[i] if host.size > 0 else 0
        out[i] = _visit(pages, i, levels[h], objective)[0]


@inlined_kernel
def _visit(pages: PageColumns, i: int, level: float, objective: int) -> tuple[float, float]:
    """Return the visit rate of a page and its slope in the level.

    Where the level is infinite, every page has either no importance, or no changes, or a signal.
    """
    importance, change_rate = pages.importance[i], pages.change_rate[i]
    floor = _floor(pages, i)
    if importance == 0.0 or change_rate == 0.0:
        return floor, 0.0
    if objective == BINARY:
        root = math.sqrt(importance) * math.sqrt(change_rate)
        rate = root * level - change_rate
        return (rate, root) if rate > floor else (floor, 0.0)
    if _is_complete(pages, i):
        rate = importance * level * level
        return (rate, 2.0 * importance * level) if rate < change_rate else (change_rate, 0.0)
    product = importance * change_rate
    bend = math.sqrt(change_rate * change_rate + 4.0 * product * level * level)
    return 2.0 * product * level * level / (change_rate + bend), 2.0 * product * level / bend


@inlined_kernel
def _is_complete(pages: PageColumns, i: int) -> bool:
    return pages.complete.size > 0 and pages.complete[i]


@inlined_kernel
def _floor(pages: PageColumns, i: int) -> float:
    return pages.floor[i] if pages.floor.size > 0 else 0.0
