"""The web of the demonstration, against a second look at every change."""

from __future__ import annotations

import numpy as np
import pytest

from examples.live.crawlers import OldestFirst
from examples.live.world import DAY_S, Copies, World
from streamsched import OutcomeBatch, Scheduler
from streamsched.replay import ChangeLog, SyntheticSettings, read_truth, synthesize
from streamsched.scheduler.monitoring import SchedulerWatch
from tests.support.paths import ROOT

DAYS = 30
START_S = 1_755_820_800.0  # 2025-08-22, three years of the log before it


@pytest.fixture(scope="module")
def log() -> ChangeLog:
    return synthesize(SyntheticSettings(pages=40, days=DAYS), seed=3)


@pytest.fixture(scope="module")
def world(log: ChangeLog) -> World:
    return World(log, log.first_s + DAY_S, DAYS - 2)


def changes_of(log: ChangeLog, url: str) -> list[float]:
    """The times of a page's changes, its appearance first."""
    page = list(log.urls).index(url)
    times: list[float] = log.times_s[log.offsets[page] : log.offsets[page + 1]].tolist()
    return times


def test_a_visit_finds_what_has_happened_since_the_one_before(log: ChangeLog, world: World) -> None:
    begin = world.window.start_s
    copies, seen = Copies(world, begin), dict.fromkeys(world.urls, begin)
    rng, hits = np.random.default_rng(1), 0
    for step in range(1, 60):
        now = begin + step * DAY_S / 3
        pages = rng.choice(world.count(now), 7, replace=False)
        changed = copies.visit(pages, now)
        for page, found in zip(pages.tolist(), changed.tolist(), strict=True):
            url = world.urls[page]
            assert found == any(seen[url] <= time < now for time in changes_of(log, url)[1:])
            seen[url] = now
            hits += found
    assert (copies.visits, copies.hits) == (59 * 7, hits)
    assert copies.hit_rate == pytest.approx(hits / copies.visits)
    assert hits > 20


def test_freshness_is_the_time_without_an_unseen_change(log: ChangeLog, world: World) -> None:
    begin = world.window.start_s
    copies, end = Copies(world, begin), begin + 9 * DAY_S
    copies.visit(np.array([], np.intp), end)
    stale = 0.0
    for url in world.urls[: world.count(begin)]:
        unseen = [time for time in changes_of(log, url) if begin <= time < end]
        stale += end - unseen[0] if unseen else 0.0
    assert copies.freshness == pytest.approx(1.0 - stale / (9 * DAY_S * world.count(begin)))
    assert copies.freshness < 1.0


def test_daily_visits_see_each_day_with_changes_once(log: ChangeLog, world: World) -> None:
    begin = world.window.start_s
    days = list(world.daily_visits(10))
    assert [len(day) for day in days] == [world.window.known(day) for day in range(1, 11)]
    for number, day in enumerate(days):
        for url, changed in zip(day.urls, day.changed.tolist(), strict=True):
            span = begin + number * DAY_S, begin + (number + 1) * DAY_S
            assert changed == any(span[0] <= time < span[1] for time in changes_of(log, url)[1:])


def test_oldest_first_visits_all_pages_in_turn(world: World) -> None:
    begin = world.window.start_s
    crawler = OldestFirst(world, begin)
    count = world.count(begin)
    for step in range(1, 5):
        crawler.crawl(-(-count // 4), begin + step)
    assert np.unique(crawler.copies.visited_s[:count]).size == 4
    assert crawler.copies.visited_s[:count].min() > begin


def test_the_estimate_of_a_real_crawl_is_near_the_truth() -> None:
    """From two months after a cold start on, one page in twenty a day, by the default policy."""
    world = World(read_truth(ROOT / "data" / "scoop-extras.tsv.gz"), START_S, 200)
    window, scheduler = world.window, Scheduler()
    watch, errors = SchedulerWatch(scheduler.core), []
    seen = np.full(window.pages, -1)  # by page, its first change that the copy lacks
    for day in range(200):
        now = window.edge(day)
        known, unseen = world.count(now), window.before(now)
        scheduler.discover(world.urls[:known], now=now)
        pages = np.arange(known)
        if day:
            errors.append((watch.freshness(now=now) or 0.0) - np.mean(unseen[:known] <= seen[:known]))
            pages = world.find(list(scheduler.next_batch(known // 20, now=now).urls))
        changed = (unseen[pages] > seen[pages]) & (seen[pages] >= 0)
        scheduler.observe(OutcomeBatch(window.urls.take(pages), np.full(pages.size, now + 1.0), changed=changed))
        seen[pages] = unseen[pages]
    assert np.abs(errors[60:]).mean() < 0.03
    assert np.abs(errors[60:]).max() < 0.05
