"""The pages that a query has found so far, and who of them is seated."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np

from streamsched.numerics.arrays import Floats, Hashes, Ints, Record
from streamsched.numerics.jit import bare_kernel, mix
from streamsched.numerics.topk_order import select_top
from streamsched.ranking.block_bounds import Lanes
from streamsched.ranking.full_scan import Query, Ranked, fill_slots
from streamsched.ranking.host_slots import HostSlots
from streamsched.records.schema import ShardArrays

__all__ = ["Candidates"]

_WIDER: Final = 4  # times as many candidates are looked at where hosts have no room for the best


class _Pool(NamedTuple):
    """Pages, what they score, and what orders equal scores: int64[m], float64[m], uint64[m]."""

    rows: Ints
    scores: Floats
    ties: Hashes


class Candidates:
    """The eligible pages of opened blocks that may be among those a batch has seats for. For one query at a time.

    ``bar``: what a page must score to be seated; -inf where there is room for any, or for NaN.
    """

    def __init__(self) -> None:
        self.bar = -math.inf
        self._floor = -math.inf  # pages below were not pooled
        self._pool = _Pool(np.empty(0, np.int64), np.empty(0), np.empty(0, np.uint64))
        self._count = 0

    def clear(self, floor: float) -> None:
        """Forget all pages; pool none below `floor` while enough reach it. O(1)."""
        self.bar, self._floor, self._count = -math.inf, floor, 0

    def seat(self, seats: HostSlots, shard: ShardArrays, query: Query, lanes: Lanes, first: int) -> Ranked:
        """Take in the ``lanes`` from `first` on; return who of the best `query.k` pages is seated, and raise the bar.

        O(lanes from `first` on), or of all where too few reach the floor.
        """
        self._take(shard, query, lanes, first)
        seated = self._seat(seats, shard, query)
        if seated.rows.size < query.k and self._floor > -math.inf:
            self._floor, self._count = -math.inf, 0
            self._take(shard, query, lanes, 0)
            seated = self._seat(seats, shard, query)
        if seated.rows.size == query.k and not math.isnan(seated.scores[-1]):
            self.bar = float(seated.scores[-1])
        return seated

    def _take(self, shard: ShardArrays, query: Query, lanes: Lanes, first: int) -> None:
        """Put the pages of the lanes from `first` on that reach bar and floor to the others."""
        most = self._count + lanes.rows.size - first
        if most > self._pool.rows.size:
            before = self._pool
            self._pool = _Pool(np.empty(2 * most, np.int64), np.empty(2 * most), np.empty(2 * most, np.uint64))
            for new, old in zip(self._pool, before, strict=True):
                new[: self._count] = old[: self._count]
        bar = max(self.bar, self._floor)
        self._count = _collect(shard, lanes, first, np.uint64(query.salt), bar, self._pool, self._count)

    def _seat(self, seats: HostSlots, shard: ShardArrays, query: Query) -> Ranked:
        pool = self._pool
        rows, scores, ties = pool.rows[: self._count], pool.scores[: self._count], pool.ties[: self._count]
        wanted = query.k
        while True:
            best = select_top(scores, ties, wanted)
            seated = fill_slots(seats, shard, query, Ranked(rows[best], scores[best]))
            if seated.rows.size == query.k or best.size < wanted:
                return seated
            wanted *= _WIDER


@bare_kernel
def _collect(  # noqa: PLR0913, PLR0917  a kernel
    shard: ShardArrays, lanes: Lanes, first: int, salt: int, bar: float, pool: _Pool, count: int
) -> int:
    """Append the lanes from `first` on of eligible pages that are not below `bar`; return how many are pooled then."""
    for lane in range(first, lanes.rows.size):
        if lanes.rows[lane] >= 0 and not lanes.scores[lane] < bar:
            pool.rows[count] = lanes.rows[lane]
            pool.scores[count] = lanes.scores[lane]
            page: Record = shard.pages.records[lanes.rows[lane]]
            pool.ties[count] = mix(page.url_hash ^ salt)
            count += 1
    return count
