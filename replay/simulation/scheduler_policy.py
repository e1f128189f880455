"""A Scheduler as a policy of a replay, with signals and without."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from streamsched.estimation.surges import share_not_hit
from streamsched.records.related.related_schema import SHARE_BITS
from streamsched.replay.simulation.calibration import Forecast

if TYPE_CHECKING:
    from streamsched.numerics.arrays import Bools, Rows
    from streamsched.numerics.packed_urls import PackedUrls
    from streamsched.outcomes import OutcomeBatch
    from streamsched.records.schema import ShardArrays
    from streamsched.replay.simulation.signals.signal_stream import SignalStream
    from streamsched.replay.simulation.simulator import PolicyQuery, SupportsSignals
    from streamsched.scheduler.scheduler import Scheduler
    from streamsched.signals import SignalBatch

__all__ = ["ScheduledPolicy", "SignalledPolicy"]


class ScheduledPolicy:
    """Ranks pages with a Scheduler and reports outcomes to it.

    `by_probability`: pages are ordered, and changes foretold, by the probability that pages have changed, as in a
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
        rows = self.scheduler.rank(k=query.k, now=query.now, surge_probes=True).rows
        if not self._by_probability:
            return rows
        with self.scheduler.core.lock:
            likely = self.scheduler.core.batch_builder.change_probabilities(query.now, rows)
        return rows[np.argsort(-likely, kind="stable")]

    def foretell(self, rows: Rows, now: float) -> Forecast:
        """Return probabilities that ``rows``: intp[k] have changed, and whether surges are shown there. O(k)."""
        core = self.scheduler.core
        with core.lock:
            score = core.batch_builder.change_probabilities if self._by_probability else core.score
            scores = np.nan_to_num(score(now, rows))
            return Forecast(np.clip(scores, 0.0, 1.0), _find_shown_surges(core.pages.arrays, rows))

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
    """A policy that gets the signals of a stream: before it chooses visits and before it learns from them, all that
    came earlier.
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
