"""Offers and grants: what a batch would hold, without a lease; and leases of pages that the caller names."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamsched import (
    DurableScheduler,
    Granted,
    HostRule,
    KeyReusedError,
    Outcome,
    Politeness,
    Rule,
    SavePlan,
    Scheduler,
    SettingsError,
)
from streamsched.reasons import ReasonCode
from tests.support.handout import drawing

URLS = [f"https://{'abc'[i % 3]}.example/{i}" for i in range(30)]
NOW = 200_000.0
DAY = 86_400.0


def fill(scheduler: Scheduler) -> None:
    scheduler.observe([Outcome(url, 1.0 + i, importance=float(i % 5 + 1)) for i, url in enumerate(URLS[:24])])
    scheduler.discover(URLS[24:], now=NOW - 50.0)


def plain(granted: Granted) -> tuple[object, ...]:
    batch = granted.batch
    columns = (batch.urls, batch.scores.tolist(), batch.tiers.tolist(), batch.probabilities.tolist())
    return (*columns, batch.reasons, batch.hosts, batch.now, batch.lease_until_s, batch.panel, dict(granted.refused))


def test_an_offer_is_the_next_batch_and_changes_nothing() -> None:
    scheduler = drawing(0.2, Scheduler(panel=0.2, new_share=0.2, politeness=Politeness(delay=30.0)))
    fill(scheduler)
    for number in range(4):
        now = NOW + number * DAY / 3
        digest = scheduler.digest()
        offered = scheduler.offer(7, now=now, lease=300.0, hosts=["a.example", "b.example"], per_host=3)
        assert scheduler.digest() == digest
        assert offered.lease_until_s is None
        batch = scheduler.next_batch(7, now=now, lease=300.0, hosts=["a.example", "b.example"], per_host=3)
        assert (offered.urls, offered.reasons, offered.panel) == (batch.urls, batch.reasons, batch.panel)
        assert offered.scores.tolist() == batch.scores.tolist()
        assert offered.probabilities.tolist() == batch.probabilities.tolist()
        others = batch.probabilities[batch.panel :].tolist()
        assert others == sorted(others, reverse=True)
        assert all(0.0 <= one <= 1.0 for one in batch.probabilities.tolist())


def test_an_offer_can_be_granted() -> None:
    scheduler = drawing(0.2, Scheduler(panel=0.3))
    fill(scheduler)
    scheduler.next_batch(20, now=NOW - DAY, lease=60.0)  # the panel is sized by the cycle before
    offered = scheduler.offer(8, now=NOW)
    granted = scheduler.grant(offered.urls, now=NOW, lease=60.0)
    assert set(granted.batch.urls) == set(offered.urls)
    assert granted.refused == {}
    assert granted.batch.panel == offered.panel > 0
    assert granted.batch.reasons[: offered.panel] == [ReasonCode.IN_BATCH_PANEL] * offered.panel
    assert set(granted.batch.reasons[offered.panel :]) == {ReasonCode.IN_BATCH_GRANTED}
    assert granted.batch.lease_until_s == NOW + 60.0
    assert granted.batch.scores.tolist() == scheduler.score(granted.batch.urls, now=NOW).tolist()
    offered_probabilities = dict(zip(offered.urls, offered.probabilities.tolist(), strict=True))
    assert granted.batch.probabilities.tolist() == [offered_probabilities[url] for url in granted.batch.urls]
    assert set(scheduler.next_batch(100, now=NOW).urls).isdisjoint(offered.urls)


def test_offers_that_are_granted_explore_other_pages_each_time() -> None:
    scheduler = drawing(0.25, Scheduler(formula="importance", new_share=0.0))
    fill(scheduler)
    drawn: set[str] = set()
    for number in range(12):
        offered = scheduler.offer(4, now=NOW + number)
        drawn |= {
            url
            for url, reason in zip(offered.urls, offered.reasons, strict=True)
            if reason == ReasonCode.IN_BATCH_EXPLORATION
        }
        granted = scheduler.grant(offered.urls, now=NOW + number)
        scheduler.release(granted.batch.urls)
    assert len(drawn) > 4


def test_refused_pages_are_named_with_the_reason() -> None:
    scheduler = Scheduler(politeness=Politeness(in_flight=3, min_revisit=100.0, backoff="1h"))
    fill(scheduler)
    leased, asked, never, recent, failed, denied = URLS[0], URLS[3], URLS[1], URLS[4], URLS[7], URLS[10]
    scheduler.grant([leased], now=NOW)
    scheduler.set_rule(never, Rule(never=True))
    scheduler.observe(
        [Outcome(recent, NOW - 1.0), Outcome(failed, NOW - 1.0, 500), Outcome(denied, NOW - 1.0, "robots_denied")]
    )
    scheduler.ask([asked], now=NOW)
    scheduler.block("c.example", NOW + 9.0)
    named = [leased, asked, never, recent, failed, denied, URLS[2], "https://d.example/", asked, *URLS[6:20:3], ""]
    granted = scheduler.grant(named, now=NOW + 1.0)
    assert granted.batch.urls == [asked, URLS[6]]  # a.example has one page in flight and may have three
    assert granted.refused == {
        leased: ReasonCode.LEASED,
        never: ReasonCode.NEVER_BY_RULE,
        recent: ReasonCode.BELOW_MIN_REVISIT,
        failed: ReasonCode.BACKING_OFF,
        denied: ReasonCode.ROBOTS_DENIED,
        URLS[2]: ReasonCode.HOST_RESTING,
        "https://d.example/": ReasonCode.UNKNOWN,
        URLS[9]: ReasonCode.HOST_SHARE_USED,
        URLS[12]: ReasonCode.HOST_SHARE_USED,
        URLS[15]: ReasonCode.HOST_SHARE_USED,
        URLS[18]: ReasonCode.HOST_SHARE_USED,
        "": ReasonCode.UNKNOWN,
    }
    assert granted.batch.tiers.tolist() == [2, 0]
    assert scheduler.grant([URLS[9]], now=NOW + 1.0).refused == {URLS[9]: ReasonCode.HOST_FULL}


def test_the_limits_of_a_batch_hold_for_a_grant() -> None:
    scheduler = Scheduler(politeness=Politeness(per_batch=2))
    fill(scheduler)
    scheduler.set_rule("b.example", HostRule(delay=60.0))
    granted = scheduler.grant([*URLS[0:12:3], *URLS[1:12:3]], now=NOW, lease=90.0)
    assert granted.batch.hosts == ["a.example", "a.example", "b.example"]
    assert scheduler.grant([URLS[4]], now=NOW + 30.0).refused == {URLS[4]: ReasonCode.HOST_RESTING}


def test_a_grant_of_nothing() -> None:
    scheduler = Scheduler()
    granted = scheduler.grant([], now=NOW)
    assert (granted.batch.urls, granted.refused) == ([], {})
    assert scheduler.grant(URLS[:2], now=NOW).refused == dict.fromkeys(URLS[:2], ReasonCode.UNKNOWN)


def test_a_grant_with_a_key_is_repeated_after_a_crash(tmp_path: Path) -> None:
    named = [*URLS[:5], "https://unknown.example/"]
    with DurableScheduler.open(tmp_path, {"panel": 0.3}, plan=SavePlan(every=1e9)) as scheduler:
        fill(scheduler)
        first = scheduler.grant(named, now=NOW, lease="1h", key="k")
        digest = scheduler.digest()
        scheduler.close(save=False)
    for save in (True, False):
        with DurableScheduler.open(tmp_path, plan=SavePlan(every=1e9)) as scheduler:
            assert scheduler.digest() == digest
            again = scheduler.grant(named, now=NOW + 60.0, lease="1h", key="k")
            assert plain(again) == plain(first)
            assert (first.batch.repeated, again.batch.repeated) == (False, True)
            for other in (named[1:], named[::-1], [*named, ""]):
                with pytest.raises(KeyReusedError):
                    scheduler.grant(other, now=NOW + 60.0, lease="1h", key="k")
            with pytest.raises(KeyReusedError):
                scheduler.next_batch(6, now=NOW + 60.0, lease="1h", key="k")
            assert scheduler.digest() == digest
            scheduler.close(save=save)


def test_an_offer_has_no_key_and_takes_hosts_of_a_sequence() -> None:
    with pytest.raises(TypeError, match="hosts"):
        Scheduler().offer(1, now=NOW, hosts="a.example")
    with pytest.raises(SettingsError, match="hosts"):
        Scheduler().offer(1, now=NOW, hosts=["https://a.example/"])
