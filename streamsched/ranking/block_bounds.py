"""Upper bounds of blocks of pages: no eligible page of a block exceeds its bound until the bound expires.

A bound holds from the ranking's clock until its end. It is -inf if all scores are NaN or -inf, and NaN if no page of
the block is eligible. An expired bound says nothing. The reach of a block is how far it looked ahead when it was last
opened. Nodes summarise NODE_BLOCKS blocks each, so that a query skips blocks that do not matter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from streamsched.numerics.growable_array import GrowableArray
from streamsched.numerics.jit import bare_kernel, inlined_kernel, mix, prefetch
from streamsched.politeness.eligibility import not_before, page_not_before
from streamsched.politeness.limits import host_capacity
from streamsched.ranking.block_layout import BLOCK_ROWS, MIXED, Order
from streamsched.ranking.host_slots import HostUsage, SlotLimits, host_slots_beat

if TYPE_CHECKING:
    from streamsched.numerics.arrays import Bytes, Floats, Ints
    from streamsched.ranking.block_scorer import BlockScorer
    from streamsched.ranking.bound_expiry import QueryTime
    from streamsched.records.schema import ShardArrays

__all__ = [
    "LEAST_OVERDUE_LEVEL",
    "NODE_BLOCKS",
    "Blocks",
    "BoundTable",
    "Lanes",
    "RankingArrays",
    "list_above_bar",
    "list_due",
    "overdue_level",
    "page_ready_at",
    "settle",
    "slice_lanes",
    "store_bound",
    "target_of",
    "update_nodes",
]

NODE_BLOCKS: Final = 16
_PREFETCH_AHEAD: Final = 12  # nodes ahead whose memory is prefetched
_FIRST_REACH: Final = 1 / 32  # cycles that a block looks ahead at first, up to twice that: an hour of a day
LEAST_OVERDUE_LEVEL: Final = 1e290  # above the scores of any useful formula; see `overdue_level`
_RESERVED_BLOCKS: Final = (1 << 27) // BLOCK_ROWS


class Blocks(NamedTuple):
    """Block bounds as kernels read them."""

    bound: Floats  # float64[blocks]
    end: Floats  # float64[blocks]: when it expires, UTC epoch seconds; -inf if there is none
    reach: npt.NDArray[np.float32]  # float32[blocks]: cycles
    opened: Bytes  # uint8[blocks]: 1 while a query has opened the block
    node_bound: Floats  # float64[nodes]: the greatest of the blocks' bounds, -inf if there is none
    node_end: Floats  # float64[nodes]: the earliest of the blocks' ends
    mask: int  # pages are ranked if (flags & mask) == want
    want: int


class Lanes(NamedTuple):
    """Pages of opened blocks, BLOCK_ROWS to a block, and when the bounds of each block end."""

    rows: Ints  # int64[m]; -1 for no page, or a page that is not eligible
    scores: Floats  # float64[m]
    levels: Floats  # float64[m]: what bounds are compared with, see `overdue_level`
    bounds: Floats  # float64[m]
    ends: Floats  # float64[blocks opened]


class RankingArrays(NamedTuple):
    """A shard and a ranking of its pages, as kernels read them."""

    shard: ShardArrays
    order: Order
    blocks: Blocks
    scorer: BlockScorer
    usage: HostUsage


class BoundTable:
    """The bounds of one ranking: 21 bytes a block, 2.7 a page."""

    def __init__(self, mask: int = 0, want: int = 0) -> None:
        self.blocks = 0
        self._flags = mask, want
        self._bound = GrowableArray(np.float64, _RESERVED_BLOCKS)
        self._end = GrowableArray(np.float64, _RESERVED_BLOCKS)
        self._reach = GrowableArray(np.float32, _RESERVED_BLOCKS)
        self._opened = GrowableArray(np.uint8, _RESERVED_BLOCKS)
        self._node_bound = GrowableArray(np.float64, _RESERVED_BLOCKS // NODE_BLOCKS)
        self._node_end = GrowableArray(np.float64, _RESERVED_BLOCKS // NODE_BLOCKS)

    @property
    def arrays(self) -> Blocks:
        """The bounds as kernels read them, valid until the next `cover`."""
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
        """Make room for `blocks` blocks and drop the bounds from block `first` on. O(blocks - first)."""
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
        of_blocks, nodes = (self._bound, self._end, self._reach, self._opened), self.blocks // NODE_BLOCKS + 1
        of_nodes = (self._node_bound, self._node_end)
        return sum(array.resident_bytes(self.blocks) for array in of_blocks) + sum(
            array.resident_bytes(nodes) for array in of_nodes
        )


@inlined_kernel
def overdue_level(overdue_s: float, now: float) -> float:
    """Return the level at `now` of a page overdue since `overdue_s`: inf if it was asked for. O(1).

    Bounds are of levels: a page's score, or this for a page of a higher tier. Levels only select which blocks are
    opened; the pages found are ordered by tier and score.
    """
    return LEAST_OVERDUE_LEVEL * (1.0 + (now - overdue_s))


def slice_lanes(lanes: Lanes, first: int, stop: int) -> Lanes:
    """Return the lanes of blocks number `first` to `stop`, exclusive."""
    part = slice(first * BLOCK_ROWS, stop * BLOCK_ROWS)
    return Lanes(lanes.rows[part], lanes.scores[part], lanes.levels[part], lanes.bounds[part], lanes.ends[first:stop])


@bare_kernel
def settle(ranking: RankingArrays, picked: Ints, lanes: Lanes, query_time: QueryTime, bar: float) -> None:
    """Store the bounds of the opened blocks ``picked``: int64[m], computed from the pages that are still eligible.
    O(m).

    `bar`: the level of the last page of the answer; no page below it can have been leased since.
    """
    blocks = ranking.blocks
    for i in range(picked.size):
        if i + _PREFETCH_AHEAD < picked.size:
            first = picked[i + _PREFETCH_AHEAD] // NODE_BLOCKS * NODE_BLOCKS
            prefetch(blocks.bound, first)
            prefetch(blocks.bound, first + NODE_BLOCKS // 2)
            prefetch(blocks.end, first)
            prefetch(blocks.end, first + NODE_BLOCKS // 2)
        for lane in range(i * BLOCK_ROWS, (i + 1) * BLOCK_ROWS):
            if lanes.rows[lane] >= 0 and not lanes.levels[lane] < bar:
                rest = page_ready_at(ranking, picked[i], lanes.rows[lane], query_time, query_time.now)
                if rest > query_time.now:
                    lanes.rows[lane] = -1
                    lanes.ends[i] = min(lanes.ends[i], rest)
        store_bound(blocks, picked[i], lanes, i)
        blocks.opened[picked[i]] = 0
    update_nodes(blocks, picked)


@bare_kernel
def list_due(ranking: RankingArrays, query_time: QueryTime, nodes: Ints, out: Ints) -> int:
    """Write the blocks whose bounds have expired to `out`; return their number, at most `out.size`.

    Blocks of a host that can give no page now are left out. ``nodes``: int64[nodes], scratch space.
    """
    blocks, hosts = ranking.blocks, ranking.order.hosts
    found = 0
    for node in range(blocks.node_end.size):
        if blocks.node_end[node] <= query_time.now:
            nodes[found] = node
            found += 1
    count = listed = 0
    for i in range(found):
        _prefetch_blocks(blocks.end, hosts, nodes, i + _PREFETCH_AHEAD, found)
        first = nodes[i] * NODE_BLOCKS
        for block in range(first, min(first + NODE_BLOCKS, blocks.end.size)):
            if blocks.end[block] <= query_time.now:
                if listed == out.size:
                    count = listed = _drop_full(ranking, query_time, out, count, listed)
                    if count == out.size:
                        return count
                out[listed] = block
                listed += 1
                if hosts[block] != MIXED:
                    prefetch(ranking.shard.groups.records, np.int64(hosts[block]))
    return _drop_full(ranking, query_time, out, count, listed)


@inlined_kernel
def _drop_full(ranking: RankingArrays, query_time: QueryTime, out: Ints, count: int, listed: int) -> int:
    """Drop blocks of hosts without capacity from those after the first `count`; return the number of blocks left."""
    for i in range(count, listed):
        if not ranking.blocks.opened[out[i]] and _capacity_of(ranking, out[i], query_time) > 0:
            out[count] = out[i]
            count += 1
    return count


@bare_kernel
def list_above_bar(  # noqa: PLR0913, PLR0917  a kernel
    ranking: RankingArrays, query_time: QueryTime, bar: float, predicted: bool, nodes: Ints, out: Ints, bounds: Floats
) -> int:
    """Write the blocks that are not open and may hold a page at or above `bar` to `out`, and their bounds to `bounds`.

    Blocks are left out if their host can give no page, or only better pages than the block may hold; with `predicted`
    also if their host will probably give better ones. Returns their number, at most `out.size`. O(nodes + NODE_BLOCKS
    for each node at or above the bar). ``nodes``: int64[nodes], scratch space.
    """
    blocks = ranking.blocks
    found = count = 0
    for node in range(blocks.node_bound.size):
        if blocks.node_bound[node] >= bar:
            nodes[found] = node
            found += 1
    for i in range(found):
        _prefetch_blocks(blocks.bound, ranking.order.hosts, nodes, i + _PREFETCH_AHEAD, found)
        first = nodes[i] * NODE_BLOCKS
        for block in range(first, min(first + NODE_BLOCKS, blocks.bound.size)):
            if blocks.bound[block] >= bar and not blocks.opened[block]:
                if _is_skipped(ranking, block, query_time, predicted):
                    continue
                if count == out.size:
                    return count
                out[count] = block
                bounds[count] = blocks.bound[block]
                count += 1
    return count


@inlined_kernel
def _prefetch_blocks(column: Floats, hosts: npt.NDArray[np.uint32], nodes: Ints, i: int, found: int) -> None:
    """Prefetch the memory of the `i`-th node's blocks, if there is one."""
    if i < found:
        first = nodes[i] * NODE_BLOCKS
        prefetch(column, first)
        prefetch(column, first + NODE_BLOCKS // 2)
        prefetch(hosts, first)


@inlined_kernel
def _capacity_of(ranking: RankingArrays, block: int, query_time: QueryTime) -> int:
    """Return how many pages a batch may have of a block's host; BLOCK_ROWS if the block has several hosts."""
    host = ranking.order.hosts[block]
    if host == MIXED:
        return BLOCK_ROWS
    return host_capacity(ranking.shard.groups.records[host], query_time.limits, query_time.now, query_time.lease_s)


@inlined_kernel
def _is_skipped(ranking: RankingArrays, block: int, query_time: QueryTime, predicted: bool) -> bool:
    """Return whether the single host of a block will give none of its pages."""
    host = ranking.order.hosts[block]
    if host == MIXED:
        return False
    if predicted and ranking.blocks.bound[block] < ranking.usage.floor[host]:
        return True
    if _capacity_of(ranking, block, query_time) <= 0:
        return True
    slot_limits = SlotLimits(query_time.limits, query_time.now, query_time.lease_s)
    return bool(host_slots_beat(ranking.shard, slot_limits, host, ranking.blocks.bound[block], ranking.usage))


@inlined_kernel
def target_of(ranking: RankingArrays, block: int, query_time: QueryTime) -> float:
    """Return the level that a page of the block will probably need at the next query; -inf if unknown."""
    host = ranking.order.hosts[block]
    if host == MIXED or query_time.target == -np.inf:
        return query_time.target
    return float(max(query_time.target, ranking.usage.floor[host]))


@inlined_kernel
def page_ready_at(ranking: RankingArrays, block: int, row: int, query_time: QueryTime, now: float) -> float:
    """Return when a page becomes eligible, as seen at `now`. In a block of one host, ignore the host's rest."""
    if ranking.order.hosts[block] == MIXED:
        return not_before(ranking.shard.pages, ranking.shard.groups.records, row, query_time.limits, now)
    return page_not_before(ranking.shard.pages, row, query_time.limits, now)


@bare_kernel
def _begin_reaches(reach: npt.NDArray[np.float32], first: int) -> None:
    """Give blocks from number `first` on different reaches, so that their bounds do not all end at once."""
    for i in range(reach.size):
        part = float(np.int64(mix(np.uint64(first + i)) >> np.uint64(11))) * 2.0**-53
        reach[i] = _FIRST_REACH * (1.0 + part)


@inlined_kernel
def store_bound(blocks: Blocks, block: int, lanes: Lanes, i: int) -> None:
    """Set the bound of a block from its lanes, those of block number `i`."""
    bound = np.nan
    for lane in range(i * BLOCK_ROWS, (i + 1) * BLOCK_ROWS):
        if lanes.rows[lane] >= 0 and not bound >= lanes.bounds[lane]:
            bound = lanes.bounds[lane]
    blocks.bound[block] = bound
    blocks.end[block] = lanes.ends[i]


@bare_kernel
def update_nodes(blocks: Blocks, picked: Ints) -> None:
    """Summarise the nodes of the blocks ``picked``: int64[m] anew."""
    for i in range(picked.size):
        if i == picked.size - 1 or picked[i] // NODE_BLOCKS != picked[i + 1] // NODE_BLOCKS:
            _update_node(blocks, picked[i] // NODE_BLOCKS)


@bare_kernel
def _update_node(blocks: Blocks, node: int) -> None:
    bound, end = -np.inf, np.inf
    for block in range(node * NODE_BLOCKS, min((node + 1) * NODE_BLOCKS, blocks.bound.size)):
        bound = max(bound, blocks.bound[block])
        end = min(end, blocks.end[block])
    blocks.node_bound[node] = bound
    blocks.node_end[node] = end
