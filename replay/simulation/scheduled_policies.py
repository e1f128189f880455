"""Policies that rank pages with a Scheduler: by its formula, by an optimiser's plans, with signals and without."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from streamsched.estimation.surges import share_not_hit
from streamsched.numerics.arrays import Bools, Rows
from streamsched.numerics.packed_urls import PackedUrls
from streamsched.outcomes import OutcomeBatch
from streamsched.records.related_schema import SHARE_BITS
from streamsched.records.schema import ShardArrays
from streamsched.replay.simulation.metrics import Forecast
from streamsched.replay.simulation.signal_stream import SignalStream
from streamsched.replay.simulation.simulator import DAY_S, PolicyQuery, Schedule, SupportsSignals
from streamsched.scheduler.planning.optimiser import Optimiser
from streamsched.scheduler.planning.optimiser_settings import OptimiserSettings
from streamsched.scheduler.planning.planned_rates import PLANNERS
from streamsched.scheduler.scheduler import Scheduler
from streamsched.signals import SignalBatch


class ScheduledPolicy:
    """Ranks pages with a Scheduler and reports outcomes to it.

    `by_probability`: pages are ordered, and changes predicted, by the probability that pages have changed, as in a
    batch; else by their scores.
    """

    def __init__(self, scheduler: Scheduler, *, by_probability: bool = False) -> None:
        self.scheduler = scheduler
        self._by_probability = by_probability

    def discover(self, urls: PackedUrls, now: float) -> None:
        """Add pages that the scheduler has not seen."""
        self.scheduler.discover(urls, now=now)

    def rank(self, query: PolicyQuery) -> Rows:
        """Return the rows of the scheduler's best pages, surge probes included."""
        batch = self.scheduler.rank(k=query.k, now=query.now, surge_probes=True)
        rows = batch.rows
        if not self._by_probability:
            return rows
        return rows[np.argsort(-batch.probabilities, kind="stable")]

    def predict(self, rows: Rows, now: float) -> Forecast:
        """Return probabilities that ``rows``: intp[k] have changed, and whether surges are shown there. O(k)."""
        core = self.scheduler.core
        with core.lock:
            if self._by_probability:
                likely = core.batch_builder.change_probabilities(now, rows)
            else:
                likely = np.clip(np.nan_to_num(core.score(now, rows)), 0.0, 1.0)
            return Forecast(likely, _find_shown_surges(core.pages.arrays, rows))

    def observe(self, outcomes: OutcomeBatch) -> None:
        """Report the outcomes to the scheduler."""
        self.scheduler.observe(outcomes)

    def notice(self, signals: SignalBatch) -> None:
        """Report the signals to the scheduler."""
        self.scheduler.notice(signals)

    def save(self, directory: Path) -> Path:
        """Save the scheduler's state to `directory`; return its file. O(pages)."""
        return self.scheduler.save(directory)


class SignalledPolicy:
    """A policy that gets the signals of a stream: before it chooses visits and before it learns from them, all
    earlier ones.
    """

    def __init__(self, policy: SupportsSignals, stream: SignalStream) -> None:
        self._policy = policy
        self._stream = stream

    def discover(self, urls: PackedUrls, now: float) -> None:
        """Add pages that the policy has not seen."""
        self._policy.discover(urls, now)

    def rank(self, query: PolicyQuery) -> Rows:
        """Return the rows of the policy's best pages."""
        self._notice_until(query.now)
        return self._policy.rank(query)

    def observe(self, outcomes: OutcomeBatch) -> None:
        """Report the outcomes of one cycle to the policy."""
        if len(outcomes):  # cycles of the warm-up are not ranked
            self._notice_until(float(outcomes.fetched_at.min()))
        self._policy.observe(outcomes)

    def _notice_until(self, now: float) -> None:
        signals = self._stream.take_until(now)
        if len(signals):
            self._policy.notice(signals)


def _find_shown_surges(shard: ShardArrays, rows: Rows) -> Bools:
    """Return whether a published surge, or a change of related pages, may have reached each page since its last visit:
    bool[k] of ``rows``: intp[k].
    """
    pages, groups, links = shard.pages.records[rows], shard.groups.records, shard.seasonality.links[rows]
    shown = [share_not_hit(groups[page["group"]], page["last_visit_s"]) < 1.0 for page in pages]
    claimed: Bools = np.any(links["related"] & SHARE_BITS, axis=1)
    return np.array(shown, np.bool_) | claimed


class PlannedPolicy(ScheduledPolicy):
    """A Scheduler whose crawl rates an optimiser plans by `policy`, with the budget of `schedule`.

    A plan gives no page's first visit: a page that becomes known is planned at the end of its first cycle.
    """

    def __init__(self, scheduler: Scheduler, policy: str, schedule: Schedule) -> None:
        super().__init__(scheduler, by_probability=True)
        per_cycle = schedule.budget
        # Above 1 it is in visits per second: the pages that they are a share of become known later.
        per_day = f"{100.0 * per_cycle * DAY_S / scheduler.cycle_s:.9f}%"
        planner = PLANNERS[policy]
        budget = per_day if per_cycle <= 1 else per_cycle / scheduler.cycle_s
        settings = OptimiserSettings(policy=policy, budget=budget, every=planner.every * scheduler.cycle_s)
        self._optimiser = Optimiser(scheduler, settings)
        self._draws_probes = planner.probe_share > 0.0

    def rank(self, query: PolicyQuery) -> Rows:
        """Return the rows of the scheduler's best pages, after a plan if one is due."""
        if self._optimiser.due(query.now):
            self._optimiser.plan_now(query.now)
        if not self._draws_probes:
            return super().rank(query)
        # Only batches have pages drawn at random.
        return self.scheduler.next_batch(query.k, now=query.now, lease=self.scheduler.cycle_s / 2).rows
