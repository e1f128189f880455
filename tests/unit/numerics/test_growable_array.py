"""Arrays grow in place within their reserve, move beyond it, and use what the system grants."""

from __future__ import annotations

import mmap
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
