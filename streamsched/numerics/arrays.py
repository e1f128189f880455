"""Short names for the array types in signatures. Shapes are in docstrings, as ``float64[n]``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias, TypeVar

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


def frozen(array: Column) -> Column:
    """Return a read-only view of `array`. O(1).

    Kernels are compiled separately for read-only and for writable arguments, so callers' arrays are always passed as
    read-only.
    """
    view = array.view()
    view.flags.writeable = False
    return view
