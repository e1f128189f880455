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
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from streamsched.evolution.data.kernel_random import begin_draws, draw_gamma, draw_uniform
from streamsched.numerics.jit import bare_kernel

if TYPE_CHECKING:
    from streamsched.numerics.arrays import Bools, Bytes, Floats, Hashes, Ints

__all__ = ["ALL_ALIKE", "PageVisits", "impute_history"]

# What is known of a cycle of a page.
_DOUBTFUL: Final = 0  # some of it is drawn
_SEEN: Final = 1  # visits saw all of it
_CHANGED: Final = 2  # a visit saw a change that can lie in no other cycle

_SMALLEST_MEAN: Final = 1e-12  # changes expected in an interval; below, the first one is as likely at any time


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
    busy: Floats  # float64[k, cycles]: how busy each cycle is by each profile, 1 on average; or of no length
    profile: Ints  # int64[n], or of no length


ALL_ALIKE: Final = (np.zeros((0, 0)), np.zeros(0, np.int64))
"""What `PageVisits` hold of how busy cycles are where nothing is known of it."""


def impute_history(sightings: PageVisits, cycles: int, seed: int) -> tuple[Bools, Bools]:
    """Return in which cycles each page changed, and which of these are seen, not drawn: bool[n, cycles] each.

    Cycle c lasts from time c, exclusive, up to c + 1: a visit at its very end saw all of it. O(n cycles + v).

    >>> one, times, hashes = np.ones(1), np.array([0.0, 2.0, 3.0]), np.ones(1, np.uint64)
    >>> seen = PageVisits(np.array([0, 3]), times, times != 2.0, one, one, hashes, *ALL_ALIKE)
    >>> changed, known = impute_history(seen, 3, seed=0)
    >>> changed.tolist(), known.tolist()
    ([[False, False, True]], [[True, True, True]])
    """
    pages = sightings.offsets.size - 1
    changed = np.zeros((pages, cycles), np.bool_)
    known = np.full((pages, cycles), _SEEN, np.uint8)
    if sightings.profile.size == 0:
        sightings = sightings._replace(busy=np.ones((1, cycles)), profile=np.zeros(pages, np.int64))
    _complete(sightings, np.uint64(seed % (1 << 64)), np.zeros(1, np.uint64), changed, known)
    return changed, known != _DOUBTFUL


class _Page(NamedTuple):
    """One page's history in the making as kernels take it."""

    changed: Bools  # bool[cycles]
    known: Bytes  # uint8[cycles]
    rate: float
    draws: Hashes  # uint64[1]
    busy: Floats  # float64[cycles]


@bare_kernel
def _complete(
    sightings: PageVisits, seed: int, draws: Hashes, changed: npt.NDArray[np.bool_], known: npt.NDArray[np.uint8]
) -> None:
    times, cycles = sightings.times, float(changed.shape[1])
    for i in range(sightings.offsets.size - 1):
        first, stop = sightings.offsets[i], sightings.offsets[i + 1]
        begin_draws(draws, seed, sightings.hashes[i])
        rate = draw_gamma(draws, sightings.shape[i]) / sightings.exposure[i]
        page = _Page(changed[i], known[i], rate, draws, sightings.busy[sightings.profile[i]])
        _draw_unseen(page, 0.0, times[first] if first < stop else cycles)
        for visit in range(first + 1, stop):
            if sightings.changed[visit]:
                _place_change(page, times[visit - 1], times[visit])
        if first < stop:
            _draw_unseen(page, max(times[stop - 1], 0.0), cycles)


@bare_kernel
def _draw_unseen(page: _Page, start: float, end: float) -> None:
    """Draw the cycles from `start` up to `end`, of which nothing is known but the rate. O(cycles)."""
    for cycle in range(max(math.floor(start), 0), min(math.ceil(end), page.changed.size)):
        _doubt(page, cycle)
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
            page.known[last] = _CHANGED
        return
    length = _length(page, start, end)
    mean = page.rate * length
    chance = draw_uniform(page.draws)
    wait = chance * length
    if mean > _SMALLEST_MEAN:
        wait = -math.log1p(chance * math.expm1(-mean)) / page.rate
    hit = min(max(_pass_by(page, start, wait), earliest), last)
    for cycle in range(max(earliest, 0), min(last + 1, page.changed.size)):
        _doubt(page, cycle)
        if cycle == hit:
            page.changed[cycle] = True
        elif cycle > hit:
            _draw_cycle(page, cycle, start, end)


@bare_kernel
def _length(page: _Page, start: float, end: float) -> float:
    """Return the cycles from `start` to `end`, each as long as it is busy. O(cycles)."""
    length = end - start
    for cycle in range(max(math.floor(start), 0), min(math.ceil(end), page.changed.size)):
        length += (min(end, cycle + 1.0) - max(start, float(cycle))) * (page.busy[cycle] - 1.0)
    return max(length, 0.0)


@bare_kernel
def _pass_by(page: _Page, start: float, wait: float) -> int:
    """Return in which cycle one is `wait` cycles after `start`, each as long as it is busy. O(cycles)."""
    at = start
    for cycle in range(max(math.floor(start), 0), page.changed.size):
        if at < cycle:  # before the window
            if wait < cycle - at:
                break
            wait -= cycle - at
            at = float(cycle)
        busy = page.busy[cycle]
        if wait < (cycle + 1.0 - at) * busy:
            return cycle
        wait -= (cycle + 1.0 - at) * busy
        at = cycle + 1.0
    return math.floor(at + wait)


@bare_kernel
def _draw_cycle(page: _Page, cycle: int, start: float, end: float) -> None:
    """Draw whether the page changed in the part of `cycle` between `start` and `end`. O(1)."""
    part = min(end, cycle + 1.0) - max(start, float(cycle))
    if draw_uniform(page.draws) < -math.expm1(-page.rate * (part * page.busy[cycle])):
        page.changed[cycle] = True


@bare_kernel
def _doubt(page: _Page, cycle: int) -> None:
    """Note that some of a cycle is drawn; a change seen in it stays certain. O(1)."""
    if page.known[cycle] == _SEEN:
        page.known[cycle] = _DOUBTFUL
