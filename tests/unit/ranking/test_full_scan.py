"""The ranking: its keys and ties, and the paths that only many pages take."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from streamsched import OutcomeBatch, Politeness, Scheduler
from streamsched.formula import BLOCK, Formula
from streamsched.numerics.arrays import Floats, Ints
from streamsched.numerics.packed_urls import PackedUrls
from streamsched.numerics.topk_order import select_top, sort_keys, tie_keys
from streamsched.politeness.leases import Leases
from streamsched.ranking import block_scan, full_scan
from streamsched.ranking.full_scan import FullScan, Query, Ranked
from streamsched.state.page_table import PageTable
from tests.support.fixed_scores import SCORE, make_pages, set_scores

MANY = 200_000  # more than the sample wants, and a dozen blocks


def full_sort(table: PageTable, values: Floats, query: Query) -> Ints:
    """The eligible rows by score, NaN last, then by salted hash, then by row; by NumPy's own sort."""
    shard = table.arrays
    ties = tie_keys(shard.pages.records["url_hash"][: len(table)], query.salt)
    flagged = (shard.pages.records["flags"][: len(table)] & 8) != 0
    rows = np.flatnonzero(~(flagged & (shard.pages.lease_until_s[: len(table)] > query.now)))
    return rows[np.lexsort((ties[rows], -values[rows]))][: query.k]  # NumPy sorts NaN last


def check(table: PageTable, values: Floats, k: int, salt: int = 1, threads: int | None = 2) -> Ranked:
    query = Query(k, 100.0, 86_400.0, salt)
    set_scores(table, values)
    scan = FullScan(SCORE, threads)
    ranked = scan.rank(table.arrays, query)
    assert ranked.rows.tolist() == full_sort(table, values, query).tolist()
    assert ranked.scores.tobytes() == values[ranked.rows].tobytes()
    return ranked


@pytest.fixture(scope="module")
def many() -> PageTable:
    return make_pages(MANY)


def test_sort_keys_ascend_with_scores() -> None:
    scores = np.array([np.nan, -np.inf, -1e308, -5e-324, 0.0, 5e-324, 1.0, np.nextafter(1.0, 2.0), 1e308, np.inf])
    keys = sort_keys(scores)
    assert keys.tolist() == sorted(set(keys.tolist()))
    assert sort_keys(np.array([-0.0]))[0] == sort_keys(np.array([0.0]))[0]
    assert sort_keys(np.array([-np.nan]))[0] == 0


@pytest.mark.parametrize("k", [-1, 0, 1, 2, 3, 4, 9])
def test_select_top_is_the_start_of_the_whole_order(k: int) -> None:
    scores = np.array([np.nan, 1.0, 1.0, 2.0, -np.inf, np.nan])
    ties = np.array([2, 9, 8, 1, 1, 1], np.uint64)
    assert select_top(scores, ties, k).tolist() == [3, 2, 1, 4, 5, 0][: max(k, 0)]


def test_equal_scores_with_equal_ties_come_in_order() -> None:
    assert select_top(np.zeros(9), np.zeros(9, np.uint64), 5).tolist() == [0, 1, 2, 3, 4]
    rows = np.array([3, 8, 1, 5, 0, 7, 2, 6, 4])
    assert rows[select_top(np.zeros(9), np.zeros(9, np.uint64), 5, rows)].tolist() == [0, 1, 2, 3, 4]


def test_ties_depend_on_the_salt_and_on_every_bit_of_the_hash() -> None:
    hashes = np.concatenate([[np.uint64(0)], np.uint64(1) << np.arange(64, dtype=np.uint64)])
    assert len(set(tie_keys(hashes, 7).tolist())) == 65
    assert not np.any(tie_keys(hashes, 7) == tie_keys(hashes, 8))


@pytest.mark.parametrize("k", [1, 10, 40, 10**12])
@pytest.mark.parametrize("score", [0.0, np.nan, np.inf, -np.inf])
def test_equal_scores_all_take_part(score: float, k: int) -> None:
    check(make_pages(40), np.full(40, score), k)


def test_no_pages_no_ranking() -> None:
    scan = FullScan(Formula.parse("t").compile())
    ranked = scan.rank(PageTable(86_400.0).arrays, Query(10, 0.0, 86_400.0, 0))
    assert (ranked.rows.tolist(), ranked.scores.tolist()) == ([], [])


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_many_pages_by_threads(many: PageTable, threads: int) -> None:
    check(many, np.random.default_rng(1).random(MANY), 1_000, threads=threads)


@pytest.mark.parametrize("k", [1, 500, MANY // 8, MANY // 8 + 1, MANY, 2 * MANY])
def test_many_pages_with_few_scores(many: PageTable, k: int) -> None:
    """Whole blocks tie, with NaN and infinities among them."""
    scores = np.array([np.nan, -np.inf, 0.0, -0.0, 3.0, np.inf])
    check(many, scores[np.random.default_rng(2).integers(0, 6, MANY)], k)


@pytest.mark.parametrize("order", [1, -1])
def test_many_pages_in_order_of_score(many: PageTable, order: int) -> None:
    check(many, np.arange(MANY, dtype=np.float64)[::order].copy(), 300)


@pytest.fixture
def bars(monkeypatch: pytest.MonkeyPatch) -> list[float | None]:
    """The first thresholds of the scans to come."""
    found: list[float | None] = []
    scan = FullScan._scan

    def spy(self: FullScan, shard: object, query: Query, pages: int, bar: float | None, out: object) -> Ranked:
        found.append(bar)
        return scan(self, shard, query, pages, bar, out)  # type: ignore[arg-type]

    monkeypatch.setattr(FullScan, "_scan", spy)
    return found


@pytest.mark.parametrize("k", [1, 500, MANY // 8, MANY // 2])
def test_pages_are_scanned_once_if_half_of_them_are_leased(bars: list[float | None], k: int) -> None:
    values = np.random.default_rng(4).random(MANY)
    table = make_pages(MANY)
    leased = np.flatnonzero(np.random.default_rng(5).random(MANY) < 0.5)
    Leases().grant(table.arrays, leased, 0.0, 101.0)
    check(table, values, k)
    assert len(bars) == 1
    assert (bars[0] is None) == (k == MANY // 2)


def test_sample_that_misleads_is_scanned_again(many: PageTable, bars: list[float | None]) -> None:
    """All that the sample sees is better than all else, so fewer than k pages reach the first threshold."""
    values = np.zeros(MANY)
    starts = np.linspace(0, MANY - full_scan._SAMPLE_ROWS, full_scan._SAMPLE_BLOCKS).astype(np.int64)
    values[(starts[:, None] + np.arange(full_scan._SAMPLE_ROWS)).ravel()] = 1.0
    sampled = int(values.sum())
    check(many, values, sampled)
    check(many, values, sampled + 1)
    assert bars == [1.0, 1.0, None]


def test_sample_sees_eligible_pages_only() -> None:
    values = np.arange(MANY, dtype=np.float64)
    table = make_pages(MANY)
    Leases().grant(table.arrays, np.arange(MANY - 5_000, MANY), 0.0, 101.0)
    ranked = check(table, values, 100)
    assert ranked.rows[0] == MANY - 5_001
    Leases().grant(table.arrays, np.arange(MANY), 0.0, 101.0)
    assert check(table, values, 100).rows.size == 0
    Leases().grant(table.arrays, np.arange(50), 0.0, 100.0)
    assert check(table, values, 100).rows.tolist() == list(range(49, -1, -1))


def test_sample_of_nan_sets_no_threshold(many: PageTable) -> None:
    values = np.full(MANY, np.nan)
    values[7] = 1.0
    assert check(many, values, 20).rows[0] == 7


def test_pages_whose_hashes_collide_stay_in_order_under_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two threads that take turns have blocks 0 and 1, then 2 and 3: one after the other they are out of order."""
    turn, scan_rows = threading.Barrier(2), block_scan.scan_rows

    def take_turns(*args: Any) -> int:
        turn.wait()
        return scan_rows(*args)

    monkeypatch.setattr(full_scan, "scan_rows", take_turns)
    table = make_pages(4 * BLOCK)
    set_scores(table, np.zeros(len(table)))
    table.arrays.pages.records["url_hash"][: len(table)] = 7
    ranked = FullScan(SCORE, 2).rank(table.arrays, Query(2 * BLOCK, 0.0, 86_400.0, 1))
    assert ranked.rows.tolist() == list(range(2 * BLOCK))


def test_scores_by_rows_are_those_of_all(many: PageTable) -> None:
    values = np.random.default_rng(3).random(MANY)
    set_scores(many, values)
    scan = FullScan(SCORE)
    assert scan.score(many.arrays, 0.0, 86_400.0).tobytes() == values.tobytes()
    rows = np.array([MANY - 1, 0, 7, 7])
    assert scan.score(many.arrays, 0.0, 86_400.0, rows).tobytes() == values[rows].tobytes()
    assert scan.score(many.arrays, 0.0, 86_400.0, np.empty(0, np.int64)).size == 0


def test_a_sample_of_urls_is_spread_over_hosts() -> None:
    """What the others rest on: the pages made for them are distinct and known by number."""
    table = make_pages(300)
    assert table.find(PackedUrls.pack(["https://a.example/299", "https://a.example/300"])).tolist() == [299, -1]


@pytest.mark.parametrize("pages", [100, 70_000])
def test_what_was_asked_for_goes_first_then_what_is_overdue_longest(pages: int) -> None:
    """However few pages there are, so that all are scored, or many, so that bounds are kept."""
    scheduler = Scheduler(politeness=Politeness(max_revisit="1d"), new_share=0.0)
    urls = [f"https://h{i}.example/" for i in range(pages)]
    scheduler.observe(OutcomeBatch(urls, 1.0 + np.arange(pages) % 997))
    scheduler.ask([urls[70], "https://u.example/"], now=9e5)
    for now in (9e5, 9e5 + 60.0, 9e5 + 120.0):
        batch = scheduler.next_batch(10, now=now)
        scheduler.release(batch.urls)
        assert set(batch.urls[:2]) == {urls[70], "https://u.example/"}
        assert [int(url[9:].split(".")[0]) % 997 for url in batch.urls[2:]] == sorted(
            [i % 997 for i in range(pages) if i != 70]
        )[:8]
        assert batch.tiers.tolist() == [2, 2, *[1] * 8]
        np.testing.assert_array_equal(batch.scores, scheduler.score(batch.urls, now=now))


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 1.0])
def test_the_place_among_many_pages_is_estimated(share: float) -> None:
    """Every other page is leased; the estimate is within five standard deviations of the place by a full sort."""
    table, values = make_pages(MANY), np.random.default_rng(6).random(MANY)
    Leases().grant(table.arrays, np.arange(0, MANY, 2), 0.0, 101.0)
    set_scores(table, values)
    query = Query(1, 100.0, 86_400.0, 1)
    order = full_sort(table, values, replace(query, k=MANY))
    exact = round(share * (order.size - 1))
    place = FullScan(SCORE, 2).place(table.arrays, query, int(order[exact]))
    assert place.is_estimate
    assert (
        abs(place.position - 1 - exact) <= 5 * MANY * np.sqrt(share / 4 / full_scan._MOST_COUNTED) + 5 * MANY / 65_536
    )
    assert abs(place.of_eligible - MANY // 2) <= 5 * MANY * np.sqrt(0.25 / full_scan._MOST_COUNTED)
