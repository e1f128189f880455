"""The prior of a page's record."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamsched.numerics.jit import inlined_kernel
from streamsched.records.page_schema import LONGEST_INTERVAL

if TYPE_CHECKING:
    from streamsched.numerics.arrays import Record

__all__ = ["assign_prior"]


@inlined_kernel
def assign_prior(page: Record, shape: float, mean: float) -> None:
    """Set a page's Gamma prior to that shape and mean rate per cycle, rounded to single precision. O(1).

    Its exposure is at most `LONGEST_INTERVAL`, so it is finite whatever the mean.
    """
    page.prior_shape = shape
    page.prior_exposure = min(shape / mean, LONGEST_INTERVAL)
