"""What can be read of a scheduler: pages, hosts, the list of hosts, and tie keys."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from streamsched import HostRule, Outcome, Politeness, Rule, Scheduler, SettingsError, UnknownPage
from streamsched.api.views import HostLimits, HostView, PageLimits, PageView, RulesView
from streamsched.outcomes import StatusWord
from streamsched.reasons import ReasonCode

NOW = 10_000.0
URL = "https://a.example/1"


def page_of(scheduler: Scheduler, url: str = URL, now: float = NOW) -> PageView:
    view = scheduler.page(url, now=now)
    assert view is not None
    return view


def host_of(scheduler: Scheduler, name: str = "a.example", now: float = NOW) -> HostView:
    view = scheduler.host(name, now=now)
    assert view is not None
    return view


def test_unknown_pages_and_hosts_are_none() -> None:
    scheduler = Scheduler()
    assert scheduler.page(URL, now=NOW) is None
    assert scheduler.host("a.example", now=NOW) is None
    assert scheduler.hosts(now=NOW).hosts == ()
    assert scheduler.count() == 0


def test_a_page_that_was_never_visited() -> None:
    scheduler = Scheduler()
    scheduler.discover([URL], now=5.0, importance=2.0)
    view = page_of(scheduler)
    assert (view.url, view.host, view.pattern, view.importance) == (URL, "a.example", "a.example", 2.0)
    assert (view.known_since_s, view.last_visit_s, view.last_outcome_s) == (5.0, None, None)
    assert (view.held_back, view.eligible_from_s, view.lease_until_s) == (None, NOW, None)
    assert view.rate > 0.0
    with pytest.raises(AttributeError):
        view.visits = 3  # type: ignore[misc]


def test_a_visited_page() -> None:
    scheduler = Scheduler(politeness=Politeness(min_revisit=500.0, backoff=0.0))
    scheduler.observe([Outcome(URL, NOW - 300.0, 200), Outcome(URL, NOW - 200.0, 200, changed=True)])
    scheduler.observe([Outcome(URL, NOW - 100.0, 500)])
    view = page_of(scheduler)
    assert (view.visits, view.changes, view.failures, view.succeeded) == (1, 1, 1, True)
    assert (view.last_visit_s, view.last_outcome_s) == (NOW - 200.0, NOW - 100.0)
    assert (view.held_back, view.eligible_from_s) == (ReasonCode.BELOW_MIN_REVISIT, NOW + 300.0)
    assert view.eligible_from_s == scheduler.explain(URL, now=NOW).eligible_from_s
    content = json.loads(json.dumps(view.as_dict()))
    assert content["held_back"] == "below_min_revisit"
    assert content["reasons"][0]["fields"]["until_s"] == NOW + 300.0


def test_a_leased_page_and_one_asked_for() -> None:
    scheduler = Scheduler()
    scheduler.discover([URL], now=0.0)
    scheduler.next_batch(1, now=NOW, lease=60.0)
    assert (page_of(scheduler).lease_until_s, page_of(scheduler).held_back) == (NOW + 60.0, ReasonCode.LEASED)
    assert page_of(scheduler, now=NOW + 60.0).lease_until_s is None
    scheduler.release([URL])
    scheduler.ask([URL], now=NOW)
    view = page_of(scheduler)
    assert (view.asked_for, view.held_back, view.reasons[0].code) == (True, None, ReasonCode.ASKED_FOR)


def test_a_page_that_is_never_visited() -> None:
    scheduler = Scheduler()
    scheduler.discover([URL, "https://a.example/2"], now=0.0)
    scheduler.set_rule("a.example", Rule(never=True))
    scheduler.observe([Outcome("https://b.example/", 1.0, "robots_denied")])
    assert (page_of(scheduler).held_back, page_of(scheduler).eligible_from_s) == (ReasonCode.NEVER_BY_RULE, None)
    denied = page_of(scheduler, "https://b.example/")
    assert (denied.robots_denied, denied.held_back) == (True, ReasonCode.ROBOTS_DENIED)


def test_the_limits_of_a_host() -> None:
    scheduler = Scheduler(politeness=Politeness(delay=2.0, in_flight=5, per_batch=4))
    scheduler.discover([f"https://a.example/{i}" for i in range(6)], now=0.0)
    view = host_of(scheduler, "A.example")
    assert (view.pages, view.patterns, view.leased, view.rule) == (6, 0, 0, None)
    assert (view.delay_s, view.in_flight, view.per_batch) == (2.0, 5, 4)
    assert (view.held_back, view.eligible_from_s, view.cause) == (None, NOW, None)
    scheduler.set_rule("a.example", HostRule(delay=0.0, in_flight=2))
    view = host_of(scheduler)
    assert view.rule == HostLimits(delay=0.0, in_flight=2)
    assert (view.delay_s, view.in_flight, view.per_batch) == (0.0, 2, 4)
    assert json.loads(json.dumps(view.as_dict()))["rule"]["in_flight"] == 2


def test_rules_are_read_by_target_in_the_order_set() -> None:
    scheduler = Scheduler()
    assert scheduler.rules == RulesView(hosts={}, pages={})
    scheduler.set_rules({"A.example": HostRule(delay="2s"), "b.example": HostRule(), "a.example/*": Rule(never=True)})
    before = scheduler.rules
    assert before.hosts == {"a.example": HostLimits(delay=2.0), "b.example": HostLimits()}
    assert before.pages == {"a.example/*": PageLimits(never=True)}
    scheduler.set_rules({"a.example": Rule(max_revisit="1d"), "a.example/*": Rule(min_revisit=0)})
    assert list(scheduler.rules.pages.items()) == [
        ("a.example", PageLimits(max_revisit=86_400.0)),
        ("a.example/*", PageLimits(min_revisit=0.0)),
    ]
    assert scheduler.rules.hosts == before.hosts
    again = Scheduler()
    again.set_rules({target: HostRule(**structs.asdict(rule)) for target, rule in scheduler.rules.hosts.items()})
    again.set_rules({target: Rule(**structs.asdict(rule)) for target, rule in scheduler.rules.pages.items()})
    assert again.rules == scheduler.rules


def test_what_holds_a_host_back() -> None:
    scheduler = Scheduler(politeness=Politeness(backoff=100.0, host_backoff_429=1, in_flight=2))
    scheduler.discover([f"https://a.example/{i}" for i in range(6)], now=0.0)
    scheduler.next_batch(2, now=NOW, lease=60.0)
    full = host_of(scheduler)
    assert (full.leased, full.held_back, full.eligible_from_s) == (2, ReasonCode.HOST_FULL, None)
    assert (host_of(scheduler, now=NOW + 60.0).leased, host_of(scheduler, now=NOW + 60.0).held_back) == (0, None)
    assert host_of(scheduler).leased == 2  # looking into the future changes nothing
    scheduler.release([f"https://a.example/{i}" for i in range(6)])
    scheduler.block("a.example", NOW + 50.0)
    blocked = host_of(scheduler)
    assert (blocked.held_back, blocked.cause, blocked.eligible_from_s) == (
        ReasonCode.HOST_RESTING,
        "blocked",
        NOW + 50.0,
    )
    scheduler.observe([Outcome(URL, NOW + 60.0, 429)])
    resting = host_of(scheduler, now=NOW + 61.0)
    assert (resting.held_back, resting.cause) == (ReasonCode.HOST_RESTING, "too_many_requests")
    assert (resting.resting_until_s, resting.refusal, resting.refusals, resting.backoffs) == (NOW + 160.0, 429, 1, 1)
    (probe,) = scheduler.next_batch(5, now=NOW + 160.0, lease=30.0).urls
    probing = host_of(scheduler, now=NOW + 161.0)
    assert (probing.held_back, probing.probe, probing.eligible_from_s) == (
        ReasonCode.HOST_PROBING,
        probe,
        NOW + 190.0,
    )


def test_hosts_in_parts_are_all_hosts_once() -> None:
    scheduler = Scheduler()
    scheduler.discover(
        [f"https://h{host}.example/{directory}/{i}" for i in range(20) for host in range(7) for directory in "ab"],
        now=0.0,
    )
    assert scheduler.core.pages.arrays.corpus["groups"][0] > 14  # patterns lie between hosts
    for size in (1, 2, 3, 7, 100, 10**30):
        part = scheduler.hosts(size=size, now=NOW)
        found = [view.host for view in part.hosts]
        while part.next is not None:
            assert len(part.hosts) == size
            part = scheduler.hosts(part.next, size, now=NOW)
            found += [view.host for view in part.hosts]
        assert found == [f"h{host}.example" for host in range(7)]
    part = scheduler.hosts("h3.example", 2, now=NOW)
    assert [view.host for view in part.hosts] == ["h3.example", "h4.example"]
    assert part.hosts[0] == host_of(scheduler, "h3.example")
    assert scheduler.hosts(10**6, now=NOW).next is None


FAILURES: tuple[int | StatusWord, ...] = (0, 403, 404, 410, 429, 500, "robots_denied")


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3), st.sampled_from((200, 304, *FAILURES))), max_size=40))
def test_hosts_by_their_failing_pages(found: list[tuple[int, int, int | StatusWord]]) -> None:
    scheduler, last = Scheduler(), dict[tuple[int, int], bool]()
    for second, (host, page, status) in enumerate(found):
        scheduler.observe([Outcome(f"https://h{host}.example/{page}", NOW + second, status=status)])
        last[host, page] = status in FAILURES
    scheduler.forget(["https://h0.example/0"])
    last.pop((0, 0), None)
    failing = Counter(f"h{host}.example" for (host, _), fails in last.items() if fails)
    known = [host.host for host in scheduler.hosts(now=NOW).hosts]
    expected = sorted(failing.items(), key=lambda item: (-item[1], known.index(item[0])))
    part = scheduler.hosts(0, 2, now=NOW, order="failing")
    parts = [*part.hosts]
    while part.next is not None:
        part = scheduler.hosts(part.next, 2, now=NOW, order="failing")
        parts += part.hosts
    assert [(host.host, host.failing) for host in parts] == expected


@pytest.mark.parametrize(
    ("start", "order"), [(0, "rows"), (0, None), (0, []), ("h0.example", "failing"), (-1, "failing")]
)
def test_orders_of_hosts(start: Any, order: Any) -> None:
    with pytest.raises(SettingsError) as caught:
        Scheduler().hosts(start, now=NOW, order=order)
    assert caught.value.setting == ("start" if order == "failing" else "order")


@pytest.mark.parametrize("start", ["nowhere.example", "*.example", -1])
def test_hosts_start_at_a_host(start: object) -> None:
    with pytest.raises(SettingsError) as caught:
        Scheduler().hosts(start, now=NOW)  # type: ignore[arg-type]
    assert caught.value.setting == "start"


def test_tie_keys_order_equal_scores() -> None:
    scheduler = Scheduler(formula="1", new_share=0.0)
    urls = [f"https://a.example/{i}" for i in range(30)]
    scheduler.observe([Outcome(url, 1.0) for url in urls])
    keys = scheduler.tie_keys(urls, now=NOW)
    assert keys.dtype == np.uint64
    assert scheduler.rank(30, now=NOW).urls == [urls[i] for i in np.argsort(keys)]
    assert not np.array_equal(keys, scheduler.tie_keys(urls, now=NOW + 86_400.0))
    assert scheduler.tie_keys(urls[3:5], now=NOW).tolist() == keys[3:5].tolist()
    with pytest.raises(UnknownPage):
        scheduler.tie_keys(["https://b.example/"], now=NOW)


def test_reading_changes_nothing() -> None:
    scheduler = Scheduler(politeness=Politeness(delay=1.0))
    scheduler.discover([f"https://a.example/{i}" for i in range(9)], now=0.0)
    scheduler.next_batch(3, now=NOW, lease=5.0)
    digest = scheduler.digest()
    page_of(scheduler, now=NOW + 99.0)
    host_of(scheduler, now=NOW + 99.0)
    scheduler.hosts(now=NOW + 99.0)
    assert scheduler.digest() == digest
    assert scheduler.core.pages.faults() == []
