"""The pages that a query has found so far, and those of them that get host slots."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from streamsched.numerics.jit import bare_kernel, mix
from streamsched.politeness.priority import BY_SCORE, overdue_since, read_overdue, select_best, tiers_of
from streamsched.ranking.block_bounds import LEAST_OVERDUE_LEVEL, Lanes, overdue_level
from streamsched.ranking.full_scan import Query, Ranked, fill_slots

if TYPE_CHECKING:
    from streamsched.numerics.arrays import Floats, Hashes, Ints, Record
    from streamsched.politeness.limits import Limits
    from streamsched.ranking.host_slots import HostSlots
    from streamsched.records.schema import ShardArrays

__all__ = ["Candidates", "last_level"]

_WIDER: Final = 4  # times as many candidates are tried if hosts have no slots for the best


class _Pool(NamedTuple):
    """Pages with their scores, overdue times and ties: int64[m], float64[m], float64[m], uint64[m]."""

    rows: Ints
    scores: Floats
    overdue_s: Floats
    ties: Hashes


class Candidates:
    """Eligible pages of opened blocks that may belong to the batch. For one query at a time.

    ``bar``: the level that a page needs to be selected; -inf while fewer pages than wanted are selected, or for NaN.
    """

    def __init__(self) -> None:
        self.bar = -math.inf
        self._floor = -math.inf  # pages below this level were not pooled
        self._pool = _make_pool(0)
        self._count = 0

    def clear(self, floor: float) -> None:
        """Drop all pages; pool none below the level `floor` as long as enough pages reach it. O(1)."""
        self.bar, self._floor, self._count = -math.inf, floor, 0

    def fill(self, host_slots: HostSlots, shard: ShardArrays, query: Query, lanes: Lanes, first: int) -> Ranked:
        """Pool the ``lanes`` from `first` on; return the best `query.k` pages that hosts have slots for, and raise the
        bar.

        O(lanes from `first` on), or of all lanes if too few pages reach the floor.
        """
        self._take(shard, query, lanes, first)
        selected = self._fill(host_slots, shard, query)
        if selected.rows.size < query.k and self._floor > -math.inf:
            self._floor, self._count = -math.inf, 0
            self._take(shard, query, lanes, 0)
            selected = self._fill(host_slots, shard, query)
        if selected.rows.size == query.k:
            self.bar = last_level(shard, query, selected)
        return selected

    def _take(self, shard: ShardArrays, query: Query, lanes: Lanes, first: int) -> None:
        """Pool the pages of the lanes from `first` on that reach bar and floor."""
        most = self._count + lanes.rows.size - first
        if most > self._pool.rows.size:
            before = self._pool
            self._pool = _make_pool(2 * most)
            for new, old in zip(self._pool, before, strict=True):
                new[: self._count] = old[: self._count]
        bar = max(self.bar, self._floor)
        kernel_query = _KernelQuery(query.now, np.uint64(query.salt), query.limits)
        self._count = _collect(shard, lanes, first, kernel_query, bar, self._pool, self._count)

    def _fill(self, host_slots: HostSlots, shard: ShardArrays, query: Query) -> Ranked:
        pool = _Pool._make(column[: self._count] for column in self._pool)
        wanted = query.k
        while True:
            best = select_best(pool.scores, pool.overdue_s, pool.ties, wanted, pool.rows)
            ranked = Ranked(pool.rows[best], pool.scores[best], tiers_of(pool.overdue_s[best]))
            selected = fill_slots(host_slots, shard, query, ranked)
            if selected.rows.size == query.k or best.size < wanted:
                return selected
            wanted *= _WIDER


class _KernelQuery(NamedTuple):
    """A query as a kernel takes it."""

    now: float
    salt: np.uint64
    limits: Limits


def _make_pool(size: int) -> _Pool:
    return _Pool(np.empty(size, np.int64), np.empty(size), np.empty(size), np.empty(size, np.uint64))


def last_level(shard: ShardArrays, query: Query, ranked: Ranked) -> float:
    """Return the level that a page needs to come before the last of `ranked`, or to equal it; -inf for NaN. O(1)."""
    if ranked.tiers[-1] != BY_SCORE:
        overdue_s = read_overdue(shard, ranked.rows[-1:], query.limits, query.now)
        return float(overdue_level(float(overdue_s[0]), query.now))
    score = float(ranked.scores[-1])
    return -math.inf if math.isnan(score) else min(score, LEAST_OVERDUE_LEVEL)


@bare_kernel
def _collect(  # noqa: PLR0913, PLR0917  a kernel
    shard: ShardArrays, lanes: Lanes, first: int, query: _KernelQuery, bar: float, pool: _Pool, count: int
) -> int:
    """Append eligible pages at or above `bar` from the lanes from `first` on; return the new number of pooled pages."""
    for lane in range(first, lanes.rows.size):
        if lanes.rows[lane] >= 0 and not lanes.levels[lane] < bar:
            pool.rows[count] = lanes.rows[lane]
            pool.scores[count] = lanes.scores[lane]
            page: Record = shard.pages.records[lanes.rows[lane]]
            pool.overdue_s[count] = overdue_since(page, query.limits, query.now)
            pool.ties[count] = mix(page.url_hash ^ query.salt)
            count += 1
    return count
