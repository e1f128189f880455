"""Imputation: from visits with gaps between them to a complete history, by draws from the posterior.

A visit without a change shows that no cycle since the previous visit had one. A visit with a change after several
cycles does not show which of them: they are drawn from a Poisson process with the page's rate, given at least one
change. Cycles before a page's first visit and after its last are drawn unconditionally. The rate itself is drawn once
per page from its Gamma posterior, so the history also reflects the uncertainty of rates: together, a draw from all
histories consistent with the observations.

If the activity of cycles is known for a page's group, each cycle's length is scaled by it. If the group's surges are
known (`shared_changes`), their hazard adds to the page's own.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from streamsched.evolution.data.shared_changes import SharedChanges, draw_gamma, draw_uniform, seed_state
from streamsched.numerics.arrays import Bools, Bytes, Floats, Hashes, Ints
from streamsched.numerics.jit import bare_kernel

# Status of one cycle of a page.
_IMPUTED: Final = 0  # at least part of it is drawn
_OBSERVED: Final = 1  # visits cover all of it
_CERTAIN_CHANGE: Final = 2  # a visit found a change that can be in no other cycle

_LEAST_RATE: Final = 1e-200  # with which a hazard is compared, so that a rate of 0 leaves it finite
_MIN_MEAN: Final = 1e-12  # expected changes in an interval; below, the first change is uniform in time


class PageVisits(NamedTuple):
    """Visits of n pages, and the Gamma posteriors of their rates per cycle.

    The visits of page i are ``offsets[i]`` up to ``offsets[i + 1]``. The first one only starts the observed period; its
    ``changed`` is not used.
    """

    offsets: Ints  # int64[n + 1]
    times: Floats  # float64[v], in cycles since the window's start; each page's ascending
    changed: Bools  # bool[v]
    shape: Floats  # float64[n]
    exposure: Floats  # float64[n]
    hashes: Hashes  # uint64[n]: seeds each page's random stream, together with `seed`
    activity: Floats  # float64[k, cycles]: activity of each cycle by profile, 1 on average; or empty
    profile: Ints  # int64[n], or empty


UNIFORM_ACTIVITY: Final = (np.zeros((0, 0)), np.zeros(0, np.int64))
"""The last two fields of `PageVisits` if no activity is known: all cycles count alike."""


def impute_history(
    visits: PageVisits, cycles: int, seed: int, shared: SharedChanges | None = None
) -> tuple[Bools, Bools]:
    """Return the cycles in which each page changed, and which of these are observed: bool[n, cycles] each.

    ``shared``: surges of the pages' groups, None for none. Cycle c lasts from time c, exclusive, up to c + 1: a visit
    at its very end observes all of it. O(n cycles + v).

    >>> one, times, hashes = np.ones(1), np.array([0.0, 2.0, 3.0]), np.ones(1, np.uint64)
    >>> visits = PageVisits(np.array([0, 3]), times, times != 2.0, one, one, hashes, *UNIFORM_ACTIVITY)
    >>> changed, observed = impute_history(visits, 3, seed=0)
    >>> changed.tolist(), observed.tolist()
    ([[False, False, True]], [[True, True, True]])
    """
    pages = visits.offsets.size - 1
    changed = np.zeros((pages, cycles), np.bool_)
    status = np.full((pages, cycles), _OBSERVED, np.uint8)
    if visits.profile.size == 0:
        visits = visits._replace(activity=np.ones((1, cycles)), profile=np.zeros(pages, np.int64))
    if shared is None:
        shared = SharedChanges(np.zeros((1, cycles)), np.zeros(pages, np.int64))
    _impute_pages(
        visits, shared, np.uint64(seed % (1 << 64)), np.zeros(1, np.uint64), np.empty(cycles), changed, status
    )
    return changed, status != _IMPUTED


class _Page(NamedTuple):
    """One page's history during imputation, as kernels take it."""

    changed: Bools  # bool[cycles]
    status: Bytes  # uint8[cycles]
    rate: float
    random_state: Hashes  # uint64[1]
    activity: Floats  # float64[cycles]


@bare_kernel
def _impute_pages(  # noqa: PLR0913, PLR0917  a kernel
    visits: PageVisits,
    shared: SharedChanges,
    seed: int,
    random_state: Hashes,
    activity: Floats,
    changed: npt.NDArray[np.bool_],
    status: npt.NDArray[np.uint8],
) -> None:
    times, cycles = visits.times, float(changed.shape[1])
    for i in range(visits.offsets.size - 1):
        first, stop = visits.offsets[i], visits.offsets[i + 1]
        seed_state(random_state, seed, visits.hashes[i])
        rate = draw_gamma(random_state, visits.shape[i]) / visits.exposure[i]
        hazard = shared.hazard[shared.group[i]]
        for cycle in range(activity.size):
            activity[cycle] = visits.activity[visits.profile[i], cycle] + hazard[cycle] / max(rate, _LEAST_RATE)
        page = _Page(changed[i], status[i], rate, random_state, activity)
        _draw_unobserved(page, 0.0, times[first] if first < stop else cycles)
        for visit in range(first + 1, stop):
            if visits.changed[visit]:
                _place_change(page, times[visit - 1], times[visit])
        if first < stop:
            _draw_unobserved(page, max(times[stop - 1], 0.0), cycles)


@bare_kernel
def _draw_unobserved(page: _Page, start: float, end: float) -> None:
    """Draw the unobserved cycles from `start` up to `end`, given only the rate. O(cycles)."""
    for cycle in range(max(math.floor(start), 0), min(math.ceil(end), page.changed.size)):
        _mark_imputed(page, cycle)
        _draw_cycle(page, cycle, start, end)


@bare_kernel
def _place_change(page: _Page, start: float, end: float) -> None:
    """Draw the cycles from `start` up to `end` in which the page changed, given at least one change. O(cycles).

    The first change is exponential, truncated at `end`, in activity-weighted time; the cycles after it are independent.
    Cycles outside the window have activity 1.
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
    """Return the length from `start` to `end` in cycles, each weighted by its activity. O(cycles)."""
    length = end - start
    for cycle in range(max(math.floor(start), 0), min(math.ceil(end), page.changed.size)):
        length += (min(end, cycle + 1.0) - max(start, float(cycle))) * (page.activity[cycle] - 1.0)
    return max(length, 0.0)


@bare_kernel
def _cycle_after(page: _Page, start: float, wait: float) -> int:
    """Return the cycle at `wait` activity-weighted cycles after `start`. O(cycles)."""
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
    """Mark a cycle as partly imputed; an observed change in it stays certain. O(1)."""
    if page.status[cycle] == _OBSERVED:
        page.status[cycle] = _IMPUTED
