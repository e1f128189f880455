"""Converts the values of one field to a column of one dtype, and joins columns.

Raises InvalidOutcome for a record that does not fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from streamsched.errors import InvalidOutcome
from streamsched.numerics.argument_checks import read_items
from streamsched.numerics.arrays import is_masked
from streamsched.numerics.packed_urls import NO_URLS, PackedUrls

# Kinds of arrays from which a column is made if no value changes. A float has lost bits of a fingerprint already.
_FROM: Final = {"b": "biuf", "f": "iuf", "i": "iuf", "u": "iu"}
_COLUMN: Final = "a column, one value for each URL"


def as_column(
    field: str, dtype: np.dtype[Any], values: npt.ArrayLike | Sequence[object], count: int
) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_] | None]:
    """Return `values` as an array of `dtype`, and a mask of the values that were None, or None if none was. O(n).

    Raises InvalidOutcome for the first record whose value `dtype` cannot hold unaltered, ValueError if there are not
    `count` values, and TypeError if `values` are none.
    """
    _check_mask(field, values)
    if isinstance(values, np.ndarray) and values.dtype.kind != "O":
        array, missing = values, None
    else:
        items = read_items(field, values, _COLUMN)
        gaps = [item is None for item in items]
        missing = np.array(gaps) if any(gaps) else None
        array = _from_items(field, dtype, items)
    if array.shape != (count,):
        raise ValueError(f"{field}: expected {count} values, one for each URL, found shape {list(array.shape)}")
    return _cast(field, dtype, array), missing


def as_urls(field: str, values: Any, count: int) -> tuple[PackedUrls, npt.NDArray[np.bool_] | None]:
    """Return a column of URLs, empty if `values` is None, and a mask of those that were None. O(n).

    The mask is None if `values` cannot hold None. Raises InvalidOutcome for a value that is no text, and ValueError if
    there are not `count` values.
    """
    if values is None:
        return NO_URLS, None
    missing = None
    if not isinstance(values, PackedUrls):
        _check_mask(field, values)
        items = read_items(field, values, _COLUMN)
        missing = np.array([item is None for item in items], np.bool_)
        try:
            values = PackedUrls.pack(["" if item is None else item for item in items])
        except InvalidOutcome as error:
            raise InvalidOutcome(error.record, field, error.found, error.expected) from None
    if len(values) != count:
        raise ValueError(f"{field}: expected {count} values, one for each URL, found {len(values)}")
    return values, missing


def join_columns(columns: Sequence[npt.NDArray[Any]], counts: Sequence[int], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Return optional columns of `dtype`, one after another; columns of length 0 are `counts` zeros each. O(n).

    Of length 0 if all columns are.

    >>> join_columns([np.ones(1), np.empty(0)], [1, 2], np.dtype(np.float64)).tolist()
    [1.0, 0.0, 0.0]
    """
    if not any(column.size for column in columns):
        return np.empty(0, dtype)
    pairs = zip(columns, counts, strict=True)
    return np.concatenate([column if column.size else np.zeros(count, dtype) for column, count in pairs])


def join_urls(columns: Sequence[PackedUrls], counts: Sequence[int]) -> PackedUrls:
    """Return optional columns of URLs joined as `join_columns` does, with empty URLs in place of zeros. O(bytes)."""
    if not any(len(column) for column in columns):
        return NO_URLS
    pairs = zip(columns, counts, strict=True)
    return PackedUrls.concatenate([column or PackedUrls(b"", [0] * (count + 1)) for column, count in pairs])


def _check_mask(field: str, values: object) -> None:
    """Raise InvalidOutcome for an array whose mask would be lost."""
    if is_masked(values):
        record = int(np.argmax(np.ma.getmaskarray(values))) if values.ndim == 1 and values.size else 0
        raise InvalidOutcome(record, field, "a masked array", "a list with None for records without the field")


def _from_items(field: str, dtype: np.dtype[Any], items: list[Any]) -> npt.NDArray[Any]:
    """Return the items as an array, 0 for None; raises InvalidOutcome for the first that does not fit."""
    kinds: tuple[type, ...] = {"b": (bool, np.bool_), "f": (int, float, np.integer, np.floating)}.get(
        dtype.kind, (int, np.integer)
    )
    for record, item in enumerate(items):
        fits = item is None or (isinstance(item, kinds) and (dtype.kind == "b" or not isinstance(item, bool)))
        if fits and dtype.kind in "iu" and item is not None:
            bounds = np.iinfo(dtype)
            fits = bounds.min <= item <= bounds.max
        if not fits:
            raise InvalidOutcome(record, field, item, _name(dtype))
    try:
        return np.array([0 if item is None else item for item in items], dtype)
    except OverflowError:
        record = next(i for i, item in enumerate(items) if isinstance(item, int) and abs(item) > 2**1023)
        raise InvalidOutcome(record, field, items[record], _name(dtype)) from None


def _cast(field: str, dtype: np.dtype[Any], array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return `array` as `dtype`; raises InvalidOutcome for the first record whose value that would alter."""
    if array.dtype == dtype:
        return np.ascontiguousarray(array)
    if array.dtype.kind not in _FROM[dtype.kind]:
        found = array[0].item() if array.size else f"an array of {array.dtype}"
        raise InvalidOutcome(0, field, found, _name(dtype))
    if dtype.kind == "f":
        return array.astype(dtype)
    with np.errstate(invalid="ignore"):
        result = array.astype(dtype)
    altered = result.astype(array.dtype) != array
    if dtype.kind == "u" and array.dtype.kind in "if":
        altered |= array < 0
    if altered.any():
        record = int(np.flatnonzero(altered)[0])
        raise InvalidOutcome(record, field, array[record].item(), _name(dtype))
    return result


def _name(dtype: np.dtype[Any]) -> str:
    return {"b": "true or false", "f": "a number", "i": "a whole number", "u": "a whole number from 0 to 2**64 - 1"}[
        dtype.kind
    ]
