"""The generational loop: it improves, stops on request, starts from given genomes, and is reproducible to the byte."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import astuple

import numpy as np
import pytest

from streamsched.evolution.gp.evolution_settings import EvolutionSettings
from streamsched.evolution.gp.genomes import depth_of, from_formula, is_genome
from streamsched.evolution.gp.loop import Generation, derive_seed, evolve_population, evolve_seeds
from streamsched.formula import Formula
from streamsched.numerics.arrays import Floats

SMALL = EvolutionSettings(population=60, generations=12, elites=10, seeds=3, terminals="basic")
SYMBOL_SET = SMALL.symbol_set
X = SYMBOL_SET.symbols.index("X")


def prefer_changes(genomes: Sequence[bytes]) -> Floats:
    """A toy fitness: the number of X in up to 15 nodes. Integers and halves, the same on every machine."""
    return np.array([genome.count(X) - abs(len(genome) - 15) / 2 for genome in genomes])


def genome_of(text: str) -> bytes:
    genome = from_formula(Formula.parse(text), SYMBOL_SET)
    assert genome is not None
    return genome


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
    seen: list[bytes] = []

    def favour_size(genomes: Sequence[bytes]) -> Floats:
        seen.extend(genomes)
        return np.array([float(len(genome)) for genome in genomes])

    settings = EvolutionSettings(population=40, generations=25, max_depth=7, crossover_depth=7, terminals="full")
    evolved = evolve_population(favour_size, settings, 3)
    assert all(is_genome(genome, settings.symbol_set) for genome in seen)
    assert max(depth_of(genome, settings.symbol_set) for genome in seen) == 7
    assert max(map(len, seen)) <= 2**7 - 1
    assert evolved.generations[-1].mean_size > 2 * evolved.generations[0].mean_size


def test_it_stops_on_request() -> None:
    calls: list[int] = []

    def evaluate(genomes: Sequence[bytes]) -> Floats:
        calls.append(len(genomes))
        return prefer_changes(genomes)

    evolved = evolve_population(evaluate, SMALL, 1, should_stop=lambda: len(calls) >= 4)
    assert calls == [60] * 4
    assert not evolved.complete
    assert len(evolved.generations) == 4
    assert evolved.evaluations == 240
    assert evolved.generations == evolve_population(prefer_changes, SMALL, 1).generations[:4]


def test_a_stop_after_the_last_generation_is_complete() -> None:
    calls: list[int] = []

    def evaluate(genomes: Sequence[bytes]) -> Floats:
        calls.append(len(genomes))
        return prefer_changes(genomes)

    assert evolve_population(evaluate, SMALL, 1, should_stop=lambda: len(calls) >= 12).complete


def test_all_runs_advance_together() -> None:
    calls: list[int] = []

    def evaluate(genomes: Sequence[bytes]) -> Floats:
        calls.append(len(genomes))
        return prefer_changes(genomes)

    evolved = evolve_seeds(evaluate, SMALL, 1, should_stop=lambda: len(calls) >= 2)
    assert calls == [180, 180]
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
    populations: list[list[bytes]] = []

    def evaluate(genomes: Sequence[bytes]) -> Floats:
        populations.append(list(genomes))
        return np.array([0.0] + [math.nan] * (len(genomes) - 1))

    settings = EvolutionSettings(population=60, generations=2, tournament=500, crossover=0, replacement=0, swap=0)
    evolve_population(evaluate, settings, 1)
    assert set(populations[1]) == {populations[0][0]}


def test_it_starts_from_initial_genomes() -> None:
    initial = [genome_of("X / n"), genome_of("X * t"), genome_of("X / n")]
    populations: list[list[bytes]] = []

    def evaluate(genomes: Sequence[bytes]) -> Floats:
        populations.append(list(genomes))
        return prefer_changes(genomes)

    evolve_population(evaluate, SMALL, 1, initial=initial)
    assert populations[0][:2] == initial[:2]
    assert {len(population) for population in populations} == {60}


def test_surplus_initial_genomes_are_dropped() -> None:
    populations: list[list[bytes]] = []

    def evaluate(genomes: Sequence[bytes]) -> Floats:
        populations.append(list(genomes))
        return prefer_changes(genomes)

    settings = EvolutionSettings(population=2, generations=1, terminals="basic")
    evolve_population(evaluate, settings, 1, initial=[genome_of(text) for text in ("X", "t", "n")])
    assert populations == [[genome_of("X"), genome_of("t")]]


@pytest.mark.parametrize("genome", [b"", b"\x00\x00", b"\xff", bytes([17] * 10 + [0])])
def test_an_invalid_initial_genome_is_refused(genome: bytes) -> None:
    with pytest.raises(
        ValueError, match="initial: expected one complete tree of at most 10 levels over 'basic' terminals"
    ):
        evolve_population(prefer_changes, SMALL, 1, initial=[genome])


def test_a_seed_below_0_is_refused() -> None:
    with pytest.raises(ValueError, match="seed: expected 0 or more, found -1"):
        evolve_population(prefer_changes, SMALL, -1)


def test_a_fitness_array_of_the_wrong_length_is_an_error() -> None:
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
