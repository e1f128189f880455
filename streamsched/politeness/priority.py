"""Priority tiers: pages asked for come first, then overdue pages, the longest overdue first, then pages by score.

Arrays encode a page's tier and its order within the tier in one time, ``overdue_s``: -inf for a page asked for, the
time since which it has been overdue, or inf for a page ranked by its score.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from streamsched.numerics.arrays import Floats, Hashes, Ints, Record, Records, Rows
from streamsched.numerics.jit import bare_kernel, inlined_kernel
from streamsched.numerics.topk_order import select_top
from streamsched.politeness.limits import Limits, overdue_at
from streamsched.records.schema import ShardArrays

BY_SCORE: Final = 0
OVERDUE: Final = 1
REQUESTED: Final = 2

Tiers: TypeAlias = npt.NDArray[np.uint8]


@inlined_kernel
def overdue_since(page: Record, limits: Limits, now: float) -> float:
    """Return since when a page has been overdue at `now`: -inf if it was asked for, inf if it is not overdue. O(1)."""
    since_s = overdue_at(page, limits)
    return since_s if since_s <= now else np.inf


def read_overdue(shard: ShardArrays, rows: Ints, limits: Limits, now: float) -> Floats:
    """Return `overdue_since` of the pages of ``rows``: int64[m] as float64[m]. O(m)."""
    since_s = overdue_times(shard.pages.records.take(rows), limits)
    return np.where(since_s <= now, since_s, np.inf)


def overdue_times(pages: Records, limits: Limits) -> Floats:
    """Return `overdue_at` of each of ``pages``: PAGE[m], records of pages or copies of them: float64[m]. O(m)."""
    times = np.empty(pages.size)
    _write_overdue_times(pages, limits, times)
    return times


def tiers_of(overdue_s: Floats) -> Tiers:
    """Return the tiers, uint8[n], that ``overdue_s``: float64[n] encodes. O(n).

    >>> tiers_of(np.array([-np.inf, 1.7e9, np.inf])).tolist()
    [2, 1, 0]
    """
    tiers: Tiers = np.where(overdue_s == np.inf, BY_SCORE, np.where(overdue_s == -np.inf, REQUESTED, OVERDUE))
    return tiers.astype(np.uint8)


def select_best(scores: Floats, overdue_s: Floats, ties: Hashes, k: int, rows: Ints) -> Rows:
    """Return the indices of the best `k` pages: intp[min(k, n)], in ranking order. O(n + k log k).

    The order is by tier, then by ``overdue_s``: float64[n]. Pages without an overdue time follow in the order of
    `select_top`. ``ties``: uint64[n], then ``rows``: int64[n], ascending, order pages that are otherwise equal.

    >>> overdue_s, ties = np.array([8.0, np.inf, -np.inf]), np.zeros(3, np.uint64)
    >>> select_best(np.array([0.5, 9.0, 0.1]), overdue_s, ties, 3, np.arange(3)).tolist()
    [2, 0, 1]
    """
    ahead = np.flatnonzero(overdue_s < np.inf)
    if not ahead.size:
        return select_top(scores, ties, k, rows)
    ahead = ahead[np.lexsort((rows[ahead], ties[ahead], overdue_s[ahead]))][: max(k, 0)]
    rest = np.flatnonzero(~(overdue_s < np.inf))
    return np.concatenate([ahead, rest[select_top(scores[rest], ties[rest], k - ahead.size, rows[rest])]])


@bare_kernel
def _write_overdue_times(pages: Records, limits: Limits, out: Floats) -> None:
    for i in range(pages.size):
        page: Record = pages[i]
        out[i] = overdue_at(page, limits)
