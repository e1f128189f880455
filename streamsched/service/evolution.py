"""Evolution of the formula during a run: beside a live stream, or between the cycles of a file's own time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np

from streamsched.errors import SnapshotError
from streamsched.outcomes import OutcomeBatch
from streamsched.scheduler.evolver import Evolver
from streamsched.scheduler.results import Observed
from streamsched.service.event_log import LOG

if TYPE_CHECKING:
    from streamsched.evolution.plan import EvolutionPlan
    from streamsched.numerics.arrays import Floats
    from streamsched.scheduler.any_scheduler import AnyScheduler

__all__ = ["Apply", "EvolutionHook", "FileEvolution", "LiveEvolution", "cut_at_cycles"]

Apply = Callable[[OutcomeBatch, bool], Observed]
"""Applies a part of a delivery; the second argument says whether it is the last part."""


class EvolutionHook(Protocol):
    """Evolution as the ingest loop drives it. ``evolutions``: the number completed."""

    evolutions: int

    def observe(self, outcomes: OutcomeBatch, apply: Apply) -> Observed:
        """Call `apply` with `outcomes`, in one or several parts."""
        ...

    def tick(self) -> None:
        """Advance evolutions that run beside; called about every second."""
        ...


class LiveEvolution:
    """Evolution of a live stream: `evolver` runs beside the intake, by the time of `clock`."""

    def __init__(self, evolver: Evolver, clock: Callable[[], float]) -> None:
        self._evolver = evolver
        self._clock = clock
        self.evolutions = 0

    def observe(self, outcomes: OutcomeBatch, apply: Apply) -> Observed:
        """Call `apply` once with all `outcomes`. O(n)."""
        observed = apply(outcomes, True)
        self._evolver.note(observed)
        return observed

    def tick(self) -> None:
        """Start an evolution if one is due, or collect the result of the running one. Milliseconds."""
        try:
            record = self._evolver.tick(self._clock())
        except SnapshotError as error:  # the record could not be written: the champion stays
            LOG.error("evolution not recorded", reason=str(error))
            return
        if record is not None:
            self.evolutions += 1
            LOG.info("evolved", record=record.number, decision=record.decision, why=record.why)


class FileEvolution:
    """Evolution of a file's stream: runs in this thread, every few cycles of the outcomes' own time.

    The past in a file runs faster than the clock, so an evolution beside it would end at a different outcome each time.
    Here it ends before the next outcome is read, and reading a file again leads to the same champions. `save` is called
    after each evolution, so that its record and its champion are on disk together.
    """

    def __init__(
        self, scheduler: AnyScheduler, plan: EvolutionPlan, state: Path, save: Callable[[], object] = lambda: None
    ) -> None:
        self._scheduler = scheduler
        self._evolver = Evolver(scheduler, plan, state)
        self._save = save
        self._cycle: int | None = None  # the newest cycle in the stream so far
        self.evolutions = 0

    def observe(self, outcomes: OutcomeBatch, apply: Apply) -> Observed:
        """Call `apply` with the parts of `outcomes`, and evolve between two parts if due. O(n), and the evolutions."""
        total = Observed()
        times = outcomes.fetched_at.copy()
        if self._scheduler.core.clock.newest_s == -np.inf:
            times[:1] = np.nan  # the stream's first time may be wrong: no other confirms it
        times[[problem.record for problem in self._scheduler.find_ahead(outcomes)]] = np.nan
        parts = list(cut_at_cycles(outcomes, times, self._scheduler.cycle_s, self._cycle))
        for number, (part, cycle) in enumerate(parts, 1):
            if cycle is not None and cycle != self._cycle:
                self._cycle = cycle
                self._evolve(cycle * self._scheduler.cycle_s)
            observed = apply(part, number == len(parts))
            self._evolver.note(observed)
            total += observed
        return total

    def tick(self) -> None:
        """Do nothing: no evolution runs beside."""

    def _evolve(self, now: float) -> None:
        trigger = self._evolver.due(now)
        if trigger is not None:
            record = self._evolver.evolve_now(now, trigger)
            self._save()
            self.evolutions += 1
            LOG.info("evolved", record=record.number, decision=record.decision, why=record.why)


def cut_at_cycles(
    outcomes: OutcomeBatch, times: Floats, cycle_s: float, reached: int | None
) -> Iterator[tuple[OutcomeBatch, int | None]]:
    """Yield `outcomes` in parts, each with the newest cycle in the stream at its start. O(n).

    `times`: float64[n], those of the outcomes, NaN for one that does not count; `reached`: the newest cycle before the
    first outcome, None if there was none. Late outcomes, of an earlier cycle, start no part.
    """
    if len(outcomes) == 0:
        return
    with np.errstate(invalid="ignore"):
        cycles = np.where(np.isfinite(times), np.floor(times / cycle_s), -np.inf)
    newest = np.maximum.accumulate(np.maximum(cycles, -np.inf if reached is None else float(reached)))
    starts = np.flatnonzero(np.r_[True, newest[1:] > newest[:-1]])
    for start, stop in zip(starts.tolist(), [*starts[1:].tolist(), len(outcomes)], strict=True):
        part = outcomes if stop - start == len(outcomes) else outcomes.take(np.arange(start, stop))
        yield part, int(newest[start]) if np.isfinite(newest[start]) else reached
