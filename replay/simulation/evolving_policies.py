"""Policies that evolve their formula from what they have seen so far: this library's loop, and the paper's method.

`EvolvingPolicy` is a running scheduler with its evolver: the default formula is the first champion, formulas are
evolved repeatedly, and a better one replaces the champion. `PaperPolicy` follows GP4C (section 5.2) as far as a
crawler can: one evolution from 19 cycles, whose winner is used to the end. The paper trains on all changes in those
cycles; a crawler knows only what its visits saw, so unobserved cycles are drawn from the posterior.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final, Protocol, runtime_checkable

import numpy as np

from streamsched.evolution.data.change_history import ChangeHistory
from streamsched.evolution.evolution_settings import REEVOLUTION_SETTINGS, EvolutionSettings, measure
from streamsched.evolution.generations import derive_seed, evolve_seeds
from streamsched.evolution.genomes import to_formula
from streamsched.evolution.pipeline import shuffle_pages
from streamsched.evolution.plan import EvolutionPlan
from streamsched.evolution.records import Candidate, DataSpan, EvolutionRecord, RecordBook
from streamsched.evolution.simulation.evaluator import Evaluator
from streamsched.evolution.simulation.trials import Trial
from streamsched.formula.champion import BY_EVOLUTION, Champion
from streamsched.formula.formula import Formula
from streamsched.numerics.arrays import Rows
from streamsched.replay.simulation.scheduled_policies import ScheduledPolicy
from streamsched.replay.simulation.simulator import Evolution, PolicyQuery, Schedule
from streamsched.scheduler.evolver import Evolver
from streamsched.scheduler.scheduler import Scheduler

FIRST_CYCLE: Final = 16  # of the replay: 15 cycles are known by then, the minimum to separate skill from luck
_KNOWN: Final = 19  # cycles that the paper evolves from: 2 of warm-up and 17
_FOLDS: Final = 4  # of pages: three train, one validates, as in the paper without the fold that tests
_FEWEST_PAGES: Final = 20  # fewer pages make no useful fold

Announce = Callable[[str], object]


@runtime_checkable
class SupportsEvolution(Protocol):
    """A policy that evolves formulas; it calls ``announce`` before each evolution."""

    evolutions: list[Evolution]
    records: list[EvolutionRecord]
    announce: Announce


def make_plan(schedule: Schedule, seed: int, workers: int) -> EvolutionPlan:
    """Return the plan of `EvolvingPolicy` for `schedule`: weekly evolutions for changes found at its budget. O(1)."""
    settings = replace(REEVOLUTION_SETTINGS, budget=schedule.share, reading=schedule.reading, workers=workers)
    return EvolutionPlan(drift=None, seed=derive_seed(seed, 0), settings=settings)


def make_paper_settings(schedule: Schedule, workers: int) -> EvolutionSettings:
    """Return the paper's settings with the budget and reading of `schedule`. O(1)."""
    return EvolutionSettings(budget=schedule.share, reading=schedule.reading, workers=workers)


class EvolvingPolicy(ScheduledPolicy):
    """A Scheduler whose formula is evolved by `plan`, starting at cycle `first_cycle` of the replay.

    It ranks at the end of a cycle whose outcomes are still unknown, so it evolves from the cycles before. Its pages are
    in the order of the probability that they have changed, as in a batch of the service.
    """

    def __init__(self, scheduler: Scheduler, plan: EvolutionPlan, first_cycle: int = FIRST_CYCLE) -> None:
        super().__init__(scheduler, by_probability=True)
        self.evolutions: list[Evolution] = []
        self.records: list[EvolutionRecord] = []
        self.announce: Announce = _ignore
        self._evolver = Evolver(scheduler, plan)
        self._first = first_cycle

    def rank(self, query: PolicyQuery) -> Rows:
        """Return the rows of the scheduler's best pages, after an evolution if one is due."""
        now = query.now - self.scheduler.cycle_s
        # Called from one interval before the first evolution on, so that the evolver counts the cycles.
        trigger = self._evolver.due(now) if query.cycle >= self._first - (self._evolver.plan.every or 0) else None
        records = [self._evolver.end_trial(now)]
        if trigger is not None:
            self.announce("evolving")
            records.append(self._evolver.evolve_now(now, trigger))
        for record in records:
            if record is not None:
                self.records.append(record)
                self.evolutions.append(Evolution.of(record, query.cycle))
        core = self.scheduler.core
        return self._rank_batch(query) if core.panel.share or core.trial.current else super().rank(query)

    def _rank_batch(self, query: PolicyQuery) -> Rows:
        """Return the rows of a batch, which has the panel's pages and those of a trial too."""
        batch = self.scheduler.next_batch(query.k, now=query.now, lease=self.scheduler.cycle_s / 2)
        return batch.rows[np.argsort(-batch.probabilities, kind="stable")]

    def save(self, directory: Path) -> Path:
        """Save the scheduler's state, the records and the elites, from which an evolver can continue. O(pages)."""
        self._evolver.keep(directory, self.records)
        return super().save(directory)


class PaperPolicy(ScheduledPolicy):
    """A Scheduler that uses its first formula until enough cycles are known, then the winner of one evolution.

    There is no contest: the best formula on the validation pages is used, as in the paper.
    """

    def __init__(self, scheduler: Scheduler, settings: EvolutionSettings, seed: int, known: int = _KNOWN) -> None:
        super().__init__(scheduler)
        self.evolutions: list[Evolution] = []
        self.records: list[EvolutionRecord] = []
        self.announce: Announce = _ignore
        self._settings = settings
        self._seed = derive_seed(seed, 1)
        self._known = known

    def rank(self, query: PolicyQuery) -> Rows:
        """Return the rows of the scheduler's best pages, after the only evolution if it is due."""
        now = query.now - self.scheduler.cycle_s
        if not self.records and query.cycle > self._known <= self.scheduler.core.known_cycles(now=now):
            self.announce("evolving")
            record = self._evolve(now)
            self.scheduler.use(record.champion_after)
            self.records.append(record)
            self.evolutions.append(Evolution.of(record, query.cycle))
        return super().rank(query)

    def save(self, directory: Path) -> Path:
        """Save the scheduler's state and the record. O(pages)."""
        for record in self.records:
            RecordBook(directory).append(record)
        return super().save(directory)

    def _evolve(self, now: float) -> EvolutionRecord:
        before = self.scheduler.champion
        training = self.scheduler.training(self._known, now=now, seed=self._seed)
        span, history = training.span, training.history
        data = DataSpan(span.start_s, span.cycles, history.pages, training.observed_share, 0, training.newcomers)
        settings = self._settings
        draft = EvolutionRecord(
            1,
            now,
            "schedule",
            "kept",
            f"too little to learn from: {data}",
            before,
            before,
            {name: value for name, value in settings.to_json().items() if name != "workers"},
            self._seed,
        )
        draft = replace(draft, data=data)
        if history.pages < _FEWEST_PAGES or history.cycles <= settings.warmup:
            return draft
        candidates = evolve_once(history, settings, self._seed)
        winner = candidates[0].formula
        return replace(
            draft,
            decision="promoted",
            why="the best on the validation pages, without a contest, as the paper has it",
            champion_after=Champion(Formula.parse(winner), BY_EVOLUTION, 1, now, None, settings.metric),
            candidates=tuple(candidates[: settings.elites]),
            challenger=winner,
            metric=settings.metric,
        )


def evolve_once(history: ChangeHistory, settings: EvolutionSettings, seed: int) -> list[Candidate]:
    """Return the elites of all runs, trained on most pages and validated on the rest, best first by the settings'
    selection. O(evaluations) crawls.
    """
    rows = shuffle_pages(history, seed)
    cut = rows.size // _FOLDS
    judging, training = (
        Evaluator(
            [
                Trial(
                    history.take(np.sort(part)),
                    warmup=settings.warmup,
                    budget=settings.budget,
                    reading=settings.reading,
                    salt=seed + place,
                )
            ],
            settings.metric,
            symbol_set=settings.symbol_set,
            workers=settings.workers,
        )
        for place, part in enumerate((rows[:cut], rows[cut:]))
    )
    elites = evolve_seeds(training.fitness, settings, seed).elites
    train = np.array([elite.fitness for elite in elites])
    validated = judging.fitness([elite.genome for elite in elites])
    order = np.argsort(-measure(train, validated, settings.selection), kind="stable")
    simple = [to_formula(elites[place].genome, settings.symbol_set).simplify().text for place in order.tolist()]
    return [
        Candidate(text, float(train[place]), float(validated[place]))
        for text, place in zip(simple, order.tolist(), strict=True)
    ]


def _ignore(_: str) -> None:
    pass
