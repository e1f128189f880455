"""What a page's record holds before its first visit: the prior it is given."""

from __future__ import annotations

from streamsched.numerics.arrays import Record
from streamsched.numerics.jit import inlined_kernel
from streamsched.records.page_schema import LONGEST_INTERVAL

__all__ = ["assign_prior"]


@inlined_kernel
def assign_prior(page: Record, shape: float, mean: float) -> None:
    """Give a page the Gamma prior of that shape and mean rate per cycle, rounded to single precision. O(1).

    Its exposure is `LONGEST_INTERVAL` at the most: it stays finite whatever the mean.
    """
    page.prior_shape = shape
    page.prior_exposure = min(shape / mean, LONGEST_INTERVAL)
