"""MirrorSync and WebFountain beside a scheduler: what they learn from, and what they make of it."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsched import Optimiser, OptimiserSettings, OutcomeBatch, Scheduler, SettingsError
from streamsched.reasons import ReasonCode
from streamsched.records.visit_journal import Visits
from streamsched.scheduler.core import SchedulerCore
from streamsched.scheduler.planning.learned_rates import (
    NOTHING_SEEN,
    SeenCosts,
    pair_visits,
    plan_buckets,
    sort_into_buckets,
    step_rates,
)
from streamsched.scheduler.planning.page_snapshot import PageSnapshot
from tests.support.extras import needs_casadi

DAY = 86_400.0
NOW = 1_000 * DAY


def snapshot(pages: int, **columns: Any) -> PageSnapshot:
    ones, no = np.ones(pages), np.zeros(pages)
    known: dict[str, Any] = {
        "change_rate": ones, "importance": ones, "available": np.ones(pages, np.bool_), "recall": no, "waited": ones,
        "visited": np.ones(pages, np.bool_), "crawl_rate": no, "host": np.zeros(pages, np.int64),
        "host_visits": np.full(1, np.inf),
    }  # fmt: skip
    return PageSnapshot(**known | columns)


visits_of_page = st.lists(st.tuples(st.sampled_from([0.1, 0.5, 1.0, 2.0, 7.0]), st.booleans()), max_size=7)


@given(pages=st.lists(visits_of_page, max_size=4), rates=st.lists(st.sampled_from([0.0, 0.3, 1.0]), max_size=4))
def test_pairs_are_those_of_the_slow_twin(pages: list[list[tuple[float, bool]]], rates: list[float]) -> None:
    since_s, expected, columns = 3.0 * DAY, [], []
    for row, visits in enumerate(pages):
        at_s, probe = 0.0, None
        columns.append((row, at_s, False, True))
        for gap, changed in visits:
            at_s += gap * DAY
            columns.append((row, at_s, changed, False))
            due = row < len(rates) and gap * rates[row] >= 1.0
            if due and probe is not None and at_s >= since_s:
                expected.append((row, float(probe), float(changed)))
            probe = changed if row < len(rates) and rates[row] > 0.0 and not due else None
    rows, times, changes, first = zip(*columns, strict=True) if columns else ((), (), (), ())
    seen = Visits(
        np.array(rows, np.int64), np.array(times), np.array(changes, np.bool_), np.array(first, np.bool_),
        unproven=np.zeros(len(rows), np.bool_),
    )  # fmt: skip
    found = pair_visits(seen, since_s, np.array(rates), DAY)
    assert list(zip(*(column.tolist() for column in found), strict=True)) == expected


def test_pages_whose_costs_grow_are_synchronised_more_often() -> None:
    pages = snapshot(4, crawl_rate=np.full(4, 0.5))
    seen = SeenCosts(np.array([0, 1]), np.array([0.0, 1.0]), np.array([1.0, 1.0]))  # page 1 costs as much at once
    rates = step_rates(pages, np.arange(4), 2.0, seen)
    assert rates[0] > 0.5 > rates[1]
    assert rates[2:].tolist() == [0.5, 0.5]
    assert rates.sum() == pytest.approx(2.0, rel=1e-9)


def test_mirror_steps_find_what_the_costs_are() -> None:
    """Pages 0 to 4 change at a rate of their planned visits, pages 5 to 9 hardly ever: visits go to the former."""
    rng, rates, change = np.random.default_rng(2), np.full(10, 0.5), np.repeat([1.0, 0.01], 5)
    for _ in range(600):
        early, late = rng.random(10) / rates, 1.0 / rates
        probed, synced = (rng.random(10) < -np.expm1(-change * waited) for waited in (early, late))
        seen = SeenCosts(np.arange(10), probed.astype(float), synced.astype(float))
        rates = step_rates(snapshot(10, crawl_rate=rates), np.arange(10), 5.0, seen)
    assert rates[:5].mean() > 3.0 * rates[5:].mean()
    assert rates.sum() == pytest.approx(5.0, rel=1e-6)


def test_rates_begin_alike_and_follow_the_budget() -> None:
    pages = snapshot(3, crawl_rate=np.array([0.0, 0.4, 0.8]))
    assert step_rates(snapshot(3), np.arange(3), 0.6, NOTHING_SEEN).tolist() == pytest.approx([0.2] * 3)
    rates = step_rates(pages, np.arange(3), 6.0, NOTHING_SEEN)
    assert rates.sum() == pytest.approx(6.0)
    assert rates[0] > rates[2] / 2.0 > 0.0


def crawled(**settings: Any) -> tuple[Scheduler, Optimiser]:
    """A crawl of 40 days by mirrorsync, a tenth of whose visits are drawn at random; page i changes every i-th day."""
    scheduler = Scheduler(new_share=0.0, **settings)
    urls = [f"https://a.example/{i}" for i in range(40)]
    optimiser = Optimiser(scheduler, OptimiserSettings(policy="mirrorsync", budget="30%"))
    seen_s = dict.fromkeys(urls, NOW)
    scheduler.observe(OutcomeBatch(urls, np.full(40, NOW)))
    for day in range(1, 40):
        now = NOW + day * DAY
        if optimiser.due(now):
            optimiser.plan_now(now)
        batch = scheduler.next_batch(12, now=now)
        changed = [(now - seen_s[url]) / DAY > int(url.rpartition("/")[2]) for url in batch.urls]
        scheduler.observe(OutcomeBatch(batch.urls, np.full(len(batch), now), changed=changed))
        seen_s |= dict.fromkeys(batch.urls, now)
    return scheduler, optimiser


def test_mirrorsync_learns_from_a_crawl() -> None:
    scheduler, optimiser = crawled(seed=4)
    rates = scheduler.core.pages.arrays.pages.traces["crawl_rate"][:40]
    assert optimiser.plan is not None
    assert optimiser.plan.number > 30
    assert rates.sum() == pytest.approx(12.0, rel=1e-5)
    assert np.ptp(rates) > 0.01  # they are not the mean any more
    assert scheduler.core.pages.faults() == []


def test_mirrorsync_brings_its_visits_at_random() -> None:
    """A tenth of each batch is drawn while the formula reads its plan, in a saved state too; none for other plans."""
    scheduler, optimiser = crawled()
    assert scheduler.core.quotas.explore == 0.1

    def drawn() -> int:
        reasons = [
            reason for i in range(10) for reason in scheduler.next_batch(10, now=NOW + 1e7 + i, lease=0.5).reasons
        ]
        return reasons.count(ReasonCode.IN_BATCH_EXPLORATION)

    assert drawn() == 10
    again = SchedulerCore.from_state(scheduler.core.pages, scheduler.core.to_json())
    assert again.quotas.explore == 0.1
    scheduler.use("t", wait=True)
    assert drawn() == 0
    scheduler.use("t * crawl_rate", wait=True)
    assert drawn() == 10
    Optimiser(scheduler, OptimiserSettings(policy="binary")).plan_now(NOW + 2e7)
    assert drawn() == 0
    assert optimiser.plan is not None
    assert optimiser.plan.probe_share == 0.0


@pytest.mark.parametrize("shares", [{"new_share": 0.91}, {"panel": 0.5, "new_share": 0.41}])
def test_mirrorsync_needs_room_for_visits_at_random(shares: dict[str, float]) -> None:
    scheduler = Scheduler(**shares)  # type: ignore[arg-type]
    with pytest.raises(SettingsError) as caught:
        Optimiser(scheduler, OptimiserSettings(policy="mirrorsync"))
    assert caught.value.setting == "policy"
    Optimiser(scheduler, OptimiserSettings(policy="binary"))
    Optimiser(Scheduler(panel=0.5, new_share=0.4), OptimiserSettings(policy="mirrorsync"))


@given(rates=st.lists(st.floats(1e-12, 1e6), min_size=1, max_size=50))
def test_buckets_are_in_the_order_of_rates(rates: list[float]) -> None:
    buckets = sort_into_buckets(np.array(rates)).astype(np.int64)
    assert buckets.dtype == np.int64
    assert set(buckets.tolist()) == set(range(int(buckets.max()) + 1))
    order = np.argsort(rates)
    assert (np.diff(buckets[order]) >= 0).all()


@needs_casadi
def test_webfountain_crawls_pages_that_it_can_keep_fresh() -> None:
    change_rate = np.repeat([30.0, 0.3, 0.1], 100)  # the first cannot be kept fresh
    pages = snapshot(300, change_rate=change_rate, waited=np.full(300, 5.0))
    rates, new_share = plan_buckets(pages, np.arange(300), 30.0, 1.0)
    assert rates[:100].max() < rates[100:].min()
    assert rates.sum() <= 30.0 * (1.0 + 1e-6)
    assert rates.sum() > 25.0
    assert new_share == 0.0


@needs_casadi
def test_webfountain_joins_new_pages() -> None:
    visited = np.arange(300) < 200
    pages = snapshot(300, change_rate=np.full(300, 0.1), waited=np.full(300, 5.0), visited=visited)
    rates, new_share = plan_buckets(pages, np.arange(300), 30.0, 1.0)
    assert 0.0 < new_share < 1.0
    assert rates[200:].min() > rates[:200].max()  # a page never crawled counts as obsolete
    alone, share = plan_buckets(snapshot(4, visited=np.zeros(4, np.bool_)), np.arange(4), 2.0, 1.0)
    assert (alone.tolist(), share) == ([0.5] * 4, 1.0)


@needs_casadi
@pytest.mark.parametrize("new", [1, 20, 100, 250])
@pytest.mark.parametrize("waited", [0.5, 5.0])
def test_webfountain_keeps_to_its_budget_with_new_pages(new: int, waited: float) -> None:
    """The first epoch crawls new pages, the mean of all epochs old ones: together they were up to twice the budget."""
    visited = np.arange(300) >= new
    change_rate = np.geomspace(0.01, 2.0, 300)
    pages = snapshot(300, change_rate=change_rate, waited=np.full(300, waited), visited=visited)
    rates, _ = plan_buckets(pages, np.arange(300), 30.0, 1.0)
    assert 25.0 < rates.sum() <= 30.0 * (1.0 + 1e-6)
    assert (rates[:new] > 0.0).all()


@needs_casadi
def test_webfountain_keeps_to_its_budget_as_pages_are_discovered() -> None:
    scheduler = Scheduler()
    urls = [f"https://h{i % 3}.example/{i}" for i in range(120)]
    scheduler.observe(OutcomeBatch(urls[:60], np.full(60, NOW)))
    optimiser = Optimiser(scheduler, OptimiserSettings(policy="webfountain", budget=12 / DAY))
    for day in range(1, 5):
        now = NOW + day * DAY
        scheduler.discover(urls[55 + 5 * day : 60 + 5 * day], now=now)
        optimiser.plan_now(now)
        rates = scheduler.core.pages.arrays.pages.traces["crawl_rate"][: len(scheduler)]
        assert 6.0 < rates.sum() <= 12.0 * (1.0 + 1e-5)
        batch = scheduler.next_batch(12, now=now)
        scheduler.observe(OutcomeBatch(batch.urls, np.full(len(batch), now), changed=np.arange(len(batch)) % 2 == 0))


@needs_casadi
def test_webfountain_plans_beside_a_scheduler() -> None:
    scheduler = Scheduler()
    urls = [f"https://h{i % 2}.example/{i}" for i in range(30)]
    for day in range(4):
        changed = np.arange(20) % 3 == day % 3
        scheduler.observe(OutcomeBatch(urls[:20], np.full(20, NOW + day * DAY), changed=changed))
    scheduler.discover(urls[20:], now=NOW + 3 * DAY)
    optimiser = Optimiser(scheduler, OptimiserSettings(policy="webfountain", budget="30%"))
    plan = optimiser.plan_now(NOW + 4 * DAY)
    assert plan.new_share is not None
    assert scheduler.core.pages.arrays.pages.traces["crawl_rate"][:30].sum() > 5.0
    batch = scheduler.next_batch(12, now=NOW + 4 * DAY)
    assert sorted(optimiser.arrange(batch).tolist()) == list(range(12))


def test_webfountain_without_casadi_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: str, *_: Any) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(import_module("streamsched.optimal.webfountain"), "import_module", refuse)
    with pytest.raises(SettingsError) as caught:
        Optimiser(Scheduler(), OptimiserSettings(policy="webfountain"))
    assert caught.value.setting == "casadi"
    assert "streamsched[webfountain]" in str(caught.value)
