"""Cumulative surge hazard of each page group by cycle, from which a simulated crawl computes the terminal `surge`.

A live crawl infers surges from its own visits. A simulated crawl takes them from all pages of the group, one cycle
later, as a crawl would have detected them: the share of pages hit in excess of their mean rates, on the grid of
`estimation.surges`. So surges do not depend on what the program visits, and pages of one group that were last visited
in the same cycle stay equal. Small groups have no surges, because a single page's change would appear as one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from streamsched.estimation.surges import FIRST_DAYS, FIRST_SURGES, LEAST_SHOWN, SHARES
from streamsched.numerics.jit import inlined_kernel
from streamsched.numerics.vector_math import expm1

if TYPE_CHECKING:
    from streamsched.numerics.arrays import Bools, Floats, Ints, Record, Records

__all__ = ["cumulative_surge_hazard", "fill_surge", "simulated_surge"]

_LEAST_RATE: Final = 1e-6  # changes per page and cycle


def cumulative_surge_hazard(changed: Bools, numbers: Ints) -> Floats:
    """Return -ln of the share of each group that no surge has hit up to and including each cycle: float64[C, groups].

    ``changed``: bool[n, C]; ``numbers``: int64[n] from `number_large_groups`; group 0 is never hit. O(n C).
    """
    sizes = np.bincount(numbers)
    sums = np.stack([np.bincount(numbers, weights=column, minlength=sizes.size) for column in changed.T])
    rates = np.clip(sums.mean(axis=0) / np.maximum(sizes, 1), _LEAST_RATE, 1.0 - _LEAST_RATE)
    chance = FIRST_SURGES / FIRST_DAYS
    likely = {0.0: np.zeros_like(sums)}
    for share in SHARES:  # log likelihood ratio to no surge
        change = np.log1p(share * (1.0 - rates) / rates)
        likely[share] = sums * change + (sizes - sums) * np.log1p(-share)
    top = np.max(list(likely.values()), axis=0)
    weights = {share: np.exp(log - top) * (chance / len(SHARES)) for share, log in likely.items()}
    total = np.exp(likely[0.0] - top) * (1.0 - chance) + sum(weights[share] for share in SHARES)
    expected = sum(share * weights[share] for share in SHARES) / total
    shown = np.where(expected >= LEAST_SHOWN, expected, 0.0)
    shown[:, 0] = 0.0
    return np.ascontiguousarray(np.cumsum(-np.log1p(-shown), axis=0))


@inlined_kernel
def fill_surge(surge_hazard: Floats, pages: Records, cycle: int, out: Floats) -> None:
    """Fill `out`: float64[m] with `surge` of m pages in `cycle`; their groups are numbers, their times cycles. O(m)."""
    for i in range(out.size):
        out[i] = simulated_surge(surge_hazard, pages[i], cycle)


@inlined_kernel
def simulated_surge(surge_hazard: Floats, page: Record, cycle: int) -> float:
    """Return `surge` of a page in `cycle`, as for `fill_surge`. O(1)."""
    group, last = np.int64(page.group), np.int64(page.last_visit_s)
    return 0.0 - expm1(surge_hazard[last, group] - surge_hazard[cycle - 1, group])
