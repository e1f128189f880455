"""Where the line is: above it, the pool holds the pages of several batches. Only speed depends on it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np

from streamsched.numerics.arrays import Floats, Ints
from streamsched.numerics.jit import bare_kernel, inlined_kernel
from streamsched.politeness.limits import Limits
from streamsched.ranking.certificates import BELOW_FLOOR, Certificates
from streamsched.ranking.host_slots import HIGHER_TIER_LEVEL

_MOST_POOLS: Final = 3  # times the pages that the pool should hold: with more, the line is raised
_GROWTH: Final = 1.25  # most factor of the gap from query to query
_OVERDUE_SPAN_S: Final = 2.0**24  # in which the level of overdue pages doubles: a float32 has 24 bits
_OVERDUE_MARGIN_S: Final = 2.0**22  # after the origin, pages overdue since then still have a level of their own


class Line(NamedTuple):
    """When pages are examined, and the level from which on they are pooled."""

    level: float
    gap: float  # from there to the level of the pool's median
    fall: float  # of the line, a second
    horizon_s: float  # how long certificates last at most, or by up to a half less, lest they end together
    now: float
    since: float  # when certificates begin to hold: earlier than `now`, since callers' clocks differ
    step_s: float  # between queries
    cycle_s: float
    origin_s: float  # of the levels of overdue pages
    salt: np.uint64
    limits: Limits


@inlined_kernel
def level_of(score: float, overdue_s: float, line: Line) -> float:
    """Return what bounds are compared with: a page's score, or more if the page is overdue, asked for: inf. O(1).

    The level of an overdue page does not change with time. Levels only select which pages are examined: pages found are
    ordered by tier and score.
    """
    if overdue_s <= line.now:
        before_s = line.origin_s + _OVERDUE_MARGIN_S - overdue_s
        level = HIGHER_TIER_LEVEL * (1.0 + min(max(before_s / _OVERDUE_SPAN_S, 0.0), 4.0))
        return level if overdue_s > -np.inf else np.inf
    return -np.inf if np.isnan(score) else min(score, HIGHER_TIER_LEVEL)


def levels_of(scores: Floats, overdue_s: Floats, line: Line) -> Floats:
    """Return `level_of` of each pair of ``scores``, ``overdue_s``: float64[m] as float64[m]. O(m)."""
    levels = np.empty(scores.size)
    _write_levels(scores, overdue_s, line, levels)
    return levels


@bare_kernel
def _write_levels(scores: Floats, overdue_s: Floats, line: Line, out: Floats) -> None:
    for i in range(out.size):
        out[i] = level_of(scores[i], overdue_s[i], line)


def draw_rows(random: np.random.Generator, pages: int, count: int) -> Ints:
    """Return about `count` rows drawn at random, since neighbours are alike, or all if they are few: ascending."""
    width = max(pages // count, 1)
    rows: Ints = np.arange(0, pages - width + 1, width)
    return rows if width == 1 else rows + random.integers(width, size=rows.size)


def estimate_level(certificates: Certificates, rows: Ints, count: float) -> float:
    """Return the level that about `count` of the certificates of ``rows``: int64[m] allow; -inf if there are fewer."""
    bounds, ticks = certificates.bound[rows], certificates.tick[rows]
    bounds = bounds[(ticks < BELOW_FLOOR) & ~np.isnan(bounds)]
    place = math.ceil(count)
    return float(np.partition(bounds, -1 - place)[-1 - place]) if place < bounds.size else -math.inf


def place_line(line: Line, levels: Floats, count: float, pace: float) -> Line:
    """Return the line above which `count` of ``levels``: float64[m] lie; at -inf if there are fewer. O(m)."""
    place = int(count)
    if place >= levels.size:
        return _replace(line, -math.inf, 0.0, pace)
    levels = np.partition(levels, (-1 - place, -1 - place // 2))
    level = _to_single(float(levels[-1 - place]))
    gap = float(levels[-1 - place // 2]) - level
    return _replace(line, level, gap if 0.0 < gap < math.inf else 0.0, pace)


def follow_pool(line: Line, levels: Floats, target: int, k: int, estimate: Callable[[int], float]) -> Line:
    """Return the line of the next query, after the pool of ``levels``: float64[m] gave a batch of `k` pages. O(m).

    `target`: how many pages the pool should hold; `estimate`: a level that a given number of certificates allow.
    """
    levels = levels[levels >= line.level]  # those below could not be certified
    level, gap, missing = line.level, _measure_gap(line, levels, target), target + k - levels.size
    if levels.size > _MOST_POOLS * target + k:
        place = levels.size - 2 * target
        level = float(np.partition(levels, place)[place])
    elif missing > 0:
        level -= gap * min(2 * missing / target, 1.0)
        if 2 * missing > target:  # the next pages may be far below
            level = min(level, estimate(2 * missing))
    return _replace(line, level, gap, k / max(target, 1))


def _replace(line: Line, level: float, gap: float, pace: float) -> Line:
    """Return `line` at `level`; `pace`: batch over pool.

    Batches take pages as fast as the line falls and pages rise together, so half of that is never far off.
    """
    fall = gap * pace / line.step_s if line.step_s > 0.0 else 0.0
    return line._replace(level=_to_single(level), gap=gap, fall=fall)


def _measure_gap(line: Line, levels: Floats, target: int) -> float:
    """Return how far above the line the lower half of `target` pages reaches; it grows slowly.

    Pages in a surge, far above the others, must not count.
    """
    most = _GROWTH * line.gap if line.gap > 0.0 else math.inf
    half = target // 2
    gap = most if levels.size <= half else float(np.partition(levels, half)[half]) - line.level
    gap = min(gap, most)
    return gap if 0.0 < gap < math.inf else line.gap


def _to_single(level: float) -> float:
    """Return a float32 close to `level`. O(1)."""
    with np.errstate(over="ignore"):
        return float(np.float32(level))
