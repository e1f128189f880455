"""Surges: what visits to some pages of a group say about the others, and what they do not say."""

from __future__ import annotations

import numpy as np
import pytest

from streamsched.estimation import surges
from streamsched.formula import Formula
from streamsched.formula.terminals import TerminalColumns, context_of
from streamsched.numerics.arrays import Floats, Record
from streamsched.numerics.packed_urls import PackedUrls
from streamsched.outcomes import OutcomeBatch
from streamsched.scheduler.scheduler import Scheduler
from streamsched.state.page_table import PageTable

DAY = 86_400.0
# Pages that share neither a name nor a directory: see `related_pages` for those that do.
DOCS = [f"https://a.example/docs/{i}/doc{i}" for i in range(40)]
NEWS = [f"https://a.example/news/{i}/news{i}" for i in range(40)]


def crawled(days: int = 20, *, cycle_s: float = DAY) -> PageTable:
    """Two directories of forty pages, a tenth of them visited a day, none of them changing."""
    table = PageTable(cycle_s)
    visit(table, DOCS + NEWS, 0.0)
    for day in range(1, days):
        visit(table, [url for i, url in enumerate(DOCS + NEWS) if i % 10 == day % 10], float(day))
    return table


def visit(table: PageTable, urls: list[str], day: float, changed: object = False, *, surges: bool = True) -> None:
    flags = np.broadcast_to(np.asarray(changed, np.bool_), len(urls))
    table.observe(OutcomeBatch(urls, np.full(len(urls), day * DAY), changed=flags), surges=surges)


def docs(table: PageTable) -> Record:
    return table.arrays.groups.records[int(table.arrays.pages.records["group"][0])]


def surge(table: PageTable, day: float) -> Floats:
    """The terminal of each page, those of the first directory first."""
    shard, count = table.arrays, len(table)
    fill = TerminalColumns(["surge"], count).fill
    context = context_of(shard, slice(0, count))
    return fill(shard.pages.records[:count], shard.pages.traces[:count], context, day * DAY, table.cycle_s)[
        "surge"
    ].copy()


def test_some_changes_are_borne_by_the_rest_of_the_directory_at_once() -> None:
    table = crawled()
    before = surge(table, 20.0)
    visit(table, DOCS[:6], 20.0, changed=True)
    after = surge(table, 20.0)
    assert np.all(after[6:40] > 0.6)
    assert np.all(after[:6] == 0.0)  # just visited
    np.testing.assert_array_equal(after[40:], before[40:])  # of another directory
    visit(table, DOCS[6:8], 20.0, changed=True)
    assert np.all(surge(table, 20.0)[8:40] >= after[8:40])


def test_one_change_is_no_surge_and_visits_without_any_end_it() -> None:
    table = crawled()
    visit(table, DOCS[:1], 20.0, changed=True)
    assert docs(table)["open_share"] < 0.3
    visit(table, DOCS[1:8], 20.0)
    assert docs(table)["open_share"] == 0.0
    np.testing.assert_allclose(surge(table, 20.0)[8:40], surge(crawled(), 20.0)[8:40], atol=2e-3)


def test_share_is_that_of_the_pages_that_were_hit() -> None:
    table = crawled()
    visit(table, DOCS[:30], 20.0, changed=np.arange(30) % 2 == 0)
    assert float(docs(table)["open_share"]) == pytest.approx(0.5, abs=0.1)


def test_surge_is_kept_after_its_window_until_its_pages_are_visited() -> None:
    table = crawled()
    visit(table, DOCS[:6], 20.0, changed=True)
    visit(table, DOCS[6:10], 21.0, changed=True)
    assert docs(table)["kept_s"] == 20 * DAY
    borne = surge(table, 22.0)
    assert np.all(borne[10:40] > 0.6)
    assert np.all(borne[:10] < 0.1)
    visit(table, DOCS[10:40], 22.0, changed=True)
    assert np.all(surge(table, 23.0)[:40] < 0.1)
    assert docs(table)["kept_unvisited"] == 0


def test_change_that_a_surge_explains_does_not_raise_the_pages_own_rate() -> None:
    table, alone = crawled(), crawled()
    for one in (table, alone):
        visit(one, DOCS[:20], 20.0, changed=True, surges=one is table)
    first, last = table.arrays.pages.records["own_shape"][[0, 19]]
    expected = alone.arrays.pages.records["own_shape"][[0, 19]]
    assert 0.6 * expected[0] < first < expected[0]  # but for the hazard, nothing was known of a surge yet
    assert last < 0.2 * expected[1]


def test_changes_expected_of_the_pages_themselves_are_no_surge() -> None:
    table = PageTable(DAY)
    rng = np.random.default_rng(3)
    for day in range(60):
        visit(table, DOCS, float(day), changed=rng.random(40) < 0.5)
    assert docs(table)["open_share"] == 0.0
    assert np.all(surge(table, 60.0) < 0.03)  # what was shown on the first days, before rates were known, nobody bears
    assert surges.surge_frequency(table.arrays.corpus[0], docs(table)) < 0.07


def test_hazard_rises_with_the_time_since_the_last_visit_and_falls_where_visits_find_no_surge() -> None:
    table = crawled(3)
    early = float(docs(table)["hazard"])
    assert early == pytest.approx(0.005, rel=0.02)
    waited = np.where(np.arange(80) % 10 == 1, 29.0, np.where(np.arange(80) % 10 == 2, 28.0, 30.0))
    assert surge(table, 30.0)[:40] == pytest.approx(-np.expm1(-early * waited)[:40], rel=1e-6)
    for day in range(3, 300):
        visit(table, DOCS, float(day))
    assert docs(table)["hazard"] < 0.3 * early


def test_nothing_is_learned_where_surges_are_left_alone() -> None:
    table = PageTable(DAY)
    visit(table, DOCS, 0.0, surges=False)
    visit(table, DOCS[:20], 1.0, changed=True, surges=False)
    assert np.all(surge(table, 9.0) == 0.0)
    assert docs(table)["open_s"] == -np.inf


@pytest.mark.parametrize("at", [-1e308, 1e308, 5e-324])
def test_clock_errors_do_not_stop_what_is_learned(at: float) -> None:
    table = crawled()
    table.observe(OutcomeBatch([DOCS[0], DOCS[1]], np.full(2, at), changed=np.ones(2, np.bool_)))
    for day in (21.0, 22.0):
        visit(table, DOCS[2:8] if day == 21.0 else DOCS[8:12], day, changed=True)
    assert np.all(surge(table, 22.0)[12:40] > 0.5)
    assert table.faults() == []


def test_new_groups_know_of_no_surge() -> None:
    table = PageTable(DAY)
    table.discover(PackedUrls.pack(["https://a.example/"]), 0.0)
    group = table.arrays.groups.records[0]
    assert group["open_s"] == group["kept_s"] == -np.inf
    assert surges.surge_frequency(table.arrays.corpus[0], group) == 0.01


def test_ranking_sends_the_crawler_to_the_rest_within_the_same_cycle() -> None:
    scheduler = Scheduler()
    urls = DOCS + [f"https://b.example/{i}/b{i}" for i in range(60)]
    rng = np.random.default_rng(1)
    for day in range(20):
        part = urls if day == 0 else [url for i, url in enumerate(urls) if i % 5 == day % 5]
        busy = np.array(["b.example" in url for url in part])
        scheduler.observe(
            OutcomeBatch(part, np.full(len(part), day * DAY), changed=busy & (rng.random(len(part)) < 0.5))
        )
    now = 20 * DAY
    assert sum("docs" in url for url in scheduler.rank(20, now=now).urls) < 5
    scheduler.observe(OutcomeBatch(DOCS[:5], np.full(5, now), changed=np.ones(5, np.bool_)))
    assert sum("docs" in url for url in scheduler.rank(20, now=now + 60.0).urls) >= 18  # few as likely
    assert scheduler.formula == Formula.parse("worth * gain")


def test_surge_is_seen_on_the_day_of_many_visits_before_it() -> None:
    table = crawled(cycle_s=DAY / 24)
    for hour in range(10):
        visit(table, DOCS[4 * hour : 4 * hour + 4], 20.0 + hour / 24)
    assert docs(table)["open_share"] == 0.0
    visit(table, DOCS[:6], 20.5, changed=True)
    assert np.all(surge(table, 20.5)[6:40] > 0.6)


def test_window_with_suspicion_outlasts_its_cycle() -> None:
    table = crawled(cycle_s=DAY / 24)
    visit(table, DOCS[:1], 20.0, changed=True)
    opened = float(docs(table)["open_s"])
    visit(table, DOCS[1:2], 20.0 + 1 / 24, changed=True)
    assert docs(table)["open_s"] == opened
    visit(table, DOCS[2:3], 21.0)
    assert docs(table)["open_s"] == 21 * DAY
