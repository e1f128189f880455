"""What goes into a batch: pages that come first, then the best that their hosts have room for."""

from __future__ import annotations

import numpy as np
import pytest

from streamsched import OutcomeBatch, Scheduler
from streamsched.ranking import FullScan, Query
from streamsched.selection import fit_hosts, select_pages
from streamsched.tables import Tables


@pytest.fixture(name="tables")
def tables_of_twelve_pages() -> Tables:
    """Row i is on host i % 3, and the lower the better."""
    scheduler = Scheduler()
    urls = [f"https://{'abc'[i % 3]}.example/{i}" for i in range(12)]
    scheduler.observe(OutcomeBatch(urls, np.zeros(12), importance=12.0 - np.arange(12)))
    return scheduler.pages.tables


def test_hosts_keep_their_first_pages(tables: Tables) -> None:
    rows = np.array([3, 0, 1, 6, 4, 2])
    assert fit_hosts(tables, rows, 2).tolist() == [0, 1, 2, 4, 5]
    assert fit_hosts(tables, rows, None).tolist() == [0, 1, 2, 3, 4, 5]
    assert fit_hosts(tables, rows[:0], 1).tolist() == []


@pytest.mark.parametrize(
    ("k", "per_host", "first", "rows"),
    [
        (4, None, [], [0, 1, 2, 3]),
        (4, None, [9, 1], [9, 1, 0, 2]),
        (2, None, [9, 1], [9, 1]),
        (4, 1, [9], [9, 1, 2]),
        (5, 2, [9, 1], [9, 1, 0, 2, 4]),
        (12, 2, [9, 6], [9, 6, 1, 2, 4, 5]),
        (0, 1, [], []),
    ],
)
def test_first_then_best(tables: Tables, k: int, per_host: int | None, first: list[int], rows: list[int]) -> None:
    ranking = Scheduler(formula="importance")._ranking
    assert isinstance(ranking, FullScan)
    ranked = select_pages(ranking, tables, Query(k, 0.0, 86_400.0, 7), per_host, np.array(first, np.int64))
    assert ranked.rows.tolist() == rows
    assert ranked.scores.tolist() == [12.0 - row for row in rows]
