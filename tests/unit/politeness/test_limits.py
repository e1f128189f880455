"""When hosts and pages may be visited: by the second, by the count, and what an answer moves."""

from __future__ import annotations

import numpy as np
import pytest

from streamsched import Outcome, Politeness, Rule, Scheduler
from streamsched.politeness.eligibility import read_waits
from streamsched.politeness.limits import (
    FOR_DELAY,
    FOR_RETRY_AFTER,
    FOR_TOO_MANY,
    FOR_UNAVAILABLE,
    RULES,
    make_limits,
    write_rule,
)
from streamsched.politeness.politeness_settings import HostRule
from tests.support.cases import grouped

HOUR = 3_600.0
DAY = 24 * HOUR
WEEK = 168 * HOUR
URLS = [f"https://a.example/{i}" for i in range(12)]
OTHERS = (200, 304, 404, 403, 500, 502, 0)  # statuses that end a row of 503


def heard(answers: list[tuple[int, float | None, float]], politeness: Politeness) -> tuple[float, int, int]:
    """When the host is ready, its rests in a row and why it rests, after answers of status, Retry-After and time."""
    scheduler = Scheduler(politeness=politeness)
    scheduler.discover(URLS, now=0.0)
    for number, (status, retry_after, fetched_at) in enumerate(answers):
        scheduler.observe(Outcome(URLS[number], fetched_at, status, retry_after=retry_after))
    host = scheduler.core.pages.arrays.groups.records[0]
    return float(host["ready_s"]), int(host["backoffs"]), int(host["wait_reason"])


@pytest.mark.parametrize(
    ("answers", "ready_s", "backoffs", "why"),
    [
        ([(200, None, 10.0)], -np.inf, 0, 0),
        ([(200, 50.0, 10.0)], -np.inf, 0, 0),
        ([(429, None, 10.0)], 10.0 + HOUR, 1, FOR_TOO_MANY),
        ([(429, None, 10.0), (429, None, 20.0)], 10.0 + HOUR, 1, FOR_TOO_MANY),
        ([(429, None, 10.0), (429, None, 10.0 + HOUR)], 10.0 + 3 * HOUR, 2, FOR_TOO_MANY),
        ([(429, None, 10.0), (429, None, np.nextafter(10.0 + HOUR, 0.0))], 10.0 + HOUR, 1, FOR_TOO_MANY),
        ([(429, None, WEEK * i) for i in range(1, 11)], WEEK * 11, 10, FOR_TOO_MANY),
        # A time more than a longest rest ahead is not believed.
        ([(200, None, 10.0), (429, 60.0, 10.0 + 99 * DAY)], 70.0, 1, FOR_RETRY_AFTER),
        ([(200, None, 10.0), (429, None, 10.0 + 99 * DAY)], 10.0 + HOUR, 1, FOR_TOO_MANY),
        ([(200, None, 10.0), (429, 60.0, 10.0 + 99 * DAY), (200, None, 80.0)], 70.0, 0, FOR_RETRY_AFTER),
        ([(200, None, 10.0), (429, 60.0, 10.0 + DAY)], 70.0 + DAY, 1, FOR_RETRY_AFTER),
        ([(429, None, 10.0), (200, None, 20.0)], 10.0 + HOUR, 1, FOR_TOO_MANY),
        ([(429, None, 10.0), (200, None, 10.0 + HOUR)], 10.0 + HOUR, 0, FOR_TOO_MANY),
        ([(429, None, 10.0), (404, None, 9_999.0)], 10.0 + HOUR, 0, FOR_TOO_MANY),
        ([(429, None, 10.0), (500, None, 9_999.0)], 10.0 + HOUR, 1, FOR_TOO_MANY),
        ([(429, 90.0, 10.0)], 100.0, 1, FOR_RETRY_AFTER),
        ([(429, 0.0, 10.0)], 10.0, 1, FOR_RETRY_AFTER),
        ([(429, 90_000.0, 10.0)], 10.0 + DAY, 1, FOR_RETRY_AFTER),
        ([(429, 3e38, 10.0)], 10.0 + DAY, 1, FOR_RETRY_AFTER),
        ([(500, 90.0, 10.0)], -np.inf, 0, 0),
        ([(503, 90.0, 10.0)], -np.inf, 0, 0),
        ([(503, 90.0, 10.0)] * 2, -np.inf, 0, 0),
        ([(503, 90.0, 10.0)] * 3, 100.0, 1, FOR_RETRY_AFTER),
        ([(503, None, 10.0)] * 3, 10.0 + HOUR, 1, FOR_UNAVAILABLE),
        ([(503, None, 10.0)] * 7, 10.0 + HOUR, 1, FOR_UNAVAILABLE),
        ([(503, None, 10.0)] * 3 + [(503, None, 10.0 + HOUR)], 10.0 + 3 * HOUR, 2, FOR_UNAVAILABLE),
        ([(503, 90.0, 10.0)] * 2 + [(503, 20.0, 11.0)], 31.0, 1, FOR_RETRY_AFTER),
        ([(503, 20.0, 10.0)] * 3 + [(503, 90.0, 11.0)], 101.0, 1, FOR_RETRY_AFTER),
        ([(503, 3e38, 10.0)] * 3, 10.0 + DAY, 1, FOR_RETRY_AFTER),
        ([(503, 90.0, 10.0), (429, 95.0, 11.0)], 106.0, 1, FOR_RETRY_AFTER),
        ([(503, 90.0, 10.0), (429, None, 11.0)], 11.0 + HOUR, 1, FOR_TOO_MANY),
        ([(429, 50.0, 10.0), (503, 90.0, 11.0)], 60.0, 1, FOR_RETRY_AFTER),
        *[([(503, 90.0, 10.0)] * 2 + [(other, None, 11.0), (503, 90.0, 12.0)], -np.inf, 0, 0) for other in OTHERS],
        ([(503, 90.0, 10.0)] * 2 + [(200, None, 11.0)] + [(503, 90.0, 12.0)] * 3, 102.0, 1, FOR_RETRY_AFTER),
    ],
)
def test_what_a_host_makes_of_answers(
    answers: list[tuple[int, float | None, float]], ready_s: float, backoffs: int, why: int
) -> None:
    assert heard(answers, Politeness()) == (ready_s, backoffs, why)


def test_no_backoff_no_rest_but_what_was_asked_for() -> None:
    assert heard([(429, None, 10.0)], Politeness(backoff=0)) == (-np.inf, 1, 0)
    assert heard([(429, 5.0, 10.0)], Politeness(backoff=0)) == (15.0, 1, FOR_RETRY_AFTER)


def test_one_burst_of_429_is_one_strike_while_the_host_rests_for_its_delay() -> None:
    """Of the pages that were out; answers to visits after that count anew."""
    scheduler = Scheduler(politeness=Politeness(delay=10), new_share=0.0)
    scheduler.discover(URLS, now=0.0)
    urls = scheduler.next_batch(12, now=0.0, lease="1h").urls
    host = scheduler.core.pages.arrays.groups.records[0]
    for number, url in enumerate(urls[:10]):
        scheduler.observe(Outcome(url, 1.0 + number, 429, retry_after=20.0))
    assert (host["ready_s"], host["wait_reason"], host["backoffs"]) == (120.0, FOR_DELAY, 1)
    scheduler.observe(Outcome(urls[10], 119.0))
    assert host["backoffs"] == 1
    again = scheduler.next_batch(1, now=120.0).urls
    scheduler.observe(Outcome(again[0], 121.0, 429, retry_after=20.0))
    assert (host["ready_s"], host["backoffs"]) == (141.0, 2)


def test_what_a_block_ends_is_no_rest_any_more() -> None:
    scheduler = Scheduler()
    scheduler.observe(Outcome(URLS[0], 1.0, 429))
    scheduler.block("a.example", 50.0)
    scheduler.observe(Outcome(URLS[1], 2.0, 429))
    assert scheduler.core.pages.arrays.groups.records["backoffs"][0] == 2


def test_a_host_rests_for_each_page_of_a_batch() -> None:
    scheduler = Scheduler(politeness=Politeness(delay=10), new_share=0.0)
    scheduler.discover([*URLS, "https://b.example/"], now=0.0)
    assert len(scheduler.next_batch(13, now=100.0, lease=45)) == 4 + 1
    hosts = scheduler.core.pages.arrays.groups.records
    assert (hosts["ready_s"][0], hosts["wait_reason"][0]) == (140.0, FOR_DELAY)
    assert len(scheduler.next_batch(13, now=np.nextafter(140.0, 0.0), lease=45)) == 0
    assert len(scheduler.next_batch(13, now=140.0, lease=9)) == 1


@grouped(
    ("pages", "politeness", "rule"),
    {
        12: [(Politeness(), None), (Politeness(delay=100.0), HostRule(delay=0))],
        3: [(Politeness(in_flight=3), None), (Politeness(per_batch=3), None)],
        2: [(Politeness(in_flight=3, per_batch=2), None)],
        5: [(Politeness(in_flight=3), HostRule(in_flight=5))],
        6: [(Politeness(per_batch=3), HostRule(per_batch=7, in_flight=6)), (Politeness(delay=100.0), None)],
        1: [(Politeness(delay=100.0), HostRule(delay=600.5)), (Politeness(delay=601.0), HostRule(delay=600))],
    },
)
def test_how_many_of_a_host(politeness: Politeness, rule: HostRule | None, pages: int) -> None:
    scheduler = Scheduler(politeness=politeness, new_share=0.0)
    scheduler.discover(URLS, now=0.0)
    scheduler.set_rule("a.example", rule)
    assert len(scheduler.next_batch(12, now=1.0, lease=600)) == pages


def test_a_rule_that_comes_too_late_waits_for_those_that_are_out() -> None:
    scheduler = Scheduler(new_share=0.0)
    scheduler.discover(URLS, now=0.0)
    out = scheduler.next_batch(5, now=1.0, lease="1h").urls
    scheduler.set_rule("a.example", HostRule(in_flight=3))
    for back in (0, 2):
        scheduler.release(out[:back])
        assert len(scheduler.rank(12, now=2.0)) == 0
    scheduler.release(out[2:3])
    assert len(scheduler.rank(12, now=2.0)) == 1


def test_rests_are_jittered_by_a_quarter() -> None:
    """Of many pages evenly between three quarters and five of what the settings say."""
    urls = [f"https://a.example/{i}" for i in range(2_000)]
    scheduler = Scheduler(politeness=Politeness(backoff=100.0, backoff_most=150.0, retire_after=2, probe_every=1e4))
    scheduler.observe([Outcome(url, 1e6, 500) for url in urls])
    for rest, status in ((100.0, 500), (150.0, 500)):
        waits = read_waits(scheduler.core.pages.arrays, np.arange(2_000), scheduler.core.politeness_policy.limits)
        shares = (waits.backoff_until - scheduler.core.pages.arrays.pages.traces["last_outcome_s"][:2_000]) / rest
        check_jitter(shares)
        scheduler.observe([Outcome(url, 2e6, status) for url in urls])
    for number in range(2):
        scheduler.observe([Outcome(url, 3e6 + number, 404) for url in urls])
    waits = read_waits(scheduler.core.pages.arrays, np.arange(2_000), scheduler.core.politeness_policy.limits)
    check_jitter((waits.probe_at - 3e6 - 1) / 1e4)
    assert np.all(waits.backoff_until == -np.inf)


def check_jitter(shares: np.typing.NDArray[np.float64]) -> None:
    assert 0.75 <= shares.min() < 0.76
    assert 1.24 < shares.max() <= 1.25
    assert np.histogram(shares, 5, (0.75, 1.25))[0].min() > 320


def test_rules_fill_in_from_settings() -> None:
    politeness = Politeness(min_revisit=60, max_revisit=600)
    limits = make_limits(politeness)
    assert limits.rules.size == RULES
    assert set(limits.rules["min_revisit_s"]) == {60.0}
    write_rule(limits, 7, Rule(max_revisit=90), politeness)
    write_rule(limits, 8, Rule(never=True, min_revisit=0), politeness)
    assert limits.rules[7].tolist()[:3] == (60.0, 90.0, 0)
    assert limits.rules[8].tolist()[:3] == (0.0, 600.0, 1)
    assert set(make_limits(Politeness()).rules["max_revisit_s"]) == {np.inf}


def test_released_pages_leave_their_host_resting_until_it_is_told_otherwise() -> None:
    scheduler = Scheduler(politeness=Politeness(delay=10), new_share=0.0)
    scheduler.discover(URLS, now=0.0)
    scheduler.release(scheduler.next_batch(12, now=0.0, lease=50).urls)
    assert len(scheduler.next_batch(12, now=49.0)) == 0
    assert scheduler.block("a.example", 49.0) == 1
    assert len(scheduler.next_batch(12, now=49.0)) == 12


def test_rank_knows_no_lease() -> None:
    scheduler = Scheduler(politeness=Politeness(delay=10), new_share=0.0)
    scheduler.discover(URLS, now=0.0)
    assert len(scheduler.rank(12, now=0.0)) == 12
    assert len(scheduler.next_batch(12, now=0.0, lease=29)) == 2
