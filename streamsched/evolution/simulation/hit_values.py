"""What each visit of a simulated crawl is worth if it finds a change, for each metric that formulas can be bred for.

- ``change_rate``: 1 over the visits of a cycle, so a cycle's hits sum to its ChangeRate.
- ``ndcg``: the discount of its position over the DCG of the best order, so they sum to NDCG.
- An objective (`formula.objectives`): c^dial over the visits of a cycle. c is the number of cycles for which the copy
  is current up to the page's next change, or the end of the trial. With ``freshness`` the hits of all
  cycles sum to the time that copies are current beyond what they would be without visits.

Each is times the page's importance, as a share of the mean; with ``* significance`` also times the share of the page
that its changes are expected to concern.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from streamsched.evolution.data.change_history import ChangeHistory
from streamsched.evolution.simulation.arena import CrawlHistory, CrawlRules, CrawlTrace
from streamsched.formula.objectives import Aim, find_aim
from streamsched.numerics.arrays import Floats, Hashes, Ints, Rows
from streamsched.numerics.jit import inlined_kernel, kernel


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric of crawls by its `name`: what `aim` says, by position if `ranked`."""

    name: str
    ranked: bool
    aim: Aim

    @classmethod
    def of(cls, name: str) -> Metric:
        """Return the metric ``ndcg``, ``change_rate``, or that of an objective. Raises ValueError for another name."""
        aim = Aim(0.0) if name in {"ndcg", "change_rate"} else find_aim(name)
        if aim is None:
            raise ValueError(f"metric: expected ndcg, change_rate or an objective, found {name}")
        return cls(name, name == "ndcg", aim)

    def weigh_pages(self, history: ChangeHistory, rows: Rows) -> Floats:
        """Return the weight of a hit of each of ``rows``: float64[P], with mean 1; empty if all have the same. O(P)."""
        weights = history.columns["importance"][rows]
        if self.aim.significant:
            weights = weights * history.columns["significance"][rows]
        total = weights.sum()
        return np.empty(0) if total == 0.0 or np.ptp(weights) == 0.0 else weights * (weights.size / total)


def hit_values(
    metric: Metric, weights: Floats, history: CrawlHistory, rules: CrawlRules, trace: CrawlTrace, visits: int
) -> Floats:
    """Return what each of the first `visits` visits of a cycle is worth if it is a hit: float64[r, visits].

    ``trace``: of a crawl under `rules`, with its visited pages; ``weights``: of `Metric.weigh_pages`.
    O(r · (words + visits · cycles until the next change)); for weighted NDCG O(r · pages).
    """
    values = np.empty((trace.visited.shape[0], visits))
    lasting = np.arange(rules.cycles + 1, dtype=np.float64) ** metric.aim.dial
    order = np.argsort(-weights, kind="stable")
    _fill_hit_values(history, rules, trace, weights, order, lasting, metric.ranked, values)
    return values


@kernel
def _fill_hit_values(  # noqa: PLR0913, PLR0917  a kernel
    history: CrawlHistory,
    rules: CrawlRules,
    trace: CrawlTrace,
    weights: Floats,
    order: Ints,
    lasting: Floats,
    ranked: bool,
    values: Floats,
) -> None:
    """Fill ``values``: float64[r, v]. ``order``: pages by weight, greatest first; ``lasting``: value by cycles."""
    visits = values.shape[1]
    stale = np.zeros(history.changed.shape[1], np.uint64)
    for at in range(values.shape[0]):
        cycle = rules.warmup + at
        for i in range(stale.size):
            stale[i] = history.changed[cycle, i] | (stale[i] if rules.since_visit else np.uint64(0))
        scale = 1.0 / visits
        if ranked:
            scale = 1.0 / _best_gain(history, weights, order, stale, trace.relevant[at], visits)
        for i in range(trace.visited.shape[1]):
            page = np.int64(trace.visited[at, i]) >> 2
            if i < visits:
                value = weights[page] * scale if weights.size else scale
                if ranked:
                    value *= history.discounts[i]
                else:
                    value *= lasting[_cycles_current(history.changed, page, cycle)]
                values[at, i] = value
            if trace.visited[at, i] & 1:
                stale[page >> 6] &= ~(np.uint64(1) << np.uint64(page & 63))


@inlined_kernel
def _cycles_current(changed: Hashes, page: int, cycle: int) -> int:
    """Return how many cycles a copy of `page` made at the end of `cycle` is current. O(result)."""
    word, bit = page >> 6, np.uint64(page & 63)
    later = cycle + 1
    while later < changed.shape[0] and not (changed[later, word] >> bit) & np.uint64(1):
        later += 1
    return later - cycle


@inlined_kernel
def _best_gain(history: CrawlHistory, weights: Floats, order: Ints, stale: Hashes, relevant: int, visits: int) -> float:
    """Return the DCG of the best order of the stale pages, 1 if there is none."""
    if relevant == 0:
        return 1.0
    count = min(relevant, visits)
    if weights.size == 0:
        return float(history.ideals[count])
    gain, place = 0.0, 0
    for page in order:
        if place == count:
            break
        if (stale[page >> 6] >> np.uint64(page & 63)) & np.uint64(1):
            gain += weights[page] * history.discounts[place]
            place += 1
    return gain if gain > 0.0 else 1.0
