"""Arrays that grow in place: address space is reserved once, and the system commits memory as rows are written."""

from __future__ import annotations

import logging
import mmap
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

try:
    import resource
except ImportError:  # no POSIX system
    resource = None  # type: ignore[assignment]


_log: Final = logging.getLogger("streamsched.memory")

_NORESERVE = 0x4000 if sys.platform == "linux" else 0  # MAP_NORESERVE, which Python names from 3.13 on
_SMALLEST_RESERVE = 1 << 16  # rows; with fewer, an array is an ordinary one that doubles
_LARGE_PAGE: Final = 1 << 21  # bytes, of x86 and of most ARM systems
_SMALL_PAGED: Final = 1 << 20  # bytes at the start of an array in small pages: a few rows must not take a large one
_AMPLE: Final = 1 << 44  # bytes of address space that leave room for several schedulers
_RESERVED_SHARE: Final = 1 / 64  # of the rest of a limited address space, for one array; a scheduler has 28


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
_warned: Final[list[int]] = []  # whether the limit was reported


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
    reserve that much, or limits the address space (``ulimit -v``), less is reserved, and an array that outgrows its
    reserve moves once to twice the space, O(rows).
    """

    __slots__ = ("_memory", "array")

    def __init__(self, dtype: npt.DTypeLike, reserve: int) -> None:
        self._memory = _memories[-1]
        self.array: npt.NDArray[Any] = self._memory.reserve(np.dtype(dtype), reserve)

    def ensure(self, rows: int) -> None:
        """Make room for `rows` rows in all. O(1) within the reserve. Raises MemoryError if the system refuses."""
        if rows > self.array.size:
            grown = self._memory.grow(self.array, rows)
            grown[: self.array.size] = self.array
            self.array = grown

    def resident_bytes(self, rows: int) -> int:
        """Return the bytes of memory that the first `rows` rows take once written, whole pages. O(1)."""
        nbytes = rows * self.array.itemsize
        page = mmap.PAGESIZE if nbytes <= _SMALL_PAGED else _LARGE_PAGE
        return min(-(-nbytes // page) * page, self.array.nbytes)


def reserve_rows(dtype: np.dtype[Any], rows: int, *, large_pages: bool = True) -> npt.NDArray[Any]:
    """Return up to `rows` zeroed rows that take no memory until written; halves `rows` until the system grants it.

    Without `large_pages` the system commits small pages: it may search long for a large one.
    """
    rows = _within_limit(dtype, rows)
    while rows > _SMALLEST_RESERVE and hasattr(mmap, "MAP_PRIVATE"):
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NORESERVE
        try:
            mapping = mmap.mmap(-1, rows * dtype.itemsize, flags=flags)
        except (OSError, OverflowError, ValueError):
            rows //= 2
            continue
        _advise(mapping, large_pages=large_pages)
        return np.frombuffer(mapping, dtype)
    return np.zeros(rows, dtype)


def _advise(mapping: mmap.mmap, *, large_pages: bool) -> None:
    """Ask for large pages behind the first bytes: random rows of a large table miss the TLB four times less."""
    if hasattr(mmap, "MADV_HUGEPAGE"):
        small = min(_SMALL_PAGED, len(mapping)) if large_pages else len(mapping)
        with suppress(OSError):  # a system kernel may be built without them
            mapping.madvise(mmap.MADV_NOHUGEPAGE, 0, small)
            if small < len(mapping):
                mapping.madvise(mmap.MADV_HUGEPAGE, small, len(mapping) - small)


def _within_limit(dtype: np.dtype[Any], rows: int) -> int:
    """Return `rows`, or fewer if the address space is limited: threads and compilers need some of it too."""
    limit = _address_limit()
    if limit is None:
        return rows
    if not _warned:
        _warned.append(limit)
        text = "the address space is limited to %d MB (ulimit -v): arrays reserve less of it, and move as they grow"
        _log.warning(text, limit >> 20)
    return min(rows, max(_SMALLEST_RESERVE, int((limit - _addresses_in_use()) * _RESERVED_SHARE) // dtype.itemsize))


def _address_limit() -> int | None:
    """Return the limit of the process's address space in bytes, None without one."""
    if resource is None:
        return None
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    return None if limit == resource.RLIM_INFINITY or limit > _AMPLE else limit


def _addresses_in_use() -> int:
    """Return the bytes of address space that the process takes, 0 if the system does not say."""
    try:
        return int(Path("/proc/self/statm").read_bytes().split()[0]) * mmap.PAGESIZE
    except OSError:
        return 0
