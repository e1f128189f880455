"""Hours of the week, counted from Monday, in the local time of a page's region.

A time is converted to local hours with the UTC offset at the page's last visit. So the hours of an interval rise with
its end without a jump, even if clocks change within it; an error of an hour lasts until the next visit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from streamsched.numerics.jit import inlined_kernel
from streamsched.records.seasonality_schema import WEEK_HOURS, RegionClocks

if TYPE_CHECKING:
    pass

__all__ = [
    "DAY_HOURS",
    "HOUR_S",
    "hour_in_week",
    "local_hours",
    "quarters_at",
    "week_of",
]

HOUR_S: Final = 3_600.0
DAY_HOURS: Final = 24
_QUARTER_S: Final = 900.0
_MONDAY_HOURS: Final = 72.0  # from the Monday before 1970-01-01, a Thursday
_FAR_S: Final = 1e14  # three million years: times are clipped to this, so that hours keep their fractions


@inlined_kernel
def local_hours(at_s: float, quarters: int) -> float:
    """Return the hours from a Monday's midnight to `at_s`, with a UTC offset of `quarters` of an hour. O(1).

    Monotone in `at_s` also after rounding.
    """
    return (min(max(at_s, -_FAR_S), _FAR_S) + _QUARTER_S * quarters) / HOUR_S + _MONDAY_HOURS


@inlined_kernel
def week_of(hours: float) -> float:
    """Return the number of the week of local `hours`. O(1)."""
    return float(np.floor(hours / WEEK_HOURS))


@inlined_kernel
def hour_in_week(hours: float, week: float) -> float:
    """Return how many hours of their `week` have passed, 0 to 168. O(1)."""
    return min(max(hours - WEEK_HOURS * week, 0.0), float(WEEK_HOURS))


@inlined_kernel
def quarters_at(calendar: RegionClocks, region: int, at_s: float) -> int:
    """Return a region's UTC offset at `at_s`, in quarters of an hour. O(log switches)."""
    low, high = calendar.first[region], calendar.first[region + 1]
    while high - low > 1:
        middle = (low + high) // 2
        if calendar.switch_s[middle] <= at_s:
            low = middle
        else:
            high = middle
    return int(calendar.quarters[low])
