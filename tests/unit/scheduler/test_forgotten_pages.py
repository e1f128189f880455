"""Forgotten pages: nothing finds, ranks, counts or exports them, and discovered anew they are new pages."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from streamsched import (
    DurableScheduler,
    InvalidOutcome,
    Outcome,
    Politeness,
    Rule,
    SavePlan,
    Scheduler,
    SettingsError,
    Signal,
    UnknownPage,
)
from streamsched.records.page_schema import FORGOTTEN
from tests.support.handout import drawing

DAY = 86_400.0
NOW = 40 * DAY
URLS = [f"https://{'ab'[i % 2]}.example/docs/{i}" for i in range(60)]
GONE = URLS[3]


def crawl(scheduler: Scheduler, urls: list[str] = URLS, start: int = 0, days: int = 12) -> None:
    for day in range(start, start + days):
        scheduler.observe(
            [Outcome(url, NOW - (20 - day) * DAY + i, changed=(i + day) % 3 == 0) for i, url in enumerate(urls)]
        )


def visited(**settings: object) -> Scheduler:
    scheduler = Scheduler(**settings)  # type: ignore[arg-type]
    crawl(scheduler)
    return scheduler


def test_a_forgotten_page_is_unknown() -> None:
    scheduler = drawing(0.2, visited(panel=0.2))
    assert scheduler.forget([GONE, "https://unknown.example/", GONE]) == 1
    assert scheduler.forget([GONE]) == 0
    assert GONE not in scheduler
    assert len(scheduler) == scheduler.count() == 59
    assert scheduler.page(GONE, now=NOW) is None
    view = scheduler.host("b.example", now=NOW)
    assert view is not None
    assert view.pages == 29
    for call in (scheduler.score, scheduler.tie_keys):
        with pytest.raises(UnknownPage):
            call([GONE], now=NOW)
    with pytest.raises(UnknownPage):
        scheduler.explain(GONE, now=NOW)
    assert np.flatnonzero(np.isnan(scheduler.scores(now=NOW))).tolist() == [3]
    for number in range(5):
        batch = scheduler.next_batch(100, now=NOW + number * DAY, lease=60.0)
        assert len(batch) == 59
        assert GONE not in batch.urls
    assert GONE not in scheduler.rank(100, now=NOW + 9 * DAY).urls
    assert scheduler.training(3, now=NOW).history.pages == 59
    assert scheduler.core.pages.faults() == []


def test_it_is_a_new_page_when_it_comes_back() -> None:
    scheduler = visited()
    scheduler.observe([Outcome(GONE, NOW, fingerprint=7, importance=9.0, cost=3.0)])
    scheduler.ask([GONE], now=NOW)
    scheduler.forget([GONE])
    assert scheduler.discover([GONE], now=NOW + 5.0).added == 1
    view = scheduler.page(GONE, now=NOW + 5.0)
    assert view is not None
    assert (view.known_since_s, view.visits, view.changes, view.asked_for) == (NOW + 5.0, 0, 0, False)
    assert (view.importance, view.cost) == (1.0, 1.0)
    assert len(scheduler) == 60
    assert scheduler.core.pages.faults() == []


@pytest.mark.parametrize(
    "come_back",
    [
        lambda scheduler: scheduler.observe([Outcome(GONE, NOW + 1.0)]).first_visits,
        lambda scheduler: scheduler.notice([Signal(GONE, NOW + 1.0, "feed")]).discovered,
        lambda scheduler: scheduler.ask([GONE], now=NOW + 1.0).added,
        lambda scheduler: scheduler.observe([Outcome(URLS[0], NOW + 1.0, moved_to=GONE)]).moved,
    ],
    ids=["observe", "notice", "ask", "moved_to"],
)
def test_every_way_in_finds_a_new_page(come_back: Callable[[Scheduler], int]) -> None:
    scheduler = visited()
    scheduler.forget([GONE])
    assert come_back(scheduler) == 1
    assert GONE in scheduler
    assert len(scheduler) == 60
    assert scheduler.core.pages.faults() == []


def test_a_lease_ends_and_its_host_has_room_again() -> None:
    scheduler = visited(politeness=Politeness(in_flight=1))
    (leased,) = scheduler.next_batch(60, now=NOW, lease=1e6, hosts=["b.example"]).urls
    assert scheduler.next_batch(60, now=NOW, hosts=["b.example"]).urls == []
    scheduler.forget([leased])
    assert len(scheduler.next_batch(60, now=NOW, hosts=["b.example"])) == 1
    assert len(scheduler.next_batch(60, now=NOW + 2e6, hosts=["b.example"])) == 1  # its expiry frees nothing more
    assert scheduler.core.pages.faults() == []


def test_a_forgotten_probe_lets_another_page_probe() -> None:
    scheduler = visited(politeness=Politeness(host_backoff_429=1))
    scheduler.observe([Outcome(URLS[1], NOW, 429, retry_after=60.0)])
    (probe,) = scheduler.next_batch(60, now=NOW + 61.0, hosts=["b.example"]).urls
    assert scheduler.next_batch(60, now=NOW + 62.0, hosts=["b.example"]).urls == []
    scheduler.forget([probe])
    (other,) = scheduler.next_batch(60, now=NOW + 62.0, hosts=["b.example"]).urls
    assert other != probe


def test_all_pages_of_a_host() -> None:
    scheduler = visited()
    scheduler.discover(["https://c.example/1"], now=NOW)
    assert scheduler.forget(host="B.example") == 30
    assert scheduler.host("b.example", now=NOW) is None
    assert [view.host for view in scheduler.hosts(now=NOW).hosts] == ["a.example", "c.example"]
    assert set(scheduler.next_batch(100, now=NOW).hosts) == {"a.example", "c.example"}
    assert scheduler.forget(host="*.example") == 31
    assert len(scheduler) == 0
    assert scheduler.next_batch(100, now=NOW + DAY).urls == []
    crawl(scheduler, start=12, days=3)
    assert len(scheduler) == 60
    assert scheduler.core.pages.faults() == []


def test_rules_and_blocks_stay() -> None:
    scheduler = visited()
    scheduler.set_rules({GONE: Rule(never=True), "a.example/*": Rule(min_revisit="1d")})
    scheduler.block("b.example", NOW + 100.0)
    scheduler.forget(URLS)
    scheduler.set_rule("b.example/docs/5", Rule(never=True))
    assert set(scheduler.core.pages.arrays.pages.records["rule"][:60].tolist()) == {FORGOTTEN}
    scheduler.discover(URLS, now=NOW)
    assert GONE not in scheduler.next_batch(100, now=NOW + 100.0).urls
    assert len(scheduler) == 60


def test_bounds_count_the_pages_of_a_host_and_all_rows() -> None:
    scheduler = visited(max_pages=61, max_pages_per_host=30)
    scheduler.forget([GONE])
    assert scheduler.discover(["https://b.example/1", "https://b.example/2"], now=NOW).added == 1
    assert scheduler.discover(["https://c.example/1"], now=NOW).added == 0
    assert scheduler.refused_pages == 2


@pytest.mark.parametrize("given", [{}, {"urls": [], "host": "a.example"}])
def test_either_urls_or_a_host(given: dict[str, object]) -> None:
    with pytest.raises(SettingsError, match="urls"):
        Scheduler().forget(**given)  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [5, None, b"https://a.example/"])
def test_urls_are_texts(wrong: object) -> None:
    with pytest.raises(InvalidOutcome) as caught:
        Scheduler().forget(["https://a.example/", wrong])  # type: ignore[list-item]
    error = caught.value
    assert (error.record, error.field, error.found, error.expected) == (1, "url", wrong, "a text")


def test_what_is_learned_later_is_the_same_after_a_reload(tmp_path: Path) -> None:
    scheduler = visited(panel=0.2)
    scheduler.notice([Signal(url, NOW - DAY, "feed") for url in URLS[:9]])
    scheduler.forget(URLS[:40:3])
    scheduler.save(tmp_path)
    loaded = Scheduler.load(tmp_path)
    assert loaded.digest() == scheduler.digest()
    assert loaded.core.pages.faults() == []
    for one in (scheduler, loaded):
        crawl(one, start=12, days=6)
        one.next_batch(9, now=NOW)
    assert loaded.digest() == scheduler.digest()
    assert loaded.core.pages.faults() == scheduler.core.pages.faults() == []


def test_increments_and_the_log_hold_it(tmp_path: Path) -> None:
    plan = SavePlan(every=1e9, increments=9)
    with DurableScheduler.open(tmp_path, {"panel": 0.2}, plan=plan) as scheduler:
        crawl(scheduler)
        scheduler.snapshot()
        scheduler.forget(URLS[:5])
        scheduler.snapshot()
        scheduler.forget(host="b.example")
        digest = scheduler.digest()
        scheduler.close(save=False)
    for save in (True, False):
        with DurableScheduler.open(tmp_path, plan=plan) as scheduler:
            assert scheduler.digest() == digest
            assert len(scheduler) == 27
            assert scheduler.core.pages.faults() == []
            scheduler.close(save=save)


def test_exports_leave_it_out(tmp_path: Path) -> None:
    from pyarrow import feather

    from streamsched.persistence.export import export_pages

    scheduler = visited()
    scheduler.forget([GONE])
    assert export_pages(scheduler.core.pages, tmp_path / "pages.arrow") == 59
    assert GONE not in feather.read_table(tmp_path / "pages.arrow")["url"].to_pylist()


def test_urls_that_begin_like_a_forgotten_one_stay(tmp_path: Path) -> None:
    """The first URL of each group is kept whole, and others share its beginning."""
    scheduler = visited()
    scheduler.forget(URLS[:4])
    scheduler.discover([f"{URLS[0]}/more"], now=NOW)
    scheduler.save(tmp_path)
    for one in (scheduler, Scheduler.load(tmp_path)):
        assert all(url in one for url in [*URLS[4:], f"{URLS[0]}/more"])
        assert sorted(one.next_batch(100, now=NOW + 90 * DAY).urls) == sorted([*URLS[4:], f"{URLS[0]}/more"])
        assert one.core.pages.faults() == []
