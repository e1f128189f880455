"""The model of the paper's experiments, as far as it is printed: 500 million pages, growing to twice that in 400 days.

The paper prints neither its crawl budget nor its buckets' change rates. Here the buckets' mean lifetimes are equally
spaced: of the simple distributions tried, the one that comes nearest to tables 3 and 4. The budget is an argument; with
54 million pages, strategy 1 ends with as many obsolete pages as in table 3.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from streamsched.numerics.argument_checks import check_whole
from streamsched.optimal.array_checks import check_amount
from streamsched.optimal.webfountain.bucket_model import BucketModel, NewPages

__all__ = ["paper_model"]

_BUCKETS: Final = 255
_DOUBLING: Final = 400.0  # periods, days
_LIFETIMES: Final = (0.5, 230.0)  # days, of the fastest and of the slowest pages


def paper_model(
    budget: float, *, version: int = 1, periods: int = 14, change_scale: float = 1.0, buckets: int = _BUCKETS
) -> BucketModel:
    """Return the paper's model in millions of pages: 255 buckets, fastest first, and `periods` of a day each.

    ``budget``: million pages per period; ``version``: 1 has 2 million pages in each bucket, 2 has 3 million in the
    fastest and in the slowest quarter of the buckets and 1 million in the others; ``change_scale``: multiplies change
    rates, 0.5 for experiment 3; ``buckets``: other numbers of them divide the same pages. At the start, the changes of
    one period are obsolete. Raises SettingsError for invalid arguments.

    >>> float(paper_model(54).pages.sum())
    510.0
    """
    count = check_whole("buckets", buckets, 1, "a whole number of buckets, 1 to 256", most=256)
    rank = (np.arange(count) + 0.5) / count
    lifetimes = np.interp(rank, (0.0, 1.0), _LIFETIMES)
    change = -np.expm1(-check_amount("change_scale", change_scale) / lifetimes)
    unit = _BUCKETS / count
    pages = np.full(count, 2.0 * unit)
    if check_whole("version", version, 1, "1 or 2", most=2) == 2:
        pages = np.where((rank < 0.25) | (rank > 0.75), 3.0 * unit, unit)
    days = check_whole("periods", periods, 1, "a whole number of periods, 1 or more")
    growth = float(pages.sum()) * np.log(2.0) / _DOUBLING
    return BucketModel(
        pages, change, change * pages, np.full(days, check_amount("budget", budget)), NewPages(arrivals=growth)
    )
