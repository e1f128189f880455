"""Evolution: time to evaluate a formula, beside DEAP's compiled trees, its growth, and the whole run of the paper."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

import numpy as np

from benchmarks.deap_trees import ColumnCrawl, compile_program, make_tree
from benchmarks.timing import Row, best_seconds
from streamsched.evolution.data.change_history import ChangeHistory
from streamsched.evolution.gp.evolution_settings import EvolutionSettings
from streamsched.evolution.gp.loop import evolve_population, evolve_seeds
from streamsched.evolution.simulation.arena import tie_offset
from streamsched.evolution.simulation.evaluator import Evaluator, Metric
from streamsched.evolution.simulation.trials import Reading, Trial
from streamsched.formula import Formula
from streamsched.numerics.arrays import Floats
from streamsched.numerics.jit import mix

__all__ = ["make_history", "measure"]

_WARMUP: Final = 2
_RANKED: Final = 17
_PROGRAMS: Final = 40
_METRICS: Final[tuple[Metric, ...]] = ("change_rate", "ndcg")
_READINGS: Final[tuple[Reading, ...]] = ("since_visit", "that_day")

_FULL_PAGES: Final = 240_000  # the goals are for this number, with the settings of the paper
_RUN_GOALS_S: Final[dict[Reading, float]] = {"since_visit": 75.0, "that_day": 120.0}
_SAMPLE_PAGES: Final = 2_000  # pages of the run from which the programs are drawn
_WARM_PAGES: Final = 50_000
_WARM_GENERATIONS: Final = 5
_SETTINGS: Final = EvolutionSettings()
_SYMBOLS: Final = _SETTINGS.symbol_set


def measure(pages: int, repeats: int, generations: int) -> list[Row]:
    """Return the rows of the evolution benchmark at `pages` pages; a whole run has `generations` generations."""
    rows: list[Row] = []
    history = make_history(pages, _WARMUP + _RANKED)
    programs = _sample_programs()
    for reading in _READINGS:
        for metric in _METRICS:
            rows += _compare(Trial(history, warmup=_WARMUP, reading=reading), metric, programs, repeats)
    rows += _growth(pages, programs, repeats)
    for reading in _READINGS:
        rows.append(_whole_run(Trial(history, warmup=_WARMUP, reading=reading), generations))
    return [*rows, _warm_run()]


def make_history(pages: int, cycles: int, seed: int = 0) -> ChangeHistory:
    """Return a history of pages that change at random, each with its own Gamma-distributed rate; 35 % never change."""
    rng = np.random.default_rng(seed)
    rates = np.where(rng.random(pages) < 0.35, 0.0, rng.gamma(0.4, 0.3, pages))
    changed = rng.random((pages, cycles), np.float32) < -np.expm1(-rates)[:, None]
    return ChangeHistory.of(changed, hashes=rng.integers(0, 2**63, pages, np.uint64))


def _sample_programs() -> list[bytes]:
    """Return a uniform sample of the programs that a run with the settings of the paper evaluates."""
    trial = Trial(make_history(_SAMPLE_PAGES, _WARMUP + _RANKED))
    evaluator = Evaluator([trial], _SETTINGS.metric, symbol_set=_SYMBOLS)
    evaluated: dict[bytes, None] = {}

    def evaluate(genomes: Sequence[bytes]) -> Floats:
        evaluated.update(dict.fromkeys(genomes))
        return evaluator.fitness(genomes)

    evolve_population(evaluate, _SETTINGS, 0)
    chosen = np.random.default_rng(0).permutation(len(evaluated))[:_PROGRAMS]
    programs = list(evaluated)
    return [programs[i] for i in chosen]


def _compare(trial: Trial, metric: Metric, programs: Sequence[bytes], repeats: int) -> list[Row]:
    """Return the rows of one trial and metric: time per program on one and two threads, and whether results agree."""
    rival = _Rival(trial, metric, programs)
    rival_s = best_seconds(rival.run, 1) / len(programs)
    name = f"{trial.reading}, {metric}, {trial.history.pages:,} pages"
    goal = "≥ 200×" if trial.history.pages == _FULL_PAGES else ""
    rows: list[Row] = []
    for workers in (1, 2):
        ours_s, ours = _time_programs(trial, metric, programs, workers, repeats)
        title = f"{name}, per program on {workers} thread{'s' * (workers > 1)}"
        rows.append((title, f"{1e3 * ours_s:.2f} ms", f"{1e3 * rival_s:.0f} ms", f"{rival_s / ours_s:.0f}×", goal))
        goal = ""
    nodes = sum(map(len, programs)) / len(programs)
    same = np.count_nonzero(np.abs(ours - rival.values) <= 1e-12)
    best = f"{ours.max():.4f}", f"{rival.values.max():.4f}"
    rows.append(
        (
            f"the same: best of {len(programs)} programs of {nodes:.0f} nodes; how many agree",
            *best,
            f"{same} of {len(programs)}",
            "",
        )
    )
    return rows


class _Rival:
    """The programs as compiled DEAP trees, simulated one by one; ``values``: float64[programs], of the last run."""

    def __init__(self, trial: Trial, metric: Metric, programs: Sequence[bytes]) -> None:
        history = trial.history
        order = np.argsort([mix(page ^ mix(np.uint64(trial.salt))) for page in history.hashes], kind="stable")
        offsets = [tie_offset(trial.salt, cycle, history.pages) for cycle in range(history.cycles)]
        changed = np.ascontiguousarray(history.changed[order].T)
        self._crawl = ColumnCrawl(changed, np.array(offsets), trial.warmup, trial.visits, trial.reading)
        self._metric = metric
        self._trees = [make_tree(program, _SYMBOLS) for program in programs]
        self.values: Floats = np.empty(len(programs))

    def run(self) -> None:
        for i, tree in enumerate(self._trees):
            self.values[i] = self._crawl.fitness(compile_program(tree), self._metric)


def _time_programs(
    trial: Trial, metric: Metric, programs: Sequence[bytes], workers: int, repeats: int
) -> tuple[float, Floats]:
    """Return the seconds per program, without the preparation of the trial, and the fitness of all programs."""
    best_s, values = float("inf"), np.empty(0)
    for _ in range(repeats):
        evaluator = Evaluator([trial], metric, symbol_set=_SYMBOLS, workers=workers)
        evaluator.fitness([Formula.parse("t"), Formula.parse("t * t")])  # two, so that both threads allocate memory
        best_s = min(best_s, best_seconds(partial(evaluator.fitness, programs), 1))
        values = evaluator.fitness(programs)
    return best_s / len(programs), values


def _growth(pages: int, programs: Sequence[bytes], repeats: int) -> Iterator[Row]:
    """Yield rows of the time per program by number of pages, and by number of cycles that visit every page."""
    for share in (4, 2, 1):
        trial = Trial(make_history(pages // share, _WARMUP + _RANKED), warmup=_WARMUP)
        each_s, _ = _time_programs(trial, "ndcg", programs, 1, repeats)
        yield f"since_visit, ndcg, {pages // share:,} pages, 1 thread", f"{1e3 * each_s:.2f} ms", "–", "–", ""
    for warmup in (2, 7, 14):
        for reading in _READINGS:
            trial = Trial(make_history(pages, warmup + _RANKED), warmup=warmup, reading=reading)
            each_s, _ = _time_programs(trial, "ndcg", programs, 1, repeats)
            yield f"{reading}, ndcg, {warmup} cycles that visit all, 1 thread", f"{1e3 * each_s:.2f} ms", "–", "–", ""


def _whole_run(trial: Trial, generations: int) -> Row:
    """Return the row of the whole run of the paper, with all its seeds."""
    settings = replace(_SETTINGS, generations=generations)
    evaluator = Evaluator([trial], settings.metric, symbol_set=_SYMBOLS)
    seconds = best_seconds(lambda: evolve_seeds(evaluator.fitness, settings, 0), 1)
    full = trial.history.pages == _FULL_PAGES and generations == _SETTINGS.generations
    size = f"{settings.population} × {generations} × {settings.seeds} seeds"
    name = f"{trial.reading}, {settings.metric}, {size}, {evaluator.evaluated:,} different programs"
    return name, f"{seconds:.1f} s", "–", "–", f"≤ {_RUN_GOALS_S[trial.reading]:.0f} s" if full else ""


def _warm_run() -> Row:
    """Return the row of an evolution that begins with the elites of an earlier one, on one thread."""
    trial = Trial(make_history(_WARM_PAGES, _WARMUP + _RANKED), warmup=_WARMUP)
    settings = replace(_SETTINGS, generations=_WARM_GENERATIONS)
    earlier = Evaluator([trial], settings.metric, symbol_set=_SYMBOLS)
    elites = [elite.genome for elite in evolve_population(earlier.fitness, settings, 0).elites]

    def run() -> None:
        evaluator = Evaluator([trial], settings.metric, symbol_set=_SYMBOLS, workers=1)
        evolve_population(evaluator.fitness, settings, 1, initial=elites)

    name = f"{_WARM_GENERATIONS} generations from {len(elites)} elites, {_WARM_PAGES:,} pages, one thread"
    return name, f"{best_seconds(run, 1):.1f} s", "–", "–", "≤ 10 s"
