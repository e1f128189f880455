"""The maintained ranking: the k best eligible pages at any time, exactly, by looking at a few blocks of them.

Every block of eight pages has a bound that its pages' scores do not exceed until a stated time. A query opens the
blocks whose time has come and those of the highest bounds, scores their pages, seats the best as far as hosts have
room, and goes on until no block that is left could hold a page that would be seated. Outcomes raise the bounds of their
pages' blocks. Where so many blocks would have to be opened that scoring all pages is faster (equal scores without end,
a clock that leaps, as many pages wanted as there are), that is done instead.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np

from streamsched.arrays import Floats, Hashes, Ints
from streamsched.blocks import (
    BoundTable,
    Lanes,
    Moment,
    Stage,
    absorb,
    list_due,
    list_hot,
    open_blocks,
    renew,
    settle,
)
from streamsched.formula import Formula
from streamsched.gauge import LANES, make_gauge
from streamsched.inspection import Inspected, find_disorder, find_false_bounds
from streamsched.jit import bare_kernel, mix
from streamsched.order import select_top
from streamsched.ranking import DEFAULT_LIMITS, FullScan, Query, Ranked, seat_pages
from streamsched.selection import Seats
from streamsched.shelves import BLOCK_ROWS, Shelves
from streamsched.tables import VISITED, Tables

__all__ = ["Standing"]

_FEWEST_PAGES: Final = 1 << 14  # fewer are all scored in less time
_MOST_OPENED: Final = 8  # a query opens one block of so many at the most: beyond, scoring all pages is faster
_PATIENCE: Final = 2  # queries in a row that score all pages, and bounds are renewed
_CHUNK: Final = 1 << 12  # blocks at a time then
_SPARE: Final = 32  # blocks more than pages are picked at first: some hold none, or none that can be seated
_WIDER: Final = 4  # times as many candidates are looked at where hosts have no room for the best
_FORGET: Final = 0.2  # of what earlier queries said of the bar's fall, at each query
_AHEAD: Final = 4  # steps of the clock between queries that a renewed bound should last


@dataclass(slots=True)
class _Opened:
    """What a query has opened so far."""

    blocks: Ints
    lanes: Lanes
    count: int = 0
    bar: float = -math.inf  # what the last page seated scores; -inf while there are fewer than wanted


@dataclass(slots=True)
class _Trend:
    """How the bar has moved from query to query."""

    bar: float = -math.inf  # of the last query
    drop: float = 0.0  # of the bar, from one query to the next
    step: float = 0.0  # cycles between queries
    target: float = -math.inf  # what the next query's bar will be

    @property
    def fall(self) -> float:
        """How much the bar falls a cycle; 0 where the clock stands still."""
        return self.drop / self.step if self.step > 0.0 else 0.0

    def follow(self, bar: float, cycles: float) -> None:
        """Foresee the bars of later queries, from this one's and how far it fell in the `cycles` since the last."""
        self.target = bar
        if math.isfinite(self.bar) and math.isfinite(bar) and cycles < math.inf:
            drop = max(self.bar - bar, 0.0)
            self.step += _FORGET * (cycles - self.step)
            self.drop += _FORGET * (drop - self.drop)
            self.target = bar - drop
        self.bar = bar


class Standing:
    """The ranking of one shard's pages by one formula, kept up to date. 2.7 bytes a page, 7.2 with its shelves.

    For one call at a time. Whoever changes a page's record has to say so by `absorb` before the next query, the end of
    its lease too; `settle` comes after pages of an answer were leased.
    """

    def __init__(
        self,
        formula: Formula,
        shelves: Shelves,
        threads: int | None = None,
        *,
        only_new: bool = False,
        fewest_pages: int = _FEWEST_PAGES,
    ) -> None:
        """Begin without bounds. `only_new`: rank the pages never visited alone."""
        self.scan = FullScan(formula.compile(), threads)
        self.scans = 0  # queries that scored all pages
        self._gauge = make_gauge(formula)
        self._shelves = shelves  # other rankings may take pages in, too
        self._pages = 0  # of those, how many are covered
        self._only_new = only_new
        self._table = BoundTable(VISITED if only_new else 0, 0)
        self._fewest = fewest_pages
        self._clock = -math.inf  # of the newest query: bounds hold from it on
        self._own = _make_lanes(LANES)
        self._listed, self._bounds = np.empty(0, np.int64), np.empty(0)
        self._opened = _Opened(np.empty(0, np.int64), _make_lanes(0))
        self._moment = Moment(-math.inf, 1.0, -math.inf, 0.0, 0.0, DEFAULT_LIMITS, math.inf)
        self._seats = Seats()
        self._trend = _Trend()
        self._in_vain = 0  # queries in a row that scored all pages

    @property
    def clock(self) -> float:
        """The time of the newest query; -inf before the first."""
        return self._clock

    def rank(self, tables: Tables, query: Query) -> Ranked:
        """Return the best `query.k` pages that may be handed out at `query.now`, as far as hosts have room.

        O(k) blocks where bounds are close, O(pages) where they say too little.
        """
        self._cover(tables)
        query = replace(query, only_new=self._only_new)
        k = min(query.k, self._shelves.pages)
        if self._shelves.pages < self._fewest or query.now < self._clock or k <= 0:
            return self.scan.rank(tables, query)
        step, self._clock = query.now - self._clock, query.now
        trend = self._trend
        self._moment = Moment(
            query.now, query.cycle_s, trend.target, trend.fall, trend.step, query.limits, query.lease_s
        )
        ranked = self._search(tables, query, k)
        self._seats.clear(tables)
        if ranked is None:
            self.settle(tables)
            ranked = self.scan.rank(tables, query)
            self.scans += 1
            self._in_vain += 1
            bar = float(ranked.scores[-1]) if ranked.rows.size == k else -math.inf
            trend.follow(bar, step / query.cycle_s)
            self._moment = self._moment._replace(target=trend.target, fall=trend.fall, step=trend.step)
            self._renew(tables, step)
            return ranked
        self._in_vain = 0
        trend.follow(self._opened.bar, step / query.cycle_s)
        return self.scan.name_scores(tables, query, ranked)

    def settle(self, tables: Tables) -> None:
        """Keep the bounds that the last query has told, of the pages that are eligible still. O(blocks opened)."""
        opened = self._opened
        if opened.count:
            blocks = opened.blocks[: opened.count]
            settle(tables, self._table.arrays, blocks, opened.lanes, self._moment, opened.bar)
            opened.count = 0

    def absorb(self, tables: Tables, rows: Ints | None) -> None:
        """Take in that the pages of ``rows``: int64[m] have changed, all of them for None. O(m)."""
        self.settle(tables)
        self._cover(tables)
        if rows is None:
            self._table.cover(self._table.blocks)
        elif rows.size and self._clock > -math.inf:
            absorb(self._stage(tables), rows, self._moment, self._own)

    def follow(self, tables: Tables, other: Standing) -> None:
        """Take over the clock of `other`, and what its last query went by. O(new pages)."""
        self._cover(tables)
        self._clock, self._moment = other._clock, other._moment._replace(target=-math.inf)

    def prepare(self, tables: Tables, first: int, count: int) -> bool:
        """Bound `count` blocks from number `first` on; return whether there are more behind them. O(count)."""
        self._cover(tables)
        blocks = np.arange(first, min(first + count, self._table.blocks))
        renew(self._stage(tables), blocks, self._moment, self._own)
        return first + count < self._table.blocks

    def check(self, tables: Tables) -> list[str]:
        """Return which invariants do not hold, none where the ranking is sound. O(pages).

        What has happened to pages must have been told before.
        """
        moment = self._moment._replace(now=self._clock)
        ranking = Inspected(self._shelves.order, self._table.arrays, self.scan, moment, self._pages)
        opened = self._opened.blocks[: self._opened.count]
        disorder = find_disorder(tables, self._shelves.order, self._shelves.pages)
        return disorder + find_false_bounds(tables, ranking, opened)

    def nbytes(self) -> int:
        """Return the bytes of memory in use beside the shelves."""
        return self._table.nbytes()

    def _stage(self, tables: Tables) -> Stage:
        return Stage(tables, self._shelves.order, self._table.arrays, self._gauge)

    def _cover(self, tables: Tables) -> None:
        self._shelves.take_in(tables)
        if self._pages != self._shelves.pages:
            self.settle(tables)
            self._table.cover(self._shelves.blocks, self._shelves.first_changed(self._pages))
            self._pages = self._shelves.pages

    def _search(self, tables: Tables, query: Query, k: int) -> Ranked | None:
        """Return the best `k` pages, or None where that takes opening too many blocks."""
        opened = self._opened
        opened.bar = -math.inf
        self._seats.clear(tables)
        most = self._table.blocks // _MOST_OPENED
        due = np.empty(most + 1, np.int64)
        count = list_due(self._stage(tables), self._moment, due)
        if count > most:
            return None
        self._open(tables, due[:count])
        found, seen, wanted = _Found(self._seats, query, k), 0, k + k // 16 + _SPARE
        while True:
            picked = self._pick(tables, wanted)
            if opened.count + picked.size > most:
                return None
            self._open(tables, picked)
            seated = found.add(tables, opened, seen)
            if not picked.size:
                return seated
            seen, opened.bar = opened.count, found.bar

    def _pick(self, tables: Tables, wanted: int) -> Ints:
        """Return the blocks to open next: of those that reach the bar, the `wanted` of the highest bounds, or more."""
        arrays, bar = self._table.arrays, self._opened.bar
        nodes = arrays.node_bound.size
        if wanted < nodes:  # so many nodes hold as many such blocks, unless they are open already
            start = float(np.partition(arrays.node_bound, nodes - wanted)[nodes - wanted])
            picked = self._list(tables, wanted, max(start, bar))
            if picked.size or start <= bar:
                return picked
        return self._list(tables, wanted, bar)

    def _list(self, tables: Tables, wanted: int, bar: float) -> Ints:
        """Return the `wanted` blocks of the highest bounds that reach `bar`, with all that tie with the last."""
        if self._listed.size < self._table.blocks:  # memory is taken as it is filled
            self._listed, self._bounds = np.empty(2 * self._table.blocks, np.int64), np.empty(2 * self._table.blocks)
        count = list_hot(self._stage(tables), self._moment, self._seats.room, bar, self._listed, self._bounds)
        picked, bounds = self._listed[:count], self._bounds[:count]
        if count > wanted:
            picked = picked[bounds >= np.partition(bounds, count - wanted)[count - wanted]]
        return picked

    def _open(self, tables: Tables, picked: Ints) -> None:
        opened = self._opened
        first, opened.count = opened.count, opened.count + picked.size
        if opened.count > opened.blocks.size:
            self._grow(opened, first)
        opened.blocks[first : opened.count] = picked
        part = _slice_lanes(opened.lanes, first, opened.count)
        open_blocks(self._stage(tables), picked, self._moment, part)

    @staticmethod
    def _grow(opened: _Opened, used: int) -> None:
        size = 2 * opened.count
        blocks, lanes = np.empty(size, np.int64), _make_lanes(size * BLOCK_ROWS)
        blocks[:used] = opened.blocks[:used]
        for new, old in zip(_slice_lanes(lanes, 0, used), _slice_lanes(opened.lanes, 0, used), strict=True):
            new[:] = old
        opened.blocks, opened.lanes = blocks, lanes

    def _renew(self, tables: Tables, step: float) -> None:
        """Renew all bounds that have ended, for longer than the clock's last step, and those that are high. O(pages).

        At the second query in a row that scored all pages, for a single one is no use of a ranking that is kept; then
        ever more seldom, for bounds that stay too high however often they are renewed.
        """
        if self._in_vain < _PATIENCE or self._in_vain & (self._in_vain - 1):
            return
        stage, arrays, moment = self._stage(tables), self._table.arrays, self._moment
        picked, bounds = np.empty(_CHUNK, np.int64), np.empty(_CHUNK)
        while due := list_due(stage, moment, picked):
            rows = picked[:due]
            if step < math.inf:
                arrays.reach[rows] = np.maximum(arrays.reach[rows], _AHEAD * step / moment.cycle_s)
            self._open(tables, rows)
            self.settle(tables)
            if due < _CHUNK:
                break
        high = list_hot(stage, moment, self._seats.room, moment.target, picked, bounds)
        self._open(tables, picked[:high])
        self.settle(tables)


class _Found:
    """The eligible pages of opened blocks that may be among those a batch has seats for."""

    def __init__(self, seats: Seats, query: Query, k: int) -> None:
        self.bar = -math.inf  # what a page must score to be seated; -inf where there is room for any, or for NaN
        self._seats = seats
        self._query = query
        self._k = k
        self._rows, self._scores, self._ties = np.empty(0, np.int64), np.empty(0), np.empty(0, np.uint64)

    def add(self, tables: Tables, opened: _Opened, first: int) -> Ranked:
        """Take in the blocks opened since there were `first`; return who is seated then, raise the bar."""
        self._pool(tables, _slice_lanes(opened.lanes, first, opened.count))
        wanted = self._k
        while True:
            best = select_top(self._scores, self._ties, wanted)
            ranked = Ranked(self._rows[best], self._scores[best])
            seated = seat_pages(self._seats, tables, self._query, ranked)
            if seated.rows.size == self._k or best.size < wanted:
                break
            wanted *= _WIDER
        if seated.rows.size == self._k and not math.isnan(seated.scores[-1]):
            self.bar = float(seated.scores[-1])
            keep = self._scores >= self.bar
            self._rows, self._scores, self._ties = self._rows[keep], self._scores[keep], self._ties[keep]
        return seated

    def _pool(self, tables: Tables, lanes: Lanes) -> None:
        """Put the pages of `lanes` that reach the bar to the others."""
        size = lanes.rows.size
        pool = _Pool(np.empty(size, np.int64), np.empty(size), np.empty(size, np.uint64))
        count = _collect(tables, lanes, np.uint64(self._query.salt), self.bar, pool)
        self._rows = np.concatenate([self._rows, pool.rows[:count]])
        self._scores = np.concatenate([self._scores, pool.scores[:count]])
        self._ties = np.concatenate([self._ties, pool.ties[:count]])


def _make_lanes(count: int) -> Lanes:
    return Lanes(np.empty(count, np.int64), np.empty(count), np.empty(count), np.empty(count))


def _slice_lanes(lanes: Lanes, first: int, stop: int) -> Lanes:
    """Return the lanes of blocks number `first` up to `stop`."""
    part = slice(first * BLOCK_ROWS, stop * BLOCK_ROWS)
    return Lanes(lanes.rows[part], lanes.scores[part], lanes.bounds[part], lanes.ends[first:stop])


class _Pool(NamedTuple):
    """Pages, what they score, and what orders equal scores: int64[m], float64[m], uint64[m]."""

    rows: Ints
    scores: Floats
    ties: Hashes


@bare_kernel
def _collect(tables: Tables, lanes: Lanes, salt: int, bar: float, pool: _Pool) -> int:
    """Write the lanes of eligible pages that are not below `bar`; return how many they are."""
    count = 0
    for lane in range(lanes.rows.size):
        if lanes.rows[lane] >= 0 and not lanes.scores[lane] < bar:
            pool.rows[count] = lanes.rows[lane]
            pool.scores[count] = lanes.scores[lane]
            pool.ties[count] = mix(tables.pages[lanes.rows[lane]].url_hash ^ salt)
            count += 1
    return count
