"""Why a page may not be handed out, and when it may, in words: one case each, and several at once."""

from __future__ import annotations

import numpy as np
import pytest

from streamsched import Explanation, Outcome, PackedUrls, Scheduler
from streamsched.politeness.eligibility import are_eligible, read_waits
from streamsched.politeness.politeness_settings import HostRule, Politeness, Rule

HOUR, DAY = 3_600.0, 86_400.0
URL, OTHER = "https://a.example/1", "https://a.example/2"


def known(**settings: object) -> Scheduler:
    scheduler = Scheduler(formula="t", politeness=Politeness(**settings))  # type: ignore[arg-type]
    scheduler.observe([Outcome(URL, 0.0), Outcome(OTHER, 1.0)])
    return scheduler


def told(scheduler: Scheduler, now: float, url: str = URL) -> tuple[bool, float | None, list[str]]:
    found: Explanation = scheduler.explain(url, now=now)
    assert found.eligible == (found.position is not None) == (found.eligible_from_s == now)
    row = scheduler.core.pages.find(PackedUrls.pack([url]))
    assert (
        found.eligible
        == are_eligible(scheduler.core.pages.arrays, row, now, scheduler.core.politeness_policy.limits)[0]
    )
    mark = "last visited" if found.first_visited else "never visited"
    place = next(i for i, reason in enumerate(found.reasons) if reason.startswith(mark))
    waits = [reason for reason in found.reasons[:place] if "the next batch of" not in reason]
    return found.eligible, found.eligible_from_s, waits


def test_nothing_keeps_it() -> None:
    assert told(known(), 5.0) == (True, 5.0, [])


def test_never() -> None:
    scheduler = known()
    scheduler.set_rule(URL, Rule(never=True))
    scheduler.ask([URL], now=5.0)
    assert told(scheduler, 5.0) == (False, None, ["not eligible: never to be visited, by its rule"])
    scheduler.set_rule(URL, None)
    assert told(scheduler, 5.0) == (True, 5.0, ["asked for: goes before others until its next outcome"])


def test_backing_off() -> None:
    scheduler = known()
    for failures in (1, 2, 3):
        scheduler.observe(Outcome(URL, failures * DAY, 503))
        start = failures * DAY
        eligible, until_s, reasons = told(scheduler, start)
        assert not eligible
        assert until_s is not None
        assert 0.75 <= (until_s - start) / (HOUR * 2.0 ** (failures - 1)) <= 1.25
        after = "1 failed visit" if failures == 1 else f"{failures} failed visits"
        assert len(reasons) == 1
        assert reasons[0].startswith("not eligible: backing off until 1970-01-0")
        assert reasons[0].endswith(f" from now, after {after}")
        assert told(scheduler, until_s) == (True, until_s, [])
        assert not told(scheduler, np.nextafter(until_s, 0.0))[0]
    scheduler.observe(Outcome(URL, 4 * DAY))
    assert told(scheduler, 4 * DAY) == (True, 4 * DAY, [])


def test_no_backoff_beyond_the_longest() -> None:
    scheduler = known(backoff_most="2h")
    scheduler.observe([Outcome(URL, float(i), 0) for i in range(1, 300)])
    _, until_s, reasons = told(scheduler, 299.0)
    assert until_s is not None
    assert 0.75 <= (until_s - 299.0) / (2 * HOUR) <= 1.25
    assert reasons[0].endswith("after 255 failed visits")
    assert told(known(backoff=0), 0.0)[0]


def test_pages_do_not_come_back_all_at_once() -> None:
    scheduler = Scheduler()
    urls = [f"https://{i}.example/" for i in range(400)]
    scheduler.observe([Outcome(url, 0.0, 500) for url in urls])
    limits = scheduler.core.politeness_policy.limits
    ready = read_waits(scheduler.core.pages.arrays, np.arange(400), limits).ready_at / HOUR
    assert (ready.min() < 0.77, ready.max() > 1.23, abs(ready.mean() - 1.0) < 0.03) == (True, True, True)


def test_retired_and_probed_and_back() -> None:
    scheduler = known()
    scheduler.observe([Outcome(URL, i * DAY, 404 + 6 * (i % 2)) for i in (1, 2)])
    assert told(scheduler, 2 * DAY)[0]
    scheduler.observe([Outcome(URL, 3 * DAY, 404)])
    eligible, until_s, reasons = told(scheduler, 3 * DAY)
    assert not eligible
    assert until_s is not None
    assert 0.75 <= (until_s - 3 * DAY) / (30 * DAY) <= 1.25
    assert reasons[0].startswith("not eligible: retired after 3 answers of 404 or 410: not probed again until 1970-0")
    scheduler.observe(Outcome(URL, until_s, 410))
    assert not told(scheduler, until_s + 20 * DAY)[0]
    scheduler.observe(Outcome(URL, until_s + 40 * DAY, 200))
    assert told(scheduler, until_s + 40 * DAY)[0]


@pytest.mark.parametrize("after", [None, 1])
def test_how_many_answers_retire(after: int | None) -> None:
    scheduler = known(retire_after=after)
    scheduler.observe(Outcome(URL, 1.0, 404))
    assert told(scheduler, 2.0)[0] == (after is None)


def test_least_interval() -> None:
    scheduler = known(min_revisit="1h")
    eligible, until_s, reasons = told(scheduler, HOUR / 2)
    assert (eligible, until_s) == (False, HOUR)
    words = "not until 1970-01-01 01:00:00 UTC, 30 min from now"
    assert reasons == [f"not eligible: it was visited less than its least interval ago: {words}"]
    assert told(scheduler, HOUR)[0]
    scheduler.discover(["https://a.example/new"], now=HOUR)
    assert told(scheduler, HOUR, "https://a.example/new")[0]
    scheduler.observe(Outcome(URL, HOUR, 503))  # a failed visit told nothing: only its own rest counts
    scheduler.set_rule(URL, Rule(min_revisit="3h"))
    assert told(scheduler, HOUR + 1)[1] == 3 * HOUR


def test_overdue() -> None:
    scheduler = known(max_revisit="1d")
    assert told(scheduler, DAY - 1) == (True, DAY - 1, [])
    assert told(scheduler, DAY) == (True, DAY, ["overdue since 1970-01-02 00:00:00 UTC: goes before others"])
    scheduler.block("a.example", 2 * DAY)
    haste = "overdue since 1970-01-02 00:00:00 UTC: goes before others, once it may be visited"
    assert told(scheduler, DAY)[2][1:] == [haste]


def test_asked_for_goes_before_its_waits_but_not_its_host() -> None:
    scheduler = known(min_revisit="1d")
    scheduler.observe([Outcome(URL, 1.0, 503)])
    assert not told(scheduler, 5.0)[0]
    assert scheduler.ask([URL, "https://a.example/new"], now=5.0) == 1
    assert told(scheduler, 5.0) == (True, 5.0, ["asked for: goes before others until its next outcome"])
    assert told(scheduler, 5.0, "https://a.example/new")[2] == ["asked for: goes before others until its next outcome"]
    scheduler.block("a.example", 60.0)
    asked = "asked for: goes before others until its next outcome"
    blocked = "not eligible: a.example rests until 1970-01-01 00:01:00 UTC, 55 s from now, as it was blocked"
    assert told(scheduler, 5.0) == (False, 60.0, [blocked, f"{asked}, once it may be visited"])
    scheduler.observe(Outcome(URL, 6.0))
    assert told(scheduler, 60.0)[:2] == (False, DAY + 6.0)


def test_host_rests_between_visits() -> None:
    scheduler = known(delay="10s")
    scheduler.observe(Outcome("https://a.example/3", 2.0))
    assert scheduler.next_batch(2, now=100.0, lease=20).urls == [URL, OTHER]
    eligible, until_s, reasons = told(scheduler, 110.0, "https://a.example/3")
    assert (eligible, until_s) == (False, 120.0)
    words = "10 s from now, for the delay between two visits"
    assert reasons == [f"not eligible: a.example rests until 1970-01-01 00:02:00 UTC, {words}"]
    scheduler.set_rule("a.example", HostRule(delay=0))
    assert told(scheduler, 120.0) == (True, 120.0, [])
    scheduler.next_batch(3, now=120.0, lease=5)
    assert told(scheduler, 125.0) == (True, 125.0, [])


def test_host_that_is_busy() -> None:
    """429 without a word of how long: an hour, then two; answers from before the end of it are part of it."""
    scheduler = known()
    scheduler.observe([Outcome(URL, 10.0, 429), Outcome(OTHER, 11.0, 429), Outcome("https://a.example/3", 12.0)])
    eligible, until_s, reasons = told(scheduler, 20.0, "https://a.example/3")
    assert (eligible, until_s) == (False, HOUR + 10.0)
    words = "not eligible: a.example rests until 1970-01-01 01:00:10 UTC, 59.8 min from now, for it answered 429"
    assert reasons == [words]
    scheduler.observe(Outcome("https://a.example/3", HOUR + 10.0, 429))
    assert told(scheduler, 2 * HOUR, URL)[1] == 3 * HOUR + 10.0
    scheduler.observe([Outcome(URL, 9 * HOUR), Outcome(URL, 10 * HOUR, 429)])
    assert told(scheduler, 10 * HOUR, OTHER)[1] == 11 * HOUR


@pytest.mark.parametrize("status", [429, 503])
def test_host_that_says_how_long(status: int) -> None:
    scheduler = known(backoff=0)
    scheduler.observe([Outcome(URL, 10.0, status, retry_after=90.0), Outcome(OTHER, 11.0, status, retry_after=30.0)])
    words = "not eligible: a.example rests until 1970-01-01 00:01:40 UTC, 1 min from now, as its Retry-After asked"
    assert told(scheduler, 40.0) == (False, 100.0, [words])
    scheduler.observe(Outcome(URL, 12.0, 200, retry_after=1e6))  # nothing that a success could ask for
    assert told(scheduler, 100.0) == (True, 100.0, [])


def test_host_has_enough_pages_out() -> None:
    scheduler = known(in_flight=2)
    scheduler.observe(Outcome("https://a.example/3", 2.0))
    taken = scheduler.next_batch(2, now=10.0, lease=60).urls
    assert taken == [URL, OTHER]
    full = "not eligible: its host has 2 pages out and may have 2"
    assert told(scheduler, 11.0, "https://a.example/3") == (False, None, [full])
    leased = "not eligible: handed out until 1970-01-01 00:01:10 UTC, 59 s from now"
    assert told(scheduler, 11.0) == (False, None, [leased, full])
    scheduler.release([OTHER])
    assert told(scheduler, 11.0, "https://a.example/3")[0]
    scheduler.set_rule("a.example", HostRule(in_flight=1))
    assert told(scheduler, 11.0, "https://a.example/3")[2] == ["not eligible: its host has 1 page out and may have 1"]
    assert scheduler.next_batch(0, now=70.0).urls == []  # its clock is the one by which leases run out
    assert told(scheduler, 70.0, "https://a.example/3")[0]


def test_several_reasons_end_with_the_last() -> None:
    scheduler = known()
    assert scheduler.next_batch(1, now=20.0, lease="1d").urls == [URL]
    scheduler.observe(Outcome(OTHER, 21.0, 429))
    scheduler.set_rule(URL, Rule(min_revisit="2h"))
    eligible, until_s, reasons = told(scheduler, 30.0)
    assert (eligible, until_s) == (False, DAY + 20.0)
    starts = ("handed out until", "a.example rests until", "it was visited less than")
    assert len(reasons) == 3
    assert all(reason.startswith(f"not eligible: {start}") for reason, start in zip(reasons, starts, strict=True))
