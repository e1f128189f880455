"""The columns of the pages that an optimiser reads, copied from a running scheduler a few thousand pages at a time."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from streamsched.estimation.signal_sources import reliability
from streamsched.numerics.arrays import Bools, Floats, Ints, Record
from streamsched.numerics.jit import bare_kernel, inlined_kernel
from streamsched.politeness.limits import Limits, host_delay, ready_at
from streamsched.records.page_schema import LONGEST_INTERVAL, VISITED
from streamsched.records.schema import ShardArrays
from streamsched.records.signal_schema import RESOLVED, TRUE
from streamsched.scheduler.core import SchedulerCore

_PRECISION: Final = 0.8  # of a trusted source: plans wait for its signals, so these must be worth visits
_CHECKED: Final = 10.0  # signals of a trusted source that visits have checked
_CHUNK: Final = 1 << 16  # pages copied at a time: the lock is held for about a millisecond


class PageSnapshot(NamedTuple):
    """The first n pages of a scheduler, each as it was at some instant of the copying."""

    change_rate: Floats  # float64[n]: posterior mean, changes per cycle
    importance: Floats  # float64[n]
    available: Bools  # bool[n]: may be visited before the next plan
    recall: Floats  # float64[n]: share of the page's changes that its best trusted source announces, 0 without one
    waited: Floats  # float64[n]: cycles since the last visit, or since the page became known
    visited: Bools  # bool[n]
    crawl_rate: Floats  # float64[n]: by the plan before, 0 without one
    host: Ints  # int64[n]: number of the host's group
    host_visits: Floats  # float64[groups]: most visits per cycle of a host by its delay, inf for none


def copy_pages(core: SchedulerCore, now: float, until_s: float) -> PageSnapshot:
    """Copy all pages of `core` at `now`; those that wait for a time after `until_s` are not available. O(pages).

    The lock is free between parts: rows never move, so each page is copied whole.
    """
    with core.lock:
        pages, groups = len(core.pages), int(core.pages.arrays.corpus["groups"][0])
    rate, importance, recall, waited, crawl_rate = np.zeros((5, pages))
    available, visited = np.zeros((2, pages), np.bool_)
    hosts = (np.empty(pages, np.int64), np.full(groups, np.inf))
    snapshot = PageSnapshot(rate, importance, available, recall, waited, visited, crawl_rate, *hosts)
    for start in range(0, pages, _CHUNK):
        with core.lock:
            limits, times = core.politeness_policy.limits, (now, until_s, core.pages.cycle_s)
            _copy(core.pages.arrays, start, min(start + _CHUNK, pages), limits, times, snapshot)
    return snapshot


@bare_kernel
def _copy(
    shard: ShardArrays, start: int, stop: int, limits: Limits, times: tuple[float, float, float], out: PageSnapshot
) -> None:
    """Copy the pages from row `start` up to `stop`. `times`: now, until when they may wait, the length of a cycle."""
    now, until_s, cycle_s = times
    pages, groups = shard.pages, shard.groups.records
    for row in range(start, stop):
        page: Record = pages.records[row]
        group: Record = groups[page.group]
        host: Record = groups[group.host]
        shape = page.prior_shape + page.own_shape
        out.change_rate[row] = shape / (page.prior_exposure + page.own_exposure)
        out.importance[row] = page.importance
        out.waited[row] = min(max((now - page.last_visit_s) / cycle_s, 0.0), LONGEST_INTERVAL)
        out.visited[row] = page.flags & VISITED != 0
        out.crawl_rate[row] = pages.traces[row].crawl_rate
        out.available[row] = max(host.ready_s, ready_at(pages, row, limits)) <= until_s
        if pages.signals.size:
            out.recall[row] = _best_recall(shard, host, pages.signals[row].covered, cycle_s)
        out.host[row] = group.host
        delay_s = host_delay(host, limits)
        if delay_s > 0.0:
            out.host_visits[np.int64(group.host)] = cycle_s / delay_s


@inlined_kernel
def _best_recall(shard: ShardArrays, host: Record, covered: int, cycle_s: float) -> float:
    """Return the highest recall of the trusted sources of a host whose kinds are in the bits `covered`, else 0.

    A source is trusted if enough of its signals proved true. Silence of a source says something only of pages that it
    has announced changes of.
    """
    best = 0.0
    number = np.int64(host.source) - 1
    while number >= 0:
        source: Record = shard.signals.sources[number]
        checked = source.evidence[RESOLVED]
        if covered >> source.kind & 1 and checked >= _CHECKED and source.evidence[TRUE] >= _PRECISION * checked:
            best = max(best, reliability(shard, number, cycle_s).recall)
        number = np.int64(source.next) - 1
    return best
