"""Genomes and their operators against trees: closure, depth, and exactly the children that there may be."""

from __future__ import annotations

import math
from collections.abc import Sequence
from random import Random

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from streamsched.evolution.gp.evolution_settings import EvolutionSettings
from streamsched.evolution.gp.genomes import (
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
from streamsched.evolution.gp.loop import Elite, evolve_population, evolve_seeds, rank_elites
from streamsched.evolution.gp.operators import Breeder, cross, replace_subtree, swap_subtrees
from streamsched.evolution.gp.symbols import TERMINAL_SETS, SymbolSet
from streamsched.formula import Formula
from streamsched.numerics.arrays import Floats
from tests.reference import genomes as naive

TINY = SymbolSet(("X", "t"), (0.5,))
alphabets = st.sampled_from([TINY, *map(SymbolSet, TERMINAL_SETS.values()), SymbolSet(("t",), ())])
seeds = st.integers(0, 2**64)


@st.composite
def genomes(draw: st.DrawFn, alphabet: SymbolSet, leaves: int = 12) -> bytes:
    leaf = st.builds(lambda symbol: bytes([symbol]), st.integers(0, alphabet.leaves - 1))
    codes = range(alphabet.leaves, len(alphabet.arity))
    binary = st.sampled_from([code for code in codes if alphabet.arity[code] == 2])
    unary = st.sampled_from([code for code in codes if alphabet.arity[code] == 1])

    def grow(below: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
        joined = st.builds(lambda code, left, right: bytes([code]) + left + right, binary, below, below)
        return joined | st.builds(lambda code, operand: bytes([code]) + operand, unary, below)

    return draw(st.recursive(leaf, grow, max_leaves=leaves))


@st.composite
def worded(draw: st.DrawFn, count: int = 1, leaves: int = 12) -> tuple[SymbolSet, list[bytes]]:
    alphabet = draw(alphabets)
    return alphabet, [draw(genomes(alphabet, leaves)) for _ in range(count)]


def tree_of(genome: bytes, alphabet: SymbolSet) -> naive.Tree:
    tree = naive.read_tree(genome, alphabet)
    assert tree is not None
    return tree


@settings(max_examples=200, deadline=None)
@given(worded())
def test_levels_and_ends_are_those_of_the_tree(word: tuple[SymbolSet, list[bytes]]) -> None:
    alphabet, [genome] = word
    tree = tree_of(genome, alphabet)
    assert naive.write_tree(tree) == genome
    assert list(levels_of(genome, alphabet)) == naive.levels(tree)
    assert depth_of(genome, alphabet) == naive.depth(tree)
    for start, subtree in enumerate(naive.subtrees(tree)):
        assert genome[start : subtree_end(genome, start, alphabet)] == naive.write_tree(subtree)


@settings(max_examples=300, deadline=None)
@given(alphabets, st.lists(st.integers(0, 14), max_size=8).map(bytes) | st.binary(max_size=8))
def test_genomes_are_whole_trees(alphabet: SymbolSet, genome: bytes) -> None:
    assert is_genome(genome, alphabet) == (naive.read_tree(genome, alphabet) is not None)
    if not is_genome(genome, alphabet):
        with pytest.raises(ValueError, match="expected one whole tree"):
            to_formula(genome, alphabet)


@settings(max_examples=200, deadline=None)
@given(worded(leaves=40))
def test_genomes_are_formulas_that_print_and_parse(word: tuple[SymbolSet, list[bytes]]) -> None:
    alphabet, [genome] = word
    formula = to_formula(genome, alphabet)
    assert (formula.size, formula.depth) == (len(genome), depth_of(genome, alphabet))
    assert from_formula(formula, alphabet) == genome
    assert from_formula(Formula.parse(str(formula)), alphabet) == genome


@settings(max_examples=200, deadline=None)
@given(alphabets, st.integers(1, 9), seeds, st.booleans())
def test_grown_trees_keep_their_depth(alphabet: SymbolSet, depth: int, seed: int, leaf: bool) -> None:
    genome = grow_tree(alphabet, depth, Random(seed), leaf=leaf)
    assert is_genome(genome, alphabet)
    assert 1 + (depth > 1 and not leaf) <= depth_of(genome, alphabet) <= depth


@settings(max_examples=100, deadline=None)
@given(alphabets, st.integers(1, 9), seeds)
def test_full_trees_have_all_leaves_at_one_level(alphabet: SymbolSet, depth: int, seed: int) -> None:
    genome = full_tree(alphabet, depth, Random(seed))
    assert is_genome(genome, alphabet)
    levels = levels_of(genome, alphabet)
    assert {level for symbol, level in zip(genome, levels, strict=True) if not alphabet.arity[symbol]} == {depth}


@settings(max_examples=60, deadline=None)
@given(alphabets, st.integers(0, 60), st.tuples(st.integers(1, 6), st.integers(1, 6)), seeds)
def test_ramped_trees_are_as_many_and_as_deep_as_asked(
    alphabet: SymbolSet, count: int, depths: tuple[int, int], seed: int
) -> None:
    low, high = min(depths), max(depths)
    trees = ramped_trees(count, (low, high), alphabet, Random(seed))
    assert len(trees) == count
    assert all(is_genome(tree, alphabet) for tree in trees)
    assert all(min(low, 2) <= depth_of(tree, alphabet) <= high for tree in trees)


@settings(max_examples=200, deadline=None)
@given(worded(count=2, leaves=5), seeds, st.integers(0, 3))
def test_a_crossover_puts_a_subtree_of_one_into_the_other(
    word: tuple[SymbolSet, list[bytes]], seed: int, spare: int
) -> None:
    alphabet, [first, second] = word
    max_depth = max(depth_of(first, alphabet), depth_of(second, alphabet)) + spare
    child = cross(first, second, alphabet, max_depth, Random(seed))
    if child is None:
        assert depth_of(first, alphabet) + depth_of(second, alphabet) - 1 > max_depth  # else all places fit
    else:
        assert child in naive.crossings(tree_of(first, alphabet), tree_of(second, alphabet), max_depth)


@settings(max_examples=200, deadline=None)
@given(worded(leaves=8), seeds, st.integers(0, 3))
def test_a_swap_exchanges_two_subtrees_apart(word: tuple[SymbolSet, list[bytes]], seed: int, spare: int) -> None:
    alphabet, [genome] = word
    max_depth = depth_of(genome, alphabet) + spare
    child = swap_subtrees(genome, alphabet, max_depth, Random(seed))
    possible = naive.swaps(tree_of(genome, alphabet), max_depth)
    assert child in possible or child is None


@settings(max_examples=200, deadline=None)
@given(worded(), seeds, st.integers(0, 3), st.integers(1, 6))
def test_a_replacement_changes_one_subtree(
    word: tuple[SymbolSet, list[bytes]], seed: int, spare: int, initial: int
) -> None:
    alphabet, [genome] = word
    depth = depth_of(genome, alphabet)
    assume(depth + spare <= 12)
    chosen = EvolutionSettings(max_depth=depth + spare, initial_depth=(1, min(initial, depth + spare)))
    child = replace_subtree(genome, alphabet, chosen, Random(seed))
    assert is_genome(child, alphabet)
    assert depth_of(child, alphabet) <= depth + spare
    ends = [(start, subtree_end(genome, start, alphabet)) for start in range(len(genome))]
    fits = [(genome[:start], genome[end:]) for start, end in ends if child.startswith(genome[:start])]
    news = [child[len(head) : len(child) - len(tail)] for head, tail in fits if child.endswith(tail)]
    assert any(is_genome(new, alphabet) and depth_of(new, alphabet) <= initial for new in news)


rates = st.tuples(*[st.sampled_from([0.0, 1.0, 5.0])] * 4).filter(any)


@settings(max_examples=150, deadline=None)
@given(worded(count=5, leaves=6), seeds, rates, st.integers(1, 6), st.integers(1, 4))
def test_offspring_are_whole_and_no_deeper_than_allowed(
    word: tuple[SymbolSet, list[bytes]],
    seed: int,
    weights: tuple[float, float, float, float],
    crossover_depth: int,
    tournament: int,
) -> None:
    alphabet, pool = word
    depth = max(depth_of(genome, alphabet) for genome in pool)
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
    breeder = Breeder(pool, alphabet, chosen, Random(seed))
    for _ in range(20):
        child = breeder.breed()
        assert is_genome(child, alphabet)
        assert depth_of(child, alphabet) <= depth


fitnesses = st.sampled_from([0.0, 0.25, 0.5, -1.0, 1.0, math.inf, -math.inf, math.nan])


@settings(max_examples=40, deadline=None)
@given(seeds, st.lists(fitnesses, min_size=1, max_size=9), st.integers(1, 60), st.integers(1, 5))
@example(0, [math.nan], 5, 3)
def test_the_elites_are_the_best_of_all_generations(
    seed: int, wheel: list[float], elites: int, generations: int
) -> None:
    """Fitness follows from the bytes, with many equals and many that could not be evaluated."""
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


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.binary(min_size=1, max_size=2), fitnesses), max_size=20))
def test_elites_are_ranked_once_each(found: list[tuple[bytes, float]]) -> None:
    once = {genome: fitness for genome, fitness in reversed(found) if not math.isnan(fitness)}
    ranked = rank_elites(Elite(*pair) for pair in found)
    assert list(ranked) == naive.best_of_all(once.items(), len(found))


@settings(max_examples=10, deadline=None)
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
