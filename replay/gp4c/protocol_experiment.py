"""The temporal 5-fold experiment of GP4C (section 5.2): evolve, validate, select and test, five times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np

from streamsched.errors import ReplayError
from streamsched.evolution.data.change_history import ChangeHistory
from streamsched.evolution.evolution_settings import Metric, Selection, select
from streamsched.evolution.generations import derive_seed, evolve_seeds
from streamsched.evolution.genomes import to_formula
from streamsched.evolution.simulation.evaluator import Evaluator, Series
from streamsched.evolution.simulation.trials import Trial
from streamsched.formula.formula import Formula
from streamsched.formula.terminal_table import TerminalSet
from streamsched.numerics.arrays import Floats
from streamsched.replay.experiment import Progress
from streamsched.replay.gp4c.folds import Stages, assign_folds, cut_history, rotate_folds, split_history
from streamsched.replay.gp4c.protocol_results import BASELINES, SELECTIONS, Choice, Evolved, Outcome, ProtocolResult
from streamsched.replay.gp4c.protocol_settings import FOLDS, METRICS, ProtocolSettings, choose_spans
from streamsched.replay.ground_truth import ChangeLog
from streamsched.replay.log_reader import read_truth
from streamsched.replay.simulation.policies import FORMULAS

_RANDOM: Final = "1"  # equal scores: their order is random and differs each cycle


class _Tested(NamedTuple):
    """One formula in one test: its metrics over whole lists and over the first parts of them."""

    whole: Series
    cuts: Sequence[Series]


class _Rotation(NamedTuple):
    """One evolution: each selection's choice, its test, and the learning curves."""

    choices: dict[Selection, Choice]
    tests: dict[Selection, _Tested]
    curves: Floats
    programs: int


def run_protocol(settings: ProtocolSettings, progress: Progress | None = None) -> ProtocolResult:
    """Read the log and run the experiment on it; the same settings give the same result to the last bit.

    Raises ReplayError if the log is too short or too small, SourceError if it cannot be read.
    """
    return evolve_log(read_truth(settings.log), settings, progress)


def evolve_log(log: ChangeLog, settings: ProtocolSettings, progress: Progress | None = None) -> ProtocolResult:
    """Run the experiment on `log`, already read; ``settings.log`` is used as its name.

    `progress` is called after each generation. O(5 · metrics · terminal sets · seeds · generations · population)
    evaluations. Raises ReplayError if the log is too short or too small.
    """
    window = choose_spans(log, settings)
    if window.pages * settings.budget < FOLDS:
        raise ReplayError(
            f"found {window.pages} pages: expected {int(np.ceil(FOLDS / settings.budget))} or more, so that a budget "
            f"of {settings.budget:g} visits a page of each of {FOLDS} folds"
        )
    history = cut_history(window)
    fold_of = assign_folds(history.hashes, FOLDS, settings.seed)
    stages = [split_history(history, fold_of, rotation, settings) for rotation in rotate_folds()]
    tick = _ProgressCounter(progress, settings)
    baselines = {name: _gather([_test(stage, _baseline(name), settings) for stage in stages]) for name in BASELINES}
    evolved = tuple(
        _evolve(stages, metric, terminals, settings, tick)
        for metric in settings.metrics
        for terminals in settings.terminals
    )
    return ProtocolResult(
        settings,
        window,
        int(np.count_nonzero(history.changed)),
        _trial(stages[0].test, settings).visits,
        tuple((stage.prior_shape, stage.prior_mean) for stage in stages),
        baselines,
        evolved,
        log.rejected,
        log.rejections,
        log.note,
    )


def _evolve(
    stages: Sequence[Stages], metric: Metric, terminals: TerminalSet, settings: ProtocolSettings, tick: _ProgressCounter
) -> Evolved:
    """Return the five evolutions for one metric from one terminal set."""
    rotations = []
    for number, stage in enumerate(stages):
        tick.label = f"{metric}, {terminals}, fold {number + 1}"
        rotations.append(_run_rotation(stage, number, metric, terminals, settings, tick))
    return Evolved(
        metric,
        terminals,
        {how: tuple(one.choices[how] for one in rotations) for how in SELECTIONS},
        {how: _gather([one.tests[how] for one in rotations]) for how in SELECTIONS},
        {
            measured: np.array([[cut.mean(measured) for cut in one.tests["best"].cuts] for one in rotations])
            for measured in METRICS
        },
        np.array([one.curves for one in rotations]),
        sum(one.programs for one in rotations),
    )


def _run_rotation(
    stage: Stages,
    number: int,
    metric: Metric,
    terminals: TerminalSet,
    settings: ProtocolSettings,
    tick: _ProgressCounter,
) -> _Rotation:
    """Evolve on one rotation; return each selection's formula and its test."""
    evolution = replace(settings.evolution, metric=metric, terminals=terminals)
    symbol_set, workers = evolution.symbol_set, evolution.workers
    training = Evaluator([_trial(stage.train, settings)], metric, symbol_set=symbol_set, workers=workers)
    found = evolve_seeds(training.fitness, evolution, derive_seed(settings.seed, number), progress=tick)
    validation = Evaluator([_trial(stage.validation, settings)], metric, symbol_set=symbol_set, workers=workers)
    train = np.array([elite.fitness for elite in found.elites])
    validated = validation.fitness([elite.genome for elite in found.elites])
    choices, tests = {}, {}
    for how in SELECTIONS:
        index = select(train, validated, how)
        formula = to_formula(found.elites[index].genome, symbol_set).simplify()
        tests[how] = _test(stage, formula, settings)
        figures = (float(train[index]), float(validated[index]), tests[how].whole.mean(metric))
        choices[how] = Choice(str(formula), *figures)
    curves = np.array([[generation.best for generation in run.generations] for run in found.runs])
    return _Rotation(choices, tests, np.fmax.accumulate(curves, axis=1), training.evaluated)


def _test(stage: Stages, formula: Formula, settings: ProtocolSettings) -> _Tested:
    """Return the metrics of a formula in a rotation's test."""
    evaluator = Evaluator([_trial(stage.test, settings)], workers=1)
    cuts = [cut / settings.budget for cut in settings.cuts]
    (series,) = evaluator.series(formula, cuts=(1.0, *cuts))
    return _Tested(series[0], series[1:])


def _trial(history: ChangeHistory, settings: ProtocolSettings) -> Trial:
    evolution = settings.evolution
    return Trial(
        history, warmup=evolution.warmup, budget=evolution.budget, reading=evolution.reading, salt=settings.seed
    )


def _gather(tests: Sequence[_Tested]) -> Outcome:
    """Return a method's outcome from its tests, one per fold."""
    series = [test.whole for test in tests]
    return Outcome(
        np.array([np.where(one.counted, one.change_rate, np.nan) for one in series]),
        np.array([np.where(one.counted, one.ndcg, np.nan) for one in series]),
        np.array([one.new_pages / one.visits for one in series]),
    )


def _baseline(name: str) -> Formula:
    return Formula.parse(_RANDOM if name == "rand" else FORMULAS[name])


class _ProgressCounter:
    """Reports progress: counts generations over all evolutions."""

    def __init__(self, progress: Progress | None, settings: ProtocolSettings) -> None:
        evolution = settings.evolution
        evolutions = FOLDS * len(settings.metrics) * len(settings.terminals) * evolution.seeds
        self._progress, self._done, self._total = progress, 0, evolutions * evolution.generations
        self.label = ""

    def __call__(self, *_: object) -> None:
        self._done += 1
        if self._progress is not None:
            self._progress(self._done, self._total, self.label)
