"""Bounds of blocks beside a slow twin: what is said of a block is what is said of its pages, one by one."""

from __future__ import annotations

import math
import mmap
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamsched import Outcome, OutcomeBatch, Politeness, Rule, Scheduler
from streamsched.formula import Formula
from streamsched.numerics.arrays import Ints
from streamsched.politeness.eligibility import read_waits
from streamsched.politeness.limits import Limits
from streamsched.ranking.block_bounds import (
    NODE_BLOCKS,
    BoundTable,
    Lanes,
    RankingArrays,
    list_above_bar,
    list_due,
    overdue_level,
    settle,
)
from streamsched.ranking.block_layout import BLOCK_ROWS, MIXED, BlockLayout
from streamsched.ranking.block_refresh import raise_bounds, refresh_blocks
from streamsched.ranking.block_scorer import LANES, bound_lanes, gather_lanes, make_block_scorer, score_lanes
from streamsched.ranking.bound_expiry import QueryTime
from streamsched.ranking.full_scan import FullScan
from streamsched.ranking.host_slots import HostSlots
from streamsched.ranking.invariants import InspectedRanking, find_false_bounds
from streamsched.records.page_schema import LEASED, OUT, VISITED
from streamsched.records.schema import ShardArrays
from streamsched.records.url_index import url_texts
from tests.support.guarded_memory import fenced, small_rankings, small_reserve
from tests.support.outcome_streams import DAY

NOW = 100 * DAY
PAGES = 600  # more than a node has
FORMULAS = ("posterior", "t * (3 - t) * importance", "importance", "pow(1e300, 2) * (importance - 1)", "NAD - t")


def make_lanes(blocks: int) -> Lanes:
    size = blocks * BLOCK_ROWS
    return Lanes(np.full(size, -7), np.empty(size), np.empty(size), np.empty(size), np.empty(blocks))


def crawled(seed: int) -> Scheduler:
    """Pages of all kinds: failed, gone, leased, overdue, never to be visited, of hosts that rest or are full."""
    rng = np.random.default_rng(seed)
    politeness = Politeness(in_flight=5, min_revisit="12h", max_revisit="9d", backoff="1d", per_batch=3)
    scheduler = Scheduler(politeness=politeness, new_share=0.0, seed=seed)
    urls = [f"https://h{int(host)}.example/{i}" for i, host in enumerate(rng.integers(0, 6, PAGES))]
    scheduler.discover(urls[:100], now=NOW - DAY)
    for days in (12.0, 3.0, 1.0):
        scheduler.observe(
            [
                Outcome(
                    url,
                    NOW - DAY * days * float(rng.uniform(0.3, 1.0)),
                    status=int(rng.choice([200, 200, 200, 404, 500])),
                    changed=bool(rng.random() < 0.5),
                    importance=float(rng.integers(0, 3)),
                )
                for url in urls[100:]
                if rng.random() < 0.7
            ]
        )
    scheduler.discover(urls, now=NOW)
    scheduler.set_rule("h0.example/*1", Rule(never=True))
    scheduler.block("h1.example", NOW + DAY / 2)
    scheduler.next_batch(12, now=NOW - 60.0, lease="1h")
    scheduler.next_batch(2, now=NOW - 60.0, lease="1m")
    scheduler.ask(urls[200:203], now=NOW)
    return scheduler


@dataclass
class Slow:
    """One block of a ranking, page by page."""

    ranking: RankingArrays
    query_time: QueryTime
    block: int

    def rows(self) -> list[int]:
        segment = self.block * BLOCK_ROWS >> self.ranking.order.bits << self.ranking.order.bits
        places = range(self.block * BLOCK_ROWS, min((self.block + 1) * BLOCK_ROWS, PAGES))
        return [segment + int(self.ranking.order.rows[place]) for place in places]

    def counts(self, row: int) -> bool:
        return (
            int(self.ranking.shard.pages.records["flags"][row]) & self.ranking.blocks.mask
        ) == self.ranking.blocks.want

    def rests_until(self, row: int) -> float:
        shard, flags = self.ranking.shard, int(self.ranking.shard.pages.records["flags"][row])
        waits = read_waits(shard, np.array([row]), self.query_time.limits)
        until = float(waits.ready_at[0])
        if self.ranking.order.hosts[self.block] == MIXED:  # else whoever lists blocks knows
            until = max(until, float(waits.host_ready_s[0]))
        if flags & LEASED and shard.pages.lease_until_s[row] > self.query_time.now:
            return math.inf if flags & OUT else max(until, float(shard.pages.lease_until_s[row]))
        return until

    def overdue_at(self, row: int) -> float:
        return float(read_waits(self.ranking.shard, np.array([row]), self.query_time.limits).overdue_at[0])

    def open_rows(self) -> list[int]:
        return [row for row in self.rows() if self.counts(row) and self.rests_until(row) <= self.query_time.now]

    def end(self) -> float:
        ends = [self.query_time.now + DAY * float(self.ranking.blocks.reach[self.block])] if self.open_rows() else []
        ends += [self.overdue_at(row) for row in self.open_rows()]
        ends += [self.rests_until(row) for row in self.rows() if self.counts(row)]
        return min((end for end in ends if end > self.query_time.now), default=math.inf)

    def bound(self) -> float:
        """Until when its reach goes, whatever its end."""
        until_s = self.query_time.now + DAY * float(self.ranking.blocks.reach[self.block])
        return max((self.bound_of(row, until_s) for row in self.open_rows()), default=math.nan)

    def bound_of(self, row: int, until_s: float) -> float:
        if self.overdue_at(row) <= self.query_time.now:
            return float(overdue_level(self.overdue_at(row), until_s))
        found = np.empty(1)
        gather_lanes(self.ranking.scorer, self.ranking.shard, np.array([row]))
        self.ranking.scorer.ends[0] = until_s
        bound_lanes(self.ranking.scorer, self.ranking.shard, 0, 1, self.query_time.since, DAY, found)
        return float(found[0])

    def level_of(self, row: int) -> float:
        if self.overdue_at(row) <= self.query_time.now:
            return float(overdue_level(self.overdue_at(row), self.query_time.now))
        return self.score_of(row)

    def score_of(self, row: int) -> float:
        found = np.empty(1)
        gather_lanes(self.ranking.scorer, self.ranking.shard, np.array([row]))
        score_lanes(self.ranking.scorer, self.ranking.shard, 0, 1, self.query_time.now, DAY, found)
        return float(found[0])

    def usage(self) -> float:
        host = int(self.ranking.order.hosts[self.block])
        if host == MIXED:
            return math.inf
        record = self.ranking.shard.groups.records[host]
        return 0 if record["ready_s"] > self.query_time.now else min(3, 5 - int(record["out"]))


class Small:
    """A ranking with all its blocks bounded."""

    def __init__(self, seed: int, formula: str, *, only_new: bool = False) -> None:
        self.scheduler = crawled(seed)
        self.formula = Formula.parse(formula)
        self.layout = BlockLayout(5)
        self.layout.add_pages(self.arrays)
        self.table = BoundTable(VISITED if only_new else 0, 0)
        self.table.cover(self.layout.blocks)
        self.scorer = make_block_scorer(self.formula)
        self.all = np.arange(self.table.blocks)
        limits: Limits = self.scheduler.core.politeness_policy.limits
        self.host_slots = HostSlots()
        self.host_slots.cover(self.arrays)
        self.query_time = QueryTime(NOW, NOW - 60.0, DAY, -math.inf, 0.0, 0.0, limits, 600.0)
        lanes = make_lanes(self.all.size)
        refresh_blocks(self.ranking, self.all, self.query_time, lanes)
        settle(self.ranking, self.all, lanes, self.query_time, math.inf)

    @property
    def arrays(self) -> ShardArrays:
        return self.scheduler.core.pages.arrays

    @property
    def ranking(self) -> RankingArrays:
        return RankingArrays(self.arrays, self.layout.order, self.table.arrays, self.scorer, self.host_slots.usage)

    def slow(self) -> list[Slow]:
        return [Slow(self.ranking, self.query_time, int(block)) for block in self.all]

    def faults(self, opened: Ints) -> list[str]:
        scan = FullScan(self.formula.compile(), 1)
        inspected = InspectedRanking(self.layout.order, self.table.arrays, scan, self.query_time, PAGES)
        return find_false_bounds(self.arrays, inspected, opened)


NONE = np.empty(0, np.int64)
seeds = st.integers(0, 1000)


@settings(max_examples=12)
@given(seeds, st.sampled_from(FORMULAS), st.booleans())
def test_blocks_and_nodes_are_their_twins(seed: int, formula: str, only_new: bool) -> None:
    with small_reserve(), small_rankings(), fenced():
        small = Small(seed, formula, only_new=only_new)
        blocks = small.ranking.blocks
        for slow in small.slow():
            np.testing.assert_equal(blocks.bound[slow.block], slow.bound())
            assert blocks.end[slow.block] == slow.end()
        for node in range(blocks.node_end.size):
            part = slice(node * NODE_BLOCKS, (node + 1) * NODE_BLOCKS)
            assert blocks.node_end[node] == min(blocks.end[part])
            assert blocks.node_bound[node] == max(
                (b for b in blocks.bound[part] if not math.isnan(b)), default=-math.inf
            )
        assert small.faults(NONE) == []


@settings(max_examples=12)
@given(
    seeds,
    st.sampled_from([0.0, 60.0, 3_600.0, 20 * DAY]),
    st.sampled_from([-math.inf, 0.2, 0.9, 2.0, math.inf]),
    st.integers(0, 80),
)
def test_lists_are_their_twins(seed: int, wait: float, bar: float, most: int) -> None:
    """Of blocks whose time has come, and of blocks that reach the bar, by hosts that are resting, full or outdone."""
    with small_reserve(), small_rankings(), fenced():
        small = Small(seed, "posterior * importance")
        blocks = small.ranking.blocks
        now = NOW + wait if wait else float(np.sort(blocks.end)[blocks.end.size // 3])  # the very end of one
        query_time = small.query_time = small.query_time._replace(now=now)
        blocks.opened[::7] = 1
        host_slots = small.host_slots
        hosts = small.ranking.order.hosts[: blocks.bound.size]
        for number, host in enumerate(sorted(set(hosts.tolist()) - {MIXED})):
            own = blocks.bound[hosts == host]  # the last selected is as good as one of its blocks, or better
            host_slots.usage.used[host] = number % 5
            with np.errstate(over="ignore"):  # of pages that are overdue
                host_slots.usage.least[host] = own[number % own.size] + 0.1 * (number % 2)
                host_slots.usage.floor[host] = own[(number + 1) % own.size]
        out, bounds, nodes = np.empty(most, np.int64), np.empty(most), np.empty(blocks.node_end.size, np.int64)
        due = [slow.block for slow in small.slow() if blocks.end[slow.block] <= query_time.now and slow.usage() > 0]
        due = [block for block in due if not blocks.opened[block]]
        count = list_due(small.ranking, query_time, nodes, out)
        assert out[:count].tolist() == due[:most]
        hot = [slow for slow in small.slow() if blocks.bound[slow.block] >= bar and slow.usage() > 0]
        hot = [slow for slow in hot if not blocks.opened[slow.block] and not is_beaten(slow, host_slots)]
        predicted = [slow for slow in hot if not is_below_floor(slow, host_slots)]
        count = list_above_bar(small.ranking, query_time, bar, True, nodes, out, bounds)
        assert out[:count].tolist() == [slow.block for slow in predicted][:most]
        count = list_above_bar(small.ranking, query_time, bar, False, nodes, out, bounds)
        assert out[:count].tolist() == [slow.block for slow in hot][:most]
        assert bounds[:count].tolist() == [blocks.bound[slow.block] for slow in hot][:most]


def is_below_floor(slow: Slow, host_slots: HostSlots) -> bool:
    host = int(slow.ranking.order.hosts[slow.block])
    return host != MIXED and bool(slow.ranking.blocks.bound[slow.block] < host_slots.usage.floor[host])


def is_beaten(slow: Slow, host_slots: HostSlots) -> bool:
    host = int(slow.ranking.order.hosts[slow.block])
    if host == MIXED or host_slots.usage.used[host] < max(slow.usage(), 1):
        return False
    return bool(slow.ranking.blocks.bound[slow.block] < host_slots.usage.least[host])


@settings(max_examples=12)
@given(seeds, st.sampled_from(FORMULAS), st.sampled_from([-math.inf, 0.3, 0.9, 5.0]))
def test_opened_blocks_tell_their_pages_and_settle(seed: int, formula: str, target: float) -> None:
    """However far they choose to look ahead; pages that were leased in between do not count any more."""
    with small_reserve(), small_rankings(), fenced():
        small = Small(seed, formula)
        small.query_time = small.query_time._replace(target=target, fall=0.01, step=0.001)
        picked = small.all[::2].copy()
        lanes = make_lanes(picked.size)
        refresh_blocks(small.ranking, picked, small.query_time, lanes)
        blocks = small.ranking.blocks
        assert np.flatnonzero(blocks.opened).tolist() == picked.tolist()
        assert small.faults(picked) == []
        for number, block in enumerate(picked.tolist()):
            slow = Slow(small.ranking, small.query_time, block)
            rows = lanes.rows[number * BLOCK_ROWS : (number + 1) * BLOCK_ROWS]
            assert [row for row in rows.tolist() if row >= 0] == slow.open_rows()
            part = slice(number * BLOCK_ROWS, (number + 1) * BLOCK_ROWS)
            np.testing.assert_array_equal(lanes.scores[part][rows >= 0], [slow.score_of(r) for r in slow.open_rows()])
            np.testing.assert_array_equal(lanes.levels[part][rows >= 0], [slow.level_of(r) for r in slow.open_rows()])
        best = np.flatnonzero(lanes.rows >= 0)[:5]
        bar = float(np.nanmin(lanes.levels[best], initial=math.inf))
        small.scheduler.core.politeness_policy.grant(small.arrays, lanes.rows[best], NOW, NOW + 600.0)
        settle(small.ranking, picked, lanes, small.query_time, bar)
        assert not blocks.opened.any()
        assert small.faults(NONE) == []
        for slow in small.slow():
            np.testing.assert_equal(blocks.bound[slow.block], slow.bound())


@settings(max_examples=12)
@given(
    seeds,
    st.sampled_from(FORMULAS),
    st.lists(st.integers(0, PAGES - 1), min_size=1, max_size=200),
    st.sampled_from([0.0, DAY / 2, DAY / 2 - 600.0]),
)
def test_changed_pages_raise_bounds_and_lower_none(seed: int, formula: str, numbers: list[int], ago: float) -> None:
    """Those that must rest a while yet let their block's bound end when they may be visited again."""
    with small_reserve(), small_rankings(), fenced():
        small = Small(seed, formula)
        before = small.ranking.blocks.bound.copy()
        touched = url_texts(small.arrays.pages, np.array(numbers))
        small.scheduler.core.pages.watch()  # a sweep may pass others
        outcomes = [Outcome(url, NOW - ago, changed=True, importance=2.5) for url in touched]
        small.scheduler.core.pages.observe(
            OutcomeBatch.from_outcomes(outcomes)
        )  # unknown to the scheduler's own ranking
        assert small.scheduler.core.pages.touched is not None
        raise_bounds(small.ranking, small.scheduler.core.pages.touched.take(), small.query_time, make_lanes(LANES))
        assert small.faults(NONE) == []
        after = small.ranking.blocks.bound
        assert np.all((after >= before) | np.isnan(before))


@pytest.mark.parametrize(("blocks", "first"), [(10, 0), (10, 4), (200, 70), (200, 200)])
def test_bounds_that_are_forgotten(blocks: int, first: int) -> None:
    with small_reserve(), small_rankings():
        table = BoundTable()
        table.cover(blocks)
        arrays = table.arrays
        arrays.end[:], arrays.node_end[:] = 9.0, 9.0
        table.cover(blocks, first)
        assert np.flatnonzero(table.arrays.end == 9.0).tolist() == list(range(first))
        assert np.all(table.arrays.node_end[first // NODE_BLOCKS :] == -np.inf) or first == blocks
        assert np.all(table.arrays.node_end[: first // NODE_BLOCKS] == 9.0)
        assert 0 <= table.nbytes() - 21 * blocks - 16 * (blocks // NODE_BLOCKS + 1) < 6 * mmap.PAGESIZE
        reach = arrays.reach
        assert len(set(reach.tolist())) == blocks
        assert reach.min() >= 1 / 32
        assert reach.max() <= 1 / 16
