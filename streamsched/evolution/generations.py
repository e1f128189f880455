"""The generational loop: evaluate the population, update the elites, create offspring (section 4.2 of the paper).

Genetic operators: crossover, reproduction, replacement and swap mutation (sections 4.1 and 5.2). Every random node is
uniform over all nodes of the tree, leaves included, so about half of the exchanged subtrees are leaves. (Koza draws
inner nodes nine times in ten; the paper says "random".) The result is always one complete tree of at most ``max_depth``
levels: positions are redrawn up to 10 times. If none fits, the operator returns None and another operator is drawn, up
to 10 times; the last resort is reproduction, which always succeeds.
"""

from __future__ import annotations

import hashlib
import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from random import Random
from typing import Final, NamedTuple, TypeAlias

from streamsched.evolution.evolution_settings import EvolutionSettings
from streamsched.evolution.genomes import depth_of, grow_tree, is_genome, levels_of, ramped_trees, subtree_end
from streamsched.evolution.symbols import SymbolSet
from streamsched.numerics.arrays import Floats

Operator: TypeAlias = Callable[[], bytes | None]

_MAX_TRIES: Final = 10  # draws of positions, parents or operators before the fallback
Evaluate: TypeAlias = Callable[[Sequence[bytes]], Floats]


def cross(first: bytes, second: bytes, symbol_set: SymbolSet, max_depth: int, rng: Random) -> bytes | None:
    """Return `first` with one random subtree replaced by a random subtree of `second`; None if 10 draws are too deep.

    Both parents have at most `max_depth` levels. O(size).
    """
    random = rng.random
    levels, donor_levels = levels_of(first, symbol_set), levels_of(second, symbol_set)
    for _ in range(_MAX_TRIES):
        start, donor = int(random() * len(first)), int(random() * len(second))
        donor_end = subtree_end(second, donor, symbol_set)
        if levels[start] + max(donor_levels[donor:donor_end]) - donor_levels[donor] <= max_depth:
            return first[:start] + second[donor:donor_end] + first[subtree_end(first, start, symbol_set) :]
    return None


def replace_subtree(genome: bytes, symbol_set: SymbolSet, settings: EvolutionSettings, rng: Random) -> bytes:
    """Return `genome` with a random subtree replaced by a new tree. O(size).

    The new tree is grown; its depth limit is the largest of the initial population, or the remaining levels if fewer.
    """
    start = int(rng.random() * len(genome))
    levels_left = settings.max_depth - levels_of(genome[: start + 1], symbol_set)[start] + 1
    new = grow_tree(symbol_set, min(levels_left, settings.initial_depth[1]), rng)
    return genome[:start] + new + genome[subtree_end(genome, start, symbol_set) :]


def swap_subtrees(genome: bytes, symbol_set: SymbolSet, max_depth: int, rng: Random) -> bytes | None:
    """Return `genome` with two disjoint subtrees exchanged. O(size).

    The result has at most `max_depth` levels. None if 10 draws find no pair that fits; a leaf, or a chain of unary
    functions, has none.
    """
    random = rng.random
    levels = levels_of(genome, symbol_set)
    for _ in range(_MAX_TRIES):
        node, other_node = int(random() * len(genome)), int(random() * len(genome))
        left, right = min(node, other_node), max(node, other_node)
        left_end = subtree_end(genome, left, symbol_set)
        if left_end > right:
            continue
        right_end = subtree_end(genome, right, symbol_set)
        deepest = max(
            levels[right] + max(levels[left:left_end]) - levels[left],
            levels[left] + max(levels[right:right_end]) - levels[right],
        )
        if deepest <= max_depth:
            parts = (genome[right:right_end], genome[left_end:right], genome[left:left_end])
            return b"".join((genome[:left], *parts, genome[right_end:]))
    return None


class Reproduction:
    """Creates offspring from `ranked` individuals, best first: tournament selection, operators by roulette wheel.

    The best rank of a tournament wins. Settings used: ``tournament``, ``max_depth``, ``crossover_depth``,
    ``initial_depth`` and the four operator rates.
    """

    def __init__(
        self, ranked: Sequence[bytes], symbol_set: SymbolSet, settings: EvolutionSettings, rng: Random
    ) -> None:
        if not ranked:
            raise ValueError("ranked: expected one parent or more, found none")
        self.ranked = ranked
        self.symbol_set = symbol_set
        self.settings = settings
        self.rng = rng
        self._operators: tuple[Operator, ...] = (self._cross, self.select_parent, self._replace, self._swap)
        rates = (settings.crossover, settings.reproduction, settings.replacement, settings.swap)
        self._cumulative_rates = tuple(accumulate(rates))
        self._crossover_parents: dict[bytes, bool] = {}  # by genome: is it shallow enough for crossover

    def make_offspring(self) -> bytes:
        """Return a new individual. O(size)."""
        for _ in range(_MAX_TRIES):
            child = self._draw_operator()()
            if child is not None:
                return child
        return self.select_parent()

    def select_parent(self) -> bytes:
        """Return the winner of a tournament. O(1)."""
        random, count = self.rng.random, len(self.ranked)
        return self.ranked[min(int(random() * count) for _ in range(self.settings.tournament))]

    def _draw_operator(self) -> Operator:
        threshold = self.rng.random() * self._cumulative_rates[-1]
        for operator, upper in zip(self._operators, self._cumulative_rates, strict=True):
            if threshold < upper:
                return operator
        return self.select_parent

    def _cross(self) -> bytes | None:
        first, second = self._select_crossover_parent(), self._select_crossover_parent()
        if first is None or second is None:
            return None
        return cross(first, second, self.symbol_set, self.settings.max_depth, self.rng)

    def _select_crossover_parent(self) -> bytes | None:
        """Return the first winner of up to 10 tournaments that is shallow enough for crossover."""
        for _ in range(_MAX_TRIES):
            parent = self.select_parent()
            if parent not in self._crossover_parents:
                self._crossover_parents[parent] = depth_of(parent, self.symbol_set) <= self.settings.crossover_depth
            if self._crossover_parents[parent]:
                return parent
        return None

    def _replace(self) -> bytes | None:
        return replace_subtree(self.select_parent(), self.symbol_set, self.settings, self.rng)

    def _swap(self) -> bytes | None:
        return swap_subtrees(self.select_parent(), self.symbol_set, self.settings.max_depth, self.rng)


class Individual(NamedTuple):
    """An individual and its fitness."""

    genome: bytes
    fitness: float


@dataclass(frozen=True, slots=True)
class Generation:
    """Statistics of one generation of one run.

    ``number``: from 1. ``evaluated``: individuals with a fitness. ``best``, ``mean``, ``median``: of their fitness, NaN
    if there are none. ``distinct``: share of different genomes. ``mean_size``: mean nodes per individual.
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
    """Result of one run: ``elites`` are the best distinct genomes of all its generations, best first.

    ``generations``: statistics in order. ``evaluations``: individuals passed to the evaluator, repeats included.
    ``complete``: False if the run stopped before the last generation.
    """

    seed: int
    elites: tuple[Individual, ...]
    generations: tuple[Generation, ...]
    evaluations: int
    complete: bool


@dataclass(frozen=True, slots=True)
class CombinedRuns:
    """Result of several runs: ``elites`` are those of all `runs`, each genome once, best first.

    They are not truncated to N_b again: the paper validates the N_b of each run (4.2.3).
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
    """Run one evolution from `seed`; the result is identical to the byte wherever `evaluate` returns the same numbers.

    `evaluate` returns the fitness of each genome, higher is better. NaN means not evaluated: such individuals rank last
    and are never elites. `initial`: genomes over ``settings.symbol_set`` that start in the population, truncated to its
    size; ramped half-and-half makes the rest. `should_stop` is called after each generation; True ends the run.
    `progress` is called with each generation. O(generations · population · size) besides `evaluate`, 15 to 35 µs for a
    new individual. Raises ValueError if the seed is negative, an initial genome is invalid or too deep, or the fitness
    has the wrong shape.
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
    """Run ``settings.seeds`` independent evolutions, run r from ``derive_seed(seed, r)`` (section 4.2.3).

    Each run's `RunResult` is that of `evolve_population` with the same seed. The runs advance together, one generation
    of all of them per call of `evaluate`: it has more work to parallelise, and if `should_stop` ends it early, all runs
    have made equal progress. `progress` is called with the run's number and its generation.
    """
    runs = [_Run(settings, derive_seed(seed, number), initial) for number in range(settings.seeds)]
    _run_generations(runs, evaluate, should_stop, progress)
    results = tuple(run.result() for run in runs)
    return CombinedRuns(rank_individuals(elite for result in results for elite in result.elites), results)


def derive_seed(seed: int, run: int) -> int:
    """Return the seed of run number `run`: 48 pseudo-random bits, exact in any JSON. O(1).

    >>> derive_seed(1, 0), derive_seed(1, 1)
    (157974076829889, 2244062864135)
    """
    return int.from_bytes(hashlib.sha256(f"{seed} {run}".encode()).digest()[:6], "big")


def rank_individuals(elites: Iterable[Individual]) -> tuple[Individual, ...]:
    """Return the individuals best first, each genome once with its first fitness; NaN is dropped. O(n log n).

    Of equal fitness, the smaller genome comes first, then the one with the smaller bytes.

    >>> pairs = [(b"bb", 0.5), (b"c", 0.5), (b"d", 0.9)]
    >>> [individual.genome for individual in rank_individuals(Individual(*pair) for pair in pairs)]
    [b'd', b'c', b'bb']
    """
    distinct: dict[bytes, float] = {}
    for genome, fitness in elites:
        if not math.isnan(fitness):
            distinct.setdefault(genome, fitness)
    return tuple(sorted((Individual(*item) for item in distinct.items()), key=_sort_key))


def _sort_key(elite: Individual) -> tuple[bool, float, int, bytes]:
    """Return the sort key: best first, NaN last."""
    genome, fitness = elite
    is_nan = math.isnan(fitness)
    return is_nan, 0.0 if is_nan else -fitness, len(genome), genome


def _mean(values: Sequence[float]) -> float:
    """Return the mean from the exact sum, identical on every machine; NaN if there are no values."""
    if not values:
        return math.nan
    return (math.fsum(values) if all(map(math.isfinite, values)) else sum(values)) / len(values)


def _run_generations(
    runs: Sequence[_Run],
    evaluate: Evaluate,
    should_stop: Callable[[], bool],
    progress: Callable[[int, Generation], object] | None,
) -> None:
    """Advance all `runs` through their generations together."""
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
    """State of one run: its population and its elites."""

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
                    f"one complete tree of at most {settings.max_depth} levels over {settings.terminals!r} terminals"
                )
                raise ValueError(f"initial: expected {expected}, found {genome[:80]!r}")
        self.population = list(dict.fromkeys(initial))[: settings.population]
        missing = settings.population - len(self.population)
        self.population += ramped_trees(missing, settings.initial_depth, self.symbol_set, self._rng)

    def record_fitness(self, fitness: Sequence[float]) -> Generation:
        """Record the `fitness` of the population and return the generation's statistics."""
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
        """Replace the population with its offspring."""
        elites = [elite.genome for elite in self.elites] if self.settings.parents == "elites" else []
        reproduction = Reproduction(elites or self._ranked, self.symbol_set, self.settings, self._rng)
        self.population = [reproduction.make_offspring() for _ in self.population]

    def result(self) -> RunResult:
        """Return the result of the run."""
        complete = len(self.generations) == self.settings.generations
        return RunResult(self.seed, self.elites, tuple(self.generations), self.evaluations, complete)
