"""From visits with gaps between them to a history without: what was seen stands, the rest is drawn from the posterior.

A visit that saw no change says that no cycle since the visit before had one. A visit that saw a change over several
cycles does not say which: they are drawn as a Poisson process of the page's rate would have it, given that there was
at least one. Where nothing was seen, before a page's first visit and after its last, cycles are drawn without any
condition. The rate is itself a draw from the page's Gamma posterior, one for each page, so that what is not known of
rates is in the history too: together that is a draw from all the histories that fit what was seen.

Where it is known how busy cycles are for a page's group, each counts for as much more or less as that says.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from streamsched.evolution.data.kernel_random import draw_gamma, draw_uniform, seed_state
from streamsched.numerics.arrays import Bools, Bytes, Floats, Hashes, Ints
from streamsched.numerics.jit import bare_kernel

__all__ = ["UNIFORM_ACTIVITY", "PageVisits", "impute_history"]

# What is known of a cycle of a page.
_IMPUTED: Final = 0  # some of it is drawn
_OBSERVED: Final = 1  # visits saw all of it
_CERTAIN_CHANGE: Final = 2  # a visit saw a change that can lie in no other cycle

_MIN_MEAN: Final = 1e-12  # changes expected in an interval; below, the first one is as likely at any time


class PageVisits(NamedTuple):
    """What visits told of n pages, and the Gamma posteriors of their rates per cycle.

    Page i's visits are ``offsets[i]`` up to ``offsets[i + 1]``. The first of these only begins what is known: what it
    saw is not used.
    """

    offsets: Ints  # int64[n + 1]
    times: Floats  # float64[v], in cycles since the window's start; each page's ascending
    changed: Bools  # bool[v]
    shape: Floats  # float64[n]
    exposure: Floats  # float64[n]
    hashes: Hashes  # uint64[n]: each page's draws hang on its own and the seed
    activity: Floats  # float64[k, cycles]: how busy each cycle is by each profile, 1 on average; or of no length
    profile: Ints  # int64[n], or of no length


UNIFORM_ACTIVITY: Final = (np.zeros((0, 0)), np.zeros(0, np.int64))
"""What `PageVisits` hold of how busy cycles are where nothing is known of it."""


def impute_history(visits: PageVisits, cycles: int, seed: int) -> tuple[Bools, Bools]:
    """Return in which cycles each page changed, and which of these are seen, not drawn: bool[n, cycles] each.

    Cycle c lasts from time c, exclusive, up to c + 1: a visit at its very end saw all of it. O(n cycles + v).

    >>> one, times, hashes = np.ones(1), np.array([0.0, 2.0, 3.0]), np.ones(1, np.uint64)
    >>> seen = PageVisits(np.array([0, 3]), times, times != 2.0, one, one, hashes, *UNIFORM_ACTIVITY)
    >>> changed, status = impute_history(seen, 3, seed=0)
    >>> changed.tolist(), status.tolist()
    ([[False, False, True]], [[True, True, True]])
    """
    pages = visits.offsets.size - 1
    changed = np.zeros((pages, cycles), np.bool_)
    status = np.full((pages, cycles), _OBSERVED, np.uint8)
    if visits.profile.size == 0:
        visits = visits._replace(activity=np.ones((1, cycles)), profile=np.zeros(pages, np.int64))
    _impute_pages(visits, np.uint64(seed % (1 << 64)), np.zeros(1, np.uint64), changed, status)
    return changed, status != _IMPUTED


class _Page(NamedTuple):
    """One page's history in the making as kernels take it."""

    changed: Bools  # bool[cycles]
    status: Bytes  # uint8[cycles]
    rate: float
    random_state: Hashes  # uint64[1]
    activity: Floats  # float64[cycles]


@bare_kernel
def _impute_pages(
    visits: PageVisits, seed: int, random_state: Hashes, changed: npt.NDArray[np.bool_], status: npt.NDArray[np.uint8]
) -> None:
    times, cycles = visits.times, float(changed.shape[1])
    for i in range(visits.offsets.size - 1):
        first, stop = visits.offsets[i], visits.offsets[i + 1]
        seed_state(random_state, seed, visits.hashes[i])
        rate = draw_gamma(random_state, visits.shape[i]) / visits.exposure[i]
        page = _Page(changed[i], status[i], rate, random_state, visits.activity[visits.profile[i]])
        _draw_unobserved(page, 0.0, times[first] if first < stop else cycles)
        for visit in range(first + 1, stop):
            if visits.changed[visit]:
                _place_change(page, times[visit - 1], times[visit])
        if first < stop:
            _draw_unobserved(page, max(times[stop - 1], 0.0), cycles)


@bare_kernel
def _draw_unobserved(page: _Page, start: float, end: float) -> None:
    """Draw the cycles from `start` up to `end`, of which nothing is known but the rate. O(cycles)."""
    for cycle in range(max(math.floor(start), 0), min(math.ceil(end), page.changed.size)):
        _mark_imputed(page, cycle)
        _draw_cycle(page, cycle, start, end)


@bare_kernel
def _place_change(page: _Page, start: float, end: float) -> None:
    """Draw the cycles from `start` up to `end` in which the page changed, given that it did. O(cycles).

    The first change comes as an exponential cut off at `end`, in time as busy as it is; after it, cycles are
    independent of one another. Cycles without the window are as busy as the mean.
    """
    last = math.ceil(end) - 1
    earliest = min(math.floor(start), last)
    if earliest == last:
        if 0 <= last < page.changed.size:
            page.changed[last] = True
            page.status[last] = _CERTAIN_CHANGE
        return
    length = _activity_between(page, start, end)
    mean = page.rate * length
    uniform = draw_uniform(page.random_state)
    wait = uniform * length
    if mean > _MIN_MEAN:
        wait = -math.log1p(uniform * math.expm1(-mean)) / page.rate
    first_change = min(max(_cycle_after(page, start, wait), earliest), last)
    for cycle in range(max(earliest, 0), min(last + 1, page.changed.size)):
        _mark_imputed(page, cycle)
        if cycle == first_change:
            page.changed[cycle] = True
        elif cycle > first_change:
            _draw_cycle(page, cycle, start, end)


@bare_kernel
def _activity_between(page: _Page, start: float, end: float) -> float:
    """Return the cycles from `start` to `end`, each as long as it is busy. O(cycles)."""
    length = end - start
    for cycle in range(max(math.floor(start), 0), min(math.ceil(end), page.changed.size)):
        length += (min(end, cycle + 1.0) - max(start, float(cycle))) * (page.activity[cycle] - 1.0)
    return max(length, 0.0)


@bare_kernel
def _cycle_after(page: _Page, start: float, wait: float) -> int:
    """Return in which cycle one is `wait` cycles after `start`, each as long as it is busy. O(cycles)."""
    at = start
    for cycle in range(max(math.floor(start), 0), page.changed.size):
        if at < cycle:  # before the window
            if wait < cycle - at:
                break
            wait -= cycle - at
            at = float(cycle)
        activity = page.activity[cycle]
        if wait < (cycle + 1.0 - at) * activity:
            return cycle
        wait -= (cycle + 1.0 - at) * activity
        at = cycle + 1.0
    return math.floor(at + wait)


@bare_kernel
def _draw_cycle(page: _Page, cycle: int, start: float, end: float) -> None:
    """Draw whether the page changed in the part of `cycle` between `start` and `end`. O(1)."""
    overlap = min(end, cycle + 1.0) - max(start, float(cycle))
    if draw_uniform(page.random_state) < -math.expm1(-page.rate * (overlap * page.activity[cycle])):
        page.changed[cycle] = True


@bare_kernel
def _mark_imputed(page: _Page, cycle: int) -> None:
    """Note that some of a cycle is drawn; a change seen in it stays certain. O(1)."""
    if page.status[cycle] == _OBSERVED:
        page.status[cycle] = _IMPUTED
