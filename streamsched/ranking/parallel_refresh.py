"""Opens blocks on two threads if there are enough of them for that to be faster."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from streamsched.formula import Formula
from streamsched.numerics.arrays import Ints
from streamsched.ranking.block_bounds import Lanes, RankingArrays, slice_lanes
from streamsched.ranking.block_refresh import refresh_blocks
from streamsched.ranking.block_scorer import LEADERS, make_block_scorer
from streamsched.ranking.bound_expiry import QueryTime

__all__ = ["ParallelRefresh"]

_MOST: Final = 2  # threads: a query is too short for more
_FEWEST_BLOCKS: Final = 512  # fewer are opened faster than another thread wakes up


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
