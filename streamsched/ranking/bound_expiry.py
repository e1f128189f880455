"""How far ahead a block looks: until its pages are about to reach the level that will be needed then.

A bound that ends sooner makes a query open the block in vain, and a bound that ends later makes every query do so until
then. So the time is sought at which the bound of a block's leader, the page that will be needed first, meets the
target, by the Illinois variant of the false position method, on one lane a block, with the records at hand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from streamsched.numerics.jit import bare_kernel, inlined_kernel
from streamsched.ranking.block_scorer import LANES, BlockScorer, bound_lanes

if TYPE_CHECKING:
    from streamsched.politeness.limits import Limits
    from streamsched.records.schema import ShardArrays

__all__ = ["QueryTime", "begin_search", "search_ends"]

_LEAST_REACH: Final = 1e-7  # cycles: a hundredth of a second of a day
_GREATEST_REACH: Final = 1e12  # past all clocks
_TRIES: Final = 5
_LEAP: Final = 64.0  # the next look is at most this many times as far ahead
_EDGE: Final = 1 / 64  # of the span: the next look is no closer to its ends
_LEAST_PART: Final = 1 / 256  # of its reach that a block looks ahead at least the next time
_NEITHER, _LOW, _HIGH = 0.0, 1.0, 2.0  # on which side of the target the last look was


class QueryTime(NamedTuple):
    """When blocks are looked at, and the level that will probably be needed later, for which reaches are chosen."""

    now: float
    since: float  # when bounds begin to hold: earlier than `now`, since callers' clocks differ
    cycle_s: float
    target: float  # at the next query; -inf if unknown
    fall: float  # of the target per cycle: as pages are served, worse ones get their turn
    step: float  # cycles from one query to the next
    limits: Limits
    lease_s: float


@inlined_kernel
def begin_search(scorer: BlockScorer, i: int, query_time: QueryTime, score: float, bound: float, ahead: float) -> None:
    """Start the search for leader `i`: it scores `score` now, and `bound` holds until `ahead` cycles, not 0. O(1)."""
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
    """Find how far ahead the first `count` leaders stay below the target, into ``search.at``. O(count).

    Their records, gathered from `shard`, are in the lanes after LANES. The result is at least half of what the target
    moves between queries.
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
    """Update the search with the height that leader `i` has at the time looked at."""
    search, target = scorer.search, scorer.search.target[i]
    if height <= target:
        if search.side[i] == _LOW:  # twice on one side: lean the line to the other (Illinois)
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
    """Return the time to look at next: where the line through the known points meets the target."""
    search, target = scorer.search, scorer.search.target[i]
    low, high = search.low[i], search.high[i]
    if high < np.inf:
        part = (target - search.low_height[i]) / (search.high_height[i] - search.low_height[i])
        if not np.isfinite(part) or not np.isfinite(search.high_height[i]):
            part = 0.125 if low == 0.0 else 0.5
        return float(low + (high - low) * min(max(part, _EDGE), 1.0 - _EDGE))
    if low == 0.0:  # the first look
        return float(min(search.at[i], 1.0))
    rise = (search.low_height[i] - search.before_height[i]) / (low - search.before[i])
    meeting = low + (target - search.low_height[i]) / rise if rise > 0.0 else np.inf
    return float(min(max(meeting, (1.0 + _EDGE) * low), _LEAP * low, _GREATEST_REACH))


@inlined_kernel
def _choose(scorer: BlockScorer, i: int, query_time: QueryTime) -> float:
    """Return how far ahead the block of leader `i` looks."""
    search = scorer.search
    low, high = search.low[i], search.high[i]
    least = 0.5 * query_time.step
    # The time in which the height rises by half of what the target falls between queries.
    if query_time.fall > 0.0 and high < np.inf:
        rise = (search.high_height[i] - search.low_height[i]) / (high - low) - query_time.fall
        least *= 1.0 + (query_time.fall / rise if rise > 0.0 else 0.0)
    if low == 0.0:
        least = max(least, high * _LEAST_PART)
    return float(min(max(low, least, _LEAST_REACH), _GREATEST_REACH))
