"""GREEDY-NCIS as a policy: it visits the pages of the greatest `streamsched.optimal.crawl_value`.

The rates are those that a Scheduler learns from the same visits: the change rate of each page, and the recall and the
false signals of its source. A page with several sources has that whose signals say most, else that of the best recall.
The paper's rule for late signals, to drop those that follow a visit closely, is left out.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from streamsched.estimation.signal_sources import find_source, reliability
from streamsched.numerics.arrays import Floats, Ints, Record, Rows
from streamsched.numerics.jit import bare_kernel
from streamsched.numerics.topk_order import select_top
from streamsched.optimal.crawl_value import MOST_TERMS, NoisyPages, find_moments, value_page
from streamsched.records.page_schema import VISITED
from streamsched.records.schema import ShardArrays
from streamsched.records.signal_schema import MOST_KINDS
from streamsched.replay.simulation.scheduled_policies import ScheduledPolicy
from streamsched.replay.simulation.simulator import DAY_S, PolicyQuery


class LearnedPages(NamedTuple):
    """What is known of n pages: their rates, and ``waited``: float64[n] cycles and ``signals``: int64[n] since the last
    visit; cycles are infinite before the first.
    """

    pages: NoisyPages
    waited: Floats
    signals: Ints


class GreedyPolicy(ScheduledPolicy):
    """Visits the pages of the greatest value, in the order of the probability that they have changed."""

    def rank(self, query: PolicyQuery) -> Rows:
        """Return the rows of the best pages, best first. O(pages)."""
        core = self.scheduler.core
        learned = LearnedPages(
            NoisyPages(*np.zeros((4, query.known))), np.empty(query.known), np.zeros(query.known, np.int64)
        )
        values, changed = np.empty((2, query.known))
        with core.lock:
            _learn(core.pages.arrays, query.now, core.pages.cycle_s, learned)
        _value(learned, values, changed)
        best = select_top(values, core.tie_keys(now=query.now), query.k)
        return best[np.argsort(-changed[best], kind="stable")]


@bare_kernel
def _learn(shard: ShardArrays, now: float, cycle_s: float, out: LearnedPages) -> None:
    pages, sources = shard.pages, shard.signals
    for row in range(out.waited.size):
        page: Record = pages.records[row]
        out.pages.importance[row] = page.importance
        rate = (page.prior_shape + page.own_shape) / (page.prior_exposure + page.own_exposure)
        out.pages.change_rate[row] = rate
        out.waited[row] = max(now - page.last_visit_s, 0.0) / cycle_s if page.flags & VISITED else np.inf
        if not pages.signals.size:
            continue
        signal: Record = pages.signals[row]
        heard, known = np.int64(signal.kinds), np.int64(signal.kinds) | np.int64(signal.covered)
        if heard:
            known = 1 << np.int64(signal.lead)
            out.signals[row] = np.int64(signal.counts[signal.lead])
        group: Record = shard.groups.records[page.group]
        host: Record = shard.groups.records[group.host]
        for kind in range(MOST_KINDS):
            if known >> kind & 1:
                source = reliability(shard, find_source(sources, host, kind), cycle_s)
                if source.recall > out.pages.recall[row]:
                    out.pages.recall[row] = source.recall
                    out.pages.false_rate[row] = source.false_per_day * (cycle_s / DAY_S)


@bare_kernel
def _value(learned: LearnedPages, values: Floats, changed: Floats) -> None:
    for row in range(values.size):
        waited, signals = learned.waited[row], learned.signals[row]
        if waited == np.inf:  # there is no copy yet
            values[row], changed[row] = np.inf, 1.0
            continue
        values[row] = value_page(learned.pages, row, waited, signals, MOST_TERMS)
        changed[row] = 1.0 - find_moments(learned.pages, row, waited, signals, MOST_TERMS).fresh
