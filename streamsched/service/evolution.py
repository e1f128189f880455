"""Evolution along a stream: outcomes are cut where a cycle of their own time ends, and formulas evolved there."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

import numpy as np

from streamsched.errors import SnapshotError
from streamsched.evolution.plan import EvolutionPlan
from streamsched.outcomes import OutcomeBatch
from streamsched.scheduler.any_scheduler import AnyScheduler
from streamsched.scheduler.evolver import Evolver
from streamsched.scheduler.results import Observed
from streamsched.service.event_log import log_event

__all__ = ["Apply", "EvolutionHook", "FileEvolution", "LiveEvolution", "cut_at_cycles"]

Apply = Callable[[OutcomeBatch, bool], Observed]
"""Takes a part of a delivery, and whether it is the last."""


class EvolutionHook(Protocol):
    """What an intake asks of those who evolve along with it. ``evolutions``: how many came to their end."""

    evolutions: int

    def observe(self, outcomes: OutcomeBatch, apply: Apply) -> Observed:
        """Have `apply` take `outcomes`."""
        ...

    def tick(self) -> None:
        """See to what goes on beside, now and then."""
        ...


class LiveEvolution:
    """Takes outcomes of the present into a scheduler; `evolver` evolves beside, by the time of `clock`."""

    def __init__(self, evolver: Evolver, clock: Callable[[], float]) -> None:
        self._evolver = evolver
        self._clock = clock
        self.evolutions = 0

    def observe(self, outcomes: OutcomeBatch, apply: Apply) -> Observed:
        """Have `apply` take all of `outcomes`. O(n)."""
        seen = apply(outcomes, True)
        self._evolver.note(seen)
        return seen

    def tick(self) -> None:
        """Begin an evolution where one is due, or see what became of the one under way. Milliseconds."""
        try:
            record = self._evolver.tick(self._clock())
        except SnapshotError as error:  # the record could not be written: the champion stays
            log_event("evolution not recorded", logging.ERROR, reason=str(error))
            return
        if record is not None:
            self.evolutions += 1
            log_event("evolved", record=record.number, decision=record.decision, why=record.why)


class FileEvolution:
    """Takes outcomes into `scheduler`, and evolves every so many cycles of their time, here and now.

    A file's past runs faster than the clock: evolution beside it would end at another outcome each time. Here it ends
    before the next outcome is read, so that reading a file again leads to the same champions. `save` is called after
    each evolution, so that its record and its champion are on disk together.
    """

    def __init__(
        self, scheduler: AnyScheduler, plan: EvolutionPlan, state: Path, save: Callable[[], object] = lambda: None
    ) -> None:
        self._scheduler = scheduler
        self._evolver = Evolver(scheduler, plan, state)
        self._save = save
        self._cycle: int | None = None  # the newest that the stream has reached
        self.evolutions = 0

    def observe(self, outcomes: OutcomeBatch, apply: Apply) -> Observed:
        """Have `apply` take `outcomes`, evolving between two of them where that is due. O(n), and the evolutions."""
        total = Observed()
        parts = list(cut_at_cycles(outcomes, self._scheduler.cycle_s, self._cycle))
        for place, (part, cycle) in enumerate(parts, 1):
            if cycle is not None and cycle != self._cycle:
                self._cycle = cycle
                self._evolve(cycle * self._scheduler.cycle_s)
            seen = apply(part, place == len(parts))
            self._evolver.note(seen)
            total += seen
        return total

    def tick(self) -> None:
        """Nothing goes on beside."""

    def _evolve(self, now: float) -> None:
        trigger = self._evolver.due(now)
        if trigger is not None:
            record = self._evolver.evolve_now(now, trigger)
            self._save()
            self.evolutions += 1
            log_event("evolved", record=record.number, decision=record.decision, why=record.why)


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
