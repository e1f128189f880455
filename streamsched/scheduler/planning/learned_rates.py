"""Crawl rates of policies that learn: WebFountain's plan for buckets of pages, MirrorSync's steps by observed costs.

WebFountain sorts pages with like change rates into buckets and plans the next periods of each bucket.
MirrorSync (Kolobov, Bubeck and Zimmert, 2020) has no model of changes. It synchronises a page every 1/rate, and rarely
probes its cost in between. A crawler sees a page's cost by visiting it, which synchronises it too. So a visit before
the page is due is a probe, and the next one, if the page is due by then, is the sync. Probes come from pages that
batches draw at random.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from streamsched.numerics.arrays import Floats, Ints, Rows
from streamsched.optimal.mirror_step import RateLimits, mirror_step
from streamsched.optimal.webfountain import BucketModel, NewPages, strategy_weights, webfountain
from streamsched.records.visit_journal import Visits, read_visits
from streamsched.scheduler.core import SchedulerCore
from streamsched.scheduler.planning.page_snapshot import PageSnapshot

_BUCKETS: Final = 32  # most buckets: the solver allows 256, and these are solved in half a second
_PERIODS: Final = 14  # that a plan looks ahead, as in the paper
_STRATEGY: Final = 1  # all periods count alike: the one without an end that copies must be fresh at


def plan_buckets(pages: PageSnapshot, rows: Rows, visits: float, every: float) -> tuple[Floats, float]:
    """Return the crawl rates of the pages ``rows``: float64[m], and the share of the visits that goes to new pages.

    `visits`: the budget, visits per cycle; `every`: the length of a period in cycles. A bucket's rate is its mean over
    the periods; that of pages never visited is what the first period gives them. If these are more than the budget
    together, all are scaled to it, so that their order stays. Raises SettingsError without CasADi.
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
    total = float(rates.sum())
    if total > visits:  # the first period gives new pages more than their mean, at the cost of the old ones
        rates *= visits / total
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


class SeenCosts(NamedTuple):
    """Pairs of a probe and a sync: the row of the page, and what each of the two visits observed, per importance."""

    rows: Ints  # int64[p]
    probed: Floats  # float64[p]: 1 if the probe found a change, else 0
    synced: Floats  # float64[p]


NOTHING_SEEN = SeenCosts(np.empty(0, np.int64), np.empty(0), np.empty(0))


def read_costs(core: SchedulerCore, since_s: float, crawl_rate: Floats) -> SeenCosts:
    """Return the pairs whose syncs were at `since_s` or later, of pages that the journal samples. O(pages + visits).

    ``crawl_rate``: float64[n], visits per cycle by which pages were due. The lock is held to copy the journal.
    """
    with core.lock:
        shard = core.pages.arrays
        corpus = shard.corpus.copy()
        journal = shard.journal[: min(int(corpus["journaled"][0]), shard.journal.size)].copy()
    return pair_visits(read_visits(journal, corpus), since_s, crawl_rate, core.pages.cycle_s)


def pair_visits(visits: Visits, since_s: float, crawl_rate: Floats, cycle_s: float) -> SeenCosts:
    """Return the pairs among ``visits`` whose syncs were at `since_s`, that of the last plan, or later. O(visits)."""
    rows = visits.rows
    known = rows < crawl_rate.size
    planned = np.where(known, crawl_rate[np.where(known, rows, 0)], 0.0) if crawl_rate.size else np.zeros(rows.size)
    follows = np.zeros(rows.size, np.bool_)  # the visit before is of the same page
    follows[1:] = (rows[1:] == rows[:-1]) & ~(visits.first | visits.unproven)[1:]
    elapsed = np.zeros(rows.size)
    elapsed[1:] = np.diff(visits.at_s) / cycle_s * planned[1:]
    is_probe = follows & (planned > 0.0) & (elapsed < 1.0)
    is_sync = follows & (elapsed >= 1.0) & (visits.at_s >= since_s)
    synced = np.flatnonzero(is_sync[1:] & is_probe[:-1]) + 1
    changed = visits.changed.astype(np.float64)
    return SeenCosts(rows[synced], changed[synced - 1], changed[synced])


_LEARNING_RATE: Final = 0.2  # share by which a pair that differs changes 1/rate, for a page of mean importance
_LOWEST: Final = 1.0 / 16.0  # of the mean rate, and ...
_HIGHEST: Final = 7.5  # ... these are the paper's limits: 0.025, 0.4 and 3


def step_rates(pages: PageSnapshot, rows: Rows, visits: float, seen: SeenCosts) -> Floats:
    """Return the crawl rates of the pages ``rows`` after an asynchronous mirror step: float64[m]. O(n).

    Pages with a new pair move and share their present total. They start at the mean rate, and so do pages that had no
    rate before; all rates are scaled to `visits` per cycle.
    """
    mean = visits / rows.size
    rates = np.where(pages.crawl_rate[rows] > 0.0, pages.crawl_rate[rows], mean)
    rates = _within(rates, mean, visits)
    counts = np.bincount(seen.rows, minlength=pages.crawl_rate.size)[rows]
    sums = np.bincount(seen.rows, seen.probed - seen.synced, pages.crawl_rate.size)[rows]
    moving = np.flatnonzero(counts)
    if moving.size:
        weights = pages.importance[rows[moving]] / pages.importance[rows].mean()
        slopes = weights * sums[moving] / counts[moving] / rates[moving]
        limits = RateLimits(lowest=_LOWEST * mean, highest=_HIGHEST * mean, budget=float(rates[moving].sum()))
        rates[moving] = mirror_step(rates[moving], slopes, _LEARNING_RATE, limits)
    return rates


def _within(rates: Floats, mean: float, visits: float) -> Floats:
    """Return rates nearest to multiples of `rates` within the limits, that add up to `visits` per cycle."""
    limits = RateLimits(lowest=_LOWEST * mean, highest=_HIGHEST * mean, budget=visits)
    return mirror_step(rates * (visits / rates.sum()), np.zeros(rates.size), 1.0, limits)
