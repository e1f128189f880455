"""Where the line is: above it, the pool holds the pages of several batches. Only speed depends on it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import numpy as np

from streamsched.ranking.certificates import SHELVED

if TYPE_CHECKING:
    from streamsched.numerics.arrays import Floats, Ints
    from streamsched.ranking.certificates import Certificates
    from streamsched.ranking.page_examination import Line

__all__ = ["draw_rows", "estimate_level", "follow_pool", "place_line"]

_SAMPLE: Final = 1 << 15  # pages drawn
_MOST_POOLS: Final = 3  # times the pages that the pool should hold: with more, the line is raised
_FALL_DECAY: Final = 0.05  # weight of each query in the moving average of the fall
_GROWTH: Final = 1.05  # most factor of the gap from query to query


def draw_rows(random: np.random.Generator, pages: int) -> Ints:
    """Return rows drawn at random, since neighbours are alike, or all rows if they are few: int64[m], ascending."""
    return np.arange(pages) if pages <= _SAMPLE else np.sort(random.integers(pages, size=_SAMPLE))


def estimate_level(certificates: Certificates, rows: Ints, count: float) -> float:
    """Return the level that about `count` of the certificates of ``rows``: int64[m] allow; -inf if there are fewer."""
    bounds, ticks = certificates.bound[rows], certificates.tick[rows]
    bounds = bounds[(ticks < SHELVED) & ~np.isnan(bounds)]
    place = math.ceil(count)
    return float(np.partition(bounds, -1 - place)[-1 - place]) if place < bounds.size else -math.inf


def place_line(line: Line, levels: Floats, count: float) -> Line:
    """Return the line above which `count` of ``levels``: float64[m] lie; at -inf if there are fewer. O(m log m)."""
    levels = np.sort(levels)[::-1]
    if int(count) >= levels.size:
        return line._replace(level=-math.inf, gap=0.0)
    level = _to_single(float(levels[int(count)]))
    gap = float(levels[int(count) // 2]) - level
    return line._replace(level=level, gap=gap if 0.0 < gap < math.inf else 0.0)


def follow_pool(line: Line, levels: Floats, target: int, k: int, estimate: Callable[[int], float]) -> Line:
    """Return the line of the next query, after the pool of ``levels``: float64[m] gave a batch of `k` pages. O(m).

    `target`: how many pages the pool should hold; `estimate`: a level that the certificates of so many pages allow.
    """
    size, level, gap = levels.size, line.level, _measure_gap(line, levels, target)
    if size > _MOST_POOLS * target:
        level = float(np.partition(levels, size // 4)[size // 4])  # a part at a time: pages may not be alike
    elif size < target + target // 4:
        level -= line.fall * line.step_s
    if size < target - target // 4:
        level -= gap * min((target - size) / (target // 2 + 1), 1.0)
        level = min(level, estimate(2 * (target - size)))
    fall = line.fall
    if line.step_s > 0.0 and math.isfinite(level) and math.isfinite(line.level):
        most = 2.0 * gap * k / max(target, 1) / line.step_s  # if no page rises into the pool
        fall += _FALL_DECAY * (min(max((line.level - level) / line.step_s, -most), most) - fall)
        fall = min(fall, most)
    return line._replace(level=_to_single(level), gap=gap, fall=max(fall, 0.0))


def _measure_gap(line: Line, levels: Floats, target: int) -> float:
    """Return how far above the line the lower half of a pool of `target` pages reaches; it grows slowly.

    Pages in a surge, far above the others, must not count.
    """
    if levels.size <= target // 2 or line.level == -math.inf:
        return line.gap
    gap = float(np.partition(levels, target // 2)[target // 2]) - line.level
    most = _GROWTH * line.gap if line.gap > 0.0 else math.inf
    return min(gap, most) if 0.0 < gap < math.inf else line.gap


def _to_single(level: float) -> float:
    """Return a float32 close to `level`. O(1)."""
    with np.errstate(over="ignore"):
        return float(np.float32(level))
