"""WebFountain's policy: crawl rates of buckets of pages with like change rates, from a plan of the next periods."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from streamsched.optimal.webfountain.bucket_model import BucketModel, NewPages, strategy_weights
from streamsched.optimal.webfountain.ipopt_solver import webfountain

if TYPE_CHECKING:
    from streamsched.numerics.arrays import Floats, Rows
    from streamsched.scheduler.planning.page_snapshot import PageSnapshot

__all__ = ["plan_buckets", "sort_into_buckets"]

_BUCKETS: Final = 32  # most buckets: the solver allows 256, and these are solved in half a second
_PERIODS: Final = 14  # that a plan looks ahead, as in the paper
_STRATEGY: Final = 1  # all periods count alike: the one without an end that copies must be fresh at


def plan_buckets(pages: PageSnapshot, rows: Rows, visits: float, every: float) -> tuple[Floats, float]:
    """Return the crawl rates of the pages ``rows``: float64[m], and the share of the visits that goes to new pages.

    `visits`: the budget, visits per cycle; `every`: the length of a period in cycles. A bucket's rate is its mean over
    the periods; that of pages never visited is what the first period gives them. Raises SettingsError without CasADi.
    """
    rates, known = np.zeros(rows.size), pages.visited[rows]
    new = rows[~known]
    if not known.any():
        rates[:] = visits / rows.size
        return rates, 1.0
    old, budget = rows[known], np.full(_PERIODS, visits * every)
    bucket = sort_into_buckets(pages.change_rate[old])
    counts = np.bincount(bucket).astype(np.float64)
    stale = -np.expm1(-pages.change_rate[old] * pages.waited[old])
    changing = np.bincount(bucket, -np.expm1(-pages.change_rate[old] * every)) / counts
    obsolete = np.minimum(np.bincount(bucket, stale), counts)
    arriving = NewPages(waiting=new.size, arrivals=float(np.count_nonzero(pages.waited[new] < every)))
    model = BucketModel(pages=counts, change_share=changing, obsolete=obsolete, budget=budget, new=arriving)
    plan = webfountain(model, strategy_weights(_STRATEGY, _PERIODS), starts=1)
    rates[known] = (plan.crawl_share.mean(axis=0) / every)[bucket]
    if new.size:
        rates[~known] = plan.new_crawled[0] / new.size / every
    crawled = float(plan.crawled.sum() + plan.new_crawled.sum())
    return rates, float(plan.new_crawled.sum()) / crawled if crawled > 0.0 else 0.0


def sort_into_buckets(change_rate: Floats) -> npt.NDArray[np.uint8]:
    """Return the bucket of each page: uint8[n], from 0 on, none empty, by ``change_rate``: float64[n] above 0. O(n).

    Buckets are equally wide in the logarithm of the rate.

    >>> sort_into_buckets(np.array([0.1, 5.0, 0.1001, 0.7])).tolist()
    [0, 2, 0, 1]
    """
    logs = np.log(change_rate)
    low, high = float(logs.min()), float(logs.max())
    places = ((logs - low) * (_BUCKETS / max(high - low, 1e-12))).astype(np.int64)
    places = np.minimum(places, _BUCKETS - 1)
    used = np.bincount(places, minlength=_BUCKETS) > 0
    return (np.cumsum(used) - 1).astype(np.uint8)[places]
