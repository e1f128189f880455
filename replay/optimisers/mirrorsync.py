"""MirrorSync's experiments: how fast and how near to the optimum algorithms learn sync rates.

Kolobov, Bubeck and Zimmert (2020), "Online learning for active cache synchronization", figures 1 to 4, with the
settings of the authors' code: their algorithms follow the probes. On BinaryPoisson a third algorithm is the default of
the library, which fits the costs of all syncs and probes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

import numpy as np

from streamsched.numerics.argument_checks import check_whole
from streamsched.numerics.arrays import Floats
from streamsched.optimal import (
    BinaryPoisson,
    SublinPoly,
    SyncRun,
    SyncSettings,
    async_mirror_sync,
    async_psgd,
    mirror_sync,
    optimal_sync_rates,
)
from streamsched.replay.experiment import Progress


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncPlan:
    """Settings of the experiments; the defaults are the authors'.

    ``runs`` of each experiment, each with costs of its own; ``arms``: what is synchronised; ``rounds`` of learning.
    Raises SettingsError for numbers that are too small.
    """

    runs: int = 150
    arms: int = 100
    rounds: int = 240
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("runs", "arms", "rounds"):
            check_whole(name, getattr(self, name), 1, f"a whole number of {name}, 1 or more")
        check_whole("seed", self.seed, 0, "a whole number, 0 or more")


class _Algorithm(NamedTuple):
    name: str
    learn: Callable[..., SyncRun]
    learning_rate: float
    cycle: float
    estimate: Literal["fitted", "probes"] = "probes"


class _Experiment(NamedTuple):
    number: str
    costs: type[SublinPoly | BinaryPoisson]
    highest_rate: float
    algorithms: tuple[_Algorithm, ...]


@dataclass(frozen=True, slots=True, eq=False)
class AlgorithmRuns:
    """Runs of an algorithm; ``round``: float64[updates + 1], ``cost``: float64[runs, updates + 1] after each update."""

    name: str
    learning_rate: float
    cycle: float
    round: Floats
    cost: Floats


@dataclass(frozen=True, slots=True, eq=False)
class CostRuns:
    """An experiment: algorithms on the same costs, and the least cost of each run, ``best``: float64[runs]."""

    number: str
    costs: str
    best: Floats
    algorithms: Sequence[AlgorithmRuns]


@dataclass(frozen=True, slots=True, eq=False)
class SyncExperiments:
    """All experiments, and their settings."""

    plan: SyncPlan
    experiments: Sequence[CostRuns]


_ROUND: Final = 40.0  # time in which an arm is synchronised at least once, 1/lowest rate
_AMS: Final = _Algorithm("AsyncMirrorSync", async_mirror_sync, 1.6, 20.0)
_AMS_POISSON: Final = _Algorithm("AsyncMirrorSync", async_mirror_sync, 1.3, 8.0)
_FITTED: Final = _Algorithm("MirrorSync, fitted", mirror_sync, 5.0, _ROUND, "fitted")
_AMS_FITTED: Final = _Algorithm("AsyncMirrorSync, fitted", async_mirror_sync, 1.3, 8.0, "fitted")
_EXPERIMENTS: Final = (
    _Experiment("1", SublinPoly, 3.0, (_Algorithm("MirrorSync", mirror_sync, 2.7, _ROUND), _AMS)),
    _Experiment("1a", BinaryPoisson, 6.0, (_Algorithm("MirrorSync", mirror_sync, 5.0, _ROUND), _AMS_POISSON, _FITTED)),
    _Experiment("2", SublinPoly, 3.0, (_Algorithm("AsyncPSGD", async_psgd, 0.08, 20.0), _AMS)),
    _Experiment("2a", BinaryPoisson, 6.0, (_Algorithm("AsyncPSGD", async_psgd, 0.5, 40.0), _AMS_POISSON, _AMS_FITTED)),
)


def run_mirrorsync(plan: SyncPlan, progress: Progress | None = None) -> SyncExperiments:
    """Run experiments 1, 1a, 2 and 2a; the same settings give the same result to the last bit.

    `progress` is called after each run of an experiment. O(runs * syncs).
    """
    found = []
    for place, experiment in enumerate(_EXPERIMENTS):
        runs = []
        for run in range(plan.runs):
            runs.append(_run(experiment, plan, place, run))
            if progress is not None:
                progress(place * plan.runs + run + 1, len(_EXPERIMENTS) * plan.runs, f"experiment {experiment.number}")
        found.append(_gather(experiment, runs))
    return SyncExperiments(plan, tuple(found))


def _run(experiment: _Experiment, plan: SyncPlan, place: int, run: int) -> tuple[float, tuple[SyncRun, ...]]:
    """Return the least cost of a run, and the cost of each algorithm."""
    seeds = np.random.SeedSequence((plan.seed, place, run)).generate_state(1 + len(experiment.algorithms)).tolist()
    costs = experiment.costs.draw(plan.arms, seeds[0])
    settings = [_settings(experiment, plan, one) for one in experiment.algorithms]
    best = costs.cost(optimal_sync_rates(costs, settings[0]))
    learned = zip(experiment.algorithms, settings, seeds[1:], strict=True)
    return best, tuple(one.learn(costs, setting, seed=seed) for one, setting, seed in learned)


def _settings(experiment: _Experiment, plan: SyncPlan, one: _Algorithm) -> SyncSettings:
    return SyncSettings(
        learning_rate=one.learning_rate,
        lowest_rate=1.0 / _ROUND,
        highest_rate=experiment.highest_rate,
        rounds=plan.rounds,
        cycle=one.cycle,
        estimate=one.estimate,
    )


def _gather(experiment: _Experiment, runs: Sequence[tuple[float, tuple[SyncRun, ...]]]) -> CostRuns:
    algorithms = []
    for place, one in enumerate(experiment.algorithms):
        learned = [run[place] for _, run in runs]
        costs = np.array([run.cost for run in learned])
        algorithms.append(AlgorithmRuns(one.name, one.learning_rate, one.cycle, learned[0].time / _ROUND, costs))
    best = np.array([least for least, _ in runs])
    return CostRuns(experiment.number, experiment.costs.__name__, best, tuple(algorithms))
