"""Forgetting: what a page's visits added fades by the days between them, by a half-life that the corpus learns."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from streamsched import OutcomeBatch, Scheduler
from streamsched.estimation.forgetting import FIRST_HALF_LIFE_DAYS, half_lives_days
from streamsched.numerics.arrays import Floats
from streamsched.numerics.packed_urls import PackedUrls
from streamsched.records.schema import HALF_LIVES, SHADOW_PAGES
from streamsched.state.page_table import PageTable

DAY = 86_400.0
FIRST_PLACE = HALF_LIVES // 2


def urls(count: int) -> list[str]:
    return [f"https://a.example/{i}" for i in range(count)]


def visit(table: PageTable, pages: list[str], day: float, changed: object = False) -> None:
    flags = np.broadcast_to(np.asarray(changed, np.bool_), len(pages))
    table.observe(OutcomeBatch(pages, np.full(len(pages), day * DAY), changed=flags), surges=False)


def half_life(table: PageTable) -> float:
    return float(table.arrays.corpus["half_life"][0])


@pytest.mark.parametrize("cycle_s", [3_600.0, DAY, 7 * DAY])
def test_evidence_halves_in_a_half_life_of_days_whatever_the_cycle(cycle_s: float) -> None:
    table = PageTable(cycle_s)
    for day in (0, 10, 190):
        visit(table, urls(1), day)
    page = table.arrays.pages.records[0]
    endless = FIRST_HALF_LIFE_DAYS / np.log(2.0) * DAY / cycle_s  # cycles that all of the past would count as
    assert page["own_exposure"] == pytest.approx(endless * ((1.0 - 2.0 ** (-10 / 180)) / 2.0 + 0.5))
    assert (page["visits"], page["own_shape"]) == (2, 0.0)


def test_a_change_fades_and_is_not_taken_back() -> None:
    table = PageTable(DAY)
    visit(table, urls(1), 0)
    visit(table, urls(1), 1, True)
    seen = float(table.arrays.pages.records["own_shape"][0])
    visit(table, urls(1), 181)
    page = table.arrays.pages.records[0]
    assert page["own_shape"] == pytest.approx(seen / 2)
    assert (page["visits"], page["changes"]) == (2, 1)  # the published estimators do not forget


def test_what_fades_is_the_same_however_the_time_is_cut_into_visits() -> None:
    """A change long ago counts as little after many visits as after one, and so does time without a change.

    The visits are too few to learn a half-life from.
    """
    left = []
    for days in ((2, 400), (2, *range(40, 401, 40))):
        table = PageTable(DAY)
        visit(table, urls(1), 0)
        visit(table, urls(1), 1, True)
        for day in days:
            visit(table, urls(1), day)
        page = table.arrays.pages.records[0]
        left.append((float(page["own_shape"]), float(page["own_exposure"])))
    assert left[0] == pytest.approx(left[1])


def test_a_short_interval_counts_in_full() -> None:
    table = PageTable(DAY)
    visit(table, urls(1), 0)
    visit(table, urls(1), 1e-6)
    assert table.arrays.pages.records["own_exposure"][0] == pytest.approx(1e-6)


def test_evidence_older_than_any_half_life_is_gone_and_sound() -> None:
    table = PageTable(DAY)
    for day in (0, 1, 1e9, 2e12):
        visit(table, urls(1), day, day == 1)
    assert table.arrays.pages.records["own_shape"][0] < 1e-100
    assert table.faults() == []


def test_half_lives_are_octaves_around_the_first() -> None:
    compared = half_lives_days()
    assert compared[FIRST_PLACE] == FIRST_HALF_LIFE_DAYS == half_life(PageTable(DAY))
    assert np.diff(np.log2(compared)) == pytest.approx(np.ones(HALF_LIVES - 1))


def crawl(rates: Floats, days: int, every: int, seed: int, cycle_s: float = DAY) -> PageTable:
    """Visit pages in turn, each at an interval of days; ``rates``: changes a day by span of equal length and page."""
    table, rng = PageTable(cycle_s), np.random.default_rng(seed)
    pages = urls(rates.shape[1])
    stale = np.zeros(len(pages), np.bool_)
    for day in range(days):
        stale |= rng.random(len(pages)) < -np.expm1(-rates[day * len(rates) // days])
        chosen = np.arange(day % every, len(pages), every)
        visit(table, [pages[i] for i in chosen], day, stale[chosen])
        stale[chosen] = False
    return table


@pytest.mark.parametrize("cycle_s", [DAY, 3_600.0])
def test_half_life_shrinks_where_rates_drift(cycle_s: float) -> None:
    """All pages draw a new rate every 60 days: much older visits tell nothing."""
    rates = np.random.default_rng(1).gamma(0.5, 0.4, (8, 400))
    assert half_life(crawl(rates, 480, 4, 1, cycle_s)) < 100.0


def test_half_life_grows_where_rates_stay() -> None:
    rates = np.random.default_rng(2).gamma(0.5, 0.4, (1, 400))
    assert half_life(crawl(rates, 720, 4, 2)) > 500.0


def test_half_life_stays_while_nothing_is_known() -> None:
    table = PageTable(DAY)
    visit(table, urls(64), 0)
    visit(table, urls(64), 1)
    assert table.arrays.corpus["sweep"][0] > 0
    assert half_life(table) == pytest.approx(FIRST_HALF_LIFE_DAYS, rel=1e-3)


def test_sample_halves_and_keeps_the_shadows_of_its_pages() -> None:
    table = PageTable(DAY)
    pages = urls(SHADOW_PAGES)
    visit(table, pages, 0)
    times = (1 + np.arange(SHADOW_PAGES) / SHADOW_PAGES) * DAY
    table.observe(OutcomeBatch(pages, times, changed=np.zeros(SHADOW_PAGES, np.bool_)), surges=False)
    before = table.arrays.shadows[:SHADOW_PAGES].copy()
    assert np.unique(before["exposure"][:, 0]).size == SHADOW_PAGES
    table.discover(PackedUrls.pack(["https://b.example/"]), 2 * DAY)
    assert table.arrays.corpus["shadow_stride"][0] == 2
    half = SHADOW_PAGES // 2
    np.testing.assert_array_equal(table.arrays.shadows[:half], before[::2])
    assert not np.any(table.arrays.shadows[half:SHADOW_PAGES]["exposure"])
    fits = table.arrays.corpus["half_life_fits"][0].copy()
    visit(table, pages[1::2], 3)
    np.testing.assert_array_equal(table.arrays.corpus["half_life_fits"][0], fits)  # they are not in the sample
    visit(table, pages[:1], 3)
    assert np.all(table.arrays.corpus["half_life_fits"][0] != fits)


def test_batches_repeats_and_saving_make_no_difference(tmp_path: Path) -> None:
    """A sample that halves on the way, cut into batches in two ways; one is saved, loaded and fed twice."""
    count = SHADOW_PAGES + 100
    rng = np.random.default_rng(5)
    whole, parts = Scheduler(cycle="1d"), Scheduler(cycle="1d")
    for day in range(6):
        known = urls(count if day > 2 else SHADOW_PAGES - 100)
        changed = rng.random(len(known)) < 0.1
        times = day * DAY + np.arange(len(known))
        whole.observe(OutcomeBatch(known, times, changed=changed))
        for cut in np.array_split(np.arange(len(known)), 1 + 7 * day):
            batch = OutcomeBatch([known[i] for i in cut], times[cut], changed=changed[cut])
            parts.observe(batch)
            parts.observe(batch)
        parts.save(tmp_path / str(day))
        parts = Scheduler.load(tmp_path / str(day))
    assert whole.digest() == parts.digest()
