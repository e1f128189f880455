"""Arrays grow in place within their reserve, move beyond it, and use what the system grants."""

from __future__ import annotations

import mmap
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pytest

from streamsched.numerics import growable_array
from streamsched.numerics.growable_array import GrowableArray, PageMemory, page_memory

LARGE = growable_array._SMALLEST_RESERVE * 4
RECORD = np.dtype([("number", "<f8"), ("flag", "u1")])


class Stingy(mmap.mmap):
    """A system that maps no more than 2^19 bytes at once."""

    def __new__(cls, handle: int, length: int, **options: Any) -> Self:
        if length > 1 << 19:
            raise OSError(12, "Cannot allocate memory")
        return super().__new__(cls, handle, length, **options)


class WithoutHugePages(mmap.mmap):
    """A system whose kernel was built without huge pages."""

    def madvise(self, *_: int) -> None:
        raise OSError(22, "Invalid argument")


@pytest.mark.parametrize("reserve", [3, LARGE])
def test_rows_are_zero_until_written(reserve: int) -> None:
    grown = GrowableArray(RECORD, reserve)
    assert grown.array.dtype == RECORD
    assert grown.array.size == reserve
    assert not np.any(grown.array["number"][:1000])


def test_rows_within_the_reserve_do_not_move() -> None:
    grown = GrowableArray(np.int64, LARGE)
    array = grown.array
    grown.ensure(LARGE)
    assert grown.array is array


@pytest.mark.parametrize("reserve", [3, LARGE])
def test_growth_beyond_the_reserve_keeps_what_was_written(reserve: int) -> None:
    grown = GrowableArray(np.int64, reserve)
    grown.array[:] = np.arange(reserve)
    grown.ensure(reserve + 1)
    assert grown.array.size == 2 * reserve  # so that steady growth moves seldom
    assert np.array_equal(grown.array[:reserve], np.arange(reserve))
    assert not np.any(grown.array[reserve:])


def test_growth_by_more_than_twice_reaches_the_wanted_size() -> None:
    grown = GrowableArray(np.int64, 3)
    grown.ensure(1000)
    assert grown.array.size == 1000


def test_refused_reserve_is_halved_until_granted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mmap, "mmap", Stingy)
    grown = GrowableArray(np.int32, 1 << 20)
    assert grown.array.size == 1 << 17
    grown.array[-1] = 7
    grown.ensure((1 << 17) + 1)  # twice as much is refused, so it is an ordinary array
    assert grown.array.size == 1 << 18
    assert grown.array[(1 << 17) - 1] == 7


@pytest.mark.parametrize("error", [OSError, OverflowError, ValueError])
def test_system_that_maps_nothing_gives_an_ordinary_array(
    monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    def refuse(*_: int, **__: int) -> None:
        raise error

    monkeypatch.setattr(mmap, "mmap", refuse)
    grown = GrowableArray(np.float64, 1 << 20)
    assert grown.array.size == growable_array._SMALLEST_RESERVE
    grown.ensure(1 << 17)
    assert grown.array.size == 1 << 17


def test_kernel_without_huge_pages_is_good_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mmap, "mmap", WithoutHugePages)
    assert GrowableArray(np.float64, LARGE).array.size == LARGE


def test_arrays_keep_the_memory_that_they_began_with() -> None:
    class Exact(PageMemory):
        def reserve(self, dtype: np.dtype[Any], rows: int) -> npt.NDArray[Any]:
            return np.zeros(min(rows, 2), dtype)

        def grow(self, array: npt.NDArray[Any], rows: int) -> npt.NDArray[Any]:
            return np.zeros(rows, array.dtype)

    with page_memory(Exact()):
        exact = GrowableArray(np.int64, 100)
    ordinary = GrowableArray(np.int64, 100)
    exact.array[:] = [7, 8]
    exact.ensure(5)
    assert exact.array.tolist() == [7, 8, 0, 0, 0]
    assert ordinary.array.size == 100


@pytest.fixture
def limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that may have four gigabytes of addresses."""
    monkeypatch.setattr(growable_array, "_address_limit", lambda: 1 << 32)
    monkeypatch.setattr(growable_array, "_addresses_in_use", lambda: 1 << 30)
    monkeypatch.setattr(growable_array, "_warned", [])


@pytest.mark.usefixtures("limited")
def test_limited_address_space_is_left_to_others(caplog: pytest.LogCaptureFixture) -> None:
    arrays = [GrowableArray(dtype, 1 << 30) for dtype in (np.float64, np.uint8, RECORD)]
    assert [array.array.nbytes for array in arrays[:2]] == [(3 << 30) // 64] * 2
    assert arrays[2].array.nbytes <= (3 << 30) // 64
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    rows = arrays[0].array.size
    arrays[0].array[-1] = 7.0
    arrays[0].ensure(rows + 1)
    assert arrays[0].array[rows - 1] == 7.0


def resident(array: npt.NDArray[Any]) -> int:
    """Bytes of `array`, a mapping of its own, that are in memory."""
    start, size, in_it = array.ctypes.data, 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        words = line.split()
        if "-" in words[0] and not words[0].endswith(":"):
            first, last = (int(word, 16) for word in words[0].split("-"))
            in_it = start <= first < start + array.nbytes or first <= start < last
        elif in_it and words[0] == "Rss:":
            size += 1024 * int(words[1])
    return size


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="the system does not say")
@pytest.mark.parametrize("rows", [1, 1000, 100_000])
def test_few_rows_take_their_own_memory(rows: int) -> None:
    """A neighbour in memory may be part of the same mapping; the first rows are then not all that it has."""
    grown = GrowableArray(np.int64, 1 << 24)
    before = resident(grown.array)
    grown.array[:rows] = 1
    assert resident(grown.array) - before == grown.resident_bytes(rows) == -(-rows * 8 // mmap.PAGESIZE) * mmap.PAGESIZE


def test_many_rows_take_large_pages() -> None:
    grown = GrowableArray(np.int64, 1 << 24)
    assert grown.resident_bytes(0) == 0
    assert grown.resident_bytes(1 << 18) == 1 << 21
    assert grown.resident_bytes((1 << 18) + 1) == 1 << 22
    assert GrowableArray(np.int64, 3).resident_bytes(3) == 24
