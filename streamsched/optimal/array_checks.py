"""Checks of the optimisers' arrays: SettingsError names argument, index, what was found and expected."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from streamsched.errors import SettingsError
from streamsched.numerics.argument_checks import read_items
from streamsched.numerics.arrays import Bools, Floats, Ints, frozen, is_masked

_LARGEST: Final = float(np.finfo(np.float64).max)


def check_values(
    name: str,
    values: npt.ArrayLike,
    least: float = 0.0,
    *,
    most: float = _LARGEST,
    expected: str | None = None,
    may_be_empty: bool = False,
) -> Floats:
    """Return `values` as a read-only float64[n]; raises SettingsError for the first outside `least` to `most`. O(n).

    n is 1 or more, unless it `may_be_empty`.

    >>> check_values("importance", [1, -2])
    Traceback (most recent call last):
    streamsched.errors.SettingsError: importance[1]: expected a finite number, 0 or more, found -2.0
    """
    array = _as_array(name, values, "iuf", "numbers", may_be_empty).astype(np.float64, copy=False)
    valid = (array >= least) & (array <= most)
    if not valid.all():
        index = int(np.argmin(valid))
        raise SettingsError(f"{name}[{index}]", float(array[index]), expected or _range(least, most))
    return frozen(np.ascontiguousarray(array))


def check_whole_numbers(name: str, values: npt.ArrayLike, most: int, expected: str) -> Ints:
    """Return `values` as a read-only int64[n]; raises SettingsError for the first outside 0 to `most`. O(n)."""
    array = _as_array(name, values, "iu", "whole numbers")
    valid = (array >= 0) & (array <= most)
    if not valid.all():
        index = int(np.argmin(valid))
        raise SettingsError(f"{name}[{index}]", array[index].item(), expected)
    return frozen(np.ascontiguousarray(array, np.int64))


def check_flags(name: str, values: npt.ArrayLike, *, may_be_empty: bool = False) -> Bools:
    """Return `values` as a read-only bool[n]; raises SettingsError if they are not flags. O(n)."""
    return frozen(np.ascontiguousarray(_as_array(name, values, "b", "True or False values", may_be_empty), np.bool_))


def check_offsets(offsets: npt.ArrayLike, size: int) -> Ints:
    """Return the bounds of ragged rows as a read-only int64[n + 1], from 0 to `size` and ascending. O(n).

    >>> check_offsets([0, 2, 1, 3], 3)
    Traceback (most recent call last):
    streamsched.errors.SettingsError: offsets[2]: expected 2 or more, the offset before it, found 1
    """
    array = check_whole_numbers("offsets", offsets, size, f"a whole number from 0 to {size}, the number of times")
    if array.size < 2:
        raise SettingsError("offsets", array.tolist(), "2 or more offsets: one page's times end where the next's begin")
    for index, bound in ((0, 0), (array.size - 1, size)):
        if array[index] != bound:
            raise SettingsError(f"offsets[{index}]", int(array[index]), f"{bound}, so that every time has its page")
    falls = np.flatnonzero(np.diff(array) < 0)
    if falls.size:
        index = int(falls[0]) + 1
        raise SettingsError(f"offsets[{index}]", int(array[index]), f"{array[index - 1]} or more, the offset before it")
    return array


def check_length(name: str, array: npt.NDArray[Any], size: int, of: str) -> None:
    """Raise SettingsError unless `array` has `size` elements, one for each of what `of` names."""
    if array.size != size:
        raise SettingsError(name, f"{array.size} values", f"{size} values, one for each {of}")


def check_amount(name: str, found: float, expected: str = "a finite number above 0") -> float:
    """Return a finite number above 0 as a float; raises SettingsError naming `name` if it is not one.

    >>> check_amount("budget", 2)
    2.0
    """
    if not 0.0 < found <= _LARGEST:
        raise SettingsError(name, found, expected)
    return float(found)


def check_number(name: str, found: object, *, most: float = _LARGEST) -> float:
    """Return a number from 0 to `most` as a float; raises SettingsError naming `name` if it is not one.

    >>> check_number("floor", 2, most=1.0)
    Traceback (most recent call last):
    streamsched.errors.SettingsError: floor: expected a number from 0 to 1, found 2
    """
    if isinstance(found, int | float | np.integer | np.floating) and not isinstance(found, bool):
        fits = 0.0 <= found <= most
        if fits:
            return float(found)
    raise SettingsError(name, found, _range(0.0, most))


def _as_array(name: str, values: npt.ArrayLike, kinds: str, what: str, may_be_empty: bool = False) -> npt.NDArray[Any]:
    """Return `values` as a one-dimensional array of one of the `kinds`."""
    expected = f"{'' if may_be_empty else 'one or more '}{what} in one dimension"
    if is_masked(values):
        raise SettingsError(name, "a masked array", f"{expected}, without a mask")
    if not isinstance(values, np.ndarray):
        try:
            values = np.array(read_items(name, values, what))
        except (TypeError, ValueError):
            raise SettingsError(name, values, expected) from None
    if values.ndim != 1 or (values.size == 0 and not may_be_empty):
        raise SettingsError(name, f"an array of shape {list(values.shape)}", expected)
    if values.size > 0 and values.dtype.kind not in kinds:
        raise SettingsError(name, f"an array of {values.dtype}", expected)
    return values


def _range(least: float, most: float) -> str:
    if least == -_LARGEST:
        return "a finite number"
    return f"a finite number, {least:g} or more" if most == _LARGEST else f"a number from {least:g} to {most:g}"
