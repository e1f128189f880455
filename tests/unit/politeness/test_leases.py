"""Leases: a page handed out is out until an outcome is applied, its lease expires or it is released, and no longer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsched import DurableScheduler, Observed, Outcome, Politeness, Scheduler
from streamsched.politeness.eligibility import are_leased
from streamsched.politeness.leases import Leases
from streamsched.state.page_table import PageTable
from tests.support.cases import examples
from tests.support.fixed_scores import make_pages

URLS = [f"https://a.example/{i}" for i in range(4)]


def known() -> Scheduler:
    scheduler = Scheduler(formula="t", politeness=Politeness(backoff=0))
    scheduler.observe([Outcome(url, 1.0 + i) for i, url in enumerate(URLS)])
    return scheduler


def free(scheduler: Scheduler, now: float) -> list[str]:
    return scheduler.rank(10, now=now).urls


def test_leased_pages_are_out_and_others_are_not() -> None:
    table = make_pages(5)
    Leases().grant(table.arrays, np.array([1, 3]), 0.0, 10.0)
    assert are_leased(table.arrays, np.arange(5), 9.0).tolist() == [False, True, False, True, False]
    Leases().release(table.arrays, np.array([3, 4]))
    assert are_leased(table.arrays, np.array([3, 1]), 9.0).tolist() == [False, True]


def test_lease_ends_at_the_very_second_of_its_expiry() -> None:
    table = make_pages(1)
    Leases().grant(table.arrays, np.array([0]), 0.0, 10.0)
    last = np.nextafter(10.0, 0.0)
    assert [bool(are_leased(table.arrays, np.array([0]), now)[0]) for now in (-1e9, last, 10.0)] == [True, True, False]


def test_no_rows_no_leases() -> None:
    table = PageTable(86_400.0)
    Leases().grant(table.arrays, np.empty(0, np.int64), 0.0, 1.0)
    assert are_leased(table.arrays, np.empty(0, np.int64), 0.0).size == 0


def test_page_is_not_handed_out_twice_before_its_expiry() -> None:
    scheduler = known()
    assert scheduler.next_batch(3, now=100.0, lease=50).urls == URLS[:3]
    assert scheduler.next_batch(3, now=149.8, lease=50.2).urls == URLS[3:]
    assert scheduler.next_batch(3, now=149.8, lease=50.2).urls == []
    assert scheduler.next_batch(9, now=150.0, lease=50).urls == URLS[:3]
    assert scheduler.next_batch(9, now=199.8, lease=50).urls == []
    assert free(scheduler, 199.8) == []
    assert free(scheduler, 200.0) == URLS


def test_rank_leases_nothing() -> None:
    scheduler = known()
    assert free(scheduler, 100.0) == free(scheduler, 100.0) == URLS


@pytest.mark.parametrize("status", [200, 304, 404, 429, 503, 0])
def test_outcome_frees_whatever_it_says(status: int) -> None:
    scheduler = known()
    scheduler.next_batch(4, now=100.0)
    scheduler.observe(Outcome(URLS[2], 101.0, status))
    assert free(scheduler, 102.0) == [URLS[2]]


@pytest.mark.parametrize(
    ("fetched_at", "is_free"), [(50.0, False), (89.9, False), (90.0, True), (100.0, True), (101.0, True)]
)
def test_outcome_from_before_a_lease_does_not_end_it(fetched_at: float, is_free: bool) -> None:
    """Up to the 10 s that clocks may differ by; and the outcome is applied all the same."""
    scheduler = known()
    scheduler.next_batch(4, now=100.0)
    assert scheduler.observe(Outcome(URLS[2], fetched_at, changed=True)).changed == 1
    assert free(scheduler, 102.0) == [URLS[2]][:is_free]
    assert sorted(free(scheduler, 700.0)) == URLS


def test_clocks_may_differ_as_much_as_is_set() -> None:
    scheduler = known()
    scheduler.set_politeness(Politeness(backoff=0, clock_skew="1m"))
    scheduler.next_batch(4, now=100.0)
    scheduler.observe([Outcome(URLS[2], 40.0), Outcome(URLS[3], 39.9)])
    assert free(scheduler, 102.0) == [URLS[2]]


@pytest.mark.parametrize("status", [200, 304, 404, 429, 500, 503, 0, "robots_denied", "not_attempted"])
def test_no_kind_of_outcome_from_before_a_lease_ends_it(status: Any) -> None:
    """Nor does it use up what was asked for, nor put a rest in place of the lease; and the next one ends the lease."""
    scheduler = known()
    scheduler.set_politeness(Politeness(backoff=0, host_backoff_429=None, host_backoff_503=None))
    scheduler.ask([URLS[2]], now=99.0)
    scheduler.next_batch(4, now=100.0)
    before = scheduler.page(URLS[2], now=101.0)
    scheduler.observe(Outcome(URLS[2], 50.0, status, retry_after=3_600.0 if status in {429, 503} else None))
    page = scheduler.page(URLS[2], now=101.0)
    assert before is not None
    assert page is not None
    assert page.lease_until_s == before.lease_until_s == 700.0
    assert page.asked_for
    scheduler.observe(Outcome(URLS[2], 101.0))
    page = scheduler.page(URLS[2], now=102.0)
    assert page is not None
    assert (page.lease_until_s, page.asked_for) == (None, False)
    assert scheduler.core.pages.faults() == []


def test_outcome_from_before_the_lease_of_a_probe_does_not_free_its_host() -> None:
    scheduler = known()
    scheduler.observe(Outcome(URLS[0], 10.0, 429, retry_after=50.0))
    (probe,) = scheduler.next_batch(4, now=100.0).urls
    scheduler.observe(Outcome(probe, 80.0))
    assert scheduler.next_batch(4, now=101.0).urls == []
    scheduler.observe(Outcome(probe, 101.0))
    assert len(scheduler.next_batch(4, now=102.0)) == 4


def test_outcomes_from_before_their_leases_are_no_evidence_for_the_formula() -> None:
    scheduler = known()
    scheduler.next_batch(4, now=100.0)
    observed = scheduler.observe([Outcome(URLS[2], 50.0, changed=True), Outcome(URLS[3], 101.0, changed=True)])
    assert (observed.changed, observed.served, observed.hits) == (2, 1, 1)


def test_lease_begins_at_the_same_time_in_a_state_that_was_saved(tmp_path: Path) -> None:
    with DurableScheduler.open(tmp_path / "state", {"formula": "t"}) as scheduler:
        scheduler.observe([Outcome(url, 1.0 + i) for i, url in enumerate(URLS)])
        scheduler.next_batch(4, now=1_000.0)
    with DurableScheduler.open(tmp_path / "state") as again:
        again.observe([Outcome(URLS[2], 900.0), Outcome(URLS[3], 1_000.0)])
        assert free(again, 1_001.0) == [URLS[3]]


def test_duplicate_late_and_invalid_outcomes_do_not_free() -> None:
    scheduler = known()
    scheduler.next_batch(4, now=100.0)
    result = scheduler.observe([Outcome(URLS[2], 3.0, 404), Outcome(URLS[2], 2.5), Outcome(URLS[3], 1.0)])
    assert result == Observed(duplicates=1, late=2)
    assert free(scheduler, 102.0) == []


def test_discovery_does_not_free() -> None:
    scheduler = known()
    scheduler.next_batch(4, now=100.0)
    assert scheduler.discover([*URLS, "https://a.example/new"], now=101.0).added == 1
    assert free(scheduler, 102.0) == ["https://a.example/new"]


def test_release_frees_and_counts_what_is_known() -> None:
    scheduler = known()
    scheduler.next_batch(4, now=100.0)
    assert scheduler.release([URLS[1], "https://a.example/unknown", URLS[1]]) == 2
    assert free(scheduler, 102.0) == [URLS[1]]
    assert scheduler.release([]) == 0


def test_page_discovered_and_leased_is_freed_by_its_first_visit() -> None:
    scheduler = Scheduler()
    scheduler.discover(URLS, now=0.0)
    assert len(scheduler.next_batch(9, now=1.0)) == 4
    scheduler.observe(Outcome(URLS[0], 0.5))
    assert free(scheduler, 2.0) == [URLS[0]]


def test_new_lease_replaces_one_that_ran_out() -> None:
    scheduler = known()
    scheduler.next_batch(1, now=100.0, lease=10)
    scheduler.next_batch(1, now=110.0, lease=1000)
    assert URLS[0] not in free(scheduler, 1109.0)
    assert URLS[0] in free(scheduler, 1110.0)


steps = st.one_of(
    st.tuples(st.just("take"), st.integers(0, 3), st.sampled_from([1.0, 5.0, 50.0])),
    st.tuples(st.just("report"), st.integers(0, 3), st.sampled_from([-5.0, 0.0, 1.0])),
    st.tuples(st.just("release"), st.integers(0, 3), st.just(0.0)),
    st.tuples(st.just("wait"), st.integers(0, 9), st.just(0.0)),
)


@examples(ordinary=4, whole=15)
@given(st.lists(steps, max_size=30))
def test_leases_are_those_of_a_dict(acts: list[tuple[str, int, float]]) -> None:
    scheduler, now = known(), 100.0
    until: dict[str, float] = {}
    newest: dict[str, float] = dict(zip(URLS, range(1, 5), strict=True))
    for act, number, amount in acts:
        if act == "take":
            expected = {url for url in URLS if until.get(url, now) <= now}
            taken = scheduler.next_batch(number, now=now, lease=amount).urls
            assert set(taken) <= expected
            assert len(taken) == min(number, len(expected))
            until |= dict.fromkeys(taken, now + amount)
        elif act == "report":
            scheduler.observe(Outcome(URLS[number], now + amount))
            if now + amount > newest[URLS[number]]:
                newest[URLS[number]] = now + amount
                until.pop(URLS[number], None)
        elif act == "release":
            scheduler.release([URLS[number]])
            until.pop(URLS[number], None)
        else:
            now += number
        assert set(free(scheduler, now)) == {url for url in URLS if until.get(url, now) <= now}
