"""Politeness is its slow twin: what pages and hosts wait for, which leases are out, and which rule a page goes by."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsched import Outcome, OutcomeBatch, Scheduler
from streamsched.numerics.arrays import Floats, Ints, Record
from streamsched.numerics.jit import bare_kernel
from streamsched.numerics.packed_urls import PackedUrls
from streamsched.politeness.eligibility import are_eligible, are_leased, read_waits
from streamsched.politeness.leases import Leases
from streamsched.politeness.limits import Limits, host_capacity
from streamsched.politeness.politeness_settings import HostRule, Politeness, Rule
from streamsched.politeness.rule_targets import fits
from streamsched.records.schema import ShardArrays
from streamsched.records.url_patterns import find_host
from streamsched.state.page_table import PageTable
from tests.reference import politeness as reference_politeness
from tests.reference import shard
from tests.support.cases import examples
from tests.support.guarded_memory import fenced
from tests.support.outcome_streams import DAY, cut, streams

pytestmark = pytest.mark.usefixtures("small_tables")


lengths = st.sampled_from([0.0, 1.0, 3_600.0, 1e5, 3e6])
some_counts = st.none() | st.integers(1, 4)


def shorten_backoff(backoff: float, backoff_most: float, **others: Any) -> Politeness:
    return Politeness(backoff=min(backoff, backoff_most), backoff_most=backoff_most, **others)


politeness = st.builds(
    shorten_backoff,
    delay=lengths,
    in_flight=some_counts,
    per_batch=some_counts,
    backoff=lengths,
    backoff_most=st.sampled_from([1.0, 1e4, 1e6]),
    retire_after=st.none() | st.sampled_from([1, 3, 255]),
    probe_every=st.sampled_from([1.0, 3e6]),
    min_revisit=st.sampled_from([0.0, 3_600.0]),
    max_revisit=st.none() | st.sampled_from([3_600.0, 1e6]),
    retry_after_most=st.sampled_from([1.0, 86_400.0, 1e9]),
    clock_skew=st.sampled_from([0.0, 10.0, 86_400.0]),
    host_backoff_429=st.sampled_from([None, 1, 1, 2]),
    host_backoff_503=st.sampled_from([None, 1, 2, 3]),
)
rules = st.sampled_from(
    [Rule(), Rule(never=True), Rule(min_revisit=2 * DAY), Rule(max_revisit=DAY), Rule(min_revisit=0, max_revisit=1)]
)
host_rules = st.builds(HostRule, delay=st.none() | lengths, in_flight=some_counts, per_batch=some_counts)
sizes = st.lists(st.sampled_from([1, 7, 1000]), min_size=1, max_size=3)


def near(expected: object) -> object:
    return pytest.approx(expected, rel=1e-9, nan_ok=True)


@bare_kernel
def read_rooms(shard: ShardArrays, rows: Ints, limits: Limits, now: float, lease_s: float, rooms: Floats) -> None:
    for i in range(rows.size):
        page: Record = shard.pages.records[rows[i]]
        group: Record = shard.groups.records[page.group]
        rooms[i] = host_capacity(shard.groups.records[group.host], limits, now, lease_s)


class Both:
    """A scheduler and its twins, which get the same calls."""

    def __init__(self, politeness: Politeness) -> None:
        self.politeness = politeness
        self.scheduler = Scheduler(politeness=politeness, max_ahead=None)
        self.shard = shard.Shard(DAY, clock_skew_s=float(politeness.clock_skew))
        self.hosts: dict[str, reference_politeness.Host] = {}
        self.leases = reference_politeness.Leases()
        self.rules: dict[str, Rule] = {}
        self.host_rules: dict[str, HostRule] = {}
        self.urgent: set[str] = set()

    def host(self, url: str) -> reference_politeness.Host:
        name = shard.names_of(url)[0]
        host = self.hosts.setdefault(name, reference_politeness.Host(self.politeness))
        host.rule = self.host_rules.get(name, HostRule())
        host.out = {url for url in self.leases.until_s if shard.names_of(url)[0] == name}
        return host

    def observe(self, outcomes: list[Outcome]) -> None:
        self.scheduler.observe(OutcomeBatch.from_outcomes(outcomes))
        for outcome in outcomes:
            answers, newest_s = self.shard.answers(outcome), self.shard.newest_s
            if self.shard.observe(outcome) not in ("duplicate", "late"):
                self.host(outcome.url).apply(outcome, answers=answers, newest_s=newest_s)
                if answers and outcome.status != "not_attempted":
                    self.urgent.discard(outcome.url)
                if answers:
                    self.leases.until_s.pop(outcome.url, None)

    def set_rule(self, target: str, rule: Rule | HostRule) -> None:
        self.scheduler.set_rule(target, rule)
        if isinstance(rule, HostRule):
            self.host_rules[target] = rule
        else:
            self.rules.pop(target, None)
            self.rules[target] = rule

    def release(self, url: str) -> None:
        self.scheduler.release([url])
        self.leases.until_s.pop(url, None)
        self.shard.pages[url].lease_until_s = None
        self.host(url).release(url)

    def hand_out(self, k: int, now: float, lease_s: float) -> None:
        self.leases.expire(now)
        batch = self.scheduler.next_batch(k, now=now, lease=lease_s)
        for url in batch.urls:
            self.host(url).lease([url], now, now + lease_s)
            self.leases.until_s[url] = now + lease_s
            self.shard.pages[url].lease(now, now + lease_s)

    def check(self, now: float) -> None:
        shard, limits = self.scheduler.core.pages.arrays, self.scheduler.core.politeness_policy.limits
        assert self.scheduler.core.pages.faults() == []
        rows = np.arange(len(self.scheduler))
        waits = read_waits(shard, rows, limits)
        rooms = np.empty(rows.size)
        read_rooms(shard, rows, limits, now, 600.0, rooms)
        eligible = are_eligible(shard, rows, now, limits)
        leased = are_leased(shard, rows, now)
        urls = list(self.shard.pages)
        for row, page in enumerate(self.shard.pages.values()):
            rule = reference_politeness.rule_of(page.url, self.rules)
            host, urgent = self.host(page.url), page.url in self.urgent
            retry_s = host.retry_s.get(page.url, -np.inf)
            ready = reference_politeness.ready_at(page, rule, self.politeness, urgent=urgent, retry_s=retry_s)
            assert waits.ready_at[row] == near(ready)
            overdue = reference_politeness.overdue_at(page, rule, self.politeness, urgent=urgent)
            assert waits.overdue_at[row] == near(overdue)
            record = shard.groups.records[shard.groups.records["host"][shard.pages.records["group"][row]]]
            assert float(record["ready_s"]) == near(host.ready_s)
            assert (record["backoffs"], record["refusals"]) == (host.backoffs, host.refusals)
            assert int(record["probe"]) == (0 if host.probe is None else 1 + urls.index(host.probe))
            assert int(record["out"]) == len(host.out)
            assert rooms[row] == min(host.capacity(now, 600.0), 1 << 62)
            assert eligible[row] == (waits.ready_at[row] <= now and rooms[row] > 0 and not leased[row])


targets = st.sampled_from(
    [
        "a.example",
        "*.example",
        "*",
        "b.example",
        "a.example/docs/*",
        "a.example/docs/api/*",
        "https://*/docs/*1",
        "*/*?page=*",
        "http://a.example/blog/*",
        "b.example/1",
        "https://a.example/docs/3",
        "a.example/docs/3",
        "http://a.example:8080/docs/2",
    ]
)


@examples(ordinary=3, whole=10)
@given(streams(), sizes, politeness, st.data())
def test_whatever_comes_pages_and_hosts_wait_as_their_twins_do(
    outcomes: list[Outcome], sizes: list[int], politeness: Politeness, data: st.DataObject
) -> None:
    with fenced():
        both, now = Both(politeness), 0.0
        for part in cut(outcomes, sizes):
            for target, rule in data.draw(st.dictionaries(targets, rules, max_size=3)).items():
                both.set_rule(target, rule)
            if data.draw(st.booleans()):
                both.set_rule(data.draw(st.sampled_from(["a.example", "b.example"])), data.draw(host_rules))
            both.observe(part)
            now += data.draw(st.sampled_from([0.0, 5.0, 3_600.0, 30 * DAY]))
            both.hand_out(data.draw(st.integers(0, 5)), now, data.draw(st.sampled_from([1.0, 600.0, 2 * DAY])))
            if data.draw(st.booleans()):
                url = data.draw(st.sampled_from(list(both.shard.pages)))
                both.scheduler.ask([url], now=now)
                both.urgent.add(url)
            if data.draw(st.booleans()):
                both.release(data.draw(st.sampled_from(list(both.shard.pages))))
            both.check(now)


@examples(ordinary=30, whole=100)
@given(st.text("ab*", max_size=8), st.text("ab*/", max_size=12))
def test_globs_are_regular_expressions(glob: str, text: str) -> None:
    blob = np.frombuffer(b"*" + text.encode() + b"a", np.uint8).copy()
    expected = reference_politeness.fits(text.encode(), glob.encode())
    assert fits(blob, 1, 1 + len(text), np.array(list(glob.encode()), np.uint8)) == expected


hosts_of_urls = ["a.example", "A.example", "b.example:81", "x.b.example", "user@a.example", "ä.example", ""]
urls = st.builds(
    "{}{}{}".format,
    st.sampled_from(["", "https://", "http://", "HTTPS://", "ftp://"]),
    st.sampled_from(hosts_of_urls),
    st.text("/ab?#:é", max_size=4),
).filter(bool)
wild = st.builds(
    "{}{}{}".format,
    st.sampled_from(["", "", "https://", "http://"]),
    st.sampled_from(["a.example", "A.Example", "*", "*.example", "b.example:81", "*b*", "ä.example"]),
    st.sampled_from(["", "", "/*", "/a*", "*", "/a", "/", "?*", "/*b", "/é*"]),
)


@examples(ordinary=15, whole=50)
@given(st.lists(urls, min_size=1, max_size=8, unique=True), st.lists(st.tuples(wild, rules), max_size=5), st.data())
def test_a_page_goes_by_the_rule_of_its_twin(
    urls: list[str], rules: list[tuple[str, Rule]], data: st.DataObject
) -> None:
    """Whether the rules were there before it or came one by one; and after some were taken back."""
    scheduler = Scheduler(schemes=None)
    known: dict[str, Rule] = {}
    first = data.draw(st.integers(0, len(urls)))
    scheduler.discover(urls[:first], now=0.0)
    for target, rule in rules:
        taken_back = data.draw(st.integers(0, 4)) == 0
        scheduler.set_rule(target, None if taken_back else rule)
        known.pop(reference_politeness.key_of(target), None)
        if not taken_back:
            known[reference_politeness.key_of(target)] = rule
    scheduler.discover(urls[first:], now=0.0)
    numbers = scheduler.core.pages.arrays.pages.records["rule"][: len(urls)]
    result = scheduler.core.politeness_policy.limits.rules[numbers]
    expected = [reference_politeness.rule_of(url, known) for url in urls]
    assert result["never"].astype(bool).tolist() == [rule.never for rule in expected]
    assert result["min_revisit_s"].tolist() == [rule.min_revisit or 0.0 for rule in expected]
    assert result["max_revisit_s"].tolist() == [rule.max_revisit or np.inf for rule in expected]


moments = st.integers(0, 6).map(float)
acts: st.SearchStrategy[tuple[str, set[int], float]] = st.one_of(
    st.tuples(st.just("grant"), st.sets(st.integers(0, 5)), moments),
    st.tuples(st.just("report"), st.sets(st.integers(0, 5)), moments),
    st.tuples(st.just("release"), st.sets(st.integers(0, 5)), moments),
    st.tuples(st.just("expire"), st.just(set()), moments),
    st.tuples(st.just("rebuild"), st.just(set()), moments),
)


@examples(ordinary=15, whole=50)
@given(st.lists(acts, max_size=25))
def test_leases_run_out_in_time_and_once(acts: list[tuple[str, set[int], float]]) -> None:
    """Granted again or not, freed by outcomes or not, in whatever order; and hosts count what is out."""
    table = PageTable(DAY)
    urls = [f"https://{host}.example/{i}" for host in "ab" for i in range(3)]
    table.discover(PackedUrls.pack(urls), 0.0)
    leases, twin = Leases(), reference_politeness.Leases()
    for step, (act, numbers, until_s) in enumerate(acts):
        rows = np.array(sorted(numbers), np.int64)
        if act == "grant":
            leases.grant(table.arrays, rows, until_s - 1.0, until_s)
            twin.until_s |= {urls[number]: until_s for number in numbers}
        elif act == "report":
            table.observe(OutcomeBatch([urls[row] for row in rows], np.full(rows.size, 1e3 + step)))
        elif act == "release":
            leases.release(table.arrays, np.concatenate([rows, rows]))
        elif act == "rebuild":
            leases.rebuild(table.arrays)
        else:
            due = [twin.until_s[url] for url in twin.until_s if twin.until_s[url] <= until_s]
            rows = leases.expire(table.arrays, until_s)
            times = table.arrays.pages.lease_until_s[rows].tolist()
            assert times == sorted(due)
            assert sorted(urls[row] for row in rows) == sorted(twin.expire(until_s))
        if act in ("report", "release"):
            for number in numbers:
                twin.until_s.pop(urls[number], None)
        out = twin.out()
        for host in ("a.example", "b.example"):
            assert table.arrays.groups.records["out"][find_host(table.arrays.groups, host)] == out[host]
        assert leases.next_expiry() <= min(twin.until_s.values(), default=np.inf)
        assert table.faults() == []
