"""What works beside the stream of a run: evolutions of the formula, and plans of an optimiser.

Beside a live stream they run by the clock. Beside a file they run in the thread that reads it, between the cycles or
epochs of its outcomes' own time: outcomes are applied in parts, cut where one begins.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

from streamsched.api.views import Observed
from streamsched.errors import SnapshotError
from streamsched.evolution.plan import EvolutionPlan
from streamsched.numerics.arrays import Floats
from streamsched.outcomes import OutcomeBatch
from streamsched.scheduler.scheduler import Scheduler
from streamsched.service.event_log import LOG
from streamsched.state.crawl_plan import CrawlPlan

if TYPE_CHECKING:  # imported on demand: a run without them needs none of either
    from streamsched.scheduler.evolver import Evolver
    from streamsched.scheduler.planning.optimiser import Optimiser

Apply = Callable[[OutcomeBatch, bool], Observed]
"""Applies a part of a delivery; the second argument says whether it is the last part."""


class StreamHook(Protocol):
    """What a run does besides ingest, as the ingest loop drives it: evolutions, plans."""

    @property
    def drifted(self) -> bool | None:
        """Whether the hit rate has drifted since the last evolution; None if it is not watched."""
        ...

    def observe(self, outcomes: OutcomeBatch, apply: Apply) -> Observed:
        """Call `apply` with `outcomes`, in one or several parts."""
        ...

    def tick(self) -> None:
        """Advance what runs beside; called about every second."""
        ...

    def counts(self) -> dict[str, int]:
        """Return what is completed, by name."""
        ...


def find_drift(hooks: Sequence[StreamHook]) -> bool | None:
    """Return whether the hit rate has drifted since the last evolution; None if no hook watches it."""
    return next((hook.drifted for hook in hooks if hook.drifted is not None), None)


def observe_through(hooks: Sequence[StreamHook], outcomes: OutcomeBatch, apply: Apply) -> Observed:
    """Call `apply` with the parts into which all `hooks` cut `outcomes`, the first hook before the others."""
    if not hooks:
        return apply(outcomes, True)

    def cut_further(part: OutcomeBatch, is_last: bool) -> Observed:
        return observe_through(hooks[1:], part, lambda smaller, last: apply(smaller, is_last and last))

    return hooks[0].observe(outcomes, cut_further)


def split_outcomes(
    scheduler: Scheduler, outcomes: OutcomeBatch, cycle_s: float, reached: int | None
) -> list[tuple[OutcomeBatch, int | None]]:
    """Return `outcomes` in parts, as `cut_at_cycles` yields them; times that `scheduler` rejects do not count. O(n)."""
    times = outcomes.fetched_at.copy()
    if scheduler.core.clock.newest_s == -np.inf:
        times[:1] = np.nan  # the stream's first time may be wrong: no other confirms it
    times[[problem.record for problem in scheduler.find_ahead(outcomes)]] = np.nan
    return list(cut_at_cycles(outcomes, times, cycle_s, reached))


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
        self, scheduler: Scheduler, plan: EvolutionPlan, state: Path, save: Callable[[], object] = lambda: None
    ) -> None:
        from streamsched.scheduler.evolver import Evolver  # noqa: PLC0415

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
