"""Symbols and genomes."""

from __future__ import annotations

import math
from collections import Counter
from random import Random

import pytest

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
from streamsched.evolution.symbols import CONSTANTS, TERMINAL_SETS, SymbolSet
from streamsched.formula import TERMINALS, Formula
from tests.support.cases import grouped

PAPER = SymbolSet(TERMINAL_SETS["paper"])
TINY = SymbolSet(("X", "t"), (0.0,))  # 0 X, 1 t, 2 0.0, 3 +, 4 -, 5 *, 6 /, 7 pow, 8 log, 9 exp


def test_symbols_have_the_order_of_their_codes() -> None:
    symbol_set = SymbolSet(TERMINAL_SETS["paper"])
    terminals = ("n", "X", "t", "CG", "NAD", "SAD", "AAD", "GAD")
    constants = (0.001, 0.01, 0.1, 0.5, 1.0, 10.0, 100.0, 1000.0)
    assert symbol_set.symbols == (*terminals, *constants, "+", "-", "*", "/", "pow", "log", "exp")
    assert symbol_set.arity == bytes([0] * 16 + [2] * 5 + [1] * 2)
    assert symbol_set.leaves == 16


def test_each_set_of_terminals_holds_the_one_before() -> None:
    basic, paper, full = (TERMINAL_SETS[name] for name in ("basic", "paper", "full"))
    assert paper[: len(basic)] == basic
    assert full[: len(paper)] == paper
    assert set(full) == set(TERMINALS)


def test_symbol_sets_are_equal_if_their_leaves_are() -> None:
    assert SymbolSet(("X",)) == SymbolSet(("X",), CONSTANTS)
    assert SymbolSet(("X",), (0.0,)) == SymbolSet(("X",), (-0.0,))
    assert SymbolSet(("X",)) != SymbolSet(("X",), ())
    assert hash(SymbolSet(("X",))) == hash(SymbolSet(("X",)))


@grouped(
    ("complaint", "terminals", "constants"),
    {
        "expected one or more, found none": [((), (1.0,))],
        "each terminal and constant once": [(("X", "X"), ()), (("X",), (1.0, 1.0)), (("X",), (0.0, -0.0))],
        "expected a finite constant": [(("X",), (math.nan,)), (("X",), (math.inf,))],
        "expected a terminal's name": [(("log",), ()), (("2X",), ())],
        "at most 249 terminals and constants, found 250": [(("X",), tuple(map(float, range(249))))],
    },
)
def test_invalid_symbol_sets_are_refused(
    terminals: tuple[str, ...], constants: tuple[float, ...], complaint: str
) -> None:
    with pytest.raises(ValueError, match=complaint):
        SymbolSet(terminals, constants)


def test_a_byte_is_enough_for_256_symbols() -> None:
    assert len(SymbolSet(("X",), tuple(map(float, range(248)))).arity) == 256


def chi_square(counts: Counter[int], expected: list[float]) -> float:
    return sum((counts[value] - mean) ** 2 / mean for value, mean in enumerate(expected))


def test_a_genome_s_nodes() -> None:
    genome = bytes([4, 9, 0, 5, 1, 2])  # exp(X) - t * 0
    assert str(to_formula(genome, TINY)) == "exp(X) - t * 0"
    assert list(levels_of(genome, TINY)) == [1, 2, 3, 2, 3, 3]
    assert depth_of(genome, TINY) == 3
    assert [subtree_end(genome, start, TINY) for start in range(6)] == [6, 3, 3, 6, 5, 6]


def test_grown_roots_are_any_symbol_unless_no_leaf_is_wanted() -> None:
    rng = Random(2)
    roots = Counter(grow_tree(TINY, 3, rng)[0] for _ in range(5000))
    assert chi_square(roots, [500.0] * 10) < 27.88  # the 99.9th percentile at 9 degrees
    roots = Counter(grow_tree(TINY, 3, rng, leaf=False)[0] - 3 for _ in range(3500))
    assert chi_square(roots, [500.0] * 7) < 22.46


def test_a_tree_of_one_level_is_a_leaf() -> None:
    rng = Random(3)
    for tree in (grow_tree(TINY, 1, rng), grow_tree(TINY, 1, rng, leaf=False), full_tree(TINY, 1, rng)):
        assert len(tree) == 1
        assert tree[0] < TINY.leaves


def test_full_trees_draw_functions_alike_and_leaves_alike() -> None:
    rng = Random(4)
    trees = [full_tree(TINY, 2, rng) for _ in range(3500)]
    assert chi_square(Counter(tree[0] - 3 for tree in trees), [500.0] * 7) < 22.46
    leaves = Counter(symbol for tree in trees for symbol in tree[1:])
    assert chi_square(leaves, [leaves.total() / 3] * 3) < 13.82  # the 99.9th percentile at 2 degrees


def test_half_of_the_ramp_is_grown_and_half_is_full() -> None:
    trees = ramped_trees(300, (2, 6), PAPER, Random(5))
    assert len(set(trees)) == 300
    full = Counter[int]()
    for tree in trees:
        levels = levels_of(tree, PAPER)
        ends = {level for symbol, level in zip(tree, levels, strict=True) if not PAPER.arity[symbol]}
        if len(ends) == 1:
            full[ends.pop()] += 1
    assert all(full[depth] >= 30 for depth in range(2, 7))  # a grown tree may be full by chance
    assert full[5] < 40
    assert full[6] < 40
    assert max(depth_of(tree, PAPER) for tree in trees) == 6


def test_more_trees_than_exist_repeat_some() -> None:
    symbol_set = SymbolSet(("X",), ())
    trees = ramped_trees(20, (2, 2), symbol_set, Random(6))
    assert len(trees) == 20
    assert len(set(trees)) == 7  # one for each function


def test_a_ramp_of_leaves_alone() -> None:
    assert sorted(set(ramped_trees(50, (1, 1), TINY, Random(7)))) == [b"\x00", b"\x01", b"\x02"]


@pytest.mark.parametrize("text", ["X / n", "2 * X", "X + CG", "-(X)", "exp(-(X / n) * t)"])
def test_a_formula_outside_the_symbol_set_has_no_genome(text: str) -> None:
    assert from_formula(Formula.parse(text), SymbolSet(("X", "t"))) is None


@pytest.mark.parametrize("text", ["t", "t * X", "1 - exp(0.001 * t)", "pow(X, 0.5) / log(10)", "X - t - (n - 1000)"])
def test_a_formula_within_the_symbol_set_has_a_genome(text: str) -> None:
    genome = from_formula(Formula.parse(text), SymbolSet(TERMINAL_SETS["basic"]))
    assert genome is not None
    assert str(to_formula(genome, SymbolSet(TERMINAL_SETS["basic"]))) == text


@pytest.mark.parametrize(("text", "becomes"), [("-X", "0 - X"), ("t * -(X + t)", "t * (0 - (X + t))"), ("--X", None)])
def test_negation_becomes_a_difference_from_0(text: str, becomes: str | None) -> None:
    genome = from_formula(Formula.parse(text), TINY)
    assert genome is not None
    assert str(to_formula(genome, TINY)) == (becomes or "0 - (0 - X)")


def test_every_terminal_has_a_code() -> None:
    symbol_set = SymbolSet(tuple(TERMINALS))
    for name in TERMINALS:
        genome = from_formula(Formula.parse(f"exp({name})"), symbol_set)
        assert genome is not None
        assert str(to_formula(genome, symbol_set)) == f"exp({name})"


@pytest.mark.parametrize("genome", [b"", b"\x03", b"\x00\x01", b"\x0a", b"\xff"])
def test_an_invalid_genome_is_an_error(genome: bytes) -> None:
    assert not is_genome(genome, TINY)
    with pytest.raises(ValueError, match="one complete tree over 10 symbols"):
        to_formula(genome, TINY)
