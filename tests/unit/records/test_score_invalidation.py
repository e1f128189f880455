"""Score invalidation: rows of applied outcomes, of the sweep and of new weights, and nothing without a reader."""

from __future__ import annotations

import numpy as np
import pytest

from streamsched.estimation.hierarchical_prior import FAST, SWEEP_EVERY, SWEEP_ROWS
from streamsched.numerics.packed_urls import PackedUrls
from streamsched.outcomes import Outcome, OutcomeBatch
from streamsched.records.score_invalidation import UNWATCHED, InvalidatedRows
from streamsched.state.page_table import PageTable

DAY = 86_400.0


def url(page: int) -> str:
    return f"https://a.example/{page}"


def visit(table: PageTable, rows: list[int] | range, day: float) -> None:
    """Visit pages, and let the sweep go at its usual speed, as if the mean had been learned."""
    table.arrays.corpus["swept_pages"], table.arrays.corpus["sweep_hurried"] = 1 << 40, 0
    table.observe(
        OutcomeBatch([url(row) for row in rows], np.full(len(rows), day * DAY), changed=np.zeros(len(rows), np.bool_))
    )


def visited(pages: int) -> PageTable:
    """Pages visited once, which moves no sweep."""
    table = PageTable(DAY)
    visit(table, range(pages), 0)
    return table


def taken(touched: InvalidatedRows) -> list[int]:
    rows = touched.take()
    assert rows is not None
    return sorted(rows.tolist())


def test_nobody_asks_nothing_is_noted() -> None:
    table = visited(50)
    visit(table, range(50), 1)
    assert table.touched is None
    assert UNWATCHED.marks.tolist() == [0, 0, 0]


def test_applied_outcomes_are_told_once() -> None:
    table = visited(50)
    touched = table.watch()
    assert touched is table.touched
    assert taken(touched) == []
    visit(table, [7, 3], 1)
    table.observe(OutcomeBatch.from_outcomes([Outcome(url(9), DAY, 503), Outcome(url(3), 2 * DAY)]))
    assert taken(touched) == [3, 3, 7, 9]
    assert taken(touched) == []


def test_duplicates_and_late_outcomes_are_not_told() -> None:
    table = visited(5)
    touched = table.watch()
    visit(table, [3], 0)
    visit(table, [4], -1)
    assert taken(touched) == []


def test_new_pages_are_those_from_the_known_on() -> None:
    table = visited(5)
    touched = table.watch()
    assert touched.known == 5
    visit(table, [4, 5, 6], 1)
    visit(table, [5], 2)
    table.discover(PackedUrls.pack([url(1), url(7)]), 0.0)
    assert (touched.known, taken(touched), touched.known) == (5, [4], 8)
    visit(table, [5], 3)
    assert taken(touched) == [5]


def test_weights_are_told_of_known_pages() -> None:
    table = visited(5)
    touched = table.watch()
    table.discover(PackedUrls.pack([url(5)]), 0.0)
    table.weigh(PackedUrls.pack([url(5), url(2), url(0)]), np.arange(3.0))
    assert taken(touched) == [0, 2]


def test_sweep_is_told_as_far_as_it_went() -> None:
    table = visited(5 * SWEEP_ROWS)
    touched = table.watch()
    step = range(SWEEP_EVERY)
    visit(table, step, 1)
    assert taken(touched) == sorted([*step, *range(SWEEP_ROWS)])
    visit(table, step, 2)
    visit(table, step, 3)
    assert taken(touched) == sorted([*step, *step, *range(SWEEP_ROWS, 3 * SWEEP_ROWS)])
    for day in range(4, 7):  # the last two steps, and the first of the next sweep
        visit(table, step, day)
    assert taken(touched) == sorted([*step] * 3 + [*range(SWEEP_ROWS), *range(3 * SWEEP_ROWS, 5 * SWEEP_ROWS)])


def test_fast_sweep_is_told_as_far_as_it_went() -> None:
    """Sixteen pages that changed at once move the mean far, and the sweep with it."""
    rows = FAST * SWEEP_ROWS
    table = visited(2 * rows)
    table.arrays.corpus["swept_pages"] = 0
    touched = table.watch()
    urls = [url(row) for row in range(SWEEP_EVERY)]
    table.observe(OutcomeBatch(urls, np.full(SWEEP_EVERY, DAY), changed=np.ones(SWEEP_EVERY, np.bool_)))
    assert taken(touched) == sorted([*range(SWEEP_EVERY), *range(rows)])


def test_sweep_all_round_is_all_pages() -> None:
    table = visited(3 * SWEEP_ROWS)
    touched = table.watch()
    for day in range(1, 4):
        visit(table, range(SWEEP_EVERY), day)
    assert int(table.arrays.corpus["sweep"][0]) == 1
    assert touched.take() is None
    for day in range(4, 12):
        visit(table, range(SWEEP_EVERY), day)
    assert touched.take() is None
    assert taken(touched) == []


def test_sweep_over_pages_that_came_since_is_not_told() -> None:
    table = visited(SWEEP_ROWS // 2)
    touched = table.watch()
    visit(table, range(SWEEP_ROWS // 2, 3 * SWEEP_ROWS), 0)
    visit(table, range(SWEEP_EVERY), 1)
    assert taken(touched) == sorted([*range(SWEEP_EVERY), *range(SWEEP_ROWS // 2)])


@pytest.mark.parametrize("weigh", [False, True])
def test_too_many_are_all_pages_until_asked(weigh: bool) -> None:
    table = visited(2_000)
    table.touched = touched = InvalidatedRows(table.arrays.corpus, capacity=10)
    visit(table, range(10), 1)
    assert taken(touched) == list(range(10))
    visit(table, range(8), 2)
    if weigh:
        table.weigh(PackedUrls.pack([url(8), url(9), url(10)]), np.ones(3))
        table.weigh(PackedUrls.pack([url(11)]), np.ones(1))
    else:
        visit(table, [8, 9, 10], 2)
    assert touched.take() is None
    assert taken(touched) == []


def test_sweep_far_beyond_what_was_noted_is_all_pages() -> None:
    """Visits to new pages advance it, though none of them is recorded."""
    table = visited(2_000)
    table.touched = touched = InvalidatedRows(table.arrays.corpus, capacity=10)
    new = range(2_000, 2_000 + SWEEP_EVERY)
    visit(table, new, 1)
    visit(table, new, 2)
    assert touched.take() is None


def test_forgotten_is_not_told() -> None:
    table = visited(200)
    touched = table.watch()
    visit(table, range(30), 1)
    touched.forget()
    visit(table, [150], 1)
    assert taken(touched) == [150]


def test_groups_that_show_something_else_are_turned_into_rows() -> None:
    table = visited(60)
    touched = table.watch()
    urls = [url(row) for row in range(60)]
    table.observe(OutcomeBatch(urls[:10], np.full(10, 9 * DAY), changed=np.ones(10, np.bool_)))
    touched.spread(table.arrays.groups, table.arrays.pages.records)
    assert set(taken(touched)) == set(range(60))  # those visited, and those that bear the surge
    table.observe(OutcomeBatch(urls[10:11], np.full(1, 9 * DAY), changed=np.ones(1, np.bool_)))
    touched.spread(table.arrays.groups, table.arrays.pages.records)
    assert taken(touched) == list(range(10, 60))  # other pages of the directory may have followed


def test_groups_of_too_many_pages_make_all_bounds_anew() -> None:
    table = visited(60)
    touched = table.touched = InvalidatedRows(table.arrays.corpus, 50)
    table.observe(OutcomeBatch([url(row) for row in range(9)], np.full(9, 9 * DAY), changed=np.ones(9, np.bool_)))
    touched.spread(table.arrays.groups, table.arrays.pages.records)
    assert touched.take() is None
    touched.spread(table.arrays.groups, table.arrays.pages.records)
    assert taken(touched) == []
