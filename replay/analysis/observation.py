"""Changes of a log as a crawl observes them: visits of each page, and the intervals between changes.

A log of changes is observed in steps of equal length, like the paper's crawler: several changes within a step are seen
as one. A log of crawl outcomes has its own visits; the step of a page is the mean time between them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from streamsched.numerics.arrays import Bools, Floats, Ints
from streamsched.numerics.jit import kernel
from streamsched.replay.analysis.analysis_settings import Span
from streamsched.replay.ground_truth import ChangeLog, Crawls


@dataclass(frozen=True, slots=True, eq=False)
class Observation:
    """Visits of n pages while they existed: N visits each, X of them with a change, and k intervals between changes.

    ``step_s``: float64[n], the time between two visits of a page; ``visits``: int64[n]; ``changes``: int64[n];
    ``watched_s``: float64[n], the time observed. ``steps``: int64[k], intervals from a seen change to the next of the
    same page, 1 or more of the page's steps, page after page: those of page i are ``offsets[i]`` to ``offsets[i + 1]``,
    ``offsets``: int64[n + 1]. The appearance of a page is not a change and starts a new sequence; its removal is a
    change.
    """

    step_s: Floats
    visits: Ints
    changes: Ints
    watched_s: Floats
    steps: Ints
    offsets: Ints

    def interval_pages(self) -> Ints:
        """Return the page of each interval: int64[k]. O(k)."""
        return np.repeat(np.arange(self.visits.size), np.diff(self.offsets))

    def intervals_s(self) -> Floats:
        """Return the intervals in seconds: float64[k]. O(k)."""
        return np.asarray(self.steps * np.repeat(self.step_s, np.diff(self.offsets)))


def find_appearances(log: ChangeLog) -> Bools:
    """Return which entries of `log` are appearances or reappearances of a page: bool[m]. O(m)."""
    if log.crawls is not None:
        return np.isneginf(log.crawls.since_s)
    comes = np.zeros(log.times_s.size, np.bool_)
    comes[1:] = log.gone[:-1]
    comes[log.offsets[:-1][np.diff(log.offsets) > 0]] = True
    return comes


def observe_steps(log: ChangeLog, span: Span, step_s: float) -> Observation:
    """Return what visits of all pages at every multiple of `step_s` since 1970 see of `log` within `span`. O(changes).

    The last visit is the first that sees everything, so it may be up to a step after the end of the span.
    """
    bounds = (float(np.ceil(span[0] / step_s)), float(np.ceil(np.nextafter(span[1], -np.inf) / step_s)))
    visits, changes, steps, offsets = _crawl((log.times_s, log.offsets, log.gone), span[1], step_s, bounds)
    watched_s = np.asarray(visits * step_s, np.float64)
    return Observation(np.full(visits.size, step_s), visits, changes, watched_s, steps, offsets)


def observe_visits(log: ChangeLog, crawls: Crawls) -> Observation:
    """Return what the visits saw from which `log` was made. O(changes)."""
    begins = find_appearances(log)
    owner = np.repeat(np.arange(len(log.urls)), np.diff(log.offsets))
    changes = np.bincount(owner[~begins], minlength=len(log.urls))
    visits = crawls.visits
    step_s = np.divide(crawls.watched_s, visits, out=np.ones(visits.size), where=visits > 0)
    ends = np.flatnonzero(~begins)
    ends = ends[~begins[ends - 1]]
    interval_s = log.times_s[ends] - log.times_s[ends - 1]
    steps = np.maximum(1, np.rint(interval_s / step_s[owner[ends]])).astype(np.int64)
    offsets = np.zeros(visits.size + 1, np.int64)
    np.cumsum(np.bincount(owner[ends], minlength=visits.size), out=offsets[1:])
    return Observation(step_s, visits, changes, crawls.watched_s, steps, offsets)


@kernel
def _crawl(
    log: tuple[Floats, Ints, Bools], end_s: float, step_s: float, bounds: tuple[float, float]
) -> tuple[Ints, Ints, Ints, Ints]:
    """Return visits, changes: int64[n], intervals: int64[k] and their offsets: int64[n + 1].

    `log`: times, offsets and gone; `bounds`: the first visit and the last, in steps.
    """
    times_s, offsets, gone = log
    pages = offsets.size - 1
    visits, changes = np.zeros(pages, np.int64), np.zeros(pages, np.int64)
    steps, ends = np.empty(times_s.size, np.int64), np.zeros(pages + 1, np.int64)
    count = 0
    for page in range(pages):
        there, seen, known, last = False, False, 0, 0
        for i in range(offsets[page], offsets[page + 1]):
            if times_s[i] >= end_s:
                break
            visit = int(np.ceil(max(times_s[i] / step_s, bounds[0])))  # the first that sees it
            if not there:
                there, seen, known, last = not gone[i], False, visit, visit
                continue
            if visit > last:  # what is known was not a change; of two within a step one is seen
                if seen:
                    steps[count] = visit - last
                    count += 1
                changes[page] += 1
                seen, last = True, visit
            if gone[i]:
                visits[page] += visit - known
                there = False
        if there:
            visits[page] += max(0, int(bounds[1]) - known)
        ends[page + 1] = count
    return visits, changes, steps[:count].copy(), ends


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
