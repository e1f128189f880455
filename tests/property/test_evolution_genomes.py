"""Genomes and their operators against trees: closure, depth, and exactly the possible children."""

from __future__ import annotations

import math
from collections.abc import Sequence
from random import Random

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from streamsched.evolution.evolution_settings import EvolutionSettings
from streamsched.evolution.generations import (
    Individual,
    Reproduction,
    cross,
    evolve_population,
    evolve_seeds,
    rank_individuals,
    replace_subtree,
    swap_subtrees,
)
from streamsched.evolution.genomes import (
    depth_of,
    from_formula,
    full_tree,
    grow_tree,
    is_genome,
    levels_of,
    ramped_trees,
    subtree_end,
    to_formula,
)
from streamsched.evolution.symbols import TERMINAL_SETS, SymbolSet
from streamsched.formula import Formula
from streamsched.numerics.arrays import Floats
from tests.reference import genomes as naive
from tests.support.cases import examples

TINY = SymbolSet(("X", "t"), (0.5,))
symbol_sets = st.sampled_from([TINY, *map(SymbolSet, TERMINAL_SETS.values()), SymbolSet(("t",), ())])
seeds = st.integers(0, 2**64)


@st.composite
def genomes(draw: st.DrawFn, symbol_set: SymbolSet, leaves: int = 12) -> bytes:
    leaf = st.builds(lambda symbol: bytes([symbol]), st.integers(0, symbol_set.leaves - 1))
    codes = range(symbol_set.leaves, len(symbol_set.arity))
    binary = st.sampled_from([code for code in codes if symbol_set.arity[code] == 2])
    unary = st.sampled_from([code for code in codes if symbol_set.arity[code] == 1])

    def grow(below: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
        joined = st.builds(lambda code, left, right: bytes([code]) + left + right, binary, below, below)
        return joined | st.builds(lambda code, operand: bytes([code]) + operand, unary, below)

    return draw(st.recursive(leaf, grow, max_leaves=leaves))


@st.composite
def symbol_set_and_genomes(draw: st.DrawFn, count: int = 1, leaves: int = 12) -> tuple[SymbolSet, list[bytes]]:
    symbol_set = draw(symbol_sets)
    return symbol_set, [draw(genomes(symbol_set, leaves)) for _ in range(count)]


def tree_of(genome: bytes, symbol_set: SymbolSet) -> naive.Tree:
    tree = naive.read_tree(genome, symbol_set)
    assert tree is not None
    return tree


@examples(ordinary=20, whole=65)
@given(symbol_set_and_genomes())
def test_levels_and_ends_are_those_of_the_tree(sample: tuple[SymbolSet, list[bytes]]) -> None:
    symbol_set, [genome] = sample
    tree = tree_of(genome, symbol_set)
    assert naive.write_tree(tree) == genome
    assert list(levels_of(genome, symbol_set)) == naive.levels(tree)
    assert depth_of(genome, symbol_set) == naive.depth(tree)
    for start, subtree in enumerate(naive.subtrees(tree)):
        assert genome[start : subtree_end(genome, start, symbol_set)] == naive.write_tree(subtree)


@examples(ordinary=30, whole=100)
@given(symbol_sets, st.lists(st.integers(0, 14), max_size=8).map(bytes) | st.binary(max_size=8))
def test_genomes_are_whole_trees(symbol_set: SymbolSet, genome: bytes) -> None:
    assert is_genome(genome, symbol_set) == (naive.read_tree(genome, symbol_set) is not None)
    if not is_genome(genome, symbol_set):
        with pytest.raises(ValueError, match="expected one complete tree"):
            to_formula(genome, symbol_set)


@examples(ordinary=20, whole=65)
@given(symbol_set_and_genomes(leaves=40))
def test_genomes_are_formulas_that_print_and_parse(sample: tuple[SymbolSet, list[bytes]]) -> None:
    symbol_set, [genome] = sample
    formula = to_formula(genome, symbol_set)
    assert (formula.size, formula.depth) == (len(genome), depth_of(genome, symbol_set))
    assert from_formula(formula, symbol_set) == genome
    assert from_formula(Formula.parse(str(formula)), symbol_set) == genome


@examples(ordinary=20, whole=65)
@given(symbol_sets, st.integers(1, 9), seeds, st.booleans())
def test_grown_trees_keep_their_depth(symbol_set: SymbolSet, depth: int, seed: int, leaf: bool) -> None:
    genome = grow_tree(symbol_set, depth, Random(seed), leaf=leaf)
    assert is_genome(genome, symbol_set)
    assert 1 + (depth > 1 and not leaf) <= depth_of(genome, symbol_set) <= depth


@examples(ordinary=9, whole=30)
@given(symbol_sets, st.integers(1, 9), seeds)
def test_full_trees_have_all_leaves_at_one_level(symbol_set: SymbolSet, depth: int, seed: int) -> None:
    genome = full_tree(symbol_set, depth, Random(seed))
    assert is_genome(genome, symbol_set)
    levels = levels_of(genome, symbol_set)
    assert {level for symbol, level in zip(genome, levels, strict=True) if not symbol_set.arity[symbol]} == {depth}


@examples(ordinary=6, whole=20)
@given(symbol_sets, st.integers(0, 60), st.tuples(st.integers(1, 6), st.integers(1, 6)), seeds)
def test_ramped_trees_are_as_many_and_as_deep_as_asked(
    symbol_set: SymbolSet, count: int, depths: tuple[int, int], seed: int
) -> None:
    low, high = min(depths), max(depths)
    trees = ramped_trees(count, (low, high), symbol_set, Random(seed))
    assert len(trees) == count
    assert all(is_genome(tree, symbol_set) for tree in trees)
    assert all(min(low, 2) <= depth_of(tree, symbol_set) <= high for tree in trees)


@examples(ordinary=20, whole=65)
@given(symbol_set_and_genomes(count=2, leaves=5), seeds, st.integers(0, 3))
def test_a_crossover_puts_a_subtree_of_one_into_the_other(
    sample: tuple[SymbolSet, list[bytes]], seed: int, spare: int
) -> None:
    symbol_set, [initial, second] = sample
    max_depth = max(depth_of(initial, symbol_set), depth_of(second, symbol_set)) + spare
    child = cross(initial, second, symbol_set, max_depth, Random(seed))
    if child is None:
        assert depth_of(initial, symbol_set) + depth_of(second, symbol_set) - 1 > max_depth  # else all positions fit
    else:
        assert child in naive.crossover_children(tree_of(initial, symbol_set), tree_of(second, symbol_set), max_depth)


@examples(ordinary=20, whole=65)
@given(symbol_set_and_genomes(leaves=8), seeds, st.integers(0, 3))
def test_a_swap_exchanges_two_subtrees_apart(sample: tuple[SymbolSet, list[bytes]], seed: int, spare: int) -> None:
    symbol_set, [genome] = sample
    max_depth = depth_of(genome, symbol_set) + spare
    child = swap_subtrees(genome, symbol_set, max_depth, Random(seed))
    possible = naive.swap_children(tree_of(genome, symbol_set), max_depth)
    assert child in possible or child is None


@examples(ordinary=20, whole=65)
@given(symbol_set_and_genomes(), seeds, st.integers(0, 3), st.integers(1, 6))
def test_a_replacement_changes_one_subtree(
    sample: tuple[SymbolSet, list[bytes]], seed: int, spare: int, initial: int
) -> None:
    symbol_set, [genome] = sample
    depth = depth_of(genome, symbol_set)
    assume(depth + spare <= 12)
    chosen = EvolutionSettings(max_depth=depth + spare, initial_depth=(1, min(initial, depth + spare)))
    child = replace_subtree(genome, symbol_set, chosen, Random(seed))
    assert is_genome(child, symbol_set)
    assert depth_of(child, symbol_set) <= depth + spare
    ends = [(start, subtree_end(genome, start, symbol_set)) for start in range(len(genome))]
    fits = [(genome[:start], genome[end:]) for start, end in ends if child.startswith(genome[:start])]
    replacements = [child[len(head) : len(child) - len(tail)] for head, tail in fits if child.endswith(tail)]
    assert any(is_genome(new, symbol_set) and depth_of(new, symbol_set) <= initial for new in replacements)


rates = st.tuples(*[st.sampled_from([0.0, 1.0, 5.0])] * 4).filter(any)


@examples(ordinary=15, whole=50)
@given(symbol_set_and_genomes(count=5, leaves=6), seeds, rates, st.integers(1, 6), st.integers(1, 4))
def test_offspring_are_whole_and_no_deeper_than_allowed(
    sample: tuple[SymbolSet, list[bytes]],
    seed: int,
    weights: tuple[float, float, float, float],
    crossover_depth: int,
    tournament: int,
) -> None:
    symbol_set, pool = sample
    depth = max(depth_of(genome, symbol_set) for genome in pool)
    crossover, reproduction, replacement, swap = weights
    chosen = EvolutionSettings(
        max_depth=depth,
        initial_depth=(1, depth),
        tournament=tournament,
        crossover_depth=crossover_depth,
        crossover=crossover,
        reproduction=reproduction,
        replacement=replacement,
        swap=swap,
    )
    operators = Reproduction(pool, symbol_set, chosen, Random(seed))
    for _ in range(20):
        child = operators.make_offspring()
        assert is_genome(child, symbol_set)
        assert depth_of(child, symbol_set) <= depth


fitnesses = st.sampled_from([0.0, 0.25, 0.5, -1.0, 1.0, math.inf, -math.inf, math.nan])


@examples(ordinary=3, whole=10)
@given(seeds, st.lists(fitnesses, min_size=1, max_size=9), st.integers(1, 60), st.integers(1, 5))
@example(0, [math.nan], 5, 3)
def test_the_elites_are_the_best_of_all_generations(
    seed: int, wheel: list[float], elites: int, generations: int
) -> None:
    """Fitness is a function of the bytes, with many ties and many NaN."""
    seen: list[tuple[bytes, float]] = []

    def evaluate(genomes: Sequence[bytes]) -> Floats:
        values = [wheel[sum(genome) % len(wheel)] for genome in genomes]
        seen.extend(zip(genomes, values, strict=True))
        return np.array(values)

    chosen = EvolutionSettings(population=20, generations=generations, elites=elites, terminals="basic")
    evolved = evolve_population(evaluate, chosen, seed)
    assert list(evolved.elites) == naive.best_of_all(seen, elites)
    assert evolved.evaluations == len(seen) == 20 * generations
    assert evolved.complete
    for number, generation in enumerate(evolved.generations):
        part = seen[20 * number : 20 * (number + 1)]
        known = [fitness for _, fitness in part if not math.isnan(fitness)]
        assert (generation.number, generation.evaluated) == (number + 1, len(known))
        if known:
            assert generation.best == max(known)
        assert generation.distinct == len({genome for genome, _ in part}) / 20
        assert generation.mean_size == sum(len(genome) for genome, _ in part) / 20


@examples(ordinary=9, whole=30)
@given(st.lists(st.tuples(st.binary(min_size=1, max_size=2), fitnesses), max_size=20))
def test_elites_are_ranked_once_each(found: list[tuple[bytes, float]]) -> None:
    once = {genome: fitness for genome, fitness in reversed(found) if not math.isnan(fitness)}
    ranked = rank_individuals(Individual(*pair) for pair in found)
    assert list(ranked) == naive.best_of_all(once.items(), len(found))


@examples(ordinary=3, whole=10)
@given(seeds, st.integers(1, 4))
def test_runs_side_by_side_are_the_runs_one_by_one(seed: int, count: int) -> None:
    def evaluate(genomes: Sequence[bytes]) -> Floats:
        return np.array([float(sum(genome) % 13) for genome in genomes])

    chosen = EvolutionSettings(population=12, generations=4, elites=6, seeds=count)
    evolved = evolve_seeds(evaluate, chosen, seed)
    alone = [evolve_population(evaluate, chosen, run.seed) for run in evolved.runs]
    assert list(evolved.runs) == alone
    assert len({run.seed for run in alone}) == count
    pairs = [pair for run in alone for pair in run.elites]
    assert list(evolved.elites) == naive.best_of_all(pairs, len(pairs))
