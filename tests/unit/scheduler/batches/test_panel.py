"""The panel: who is in it, when its pages come, and how its size follows the budget."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from streamsched import Batch, Outcome, OutcomeBatch, Politeness, Scheduler
from streamsched.reasons import Reason, ReasonCode
from streamsched.records.visit_journal import SAMPLE_PAGES
from tests.reference.shard import sample_hash

DAY = 86_400.0


def crawler(pages: int = 400, **settings: object) -> Scheduler:
    scheduler = Scheduler(**{"panel": 0.2, "host_share": None, **settings})  # type: ignore[arg-type]
    scheduler.observe(OutcomeBatch([f"https://h{i % 10}.example/{i}" for i in range(pages)], np.ones(pages)))
    return scheduler


def crawl(scheduler: Scheduler, day: int, batches: int = 4, k: int = 25, changed: bool = False) -> list[Batch]:
    """Hand out batches through the day, and report each an hour later."""
    handed = []
    for i in range(batches):
        now = (day + i / 5) * DAY
        batch = scheduler.next_batch(k, now=now)
        flags = np.full(len(batch), changed)
        scheduler.observe(OutcomeBatch(batch.urls, np.full(len(batch), now + 3_600.0), changed=flags))
        handed.append(batch)
    return handed


def panel_of(batches: list[Batch]) -> list[str]:
    return [url for batch in batches for url in batch.urls[: batch.panel]]


def lowest(count: int, pages: int = 400) -> list[str]:
    return [f"https://h{i % 10}.example/{i}" for i in sorted(range(pages), key=sample_hash)[:count]]


def row_of(scheduler: Scheduler, url: str) -> int:
    return int(scheduler.core.find([url])[0])


def test_panel_is_the_lowest_hashes_visited_once_a_cycle() -> None:
    scheduler = crawler()
    assert panel_of(crawl(scheduler, 1)) == []  # the first cycle shows the budget
    for day in range(2, 6):
        batches = crawl(scheduler, day)
        ranked = {url for batch in batches for url in batch.urls[batch.panel :]}
        assert [batch.panel for batch in batches[:3]] == [5] * 3
        assert panel_of(batches) == [url for url in lowest(20) if url not in ranked]  # their score may come first
        assert all(len(batch) == 25 for batch in batches)
        assert max(Counter(url for batch in batches for url in batch.urls).values()) == 1


def test_others_are_the_best_of_the_ranking() -> None:
    scheduler = crawler(formula="importance")
    crawl(scheduler, 1)
    ranked = scheduler.rank(100, now=2 * DAY)
    batch = scheduler.next_batch(25, now=2 * DAY)
    assert ranked.panel == 0
    assert set(batch.urls[batch.panel :]) == set(
        [url for url in ranked.urls if url not in batch.urls[: batch.panel]][:20]
    )
    scores = dict(zip(ranked.urls, ranked.scores.tolist(), strict=True))
    assert batch.scores.tolist() == [scores.get(url, 1.0) for url in batch.urls]


def test_small_batches_take_turns() -> None:
    scheduler = crawler()
    crawl(scheduler, 1, batches=1, k=100)
    shares = [scheduler.next_batch(1, now=2 * DAY).panel for _ in range(50)]
    assert shares == [1, 0, 0, 0, 0] * 10


def test_size_follows_the_budget_in_steps() -> None:
    scheduler = crawler()
    sizes = []
    for day, k in enumerate([100, 100, 140, 100, 200, 200, 200, 60, 60, 60], 1):
        crawl(scheduler, day, batches=1, k=k)
        sizes.append(sum(scheduler.core.panel.holds(row) for row in range(400)))
    assert sizes == [0, 20, 20, 20, 20, 40, 40, 40, 12, 12]


def test_panel_of_all_pages_can_shrink() -> None:
    scheduler = crawler(40, panel=0.9)
    assert [
        sum(batch.panel for batch in crawl(scheduler, day, batches=1, k=k)) for day, k in enumerate([40] * 2, 1)
    ] == [0, 36]
    crawl(scheduler, 3, batches=2, k=40)
    assert [batch.panel for batch in crawl(scheduler, 4, batches=1, k=10)] == [9]
    assert [batch.panel for batch in crawl(scheduler, 5, batches=1, k=40)] == [9]


def test_leased_and_failed_pages_wait_for_the_next_cycle() -> None:
    scheduler = crawler()
    crawl(scheduler, 1, batches=1, k=100)
    first = panel_of([scheduler.next_batch(25, now=2 * DAY)])
    scheduler.observe([Outcome(url, 2 * DAY + 1, 503) for url in first])
    second = panel_of([scheduler.next_batch(25, now=2 * DAY + 60)])
    assert first + second == lowest(10)
    scheduler.release(second)
    assert panel_of([scheduler.next_batch(25, now=2 * DAY + 120)]) == second
    assert panel_of([scheduler.next_batch(100, now=3 * DAY)]) == lowest(20)


def test_hosts_are_spared_by_the_panel_too() -> None:
    scheduler = crawler(politeness=Politeness(per_batch=3), panel=0.5)
    crawl(scheduler, 1, batches=4, k=30)
    for batch in crawl(scheduler, 2, batches=3, k=30):
        assert batch.panel == 15
        assert max(Counter(batch.hosts).values()) == 3


def test_new_pages_join_where_their_hash_says_so() -> None:
    scheduler = crawler()
    crawl(scheduler, 1, batches=1, k=100)
    members = panel_of([scheduler.next_batch(400, now=2 * DAY)])
    bar = sample_hash(row_of(scheduler, members[-1]))
    newer = [f"https://new.example/{i}" for i in range(100)]
    scheduler.observe(OutcomeBatch(newer, np.full(100, 2.5 * DAY)))
    joined = [url for url in newer if sample_hash(row_of(scheduler, url)) <= bar]
    assert joined
    assert set(panel_of([scheduler.next_batch(1_000, now=3 * DAY)])) >= set(members[:5] + joined)


def test_outcomes_of_the_panel_say_nothing_of_the_formula() -> None:
    scheduler = crawler()
    crawl(scheduler, 1, batches=1, k=100)
    batch = scheduler.next_batch(25, now=2 * DAY)
    result = scheduler.observe([Outcome(url, 2 * DAY + 1, changed=True) for url in batch.urls])
    assert (result.changed, result.served, result.hits) == (25, 20, 20)
    again = scheduler.next_batch(400, now=2 * DAY + 2)
    assert scheduler.observe([Outcome(again.urls[-1], 2 * DAY + 3, 304)]).served == 1


def test_explanation_names_the_panel() -> None:
    scheduler = crawler()
    crawl(scheduler, 1, batches=1, k=100)
    members = panel_of([scheduler.next_batch(100, now=2 * DAY)])
    reason = Reason(ReasonCode.PANEL_MEMBER, {"share": 0.2})
    assert reason in scheduler.explain(members[0], now=2 * DAY).reasons
    others = scheduler.rank(300, now=2 * DAY).urls
    assert reason not in scheduler.explain(others[0], now=2 * DAY).reasons


def test_panel_goes_on_after_loading(tmp_path: Path) -> None:
    scheduler = crawler()
    crawl(scheduler, 1)
    crawl(scheduler, 2, batches=2)
    scheduler.save(tmp_path)
    loaded = Scheduler.load(tmp_path)
    assert loaded.digest() == scheduler.digest()
    for day in (2.5, 3, 4):
        now = day * DAY
        assert loaded.next_batch(30, now=now).urls == scheduler.next_batch(30, now=now).urls
        assert loaded.digest() == scheduler.digest()


def test_without_a_panel_nothing_is_kept() -> None:
    scheduler = crawler(panel=0.0)
    before = scheduler.core.panel.state()
    batches = crawl(scheduler, 1) + crawl(scheduler, 2)
    assert panel_of(batches) == []
    assert scheduler.core.panel.state() == before


def test_panel_stays_within_the_sample() -> None:
    """Which is halved when the 50,001st page comes: then half of a panel as large as it leaves."""
    scheduler = crawler(SAMPLE_PAGES, panel=0.9)
    assert len(scheduler.next_batch(SAMPLE_PAGES, now=DAY)) == SAMPLE_PAGES
    assert scheduler.next_batch(SAMPLE_PAGES, now=2 * DAY).panel == 45_000
    scheduler.discover(["https://one.example/"], now=2 * DAY)
    members = panel_of([scheduler.next_batch(SAMPLE_PAGES, now=3 * DAY)])
    assert max(sample_hash(row_of(scheduler, url)) for url in members) < 2**63
    assert len(members) == pytest.approx(25_000, abs=800)
