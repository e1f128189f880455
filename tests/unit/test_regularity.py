"""Page types: Poisson pages are rarely taken for others, and pages by the clock are found."""

from __future__ import annotations

import numpy as np
import pytest

from streamsched import Scheduler
from streamsched.arrays import Bools, Floats
from streamsched.outcomes import OutcomeBatch
from streamsched.packed import PackedUrls
from streamsched.regularity import LEVEL, Regularity, judge_page

HOUR = 3_600.0
DAY = 86_400.0
MONDAY_S = 1_704_067_200.0  # 2024-01-01


def crawl(changed: Bools, step_s: float) -> Scheduler:
    """A scheduler that visited pages in turn, a column of ``changed``: bool[pages, visits] each `step_s`."""
    scheduler = Scheduler()
    urls = PackedUrls.pack([f"https://h{i % 50}.example/{i}" for i in range(changed.shape[0])])
    for i, column in enumerate(changed.T):
        at_s = np.full(column.size, MONDAY_S + i * step_s)
        scheduler.observe(OutcomeBatch(urls, at_s, changed=np.ascontiguousarray(column)))
    return scheduler


def types(scheduler: Scheduler) -> list[Regularity]:
    return [judge_page(scheduler.pages.tables, row) for row in range(len(scheduler))]


def poisson(rates: Floats, visits: int, step_s: float, seed: int) -> Bools:
    chance = 1.0 - np.exp(-rates * step_s / DAY)
    return np.random.default_rng(seed).random((rates.size, visits)) < chance[:, None]


@pytest.mark.parametrize(("step_s", "visits"), [(DAY, 60), (6 * HOUR, 120), (HOUR, 240)])
def test_poisson_pages_are_named_so_but_for_the_level(step_s: float, visits: int) -> None:
    rates = np.random.default_rng(0).gamma(1.0, 0.5, 600)
    found = types(crawl(poisson(rates, visits, step_s, seed=1), step_s))
    assert np.mean([one.p_value < LEVEL for one in found]) <= LEVEL
    assert {one.kind for one in found if one.p_value >= LEVEL} == {"poisson"}


def test_pages_of_fixed_weekdays_are_found_in_eight_weeks() -> None:
    """Power, at daily visits: nine in ten and more are found, and by their right days."""
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
    changed = np.tile(np.arange(200) % 2 == 1, (50, 1))
    assert np.mean([one.kind == "hourly" for one in types(crawl(changed, HOUR / 2))]) > 0.9


def test_gaps_are_compared_with_the_exponential() -> None:
    changed = np.tile(np.arange(40 * 8) % 8 == 3, (3, 1))  # a day apart, by visits three hours apart
    one = types(crawl(changed, 3 * HOUR))[0]
    assert (one.gaps, one.near_day, one.near_hour) == (37, 1.0, 0.0)
    assert one.mean_gap == pytest.approx(24.0)
    assert one.modified_gap == pytest.approx(22.6, abs=0.5)
    assert one.near_day_by_chance == pytest.approx(np.exp(-21 / 22.6) - np.exp(-27 / 22.6), abs=0.01)


def test_a_page_without_a_schedule_is_taken_for_poisson() -> None:
    assert types(crawl(np.zeros((1, 5), np.bool_), DAY)) == [Regularity("poisson", 1.0)]


@pytest.mark.parametrize(
    ("regularity", "words"),
    [
        (Regularity("poisson", 0.7), "no schedule shows in its changes"),
        (Regularity("hourly", 0.001), "updated hourly (p = 0.001)"),
        (Regularity("daily", 0.001, tuple(range(7)), 3), "updated daily, likeliest at 03:00 to 03:59 (p = 0.001)"),
        (Regularity("other", 0.001, (0, 4), 9), "updated on Monday, Friday, likeliest at 09:00 to 09:59 (p = 0.001)"),
    ],
)
def test_regularity_in_words(regularity: Regularity, words: str) -> None:
    assert str(regularity) == words
