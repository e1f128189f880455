"""The maintained ranking: the k best eligible pages at any time, exactly, by looking at few blocks of them.

Every block of eight pages has a bound that its pages' scores do not exceed until it expires. A query opens the blocks
whose bounds have expired and those of the highest bounds, scores their pages, gives host slots to the best, and goes on
until no block that is left can hold a page that would be selected. Outcomes raise the bounds of their pages' blocks. If
scoring all pages is faster than opening these blocks (many equal scores, a clock that jumps, nearly all pages wanted),
the query scores all pages.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from streamsched.ranking.block_bounds import (
    BoundTable,
    Lanes,
    RankingArrays,
    list_above_bar,
    list_due,
    settle,
    slice_lanes,
)
from streamsched.ranking.block_layout import BLOCK_ROWS, BlockLayout
from streamsched.ranking.block_refresh import ParallelRefresh, raise_bounds
from streamsched.ranking.block_scorer import LANES
from streamsched.ranking.bound_expiry import QueryTime
from streamsched.ranking.candidate_pool import Candidates, last_level
from streamsched.ranking.full_scan import DEFAULT_LIMITS, FullScan, Query, Ranked, fill_slots
from streamsched.ranking.host_slots import HostSlots
from streamsched.ranking.invariants import InspectedRanking, find_false_bounds, find_layout_faults
from streamsched.records.page_schema import VISITED

if TYPE_CHECKING:
    from streamsched.formula.formula import Formula
    from streamsched.numerics.arrays import Ints
    from streamsched.records.schema import ShardArrays

__all__ = ["CLOCK_TOLERANCE_S", "IncrementalTopK"]

_FEWEST_PAGES: Final = 1 << 14  # with fewer, scoring all pages is faster
_MOST_OPENED: Final = 16  # a query opens at most one block in this many: beyond, scoring all pages is faster
_FEW_OPENED: Final = 1 << 12  # ... or this many, if they are at most one in eight
_TRIES: Final = 4  # queries in a row that may open too many blocks before later ones score all pages at once
_TRIES_AGAIN: Final = 64  # queries after which bounds are tried again at the latest
CLOCK_TOLERANCE_S: Final = 60.0  # clock tolerance: how far a query's time may lie before an earlier query's
_PATIENCE: Final = 2  # queries in a row that score all pages before bounds are renewed
_CHUNK: Final = 1 << 12  # blocks renewed at a time
_WIDER: Final = 4  # at most this many times the wanted blocks may reach the predicted bar
_SPARE: Final = 32  # more blocks than pages are picked at first: some hold no page that can be selected
_DECAY: Final = 0.2  # weight of each query in the moving averages of the bar's fall
_FEWEST_BLOCKS: Final = 64  # to open at a time, if there are that many
_AHEAD: Final = 4  # steps of the clock between queries that a renewed bound should last


@dataclass(slots=True)
class _Opened:
    """The blocks that a query has opened so far."""

    blocks: Ints
    lanes: Lanes
    count: int = 0
    bar: float = -math.inf  # the level of the last page selected; -inf while there are fewer than wanted


@dataclass(slots=True)
class _Trend:
    """How the bar moves from query to query."""

    bar: float = -math.inf  # of the last query
    drop: float = 0.0  # of the bar, from one query to the next
    deviation: float = 0.0  # mean error of the prediction
    step: float = 0.0  # cycles between queries
    clock: float = math.inf  # of the last query
    target: float = -math.inf  # a level below which the next query's bar is unlikely to be

    @property
    def fall(self) -> float:
        """How much the bar falls per cycle at most; 0 if the clock stands still."""
        return (self.drop + self.deviation) / self.step if self.step > 0.0 else 0.0

    def follow(self, bar: float, now: float, cycle_s: float) -> None:
        """Predict the bars of later queries from this one's, and from how far it fell since the last."""
        cycles = max(now - self.clock, 0.0) / cycle_s if self.clock < math.inf else math.inf
        self.target, self.clock = bar, now
        if math.isfinite(self.bar) and math.isfinite(bar) and cycles < math.inf:
            drop = self.bar - bar
            self.step += _DECAY * (cycles - self.step)
            self.deviation += _DECAY * (abs(drop - self.drop) - self.deviation)
            self.drop += _DECAY * (max(drop, 0.0) - self.drop)
            self.target = bar - self.drop - self.deviation
        self.bar = bar


class IncrementalTopK:
    """The ranking of one shard's pages by one formula, kept up to date.

    2.8 bytes a page, 7.3 with its layout, and 12 for each host and URL pattern.

    For one call at a time. After a page's record changes, call `raise_bounds` before the next query, also at the end of
    its lease; call `settle` after pages of an answer were leased.
    """

    def __init__(
        self,
        formula: Formula,
        layout: BlockLayout,
        threads: int | None = None,
        *,
        only_new: bool = False,
        fewest_pages: int = _FEWEST_PAGES,
    ) -> None:
        """Begin without bounds. `only_new`: rank only pages that were never visited."""
        self.scan = FullScan(formula.compile(), threads)
        self.scans = 0  # queries that scored all pages
        self._refresh = ParallelRefresh(formula, threads)
        self._layout = layout  # other rankings may add pages, too
        self._pages = 0  # of the layout, how many are covered
        self._only_new = only_new
        self._table = BoundTable(VISITED if only_new else 0, 0)
        self._fewest = fewest_pages
        self._clock = -math.inf  # of the newest query: bounds hold from it on
        self._own = _make_lanes(LANES)
        self._listed, self._bounds = np.empty(0, np.int64), np.empty(0)
        self._nodes = np.empty(0, np.int64)
        self._opened = _Opened(np.empty(0, np.int64), _make_lanes(0))
        self._query_time = QueryTime(-math.inf, -math.inf, 1.0, -math.inf, 0.0, 0.0, DEFAULT_LIMITS, math.inf)
        self._host_slots, self._candidates = HostSlots(), Candidates()
        self._trends: dict[int, _Trend] = {}  # by the length of k
        self._k = 0  # of the newest query
        self._fallbacks = 0  # queries in a row that scored all pages

    @property
    def clock(self) -> float:
        """The time of the newest query; -inf before the first."""
        return self._clock

    @property
    def step_s(self) -> float:
        """The usual time between queries, in seconds; 0 before there were any."""
        return self._query_time.step * self._query_time.cycle_s

    def rank(self, shard: ShardArrays, query: Query) -> Ranked:
        """Return the best `query.k` pages that are eligible at `query.now`, as far as hosts have free slots.

        O(k) blocks if bounds are close, O(pages) if they are not.
        """
        self._cover(shard)
        query = replace(query, only_new=self._only_new)
        k = min(query.k, self._layout.pages)
        if self._layout.pages < self._fewest or k <= 0:
            return self.scan.rank(shard, query)
        if query.now < self._clock - CLOCK_TOLERANCE_S:
            self._table.cover(self._table.blocks)  # bounds do not cover earlier times
            self._clock = query.now
        step, self._clock = max(query.now - self._clock, 0.0), max(query.now, self._clock)
        trend, self._k = self._trends.setdefault(k.bit_length(), _Trend()), k
        self._query_time = QueryTime(
            query.now,
            query.now - CLOCK_TOLERANCE_S,
            query.cycle_s,
            trend.target,
            trend.fall,
            trend.step,
            query.limits,
            query.lease_s,
        )
        ranked = self._search(shard, query, k)
        self._host_slots.clear(shard)
        if ranked is None:
            self.settle(shard)
            ranked = self.scan.rank(shard, query)
            fill_slots(self._host_slots, shard, query, ranked)
            self._host_slots.remember(shard, query.slot_limits, ranked.levels)
            self._host_slots.clear(shard)
            self.scans += 1
            self._fallbacks += 1
            bar = last_level(shard, query, ranked) if ranked.rows.size == k else -math.inf
            trend.follow(bar, query.now, query.cycle_s)
            self._query_time = self._query_time._replace(target=trend.target, fall=trend.fall, step=trend.step)
            self._refresh_bounds(shard, step)
            return ranked
        self._fallbacks = 0
        trend.follow(self._opened.bar, query.now, query.cycle_s)
        return self.scan.set_first_scores(shard, query, ranked)

    def settle(self, shard: ShardArrays) -> None:
        """Keep the bounds that the last query computed, of the pages that are still eligible. O(blocks opened)."""
        opened = self._opened
        if opened.count:
            blocks = opened.blocks[: opened.count]
            settle(self._ranking_arrays(shard), blocks, opened.lanes, self._query_time, opened.bar)
            opened.count = 0

    def raise_bounds(self, shard: ShardArrays, rows: Ints | None) -> None:
        """Raise bounds after the pages of ``rows``: int64[m] have changed; None for all pages. O(m)."""
        self.settle(shard)
        self._cover(shard)
        if rows is None:
            self._table.cover(self._table.blocks)
        elif rows.size and self._clock > -math.inf:
            raise_bounds(self._ranking_arrays(shard), rows, self._query_time, self._own)

    def follow(self, shard: ShardArrays, other: IncrementalTopK) -> None:
        """Take over the clock of `other` and the parameters of its last query. O(new pages)."""
        self._cover(shard)
        self._clock, self._k = other._clock, other._k
        self._query_time = other._query_time._replace(target=self._query_time.target, fall=0.0)

    def prepare(self, shard: ShardArrays, first: int, count: int) -> bool:
        """Bound `count` blocks from number `first` on; return whether there are more after them. O(count)."""
        self._cover(shard)
        if first == 0:
            query_time = self._query_time
            query = Query(self._k, self._clock, query_time.cycle_s, 0, query_time.limits, only_new=self._only_new)
            bar = self.scan.predict_bar(shard, query)
            self._trends = {self._k.bit_length(): _Trend(bar, clock=self._clock, target=bar)}
            self._query_time = query_time._replace(target=bar)
        self._open_and_settle(shard, np.arange(first, min(first + count, self._table.blocks)))
        return first + count < self._table.blocks

    def check(self, shard: ShardArrays) -> list[str]:
        """Return which invariants do not hold; empty if the ranking is sound. O(pages).

        Changes of pages must have been passed to `raise_bounds` before.
        """
        query_time = self._query_time._replace(now=self._clock, since=self._clock - CLOCK_TOLERANCE_S)
        ranking = InspectedRanking(self._layout.order, self._table.arrays, self.scan, query_time, self._pages)
        opened = self._opened.blocks[: self._opened.count]
        layout_faults = find_layout_faults(shard, self._layout.order, self._layout.pages)
        return layout_faults + find_false_bounds(shard, ranking, opened)

    def nbytes(self) -> int:
        """Return the bytes of memory in use, without the layout."""
        return self._table.nbytes() + self._host_slots.nbytes()

    def _ranking_arrays(self, shard: ShardArrays) -> RankingArrays:
        return RankingArrays(
            shard, self._layout.order, self._table.arrays, self._refresh.scorer, self._host_slots.usage
        )

    def _cover(self, shard: ShardArrays) -> None:
        self._layout.add_pages(shard)
        self._host_slots.cover(shard)
        if self._pages != self._layout.pages:
            self.settle(shard)
            self._table.cover(self._layout.blocks, self._layout.first_changed(self._pages))
            nodes = self._table.arrays.node_end.size
            self._nodes = self._nodes if self._nodes.size >= nodes else np.empty(2 * nodes, np.int64)
            self._pages = self._layout.pages

    def _search(self, shard: ShardArrays, query: Query, k: int) -> Ranked | None:
        """Return the best `k` pages, or None if that takes opening too many blocks."""
        blocks, fallbacks = self._table.blocks, self._fallbacks
        most, wanted = max(blocks // _MOST_OPENED, min(_FEW_OPENED, blocks // 8)), k + k // 16 + _SPARE
        if 2 * k > most + _SPARE or (fallbacks > _TRIES and fallbacks & (fallbacks - 1) and fallbacks % _TRIES_AGAIN):
            return None
        opened, candidates, query = self._opened, self._candidates, replace(query, k=k)
        opened.bar = -math.inf
        self._host_slots.clear(shard)
        due = np.empty(most + 1, np.int64)
        count = list_due(self._ranking_arrays(shard), self._query_time, self._nodes, due)
        if count > most:
            return None
        self._open(shard, due[:count])
        picked, seen, again = self._pick_predicted(shard, wanted), 0, _FEWEST_BLOCKS
        while True:
            if opened.count + picked.size > most:
                return None
            self._open(shard, picked)
            lanes = slice_lanes(opened.lanes, 0, opened.count)
            selected = candidates.fill(self._host_slots, shard, query, lanes, seen * BLOCK_ROWS)
            seen, opened.bar = opened.count, candidates.bar
            picked = self._pick(shard, max(again, 2 * (k - selected.rows.size)))
            again *= 2
            if not picked.size:
                self._host_slots.remember(shard, query.slot_limits, selected.levels)
                return selected

    def _pick_predicted(self, shard: ShardArrays, wanted: int) -> Ints:
        """Return the blocks to open first: those that reach the predicted bar, unless there are too many."""
        target = self._query_time.target
        if target > -math.inf:
            picked = self._list(shard, _WIDER * wanted, target, predicted=True)
            if picked.size < _WIDER * wanted:
                self._candidates.clear(target)
                return picked
        self._candidates.clear(-math.inf)
        return self._pick(shard, wanted)

    def _pick(self, shard: ShardArrays, wanted: int) -> Ints:
        """Return the blocks to open next: the `wanted` highest bounds that reach the bar, or more."""
        arrays, bar = self._table.arrays, self._opened.bar
        nodes = arrays.node_bound.size
        # The `wanted` highest nodes hold at least as many blocks of their bounds, unless these are open.
        if bar == -math.inf and wanted < nodes:
            start = float(np.partition(arrays.node_bound, nodes - wanted)[nodes - wanted])
            picked = self._list(shard, wanted, start)
            if picked.size:
                return picked
        return self._list(shard, wanted, bar)

    def _list(self, shard: ShardArrays, wanted: int, bar: float, *, predicted: bool = False) -> Ints:
        """Return the `wanted` blocks of the highest bounds that reach `bar`, and all that tie with the last of them."""
        if self._listed.size < self._table.blocks:  # the system commits memory as it is filled
            self._listed, self._bounds = np.empty(2 * self._table.blocks, np.int64), np.empty(2 * self._table.blocks)
        count = list_above_bar(
            self._ranking_arrays(shard), self._query_time, bar, predicted, self._nodes, self._listed, self._bounds
        )
        picked, bounds = self._listed[:count], self._bounds[:count]
        if count > wanted:
            picked = picked[bounds >= np.partition(bounds, count - wanted)[count - wanted]]
        return picked

    def _open(self, shard: ShardArrays, picked: Ints) -> None:
        opened = self._opened
        first, opened.count = opened.count, opened.count + picked.size
        if opened.count > opened.blocks.size:
            self._grow(opened, first)
        opened.blocks[first : opened.count] = picked
        part = slice_lanes(opened.lanes, first, opened.count)
        self._refresh.open(self._ranking_arrays(shard), picked, self._query_time, part)

    @staticmethod
    def _grow(opened: _Opened, used: int) -> None:
        size = 2 * opened.count
        blocks, lanes = np.empty(size, np.int64), _make_lanes(size * BLOCK_ROWS)
        blocks[:used] = opened.blocks[:used]
        for new, old in zip(slice_lanes(lanes, 0, used), slice_lanes(opened.lanes, 0, used), strict=True):
            new[:] = old
        opened.blocks, opened.lanes = blocks, lanes

    def _refresh_bounds(self, shard: ShardArrays, step: float) -> None:
        """Renew all expired bounds, for longer than the clock's last step, and those that are high. O(pages).

        It runs at the second query in a row that scored all pages, since a ranking that is queried once needs no
        bounds; then ever more rarely, for bounds that stay too high however often they are renewed.
        """
        fallbacks = self._fallbacks
        if (
            fallbacks < _PATIENCE
            or (fallbacks & (fallbacks - 1) and fallbacks % _TRIES_AGAIN)
            or 2 * self._k > self._table.blocks
        ):
            return
        ranking, arrays = self._ranking_arrays(shard), self._table.arrays
        due = np.empty(arrays.bound.size, np.int64)
        due = due[: list_due(ranking, self._query_time, self._nodes, due)]
        if step < math.inf:
            arrays.reach[due] = np.maximum(arrays.reach[due], _AHEAD * step / self._query_time.cycle_s)
        self._open_and_settle(shard, due)
        self._open_and_settle(shard, self._list(shard, arrays.bound.size, self._query_time.target, predicted=True))

    def _open_and_settle(self, shard: ShardArrays, picked: Ints) -> None:
        for start in range(0, picked.size, _CHUNK):
            self._open(shard, picked[start : start + _CHUNK])
            self.settle(shard)


def _make_lanes(count: int) -> Lanes:
    return Lanes(np.empty(count, np.int64), *(np.empty(count) for _ in range(4)))
