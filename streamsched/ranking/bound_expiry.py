"""How far ahead a block should look: until its pages are about to score what will be kernel_query for then.

A bound that ends sooner makes a query look at the block in fallbacks, and one that ends later makes every query do so until
then. So the time is sought at which the bound of a block's leader, the page that will be kernel_query for first, meets the
target: by the rule of false position after Illinois, on one lane a block, with the records at hand.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from streamsched.numerics.jit import bare_kernel, inlined_kernel
from streamsched.politeness.limits import Limits
from streamsched.ranking.block_scorer import LANES, BlockScorer, bound_lanes
from streamsched.records.schema import ShardArrays

__all__ = ["QueryTime", "begin_search", "search_ends"]

_LEAST_REACH: Final = 1e-7  # cycles: a hundredth of a second of a day
_GREATEST_REACH: Final = 1e12  # past all clocks
_TRIES: Final = 5
_LEAP: Final = 64.0  # times as far ahead may be looked next
_EDGE: Final = 1 / 64  # of a span: the next look is no closer to its ends
_LEAST_PART: Final = 1 / 256  # of its reach that a block may look ahead the next time
_NEITHER, _LOW, _HIGH = 0.0, 1.0, 2.0  # on which side of the target the last look was


class QueryTime(NamedTuple):
    """When blocks are looked at, and which score will probably be kernel_query for later: reaches are chosen for that."""

    now: float
    since: float  # from when bounds are to hold: some seconds before, for callers' clocks differ
    cycle_s: float
    target: float  # at the next query; -inf where nothing is known of it
    fall: float  # of the target, a cycle: as pages are served, worse ones get their turn
    step: float  # cycles from one query to the next
    limits: Limits
    lease_s: float


@inlined_kernel
def begin_search(scorer: BlockScorer, i: int, query_time: QueryTime, score: float, bound: float, ahead: float) -> None:
    """Let leader `i`, whose target is set, score `score` now, and have `bound` until `ahead`: cycles, not 0. O(1)."""
    search = scorer.search
    height = bound + query_time.fall * ahead
    search.low[i], search.low_height[i] = 0.0, score
    search.high[i], search.high_height[i] = np.inf, np.inf
    search.before[i], search.before_height[i] = 0.0, score
    search.at[i], search.side[i] = ahead, _NEITHER
    if ahead < _GREATEST_REACH:
        _narrow(scorer, i, height)


@bare_kernel
def search_ends(scorer: BlockScorer, shard: ShardArrays, count: int, query_time: QueryTime) -> None:
    """Seek, for the first `count` leaders, how far ahead they stay below the target, into ``search.at``. O(count).

    Their records stand in the lanes behind LANES, gathered from `shard`. No sooner than half of what the
    target moves from query to query.
    """
    search = scorer.search
    for _ in range(_TRIES):
        for i in range(count):
            search.at[i] = _next_look(scorer, i)
            scorer.ends[LANES + i] = query_time.now + query_time.cycle_s * search.at[i]
        bound_lanes(scorer, shard, LANES, count, query_time.since, query_time.cycle_s, search.bound)
        for i in range(count):
            _narrow(scorer, i, search.bound[i] + query_time.fall * search.at[i])
    for i in range(count):
        search.at[i] = _choose(scorer, i, query_time)


@inlined_kernel
def _narrow(scorer: BlockScorer, i: int, height: float) -> None:
    """Take in that leader `i` comes to `height` at the time looked at."""
    search, target = scorer.search, scorer.search.target[i]
    if height <= target:
        if search.side[i] == _LOW:  # twice on one side: let the line lean to the other
            search.high_height[i] = 0.5 * (search.high_height[i] + target)
        search.before[i], search.before_height[i] = search.low[i], search.low_height[i]
        search.low[i], search.low_height[i] = search.at[i], height
        search.side[i] = _LOW
    else:
        if search.side[i] == _HIGH:
            search.low_height[i] = 0.5 * (search.low_height[i] + target)
        search.high[i], search.high_height[i] = search.at[i], height
        search.side[i] = _HIGH


@inlined_kernel
def _next_look(scorer: BlockScorer, i: int) -> float:
    """Return the time to look at next: where the straight line through what is known meets the target."""
    search, target = scorer.search, scorer.search.target[i]
    low, high = search.low[i], search.high[i]
    if high < np.inf:
        part = (target - search.low_height[i]) / (search.high_height[i] - search.low_height[i])
        if not np.isfinite(part) or not np.isfinite(search.high_height[i]):
            part = 0.125 if low == 0.0 else 0.5
        return float(low + (high - low) * min(max(part, _EDGE), 1.0 - _EDGE))
    if low == 0.0:  # nothing was looked at yet
        return float(min(search.at[i], 1.0))
    rise = (search.low_height[i] - search.before_height[i]) / (low - search.before[i])
    meeting = low + (target - search.low_height[i]) / rise if rise > 0.0 else np.inf
    return float(min(max(meeting, (1.0 + _EDGE) * low), _LEAP * low, _GREATEST_REACH))


@inlined_kernel
def _choose(scorer: BlockScorer, i: int, query_time: QueryTime) -> float:
    """Return how far ahead the block of leader `i` should look."""
    search = scorer.search
    low, high = search.low[i], search.high[i]
    least = 0.5 * query_time.step
    if query_time.fall > 0.0 and high < np.inf:  # in which it rises by half of a query's share of scores
        rise = (search.high_height[i] - search.low_height[i]) / (high - low) - query_time.fall
        least *= 1.0 + (query_time.fall / rise if rise > 0.0 else 0.0)
    if low == 0.0:
        least = max(least, high * _LEAST_PART)
    return float(min(max(low, least, _LEAST_REACH), _GREATEST_REACH))
