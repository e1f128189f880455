"""A Scheduler as a policy of a replay."""

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
    from streamsched.replay.simulation.simulator import PolicyQuery
    from streamsched.scheduler.scheduler import Scheduler

__all__ = ["ScheduledPolicy"]


class ScheduledPolicy:
    """Ranks pages with a Scheduler and reports outcomes to it."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler

    def discover(self, urls: PackedUrls, now: float) -> None:
        """Add pages that the scheduler has not seen."""
        self.scheduler.discover(urls, now=now)

    def rank(self, query: PolicyQuery) -> Rows:
        """Return the rows of the scheduler's best pages, surge probes included."""
        return self.scheduler.rank(k=query.k, now=query.now, surge_probes=True).rows

    def foretell(self, rows: Rows, now: float) -> Forecast:
        """Return the scores of ``rows``: intp[k], read as probabilities, and whether surges are shown there. O(k)."""
        core = self.scheduler.core
        with core.lock:
            scores = np.nan_to_num(core.score(now, rows))
            return Forecast(np.clip(scores, 0.0, 1.0), _find_shown_surges(core.pages.arrays, rows))

    def observe(self, outcomes: OutcomeBatch) -> None:
        """Report the outcomes to the scheduler."""
        self.scheduler.observe(outcomes)

    def save(self, directory: Path) -> Path:
        """Save the scheduler's state to `directory`; return its file. O(pages)."""
        return self.scheduler.save(directory)


def _find_shown_surges(shard: ShardArrays, rows: Rows) -> Bools:
    """Return whether a published surge, or a change of related pages, may have reached each page since its last visit:
    bool[k] of ``rows``: intp[k].
    """
    pages, groups, links = shard.pages.records[rows], shard.groups.records, shard.seasonality.links[rows]
    shown = [share_not_hit(groups[page["group"]], page["last_visit_s"]) < 1.0 for page in pages]
    claimed: Bools = np.any(links["related"] & SHARE_BITS, axis=1)
    return np.array(shown, np.bool_) | claimed
