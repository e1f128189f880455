"""Opening blocks: scoring their pages now, and bounding them for as long as they will not be asked for."""

from __future__ import annotations

import numpy as np

from streamsched.numerics.arrays import Ints, Record
from streamsched.numerics.jit import bare_kernel, inlined
from streamsched.politeness.eligibility import haste
from streamsched.politeness.limits import overdue_at
from streamsched.ranking.block_bounds import NODE_BLOCKS, Blocks, Lanes, Stage, rest_within, target_of
from streamsched.ranking.block_layout import BLOCK_ROWS, block_of, row_at
from streamsched.ranking.block_scorer import LANES, LEADERS, Gauge, bound_lanes, gather_lanes, move_lane, score_lanes
from streamsched.ranking.bound_expiry import Moment, begin_search, search_ends
from streamsched.records.schema import LEASED, OUT

__all__ = ["absorb", "open_blocks"]


@bare_kernel
def open_blocks(stage: Stage, picked: Ints, moment: Moment, lanes: Lanes) -> None:
    """Score the pages of the blocks ``picked``: int64[m], and bound them, into `lanes`: BLOCK_ROWS of them each. O(m).

    Lanes of pages that are not eligible get row -1. The blocks count as opened until they are settled. From a first
    bound follows how far ahead to look, for a second.
    """
    gauge = stage.gauge
    for start in range(0, picked.size, LEADERS):
        part = picked[start : start + LEADERS]
        own = _part_of(lanes, start, start + part.size)
        count = part.size * BLOCK_ROWS
        _take_lanes(stage, part, moment, own)
        score_lanes(gauge, stage.tables, 0, count, moment.now, moment.cycle_s, own.scores)
        if moment.target > -np.inf:
            bound_lanes(gauge, stage.tables, 0, count, moment.since, moment.cycle_s, own.bounds)
            _look_ahead(stage, part, moment, own)
        _bound_eligible(stage, count, moment, own)
        for lane in range(count):
            if own.rows[lane] >= 0:
                overdue = overdue_at(gauge.pages[lane], moment.limits)
                if overdue <= moment.now:
                    own.scores[lane] = haste(overdue, moment.now)
        for i in range(part.size):
            stage.blocks.opened[part[i]] = 1


@bare_kernel
def absorb(stage: Stage, rows: Ints, moment: Moment, lanes: Lanes) -> None:
    """Raise the bounds of the blocks of ``rows``: int64[m], whose pages have changed, where they must be. O(m).

    Where that would let a block be opened at once, though the page is to be asked for later, its bound ends before.
    """
    tables, order, blocks, gauge = stage.tables, stage.order, stage.blocks, stage.gauge
    count = 0
    for i in range(rows.size):
        block = block_of(order, rows[i])
        page: Record = tables.pages[rows[i]]
        if blocks.end[block] > moment.now and (np.int64(page.flags) & blocks.mask) == blocks.want:
            lanes.rows[count] = rows[i]
            gauge.ends[count] = blocks.end[block]
            count += 1
        if count == LANES or (i == rows.size - 1 and count):
            gather_lanes(gauge, tables, lanes.rows[:count])
            bound_lanes(gauge, tables, 0, count, moment.since, moment.cycle_s, lanes.bounds)
            _raise_bounds(stage, count, moment, lanes)
            count = 0


@bare_kernel
def _raise_bounds(stage: Stage, count: int, moment: Moment, lanes: Lanes) -> None:
    """Let the bounds of the blocks of ``lanes.rows``: int64[count] hold for these pages, too."""
    led = 0
    for lane in range(count):
        row, bound = lanes.rows[lane], lanes.bounds[lane]
        if _is_settled(stage, row, moment):
            continue
        if -np.inf < target_of(stage, block_of(stage.order, row), moment) < bound:
            move_lane(stage.gauge, lane, LANES + led)
            lanes.rows[led] = row  # no lane before this one is read again
            lanes.bounds[led] = bound
            led += 1
            if led == LEADERS:
                _raise_later(stage, led, moment, lanes)
                led = 0
        else:
            _raise_bound(stage, row, bound)
    _raise_later(stage, led, moment, lanes)


@inlined
def _is_settled(stage: Stage, row: int, moment: Moment) -> bool:
    """Let a block's bound not outlast what will change of a page; return whether that is all there is to say of it."""
    tables, blocks = stage.tables, stage.blocks
    block = block_of(stage.order, row)
    ended = (tables.pages[row].flags & (LEASED | OUT)) == LEASED  # its lease, as was told, though not by `now`
    at = max(moment.now, tables.lease_until_s[row]) if ended else moment.now
    rest = rest_within(stage, block, row, moment, at)
    overdue = overdue_at(tables.pages[row], moment.limits)
    if rest > moment.now:
        _end_before(blocks, block, rest)
        return True
    if overdue > moment.now:
        _end_before(blocks, block, overdue)
        return False
    _raise_bound(stage, row, haste(overdue, blocks.end[block]))
    return True


@bare_kernel
def _raise_later(stage: Stage, led: int, moment: Moment, lanes: Lanes) -> None:
    """Raise the bounds of the blocks of the first `led` of `lanes.rows`, whose records are those of the leaders."""
    gauge, blocks = stage.gauge, stage.blocks
    if not led:
        return
    score_lanes(gauge, stage.tables, LANES, led, moment.now, moment.cycle_s, lanes.scores)
    for i in range(led):
        block = block_of(stage.order, lanes.rows[i])
        gauge.search.target[i] = target_of(stage, block, moment)
        ahead = (blocks.end[block] - moment.now) / moment.cycle_s
        begin_search(gauge, i, moment, lanes.scores[i], lanes.bounds[i], ahead)
    search_ends(gauge, stage.tables, led, moment)
    for i in range(led):
        end = blocks.end[block_of(stage.order, lanes.rows[i])]
        if lanes.scores[i] < gauge.search.target[i]:
            end = min(end, moment.now + moment.cycle_s * gauge.search.at[i])
        gauge.ends[LANES + i] = end
    bound_lanes(gauge, stage.tables, LANES, led, moment.since, moment.cycle_s, lanes.bounds)
    for i in range(led):
        block = block_of(stage.order, lanes.rows[i])
        _raise_bound(stage, lanes.rows[i], lanes.bounds[i])
        _end_before(blocks, block, gauge.ends[LANES + i])


@inlined
def _raise_bound(stage: Stage, row: int, bound: float) -> None:
    block = block_of(stage.order, row)
    blocks = stage.blocks
    if not blocks.bound[block] >= bound:
        blocks.bound[block] = bound
        node = block // NODE_BLOCKS
        blocks.node_bound[node] = max(blocks.node_bound[node], bound)


@inlined
def _end_before(blocks: Blocks, block: int, time_s: float) -> None:
    if time_s < blocks.end[block]:
        blocks.end[block] = time_s
        node = block // NODE_BLOCKS
        blocks.node_end[node] = min(blocks.node_end[node], time_s)


@inlined
def _part_of(lanes: Lanes, first: int, stop: int) -> Lanes:
    """Return the lanes of blocks number `first` up to `stop`."""
    return Lanes(
        lanes.rows[first * BLOCK_ROWS : stop * BLOCK_ROWS],
        lanes.scores[first * BLOCK_ROWS : stop * BLOCK_ROWS],
        lanes.bounds[first * BLOCK_ROWS : stop * BLOCK_ROWS],
        lanes.ends[first:stop],
    )


@bare_kernel
def _take_lanes(stage: Stage, picked: Ints, moment: Moment, lanes: Lanes) -> None:
    """Gather the pages of at most LEADERS blocks; set rows of those that must not be handed out to -1, and the ends."""
    order, blocks, gauge = stage.order, stage.blocks, stage.gauge
    pages = stage.tables.corpus[0].pages
    count = picked.size * BLOCK_ROWS
    for i in range(picked.size):
        first = picked[i] * BLOCK_ROWS
        for lane in range(BLOCK_ROWS):
            lanes.rows[i * BLOCK_ROWS + lane] = row_at(order, first + lane) if first + lane < pages else -1
    gather_lanes(gauge, stage.tables, lanes.rows[:count])
    for i in range(picked.size):
        gauge.cuts[i] = np.inf
        for lane in range(i * BLOCK_ROWS, (i + 1) * BLOCK_ROWS):
            if lanes.rows[lane] >= 0:
                _admit(stage, picked[i], moment, lanes, i, lane)
        _end_lanes(gauge, i, moment.now + moment.cycle_s * blocks.reach[picked[i]], lanes)


@inlined
def _admit(stage: Stage, block: int, moment: Moment, lanes: Lanes, i: int, lane: int) -> None:
    """Keep a lane if its page counts and may be handed out; let its block's bound end before that changes."""
    page: Record = stage.gauge.pages[lane]
    if (np.int64(page.flags) & stage.blocks.mask) != stage.blocks.want:
        lanes.rows[lane] = -1
        return
    until = rest_within(stage, block, lanes.rows[lane], moment, moment.now)
    if until > moment.now:
        lanes.rows[lane] = -1
    else:
        until = overdue_at(page, moment.limits)
    if until > moment.now:
        stage.gauge.cuts[i] = min(stage.gauge.cuts[i], until)


@inlined
def _end_lanes(gauge: Gauge, i: int, end: float, lanes: Lanes) -> None:
    """Let the bounds of block number `i` hold until `end`, or for ever where none of its pages is eligible."""
    lanes.ends[i] = gauge.cuts[i]
    for lane in range(i * BLOCK_ROWS, (i + 1) * BLOCK_ROWS):
        gauge.ends[lane] = end
        if lanes.rows[lane] >= 0:
            lanes.ends[i] = min(end, gauge.cuts[i])


@bare_kernel
def _bound_eligible(stage: Stage, count: int, moment: Moment, lanes: Lanes) -> None:
    """Bound the lanes, those of pages that go before others by their haste."""
    gauge = stage.gauge
    bound_lanes(gauge, stage.tables, 0, count, moment.since, moment.cycle_s, lanes.bounds)
    for lane in range(count):
        if lanes.rows[lane] >= 0:
            overdue = overdue_at(gauge.pages[lane], moment.limits)
            if overdue <= moment.now:
                lanes.bounds[lane] = haste(overdue, gauge.ends[lane])


@bare_kernel
def _look_ahead(stage: Stage, picked: Ints, moment: Moment, lanes: Lanes) -> None:
    """Let blocks look ahead until one of their pages is to be asked for, from their scores and a first bound."""
    blocks, gauge = stage.blocks, stage.gauge
    led = 0
    for i in range(picked.size):
        target = target_of(stage, picked[i], moment)
        leader = _find_leader(gauge, i, moment, target, lanes)
        if leader >= 0:
            move_lane(gauge, leader, LANES + led)
            score = -np.inf if np.isnan(lanes.scores[leader]) else lanes.scores[leader]
            ahead = (gauge.ends[leader] - moment.now) / moment.cycle_s
            gauge.search.target[led] = target
            begin_search(gauge, led, moment, score, lanes.bounds[leader], ahead)
            gauge.search.block[led] = i
            led += 1
    if not led:
        return
    search_ends(gauge, stage.tables, led, moment)
    for j in range(led):
        i = int(gauge.search.block[j])
        blocks.reach[picked[i]] = gauge.search.at[j]
        _end_lanes(gauge, i, moment.now + moment.cycle_s * blocks.reach[picked[i]], lanes)


@inlined
def _find_leader(gauge: Gauge, i: int, moment: Moment, target: float, lanes: Lanes) -> int:
    """Return the lane of the page that will be asked for first, of those that are not to be now; -1 for none."""
    leader, first = -1, np.inf
    ahead = (gauge.ends[i * BLOCK_ROWS] - moment.now) / moment.cycle_s
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
