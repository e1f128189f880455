"""The loop: evaluate a generation, remember the best of all so far, breed the next (section 4.2 of the paper)."""

from __future__ import annotations

import hashlib
import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from random import Random
from typing import NamedTuple, TypeAlias

from streamsched.evolution.gp.evolution_settings import EvolutionSettings
from streamsched.evolution.gp.genomes import depth_of, is_genome, ramped_trees
from streamsched.evolution.gp.operators import Reproduction
from streamsched.numerics.arrays import Floats

__all__ = [
    "CombinedRuns",
    "Evaluate",
    "Generation",
    "Individual",
    "RunResult",
    "derive_seed",
    "evolve_population",
    "evolve_seeds",
    "rank_individuals",
]

Evaluate: TypeAlias = Callable[[Sequence[bytes]], Floats]


class Individual(NamedTuple):
    """An individual and its fitness."""

    genome: bytes
    fitness: float


@dataclass(frozen=True, slots=True)
class Generation:
    """One generation of one run, in figures.

    ``number``: from 1; ``evaluated``: individuals that have a fitness; ``best``, ``mean``, ``median``: of these, NaN
    where there are none; ``distinct``: share of different genomes; ``mean_size``: nodes of an individual.
    """

    number: int
    evaluated: int
    best: float
    mean: float
    median: float
    distinct: float
    mean_size: float


@dataclass(frozen=True, slots=True)
class RunResult:
    """What one run found: ``elites``, the best different genomes of all its generations, the best first.

    ``generations``: those evaluated, in order; ``evaluations``: individuals handed to the evaluator, repeats included;
    ``complete``: False where it was over before the last generation that the settings ask for.
    """

    seed: int
    elites: tuple[Individual, ...]
    generations: tuple[Generation, ...]
    evaluations: int
    complete: bool


@dataclass(frozen=True, slots=True)
class CombinedRuns:
    """What several runs found: ``elites``, those of all `runs`, each genome once, the best first.

    They are not cut to N_b again: the paper validates the N_b of each run (4.2.3).
    """

    elites: tuple[Individual, ...]
    runs: tuple[RunResult, ...]


def evolve_population(
    evaluate: Evaluate,
    settings: EvolutionSettings,
    seed: int,
    *,
    initial: Sequence[bytes] = (),
    should_stop: Callable[[], bool] = lambda: False,
    progress: Callable[[Generation], object] | None = None,
) -> RunResult:
    """Return what one run from `seed` finds; the same bytes wherever `evaluate` gives the same numbers.

    `evaluate` gives a fitness for each genome, the higher the better, NaN for those it could not evaluate, which rank
    last and are no elites. `initial`: genomes over ``settings.symbol_set`` that start in the population, as many as it
    holds; ramped half-and-half makes the rest. `should_stop` is asked after each generation: True ends the run with what it
    has. `progress` is told of each generation. O(generations · population · size) besides what `evaluate` takes, 15
    to 35 µs for a new individual. Raises ValueError for a seed below 0, a first genome that does not fit, or a fitness
    of the wrong shape.
    """
    run = _Run(settings, seed, initial)
    _run_generations([run], evaluate, should_stop, lambda _, generation: progress(generation) if progress else None)
    return run.result()


def evolve_seeds(
    evaluate: Evaluate,
    settings: EvolutionSettings,
    seed: int,
    *,
    initial: Sequence[bytes] = (),
    should_stop: Callable[[], bool] = lambda: False,
    progress: Callable[[int, Generation], object] | None = None,
) -> CombinedRuns:
    """Return what ``settings.seeds`` independent runs find, run r from ``derive_seed(seed, r)`` (section 4.2.3).

    All is as in `evolve_population`, which gives the same `RunResult` for each of these seeds. The runs go side by side,
    a generation of all of them to a call of `evaluate`: it has more to share among its threads, and where `should_stop` ends
    it early all runs have come equally far. `progress` is told the run and its generation.
    """
    runs = [_Run(settings, derive_seed(seed, number), initial) for number in range(settings.seeds)]
    _run_generations(runs, evaluate, should_stop, progress)
    results = tuple(run.result() for run in runs)
    return CombinedRuns(rank_individuals(elite for result in results for elite in result.elites), results)


def derive_seed(seed: int, run: int) -> int:
    """Return the seed of run `run` of an evolution from `seed`: 48 bits that look random, exact in any JSON. O(1).

    >>> derive_seed(1, 0), derive_seed(1, 1)
    (157974076829889, 2244062864135)
    """
    return int.from_bytes(hashlib.sha256(f"{seed} {run}".encode()).digest()[:6], "big")


def rank_individuals(elites: Iterable[Individual]) -> tuple[Individual, ...]:
    """Return `elites`, each genome once with its first fitness, the best first; those of NaN are left out. O(n log n).

    Of equal fitness the smaller comes first, then the one of the smaller bytes.

    >>> [elite.genome for elite in rank_individuals([Individual(b"bb", 0.5), Individual(b"c", 0.5), Individual(b"d", 0.9)])]
    [b'd', b'c', b'bb']
    """
    distinct: dict[bytes, float] = {}
    for genome, fitness in elites:
        if not math.isnan(fitness):
            distinct.setdefault(genome, fitness)
    return tuple(sorted((Individual(*item) for item in distinct.items()), key=_sort_key))


def _sort_key(elite: Individual) -> tuple[bool, float, int, bytes]:
    """Return what sorts the best first, NaN last."""
    genome, fitness = elite
    is_nan = math.isnan(fitness)
    return is_nan, 0.0 if is_nan else -fitness, len(genome), genome


def _mean(values: Sequence[float]) -> float:
    """Return the mean from the exact sum, the same bytes everywhere; NaN of nothing."""
    if not values:
        return math.nan
    return (math.fsum(values) if all(map(math.isfinite, values)) else sum(values)) / len(values)


def _run_generations(
    runs: Sequence[_Run],
    evaluate: Evaluate,
    should_stop: Callable[[], bool],
    progress: Callable[[int, Generation], object] | None,
) -> None:
    """Carry all `runs` through their generations, side by side."""
    generations = runs[0].settings.generations
    for number in range(1, generations + 1):
        genomes = [genome for run in runs for genome in run.population]
        fitness = evaluate(genomes)
        if fitness.shape != (len(genomes),):
            raise ValueError(f"evaluate: expected float64[{len(genomes)}], found {fitness.dtype}{list(fitness.shape)}")
        values = fitness.tolist()
        size = len(genomes) // len(runs)
        for index, run in enumerate(runs):
            generation = run.record_fitness(values[index * size : (index + 1) * size])
            if progress is not None:
                progress(index, generation)
        if number == generations or should_stop():
            return
        for run in runs:
            run.reproduce()


class _Run:
    """One population on its way, and the best it has seen."""

    def __init__(self, settings: EvolutionSettings, seed: int, initial: Sequence[bytes]) -> None:
        if seed < 0:
            raise ValueError(f"seed: expected 0 or more, found {seed}")
        self.settings = settings
        self.symbol_set = settings.symbol_set
        self.seed = seed
        self.generations: list[Generation] = []
        self.elites: tuple[Individual, ...] = ()
        self.evaluations = 0
        self._rng = Random(seed)
        self._ranked: list[bytes] = []
        for genome in initial:
            if not is_genome(genome, self.symbol_set) or depth_of(genome, self.symbol_set) > settings.max_depth:
                expected = (
                    f"one whole tree of at most {settings.max_depth} levels over {settings.terminals!r} terminals"
                )
                raise ValueError(f"first: expected {expected}, found {genome[:80]!r}")
        self.population = list(dict.fromkeys(initial))[: settings.population]
        missing = settings.population - len(self.population)
        self.population += ramped_trees(missing, settings.initial_depth, self.symbol_set, self._rng)

    def record_fitness(self, fitness: Sequence[float]) -> Generation:
        """Take in the `fitness` of the population and return the generation's figures."""
        individuals = [Individual(*pair) for pair in zip(self.population, fitness, strict=True)]
        self._ranked = [genome for genome, _ in sorted(individuals, key=_sort_key)]
        self.elites = rank_individuals([*self.elites, *individuals])[: self.settings.elites]
        self.evaluations += len(individuals)
        finite = [value for value in fitness if not math.isnan(value)]
        self.generations.append(
            Generation(
                number=len(self.generations) + 1,
                evaluated=len(finite),
                best=max(finite, default=math.nan),
                mean=_mean(finite),
                median=statistics.median(finite) if finite else math.nan,
                distinct=len(set(self.population)) / len(self.population),
                mean_size=sum(map(len, self.population)) / len(self.population),
            )
        )
        return self.generations[-1]

    def reproduce(self) -> None:
        """Replace the population by its offspring."""
        elites = [elite.genome for elite in self.elites] if self.settings.parents == "elites" else []
        reproduction = Reproduction(elites or self._ranked, self.symbol_set, self.settings, self._rng)
        self.population = [reproduction.make_offspring() for _ in self.population]

    def result(self) -> RunResult:
        """Return what the run has found."""
        complete = len(self.generations) == self.settings.generations
        return RunResult(self.seed, self.elites, tuple(self.generations), self.evaluations, complete)
