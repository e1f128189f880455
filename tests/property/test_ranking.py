"""The k best pages are the first k of all pages sorted, whatever the scores, leases, blocks and threads."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsched.numerics.topk_order import tie_keys
from streamsched.politeness.leases import Leases
from streamsched.politeness.limits import make_limits
from streamsched.politeness.politeness_settings import Politeness
from streamsched.ranking import full_scan
from streamsched.ranking.full_scan import FullScan, Query
from streamsched.records.page_schema import URGENT
from tests.support.cases import examples
from tests.support.fixed_scores import SCORE, make_pages, set_scores
from tests.support.guarded_memory import small_reserve

scores = st.sampled_from([np.nan, -np.inf, -1.0, -0.0, 0.0, 1.0, np.inf]) | st.floats()
leases = st.sampled_from([None, None, None, 99.0, 100.0, 101.0])
overdue = st.sampled_from([math.inf, math.inf, -math.inf, 100.0, 99.0, -3.0, math.nextafter(100.0, 200.0)])
columns = st.lists(st.tuples(scores, leases, overdue), max_size=120)


@pytest.fixture(autouse=True, scope="module")
def small_blocks() -> Iterator[None]:
    """Blocks of 8 rows and a sample of 2 runs of 3: what takes a million pages otherwise happens to a hundred."""
    with small_reserve(), pytest.MonkeyPatch.context() as patch:
        sizes = {"BLOCK": 8, "_MANY_ROWS": 16, "_SAMPLE_ROWS": 3, "_SAMPLE_BLOCKS": 2}
        for name, value in sizes.items():
            patch.setattr(full_scan, name, value)
        yield


@examples(ordinary=30, whole=100)
@given(columns, st.integers(0, 130), st.integers(0, 2**64 - 1), st.integers(1, 3))
def test_ranking_is_the_full_sort(
    pages: list[tuple[float, float | None, float]], k: int, salt: int, threads: int
) -> None:
    """Pages asked for are before all others, then the overdue, the longest overdue first."""
    values = np.array([score for score, _, _ in pages])
    table = make_pages(len(pages))
    records, limits = table.arrays.pages.records, make_limits(Politeness(max_revisit=1.0))
    for row, (_, until, since_s) in enumerate(pages):
        records["last_visit_s"][row] = 100.0 if math.isinf(since_s) else since_s - 1.0
        records["flags"][row] |= URGENT if since_s == -math.inf else 0
        if until is not None:
            Leases().grant(table.arrays, np.array([row]), 0.0, until)
    set_scores(table, values)
    scan = FullScan(SCORE, threads)
    query = Query(k, 100.0, 1.0, salt, limits)
    ranked = scan.rank(table.arrays, query)
    ties = tie_keys(table.arrays.pages.records["url_hash"][: len(pages)], salt).tolist()
    eligible = [row for row, (_, until, _) in enumerate(pages) if until is None or until <= 100.0]

    def place(row: int) -> tuple[float, bool, float, int]:
        score, since_s = values[row], pages[row][2]
        if since_s <= 100.0:
            return since_s, False, 0.0, ties[row]
        return math.inf, bool(np.isnan(score)), 0.0 if np.isnan(score) else -score, ties[row]

    def tier(row: int) -> int:
        return 2 if pages[row][2] == -math.inf else int(pages[row][2] <= 100.0)

    assert ranked.rows.tolist() == sorted(eligible, key=place)[:k]
    assert ranked.tiers.tolist() == [tier(row) for row in ranked.rows.tolist()]
    assert ranked.scores.tobytes() == values[ranked.rows].tobytes()
    for row in range(0, len(pages), 7):  # eligible or not
        before = sum((place(other), other) < (place(row), row) for other in eligible)
        assert scan.place(table.arrays, query, row) == (1 + before, len(eligible), False)
    Leases().release(table.arrays, np.arange(len(pages)))
    assert scan.rank(table.arrays, Query(1000, 100.0, 1.0, salt, limits)).rows.size == len(pages)
