"""Host slots of a batch: pages that come first, then the best whose hosts have free slots."""

from __future__ import annotations

import numpy as np
import pytest

from streamsched import Outcome, OutcomeBatch, Scheduler
from streamsched.politeness.limits import make_limits
from streamsched.politeness.politeness_settings import HostRule, Politeness
from streamsched.ranking.full_scan import Query, Ranked, fill_slots
from streamsched.ranking.host_floors import HostFloors
from streamsched.ranking.host_slots import Candidates, HostSlots, SlotLimits
from streamsched.records.schema import ShardArrays
from streamsched.records.url_patterns import find_host
from tests.support.cases import grouped

HOSTS = ("a.example", "b.example", "c.example")


@pytest.fixture(name="scheduler")
def scheduler_of_twelve_pages() -> Scheduler:
    """Row i is on host i % 3, and the lower the better."""
    scheduler = Scheduler()
    urls = [f"https://{HOSTS[i % 3]}/{i}" for i in range(12)]
    scheduler.observe(OutcomeBatch(urls, np.full(12, 0.5), importance=12.0 - np.arange(12)))
    return scheduler


@pytest.fixture(name="shard")
def shard_of_twelve_pages(scheduler: Scheduler) -> ShardArrays:
    return scheduler.core.pages.arrays


def slot_limits(
    *, per_batch: int | None = None, delay: float = 0.0, now: float = 0.0, lease_s: float = 600.0
) -> SlotLimits:
    return SlotLimits(make_limits(Politeness(per_batch=per_batch, delay=delay)), now, lease_s)


def fill(host_slots: HostSlots, shard: ShardArrays, rows: list[int], k: int, given: SlotLimits) -> list[int]:
    candidates = Candidates(np.array(rows, np.int64), 12.0 - np.array(rows), np.zeros(len(rows), np.bool_))
    kept: list[int] = host_slots.fill(shard, given, candidates, k).tolist()
    return kept


def test_hosts_keep_their_first_pages(shard: ShardArrays) -> None:
    rows = [3, 0, 1, 6, 4, 2]
    assert fill(HostSlots(), shard, rows, 6, slot_limits(per_batch=2)) == [0, 1, 2, 4, 5]
    assert fill(HostSlots(), shard, rows, 6, slot_limits()) == [0, 1, 2, 3, 4, 5]
    assert fill(HostSlots(), shard, rows, 3, slot_limits(per_batch=1)) == [0, 2, 5]
    assert fill(HostSlots(), shard, rows, 2, slot_limits(per_batch=1)) == [0, 2]
    assert fill(HostSlots(), shard, rows, 0, slot_limits()) == fill(HostSlots(), shard, [], 3, slot_limits()) == []


def test_as_many_as_can_be_visited_within_the_lease(shard: ShardArrays) -> None:
    rows = list(range(12))
    assert fill(HostSlots(), shard, rows, 12, slot_limits(delay=300.0)) == [0, 1, 2, 3, 4, 5]
    assert fill(HostSlots(), shard, rows, 12, slot_limits(delay=300.5)) == [0, 1, 2]
    assert fill(HostSlots(), shard, rows, 12, slot_limits(delay=1e9)) == [0, 1, 2]


def test_hosts_that_rest_or_have_their_own_rules(scheduler: Scheduler) -> None:
    scheduler.block("b.example", 5.0)
    scheduler.set_rule("c.example", HostRule(per_batch=1))
    shard = scheduler.core.pages.arrays
    assert fill(HostSlots(), shard, list(range(6)), 6, slot_limits(now=np.nextafter(5.0, 0.0))) == [0, 2, 3]
    assert fill(HostSlots(), shard, list(range(6)), 6, slot_limits(now=5.0)) == [0, 1, 2, 3, 4]


def test_hosts_that_are_probed_give_one_page(scheduler: Scheduler) -> None:
    scheduler.observe(Outcome("https://b.example/1", 1.0, 429, retry_after=4.0))
    shard, rows = scheduler.core.pages.arrays, list(range(6))
    assert fill(HostSlots(), shard, rows, 6, slot_limits(now=np.nextafter(5.0, 0.0))) == [0, 2, 3, 5]
    assert fill(HostSlots(), shard, rows, 6, slot_limits(now=5.0)) == [0, 1, 2, 3, 5]
    scheduler.core.politeness_policy.grant(shard, np.array([4]), 5.0, 65.0)
    assert fill(HostSlots(), shard, rows, 6, slot_limits(now=np.nextafter(65.0, 0.0))) == [0, 2, 3, 5]
    assert fill(HostSlots(), shard, rows, 6, slot_limits(now=65.0)) == [0, 1, 2, 3, 5]
    scheduler.observe(Outcome("https://b.example/4", 6.0))
    assert fill(HostSlots(), shard, rows, 6, slot_limits(now=7.0)) == rows


def test_room_tells_who_is_seated_and_is_forgotten(shard: ShardArrays) -> None:
    host_slots = HostSlots()
    fill(host_slots, shard, [0, 3, 1, 6], 4, slot_limits(per_batch=2))
    hosts = [find_host(shard.groups, host) for host in HOSTS]
    assert host_slots.usage.used[hosts].tolist() == [2, 1, 0]
    assert host_slots.usage.least[hosts[:2]].tolist() == [9.0, 11.0]
    fill(host_slots, shard, [2], 4, slot_limits())
    assert host_slots.usage.used[hosts].tolist() == [0, 0, 1]
    host_slots.clear(shard)
    assert not host_slots.usage.used.any()
    host_slots.clear(shard)


def test_hosts_that_come_later_have_seats(scheduler: Scheduler) -> None:
    host_slots = HostSlots()
    host_slots.clear(scheduler.core.pages.arrays)
    scheduler.discover([f"https://h{i}.example/" for i in range(500)], now=0.0)
    rows = list(range(12, 512))
    assert fill(host_slots, scheduler.core.pages.arrays, rows, 500, slot_limits(per_batch=1)) == list(range(500))


@grouped(
    ("per_host", "k", "first", "rows"),
    {
        None: [(4, [], [0, 1, 2, 3]), (4, [9, 1], [9, 1, 0, 2]), (2, [9, 1], [9, 1]), (1, [9, 1], [9])],
        1: [(4, [9], [9, 1, 2]), (12, [9, 6], [9, 1, 2]), (0, [], [])],
        2: [(5, [9, 1], [9, 1, 0, 2, 4]), (12, [9, 6], [9, 6, 1, 2, 4, 5])],
    },
)
def test_first_then_best(shard: ShardArrays, k: int, per_host: int | None, first: list[int], rows: list[int]) -> None:
    limits = make_limits(Politeness(per_batch=per_host))
    query = Query(k, 0.0, 86_400.0, 7, limits, first=np.array(first, np.int64))
    best = Ranked(np.arange(12), np.arange(12.0, 0.0, -1.0), np.zeros(12, np.uint8))
    selected = fill_slots(HostSlots(), shard, query, best)
    assert selected.rows.tolist() == rows
    assert selected.scores.tolist() == [np.inf if row in first else 12.0 - row for row in rows]


def test_levels_below_every_single_are_no_floors() -> None:
    floors = HostFloors()
    floors.clear(2)
    hosts = np.repeat([0, 1], 200)
    levels = np.concatenate([np.full(200, -1e300), np.linspace(2.0, 1.0, 200)])
    floors.lift(hosts, hosts, levels, np.ones(2, np.int32))
    assert floors.hosts.tolist() == [1]
    assert floors.levels[0] == -np.inf
    assert 1.0 < floors.levels[1] < 2.0
