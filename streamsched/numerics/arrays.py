"""Short names for the array types in signatures. Shapes are in docstrings, as ``float64[n]``."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, TypeAlias, TypeGuard, TypeVar

import numpy as np
import numpy.typing as npt

Arrays: TypeAlias = Mapping[str, npt.NDArray[Any]]  # columns by name
Bools: TypeAlias = npt.NDArray[np.bool_]
Bytes: TypeAlias = npt.NDArray[np.uint8]
Floats: TypeAlias = npt.NDArray[np.float64]
Hashes: TypeAlias = npt.NDArray[np.uint64]
Ints: TypeAlias = npt.NDArray[np.int64]
Record: TypeAlias = Any  # an element of Records: kernels read and write its fields as attributes
Records: TypeAlias = npt.NDArray[Any]  # structured
Rows: TypeAlias = npt.NDArray[np.intp]

Column = TypeVar("Column", bound=npt.NDArray[Any])


def field_offset(dtype: Any, name: str) -> int:
    """Return the bytes from the start of a record of `dtype`, a structured one, to its field `name`. O(1)."""
    return int(dtype.fields[name][1])


def is_masked(values: object) -> TypeGuard[np.ma.MaskedArray[Any, Any]]:
    """Return whether `values` is a masked array: who has one has imported numpy.ma, which we need not do. O(1)."""
    masked: Any = sys.modules.get("numpy.ma")
    return masked is not None and isinstance(values, masked.MaskedArray)


def frozen(array: Column) -> Column:
    """Return a read-only view of `array`. O(1).

    Kernels are compiled separately for read-only and for writable arguments, so callers' arrays are always passed as
    read-only.
    """
    view = array.view()
    view.flags.writeable = False
    return view
