"""Small shards: memory with no spare row and a fence behind it, which catches kernels that write out of bounds,
and rankings that treat a hundred pages as they would treat millions.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from streamsched.numerics.arrays import Records
from streamsched.numerics.growable_array import PageMemory, page_memory
from streamsched.ranking import formula_switch, host_floors, incremental_topk, tie_classes
from streamsched.ranking.incremental_topk import IncrementalTopK

FENCE_BYTES = 1 << 14  # more than any one write is long
POSTS = 0xA5


SMALL_RESERVE = 64  # rows

_fences: dict[int, npt.NDArray[np.uint8]] = {}  # by the address of the array before each, cleared by `fenced`


class FencedMemory(PageMemory):
    """Memory that reserves nothing and grants exactly the rows that are needed."""

    def reserve(self, dtype: np.dtype[Any], rows: int) -> Records:  # noqa: ARG002
        return fence(dtype, 0)

    def grow(self, array: Records, rows: int) -> Records:
        assert is_intact(_fences.pop(array.ctypes.data))
        return fence(array.dtype, rows)


class SmallMemory(PageMemory):
    """Memory that reserves few rows."""

    def reserve(self, dtype: np.dtype[Any], rows: int) -> Records:
        return super().reserve(dtype, min(rows, SMALL_RESERVE))


def fence(dtype: np.dtype[Any], rows: int) -> Records:
    """`rows` zeroed rows with posts behind them in the same array."""
    size = rows * dtype.itemsize
    whole = np.zeros(size + FENCE_BYTES, np.uint8)
    whole[size:] = POSTS
    _fences[whole.ctypes.data] = whole[size:]
    return whole[:size].view(dtype)


def is_intact(posts: npt.NDArray[np.uint8]) -> bool:
    """Return whether nothing was written behind an array."""
    return bool(np.all(posts == POSTS))


@contextmanager
def fenced() -> Iterator[None]:
    """Arrays created in this block have fenced memory; at its end all fences must be intact."""
    with page_memory(FencedMemory()):
        yield
    fences = list(_fences.values())
    _fences.clear()
    assert all(map(is_intact, fences))


@contextmanager
def small_reserve() -> Iterator[None]:
    """Arrays created in this block start small and move as they grow. Reserving address space would be slow."""
    with page_memory(SmallMemory()):
        yield


@contextmanager
def small_rankings(bits: int = 5, most_opened: int = 1) -> Iterator[None]:
    """Schedulers created in this block certify any number of pages, and pool a few, `bits` more or less.

    They score all pages only if more than one page in `most_opened` would have to be examined.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(formula_switch, "IncrementalTopK", partial(IncrementalTopK, fewest_pages=1))
        patch.setattr(incremental_topk, "_MOST_EXAMINED", most_opened)
        patch.setattr(incremental_topk, "_LARGEST_K", 1 if bits > 6 else 8)
        patch.setattr(incremental_topk, "_FEWEST_POOLED", bits // 2)
        patch.setattr(incremental_topk, "_DEPTH", 2 if bits > 5 else 1)
        patch.setattr(incremental_topk, "_MOST_SKIPPED", 8)
        patch.setattr(host_floors, "_FEWEST", 1)
        patch.setattr(formula_switch, "_CHUNK", 16)
        patch.setattr(
            tie_classes, "_LARGE_HOST", 256 if bits > 5 else 1
        )  # each host has classes of its own, or none has
        patch.setattr(tie_classes, "_BUCKET", 4)
        patch.setattr(tie_classes, "_FEWEST_RELEASED", 1)
        yield
