"""Bounds of blocks of pages: what no eligible page's score in a block exceeds until a stated time, and who opens them.

A bound is told for times from the ranking's clock up to its end: -inf where all scores are NaN or -inf, NaN where no
page of the block is eligible at all. A bound whose end has come says nothing. How far ahead a block looks is its
reach; it shrinks where a block was opened in vain and grows where its bound ran out far
below what was asked for. Nodes sum up 64 blocks each, so that a query passes over blocks that do not matter.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from streamsched.arrays import Bytes, Floats, Ints, Record
from streamsched.eligibility import rest_until
from streamsched.gauge import LANES, Gauge, bound_lanes, gather_lanes, score_lanes
from streamsched.jit import bare_kernel, inlined, mix
from streamsched.memory import Region
from streamsched.politeness import Limits, host_room, overdue_at
from streamsched.selection import Room
from streamsched.shelves import BLOCK_ROWS, MIXED, Order, block_of, row_at
from streamsched.tables import LEASED, OUT, Tables

__all__ = [
    "GREATEST_REACH",
    "NODE_BLOCKS",
    "Blocks",
    "BoundTable",
    "Lanes",
    "absorb",
    "list_due",
    "list_hot",
    "open_blocks",
    "renew",
    "settle",
]

NODE_BLOCKS: Final = 64
FIRST_REACH: Final = 1 / 32  # cycles that a block looks ahead at first, or up to twice as many: an hour of a day
LEAST_REACH: Final = 1e-7  # a hundredth of a second of a day
GREATEST_REACH: Final = 1e12  # past all clocks
_LEAST_PART: Final = 1 / 256  # of its reach that a block may look ahead the next time
_GREATEST_PART: Final = 8.0
_AT_ONCE: Final = LANES // BLOCK_ROWS
_RESERVED_BLOCKS: Final = (1 << 27) // BLOCK_ROWS


class Blocks(NamedTuple):
    """The bounds as kernels take them."""

    bound: Floats  # float64[blocks]
    end: Floats  # float64[blocks]: until when it holds, UTC epoch seconds; -inf where it is not known
    reach: npt.NDArray[np.float32]  # float32[blocks]: cycles
    opened: Bytes  # uint8[blocks]: 1 while a query has opened the block
    node_bound: Floats  # float64[nodes]: the greatest of the blocks', -inf where there is none
    node_end: Floats  # float64[nodes]: the first of the blocks'
    mask: int  # pages count if (flags & mask) == want
    want: int


class Lanes(NamedTuple):
    """The pages of opened blocks, BLOCK_ROWS a block, and when each block's bounds end."""

    rows: Ints  # int64[m]; -1 where the block has no page there, or one that must not be handed out now
    scores: Floats  # float64[m]
    bounds: Floats  # float64[m]
    ends: Floats  # float64[blocks opened]


class Moment(NamedTuple):
    """When blocks are looked at, and which score will probably be asked for later: reaches are chosen for that."""

    now: float
    cycle_s: float
    target: float  # at the next query; -inf where nothing is known of it
    fall: float  # of the target, a cycle: as pages are served, worse ones get their turn
    step: float  # cycles from one query to the next
    limits: Limits
    lease_s: float


class Stage(NamedTuple):
    """A shard and a ranking of its pages, as kernels take them."""

    tables: Tables
    order: Order
    blocks: Blocks
    gauge: Gauge


class BoundTable:
    """The bounds of one ranking: 21 bytes a block, 2.7 a page."""

    def __init__(self, mask: int = 0, want: int = 0) -> None:
        self.blocks = 0
        self._flags = mask, want
        self._bound = Region(np.float64, _RESERVED_BLOCKS)
        self._end = Region(np.float64, _RESERVED_BLOCKS)
        self._reach = Region(np.float32, _RESERVED_BLOCKS)
        self._opened = Region(np.uint8, _RESERVED_BLOCKS)
        self._node_bound = Region(np.float64, _RESERVED_BLOCKS // NODE_BLOCKS)
        self._node_end = Region(np.float64, _RESERVED_BLOCKS // NODE_BLOCKS)

    @property
    def arrays(self) -> Blocks:
        """The bounds as kernels take them, valid until the next `cover`."""
        nodes = -(-self.blocks // NODE_BLOCKS)
        return Blocks(
            self._bound.array[: self.blocks],
            self._end.array[: self.blocks],
            self._reach.array[: self.blocks],
            self._opened.array[: self.blocks],
            self._node_bound.array[:nodes],
            self._node_end.array[:nodes],
            *self._flags,
        )

    def cover(self, blocks: int, first: int = 0) -> None:
        """Make room for `blocks` blocks; forget the bounds of those from `first` on. O(blocks - first)."""
        before, self.blocks = self.blocks, blocks
        for region in (self._bound, self._end, self._reach, self._opened):
            region.ensure(blocks)
        for region in (self._node_bound, self._node_end):
            region.ensure(blocks // NODE_BLOCKS + 1)
        if blocks > before:
            _begin_reaches(self._reach.array[before:blocks], before)
        if first < blocks:
            self._end.array[first:blocks] = -np.inf
            self._node_end.array[first // NODE_BLOCKS : -(-blocks // NODE_BLOCKS)] = -np.inf

    def nbytes(self) -> int:
        """Return the bytes of memory in use."""
        return 21 * self.blocks + 16 * (self.blocks // NODE_BLOCKS + 1)


@bare_kernel
def renew(stage: Stage, picked: Ints, moment: Moment, lanes: Lanes) -> None:
    """Bound the blocks ``picked``: int64[m] anew from now on. O(m). `lanes` need room for LANES pages."""
    blocks = stage.blocks
    for start in range(0, picked.size, _AT_ONCE):
        part = picked[start : start + _AT_ONCE]
        _take_lanes(stage, part, moment, lanes, False)
        for i in range(part.size):
            _store(blocks, part[i], lanes, i)
        _sum_up_all(blocks, part)


@bare_kernel
def open_blocks(stage: Stage, picked: Ints, moment: Moment, lanes: Lanes) -> None:
    """Score the pages of the blocks ``picked``: int64[m], and bound them, into `lanes`: BLOCK_ROWS of them each. O(m).

    Lanes of pages that are not eligible get row -1. The blocks count as opened until they are settled. From a first
    bound follows how far ahead to look, for a second.
    """
    blocks, gauge = stage.blocks, stage.gauge
    for start in range(0, picked.size, _AT_ONCE):
        part = picked[start : start + _AT_ONCE]
        own = _part_of(lanes, start, start + part.size)
        _take_lanes(stage, part, moment, own, True)
        for i in range(part.size):
            blocks.opened[part[i]] = 1
            if _choose_reach(blocks, part[i], moment, own, i):
                end = _look_ahead(blocks, part[i], moment)
                own.ends[i] = min(end, gauge.cuts[i])
                for lane in range(i * BLOCK_ROWS, (i + 1) * BLOCK_ROWS):
                    gauge.ends[lane] = end
        _bound_lanes(gauge, part.size * BLOCK_ROWS, moment, own)


@bare_kernel
def settle(tables: Tables, blocks: Blocks, picked: Ints, lanes: Lanes, moment: Moment, bar: float) -> None:
    """Keep the bounds of the opened blocks ``picked``: int64[m], of those pages that are eligible still. O(m).

    `bar`: what the last page of the answer scored: none below it can have been leased since.
    """
    for i in range(picked.size):
        for lane in range(i * BLOCK_ROWS, (i + 1) * BLOCK_ROWS):
            if lanes.rows[lane] >= 0 and not lanes.scores[lane] < bar:
                rest = rest_until(tables, lanes.rows[lane], moment.limits, moment.now)
                if rest > moment.now:
                    lanes.rows[lane] = -1
                    lanes.ends[i] = min(lanes.ends[i], rest)
        _store(blocks, picked[i], lanes, i)
        blocks.opened[picked[i]] = 0
    _sum_up_all(blocks, picked)


@bare_kernel
def absorb(stage: Stage, rows: Ints, moment: Moment, lanes: Lanes) -> None:
    """Raise the bounds of the blocks of ``rows``: int64[m], whose pages have changed, where they must be. O(m)."""
    tables, order, blocks, gauge = stage.tables, stage.order, stage.blocks, stage.gauge
    count = 0
    for i in range(rows.size):
        block = block_of(order, rows[i])
        if blocks.end[block] > moment.now and (np.int64(tables.pages[rows[i]].flags) & blocks.mask) == blocks.want:
            lanes.rows[count] = rows[i]
            gauge.ends[count] = blocks.end[block]
            count += 1
        if count == LANES or (i == rows.size - 1 and count):
            gather_lanes(gauge, tables, lanes.rows[:count])
            bound_lanes(gauge, moment.now, gauge.ends[:count], moment.cycle_s, lanes.bounds)
            for lane in range(count):
                _raise_bound(stage, lanes.rows[lane], lanes.bounds[lane], moment)
            count = 0


@inlined
def _raise_bound(stage: Stage, row: int, bound: float, moment: Moment) -> None:
    """Let a block's bound hold for a page with `bound`, too."""
    tables, order, blocks = stage.tables, stage.order, stage.blocks
    block = block_of(order, row)
    node = block // NODE_BLOCKS
    ended = (tables.pages[row].flags & (LEASED | OUT)) == LEASED  # its lease, as was told, though not by `now`
    rest = rest_until(tables, row, moment.limits, max(moment.now, tables.lease_until_s[row]) if ended else moment.now)
    overdue = overdue_at(tables.pages[row], moment.limits)
    if rest > moment.now:  # it will be eligible again: what is said of the block may not outlast that
        overdue = rest
    elif overdue <= moment.now:
        bound = np.inf
    if not rest > moment.now and not blocks.bound[block] >= bound:
        blocks.bound[block] = bound
        blocks.node_bound[node] = max(blocks.node_bound[node], bound)
    if moment.now < overdue < blocks.end[block]:
        blocks.end[block] = overdue
        blocks.node_end[node] = min(blocks.node_end[node], overdue)


@bare_kernel
def list_due(stage: Stage, moment: Moment, out: Ints) -> int:
    """Write to `out` the blocks whose bounds have ended; return how many there are, at most `out.size`.

    Not those of a host that can give no page now.
    """
    blocks = stage.blocks
    count = 0
    for node in range(blocks.node_end.size):
        if blocks.node_end[node] <= moment.now:
            for block in range(node * NODE_BLOCKS, min((node + 1) * NODE_BLOCKS, blocks.end.size)):
                if blocks.end[block] <= moment.now and not blocks.opened[block]:
                    if _room_of(stage, block, moment) <= 0:
                        continue
                    if count == out.size:
                        return count
                    out[count] = block
                    count += 1
    return count


@bare_kernel
def list_hot(stage: Stage, moment: Moment, room: Room, bar: float, out: Ints, bounds: Floats) -> int:
    """Write to `out` the blocks that are not open and may hold a page that reaches `bar`, and their bounds beside.

    Not those of a host that can give no page, or none but better ones than the block may hold. Returns how many there
    are, at most `out.size`. O(nodes + 64 for each that matters).
    """
    blocks = stage.blocks
    count = 0
    for node in range(blocks.node_bound.size):
        if blocks.node_bound[node] >= bar:
            for block in range(node * NODE_BLOCKS, min((node + 1) * NODE_BLOCKS, blocks.bound.size)):
                if blocks.bound[block] >= bar and not blocks.opened[block]:
                    left = _room_of(stage, block, moment)
                    if left <= 0 or _is_outdone(stage, block, left, room):
                        continue
                    if count == out.size:
                        return count
                    out[count] = block
                    bounds[count] = blocks.bound[block]
                    count += 1
    return count


@inlined
def _room_of(stage: Stage, block: int, moment: Moment) -> int:
    """Return how many pages a batch may have of a block's host; any number where it has several."""
    host = stage.order.hosts[block]
    if host == MIXED:
        return BLOCK_ROWS
    return host_room(stage.tables.groups[host], moment.limits, moment.now, moment.lease_s)


@inlined
def _is_outdone(stage: Stage, block: int, left: int, room: Room) -> bool:
    """Return whether the batch has as many pages of the block's host as it may, and all better than the block's."""
    host = stage.order.hosts[block]
    return bool(host != MIXED and room.used[host] >= left and stage.blocks.bound[block] < room.least[host])


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
def _begin_reaches(reach: npt.NDArray[np.float32], first: int) -> None:
    """Let blocks from number `first` on look ahead each as far as no other, so that not all bounds end at once."""
    for i in range(reach.size):
        part = float(np.int64(mix(np.uint64(first + i)) >> np.uint64(11))) * 2.0**-53
        reach[i] = FIRST_REACH * (1.0 + part)


@inlined
def _look_ahead(blocks: Blocks, block: int, moment: Moment) -> float:
    """Return the time to which a block looks ahead."""
    return float(moment.now + moment.cycle_s * blocks.reach[block])


@bare_kernel
def _take_lanes(stage: Stage, picked: Ints, moment: Moment, lanes: Lanes, scored: bool) -> None:
    """Fill the lanes of at most _AT_ONCE blocks."""
    tables, order, blocks, gauge = stage.tables, stage.order, stage.blocks, stage.gauge
    pages = tables.corpus[0].pages
    now = moment.now
    count = picked.size * BLOCK_ROWS
    for i in range(picked.size):
        first = picked[i] * BLOCK_ROWS
        end = _look_ahead(blocks, picked[i], moment)
        for lane in range(BLOCK_ROWS):
            lanes.rows[i * BLOCK_ROWS + lane] = row_at(order, first + lane) if first + lane < pages else -1
            gauge.ends[i * BLOCK_ROWS + lane] = end
    gather_lanes(gauge, tables, lanes.rows[:count])
    for i in range(picked.size):
        lanes.ends[i] = gauge.cuts[i] = np.inf  # where no page is eligible, until one will be
        for lane in range(i * BLOCK_ROWS, (i + 1) * BLOCK_ROWS):
            if lanes.rows[lane] >= 0:
                _admit(stage, moment, lanes, i, lane)
        lanes.ends[i] = min(lanes.ends[i], gauge.cuts[i])
    if scored:
        score_lanes(gauge, count, now, moment.cycle_s, lanes.scores)
    _bound_lanes(gauge, count, moment, lanes)
    if scored:
        for lane in range(count):
            if lanes.rows[lane] >= 0 and overdue_at(gauge.pages[lane], moment.limits) <= now:
                lanes.scores[lane] = np.inf


@inlined
def _admit(stage: Stage, moment: Moment, lanes: Lanes, i: int, lane: int) -> None:
    """Keep a lane if its page counts and may be handed out; let its block's bound end before that changes."""
    page: Record = stage.gauge.pages[lane]
    if (np.int64(page.flags) & stage.blocks.mask) != stage.blocks.want:
        lanes.rows[lane] = -1
        return
    until = rest_until(stage.tables, lanes.rows[lane], moment.limits, moment.now)
    if until > moment.now:
        lanes.rows[lane] = -1
    else:
        lanes.ends[i] = min(lanes.ends[i], stage.gauge.ends[lane])
        until = overdue_at(page, moment.limits)
    if until > moment.now:
        stage.gauge.cuts[i] = min(stage.gauge.cuts[i], until)


@bare_kernel
def _bound_lanes(gauge: Gauge, count: int, moment: Moment, lanes: Lanes) -> None:
    bound_lanes(gauge, moment.now, gauge.ends[:count], moment.cycle_s, lanes.bounds)
    for lane in range(count):
        if lanes.rows[lane] >= 0 and overdue_at(gauge.pages[lane], moment.limits) <= moment.now:
            lanes.bounds[lane] = np.inf


@inlined
def _choose_reach(blocks: Blocks, block: int, moment: Moment, lanes: Lanes, i: int) -> bool:
    """Choose how far a block should look ahead, from its best score now and its bound; return whether that is known.

    Until the target, which falls, meets the straight line from the one to the other.
    """
    best, bound = -np.inf, -np.inf
    for lane in range(i * BLOCK_ROWS, (i + 1) * BLOCK_ROWS):
        if lanes.rows[lane] >= 0:
            best = max(best, lanes.scores[lane]) if not np.isnan(lanes.scores[lane]) else best
            bound = max(bound, lanes.bounds[lane])
    if not -np.inf < best < moment.target or not best < bound:
        return False
    ahead = (lanes.ends[i] - moment.now) / moment.cycle_s
    rise = (bound - best) / ahead
    meeting = (moment.target - best) / (rise + moment.fall)
    least = 0.5 * moment.step * (1.0 + moment.fall / rise)  # in which it rises by half of a query's share of scores
    wanted = max(meeting, least)
    if not wanted > ahead * _LEAST_PART:  # NaN and 0 where the bound is infinite
        wanted = ahead * _LEAST_PART
    blocks.reach[block] = min(max(min(wanted, _GREATEST_PART * ahead), LEAST_REACH), GREATEST_REACH)  # lines bend
    return True


@inlined
def _store(blocks: Blocks, block: int, lanes: Lanes, i: int) -> None:
    """Set the bound of a block from its lanes, which are those of place `i`."""
    bound = np.nan
    for lane in range(i * BLOCK_ROWS, (i + 1) * BLOCK_ROWS):
        if lanes.rows[lane] >= 0 and not bound >= lanes.bounds[lane]:
            bound = lanes.bounds[lane]
    blocks.bound[block] = bound
    blocks.end[block] = lanes.ends[i]


@bare_kernel
def _sum_up_all(blocks: Blocks, picked: Ints) -> None:
    """Renew what the nodes of the blocks ``picked``: int64[m] say of them."""
    for i in range(picked.size):
        if i == picked.size - 1 or picked[i] // NODE_BLOCKS != picked[i + 1] // NODE_BLOCKS:
            _sum_up(blocks, picked[i] // NODE_BLOCKS)


@bare_kernel
def _sum_up(blocks: Blocks, node: int) -> None:
    bound, end = -np.inf, np.inf
    for block in range(node * NODE_BLOCKS, min((node + 1) * NODE_BLOCKS, blocks.bound.size)):
        bound = max(bound, blocks.bound[block])
        end = min(end, blocks.end[block])
    blocks.node_bound[node] = bound
    blocks.node_end[node] = end
