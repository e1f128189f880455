"""A Scheduler as a policy of a replay."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from streamsched.numerics.arrays import Rows
    from streamsched.numerics.packed_urls import PackedUrls
    from streamsched.outcomes import OutcomeBatch
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

    def observe(self, outcomes: OutcomeBatch) -> None:
        """Report the outcomes to the scheduler."""
        self.scheduler.observe(outcomes)

    def save(self, directory: Path) -> Path:
        """Save the scheduler's state to `directory`; return its file. O(pages)."""
        return self.scheduler.save(directory)
