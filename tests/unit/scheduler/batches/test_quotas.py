"""Quotas of a batch: never-visited and random pages replace the worst, within hosts' limits."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsched import Outcome, Politeness, Rule, Scheduler
from streamsched.politeness.politeness_settings import HostRule
from streamsched.scheduler.batches.quotas import _pass_visited
from tests.support.cases import examples
from tests.support.handout import drawing
from tests.support.outcome_streams import DAY

NOW = 100 * DAY
OLD = [f"https://old{i % 5}.example/{i}" for i in range(60)]
NEW = [f"https://new{i % 3}.example/{i}" for i in range(30)]


def made(
    new_share: float = 0.0, drawn_share: float = 0.0, *, seed: int = 1, politeness: Politeness | None = None
) -> Scheduler:
    """Of 60 pages that were visited each weighs more than any of 30 that were not."""
    scheduler = Scheduler(formula="importance", new_share=new_share, seed=seed, politeness=politeness, host_share=None)
    drawing(drawn_share, scheduler)
    scheduler.observe([Outcome(url, NOW - DAY, importance=100.0 + i) for i, url in enumerate(OLD)])
    scheduler.discover(NEW, now=NOW - DAY, importance=np.arange(30.0))
    return scheduler


def new_of(urls: list[str]) -> list[str]:
    return [url for url in urls if url in NEW]


@pytest.mark.parametrize(
    ("share", "k", "new"), [(0.0, 20, 0), (0.1, 20, 2), (0.1, 30, 3), (0.1, 9, 0), (0.5, 21, 10), (0.9, 50, 30)]
)
def test_share_of_a_batch_that_was_never_visited(share: float, k: int, new: int) -> None:
    """The best of them, in place of the worst of the others, and all in the order of scores."""
    batch = made(share).next_batch(k, now=NOW)
    assert batch.urls == OLD[::-1][: k - new] + NEW[::-1][:new]
    assert batch.scores.tolist() == sorted(batch.scores.tolist(), reverse=True)


def test_no_more_than_are_missing() -> None:
    """Pages never visited that are in the batch for their scores count."""
    scheduler = made(0.2)
    scheduler.discover(NEW[:3], now=NOW, importance=1_000.0)
    assert set(new_of(scheduler.next_batch(20, now=NOW).urls)) == {*NEW[:3], NEW[29]}


def test_where_all_were_visited_the_batch_is_the_best() -> None:
    scheduler = made(0.5)
    scheduler.observe([Outcome(url, NOW) for url in NEW])
    assert scheduler.next_batch(20, now=NOW).urls == OLD[::-1][:20]


def test_new_pages_that_may_not_be_handed_out_leave_their_places() -> None:
    scheduler = made(0.5)
    scheduler.set_rules({"new0.example": Rule(never=True), "new1.example": HostRule(per_batch=1)})
    scheduler.block("new2.example", NOW + 1.0)
    batch = scheduler.next_batch(20, now=NOW)
    assert batch.urls == [*OLD[::-1][:19], NEW[28]]


def test_what_is_asked_for_or_overdue_stays() -> None:
    scheduler = made(0.9)
    scheduler.set_rule("old1.example", Rule(max_revisit="1h"))
    scheduler.ask(OLD[:3], now=NOW)
    batch = scheduler.next_batch(10, now=NOW)
    assert len(new_of(batch.urls)) == 9
    assert len(batch) == 10


def test_random_pages_are_counted_over_batches() -> None:
    """A tenth of all pages returned, in place of the worst, whatever the sizes of batches."""
    scheduler = made(drawn_share=0.1)
    drawn = []
    for number in range(30):
        batch = scheduler.next_batch(7, now=NOW + number, lease=0.5)
        assert len(batch) == len(set(batch.urls)) == 7
        drawn.append(len(set(batch.urls) - set(OLD[-7:])))
    assert np.cumsum(drawn).tolist() == [math.floor(0.1 * 7 * (number + 1) + 1e-9) for number in range(30)]


def test_any_page_may_be_drawn_and_the_seed_decides() -> None:
    def drawn(seed: int) -> list[str]:
        scheduler = made(drawn_share=0.9, seed=seed)
        return [url for number in range(60) for url in scheduler.next_batch(5, now=NOW + number, lease=0.5).urls]

    first = drawn(1)
    assert len(set(first)) > 60
    assert drawn(1) == first
    assert drawn(2) != first
    assert drawn(-1) == first or len(set(drawn(-1))) > 60


def test_drawn_pages_respect_leases_rules_and_hosts() -> None:
    scheduler = made(drawn_share=0.9, politeness=Politeness(per_batch=1))
    scheduler.set_rule("old0.example", Rule(never=True))
    out: set[str] = set()
    for number in range(12):
        batch = scheduler.next_batch(6, now=NOW + number, lease=DAY)
        assert not out & set(batch.urls)
        assert max(Counter(batch.hosts).values()) == 1
        assert "old0.example" not in batch.hosts
        out |= set(batch.urls)


def test_drawn_pages_reach_their_share_if_hosts_limit_the_crawl() -> None:
    """A page whose host is at its limit replaces that host's worst page; what was not added is still due."""
    scheduler = made(drawn_share=0.2, politeness=Politeness(per_batch=2))
    best = {*OLD[-10:], *NEW[-6:]}  # two of each of the eight hosts
    lots = 0
    for number in range(20):
        batch = scheduler.next_batch(16, now=NOW + number, lease=0.5)
        assert len(batch) == len(set(batch.urls)) == 16
        assert max(Counter(batch.hosts).values()) == 2
        lots += len(set(batch.urls) - best)
        assert lots == math.floor(0.2 * 16 * (number + 1) + 1e-9)


def test_drawn_pages_do_not_replace_requested_ones() -> None:
    scheduler = made(drawn_share=0.9, politeness=Politeness(per_batch=1))
    scheduler.ask([f"https://old{i}.example/{i}" for i in range(5)], now=NOW)
    for number in range(5):
        batch = scheduler.next_batch(8, now=NOW + number, lease=0.5)
        assert {url for url in batch.urls if url in OLD} == set(OLD[:5])


def test_draws_owed_for_long_do_not_fill_whole_batches() -> None:
    scheduler = made(drawn_share=0.1)
    for number in range(50):
        assert len(scheduler.next_batch(90, now=NOW + number, lease=0.5)) == 90
    batch = scheduler.next_batch(40, now=NOW + 50.0, lease=0.5)
    assert len(set(batch.urls) - set(OLD[-40:])) == 4 + 9 + 8  # its own, the last batch's and a few


@pytest.mark.parametrize("k", [1, 5, 9, 13])
def test_small_batches_reach_the_share_of_pages_never_visited(k: int) -> None:
    """A fraction of a page is carried over to the next batch, also after saving and across `explain`."""
    scheduler = made(0.1)
    new = 0
    for number in range(40):
        scheduler.explain(OLD[0], now=NOW + number, k=k)
        saved = Scheduler(new_share=0.1)
        saved.core.quotas.restore(scheduler.core.quotas.state())
        assert saved.core.quotas.state() == scheduler.core.quotas.state()
        new += len(new_of(scheduler.next_batch(k, now=NOW + number, lease=0.5).urls))
        assert new == math.floor(0.1 * k * (number + 1) + 1e-9)


def test_what_came_by_its_score_is_not_due_besides() -> None:
    scheduler = made(0.1)
    scheduler.discover(NEW[:1], now=NOW, importance=1_000.0)
    batches = [new_of(scheduler.next_batch(5, now=NOW + i, lease=0.5).urls) for i in range(4)]
    assert batches == [NEW[:1]] * 4


def test_members_of_the_panel_stay_first() -> None:
    scheduler = drawing(0.2, Scheduler(formula="importance", panel=0.4, new_share=0.4, host_share=None))
    scheduler.observe([Outcome(url, NOW - DAY, importance=100.0 + i) for i, url in enumerate(OLD)])
    scheduler.discover(NEW, now=NOW - DAY, importance=0.0)
    panels = []
    for cycle in range(4):
        for number in range(3):
            batch = scheduler.next_batch(10, now=NOW + cycle * DAY + number, lease=0.5)
            panels.append(batch.panel)
            assert len(set(batch.urls)) == 10
            rest = batch.scores[batch.panel :].tolist()
            assert rest == sorted(rest, reverse=True)
    assert max(panels) > 2


def test_no_pages_and_none_wanted() -> None:
    assert len(drawing(0.1, Scheduler(new_share=0.9)).next_batch(5, now=NOW)) == 0
    scheduler = made(0.5, 0.5)
    assert len(scheduler.next_batch(0, now=NOW)) == 0
    assert len(scheduler.next_batch(500, now=NOW)) == 90


def test_a_batch_that_was_given_back_leaves_nothing_where_none_are_drawn() -> None:
    scheduler = made(0.3)
    scheduler.discover([], now=NOW)  # the time of a call is remembered
    before = scheduler.digest()
    scheduler.release(scheduler.next_batch(10, now=NOW).urls)
    assert scheduler.digest() == before


@examples(ordinary=9, whole=30)
@given(st.lists(st.booleans(), max_size=20), st.integers(0, 20))
def test_the_first_page_never_visited(visited: list[bool], start: int) -> None:
    scheduler = Scheduler()
    urls = [f"https://a.example/{i}" for i in range(len(visited))]
    scheduler.discover(urls, now=0.0)
    scheduler.observe([Outcome(url, 1.0) for url, met in zip(urls, visited, strict=True) if met])
    start = min(start, len(visited))
    expected = next((row for row in range(start, len(visited)) if not visited[row]), len(visited))
    assert _pass_visited(scheduler.core.pages.arrays, start) == expected
