"""Columns of tables as arrays and lists with gaps: of pandas, polars, Arrow, and mappings of arrays.

Arrow tables, and whatever has the Arrow PyCapsule interface, are read with pyarrow, the extra ``export``; pandas frames
and mappings need nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime, time
from importlib import import_module
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from streamsched.errors import shorten
from streamsched.numerics.argument_checks import read_items
from streamsched.numerics.arrays import is_masked

Gaps: TypeAlias = npt.NDArray[np.bool_] | None

_EXPECTED: Final = "a pandas or polars frame, an Arrow table, or a mapping of columns"
_SECONDS: Final = {"W": 604_800, "D": 86_400, "h": 3_600, "m": 60, "s": 1}
_PARTS: Final = {"ms": 10**3, "us": 10**6, "ns": 10**9, "ps": 10**12, "fs": 10**15, "as": 10**18}  # of a second


class Cells(NamedTuple):
    """A column of n values: an array of bool, numbers or seconds, or a list; ``gaps``: where it has none."""

    values: npt.NDArray[Any] | list[Any]
    gaps: Gaps


def table_columns(table: object) -> dict[str, Any]:
    """Return the columns of `table` by name. O(columns). Raises TypeError if it is no table."""
    if isinstance(table, Mapping):
        return {str(name): column for name, column in table.items()}
    if _is_of("pandas", table) and hasattr(table, "columns"):
        return {str(name): table.iloc[:, i] for i, name in enumerate(table.columns)}  # type: ignore[attr-defined]
    if hasattr(table, "__arrow_c_stream__"):
        arrow = _load_arrow().table(table)
        return dict(zip(arrow.column_names, arrow.columns, strict=True))
    raise TypeError(f"table: expected {_EXPECTED}, found {shorten(table)}")


def read_cells(name: str, column: Any) -> Cells:
    """Return a column of a table. O(n).

    Gaps are None, NaN, NaT, pandas' NA and masked values. Arrays of times become UTC epoch seconds; times without a
    zone are taken as UTC. Raises TypeError if `column` is none.
    """
    if is_masked(column):
        values, gaps = read_cells(name, np.ma.getdata(column))
        return Cells(values, _join(gaps, np.ma.getmaskarray(column)))
    if _is_of("pandas", column):
        return _from_pandas(name, column)
    if _is_of("pyarrow", column) or hasattr(column, "__arrow_c_stream__"):
        return _from_arrow(name, column)
    if not isinstance(column, np.ndarray) or column.dtype.kind not in "biufM" or column.ndim != 1:
        return _from_items(read_items(name, column, "a column, one value for each record"))
    if column.dtype.kind == "M":
        return _from_times(column)
    return Cells(column, _join(None, np.isnan(column)) if column.dtype.kind == "f" else None)


def read_time(text: str) -> float:
    """Return an ISO 8601 time as UTC epoch seconds; one without a zone is UTC. O(1). Raises ValueError.

    >>> read_time("2026-11-25T10:00:00+01:00")
    1795597200.0
    """
    try:
        return _seconds(datetime.fromisoformat(text))
    except (ValueError, OverflowError):
        raise ValueError(f"no ISO 8601 time: {shorten(text)}") from None


def _seconds(moment: date) -> float:
    if not isinstance(moment, datetime):
        moment = datetime.combine(moment, time())
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _from_times(column: npt.NDArray[Any]) -> Cells:
    unit, step = np.datetime_data(column.dtype)
    if unit not in _SECONDS and unit not in _PARTS:  # months, years
        column, (unit, step) = column.astype("M8[D]"), ("D", 1)
    counts = column.astype(np.int64).astype(np.float64)
    gaps = np.isnat(column)
    seconds = counts * (step * _SECONDS[unit]) if unit in _SECONDS else counts * step / _PARTS[unit]
    return Cells(np.where(gaps, 0.0, seconds), _join(None, gaps))


def _from_items(items: list[Any]) -> Cells:
    """Return a list, with times as seconds and gaps as None."""
    for i, item in enumerate(items):
        if isinstance(item, np.datetime64):
            seconds, gaps = _from_times(np.array([item]))
            items[i] = None if gaps is not None else float(seconds[0])
        elif _is_gap(item):
            items[i] = None
        elif isinstance(item, date):
            items[i] = _seconds(item)
    gaps = np.array([item is None for item in items], np.bool_)
    return Cells(items, _join(None, gaps))


def _is_gap(item: Any) -> bool:
    return (
        item is None
        or (isinstance(item, float | np.floating) and bool(item != item))  # noqa: PLR0124  NaN
        or type(item).__name__ in ("NAType", "NaTType")
    )


def _from_pandas(name: str, column: Any) -> Cells:
    gaps = column.isna().to_numpy()
    plain = getattr(column.dtype, "numpy_dtype", column.dtype)
    if getattr(plain, "tz", None) is not None:
        column, plain = column.dt.tz_convert("UTC").dt.tz_localize(None), None
    if isinstance(plain, np.dtype) and plain.kind in "biuf":
        fill = False if plain.kind == "b" else 0
        values = column.to_numpy(dtype=plain, na_value=fill) if plain is not column.dtype else column.to_numpy()
        return Cells(np.asarray(values), _join(None, gaps))
    values, more = read_cells(name, column.to_numpy())
    return Cells(values, _join(more, gaps))


def _from_arrow(name: str, column: Any) -> Cells:
    arrow = _load_arrow()
    types = arrow.types
    if not _is_of("pyarrow", column):
        column = arrow.chunked_array(column)
    if isinstance(column, arrow.ChunkedArray):
        column = arrow.concat_arrays(column.chunks) if column.num_chunks else arrow.array([], column.type)
    if isinstance(column, arrow.ExtensionArray):
        column = column.storage
    if types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if types.is_decimal(column.type):
        column = column.cast(arrow.float64())
    kind = column.type
    if types.is_timestamp(kind) or types.is_date(kind):
        return read_cells(name, column.to_numpy(zero_copy_only=False))
    if types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind):
        gaps = column.is_null().to_numpy(zero_copy_only=False) if column.null_count else None
        filled = column.fill_null(False if types.is_boolean(kind) else 0) if column.null_count else column
        values, more = read_cells(name, filled.to_numpy(zero_copy_only=False))
        return Cells(values, gaps if more is None else _join(gaps, more))
    return _from_items(column.to_pylist())


def _join(gaps: Gaps, more: npt.NDArray[np.bool_]) -> Gaps:
    """Return where either has a gap, None if there is none."""
    both = more if gaps is None else gaps | more
    return both if both.any() else None


def _is_of(library: str, value: object) -> bool:
    return type(value).__module__.partition(".")[0] == library


def _load_arrow() -> Any:
    try:
        import_module("pyarrow.types")  # an extra
        return import_module("pyarrow")
    except ImportError:
        raise TypeError("table: reading Arrow data needs pyarrow: pip install 'streamsched[export]'") from None
