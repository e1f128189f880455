"""Opening blocks: scoring their pages now, and bounding them until they are likely to matter again."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

import numpy as np

from streamsched.numerics.jit import bare_kernel, inlined_kernel
from streamsched.politeness.limits import overdue_at
from streamsched.ranking.block_bounds import (
    NODE_BLOCKS,
    Blocks,
    Lanes,
    RankingArrays,
    overdue_level,
    page_ready_at,
    slice_lanes,
    target_of,
)
from streamsched.ranking.block_layout import BLOCK_ROWS, block_of, row_at
from streamsched.ranking.block_scorer import (
    LANES,
    LEADERS,
    BlockScorer,
    bound_lanes,
    gather_lanes,
    make_block_scorer,
    move_lane,
    score_lanes,
)
from streamsched.ranking.bound_expiry import QueryTime, begin_search, search_ends
from streamsched.records.page_schema import LEASED, OUT

if TYPE_CHECKING:
    from streamsched.formula.formula import Formula
    from streamsched.numerics.arrays import Ints, Record

__all__ = ["ParallelRefresh", "raise_bounds", "refresh_blocks"]

_MOST: Final = 2  # threads: a query is too short for more
_FEWEST_BLOCKS: Final = 512  # fewer are opened faster than another thread wakes up


@bare_kernel
def refresh_blocks(ranking: RankingArrays, picked: Ints, query_time: QueryTime, lanes: Lanes) -> None:
    """Score and bound the pages of the blocks ``picked``: int64[m], into `lanes`, BLOCK_ROWS a block. O(m).

    Lanes of pages that are not eligible get row -1. The blocks are marked as opened until they are settled. A first
    bound determines how far ahead to look for the second.
    """
    scorer = ranking.scorer
    for start in range(0, picked.size, LEADERS):
        part = picked[start : start + LEADERS]
        own = _part_of(lanes, start, start + part.size)
        count = part.size * BLOCK_ROWS
        _take_lanes(ranking, part, query_time, own)
        score_lanes(scorer, ranking.shard, 0, count, query_time.now, query_time.cycle_s, own.scores)
        if query_time.target > -np.inf:
            bound_lanes(scorer, ranking.shard, 0, count, query_time.since, query_time.cycle_s, own.bounds)
            _look_ahead(ranking, part, query_time, own)
        _bound_eligible(ranking, count, query_time, own)
        for lane in range(count):
            if own.rows[lane] >= 0:
                overdue = overdue_at(scorer.pages[lane], query_time.limits)
                is_overdue = overdue <= query_time.now
                own.levels[lane] = overdue_level(overdue, query_time.now) if is_overdue else own.scores[lane]
        for i in range(part.size):
            ranking.blocks.opened[part[i]] = 1


@bare_kernel
def raise_bounds(ranking: RankingArrays, rows: Ints, query_time: QueryTime, lanes: Lanes) -> None:
    """Raise the bounds of the blocks of ``rows``: int64[m], whose pages have changed, as far as needed. O(m).

    If a raised bound would have the block opened at once, although the page is not needed until later, the bound is
    made to expire earlier instead.
    """
    shard, order, blocks, scorer = ranking.shard, ranking.order, ranking.blocks, ranking.scorer
    count = 0
    for i in range(rows.size):
        block = block_of(order, rows[i])
        page: Record = shard.pages.records[rows[i]]
        if blocks.end[block] > query_time.now and (np.int64(page.flags) & blocks.mask) == blocks.want:
            lanes.rows[count] = rows[i]
            scorer.ends[count] = blocks.end[block]
            count += 1
        if count == LANES or (i == rows.size - 1 and count):
            gather_lanes(scorer, shard, lanes.rows[:count])
            bound_lanes(scorer, shard, 0, count, query_time.since, query_time.cycle_s, lanes.bounds)
            _raise_bounds(ranking, count, query_time, lanes)
            count = 0


@bare_kernel
def _raise_bounds(ranking: RankingArrays, count: int, query_time: QueryTime, lanes: Lanes) -> None:
    """Make the bounds of the blocks of ``lanes.rows``: int64[count] hold for these pages too."""
    led = 0
    for lane in range(count):
        row, bound = lanes.rows[lane], lanes.bounds[lane]
        if _is_settled(ranking, row, query_time):
            continue
        if -np.inf < target_of(ranking, block_of(ranking.order, row), query_time) < bound:
            move_lane(ranking.scorer, lane, LANES + led)
            lanes.rows[led] = row  # no lane before this one is read again
            lanes.bounds[led] = bound
            led += 1
            if led == LEADERS:
                _raise_later(ranking, led, query_time, lanes)
                led = 0
        else:
            _raise_bound(ranking, row, bound)
    _raise_later(ranking, led, query_time, lanes)


@inlined_kernel
def _is_settled(ranking: RankingArrays, row: int, query_time: QueryTime) -> bool:
    """End a block's bound before a page's eligibility or tier changes; return whether nothing else is to do for it."""
    shard, blocks = ranking.shard, ranking.blocks
    block = block_of(ranking.order, row)
    # The lease was reported expired, though perhaps for a time after `now`.
    ended = (shard.pages.records[row].flags & (LEASED | OUT)) == LEASED
    at = max(query_time.now, shard.pages.lease_until_s[row]) if ended else query_time.now
    rest = page_ready_at(ranking, block, row, query_time, at)
    overdue = overdue_at(shard.pages.records[row], query_time.limits)
    if rest > query_time.now:
        _end_before(blocks, block, rest)
        return True
    if overdue > query_time.now:
        _end_before(blocks, block, overdue)
        return False
    _raise_bound(ranking, row, overdue_level(overdue, blocks.end[block]))
    return True


@bare_kernel
def _raise_later(ranking: RankingArrays, led: int, query_time: QueryTime, lanes: Lanes) -> None:
    """Raise the bounds of the blocks of the first `led` of `lanes.rows`, whose records are in the leader lanes."""
    scorer, blocks = ranking.scorer, ranking.blocks
    if not led:
        return
    score_lanes(scorer, ranking.shard, LANES, led, query_time.now, query_time.cycle_s, lanes.scores)
    for i in range(led):
        block = block_of(ranking.order, lanes.rows[i])
        scorer.search.target[i] = target_of(ranking, block, query_time)
        ahead = (blocks.end[block] - query_time.now) / query_time.cycle_s
        begin_search(scorer, i, query_time, lanes.scores[i], lanes.bounds[i], ahead)
    search_ends(scorer, ranking.shard, led, query_time)
    for i in range(led):
        end = blocks.end[block_of(ranking.order, lanes.rows[i])]
        if lanes.scores[i] < scorer.search.target[i]:
            end = min(end, query_time.now + query_time.cycle_s * scorer.search.at[i])
        scorer.ends[LANES + i] = end
    bound_lanes(scorer, ranking.shard, LANES, led, query_time.since, query_time.cycle_s, lanes.bounds)
    for i in range(led):
        block = block_of(ranking.order, lanes.rows[i])
        _raise_bound(ranking, lanes.rows[i], lanes.bounds[i])
        _end_before(blocks, block, scorer.ends[LANES + i])


@inlined_kernel
def _raise_bound(ranking: RankingArrays, row: int, bound: float) -> None:
    block = block_of(ranking.order, row)
    blocks = ranking.blocks
    if not blocks.bound[block] >= bound:
        blocks.bound[block] = bound
        node = block // NODE_BLOCKS
        blocks.node_bound[node] = max(blocks.node_bound[node], bound)


@inlined_kernel
def _end_before(blocks: Blocks, block: int, time_s: float) -> None:
    if time_s < blocks.end[block]:
        blocks.end[block] = time_s
        node = block // NODE_BLOCKS
        blocks.node_end[node] = min(blocks.node_end[node], time_s)


@inlined_kernel
def _part_of(lanes: Lanes, first: int, stop: int) -> Lanes:
    """Return the lanes of blocks number `first` to `stop`, exclusive."""
    return Lanes(
        lanes.rows[first * BLOCK_ROWS : stop * BLOCK_ROWS],
        lanes.scores[first * BLOCK_ROWS : stop * BLOCK_ROWS],
        lanes.levels[first * BLOCK_ROWS : stop * BLOCK_ROWS],
        lanes.bounds[first * BLOCK_ROWS : stop * BLOCK_ROWS],
        lanes.ends[first:stop],
    )


@bare_kernel
def _take_lanes(ranking: RankingArrays, picked: Ints, query_time: QueryTime, lanes: Lanes) -> None:
    """Gather the pages of at most LEADERS blocks, set rows that are not eligible to -1, and set the ends."""
    order, blocks, scorer = ranking.order, ranking.blocks, ranking.scorer
    pages = ranking.shard.corpus[0].pages
    count = picked.size * BLOCK_ROWS
    for i in range(picked.size):
        first = picked[i] * BLOCK_ROWS
        for lane in range(BLOCK_ROWS):
            lanes.rows[i * BLOCK_ROWS + lane] = row_at(order, first + lane) if first + lane < pages else -1
    gather_lanes(scorer, ranking.shard, lanes.rows[:count])
    for i in range(picked.size):
        scorer.cuts[i] = np.inf
        for lane in range(i * BLOCK_ROWS, (i + 1) * BLOCK_ROWS):
            if lanes.rows[lane] >= 0:
                _admit(ranking, picked[i], query_time, lanes, i, lane)
        _end_lanes(scorer, i, query_time.now + query_time.cycle_s * blocks.reach[picked[i]], lanes)


@inlined_kernel
def _admit(ranking: RankingArrays, block: int, query_time: QueryTime, lanes: Lanes, i: int, lane: int) -> None:
    """Keep a lane if its page is ranked and eligible; end its block's bound before that changes."""
    page: Record = ranking.scorer.pages[lane]
    if (np.int64(page.flags) & ranking.blocks.mask) != ranking.blocks.want:
        lanes.rows[lane] = -1
        return
    until = page_ready_at(ranking, block, lanes.rows[lane], query_time, query_time.now)
    if until > query_time.now:
        lanes.rows[lane] = -1
    else:
        until = overdue_at(page, query_time.limits)
    if until > query_time.now:
        ranking.scorer.cuts[i] = min(ranking.scorer.cuts[i], until)


@inlined_kernel
def _end_lanes(scorer: BlockScorer, i: int, end: float, lanes: Lanes) -> None:
    """Let the bounds of block number `i` hold until `end`, or for ever if none of its pages is eligible."""
    lanes.ends[i] = scorer.cuts[i]
    for lane in range(i * BLOCK_ROWS, (i + 1) * BLOCK_ROWS):
        scorer.ends[lane] = end
        if lanes.rows[lane] >= 0:
            lanes.ends[i] = min(end, scorer.cuts[i])


@bare_kernel
def _bound_eligible(ranking: RankingArrays, count: int, query_time: QueryTime, lanes: Lanes) -> None:
    """Bound the lanes, pages of higher tiers by their levels."""
    scorer = ranking.scorer
    bound_lanes(scorer, ranking.shard, 0, count, query_time.since, query_time.cycle_s, lanes.bounds)
    for lane in range(count):
        if lanes.rows[lane] >= 0:
            overdue = overdue_at(scorer.pages[lane], query_time.limits)
            if overdue <= query_time.now:
                lanes.bounds[lane] = overdue_level(overdue, scorer.ends[lane])


@bare_kernel
def _look_ahead(ranking: RankingArrays, picked: Ints, query_time: QueryTime, lanes: Lanes) -> None:
    """Choose how far blocks look ahead from their scores and a first bound: until one of their pages is needed."""
    blocks, scorer = ranking.blocks, ranking.scorer
    led = 0
    for i in range(picked.size):
        target = target_of(ranking, picked[i], query_time)
        leader = _find_leader(scorer, i, query_time, target, lanes)
        if leader >= 0:
            move_lane(scorer, leader, LANES + led)
            score = -np.inf if np.isnan(lanes.scores[leader]) else lanes.scores[leader]
            ahead = (scorer.ends[leader] - query_time.now) / query_time.cycle_s
            scorer.search.target[led] = target
            begin_search(scorer, led, query_time, score, lanes.bounds[leader], ahead)
            scorer.search.block[led] = i
            led += 1
    if not led:
        return
    search_ends(scorer, ranking.shard, led, query_time)
    for j in range(led):
        i = int(scorer.search.block[j])
        blocks.reach[picked[i]] = scorer.search.at[j]
        _end_lanes(scorer, i, query_time.now + query_time.cycle_s * blocks.reach[picked[i]], lanes)


@inlined_kernel
def _find_leader(scorer: BlockScorer, i: int, query_time: QueryTime, target: float, lanes: Lanes) -> int:
    """Return the lane of the page that will be needed first, of those not needed now; -1 if there is none."""
    leader, first = -1, np.inf
    ahead = (scorer.ends[i * BLOCK_ROWS] - query_time.now) / query_time.cycle_s
    for lane in range(i * BLOCK_ROWS, (i + 1) * BLOCK_ROWS):
        if lanes.rows[lane] < 0 or lanes.scores[lane] >= target:
            continue
        score = lanes.scores[lane]
        rise = (lanes.bounds[lane] - score) / ahead + query_time.fall
        meeting = (target - score) / rise if rise > 0.0 else np.inf
        if np.isnan(meeting):
            meeting = 0.0 if lanes.bounds[lane] > target else np.inf
        if leader < 0 or meeting < first:
            leader, first = lane, meeting
    return leader


class ParallelRefresh:
    """The block scorers of one formula, one for each thread. For one call at a time."""

    def __init__(self, formula: Formula, threads: int | None) -> None:
        count = min(threads or os.cpu_count() or 1, _MOST)
        self.scorer, *self._others = (make_block_scorer(formula) for _ in range(count))
        self._pool: ThreadPoolExecutor | None = None

    def open(self, ranking: RankingArrays, picked: Ints, query_time: QueryTime, lanes: Lanes) -> None:
        """Open the blocks ``picked``: int64[m], each at most once; see `refresh_blocks`. O(m)."""
        if not self._others or picked.size < _FEWEST_BLOCKS:
            refresh_blocks(ranking, picked, query_time, lanes)
            return
        if self._pool is None:
            self._pool = ThreadPoolExecutor(1, "streamsched-opening")
        middle = picked.size // (2 * LEADERS) * LEADERS
        theirs = ranking._replace(scorer=self._others[0])
        back = slice_lanes(lanes, middle, picked.size)
        opened = self._pool.submit(refresh_blocks, theirs, picked[middle:], query_time, back)
        refresh_blocks(ranking, picked[:middle], query_time, slice_lanes(lanes, 0, middle))
        opened.result()
