"""What is measured of a scheduler at work, in worlds whose truth is known."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from streamsched import Outcome, OutcomeBatch, PackedUrls, Politeness, Scheduler, Signal
from streamsched.fields import MAX_STATUS
from streamsched.scheduler.monitoring import SchedulerWatch, count_fetches
from tests.reference import calibration

DAY = 86_400.0
URLS = [f"https://h{i % 7}.example/{i}" for i in range(60)]
NEW = [f"https://new.example/{i}" for i in range(10)]


def crawled(days: int = 9) -> tuple[Scheduler, SchedulerWatch]:
    """Sixty pages that change from never to daily, visited every day; and ten that were never visited."""
    scheduler = Scheduler(politeness=Politeness(), new_share=0.0)
    watch = SchedulerWatch(scheduler.core)
    for day in range(days):
        scheduler.observe([Outcome(url, day * DAY + 1.0, changed=(day * i) % 59 > 40) for i, url in enumerate(URLS)])
    scheduler.discover(NEW, now=days * DAY)
    return scheduler, watch


def crawl(*, cycles: int, drifts_at: int | None = None) -> tuple[SchedulerWatch, list[tuple[float, float]]]:
    """Crawl pages that change at Poisson times; return the freshness as estimated and in truth, cycle by cycle.

    From `drifts_at` on all changes come three times as often.
    """
    rng, count = np.random.default_rng(4), 4_000
    urls = PackedUrls.pack([f"https://h{i % 50}.example/{i}" for i in range(count)])
    rates, stale = rng.gamma(0.5, 0.4, count), np.zeros(count, np.bool_)
    scheduler = Scheduler(surges=False, regions=None)
    watch, shares = SchedulerWatch(scheduler.core), []
    scheduler.observe(OutcomeBatch(urls, np.ones(count)))
    for cycle in range(1, cycles):
        factor = 1.0 if drifts_at is None or cycle < drifts_at else 3.0
        stale |= rng.random(count) < 1.0 - np.exp(-factor * rates)
        batch = scheduler.next_batch(400, now=cycle * DAY)
        shares.append((watch.freshness(now=cycle * DAY) or 0.0, float(1.0 - stale.mean())))
        outcomes = OutcomeBatch(PackedUrls.pack(batch.urls), np.full(400, cycle * DAY + 1.0), changed=stale[batch.rows])
        scheduler.observe(outcomes)
        stale[batch.rows] = False
    watch.calibration(now=cycles * DAY)
    return watch, shares


def test_estimates_agree_with_the_truth() -> None:
    watch, shares = crawl(cycles=90)
    estimated, true = np.array(shares[40:]).T
    assert np.abs(estimated - true).max() < 0.03
    reliability = watch.calibration(now=90 * DAY)
    assert reliability.total == 10_000
    assert reliability.error is not None
    assert reliability.error < 0.04
    assert reliability.mean_predicted == pytest.approx(reliability.share_observed, abs=0.03)


def test_changes_that_come_more_often_than_before_show_in_the_calibration() -> None:
    steady, _ = crawl(cycles=40)
    drifted, _ = crawl(cycles=40, drifts_at=30)
    before, after = (watch.calibration(now=40 * DAY).error for watch in (steady, drifted))
    assert before is not None
    assert after is not None
    assert after > before


@pytest.mark.parametrize(("sample", "step"), [({}, 1), ({"sample": 7}, 10)], ids=["all", "sample"])
def test_freshness_is_that_of_its_twin(sample: dict[str, int], step: int) -> None:
    scheduler, watch = crawled()
    scheduler.notice([Signal(URLS[3], 9.5 * DAY, "sitemap")])
    now = 12 * DAY
    some = (URLS + NEW)[::step]
    explained = [scheduler.explain(url, now=now) for url in some]
    changed = scheduler.core.batch_builder.change_probabilities(now, scheduler.core.find(some)).tolist()
    expected = calibration.freshness(changed, [one.first_visited for one in explained])
    assert watch.freshness(now=now, **sample) == pytest.approx(expected, abs=1e-12)
    assert 0.1 < expected < 60 / 70


def test_without_pages_there_is_no_freshness() -> None:
    assert SchedulerWatch(Scheduler().core).freshness(now=0.0) is None


def test_calls_are_counted_from_the_making_of_the_watch() -> None:
    scheduler, _ = crawled()
    watch = SchedulerWatch(scheduler.core)
    batch = scheduler.next_batch(20, now=10 * DAY, key="one")
    scheduler.next_batch(20, now=10 * DAY, key="one")  # the same once more
    scheduler.rank(20, now=10 * DAY)
    scheduler.offer(20, now=10 * DAY)
    left = [url for url in URLS if url not in batch.urls][:2]
    scheduler.grant([*left, "https://unknown.example/"], now=10 * DAY)
    total = scheduler.observe([Outcome(url, 10 * DAY + 1.0, changed=True) for url in batch.urls[:12]])
    total += scheduler.observe([Outcome(URLS[0], 0.5), Outcome(URLS[1], 1e9 * DAY)])
    noticed = scheduler.notice([Signal(URLS[3], 9.5 * DAY, "sitemap")])
    assert (watch.batches, watch.handed_out) == (2, 22)
    assert (watch.observed, watch.noticed) == (total, noticed)
    assert watch.observed.hits > 0


def test_leased_pages_are_those_whose_leases_have_not_expired() -> None:
    scheduler, watch = crawled()
    first = scheduler.next_batch(20, now=10 * DAY, lease=100.0)
    scheduler.next_batch(9, now=10 * DAY, lease=1_000.0)
    assert watch.leased(now=10 * DAY) == 29
    scheduler.observe([Outcome(url, 10 * DAY + 1.0) for url in first.urls[:5]])
    scheduler.release(first.urls[5:7])
    assert watch.leased(now=10 * DAY + 99.0) == 22
    assert watch.leased(now=10 * DAY + 100.0) == 9
    assert watch.leased(now=10 * DAY + 99.0) == 22  # looking ahead ends no lease


def test_first_visits_failures_and_lost_pages_are_no_evidence() -> None:
    scheduler, watch = crawled()
    batch = scheduler.next_batch(70, now=10 * DAY, lease=600.0)
    new = [url for url in batch.urls if "new.example" in url]
    old = [url for url in batch.urls if url not in new]
    assert new
    scheduler.observe([Outcome(url, 10 * DAY + 1.0) for url in new])
    scheduler.observe([Outcome(url, 10 * DAY + 1.0, status=500) for url in old[:10]])
    scheduler.observe([Outcome(url, 10 * DAY + 1.0, changed=True) for url in old[10:15]])
    assert watch.calibration(now=10 * DAY + 700.0).total == 5
    scheduler.observe([Outcome(url, 10 * DAY + 800.0, changed=True) for url in old[15:]])  # after their leases
    assert watch.calibration(now=10 * DAY + 900.0).total == 5


def kind_of(status: int | str) -> str:
    """The slow twin of `count_fetches`."""
    if isinstance(status, str):
        return status
    if status < 400:
        return "fetched" if status else "no_response"
    if status >= 500:
        return "server_error"
    return {404: "gone", 410: "gone", 429: "too_many_requests"}.get(status, "client_error")


def test_each_status_is_one_result_of_a_fetch() -> None:
    statuses = [*range(MAX_STATUS + 1), "robots_denied"]
    urls = [f"https://a.example/{place}" for place in range(len(statuses))]
    assert count_fetches(OutcomeBatch(urls, [DAY] * len(urls), status=statuses)) == Counter(map(kind_of, statuses))
    given_up = OutcomeBatch(urls[:3], [DAY] * 3, status=["not_attempted", None, 200])
    assert count_fetches(given_up) == {"fetched": 2}
    assert count_fetches(OutcomeBatch(urls[:2], [DAY] * 2)) == {"fetched": 2}
    assert not count_fetches(OutcomeBatch([], []))
