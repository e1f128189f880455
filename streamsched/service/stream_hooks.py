"""What works beside the stream of a run: evolutions of the formula, and plans of an optimiser.

Beside a live stream they run by the clock. Beside a file they run in the thread that reads it, between the cycles or
epochs of its outcomes' own time: outcomes are applied in parts, cut where one begins.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from streamsched.api.views import Observed
from streamsched.errors import SnapshotError
from streamsched.evolution.plan import EvolutionPlan
from streamsched.numerics.arrays import Floats
from streamsched.outcomes import OutcomeBatch
from streamsched.scheduler.scheduler import Scheduler
from streamsched.service.event_log import LOG
from streamsched.state.crawl_plan import CrawlPlan

if TYPE_CHECKING:  # imported on demand: a run without them needs none of them
    from streamsched.evolution.records import EvolutionRecord
    from streamsched.scheduler.evolver import Evolver
    from streamsched.scheduler.planning.optimiser import Optimiser

Cancelling: TypeAlias = Callable[[], AbstractContextManager[None]]
Apply = Callable[[OutcomeBatch, bool], Observed]
"""Applies a part of a delivery; the second argument says whether it is the last part."""


_PAUSE_S: Final = 60.0  # after a plan that failed


class StreamHook:
    """What a run does besides ingest, as the ingest loop drives it: evolutions, plans.

    ``done``: how many, of what ``counted`` names.
    """

    counted = ""

    def __init__(self) -> None:
        self.done = 0

    @property
    def drifted(self) -> bool | None:
        """Whether the hit rate of served pages has drifted since the last evolution; None if it is not watched."""
        return None

    def observe(self, outcomes: OutcomeBatch, apply: Apply) -> Observed:
        """Call `apply` with `outcomes`: once, or beside a file in parts, with what is due between two of them. O(n)."""
        return apply(outcomes, True)

    def tick(self) -> None:
        """Advance what runs beside; called about every second. Beside a file nothing does. Milliseconds."""

    def counts(self) -> dict[str, int]:
        """Return what is completed, by name."""
        return {self.counted: self.done}


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


class _FileHook(StreamHook):
    """A hook that runs in the thread that reads a file, whenever an epoch of `every_s` seconds of its time begins.

    ``epoch``: the newest one so far. The past in a file runs faster than the clock, so work beside it would end at a
    different outcome each time. Here it ends before the next outcome is read, and reading a file again leads to the
    same results.
    """

    def __init__(self, scheduler: Scheduler, every_s: float, epoch: int | None = None) -> None:
        super().__init__()
        self._scheduler = scheduler
        self._every_s = every_s
        self._epoch = epoch

    def observe(self, outcomes: OutcomeBatch, apply: Apply) -> Observed:
        total = Observed()
        parts = split_outcomes(self._scheduler, outcomes, self._every_s, self._epoch)
        for number, (part, epoch) in enumerate(parts, 1):
            before, self._epoch = self._epoch, epoch
            if epoch is not None and epoch != before:
                self._begin(epoch * self._every_s, is_first=before is None)
            observed = apply(part, number == len(parts))
            self._note(observed)
            total += observed
        return total

    def _begin(self, now: float, *, is_first: bool) -> None:
        """Do what is due at `now`, the beginning of an epoch."""

    def _note(self, observed: Observed) -> None:
        """Take note of what a part changed."""


class LiveEvolution(StreamHook):
    """Evolution of a live stream: `evolver` runs beside the intake, by the time of `clock`.

    The watched hit rate is that of all outcomes from now on, those of the stream and those that come by HTTP.
    """

    counted = "evolutions"

    def __init__(self, evolver: Evolver, clock: Callable[[], float]) -> None:
        super().__init__()
        self._evolver = evolver
        self._clock = clock
        self._observed: deque[Observed] = deque()  # not noted yet: the evolver's lock must not be waited for here
        evolver.scheduler.core.listeners.append(self._keep)

    @property
    def drifted(self) -> bool:
        """Whether the hit rate of served pages has drifted since the last evolution."""
        return self._evolver.drifted

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
            self.done += 1
            _log_evolution(record)

    def _keep(self, result: object) -> None:
        """Keep the result of outcomes for the next `tick`. Under the scheduler's lock."""
        if isinstance(result, Observed) and result.served:
            self._observed.append(result)


class FileEvolution(_FileHook):
    """Evolution of a file's stream, every few cycles of the outcomes' own time.

    `save` is called after each evolution, so that its record and its champion are on disk together; `cancelling`: the
    context in which each runs, which may end it by an exception.
    """

    counted = "evolutions"

    def __init__(
        self,
        scheduler: Scheduler,
        plan: EvolutionPlan,
        state: Path,
        save: Callable[[], object] = lambda: None,
        cancelling: Cancelling = nullcontext,
    ) -> None:
        from streamsched.scheduler.evolver import Evolver  # noqa: PLC0415

        super().__init__(scheduler, scheduler.cycle_s)
        self._evolver = Evolver(scheduler, plan, state)
        self._save = save
        self._cancelling = cancelling

    def _begin(self, now: float, *, is_first: bool) -> None:
        del is_first  # the first cycle counts as any
        record, trigger = self._evolver.end_trial(now), self._evolver.due(now)
        if trigger is not None:
            with self._cancelling():
                record = self._evolver.evolve_now(now, trigger)
        if record is not None:
            self._save()
            self.done += 1
            _log_evolution(record)

    def _note(self, observed: Observed) -> None:
        self._evolver.note(observed)


class LivePlanning(StreamHook):
    """Plans of a live stream: `optimiser` plans beside the intake, by the time of `clock`.

    After a plan that failed the one before stays in use, and a minute passes before the next is tried.
    """

    counted = "plans"

    def __init__(self, optimiser: Optimiser, clock: Callable[[], float]) -> None:
        super().__init__()
        self._optimiser = optimiser
        self._clock = clock
        self._pause_s = -math.inf  # no plan before

    def tick(self) -> None:
        """Begin a plan if one is due, or note one that has ended. Microseconds."""
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
            self.done += 1
            _log_plan(plan)


class FilePlanning(_FileHook):
    """Plans of a file's stream, at the epochs of the outcomes' own time."""

    counted = "plans"

    def __init__(self, optimiser: Optimiser) -> None:
        every_s, newest_s = optimiser.settings.every_s, optimiser.scheduler.core.clock.newest_s
        epoch = math.floor(newest_s / every_s) if math.isfinite(newest_s) else None
        super().__init__(optimiser.scheduler, every_s, epoch)
        self._optimiser = optimiser

    def _begin(self, now: float, *, is_first: bool) -> None:
        if not is_first and self._optimiser.due(now):
            plan = self._optimiser.plan_now(now)
            self.done += 1
            _log_plan(plan)


def _log_evolution(record: EvolutionRecord) -> None:
    LOG.info("evolved", record=record.number, decision=record.decision, why=record.why)


def _log_plan(plan: CrawlPlan) -> None:
    LOG.info("planned", number=plan.number, policy=plan.policy, pages=plan.pages, visits_per_s=plan.visits_per_s)
