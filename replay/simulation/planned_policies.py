"""Policies that plan: a Scheduler with an optimiser beside it, which plans anew at the end of a cycle or a week."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from streamsched.replay.simulation.scheduler_policy import ScheduledPolicy
from streamsched.scheduler.planning.optimiser import Optimiser
from streamsched.scheduler.planning.optimiser_settings import OptimiserSettings

if TYPE_CHECKING:
    from streamsched.numerics.arrays import Rows
    from streamsched.replay.simulation.simulator import PolicyQuery, Schedule
    from streamsched.scheduler.scheduler import Scheduler

__all__ = ["PROBED", "PlannedPolicy"]

PROBED: Final = 0.1  # share of the visits of `mirrorsync` that are drawn at random: its probes
_DAY_S: Final = 86_400.0
_EVERY: Final = {"webfountain": 7}  # cycles between two plans; of other policies 1


class PlannedPolicy(ScheduledPolicy):
    """A Scheduler whose crawl rates an optimiser plans by `policy`, with the budget of `schedule`.

    A plan gives no page's first visit: a page that becomes known is planned at the end of its first cycle.
    """

    def __init__(self, scheduler: Scheduler, policy: str, schedule: Schedule) -> None:
        super().__init__(scheduler, by_probability=True)
        per_day = f"{100.0 * schedule.budget * _DAY_S / scheduler.cycle_s:.9f}%"
        settings = OptimiserSettings(policy=policy, budget=per_day, every=_EVERY.get(policy, 1) * scheduler.cycle_s)
        self._optimiser = Optimiser(scheduler, settings)

    def rank(self, query: PolicyQuery) -> Rows:
        """Return the rows of the scheduler's best pages, after a plan if one is due."""
        if self._optimiser.due(query.now):
            self._optimiser.plan_now(query.now)
        return self._rank_batch(query) if self.scheduler.core.settings.explore_share else super().rank(query)

    def _rank_batch(self, query: PolicyQuery) -> Rows:
        """Return the rows of a batch, which has pages drawn at random too."""
        return self.scheduler.next_batch(query.k, now=query.now, lease=self.scheduler.cycle_s / 2).rows
