"""Short names for the array types that signatures use; a shape stands in the docstring, as ``float64[n]``."""

from __future__ import annotations

from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

__all__ = ["Bools", "Bytes", "Floats", "Hashes", "Ints", "Record", "Records", "Rows", "frozen"]

Bools: TypeAlias = npt.NDArray[np.bool_]
Bytes: TypeAlias = npt.NDArray[np.uint8]
Floats: TypeAlias = npt.NDArray[np.float64]
Hashes: TypeAlias = npt.NDArray[np.uint64]
Ints: TypeAlias = npt.NDArray[np.int64]
Record: TypeAlias = Any  # one of Records: kernels read and write its fields as attributes
Records: TypeAlias = npt.NDArray[Any]  # structured
Rows: TypeAlias = npt.NDArray[np.intp]

Column = TypeVar("Column", bound=npt.NDArray[Any])


def frozen(array: Column) -> Column:
    """Return a view of `array` that cannot be written through. O(1).

    A kernel is compiled anew for read-only and for writable arguments: what comes from outside is handed over as one.
    """
    view = array.view()
    view.flags.writeable = False
    return view
