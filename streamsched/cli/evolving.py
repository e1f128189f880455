"""Evolution along a stream: outcomes are cut where a cycle of their own time ends, and formulas evolved there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from streamsched.evolution.plan import EvolutionPlan
from streamsched.evolver import Evolver
from streamsched.outcomes import OutcomeBatch
from streamsched.replies import Observed
from streamsched.scheduler import Scheduler

__all__ = ["EvolvingIntake", "cut_at_cycles"]


class EvolvingIntake:
    """Takes outcomes into `scheduler`, and evolves every so many cycles of their time, here and now.

    A file's past runs faster than the clock: evolution beside it would end at another outcome each time. Here it ends
    before the next outcome is read, so that reading a file again leads to the same champions. The state is saved after
    each evolution, so that its record and its champion are on disk together.
    """

    def __init__(self, scheduler: Scheduler, plan: EvolutionPlan, state: Path) -> None:
        self._scheduler = scheduler
        self._evolver = Evolver(scheduler, plan, state)
        self._state = state
        self._cycle: int | None = None  # the newest that the stream has reached
        self.evolutions = 0

    def observe(self, outcomes: OutcomeBatch) -> Observed:
        """Observe `outcomes`, evolving between two of them where that is due. O(n), and the evolutions."""
        total = Observed()
        for part, cycle in cut_at_cycles(outcomes, self._scheduler.cycle_s, self._cycle):
            if cycle is not None and cycle != self._cycle:
                self._cycle = cycle
                self._evolve(cycle * self._scheduler.cycle_s)
            seen = self._scheduler.observe(part)
            self._evolver.note(seen)
            total += seen
        return total

    def _evolve(self, now: float) -> None:
        trigger = self._evolver.due(now)
        if trigger is not None:
            self._evolver.evolve_now(now, trigger)
            self._scheduler.save(self._state)
            self.evolutions += 1


def cut_at_cycles(
    outcomes: OutcomeBatch, cycle_s: float, reached: int | None
) -> Iterator[tuple[OutcomeBatch, int | None]]:
    """Yield `outcomes` in parts, each with the newest cycle that the stream has reached at its begin. O(n).

    `reached`: that before the first of them, None before there was any. Outcomes of an earlier cycle, which come late,
    do not cut.
    """
    if len(outcomes) == 0:
        return
    with np.errstate(invalid="ignore"):
        cycles = np.where(np.isfinite(outcomes.fetched_at), np.floor(outcomes.fetched_at / cycle_s), -np.inf)
    newest = np.maximum.accumulate(np.maximum(cycles, -np.inf if reached is None else float(reached)))
    starts = np.flatnonzero(np.r_[True, newest[1:] > newest[:-1]])
    for start, stop in zip(starts.tolist(), [*starts[1:].tolist(), len(outcomes)], strict=True):
        part = outcomes if stop - start == len(outcomes) else outcomes.take(np.arange(start, stop))
        yield part, int(newest[start]) if np.isfinite(newest[start]) else reached
