"""The k best pages are the first k of all pages sorted, whatever the scores, leases, blocks and threads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamsched.formula import Program
from streamsched.numerics.topk_order import tie_keys
from streamsched.politeness.leases import Leases
from streamsched.ranking import full_scan
from streamsched.ranking.full_scan import FullScan, Query
from tests.support.fixed_scores import TableOfScores, make_pages
from tests.support.guarded_memory import small_reserve

scores = st.sampled_from([np.nan, -np.inf, -1.0, -0.0, 0.0, 1.0, np.inf]) | st.floats()
leases = st.sampled_from([None, None, None, 99.0, 100.0, 101.0])
columns = st.lists(st.tuples(scores, leases), max_size=120)


@pytest.fixture(autouse=True, scope="module")
def small_blocks() -> Iterator[None]:
    """Blocks of 8 rows and a sample of 2 runs of 3: what takes a million pages otherwise happens to a hundred."""
    with small_reserve(), pytest.MonkeyPatch.context() as patch:
        sizes = {"BLOCK": 8, "_THREADED_ROWS": 16, "_SAMPLE_ROWS": 3, "_SAMPLE_BLOCKS": 2}
        for name, value in sizes.items():
            patch.setattr(full_scan, name, value)
        yield


@settings(max_examples=200)
@given(columns, st.integers(0, 130), st.integers(0, 2**64 - 1), st.integers(1, 3))
def test_ranking_is_the_full_sort(pages: list[tuple[float, float | None]], k: int, salt: int, threads: int) -> None:
    values = np.array([score for score, _ in pages])
    table = make_pages(len(pages))
    for row, (_, until) in enumerate(pages):
        if until is not None:
            Leases().grant(table.arrays, np.array([row]), until)
    scan = FullScan(cast(Program, TableOfScores(values)), threads)
    ranked = scan.rank(table.arrays, Query(k, 100.0, 1.0, salt))
    ties = tie_keys(table.arrays.pages.records["url_hash"][: len(pages)], salt).tolist()
    eligible = [row for row, (_, until) in enumerate(pages) if until is None or until <= 100.0]

    def place(row: int) -> tuple[bool, float, int]:
        score = values[row]
        return bool(np.isnan(score)), 0.0 if np.isnan(score) else -score, ties[row]

    assert ranked.rows.tolist() == sorted(eligible, key=place)[:k]
    assert ranked.scores.tobytes() == values[ranked.rows].tobytes()
    Leases().release(table.arrays, np.arange(len(pages)))
    assert scan.rank(table.arrays, Query(1000, 100.0, 1.0, salt)).rows.size == len(pages)
