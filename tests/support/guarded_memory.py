"""A shard in small: memory with no row to spare and a fence behind it, so that a kernel that writes too far is caught,
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

from streamsched.estimation.seasonality import seasonality_tables
from streamsched.numerics.arrays import Records
from streamsched.numerics.growable_array import GrowableArray
from streamsched.ranking import block_bounds, block_layout, formula_switch, host_slots, incremental_topk
from streamsched.ranking.block_layout import BlockLayout
from streamsched.ranking.incremental_topk import IncrementalTopK
from streamsched.state import page_table

FENCE_BYTES = 1 << 14  # more than any one write is long
POSTS = 0xA5


class FencedRegion(GrowableArray):
    """A region that reserves nothing and has exactly as many rows as were asked for."""

    __slots__ = ()
    fences: list[npt.NDArray[np.uint8]] = []  # noqa: RUF012 (of all regions, cleared by `fenced`)

    def __init__(self, dtype: npt.DTypeLike, reserve: int) -> None:  # noqa: ARG002
        self.array: Records = fence(np.dtype(dtype), 0)

    def ensure(self, rows: int) -> None:
        if rows > self.array.size:
            grown = fence(self.array.dtype, rows)
            grown[: self.array.size] = self.array
            self.array = grown


def fence(dtype: np.dtype[Any], rows: int) -> Records:
    """`rows` zeroed rows, the last bytes of a larger array that are followed by posts."""
    size = rows * dtype.itemsize
    whole = np.full(size + FENCE_BYTES, POSTS, np.uint8)
    whole[:size] = 0
    FencedRegion.fences.append(whole[size:])
    return whole[:size].view(dtype)


@contextmanager
def fenced() -> Iterator[None]:
    """Page tables made in this block have fenced memory; at its end all fences must stand."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (page_table, block_bounds, host_slots, block_layout):
            patch.setattr(module, "GrowableArray", FencedRegion)
        patch.setattr(seasonality_tables, "GrowableArray", FencedRegion)
        yield
    fences = FencedRegion.fences.copy()
    FencedRegion.fences.clear()
    assert all(np.all(posts == POSTS) for posts in fences)


@contextmanager
def small_reserve() -> Iterator[None]:
    """Page tables made in this block start small and move as they grow; no address space is reserved, which is slow."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(page_table, "_RESERVED_PAGES", 64)
        patch.setattr(page_table, "_RESERVED_TEXT", 1 << 10)
        yield


@contextmanager
def small_rankings(bits: int = 5, most_opened: int = 1) -> Iterator[None]:
    """Schedulers made in this block keep bounds of any number of pages, on layout of ``2**bits`` rows.

    And score all pages only where more than one block of `most_opened` would have to be opened.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(formula_switch, "BlockLayout", partial(BlockLayout, bits=bits))
        patch.setattr(formula_switch, "IncrementalTopK", partial(IncrementalTopK, fewest_pages=1))
        patch.setattr(incremental_topk, "_MOST_OPENED", most_opened)
        patch.setattr(incremental_topk, "_FEW_OPENED", 0)
        patch.setattr(incremental_topk, "_TRIES", 9)
        patch.setattr(incremental_topk, "_SPARE", 0)
        patch.setattr(incremental_topk, "_FEWEST_BLOCKS", 1)
        patch.setattr(formula_switch, "_CHUNK", 2)
        for module in (block_bounds, host_slots, block_layout):
            for name in [name for name in vars(module) if name.startswith("_RESERVED")]:
                patch.setattr(module, name, 1 << 10)
        yield
