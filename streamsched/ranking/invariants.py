"""Invariants of a maintained ranking, checked page by page: for tests, after each step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from streamsched.politeness.eligibility import read_waits
from streamsched.ranking.block_bounds import LEAST_OVERDUE_LEVEL, NODE_BLOCKS, Blocks
from streamsched.ranking.block_layout import BLOCK_ROWS, MIXED, Order
from streamsched.records.page_schema import LEASED, OUT

if TYPE_CHECKING:
    from streamsched.numerics.arrays import Bools, Ints
    from streamsched.ranking.bound_expiry import QueryTime
    from streamsched.ranking.full_scan import FullScan
    from streamsched.records.schema import ShardArrays

__all__ = ["InspectedRanking", "find_false_bounds", "find_layout_faults"]

_TIMES: Final = 8  # times besides the clock at which bounds are compared with scores


class InspectedRanking(NamedTuple):
    """A ranking and what its bounds depend on: the bounds of the first `pages` pages, from `query_time.now` on."""

    order: Order
    blocks: Blocks
    scan: FullScan
    query_time: QueryTime
    pages: int


def find_layout_faults(shard: ShardArrays, order: Order, pages: int) -> list[str]:
    """Return which invariants of the order of the first `pages` pages do not hold; empty if it is sound. O(pages)."""
    size = 1 << order.bits
    permuted = hosts_match = True
    for start in range(0, pages, size):
        part = slice(start, min(start + size, pages))
        rows, places = order.rows[part].astype(np.int64), order.places[part].astype(np.int64)
        numbers = np.arange(rows.size)
        permuted = permuted and np.array_equal(np.sort(rows), numbers) and np.array_equal(places[rows], numbers)
        if permuted:
            hosts = shard.groups.records["host"][shard.pages.records["group"][start + rows]]
            hosts_match = hosts_match and _hosts_match(order, start, hosts)
    holds = {"layout has each row of a segment once": permuted, "blocks name their hosts": hosts_match}
    return [name for name, fits in holds.items() if not fits]


def find_false_bounds(shard: ShardArrays, ranking: InspectedRanking, opened: Ints) -> list[str]:
    """Return which invariants of the bounds do not hold; empty if they are sound. O(pages).

    ``opened``: int64[m], the blocks that the last query opened and that are not settled yet.
    """
    blocks, clock = ranking.blocks, ranking.query_time.now
    bounded = blocks.end > clock
    marked = np.flatnonzero(blocks.opened)
    holds = {
        "blocks marked as opened are": bool(np.array_equal(marked, np.unique(opened))),
        "nodes summarise their blocks": _nodes_match(blocks, bounded),
    }
    faults = [name for name, fits in holds.items() if not fits]
    ends = np.unique(blocks.end[bounded])
    chosen = ends[np.linspace(0, ends.size - 1, min(ends.size, _TIMES)).astype(np.int64)]
    for time_s in [ranking.query_time.since, clock, *np.nextafter(chosen, -np.inf)]:
        if bounded.any():
            faults += _find_exceeded(shard, ranking, float(time_s))
    return faults


def _hosts_match(order: Order, start: int, hosts: Ints) -> bool:
    """Return whether the blocks of the segment from row `start` on name the hosts of their pages, by place."""
    first = start // BLOCK_ROWS
    named = order.hosts[first : first - (-hosts.size // BLOCK_ROWS)]
    full = hosts.size == 1 << order.bits
    if full and np.any(hosts[1:] < hosts[:-1]):
        return False
    for block, host in enumerate(named):
        own = hosts[block * BLOCK_ROWS : (block + 1) * BLOCK_ROWS]
        one = bool(np.all(own == own[0]))
        if host != (own[0] if one else MIXED) and (full or host != MIXED):
            return False
    return True


def _nodes_match(blocks: Blocks, bounded: Bools) -> bool:
    """Return whether nodes cover the bounds of their blocks, and equal them if all these blocks have bounds."""
    for node in range(blocks.node_end.size):
        part = slice(node * NODE_BLOCKS, (node + 1) * NODE_BLOCKS)
        bounds = blocks.bound[part][bounded[part]]
        bound, end = np.max(bounds[~np.isnan(bounds)], initial=-np.inf), blocks.end[part].min()
        if blocks.node_bound[node] < bound or blocks.node_end[node] > end:
            return False
        if bounded[part].all() and (blocks.node_bound[node], blocks.node_end[node]) != (bound, end):
            return False
    return True


def _find_exceeded(shard: ShardArrays, ranking: InspectedRanking, time_s: float) -> list[str]:
    """Return which blocks' bounds are exceeded by a page that is eligible at `time_s`."""
    blocks, query_time = ranking.blocks, ranking.query_time
    rows = np.arange(ranking.pages)
    flags = shard.pages.records["flags"][rows]
    waits = read_waits(shard, rows, query_time.limits)
    counted = ((flags & blocks.mask) == blocks.want) & (np.maximum(waits.ready_at, waits.host_ready_s) <= time_s)
    groups = shard.groups.records
    counted &= groups["stream"][groups["host"][shard.pages.records["group"][rows]]] >= 0  # else it is suspended
    counted &= (flags & OUT) == 0  # the end of their lease is reported
    counted &= ((flags & LEASED) == 0) | (shard.pages.lease_until_s[rows] <= time_s)
    scores = ranking.scan.score(shard, time_s, query_time.cycle_s, rows)
    is_overdue = waits.overdue_at <= time_s
    with np.errstate(over="ignore"):
        overdue_levels = LEAST_OVERDUE_LEVEL * (1.0 + (time_s - waits.overdue_at))
    # For a page ranked by its score, queries require at most LEAST_OVERDUE_LEVEL.
    levels = np.where(is_overdue, overdue_levels, np.minimum(scores, LEAST_OVERDUE_LEVEL))
    starts = rows & ~((1 << ranking.order.bits) - 1)
    of_block = (starts + ranking.order.places[: rows.size]) // BLOCK_ROWS
    bound = blocks.bound[of_block]
    exceeded = counted & (blocks.end[of_block] > time_s) & (np.isnan(bound) | (levels > bound))
    return [
        f"block {of_block[row]} is bounded by {bound[row]} until {blocks.end[of_block[row]]}, "
        f"but page {row} has level {levels[row]} at {time_s}"
        for row in np.flatnonzero(exceeded)[:3]
    ]
