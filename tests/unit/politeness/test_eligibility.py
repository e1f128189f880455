"""Why a page is not eligible, and from when it is: one case for each reason, and several at once."""

from __future__ import annotations

import numpy as np
import pytest

from streamsched import Explanation, Outcome, PackedUrls, Scheduler
from streamsched.outcomes import NEVER_S
from streamsched.politeness.eligibility import are_eligible, read_waits
from streamsched.politeness.politeness_settings import HostRule, Politeness, Rule
from streamsched.politeness.priority import overdue_times
from streamsched.reasons import Reason, ReasonCode

HOUR, DAY = 3_600.0, 86_400.0
URL, OTHER = "https://a.example/1", "https://a.example/2"
FIRST = 0.5  # when URL was visited


def known(**settings: object) -> Scheduler:
    scheduler = Scheduler(formula="t", politeness=Politeness(**settings))  # type: ignore[arg-type]
    scheduler.observe([Outcome(URL, FIRST), Outcome(OTHER, 1.0)])
    return scheduler


def explain(scheduler: Scheduler, now: float, url: str = URL) -> tuple[bool, float | None, list[Reason]]:
    found: Explanation = scheduler.explain(url, now=now)
    assert found.eligible == (found.position is not None) == (found.eligible_from_s == now)
    row = scheduler.core.pages.find(PackedUrls.pack([url]))
    limits = scheduler.core.politeness_policy.limits
    assert found.eligible == are_eligible(scheduler.core.pages.arrays, row, now, limits)[0]
    first = ReasonCode.LAST_VISITED if found.first_visited else ReasonCode.NEVER_VISITED
    end = next(i for i, reason in enumerate(found.reasons) if reason.code == first)
    reasons = [reason for reason in found.reasons[:end] if "k" not in reason.fields]  # k: of a batch
    return found.eligible, found.eligible_from_s, reasons


def wait(code: ReasonCode, until_s: float, now: float, **fields: object) -> Reason:
    return Reason(code, {**fields, "until_s": until_s, "wait_s": until_s - now})


def asked_for(*, waiting: bool) -> Reason:
    return Reason(ReasonCode.ASKED_FOR, {"waiting": waiting})


def test_nothing_keeps_it() -> None:
    assert explain(known(), 5.0) == (True, 5.0, [])


def test_never() -> None:
    scheduler = known()
    scheduler.set_rule(URL, Rule(never=True))
    scheduler.ask([URL], now=5.0)
    assert explain(scheduler, 5.0) == (False, None, [Reason(ReasonCode.NEVER_BY_RULE)])
    scheduler.set_rule(URL, None)
    assert explain(scheduler, 5.0) == (True, 5.0, [asked_for(waiting=False)])


def test_backing_off() -> None:
    scheduler = known()
    for failures in (1, 2, 3):
        scheduler.observe(Outcome(URL, failures * DAY, 503))
        start = failures * DAY
        eligible, until_s, reasons = explain(scheduler, start)
        assert not eligible
        assert until_s is not None
        assert 0.75 <= (until_s - start) / (HOUR * 2.0 ** (failures - 1)) <= 1.25
        assert reasons == [wait(ReasonCode.BACKING_OFF, until_s, start, failures=failures)]
        assert explain(scheduler, until_s) == (True, until_s, [])
        assert not explain(scheduler, np.nextafter(until_s, 0.0))[0]
    scheduler.observe(Outcome(URL, 4 * DAY))
    assert explain(scheduler, 4 * DAY) == (True, 4 * DAY, [])


def test_no_backoff_beyond_the_longest() -> None:
    scheduler = known(backoff_most="2h")
    scheduler.observe([Outcome(URL, float(i), 0) for i in range(1, 300)])
    _, until_s, reasons = explain(scheduler, 299.0)
    assert until_s is not None
    assert 0.75 <= (until_s - 299.0) / (2 * HOUR) <= 1.25
    assert (reasons[0].code, reasons[0].fields["failures"]) == (ReasonCode.BACKING_OFF, 255)
    assert explain(known(backoff=0), 2.0)[0]


def test_overdue_times_are_those_of_each_page() -> None:
    scheduler = known(max_revisit="1d")
    scheduler.discover(["https://a.example/3"], now=7.0)
    scheduler.set_rule(OTHER, Rule(never=True))
    shard, limits = scheduler.core.pages.arrays, scheduler.core.politeness_policy.limits
    copies = shard.pages.records[np.arange(3)]
    assert overdue_times(copies, limits).tolist() == [DAY + FIRST, np.inf, DAY + 7.0]
    assert overdue_times(copies, limits).tolist() == read_waits(shard, np.arange(3), limits).overdue_at.tolist()
    scheduler.ask([URL], now=8.0)
    assert overdue_times(shard.pages.records[:1], limits).tolist() == [-np.inf]
    assert overdue_times(copies[:1], limits).tolist() == [DAY + FIRST]


def test_pages_do_not_come_back_all_at_once() -> None:
    scheduler = Scheduler()
    urls = [f"https://{i}.example/" for i in range(400)]
    scheduler.observe([Outcome(url, 1.0, 500) for url in urls])
    limits = scheduler.core.politeness_policy.limits
    ready = read_waits(scheduler.core.pages.arrays, np.arange(400), limits).ready_at / HOUR
    assert (ready.min() < 0.77, ready.max() > 1.23, abs(ready.mean() - 1.0) < 0.03) == (True, True, True)


def test_retired_and_probed_and_back() -> None:
    scheduler = known()
    scheduler.observe([Outcome(URL, i * DAY, 404 + 6 * (i % 2)) for i in (1, 2)])
    assert explain(scheduler, 2 * DAY)[0]
    scheduler.observe([Outcome(URL, 3 * DAY, 404)])
    eligible, until_s, reasons = explain(scheduler, 3 * DAY)
    assert not eligible
    assert until_s is not None
    assert 0.75 <= (until_s - 3 * DAY) / (30 * DAY) <= 1.25
    assert reasons == [wait(ReasonCode.RETIRED, until_s, 3 * DAY, gone_answers=3)]
    scheduler.observe(Outcome(URL, until_s, 410))
    assert not explain(scheduler, until_s + 20 * DAY)[0]
    scheduler.observe(Outcome(URL, until_s + 40 * DAY, 200))
    assert explain(scheduler, until_s + 40 * DAY)[0]


@pytest.mark.parametrize("after", [None, 1])
def test_how_many_answers_retire(after: int | None) -> None:
    scheduler = known(retire_after=after)
    scheduler.observe(Outcome(URL, 1.0, 404))
    assert explain(scheduler, 2.0)[0] == (after is None)


def test_least_interval() -> None:
    scheduler = known(min_revisit="1h")
    eligible, until_s, reasons = explain(scheduler, HOUR / 2)
    assert (eligible, until_s) == (False, HOUR + FIRST)
    assert reasons == [wait(ReasonCode.BELOW_MIN_REVISIT, HOUR + FIRST, HOUR / 2)]
    assert explain(scheduler, HOUR + FIRST)[0]
    scheduler.discover(["https://a.example/new"], now=HOUR)
    assert explain(scheduler, HOUR, "https://a.example/new")[0]
    scheduler.observe(Outcome(URL, HOUR + FIRST, 503))  # a failed visit is no evidence: only its own back-off counts
    scheduler.set_rule(URL, Rule(min_revisit="3h"))
    assert explain(scheduler, HOUR + 1)[1] == 3 * HOUR + FIRST


def test_overdue() -> None:
    scheduler = known(max_revisit="1d")
    assert explain(scheduler, DAY - 1) == (True, DAY - 1, [])
    since_s = DAY + FIRST
    overdue = Reason(ReasonCode.OVERDUE, {"since_s": since_s, "waiting": False})
    assert explain(scheduler, since_s) == (True, since_s, [overdue])
    scheduler.block("a.example", 2 * DAY)
    assert explain(scheduler, since_s)[2][1:] == [Reason(ReasonCode.OVERDUE, {"since_s": since_s, "waiting": True})]


def test_asked_for_goes_before_its_waits_but_not_its_host() -> None:
    scheduler = known(min_revisit="1d")
    scheduler.observe([Outcome(URL, 1.0, 503)])
    assert not explain(scheduler, 5.0)[0]
    assert scheduler.ask([URL, "https://a.example/new"], now=5.0).added == 1
    assert explain(scheduler, 5.0) == (True, 5.0, [asked_for(waiting=False)])
    assert explain(scheduler, 5.0, "https://a.example/new")[2] == [asked_for(waiting=False)]
    scheduler.block("a.example", 60.0)
    blocked = wait(ReasonCode.HOST_RESTING, 60.0, 5.0, host="a.example", cause="blocked")
    assert explain(scheduler, 5.0) == (False, 60.0, [blocked, asked_for(waiting=True)])
    scheduler.observe(Outcome(URL, 6.0))
    assert explain(scheduler, 60.0)[:2] == (False, DAY + 6.0)


def test_host_rests_between_visits() -> None:
    scheduler = known(delay="10s")
    scheduler.observe(Outcome("https://a.example/3", 2.0))
    assert scheduler.next_batch(2, now=100.0, lease=20).urls == [URL, OTHER]
    eligible, until_s, reasons = explain(scheduler, 110.0, "https://a.example/3")
    assert (eligible, until_s) == (False, 120.0)
    assert reasons == [wait(ReasonCode.HOST_RESTING, 120.0, 110.0, host="a.example", cause="delay")]
    scheduler.set_rule("a.example", HostRule(delay=0))
    assert explain(scheduler, 120.0) == (True, 120.0, [])
    scheduler.next_batch(3, now=120.0, lease=5)
    assert explain(scheduler, 125.0) == (True, 125.0, [])


def test_host_that_is_busy() -> None:
    """429 without Retry-After: one hour, then two; answers to visits before its end belong to the same back-off."""
    scheduler = known()
    scheduler.observe([Outcome(URL, 10.0, 429), Outcome(OTHER, 11.0, 429), Outcome("https://a.example/3", 12.0)])
    eligible, until_s, reasons = explain(scheduler, 20.0, "https://a.example/3")
    assert (eligible, until_s) == (False, HOUR + 10.0)
    assert reasons == [wait(ReasonCode.HOST_RESTING, HOUR + 10.0, 20.0, host="a.example", cause="too_many_requests")]
    scheduler.observe(Outcome("https://a.example/3", HOUR + 10.0, 429))
    assert explain(scheduler, 2 * HOUR, URL)[1] == 3 * HOUR + 10.0
    scheduler.observe([Outcome(URL, 9 * HOUR), Outcome(URL, 10 * HOUR, 429)])
    assert explain(scheduler, 10 * HOUR, OTHER)[1] == 11 * HOUR


@pytest.mark.parametrize("status", [429, 503])
def test_host_that_says_how_long(status: int) -> None:
    scheduler = known(backoff=0, host_backoff_503=1)
    scheduler.observe([Outcome(URL, 10.0, status, retry_after=90.0), Outcome(OTHER, 11.0, status, retry_after=30.0)])
    resting = wait(ReasonCode.HOST_RESTING, 100.0, 40.0, host="a.example", cause="retry_after")
    assert explain(scheduler, 40.0) == (False, 100.0, [resting])
    scheduler.observe(Outcome(URL, 12.0, 200, retry_after=1e6))  # nothing that a success could ask for
    assert explain(scheduler, 100.0) == (True, 100.0, [])


def test_page_that_says_how_long() -> None:
    """A 503 of one page rests that page alone, at most for `retry_after_most`, and its back-off holds as well."""
    scheduler = known(backoff=0)
    scheduler.observe(Outcome(URL, 10.0, 503, retry_after=90.0))
    assert explain(scheduler, 40.0) == (False, 100.0, [wait(ReasonCode.RETRY_AFTER, 100.0, 40.0)])
    assert explain(scheduler, 40.0, OTHER) == (True, 40.0, [])
    assert explain(scheduler, 100.0)[0]
    scheduler.ask([URL], now=40.0)
    assert explain(scheduler, 40.0)[0]
    scheduler.observe(Outcome(URL, 110.0, 503, retry_after=3e38))
    assert explain(scheduler, 200.0)[1] == 110.0 + DAY
    scheduler.observe(Outcome(URL, 120.0, 503))  # the newest answer counts
    assert explain(scheduler, 120.0)[0]
    scheduler.observe([Outcome(URL, 130.0, 503, retry_after=90.0), Outcome(URL, 131.0)])
    assert explain(scheduler, 132.0)[0]
    scheduler.observe(Outcome(URL, 140.0, 500, retry_after=90.0))  # 500 does not say how long
    assert explain(scheduler, 141.0)[0]
    backing_off = known()
    backing_off.observe(Outcome(URL, 10.0, 503, retry_after=2 * HOUR))
    reasons = explain(backing_off, 20.0)[2]
    assert [reason.code for reason in reasons] == [ReasonCode.BACKING_OFF, ReasonCode.RETRY_AFTER]
    assert explain(backing_off, 20.0)[1] == 10.0 + 2 * HOUR


@pytest.mark.parametrize("status", [None, 404, 500, 503])
def test_page_that_its_crawler_keeps_back(status: int | None) -> None:
    scheduler = known(backoff=0, retire_after=None)
    scheduler.observe(Outcome(URL, 10.0, status, retry_after=90.0, not_before=110.0))
    assert explain(scheduler, 40.0) == (False, 110.0, [wait(ReasonCode.NOT_BEFORE, 110.0, 40.0)])
    assert explain(scheduler, 40.0, OTHER) == (True, 40.0, [])
    assert explain(scheduler, 110.0)[0]
    scheduler.ask([URL], now=40.0)
    assert explain(scheduler, 40.0)[0]
    scheduler.observe(Outcome(URL, 120.0, status, not_before=NEVER_S))
    assert explain(scheduler, 1e10)[1] == NEVER_S
    scheduler.observe(Outcome(URL, 130.0, "not_attempted"))
    assert explain(scheduler, 1e10)[1] == NEVER_S
    scheduler.observe(Outcome(URL, 140.0, status))  # the newest outcome counts
    assert explain(scheduler, 141.0)[0]


def test_the_later_of_two_rests_counts() -> None:
    scheduler = known(backoff=0)
    scheduler.observe(Outcome(URL, 10.0, 503, retry_after=90.0, not_before=50.0))
    assert explain(scheduler, 40.0) == (False, 100.0, [wait(ReasonCode.RETRY_AFTER, 100.0, 40.0)])


def test_a_date_of_an_outcome_from_before_a_lease_does_not_end_it() -> None:
    scheduler = known(backoff=0)
    assert set(scheduler.next_batch(9, now=100_000.0, lease="1h").urls) >= {URL}
    scheduler.observe(Outcome(URL, 90_000.0, not_before=1e9))
    assert explain(scheduler, 100_001.0) == (False, 103_600.0, [wait(ReasonCode.LEASED, 103_600.0, 100_001.0)])
    scheduler.observe(Outcome(URL, 100_002.0, not_before=1e9))
    assert explain(scheduler, 100_003.0)[1] == 1e9


def test_a_rest_of_a_page_outlasts_a_release_but_not_a_lease() -> None:
    scheduler = known(backoff=0)
    scheduler.observe(Outcome(URL, 10.0, 503, retry_after=90.0))
    scheduler.release([URL])
    assert explain(scheduler, 40.0)[1] == 100.0
    scheduler.ask([URL], now=40.0)
    assert scheduler.next_batch(1, now=40.0, lease="1h").urls == [URL]
    scheduler.release([URL])
    assert explain(scheduler, 41.0)[0]
    assert scheduler.next_batch(1, now=41.0, lease="1h").urls == [URL]
    assert scheduler.next_batch(1, now=41.0 + HOUR).urls == [URL]  # its lease has expired


def test_host_has_enough_pages_out() -> None:
    scheduler = known(in_flight=2)
    scheduler.observe(Outcome("https://a.example/3", 2.0))
    taken = scheduler.next_batch(2, now=10.0, lease=60).urls
    assert taken == [URL, OTHER]
    full = Reason(ReasonCode.HOST_FULL, {"host": "a.example", "out": 2, "limit": 2})
    assert explain(scheduler, 11.0, "https://a.example/3") == (False, None, [full])
    leased = wait(ReasonCode.LEASED, 70.0, 11.0)
    assert explain(scheduler, 11.0) == (False, None, [leased, full])
    scheduler.release([OTHER])
    assert explain(scheduler, 11.0, "https://a.example/3")[0]
    scheduler.set_rule("a.example", HostRule(in_flight=1))
    full = Reason(ReasonCode.HOST_FULL, {"host": "a.example", "out": 1, "limit": 1})
    assert explain(scheduler, 11.0, "https://a.example/3")[2] == [full]
    assert scheduler.next_batch(0, now=70.0).urls == []  # its clock is the one by which leases run out
    assert explain(scheduler, 70.0, "https://a.example/3")[0]


def test_several_reasons_end_with_the_last() -> None:
    scheduler = known()
    assert scheduler.next_batch(1, now=20.0, lease="1d").urls == [URL]
    scheduler.observe(Outcome(OTHER, 21.0, 429))
    scheduler.set_rule(URL, Rule(min_revisit="2h"))
    eligible, until_s, reasons = explain(scheduler, 30.0)
    assert (eligible, until_s) == (False, DAY + 20.0)
    assert reasons == [
        wait(ReasonCode.LEASED, DAY + 20.0, 30.0),
        wait(ReasonCode.HOST_RESTING, HOUR + 21.0, 30.0, host="a.example", cause="too_many_requests"),
        wait(ReasonCode.BELOW_MIN_REVISIT, 2 * HOUR + FIRST, 30.0),
    ]
