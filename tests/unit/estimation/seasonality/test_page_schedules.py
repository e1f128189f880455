"""Schedules of pages, and the test of whether a page has one."""

from __future__ import annotations

import numpy as np
import pytest

from streamsched import Scheduler
from streamsched.estimation.seasonality.periodicity import LEVEL, Periodicity, find_periodicity
from streamsched.numerics.arrays import Bools, Floats
from streamsched.numerics.packed_urls import PackedUrls
from streamsched.outcomes import OutcomeBatch
from streamsched.politeness.politeness_settings import Politeness
from streamsched.records.seasonality_schema import WEEK_HOURS
from tests.support.intensities import HOUR, MONDAY_S, merge, office, visit

PAGES = 2_000
VISITS = (2, 4, 14, 16)  # by the clock
DAY = 86_400.0


def test_a_page_keeps_its_hour_where_no_other_page_has_it() -> None:
    """All pages change between 2 and 4 but one between 14 and 16: its own visits show it, however rare it is."""
    scheduler = Scheduler(cycle=HOUR, surges=False)
    urls = PackedUrls.pack([f"https://one.example/{i}" for i in range(PAGES)])
    for day in range(35):
        for hour in VISITS:
            changed = np.full(PAGES, hour == 4)
            changed[0] = hour == 16
            at_s = np.full(PAGES, MONDAY_S + (24 * day + hour) * HOUR)
            scheduler.observe(OutcomeBatch(urls, at_s, changed=changed))
    scheduler.use("due")
    evening, noon = (MONDAY_S + (24 * day + hour) * HOUR for day, hour in ((34, 16), (35, 13)))
    assert scheduler.scores(now=evening).max() < 0.1
    due = scheduler.scores(now=noon)  # the others' hour has passed since, but not that of page 0
    assert due[0] < 0.2
    assert due[1:].min() > 0.9
    assert scheduler.scores(now=noon + 3 * HOUR)[0] > 0.9
    assert scheduler.core.pages.faults() == []


def crawl(changed: Bools, step_s: float) -> Scheduler:
    """A scheduler that visited pages in turn, a column of ``changed``: bool[pages, visits] each `step_s`."""
    scheduler = Scheduler()
    urls = PackedUrls.pack([f"https://h{i % 50}.example/{i}" for i in range(changed.shape[0])])
    for i, column in enumerate(changed.T):
        at_s = np.full(column.size, MONDAY_S + i * step_s)
        scheduler.observe(OutcomeBatch(urls, at_s, changed=np.ascontiguousarray(column)))
    return scheduler


def types(scheduler: Scheduler) -> list[Periodicity]:
    shard = scheduler.core.pages.arrays
    return [find_periodicity(shard.pages.records[row], shard.seasonality, row) for row in range(len(scheduler))]


def poisson(rates: Floats, visits: int, step_s: float, seed: int) -> Bools:
    chance = 1.0 - np.exp(-rates * step_s / DAY)
    return np.random.default_rng(seed).random((rates.size, visits)) < chance[:, None]


@pytest.mark.parametrize(("step_s", "visits"), [(DAY, 60), (6 * HOUR, 120), (HOUR, 240)])
def test_poisson_pages_are_named_so_but_for_the_level(step_s: float, visits: int) -> None:
    rates = np.random.default_rng(0).gamma(1.0, 0.5, 600)
    found = types(crawl(poisson(rates, visits, step_s, seed=1), step_s))
    assert np.mean([one.p_value < LEVEL for one in found]) <= LEVEL
    assert {one.kind for one in found if one.p_value >= LEVEL} == {"poisson"}


@pytest.mark.parametrize("factors", [np.ones(WEEK_HOURS), office()], ids=["even", "office"])
@pytest.mark.parametrize("every_h", [1.0, 6.0, 24.0, 0.0])
def test_poisson_pages_are_named_so_whenever_they_are_visited(factors: Floats, every_h: float) -> None:
    """At random times, an hour to a day apart or each page differently; also if busier in office hours."""
    rng = np.random.default_rng(0)
    gaps = np.resize([every_h] if every_h else [1.0, 6.0, 24.0], 400)
    visits = visit(rng, factors, rng.gamma(1.0, 0.5, gaps.size), gaps, weeks=3 if every_h == 1.0 else 8)
    scheduler = Scheduler()
    scheduler.observe(visits.batch(PackedUrls.pack([f"https://h{i % 20}.example/{i}" for i in range(gaps.size)])))
    assert int(scheduler.core.pages.arrays.seasonality.state["schedules"][0]) > 200  # as many are judged
    assert np.mean([one.p_value < LEVEL for one in types(scheduler)]) <= LEVEL


@pytest.mark.parametrize(("every_h", "k", "cycles"), [(24.0, 60, 56), (1.0, 6, 504)])
def test_poisson_pages_are_named_so_where_their_visits_follow_from_what_was_seen(
    every_h: float, k: int, cycles: int
) -> None:
    """The scheduler chooses the visits by what it has learned, as it does outside of tests."""
    rng = np.random.default_rng(0)
    rates = rng.gamma(1.0, 0.5, 400)
    rows = {f"https://h{i % 20}.example/{i}": i for i in range(rates.size)}
    scheduler = Scheduler(politeness=Politeness(delay=0.0, in_flight=None, min_revisit=0.0), new_share=0.0)
    scheduler.discover(list(rows), now=MONDAY_S)
    last = np.full(rates.size, MONDAY_S)
    for now in MONDAY_S + every_h * HOUR * np.arange(1, cycles + 1):
        batch = scheduler.next_batch(k, now=now)
        chosen = np.array([rows[url] for url in batch.urls])
        chance = -np.expm1(-rates[chosen] * (now - last[chosen]) / DAY)
        last[chosen] = now
        changed = rng.random(chosen.size) < chance
        scheduler.observe(OutcomeBatch(batch.urls, np.full(chosen.size, now), changed=changed))
    assert int(scheduler.core.pages.arrays.seasonality.state["schedules"][0]) > 100
    assert np.mean([one.p_value < LEVEL for one in types(scheduler)]) <= LEVEL


@pytest.mark.parametrize(("kind", "every_h", "weeks"), [("weekly", 24.0, 8), ("daily", 4.0, 3)])
def test_pages_by_the_clock_are_found_by_visits_at_random_times(kind: str, every_h: float, weeks: int) -> None:
    """Power: at least nine in ten."""
    rng = np.random.default_rng(1)
    parts = []
    for i in range(96):
        hours = [24 * (i % 7) + 9] if kind == "weekly" else list(range(i % 24, WEEK_HOURS, 24))
        factors = np.zeros(WEEK_HOURS)
        factors[hours] = WEEK_HOURS / len(hours)
        visits = visit(rng, factors, np.array([10.0 * len(hours)]), np.array([every_h]), weeks=weeks)
        parts.append((visits, PackedUrls.pack([f"https://h{i % 20}.example/{i}"])))
    scheduler = Scheduler()
    scheduler.observe(merge(parts))
    assert np.mean([one.kind == kind for one in types(scheduler)]) > 0.9


def test_pages_of_fixed_weekdays_are_found_in_eight_weeks() -> None:
    """Power, at daily visits: at least nine in ten are found, and with the right days."""
    days = np.arange(400) % 7
    changed = (np.arange(56)[None, :] - 1) % 7 == days[:, None]  # the visit at midnight sees the day before
    many = poisson(np.full(400, 0.15), 56, DAY, seed=2)
    found = types(crawl(np.concatenate([changed, many]), DAY))
    assert (
        np.mean([one.kind == "weekly" and one.days == (day,) for one, day in zip(found, days.tolist(), strict=False)])
        > 0.9
    )
    assert np.mean([one.kind == "poisson" for one in found[400:]]) > 1.0 - LEVEL


def test_pages_of_a_fixed_hour_are_found_in_three_weeks() -> None:
    hours = np.arange(200) % 24
    visits = 3 * 168 // 4
    begins = 4 * np.arange(visits) - 4
    changed = (hours[:, None] - begins[None, :]) % 24 < 4
    found = types(crawl(changed, 4 * HOUR))
    assert np.mean([one.kind == "daily" for one in found]) > 0.9
    assert all(one.hour is not None and (one.hour - hour + 3) % 24 <= 6 for one, hour in zip(found, hours, strict=True))


def test_pages_of_every_hour_are_found_by_half_hourly_visits() -> None:
    changed = np.tile(np.arange(160) % 2 == 1, (50, 1))
    assert np.mean([one.kind == "hourly" for one in types(crawl(changed, HOUR / 2))]) > 0.9


def test_gaps_are_compared_with_the_exponential() -> None:
    changed = np.tile(np.arange(40 * 8) % 8 == 3, (3, 1))  # a day apart, by visits three hours apart
    one = types(crawl(changed, 3 * HOUR))[0]
    assert (one.gaps, one.near_day, one.near_hour) == (37, 1.0, 0.0)
    assert one.mean_gap == pytest.approx(24.0)
    assert one.modified_gap == pytest.approx(22.6, abs=0.5)
    assert one.near_day_by_chance == pytest.approx(np.exp(-21 / 22.6) - np.exp(-27 / 22.6), abs=0.01)


def test_a_page_without_a_schedule_is_taken_for_poisson() -> None:
    assert types(crawl(np.zeros((1, 5), np.bool_), DAY)) == [Periodicity("poisson", 1.0)]
