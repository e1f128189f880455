"""The order of scored pages: score descending, NaN last; equal scores by a salted hash of the page.

Equal hashes, which anybody can make up who chooses the URLs, are ordered by row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from streamsched.numerics.arrays import Floats, Hashes, Ints, Rows
from streamsched.numerics.jit import bare_kernel, inlined_kernel, mix

_SIGN: Final = np.uint64(1 << 63)


def sort_keys(scores: Floats) -> Hashes:
    """Return uint64[n] in the order of `scores`: NaN becomes 0, below -inf; -0.0 and 0.0 become the same key. O(n).

    >>> bool(np.all(np.diff(sort_keys(np.array([np.nan, -np.inf, -1.0, 0.0, np.inf])).astype(float)) > 0))
    True
    """
    bits = (scores + 0.0).view(np.uint64)
    keys = np.where(bits & _SIGN != 0, ~bits, bits | _SIGN)
    keys[np.isnan(scores)] = 0
    return keys


@inlined_kernel
def sort_key(score: float) -> np.uint64:
    """Return what `sort_keys` returns for a single score. O(1)."""
    if np.isnan(score):
        return np.uint64(0)
    if score == 0.0:
        return _SIGN
    bits = np.float64(score).view(np.uint64)
    return ~bits if bits & _SIGN else bits | _SIGN


def tie_keys(hashes: Hashes, salt: int) -> Hashes:
    """Return the salted page hashes, uint64[n], that order pages of equal score. O(n)."""
    ties = np.empty(hashes.size, np.uint64)
    _salt_hashes(hashes, np.uint64(salt), ties)
    return ties


def select_top(scores: Floats, ties: Hashes, k: int, rows: Ints | None = None) -> Rows:
    """Return the indices of the best `k`: intp[min(k, n)], score descending, NaN last, then `ties` ascending.

    O(n + k log k). Equal scores with equal ties go by ``rows``: int64[n], ascending; in index order without rows.

    >>> select_top(np.array([0.5, np.nan, 0.5, 0.9]), np.array([7, 1, 3, 2], np.uint64), 3).tolist()
    [3, 2, 0]
    """
    keys = sort_keys(scores)
    if k <= 0:
        return np.empty(0, np.intp)
    lower = [ties] if rows is None else [rows, ties]  # sort keys, the least important first
    chosen = np.arange(keys.size)
    if k < keys.size:
        bar = np.partition(keys, keys.size - k)[keys.size - k]
        above = np.flatnonzero(keys > bar)
        level = np.flatnonzero(keys == bar)
        if above.size + level.size > k:
            level = level[np.lexsort([key[level] for key in lower])[: k - above.size]]
        chosen = np.sort(np.concatenate([above, level]))
    return chosen[_order(~keys[chosen], [key[chosen] for key in lower])]


def _order(keys: Hashes, lower: Sequence[npt.NDArray[np.integer[Any]]]) -> Rows:
    """Return the indices that sort `keys`, equal ones by `lower`, the least important first, then by index.

    Faster than `np.lexsort` of all, since few keys are equal.
    """
    order = np.argsort(keys)
    in_order = keys[order]
    equal = in_order[1:] == in_order[:-1]
    if np.any(equal):
        tied = np.concatenate([[False], equal]) | np.concatenate([equal, [False]])
        some = np.sort(order[tied])
        order[tied] = some[np.lexsort([*(key[some] for key in lower), keys[some]])]
    return order


@bare_kernel
def _salt_hashes(hashes: Hashes, salt: int, out: Hashes) -> None:
    for i in range(hashes.size):
        out[i] = mix(hashes[i] ^ salt)
