"""Opening blocks: scoring their pages now, and bounding them for as long as they will not be asked for."""

from __future__ import annotations

import numpy as np

from streamsched.numerics.arrays import Ints, Record
from streamsched.numerics.jit import bare_kernel, inlined_kernel
from streamsched.politeness.limits import overdue_at
from streamsched.ranking.block_bounds import (
    NODE_BLOCKS,
    Blocks,
    Lanes,
    RankingArrays,
    overdue_level,
    rest_within,
    target_of,
)
from streamsched.ranking.block_layout import BLOCK_ROWS, block_of, row_at
from streamsched.ranking.block_scorer import (
    LANES,
    LEADERS,
    BlockScorer,
    bound_lanes,
    gather_lanes,
    move_lane,
    score_lanes,
)
from streamsched.ranking.bound_expiry import QueryTime, begin_search, search_ends
from streamsched.records.schema import LEASED, OUT

__all__ = ["raise_bounds", "refresh_blocks"]


@bare_kernel
def refresh_blocks(stage: RankingArrays, picked: Ints, moment: QueryTime, lanes: Lanes) -> None:
    """Score the pages of the blocks ``picked``: int64[m], and bound them, into `lanes`: BLOCK_ROWS of them each. O(m).

    Lanes of pages that are not eligible get row -1. The blocks count as opened until they are settled. From a first
    bound follows how far ahead to look, for a second.
    """
    scorer = stage.scorer
    for start in range(0, picked.size, LEADERS):
        part = picked[start : start + LEADERS]
        own = _part_of(lanes, start, start + part.size)
        count = part.size * BLOCK_ROWS
        _take_lanes(stage, part, moment, own)
        score_lanes(scorer, stage.shard, 0, count, moment.now, moment.cycle_s, own.scores)
        if moment.target > -np.inf:
            bound_lanes(scorer, stage.shard, 0, count, moment.since, moment.cycle_s, own.bounds)
            _look_ahead(stage, part, moment, own)
        _bound_eligible(stage, count, moment, own)
        for lane in range(count):
            if own.rows[lane] >= 0:
                overdue = overdue_at(scorer.pages[lane], moment.limits)
                hasty = overdue <= moment.now
                own.levels[lane] = overdue_level(overdue, moment.now) if hasty else own.scores[lane]
        for i in range(part.size):
            stage.blocks.opened[part[i]] = 1


@bare_kernel
def raise_bounds(stage: RankingArrays, rows: Ints, moment: QueryTime, lanes: Lanes) -> None:
    """Raise the bounds of the blocks of ``rows``: int64[m], whose pages have changed, where they must be. O(m).

    Where that would let a block be opened at once, though the page is to be asked for later, its bound ends before.
    """
    shard, order, blocks, scorer = stage.shard, stage.order, stage.blocks, stage.scorer
    count = 0
    for i in range(rows.size):
        block = block_of(order, rows[i])
        page: Record = shard.pages.records[rows[i]]
        if blocks.end[block] > moment.now and (np.int64(page.flags) & blocks.mask) == blocks.want:
            lanes.rows[count] = rows[i]
            scorer.ends[count] = blocks.end[block]
            count += 1
        if count == LANES or (i == rows.size - 1 and count):
            gather_lanes(scorer, shard, lanes.rows[:count])
            bound_lanes(scorer, shard, 0, count, moment.since, moment.cycle_s, lanes.bounds)
            _raise_bounds(stage, count, moment, lanes)
            count = 0


@bare_kernel
def _raise_bounds(stage: RankingArrays, count: int, moment: QueryTime, lanes: Lanes) -> None:
    """Let the bounds of the blocks of ``lanes.rows``: int64[count] hold for these pages, too."""
    led = 0
    for lane in range(count):
        row, bound = lanes.rows[lane], lanes.bounds[lane]
        if _is_settled(stage, row, moment):
            continue
        if -np.inf < target_of(stage, block_of(stage.order, row), moment) < bound:
            move_lane(stage.scorer, lane, LANES + led)
            lanes.rows[led] = row  # no lane before this one is read again
            lanes.bounds[led] = bound
            led += 1
            if led == LEADERS:
                _raise_later(stage, led, moment, lanes)
                led = 0
        else:
            _raise_bound(stage, row, bound)
    _raise_later(stage, led, moment, lanes)


@inlined_kernel
def _is_settled(stage: RankingArrays, row: int, moment: QueryTime) -> bool:
    """Let a block's bound not outlast what will change of a page; return whether that is all there is to say of it."""
    shard, blocks = stage.shard, stage.blocks
    block = block_of(stage.order, row)
    ended = (shard.pages.records[row].flags & (LEASED | OUT)) == LEASED  # its lease, as was told, though not by `now`
    at = max(moment.now, shard.pages.lease_until_s[row]) if ended else moment.now
    rest = rest_within(stage, block, row, moment, at)
    overdue = overdue_at(shard.pages.records[row], moment.limits)
    if rest > moment.now:
        _end_before(blocks, block, rest)
        return True
    if overdue > moment.now:
        _end_before(blocks, block, overdue)
        return False
    _raise_bound(stage, row, overdue_level(overdue, blocks.end[block]))
    return True


@bare_kernel
def _raise_later(stage: RankingArrays, led: int, moment: QueryTime, lanes: Lanes) -> None:
    """Raise the bounds of the blocks of the first `led` of `lanes.rows`, whose records are those of the leaders."""
    scorer, blocks = stage.scorer, stage.blocks
    if not led:
        return
    score_lanes(scorer, stage.shard, LANES, led, moment.now, moment.cycle_s, lanes.scores)
    for i in range(led):
        block = block_of(stage.order, lanes.rows[i])
        scorer.search.target[i] = target_of(stage, block, moment)
        ahead = (blocks.end[block] - moment.now) / moment.cycle_s
        begin_search(scorer, i, moment, lanes.scores[i], lanes.bounds[i], ahead)
    search_ends(scorer, stage.shard, led, moment)
    for i in range(led):
        end = blocks.end[block_of(stage.order, lanes.rows[i])]
        if lanes.scores[i] < scorer.search.target[i]:
            end = min(end, moment.now + moment.cycle_s * scorer.search.at[i])
        scorer.ends[LANES + i] = end
    bound_lanes(scorer, stage.shard, LANES, led, moment.since, moment.cycle_s, lanes.bounds)
    for i in range(led):
        block = block_of(stage.order, lanes.rows[i])
        _raise_bound(stage, lanes.rows[i], lanes.bounds[i])
        _end_before(blocks, block, scorer.ends[LANES + i])


@inlined_kernel
def _raise_bound(stage: RankingArrays, row: int, bound: float) -> None:
    block = block_of(stage.order, row)
    blocks = stage.blocks
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
    """Return the lanes of blocks number `first` up to `stop`."""
    return Lanes(
        lanes.rows[first * BLOCK_ROWS : stop * BLOCK_ROWS],
        lanes.scores[first * BLOCK_ROWS : stop * BLOCK_ROWS],
        lanes.levels[first * BLOCK_ROWS : stop * BLOCK_ROWS],
        lanes.bounds[first * BLOCK_ROWS : stop * BLOCK_ROWS],
        lanes.ends[first:stop],
    )


@bare_kernel
def _take_lanes(stage: RankingArrays, picked: Ints, moment: QueryTime, lanes: Lanes) -> None:
    """Gather the pages of at most LEADERS blocks; set rows of those that must not be handed out to -1, and the ends."""
    order, blocks, scorer = stage.order, stage.blocks, stage.scorer
    pages = stage.shard.corpus[0].pages
    count = picked.size * BLOCK_ROWS
    for i in range(picked.size):
        first = picked[i] * BLOCK_ROWS
        for lane in range(BLOCK_ROWS):
            lanes.rows[i * BLOCK_ROWS + lane] = row_at(order, first + lane) if first + lane < pages else -1
    gather_lanes(scorer, stage.shard, lanes.rows[:count])
    for i in range(picked.size):
        scorer.cuts[i] = np.inf
        for lane in range(i * BLOCK_ROWS, (i + 1) * BLOCK_ROWS):
            if lanes.rows[lane] >= 0:
                _admit(stage, picked[i], moment, lanes, i, lane)
        _end_lanes(scorer, i, moment.now + moment.cycle_s * blocks.reach[picked[i]], lanes)


@inlined_kernel
def _admit(stage: RankingArrays, block: int, moment: QueryTime, lanes: Lanes, i: int, lane: int) -> None:
    """Keep a lane if its page counts and may be handed out; let its block's bound end before that changes."""
    page: Record = stage.scorer.pages[lane]
    if (np.int64(page.flags) & stage.blocks.mask) != stage.blocks.want:
        lanes.rows[lane] = -1
        return
    until = rest_within(stage, block, lanes.rows[lane], moment, moment.now)
    if until > moment.now:
        lanes.rows[lane] = -1
    else:
        until = overdue_at(page, moment.limits)
    if until > moment.now:
        stage.scorer.cuts[i] = min(stage.scorer.cuts[i], until)


@inlined_kernel
def _end_lanes(scorer: BlockScorer, i: int, end: float, lanes: Lanes) -> None:
    """Let the bounds of block number `i` hold until `end`, or for ever where none of its pages is eligible."""
    lanes.ends[i] = scorer.cuts[i]
    for lane in range(i * BLOCK_ROWS, (i + 1) * BLOCK_ROWS):
        scorer.ends[lane] = end
        if lanes.rows[lane] >= 0:
            lanes.ends[i] = min(end, scorer.cuts[i])


@bare_kernel
def _bound_eligible(stage: RankingArrays, count: int, moment: QueryTime, lanes: Lanes) -> None:
    """Bound the lanes, those of pages that go before others by their haste."""
    scorer = stage.scorer
    bound_lanes(scorer, stage.shard, 0, count, moment.since, moment.cycle_s, lanes.bounds)
    for lane in range(count):
        if lanes.rows[lane] >= 0:
            overdue = overdue_at(scorer.pages[lane], moment.limits)
            if overdue <= moment.now:
                lanes.bounds[lane] = overdue_level(overdue, scorer.ends[lane])


@bare_kernel
def _look_ahead(stage: RankingArrays, picked: Ints, moment: QueryTime, lanes: Lanes) -> None:
    """Let blocks look ahead until one of their pages is to be asked for, from their scores and a first bound."""
    blocks, scorer = stage.blocks, stage.scorer
    led = 0
    for i in range(picked.size):
        target = target_of(stage, picked[i], moment)
        leader = _find_leader(scorer, i, moment, target, lanes)
        if leader >= 0:
            move_lane(scorer, leader, LANES + led)
            score = -np.inf if np.isnan(lanes.scores[leader]) else lanes.scores[leader]
            ahead = (scorer.ends[leader] - moment.now) / moment.cycle_s
            scorer.search.target[led] = target
            begin_search(scorer, led, moment, score, lanes.bounds[leader], ahead)
            scorer.search.block[led] = i
            led += 1
    if not led:
        return
    search_ends(scorer, stage.shard, led, moment)
    for j in range(led):
        i = int(scorer.search.block[j])
        blocks.reach[picked[i]] = scorer.search.at[j]
        _end_lanes(scorer, i, moment.now + moment.cycle_s * blocks.reach[picked[i]], lanes)


@inlined_kernel
def _find_leader(scorer: BlockScorer, i: int, moment: QueryTime, target: float, lanes: Lanes) -> int:
    """Return the lane of the page that will be asked for first, of those that are not to be now; -1 for none."""
    leader, first = -1, np.inf
    ahead = (scorer.ends[i * BLOCK_ROWS] - moment.now) / moment.cycle_s
    for lane in range(i * BLOCK_ROWS, (i + 1) * BLOCK_ROWS):
        if lanes.rows[lane] < 0 or lanes.scores[lane] >= target:
            continue
        score = lanes.scores[lane]
        rise = (lanes.bounds[lane] - score) / ahead + moment.fall
        meeting = (target - score) / rise if rise > 0.0 else np.inf
        if np.isnan(meeting):
            meeting = 0.0 if lanes.bounds[lane] > target else np.inf
        if leader < 0 or meeting < first:
            leader, first = lane, meeting
    return leader
