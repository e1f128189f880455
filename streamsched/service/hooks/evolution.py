"""Evolution of the formula during a run: beside a live stream, or between the cycles of a file's own time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from streamsched.errors import SnapshotError
from streamsched.scheduler.evolver import Evolver
from streamsched.scheduler.results import Observed
from streamsched.service.event_log import LOG
from streamsched.service.hooks.stream_parts import Apply, split_outcomes

if TYPE_CHECKING:
    from streamsched.evolution.plan import EvolutionPlan
    from streamsched.outcomes import OutcomeBatch
    from streamsched.scheduler.any_scheduler import AnyScheduler

__all__ = ["FileEvolution", "LiveEvolution"]


class LiveEvolution:
    """Evolution of a live stream: `evolver` runs beside the intake, by the time of `clock`.

    The watched hit rate is that of all outcomes from now on, those of the stream and those that come by HTTP.
    """

    def __init__(self, evolver: Evolver, clock: Callable[[], float]) -> None:
        self._evolver = evolver
        self._clock = clock
        self._observed: deque[Observed] = deque()  # not noted yet: the evolver's lock must not be waited for here
        self.evolutions = 0
        evolver.scheduler.core.listeners.append(self._keep)

    @property
    def drifted(self) -> bool:
        """Whether the hit rate of served pages has drifted since the last evolution."""
        return self._evolver.drifted

    def observe(self, outcomes: OutcomeBatch, apply: Apply) -> Observed:
        """Call `apply` once with all `outcomes`. O(n)."""
        return apply(outcomes, True)

    def tick(self) -> None:
        """Start an evolution if one is due, or collect the result of the running one. Milliseconds."""
        while self._observed:
            self._evolver.note(self._observed.popleft())
        try:
            record = self._evolver.tick(self._clock())
        except SnapshotError as error:  # the record could not be written: the champion stays
            LOG.error("evolution not recorded", reason=str(error))
            return
        if record is not None:
            self.evolutions += 1
            LOG.info("evolved", record=record.number, decision=record.decision, why=record.why)

    def counts(self) -> dict[str, int]:
        """Return the number of evolutions."""
        return {"evolutions": self.evolutions}

    def _keep(self, result: object) -> None:
        """Keep the result of outcomes for the next `tick`. Under the scheduler's lock."""
        if isinstance(result, Observed) and result.served:
            self._observed.append(result)


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

    @property
    def drifted(self) -> None:
        """None: evolutions of a file are due by its time alone."""
        return

    def observe(self, outcomes: OutcomeBatch, apply: Apply) -> Observed:
        """Call `apply` with the parts of `outcomes`, and evolve between two parts if due. O(n), and the evolutions."""
        total = Observed()
        parts = split_outcomes(self._scheduler, outcomes, self._scheduler.cycle_s, self._cycle)
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

    def counts(self) -> dict[str, int]:
        """Return the number of evolutions."""
        return {"evolutions": self.evolutions}

    def _evolve(self, now: float) -> None:
        trigger = self._evolver.due(now)
        if trigger is not None:
            record = self._evolver.evolve_now(now, trigger)
            self._save()
            self.evolutions += 1
            LOG.info("evolved", record=record.number, decision=record.decision, why=record.why)
