"""The line follows the pool: it falls when pages run out, faster the fewer are left, and rises above too many."""

from __future__ import annotations

import math

import numpy as np
import pytest

from streamsched.politeness.limits import DEFAULT_LIMITS
from streamsched.ranking.line_control import Line, draw_rows, follow_pool, place_line

TARGET, K = 400, 100


def line(level: float, gap: float = 0.1) -> Line:
    return Line(level, gap, 0.0, math.inf, 0.0, -60.0, 1.0, 86_400.0, 0.0, np.uint64(0), DEFAULT_LIMITS)


def no_estimate(count: int) -> float:
    raise AssertionError(count)


@pytest.mark.parametrize(("pages", "count"), [(1, 8), (7, 8), (8, 8), (9, 8), (1_000, 8), (1_003, 500)])
def test_rows_are_drawn_from_everywhere(pages: int, count: int) -> None:
    rows = draw_rows(np.random.default_rng(1), pages, count)
    assert np.unique(rows).size == rows.size
    assert count <= max(rows.size, count) < 2 * count + 1
    assert rows.min() >= 0
    assert rows.max() < pages
    assert np.diff(rows, prepend=-1, append=pages).max() <= 3 * max(pages // count, 1)


def test_the_line_is_placed_below_the_wanted_pages() -> None:
    levels = np.random.default_rng(1).permutation(np.arange(1_000.0))
    placed = place_line(line(-math.inf), levels, 100.0, 0.25)
    assert placed.level == 899.0
    assert placed.gap == 50.0
    assert placed.fall == 12.5
    assert place_line(line(0.5), levels, 1_000.0, 0.25).level == -math.inf
    assert place_line(line(0.5), levels[:0], 0.0, 0.25).level == -math.inf


def test_the_line_rises_above_most_pages_of_a_pool_that_is_too_large() -> None:
    levels = np.linspace(1.0, 2.0, 4 * TARGET)
    moved = follow_pool(line(1.0), levels, TARGET, K, no_estimate)
    assert np.count_nonzero(levels >= moved.level) == pytest.approx(2 * TARGET, abs=1)


def test_the_line_stays_as_long_as_the_pool_lasts() -> None:
    assert follow_pool(line(1.0), np.linspace(1.0, 2.0, TARGET + K), TARGET, K, no_estimate).level == 1.0


def test_the_line_falls_the_faster_the_fewer_pages_are_left() -> None:
    left = [TARGET + K - missing for missing in (50, 100, 200)]
    falls = [1.0 - follow_pool(line(1.0), np.linspace(1.0, 2.0, size), TARGET, K, no_estimate).level for size in left]
    assert 0.0 < falls[0] < falls[1] < falls[2]


def test_the_line_falls_to_the_next_certificates_if_few_pages_are_left() -> None:
    asked = []

    def estimate(count: int) -> float:
        asked.append(count)
        return -7.0

    assert follow_pool(line(1.0), np.linspace(1.0, 2.0, K), TARGET, K, estimate).level == -7.0
    assert asked == [2 * TARGET]


@pytest.mark.parametrize("levels", [np.full(4 * TARGET, 1.0), np.full(4 * TARGET, math.inf), np.empty(0)])
def test_equal_levels_leave_a_finite_gap(levels: np.ndarray[tuple[int], np.dtype[np.float64]]) -> None:
    moved = follow_pool(line(1.0, 0.0), levels, TARGET, K, lambda _count: -math.inf)
    assert 0.0 <= moved.gap < math.inf
    assert 0.0 <= moved.fall < math.inf
