"""Genetic operators and the loop over generations."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import astuple
from random import Random
from typing import Any

import numpy as np
import pytest

from streamsched.evolution.evolution_settings import EvolutionSettings
from streamsched.evolution.generations import (
    Generation,
    Reproduction,
    cross,
    derive_seed,
    evolve_population,
    evolve_seeds,
    replace_subtree,
    swap_subtrees,
)
from streamsched.evolution.genomes import depth_of, from_formula, is_genome
from streamsched.evolution.symbols import SymbolSet
from streamsched.formula import Formula
from streamsched.numerics.arrays import Floats

TINY = SymbolSet(("X", "t"), (0.5,))
SMALL = EvolutionSettings(population=60, generations=12, elites=10, seeds=3, terminals="basic")
SYMBOL_SET = SMALL.symbol_set
X = SYMBOL_SET.symbols.index("X")


def genome_of(text: str, symbol_set: SymbolSet = TINY) -> bytes:
    genome = from_formula(Formula.parse(text), symbol_set)
    assert genome is not None
    return genome


def only(**settings: Any) -> EvolutionSettings:
    none: dict[str, Any] = {"crossover": 0.0, "reproduction": 0.0, "replacement": 0.0, "swap": 0.0}
    return EvolutionSettings(**(none | settings))


def test_operators_are_drawn_at_the_paper_s_rates() -> None:
    """90, 15, 5 and 5 of 115; the 99.9th percentile of chi-square at 3 degrees is 16.27."""
    reproduction = Reproduction([b"\x00"], TINY, EvolutionSettings(), Random(1))
    drawn = Counter(reproduction._draw_operator() for _ in range(23_000))
    expected = {
        reproduction._cross: 18_000,
        reproduction.select_parent: 3000,
        reproduction._replace: 1000,
        reproduction._swap: 1000,
    }
    assert set(drawn) == set(expected)
    assert sum((drawn[operator] - mean) ** 2 / mean for operator, mean in expected.items()) < 16.27


@pytest.mark.parametrize("name", ["crossover", "reproduction", "replacement", "swap"])
def test_an_operator_of_rate_0_is_never_drawn(name: str) -> None:
    reproduction = Reproduction([b"\x00"], TINY, EvolutionSettings(**{name: 0.0}), Random(2))  # type: ignore[arg-type]
    operators = {
        "crossover": reproduction._cross,
        "reproduction": reproduction.select_parent,
        "replacement": reproduction._replace,
        "swap": reproduction._swap,
    }
    drawn = {reproduction._draw_operator() for _ in range(5000)}
    assert drawn == set(operators.values()) - {operators[name]}


@pytest.mark.parametrize("size", [1, 2, 3])
def test_the_best_drawn_rank_wins_a_tournament(size: int) -> None:
    """The best of m draws from 4 ranks is r or better unless all m are worse."""
    pool = [bytes([symbol]) for symbol in (0, 1, 2)] + [b"\x08\x00"]
    reproduction = Reproduction(pool, TINY, EvolutionSettings(tournament=size), Random(3))
    wins = Counter(reproduction.select_parent() for _ in range(8000))
    behind = [(1 - rank / 4) ** size for rank in range(5)]
    expected = [8000 * (behind[rank] - behind[rank + 1]) for rank in range(4)]
    found = sum((wins[genome] - mean) ** 2 / mean for genome, mean in zip(pool, expected, strict=True))
    assert found < 16.27


def test_replaced_nodes_are_uniform() -> None:
    """The 5 nodes of X * t + X; new trees of one level are leaves, so the size identifies the replaced node's kind."""
    settings = only(replacement=1.0, initial_depth=(1, 1))
    genome, rng = genome_of("X * t + X"), Random(4)
    sizes = Counter(len(replace_subtree(genome, TINY, settings, rng)) for _ in range(5000))
    expected = {1: 1000, 3: 1000, 5: 3000}  # root, product, leaf
    assert set(sizes) == set(expected)
    assert sum((sizes[size] - mean) ** 2 / mean for size, mean in expected.items()) < 13.82


def test_crossover_pairs_are_uniform() -> None:
    rng = Random(5)
    children = Counter(cross(genome_of("X + X"), genome_of("t * t"), TINY, 10, rng) for _ in range(9000))
    expected = {
        genome_of(text): mean
        for text, mean in {
            "t": 2000, "t * t": 1000, "t + X": 2000, "X + t": 2000, "t * t + X": 1000, "X + t * t": 1000
        }.items()
    }  # fmt: skip
    assert set(children) == set(expected)
    assert sum((children[child] - mean) ** 2 / mean for child, mean in expected.items()) < 20.52


def test_a_crossover_at_the_depth_limit_gives_none_or_a_fitting_child() -> None:
    chain, leaf = genome_of("exp(exp(X))"), genome_of("t")
    rng = Random(6)
    assert {cross(chain, leaf, TINY, 3, rng) for _ in range(200)} == {
        genome_of(text) for text in ("t", "exp(t)", "exp(exp(t))")
    }
    assert all(depth_of(child, TINY) <= 3 for _ in range(200) if (child := cross(chain, chain, TINY, 3, rng)))


@pytest.mark.parametrize("text", ["X", "exp(X)", "log(exp(X))"])
def test_without_disjoint_subtrees_there_is_no_swap(text: str) -> None:
    assert swap_subtrees(genome_of(text), TINY, 10, Random(7)) is None


def test_a_swap_of_both_operands() -> None:
    rng = Random(8)
    found = {swap_subtrees(genome_of("X - t"), TINY, 2, rng) for _ in range(100)}
    assert found == {genome_of("t - X"), None}  # occasionally 10 draws hit only the root or the same leaf twice


def test_a_swap_respects_the_depth_limit() -> None:
    rng = Random(9)
    lopsided = genome_of("exp(exp(X)) - exp(t)")
    children = [swap_subtrees(lopsided, TINY, 4, rng) for _ in range(400)]
    assert genome_of("exp(exp(exp(t))) - X") not in children  # 5 levels
    assert genome_of("exp(t) - exp(exp(X))") in children


def test_if_nothing_can_be_swapped_another_operator_is_drawn() -> None:
    leaf = genome_of("X")
    swap_children = Reproduction([leaf], TINY, only(swap=1.0), Random(10))
    assert {swap_children.make_offspring() for _ in range(50)} == {leaf}
    others = Reproduction([leaf], TINY, only(swap=1.0, replacement=1.0), Random(10))
    grown = [others.make_offspring() for _ in range(200)]
    assert sum(len(child) > 1 for child in grown) > 80  # 7 in 10 grown trees have a function at the root


def test_parents_too_deep_for_crossover_are_excluded() -> None:
    deep, shallow = genome_of("exp(exp(exp(X)))"), genome_of("t + t")
    reproduction = Reproduction([deep, shallow], TINY, only(crossover=1.0, crossover_depth=2), Random(11))
    children = {reproduction._cross() for _ in range(300)} - {None}
    assert children
    assert all(0 not in child for child in children if child)  # no X of the deep one
    alone = Reproduction([deep], TINY, only(crossover=1.0, crossover_depth=2), Random(11))
    assert {alone.make_offspring() for _ in range(20)} == {deep}


def test_a_parent_at_the_crossover_depth_is_included() -> None:
    deep = genome_of("exp(exp(exp(X)))")
    reproduction = Reproduction([deep], TINY, only(crossover=1.0, crossover_depth=4), Random(12))
    assert any(reproduction.make_offspring() != deep for _ in range(50))


def test_replacements_respect_initial_and_maximum_depth() -> None:
    settings = only(replacement=1.0, max_depth=4, initial_depth=(1, 3))
    rng = Random(13)
    depths = Counter(
        depth_of(replace_subtree(genome_of("exp(exp(exp(X)))"), TINY, settings, rng), TINY) for _ in "x" * 999
    )
    assert max(depths) == 4
    lone = Counter(depth_of(replace_subtree(genome_of("X"), TINY, settings, rng), TINY) for _ in "x" * 999)
    assert set(lone) == {1, 2, 3}


def test_an_empty_population_is_refused() -> None:
    with pytest.raises(ValueError, match="one parent or more"):
        Reproduction([], TINY, EvolutionSettings(), Random(0))


def test_tiny_rates_give_a_valid_wheel() -> None:
    settings = only(crossover=5e-324, swap=5e-324)
    reproduction = Reproduction([genome_of("X + t")], TINY, settings, Random(14))
    assert all(is_genome(reproduction.make_offspring(), TINY) for _ in range(50))
    assert math.isfinite(reproduction._cumulative_rates[-1])


def prefer_changes(genomes: Sequence[bytes]) -> Floats:
    """A toy fitness: the number of X in up to 15 nodes. Integers and halves, the same on every machine."""
    return np.array([genome.count(X) - abs(len(genome) - 15) / 2 for genome in genomes])


class Recorder:
    """A fitness that notes each population it is asked for."""

    def __init__(self, fitness: Callable[[Sequence[bytes]], Floats] = prefer_changes) -> None:
        self.populations: list[list[bytes]] = []
        self.fitness = fitness

    def __call__(self, genomes: Sequence[bytes]) -> Floats:
        self.populations.append(list(genomes))
        return self.fitness(genomes)

    @property
    def sizes(self) -> list[int]:
        return [len(population) for population in self.populations]


@pytest.mark.parametrize("parents", ["generation", "elites"])
def test_evolution_improves(parents: str) -> None:
    settings = EvolutionSettings.from_json(SMALL.to_json() | {"parents": parents})
    evolved = evolve_population(prefer_changes, settings, 1)
    initial, last = evolved.generations[0], evolved.generations[-1]
    assert last.mean > initial.mean + 1
    assert last.median > initial.median + 1
    assert evolved.elites[0].fitness == max(generation.best for generation in evolved.generations) > initial.best
    assert len(evolved.elites) == 10


def test_equal_seeds_give_equal_results_and_others_differ() -> None:
    found = [evolve_population(prefer_changes, SMALL, seed) for seed in (5, 5, 6)]
    assert found[0] == found[1]
    assert found[0].elites != found[2].elites


def test_results_equal_the_recorded_digest() -> None:
    """Recorded digest: it changes if a random draw is added, dropped or moved, or the generator itself changes."""
    settings = EvolutionSettings.from_json(SMALL.to_json() | {"parents": "generation"})
    evolved = evolve_population(prefer_changes, settings, 2015)
    content = repr([*map(tuple, evolved.elites), *map(astuple, evolved.generations)]).encode()
    assert hashlib.sha256(content).hexdigest() == "1f367a25f5654108100c8433da1b315c825d28601b7e944b01504b51e654f0bb"


def test_every_individual_is_whole_and_no_deeper_than_allowed() -> None:
    favour_size = Recorder(lambda genomes: np.array([float(len(genome)) for genome in genomes]))
    settings = EvolutionSettings(population=40, generations=25, max_depth=7, crossover_depth=7, terminals="full")
    evolved = evolve_population(favour_size, settings, 3)
    seen = [genome for population in favour_size.populations for genome in population]
    assert all(is_genome(genome, settings.symbol_set) for genome in seen)
    assert max(depth_of(genome, settings.symbol_set) for genome in seen) == 7
    assert max(map(len, seen)) <= 2**7 - 1
    assert evolved.generations[-1].mean_size > 2 * evolved.generations[0].mean_size


def test_it_stops_on_request() -> None:
    evaluate = Recorder()
    evolved = evolve_population(evaluate, SMALL, 1, should_stop=lambda: len(evaluate.sizes) >= 4)
    assert evaluate.sizes == [60] * 4
    assert not evolved.complete
    assert len(evolved.generations) == 4
    assert evolved.evaluations == 240
    assert evolved.generations == evolve_population(prefer_changes, SMALL, 1).generations[:4]


def test_a_stop_after_the_last_generation_is_complete() -> None:
    evaluate = Recorder()
    assert evolve_population(evaluate, SMALL, 1, should_stop=lambda: len(evaluate.sizes) >= 12).complete


def test_all_runs_advance_together() -> None:
    evaluate = Recorder()
    evolved = evolve_seeds(evaluate, SMALL, 1, should_stop=lambda: len(evaluate.sizes) >= 2)
    assert evaluate.sizes == [180, 180]
    assert [len(run.generations) for run in evolved.runs] == [2, 2, 2]
    assert [run.complete for run in evolved.runs] == [False] * 3


def test_runs_have_distinct_seeds() -> None:
    evolved = evolve_seeds(prefer_changes, SMALL, 7)
    assert [run.seed for run in evolved.runs] == [derive_seed(7, number) for number in range(3)]
    assert len({run.elites for run in evolved.runs}) == 3
    assert len({derive_seed(seed, run) for seed in range(50) for run in range(50)}) == 2500
    assert {elite.genome for run in evolved.runs for elite in run.elites} == {elite.genome for elite in evolved.elites}


def test_without_evaluations_there_are_no_elites() -> None:
    evolved = evolve_population(lambda genomes: np.full(len(genomes), math.nan), SMALL, 1, should_stop=lambda: True)
    assert evolved.elites == ()
    [generation] = evolved.generations
    assert generation.evaluated == 0
    assert math.isnan(generation.best)
    assert math.isnan(generation.mean)
    assert math.isnan(generation.median)


@pytest.mark.parametrize("parents", ["generation", "elites"])
def test_it_continues_without_evaluations(parents: str) -> None:
    settings = EvolutionSettings.from_json(SMALL.to_json() | {"parents": parents})
    evolved = evolve_population(lambda genomes: np.full(len(genomes), math.nan), settings, 1)
    assert evolved.complete
    assert evolved.elites == ()


def test_individuals_without_fitness_rank_last() -> None:
    """Only one individual of the first generation has a fitness: its symbols fill the second."""
    evaluate = Recorder(lambda genomes: np.array([0.0] + [math.nan] * (len(genomes) - 1)))
    settings = EvolutionSettings(population=60, generations=2, tournament=500, crossover=0, replacement=0, swap=0)
    evolve_population(evaluate, settings, 1)
    assert set(evaluate.populations[1]) == {evaluate.populations[0][0]}


def test_it_starts_from_initial_genomes() -> None:
    initial = [genome_of("X / n", SYMBOL_SET), genome_of("X * t", SYMBOL_SET), genome_of("X / n", SYMBOL_SET)]
    evaluate = Recorder()
    evolve_population(evaluate, SMALL, 1, initial=initial)
    assert evaluate.populations[0][:2] == initial[:2]
    assert set(evaluate.sizes) == {60}


def test_surplus_initial_genomes_are_dropped() -> None:
    evaluate = Recorder()
    settings = EvolutionSettings(population=2, generations=1, terminals="basic")
    evolve_population(evaluate, settings, 1, initial=[genome_of(text, SYMBOL_SET) for text in ("X", "t", "n")])
    assert evaluate.populations == [[genome_of("X", SYMBOL_SET), genome_of("t", SYMBOL_SET)]]


@pytest.mark.parametrize("genome", [b"", b"\x00\x00", b"\xff", bytes([17] * 10 + [0])])
def test_an_invalid_initial_genome_is_refused(genome: bytes) -> None:
    with pytest.raises(
        ValueError, match="initial: expected one complete tree of at most 10 levels over 'basic' terminals"
    ):
        evolve_population(prefer_changes, SMALL, 1, initial=[genome])


def test_a_seed_below_0_and_a_fitness_array_of_the_wrong_length_are_refused() -> None:
    with pytest.raises(ValueError, match="seed: expected 0 or more, found -1"):
        evolve_population(prefer_changes, SMALL, -1)
    with pytest.raises(ValueError, match=r"evaluate: expected float64\[60\], found float64\[3\]"):
        evolve_population(lambda _: np.zeros(3), SMALL, 1)


def test_progress_is_called_with_each_generation() -> None:
    received: list[Generation] = []
    evolved = evolve_population(prefer_changes, SMALL, 1, progress=received.append)
    assert tuple(received) == evolved.generations
    runs: list[int] = []
    evolve_seeds(prefer_changes, SMALL, 1, progress=lambda run, _: runs.append(run))
    assert runs == [0, 1, 2] * 12


def test_infinite_fitness_is_ranked_and_summarised() -> None:
    def evaluate(genomes: Sequence[bytes]) -> Floats:
        return np.array([math.inf, -math.inf] + [0.0] * (len(genomes) - 2))

    settings = EvolutionSettings(population=10, generations=1, terminals="basic")
    evolved = evolve_population(evaluate, settings, 1)
    assert [evolved.elites[0].fitness, evolved.elites[-1].fitness] == [math.inf, -math.inf]
    assert math.isnan(evolved.generations[0].mean)
