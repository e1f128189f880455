"""Regions grow in place within their reserve, move beyond it, and make do where the system refuses."""

from __future__ import annotations

import mmap
from typing import Any, Self

import numpy as np
import pytest

from streamsched.numerics import growable_array
from streamsched.numerics.growable_array import GrowableArray

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
    region = GrowableArray(RECORD, reserve)
    assert region.array.dtype == RECORD
    assert region.array.size == reserve
    assert not np.any(region.array["number"][:1000])


def test_rows_within_the_reserve_do_not_move() -> None:
    region = GrowableArray(np.int64, LARGE)
    array = region.array
    region.ensure(LARGE)
    assert region.array is array


@pytest.mark.parametrize("reserve", [3, LARGE])
def test_growth_beyond_the_reserve_keeps_what_was_written(reserve: int) -> None:
    region = GrowableArray(np.int64, reserve)
    region.array[:] = np.arange(reserve)
    region.ensure(reserve + 1)
    assert region.array.size == 2 * reserve  # so that steady growth moves seldom
    assert np.array_equal(region.array[:reserve], np.arange(reserve))
    assert not np.any(region.array[reserve:])


def test_growth_by_more_than_twice_reaches_what_was_asked() -> None:
    region = GrowableArray(np.int64, 3)
    region.ensure(1000)
    assert region.array.size == 1000


def test_refused_reserve_is_halved_until_granted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mmap, "mmap", Stingy)
    region = GrowableArray(np.int32, 1 << 20)
    assert region.array.size == 1 << 17
    region.array[-1] = 7
    region.ensure((1 << 17) + 1)  # twice as much is refused, so it is an ordinary array
    assert region.array.size == 1 << 18
    assert region.array[(1 << 17) - 1] == 7


@pytest.mark.parametrize("error", [OSError, OverflowError, ValueError])
def test_system_that_maps_nothing_gives_an_ordinary_array(
    monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    def refuse(*_: int, **__: int) -> None:
        raise error

    monkeypatch.setattr(mmap, "mmap", refuse)
    region = GrowableArray(np.float64, 1 << 20)
    assert region.array.size == growable_array._SMALLEST_RESERVE
    region.ensure(1 << 17)
    assert region.array.size == 1 << 17


def test_kernel_without_huge_pages_is_good_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mmap, "mmap", WithoutHugePages)
    assert GrowableArray(np.float64, LARGE).array.size == LARGE
