"""Arrays that grow in place: address space is reserved once, and the system commits memory as rows are written."""

from __future__ import annotations

import mmap
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

import numpy as np
import numpy.typing as npt

__all__ = ["GrowableArray", "PageMemory", "page_memory", "reserve_rows"]

_NORESERVE = 0x4000 if sys.platform == "linux" else 0  # MAP_NORESERVE, which Python names from 3.13 on
_SMALLEST_RESERVE = 1 << 16  # rows; with fewer, an array is an ordinary one that doubles


class PageMemory:
    """Where growable arrays get their memory: address space from the system. Tests override it, see `page_memory`."""

    def reserve(self, dtype: np.dtype[Any], rows: int) -> npt.NDArray[Any]:
        """Return zeroed rows for a new array, `rows` of them or fewer."""
        return reserve_rows(dtype, rows)

    def grow(self, array: npt.NDArray[Any], rows: int) -> npt.NDArray[Any]:
        """Return zeroed rows to move `array` to, at least `rows` and at least twice its number of rows."""
        wanted = max(rows, 2 * array.size)
        grown = reserve_rows(array.dtype, wanted)
        return np.zeros(wanted, array.dtype) if grown.size < rows else grown


_memories: Final = [PageMemory()]  # the last is in use


@contextmanager
def page_memory(memory: PageMemory) -> Iterator[None]:
    """Let arrays created in this block get all their memory from `memory`."""
    _memories.append(memory)
    try:
        yield
    finally:
        _memories.pop()


class GrowableArray:
    """A zeroed array of `dtype` that grows without moving, up to the rows reserved at its creation.

    ``array``: dtype[rows reserved]. Rows never written cost address space, not memory. If the system refuses to
    reserve that much (an address-space limit, no such mapping), less is reserved, and an array that outgrows its
    reserve moves once to twice the space, O(rows).
    """

    __slots__ = ("_memory", "array")

    def __init__(self, dtype: npt.DTypeLike, reserve: int) -> None:
        self._memory = _memories[-1]
        self.array: npt.NDArray[Any] = self._memory.reserve(np.dtype(dtype), reserve)

    def ensure(self, rows: int) -> None:
        """Make room for `rows` rows in all. O(1) within the reserve."""
        if rows > self.array.size:
            grown = self._memory.grow(self.array, rows)
            grown[: self.array.size] = self.array
            self.array = grown


def reserve_rows(dtype: np.dtype[Any], rows: int, *, large_pages: bool = True) -> npt.NDArray[Any]:
    """Return up to `rows` zeroed rows that take no memory until written; halves `rows` until the system grants it.

    Without `large_pages` the system commits small pages: it may search long for a large one.
    """
    while rows > _SMALLEST_RESERVE and hasattr(mmap, "MAP_PRIVATE"):
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NORESERVE
        try:
            mapping = mmap.mmap(-1, rows * dtype.itemsize, flags=flags)
        except (OSError, OverflowError, ValueError):
            rows //= 2
            continue
        if large_pages and hasattr(mmap, "MADV_HUGEPAGE"):
            with suppress(OSError):  # a system kernel may be built without them
                mapping.madvise(mmap.MADV_HUGEPAGE)  # random rows of a large table miss the TLB four times less
        return np.frombuffer(mapping, dtype)
    return np.zeros(rows, dtype)
