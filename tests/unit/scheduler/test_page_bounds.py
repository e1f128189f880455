"""Bounds on pages and URL patterns: what is refused is counted, known pages go on, and bounds survive a restart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamsched import Outcome, OutcomeBatch, Scheduler, SettingsError
from streamsched.api.views import Observed
from streamsched.numerics.packed_urls import PackedUrls
from streamsched.scheduler.durable import DurableScheduler
from tests.support.colliding_urls import colliding_urls
from tests.support.handout import drawing

DAY = 86_400.0
URLS = [f"https://a.example/{i}" for i in range(6)]


def visits(urls: list[str], at_s: float) -> OutcomeBatch:
    return OutcomeBatch(urls, np.full(len(urls), at_s))


def test_new_pages_beyond_max_pages_are_refused_and_counted_and_known_ones_go_on() -> None:
    scheduler = Scheduler(max_pages=4)
    result = scheduler.observe(visits(URLS, DAY))
    assert result == Observed(applied=4, first_visits=4, refused=2)
    again = scheduler.observe([*visits(URLS, 2 * DAY), Outcome(URLS[0], DAY), Outcome(URLS[5], DAY)])
    assert (again.applied, again.late, again.refused) == (4, 1, 3)
    assert (len(scheduler), scheduler.refused_pages, URLS[4] in scheduler) == (4, 5, False)
    assert scheduler.next_batch(10, now=9 * DAY).urls
    assert scheduler.core.pages.faults() == []


def test_new_pages_beyond_max_pages_per_host_are_refused_on_that_host_alone() -> None:
    scheduler = Scheduler(max_pages_per_host=2)
    urls = [f"https://{host}.example/{path}{i}" for i in range(3) for host, path in (("a", ""), ("A", "x/"), ("b", ""))]
    result = scheduler.observe(visits(urls, DAY))
    assert result.refused == 5
    assert {url for url in urls if url in scheduler} == {urls[0], urls[1], urls[2], urls[5]}
    assert scheduler.core.pages.faults() == []


def test_every_outcome_is_counted_once() -> None:
    scheduler = Scheduler(max_pages=2)
    outcomes = [Outcome(url, at) for at in (DAY, DAY, 1.0, 2 * DAY) for url in URLS]
    batch = OutcomeBatch([*(o.url for o in outcomes), ""], [*(o.fetched_at for o in outcomes), DAY])
    result = scheduler.observe(batch)
    counts = (result.applied, result.duplicates, result.late, result.rejected, result.refused)
    assert counts == (4, 2, 2, 1, 16)
    assert sum(counts) == len(batch)
    assert (result + result).refused == 32


def test_discovered_and_requested_pages_are_refused_too() -> None:
    scheduler = Scheduler(max_pages=3)
    assert scheduler.discover(URLS[:2], now=DAY).added == 2
    assert scheduler.discover(URLS, now=DAY, importance=np.arange(6.0)).added == 1
    assert scheduler.refused_pages == 3
    assert scheduler.core.pages.arrays.pages.records["importance"][:3].tolist() == [0.0, 1.0, 2.0]
    assert scheduler.ask([URLS[5], URLS[1]], now=DAY).added == 0
    assert scheduler.refused_pages == 4
    batch = scheduler.next_batch(1, now=DAY)
    assert batch.urls == [URLS[1]]
    assert batch.tiers.tolist() == [2]  # it was asked for, and no other page instead of the refused one
    assert scheduler.core.pages.faults() == []


@pytest.mark.parametrize("size", [1, 3, 1_000])
def test_what_is_refused_does_not_depend_on_how_the_stream_is_cut(size: int) -> None:
    rng = np.random.default_rng(1)
    urls = [f"https://h{rng.integers(5)}.example/d{rng.integers(2)}/{rng.integers(60)}" for _ in range(2_000)]
    outcomes = [Outcome(url, float(i)) for i, url in enumerate(urls)]
    bounds: dict[str, Any] = {"max_pages": 180, "max_pages_per_host": 40, "max_patterns_per_host": 1}
    one, other = Scheduler(**bounds), Scheduler(**bounds)
    result = one.observe(outcomes)
    for start in range(0, 2_000, size):
        other.observe(outcomes[start : start + size])
    assert result.refused == one.refused_pages == other.refused_pages > 0
    assert one.refused_patterns == other.refused_patterns > 0
    assert one.digest() == other.digest()


def test_repeated_outcomes_leave_the_digest() -> None:
    scheduler = Scheduler(max_pages=2)
    scheduler.observe(visits(URLS, DAY))
    before = scheduler.digest()
    scheduler.observe(visits(URLS, DAY))
    assert scheduler.digest() == before


@pytest.mark.parametrize("name", ["max_pages", "max_pages_per_host", "max_patterns_per_host"])
@pytest.mark.parametrize("value", [-1, 2**32])
def test_invalid_bound_is_named(name: str, value: Any) -> None:
    with pytest.raises(SettingsError) as caught:
        Scheduler(**{name: value})
    assert (caught.value.setting, caught.value.found) == (name, value)
    scheduler = Scheduler()
    with pytest.raises(SettingsError) as caught:
        setattr(scheduler, name, value)
    assert caught.value.setting == name


def test_bounds_may_be_raised_and_lowered() -> None:
    scheduler = Scheduler(max_pages=2)
    scheduler.discover(URLS, now=0.0)
    scheduler.max_pages = None
    assert scheduler.discover(URLS, now=0.0).added == 4
    scheduler.max_pages = 1
    assert len(scheduler) == 6
    assert scheduler.observe(visits([*URLS, "https://b.example/"], DAY)).applied == 6
    assert scheduler.max_pages == 1


def test_bounds_counts_and_the_key_are_saved(tmp_path: Path) -> None:
    scheduler = Scheduler(max_pages=4, max_pages_per_host=None, max_patterns_per_host=0)
    scheduler.discover([f"https://a.example/d/{i}" for i in range(3)], now=0.0)
    scheduler.max_pages = 20
    scheduler.discover([f"https://a.example/d/{i}" for i in range(30)], now=0.0)
    scheduler.save(tmp_path)
    loaded = Scheduler.load(tmp_path)
    assert (loaded.max_pages, loaded.max_pages_per_host, loaded.max_patterns_per_host) == (20, None, 0)
    assert (loaded.refused_pages, loaded.refused_patterns) == (scheduler.refused_pages, scheduler.refused_patterns)
    assert (scheduler.refused_pages, scheduler.refused_patterns) == (10, 5)
    assert loaded.core.pages.key.tolist() == scheduler.core.pages.key.tolist()
    assert loaded.digest() == scheduler.digest()


def test_refusals_and_changed_bounds_are_in_the_log_of_calls(tmp_path: Path) -> None:
    scheduler = DurableScheduler.open(tmp_path, {"max_pages": 2})
    scheduler.observe(visits(URLS, DAY))
    scheduler.observe(visits(URLS[4:], DAY))
    scheduler.max_pages = 3
    scheduler.observe(visits(URLS[3:], DAY))
    expected = scheduler.digest(), scheduler.refused_pages
    scheduler.close(save=False)
    with DurableScheduler.open(tmp_path) as again:
        assert (again.digest(), again.refused_pages) == expected
        assert (again.max_pages, again.refused_pages, len(again)) == (3, 8, 3)


def test_results_are_those_of_the_seed_whatever_the_key() -> None:
    """Two schedulers draw different keys; digests, ties, the panel and training data are the same."""
    urls = [*(f"https://h{i % 40}.example/d{i % 3}/{i}" for i in range(2_000)), *colliding_urls(200)]
    both = [drawing(0.1, Scheduler(seed=3, panel=0.2)) for _ in range(2)]
    assert both[0].core.pages.key.tolist() != both[1].core.pages.key.tolist()
    for day in range(4):
        batches = []
        for scheduler in both:
            scheduler.observe(visits(urls, day * DAY))
            batches.append(scheduler.next_batch(100, now=(day + 0.9) * DAY, lease=60).urls)
        assert batches[0] == batches[1]
    assert both[0].digest() == both[1].digest()
    first, second = (scheduler.training(2, now=4 * DAY, seed=1) for scheduler in both)
    assert first.history.hashes.tolist() == second.history.hashes.tolist()
    assert first.history.changed.tolist() == second.history.changed.tolist()


def test_pages_whose_hashes_collide_are_told_apart(tmp_path: Path) -> None:
    """Equal scores with equal ties go by row, in the ranking, its explanation, and after loading."""
    urls = colliding_urls(300)
    scheduler = Scheduler()
    scheduler.discover(urls, now=0.0)
    assert scheduler.rank(300, now=DAY).urls == urls
    assert scheduler.explain(urls[170], now=DAY).position == 171
    scheduler.save(tmp_path)
    assert Scheduler.load(tmp_path).rank(300, now=DAY).urls == urls
    scheduler.observe(visits(urls, DAY))
    training = scheduler.training(1, now=3 * DAY)
    assert len(set(training.history.hashes.tolist())) == 300


def test_a_batch_may_hold_more_new_pages_than_the_bound_has_room_for() -> None:
    scheduler = Scheduler(max_pages=10)
    urls = PackedUrls.pack([f"https://h{i}.example/" for i in range(70_000)])
    assert scheduler.discover(urls, now=0.0).added == 10
    assert scheduler.refused_pages == 69_990
