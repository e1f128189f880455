"""What one scheduler keeps to: settings and rules in one place, grants, wishes and blocks, and all of it kept."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from streamsched import Politeness, Rule, SettingsError
from streamsched.numerics.packed_urls import PackedUrls
from streamsched.outcomes import OutcomeBatch
from streamsched.politeness.eligibility import are_leased
from streamsched.politeness.limits import FOR_DELAY, FOR_TOO_MANY, ON_REQUEST
from streamsched.politeness.policy import PolitenessPolicy
from streamsched.politeness.politeness_settings import HostRule
from streamsched.records.page_schema import FOR_PANEL, OUT, URGENT
from streamsched.records.url_patterns import find_host
from streamsched.state.page_table import PageTable
from tests.support.cases import grouped

URLS = ["https://a.example/1", "https://b.example/2", "https://a.example/3", "https://x.b.example/4"]


@pytest.fixture(name="table")
def table_of_four_pages() -> PageTable:
    table = PageTable(86_400.0)
    table.discover(PackedUrls.pack(URLS), 0.0)
    return table


def host_of(table: PageTable, name: str) -> dict[str, float]:
    record = table.arrays.groups.records[find_host(table.arrays.groups, name)]
    return {field: float(record[field]) for field in ("ready_s", "out", "wait_reason", "delay_s")}


def test_settings_are_politeness_or_the_defaults() -> None:
    assert PolitenessPolicy().politeness == Politeness()
    for most, limit in ((5, 5), (None, 1 << 62)):
        assert PolitenessPolicy(Politeness(per_batch=most)).limits.per_batch == limit
    with pytest.raises(SettingsError, match="politeness"):
        PolitenessPolicy("polite")  # type: ignore[arg-type]


def test_a_grant_leases_counts_and_lets_hosts_rest(table: PageTable) -> None:
    politeness_policy = PolitenessPolicy(Politeness(delay=10))
    politeness_policy.grant(table.arrays, np.array([0, 2, 1]), 100.0, 700.0, panel=1)
    assert are_leased(table.arrays, np.arange(4), 699.0).tolist() == [True, True, True, False]
    assert (table.arrays.pages.records["flags"][:4] & FOR_PANEL).astype(bool).tolist() == [True, False, False, False]
    assert host_of(table, "a.example")["ready_s"] == 120.0
    assert (host_of(table, "a.example")["out"], host_of(table, "b.example")["out"]) == (2, 1)
    assert host_of(table, "b.example")["wait_reason"] == FOR_DELAY
    assert table.faults() == []


def test_a_wish_is_a_flag(table: PageTable) -> None:
    PolitenessPolicy.ask(table.arrays, np.array([1, 3]))
    assert (table.arrays.pages.records["flags"][:4] & URGENT).astype(bool).tolist() == [False, True, False, True]


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("b.example", ["b.example"]),
        ("*b.example", ["b.example", "x.b.example"]),
        ("*.b.example", ["x.b.example"]),
        ("c.example", []),
    ],
)
def test_blocked_hosts(table: PageTable, pattern: str, names: list[str]) -> None:
    assert PolitenessPolicy().block(table.arrays, pattern, 50.0)[0].size == len(names)
    for name in ("a.example", "b.example", "x.b.example"):
        blocked = name in names
        assert host_of(table, name)["ready_s"] == (50.0 if blocked else -math.inf)
        assert (host_of(table, name)["wait_reason"] == ON_REQUEST) == blocked


def test_a_block_takes_the_place_of_any_rest(table: PageTable) -> None:
    hosts, _ = PolitenessPolicy().block(table.arrays, "a.example", 1e9)
    table.arrays.groups.records["wait_reason"][hosts] = FOR_TOO_MANY
    PolitenessPolicy().block(table.arrays, "a.example", 5.0)
    assert (host_of(table, "a.example")["ready_s"], host_of(table, "a.example")["wait_reason"]) == (5.0, ON_REQUEST)


@grouped(
    ("until", "host"),
    {
        5.0: ["a.example/", "https://a.example", "", 7, "a .example", "a.example:443", "a.example:http"],
        math.nan: ["a.example"],
        math.inf: ["a.example"],
        "5": ["a.example"],
    },
)
def test_what_cannot_be_blocked(table: PageTable, host: str, until: float) -> None:
    before = table.arrays.groups.records[:4].tobytes()
    with pytest.raises(ValueError, match=r"host|target|until"):
        PolitenessPolicy().block(table.arrays, host, until)
    assert table.arrays.groups.records[:4].tobytes() == before


def test_hosts_to_come_are_blocked(table: PageTable) -> None:
    """By the last block that fits them; before and after the state was saved; hosts that are known as ever."""
    politeness_policy = PolitenessPolicy()
    politeness_policy.reach(table.arrays)
    politeness_policy.block(table.arrays, "*.other", 9.0)
    for host, until_s in (("Busy.example", 50.0), ("*.example", 70.0), ("free.example", 0.0)):
        politeness_policy.block(table.arrays, host, until_s)
    politeness_policy.forget(9.0)
    state = json.loads(json.dumps(politeness_policy.state()))
    assert [host for host, _ in state["blocks"]] == ["busy.example", "*.example", "free.example"]
    again = PolitenessPolicy.restored(state, table.arrays)
    assert again.state() == state
    names = ("busy.example", "free.example", "x.other", "y.example")
    table.discover(PackedUrls.pack([f"https://{name}/" for name in names]), 0.0)
    again.reach(table.arrays)
    assert [host_of(table, name)["ready_s"] for name in names] == [70.0, 0.0, -math.inf, 70.0]
    assert [host_of(table, name)["wait_reason"] for name in names] == [ON_REQUEST, ON_REQUEST, 0, ON_REQUEST]
    again.forget(70.0)
    assert again.state()["blocks"] == []


def test_a_pattern_that_has_expired_still_ends_earlier_blocks(table: PageTable) -> None:
    politeness_policy = PolitenessPolicy()
    politeness_policy.reach(table.arrays)
    for host, until_s in (("gone.example", 1.0), ("busy.example", 50.0), ("*.example", 5.0)):
        politeness_policy.block(table.arrays, host, until_s)
    politeness_policy.forget(9.0)
    assert [host for host, _ in politeness_policy.state()["blocks"]] == ["busy.example", "*.example"]
    table.discover(PackedUrls.pack(["https://busy.example/"]), 0.0)
    politeness_policy.reach(table.arrays)
    assert host_of(table, "busy.example")["ready_s"] == 5.0


def test_what_a_host_asks_for_when_it_appears_outlasts_its_block(table: PageTable) -> None:
    politeness_policy = PolitenessPolicy()
    politeness_policy.block(table.arrays, "new.example", 50.0)
    table.observe(OutcomeBatch(["https://new.example/"], [10.0], status=[429], retry_after=[90.0]))
    politeness_policy.reach(table.arrays)
    assert host_of(table, "new.example")["ready_s"] == 100.0
    politeness_policy.block(table.arrays, "new.example", 20.0)
    assert host_of(table, "new.example")["ready_s"] == 20.0
    assert politeness_policy.state()["blocks"] == []


def test_states_from_before_such_blocks_load(table: PageTable) -> None:
    state = PolitenessPolicy().state()
    del state["blocks"]
    assert PolitenessPolicy.restored(state, table.arrays).state()["blocks"] == []


def test_all_is_kept(table: PageTable) -> None:
    politeness_policy = PolitenessPolicy(Politeness(delay=3, in_flight=7, per_batch=2))
    rules = {"a.example": Rule(max_revisit="1d"), "b.example/*": Rule(never=True), "*.example": Rule(min_revisit="1h")}
    politeness_policy.set_rules(table, rules)
    politeness_policy.set_rules(table, {"b.example": HostRule(delay=9)})
    politeness_policy.grant(table.arrays, np.array([0, 1]), 0.0, 600.0)
    state = json.loads(json.dumps(politeness_policy.state()))
    again = PolitenessPolicy.restored(state, table.arrays)
    assert again.politeness == politeness_policy.politeness
    assert again.state() == politeness_policy.state()
    assert again.limits.rules.tobytes() == politeness_policy.limits.rules.tobytes()
    assert again.limits[:-1] == politeness_policy.limits[:-1]
    assert again.leases.next_expiry() == 600.0
    assert again.leases.expire(table.arrays, 600.0).tolist() == [0, 1]
    table.discover(PackedUrls.pack(["https://c.example/", "https://b.example/9"]), 0.0)
    again.reach(table.arrays)
    numbers = table.arrays.pages.records["rule"][: len(table)]
    assert numbers[5] == numbers[1] != numbers[4]
    assert not np.any(table.arrays.pages.records["flags"][: len(table)] & OUT)
