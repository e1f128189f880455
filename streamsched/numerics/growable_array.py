"""Arrays that grow in place: address space is reserved once, memory is taken page by page as rows are written."""

from __future__ import annotations

import mmap
import sys
from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["GrowableArray", "reserve_rows"]

_NORESERVE = 0x4000 if sys.platform == "linux" else 0  # MAP_NORESERVE, which Python names from 3.13 on
_SMALLEST_RESERVE = 1 << 16  # rows; below this a region is an ordinary array that doubles


class GrowableArray:
    """A zeroed array of `dtype` that grows without moving, up to the rows reserved at its creation.

    ``array``: dtype[rows reserved]. Rows never written cost address space, not memory. Where the system refuses to
    reserve that much (an address-space limit, no such mapping), less is reserved, and a region that outgrows its
    reserve moves once to twice the space, O(rows).
    """

    __slots__ = ("array",)

    def __init__(self, dtype: npt.DTypeLike, reserve: int) -> None:
        self.array: npt.NDArray[Any] = reserve_rows(np.dtype(dtype), reserve)

    def ensure(self, rows: int) -> None:
        """Make room for `rows` rows in all. O(1) within the reserve."""
        if rows > self.array.size:
            grown = reserve_rows(self.array.dtype, max(rows, 2 * self.array.size))
            if grown.size < rows:
                grown = np.zeros(max(rows, 2 * self.array.size), self.array.dtype)
            grown[: self.array.size] = self.array
            self.array = grown


def reserve_rows(dtype: np.dtype[Any], rows: int, *, large_pages: bool = True) -> npt.NDArray[Any]:
    """Return up to `rows` zeroed rows backed by nothing yet; halves the wish until the system grants it.

    Without `large_pages` memory comes a little at a time: the system may search long for a large one.
    """
    while rows > _SMALLEST_RESERVE and hasattr(mmap, "MAP_PRIVATE"):
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NORESERVE
        try:
            mapping = mmap.mmap(-1, rows * dtype.itemsize, flags=flags)
        except (OSError, OverflowError, ValueError):
            rows //= 2
            continue
        if large_pages and hasattr(mmap, "MADV_HUGEPAGE"):
            with suppress(OSError):  # of a kernel built without them
                mapping.madvise(mmap.MADV_HUGEPAGE)  # random rows of a large table miss the TLB four times less
        return np.frombuffer(mapping, dtype)
    return np.zeros(rows, dtype)
