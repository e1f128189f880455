"""The newest time of a stream: no single outcome moves it far, whatever comes first and however batches are cut."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from streamsched import Outcome, OutcomeBatch, Scheduler, SettingsError
from streamsched.state.stream_clock import StreamClock, WallClock, admit_outcomes

DAY = 86_400.0
T = 1.7e9


def refused(clock: StreamClock, *days: float, latest_s: float | None = None) -> list[int]:
    return [int(place) for place in clock.admit(T + DAY * np.array(days), latest_s)]


@pytest.mark.parametrize(
    ("first", "days", "places", "newest_day"),
    [
        ([], (0, 1, 500, 2, 3, 500, 400, 4, 11), [2, 5, 6], 11),
        ([], (0, 500, 1, 500), [1, 3], 1),
        ([], (0, 1, 35, 35, 35, 36, 37, 30), [2, 3, 4], 37),  # a gap
        ([], (0, 1, -900, 50, -901, 50, -902, 50, -903, 50, -904, 50), [3, 5, 7, 9], 50),  # old ones say nothing
        ([9e10, 9e10], (0, 1, 500), [2], 1),  # a wrong clock, delivered twice
        ([T + 11 * DAY, T + 11 * DAY], (0, 1, 500), [2], 1),
        ([0.0], (0, 0, 1, 2, 500), [0, 1, 4], 2),  # long ago
        ([T, 0.0], (0, 0, 1, 2, 500), [4], 2),  # one wrong time among the first two
        ([T, 0.0], (11, 12, 500), [0, 2], 12),
        ([9e10, T], (0, 1, 500), [2], 1),
    ],
)
def test_single_outcomes_do_not_move_it_far(
    first: list[float], days: tuple[float, ...], places: list[int], newest_day: float
) -> None:
    clock = StreamClock(10 * DAY)
    assert clock.admit(np.array(first)).size == 0
    assert refused(clock, *days) == places
    assert clock.newest_s == T + newest_day * DAY


def test_times_of_calls_move_it() -> None:
    clock = StreamClock(10 * DAY)
    clock.advance(T)
    assert refused(clock, 500) == [0]
    clock.advance(T + 495 * DAY)
    assert refused(clock, 500, 0) == []
    clock.advance(T)
    assert clock.newest_s == T + 500 * DAY


def test_a_clock_decides_alone() -> None:
    clock = StreamClock(10 * DAY)
    assert refused(clock, 0, 500, 601, latest_s=T + 600 * DAY) == [2]
    assert clock.newest_s == T + 500 * DAY


def test_without_a_bound_everything_is_accepted() -> None:
    clock = StreamClock(None)
    assert refused(clock, 0, 500_000, -500_000) == []


def test_state_is_restored() -> None:
    clock, other = StreamClock(10 * DAY), StreamClock(10 * DAY)
    other.restore(clock.state())
    assert other.newest_s == -math.inf
    refused(clock, 0, 1, 500)
    other.restore(clock.state())
    assert refused(other, 20.5) == refused(clock, 20.5) == []
    assert other.state() == clock.state()


def test_rejections_name_the_records() -> None:
    clock = StreamClock(DAY)
    batch = OutcomeBatch(["https://a.example/", "", "https://b.example/", "https://c.example/"], [T, T, T + 9 * DAY, T])
    kept, problems = admit_outcomes(clock, batch, batch.problems(), None)
    assert [outcome.url for outcome in kept] == ["https://a.example/", "https://c.example/"]
    assert [(problem.record, problem.field) for problem in problems] == [(1, "url"), (2, "fetched_at")]
    assert problems[1].found == T + 9 * DAY
    assert "seconds" in problems[1].expected


def test_a_wall_clock_with_a_setting() -> None:
    clock = WallClock(lambda: T, "2h")
    assert clock.latest_s() == T + 7_200.0
    assert clock.check_now(T + 9 * DAY, T + 9 * DAY) == T + 9 * DAY
    with pytest.raises(SettingsError) as caught:
        clock.check_now(T + 8_000.0, T - 9 * DAY)
    assert caught.value.setting == "now"
    assert WallClock(lambda: T, None).latest_s() == 1e11
    with pytest.raises(SettingsError):
        WallClock(lambda: T, "soon")


PAGES = [f"https://h{i % 5}.example/{i}" for i in range(20)]


def test_milliseconds_and_times_before_1970_are_rejected_and_named() -> None:
    scheduler = Scheduler()
    scheduler.observe([Outcome(url, T) for url in PAGES])
    urls, times = [*PAGES[:2], "https://new.example/"], [1e3 * T, -5.0, T + 1]
    observed = scheduler.observe(OutcomeBatch(urls, times, status=[429, 200, 200]))
    assert (observed.applied, observed.rejected) == (1, 2)
    assert [(one.record, one.field, one.found) for one in observed.rejections] == [
        (0, "fetched_at", str(1e3 * T)), (1, "fetched_at", str(-5.0))
    ]  # fmt: skip
    assert ["milliseconds" in one.expected for one in observed.rejections] == [True, False]
    assert set(scheduler.next_batch(100, now=T + 9 * DAY).urls) == {*PAGES, "https://new.example/"}


@pytest.mark.parametrize("now", [1e3 * T, 1e11, -1e11, math.inf, -math.inf, math.nan, "today", "1", None, 10**400])
def test_calls_refuse_what_is_no_time_in_seconds(now: Any) -> None:
    scheduler = Scheduler()
    scheduler.discover(PAGES[:1], now=0.0)
    before = scheduler.digest()
    calls: list[Callable[[], object]] = [
        lambda: scheduler.next_batch(5, now=now),
        lambda: scheduler.rank(5, now=now),
        lambda: scheduler.discover(PAGES, now=now),
        lambda: scheduler.ask(PAGES, now=now),
        lambda: scheduler.block("a.example", now),
        lambda: scheduler.score(PAGES[:1], now=now),
        lambda: scheduler.scores(now=now),
        lambda: scheduler.explain(PAGES[0], now=now),
        lambda: scheduler.core.tie_keys(now=now),
        lambda: scheduler.training(1, now=now),
    ]
    for call in calls:
        with pytest.raises(SettingsError, match=r"(now|until): expected UTC epoch seconds"):
            call()
    assert scheduler.digest() == before


def test_one_outcome_moves_no_shared_clock() -> None:
    scheduler, undisturbed = Scheduler(seed=3, max_ahead="30d"), Scheduler(seed=3, max_ahead="30d")
    for day in range(20):
        good = [Outcome(url, T + day * DAY + i, changed=i % 3 == 0) for i, url in enumerate(PAGES)]
        scheduler.observe(good)
        undisturbed.observe(good)
        bad = [Outcome(url, T + 400 * DAY + i, changed=True, status=429) for i, url in enumerate(PAGES[:1])]
        observed = scheduler.observe(bad)
        assert (observed.applied, observed.rejected) == (0, 1)
    scheduler.next_batch(1, now=T + 20 * DAY)
    undisturbed.next_batch(1, now=T + 20 * DAY)
    assert scheduler.digest() == undisturbed.digest()


def test_the_bound_is_a_setting() -> None:
    scheduler = Scheduler(max_ahead=None)
    assert scheduler.observe([Outcome(PAGES[0], T), Outcome(PAGES[1], 9e10)]).applied == 2
    scheduler = Scheduler(max_ahead="2h")
    scheduler.discover(PAGES, now=T)
    assert scheduler.max_ahead == 7_200.0
    assert len(scheduler.find_ahead(Outcome(PAGES[1], T + DAY))) == 1
    assert scheduler.observe([Outcome(PAGES[1], T + DAY)]).rejected == 1
    scheduler.max_ahead = "2d"
    assert scheduler.find_ahead(Outcome(PAGES[1], T + DAY)) == []
    assert scheduler.observe([Outcome(PAGES[1], T + DAY)]).applied == 1
    with pytest.raises(SettingsError) as caught:
        Scheduler(max_ahead="soon")
    assert caught.value.setting == "max_ahead"
