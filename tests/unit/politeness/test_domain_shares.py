"""Shares of a day's visits: what one registrable domain gets, and when it is not limited."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from streamsched import DurableScheduler, Outcome, Scheduler, SettingsError
from streamsched.politeness.politeness_settings import Rule
from streamsched.reasons import ReasonCode
from streamsched.state.future_times import TimeBounds, mend_times
from tests.reference.domain_shares import domain_of

DAY = 86_400.0
START = 20_000 * DAY
BAD = [f"https://x{i % 7}.bad.example/{i}" for i in range(40)]
GOOD = [f"https://h{i % 40}.example/{i}" for i in range(1_960)]


def make(**settings: Any) -> Scheduler:
    """40 of 2,000 pages score above all others; their domain has many hosts."""
    fixed: dict[str, Any] = {"formula": "importance", "new_share": 0.0, "threads": 1}
    scheduler = Scheduler(**fixed | settings)
    urls = BAD + GOOD
    scheduler.discover(urls, now=START, importance=[10.0 if url in BAD else 1.0 for url in urls])
    return scheduler


def crawl(scheduler: Scheduler, sizes: list[int], start: float = START) -> list[int]:
    """Take batches and visit their pages; return how many pages of each were of the bad domain."""
    found = []
    for number, k in enumerate(sizes):
        now = start + 10.0 * number
        urls = scheduler.next_batch(k, now=now, lease="5s").urls
        assert len(urls) == k
        found.append(sum(domain_of(url) == "bad.example" for url in urls))
        scheduler.observe([Outcome(url, now + 1.0) for url in urls])
    return found


@pytest.mark.parametrize("sizes", [[300], [30] * 10, [1] * 300, [299, 1], [7, 93, 200]])
def test_a_domain_has_a_tenth_of_a_day_in_batches_of_any_size(sizes: list[int]) -> None:
    found = crawl(make(), sizes)
    assert sum(found) == 30
    for number in range(len(sizes)):
        assert sum(found[: number + 1]) <= max(1, sum(sizes[: number + 1]) // 10)


def test_the_setting_and_what_switches_it_off() -> None:
    assert crawl(make(host_share=0.05), [100] * 2) == [5, 5]
    assert crawl(make(host_share=0.001), [100] * 2) == [4, 4]  # twice 2 % of the pages
    for off in (None, 1, 1.0):
        assert crawl(make(host_share=off), [100] * 2) == [40, 40]
    for wrong in (0, 1.5, -0.1, float("nan"), "0.1"):
        with pytest.raises(SettingsError, match="host_share"):
            Scheduler(host_share=wrong)  # type: ignore[arg-type]


def test_each_day_begins_again() -> None:
    scheduler = make()
    assert crawl(scheduler, [100, 100]) == [10, 10]
    assert crawl(scheduler, [100], START + DAY - 1.0) == [10]
    assert crawl(scheduler, [100], START + DAY) == [10]
    assert crawl(scheduler, [10], START + DAY - 1.0) == [1]  # a clock a second behind counts for the newest day


def test_a_domain_may_have_more_if_no_other_page_can_be_visited() -> None:
    scheduler = make()
    others = scheduler.next_batch(len(GOOD), now=START, lease="1h", hosts=["h*"]).urls
    assert set(others) == set(GOOD)
    assert len(scheduler.next_batch(1, now=START + 1.0, lease="1h", hosts=["x1.bad.example"])) == 1
    assert set(scheduler.next_batch(100, now=START + 2.0, lease="1h").urls) < set(BAD)
    assert len(scheduler.next_batch(100, now=START + 3.0)) == 0


def test_few_domains_are_limited_by_twice_their_pages() -> None:
    scheduler = Scheduler(formula="importance", new_share=0.0)
    sizes = {"a": 60, "b": 30, "c": 10}
    urls = [f"https://{name}.example/{i}" for name, size in sizes.items() for i in range(size)]
    scheduler.discover(urls, now=START, importance=[{"a": 2.0, "b": 3.0, "c": 4.0}[url[8]] for url in urls])
    found = Counter(url[8] for url in scheduler.next_batch(20, now=START).urls)
    assert found == {"a": 4, "b": 12, "c": 4}  # b: twice 30 %, c: twice 10 %; a has more than half of the pages


@pytest.mark.parametrize("k", [5, 10, 20, 40])
def test_pages_without_scores_go_by_their_order_too(k: int) -> None:
    """Scores are NaN: a page in the last slot of a domain is not better than itself."""
    urls = [f"https://{name}.example/{i}" for name in "abcdefghij" for i in range(10)]
    orders = []
    for share in (None, 0.1):
        scheduler = Scheduler(formula="pow(1e300, 2) * t - pow(1e300, 2) * t", new_share=0.0, host_share=share)
        scheduler.observe([Outcome(url, START) for url in urls])
        orders.append(scheduler.next_batch(100 if share is None else k, now=START + DAY).urls)
    rooms = dict.fromkeys("abcdefghij", k // 5)
    expected: list[str] = []
    for url in orders[0]:
        if rooms[url[8]] and len(expected) < k:
            rooms[url[8]] -= 1
            expected.append(url)
    assert orders[1] == expected


def test_one_domain_is_not_limited() -> None:
    batches = []
    for share in (0.1, None):
        scheduler = Scheduler(host_share=share)
        scheduler.observe([Outcome(f"https://h{i % 3}.example.org/{i}", START + i) for i in range(300)])
        batches.append([scheduler.next_batch(50, now=START + DAY * day).urls for day in range(4)])
    assert batches[0] == batches[1]


def test_pages_asked_for_and_overdue_do_not_wait_but_count() -> None:
    scheduler = make()
    scheduler.ask(BAD[:8], now=START)
    urls = scheduler.next_batch(50, now=START).urls
    assert set(urls[:8]) == set(BAD[:8])
    assert sum(url in BAD for url in urls) == 8
    assert not set(scheduler.next_batch(20, now=START + 1.0).urls) & set(BAD)  # 8 of 70 are more than a tenth
    overdue = make()
    overdue.set_rules({url: Rule(max_revisit="1h") for url in BAD[:30]})
    assert set(overdue.next_batch(60, now=START + 3_601.0).urls) & set(BAD) == set(BAD[:30])


def test_named_leases_count_but_do_not_wait() -> None:
    scheduler = make()
    assert len(scheduler.grant(BAD, now=START, lease="5s").batch) == 40
    assert not set(scheduler.next_batch(100, now=START + 10.0).urls) & set(BAD)


def test_never_visited_pages_of_a_domain_wait_too() -> None:
    scheduler = make(new_share=0.5)
    scheduler.observe([Outcome(url, START + 1.0) for url in GOOD])
    assert sum(url in BAD for url in scheduler.next_batch(100, now=START + DAY).urls) == 10


def test_it_is_explained() -> None:
    scheduler = make()
    first = set(scheduler.next_batch(100, now=START, lease="1h").urls)
    url = next(url for url in BAD if url not in first)
    explained = scheduler.explain(url, now=START + 1.0, k=20)
    assert not explained.in_batch
    reason = next(one for one in explained.reasons if one.code == ReasonCode.DOMAIN_SHARE_USED)
    assert reason.fields == {"k": 20, "domain": "bad.example", "visits": 12, "of_visits": 120, "allowed": 12}
    assert "its domain bad.example has had its share of visits" in reason.text
    assert scheduler.explain(GOOD[0], now=START + 1.0, k=20).reasons[0].code != ReasonCode.DOMAIN_SHARE_USED


def test_counts_survive_saves_and_logged_calls(tmp_path: Path) -> None:
    with DurableScheduler.open(tmp_path, settings={"formula": "importance", "new_share": 0.0}) as scheduler:
        urls = BAD + GOOD
        scheduler.discover(urls, now=START, importance=[10.0 if url in BAD else 1.0 for url in urls])
        assert crawl(scheduler, [50]) == [5]
        scheduler.snapshot()
        assert crawl(scheduler, [50], START + 100.0) == [5]
        scheduler.snapshot()  # an increment
        assert crawl(scheduler, [49], START + 200.0) == [4]
        digest = scheduler.digest()
        scheduler.close(save=False)
    with DurableScheduler.open(tmp_path) as scheduler:
        assert scheduler.digest() == digest
        assert crawl(scheduler, [1, 1], START + 300.0) == [1, 0]


def test_pages_given_back_are_no_visits() -> None:
    scheduler = make()
    scheduler.discover([], now=START)  # the time of a call is remembered
    before = scheduler.digest()
    urls = scheduler.next_batch(200, now=START, lease="1h").urls
    assert scheduler.release(urls + urls) == 400
    assert scheduler.digest() == before
    assert crawl(scheduler, [100, 100]) == [10, 10]
    scheduler.release(urls)  # nothing is leased any more
    assert crawl(scheduler, [100], START + 60.0) == [10]


def test_a_day_in_the_future_is_mended() -> None:
    scheduler = make()
    assert crawl(scheduler, [100], START + 1_000 * DAY) == [10]
    shard = scheduler.core.pages.arrays
    mended = mend_times(shard, TimeBounds(START + DAY, START + DAY, START))
    assert mended["domains"] > 1
    assert shard.corpus["day"][0] == 20_000
    assert crawl(scheduler, [100], START + 60.0) == [10]
    assert mend_times(shard, TimeBounds(START + DAY, START + DAY, START))["domains"] == 0
