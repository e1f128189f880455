"""Time resolution of a log, which limits what it shows of hours and days."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from streamsched.numerics.arrays import Floats, Ints

__all__ = ["FINEST_S", "find_grid", "find_typical"]

FINEST_S: Final = 1.0  # finer times count as whole seconds
_GRIDS_S: Final = (86_400, 43_200, 21_600, 14_400, 10_800, 7_200, 3_600, 1_800, 900, 600, 300, 60, 1)
_SAMPLE: Final = 100_000  # changes; enough for the share off a grid to 0.1 %
_MIN_TIMES: Final = 8  # distinct times; fewer may lie on a grid by chance
_ON_GRID: Final = 0.99
_ZONES_S: Final = 900  # granularity of zone offsets


def find_grid(times_s: Floats) -> float:
    """Return the coarsest grid, from a day to a second, with 99 % of ``times_s``: float64[m]; 1 if they are few.

    The grid must be aligned to hours or days of some zone; other common times are scheduled updates. A grid of days may
    shift by an hour, as local midnights do. O(m).

    >>> find_grid(np.arange(9.0) * 172_800 + 3_600), find_grid(np.arange(9.0) * 172_800 + np.arange(9.0) * 60)
    (86400.0, 60.0)
    """
    every = max(1, times_s.size // _SAMPLE)
    times = np.unique(times_s[::every])
    if times.size < _MIN_TIMES:
        return FINEST_S
    for grid_s in _GRIDS_S:
        phases, counts = np.unique(np.mod(times, grid_s), return_counts=True)
        order = np.argsort(counts)[::-1]
        best = counts[order[0]]
        if phases[order[0]] % math.gcd(grid_s, _ZONES_S):
            continue
        if grid_s == _GRIDS_S[0] and phases.size > 1 and abs(phases[order[0]] - phases[order[1]]) in (3_600, 82_800):
            best = best + counts[order[1]]
        if best >= _ON_GRID * times.size:
            return float(grid_s)
    return FINEST_S


def find_typical(step_s: Floats, visits: Ints) -> float:
    """Return the median time between two visits, over all visits: of pages with steps and visits [n]. O(n log n).

    >>> find_typical(np.array([60.0, 3600.0]), np.array([1, 9]))
    3600.0
    """
    if not visits.any():
        return FINEST_S
    order = np.argsort(step_s)
    reached = np.cumsum(visits[order])
    return float(max(FINEST_S, step_s[order][np.searchsorted(reached, reached[-1] / 2)]))
