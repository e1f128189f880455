"""Plans of an optimiser during a run: beside a live stream, or between the epochs of a file's own time."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from streamsched.scheduler.results import Observed
from streamsched.service.event_log import LOG
from streamsched.service.hooks.stream_parts import Apply, split_outcomes

if TYPE_CHECKING:
    from streamsched.outcomes import OutcomeBatch
    from streamsched.scheduler.planning.optimiser import Optimiser
    from streamsched.state.crawl_plan import CrawlPlan

__all__ = ["FilePlanning", "LivePlanning"]

_PAUSE_S: Final = 60.0  # after a plan that failed


class LivePlanning:
    """Plans of a live stream: `optimiser` plans beside the intake, by the time of `clock`."""

    def __init__(self, optimiser: Optimiser, clock: Callable[[], float]) -> None:
        self._optimiser = optimiser
        self._clock = clock
        self._plans = 0
        self._pause_s = -math.inf  # no plan before

    @property
    def drifted(self) -> None:
        """None: plans watch no hit rate."""
        return

    def observe(self, outcomes: OutcomeBatch, apply: Apply) -> Observed:
        """Call `apply` once with all `outcomes`. O(n)."""
        return apply(outcomes, True)

    def tick(self) -> None:
        """Begin a plan if one is due, or note one that has ended. Microseconds.

        After a plan that failed the one before stays in use, and a minute passes before the next is tried.
        """
        now = self._clock()
        if now < self._pause_s:
            return
        try:
            plan = self._optimiser.tick(now)
        except Exception as error:  # noqa: BLE001  no plan may end the intake
            self._pause_s = now + _PAUSE_S
            LOG.error("plan failed", reason=f"{type(error).__name__}: {error}")
            return
        if plan is not None:
            self._plans += 1
            _log(plan)

    def counts(self) -> dict[str, int]:
        """Return the number of plans."""
        return {"plans": self._plans}


class FilePlanning:
    """Plans of a file's stream: made in this thread, at the epochs of the outcomes' own time.

    Each ends before the next outcome is read, so reading a file again leads to the same plans.
    """

    def __init__(self, optimiser: Optimiser) -> None:
        self._optimiser = optimiser
        self._every_s = optimiser.settings.every_s
        newest_s = optimiser.scheduler.core.clock.newest_s
        self._epoch = math.floor(newest_s / self._every_s) if math.isfinite(newest_s) else None  # in which it is
        self._plans = 0

    @property
    def drifted(self) -> None:
        """None: plans watch no hit rate."""
        return

    def observe(self, outcomes: OutcomeBatch, apply: Apply) -> Observed:
        """Call `apply` with the parts of `outcomes`, and plan between two parts if due. O(n), and the plans."""
        total = Observed()
        parts = split_outcomes(self._optimiser.scheduler, outcomes, self._every_s, self._epoch)
        for number, (part, epoch) in enumerate(parts, 1):
            if epoch is not None and self._epoch is not None and epoch > self._epoch:
                self._plan(epoch * self._every_s)
            self._epoch = epoch
            total += apply(part, number == len(parts))
        return total

    def tick(self) -> None:
        """Do nothing: no plan is made beside."""

    def counts(self) -> dict[str, int]:
        """Return the number of plans."""
        return {"plans": self._plans}

    def _plan(self, now: float) -> None:
        if self._optimiser.due(now):
            plan = self._optimiser.plan_now(now)
            self._plans += 1
            _log(plan)


def _log(plan: CrawlPlan) -> None:
    LOG.info("planned", number=plan.number, policy=plan.policy, pages=plan.pages, visits_per_s=plan.visits_per_s)
