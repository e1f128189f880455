"""Genetic operators: how often each is drawn, parent selection, and fallbacks if none fits."""

from __future__ import annotations

import math
from collections import Counter
from random import Random
from typing import Any

import pytest

from streamsched.evolution.gp.evolution_settings import EvolutionSettings
from streamsched.evolution.gp.genomes import depth_of, from_formula, is_genome
from streamsched.evolution.gp.operators import Reproduction, cross, replace_subtree, swap_subtrees
from streamsched.evolution.gp.symbols import SymbolSet
from streamsched.formula import Formula

TINY = SymbolSet(("X", "t"), (0.5,))


def genome_of(text: str) -> bytes:
    genome = from_formula(Formula.parse(text), TINY)
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
