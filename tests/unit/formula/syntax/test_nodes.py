"""Nodes refuse what no formula can hold, and trees are measured without recursion."""

from __future__ import annotations

import math
from typing import Any

import pytest

from streamsched.formula import MAX_DEPTH, MAX_SIZE, Binary, Constant, Formula, Node, Terminal, Unary
from streamsched.formula.syntax.nodes import fold, measure

X = Terminal("X")


def chain(levels: int) -> Node:
    node: Node = X
    for _ in range(levels - 1):
        node = Unary("log", node)
    return node


def doubled(times: int) -> Node:
    node: Node = X
    for _ in range(times):
        node = Binary("*", node, node)
    return node


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_constants_are_finite(value: float) -> None:
    with pytest.raises(ValueError, match="finite"):
        Constant(value)


def test_constants_are_floats_without_a_negative_zero() -> None:
    assert isinstance(Constant(3).value, float)
    assert math.copysign(1.0, Constant(-0.0).value) == 1.0


@pytest.mark.parametrize("name", ["", "2X", "a b", "log", "pow", "é", "X\n", "x" * 41])
def test_terminals_have_names_that_parse(name: str) -> None:
    with pytest.raises(ValueError, match="terminal's name"):
        Terminal(name)


@pytest.mark.parametrize(("kind", "operands"), [(Unary, (X,)), (Binary, (X, X))])
def test_operations_have_known_names(kind: Any, operands: tuple[Node, ...]) -> None:
    with pytest.raises(ValueError, match="found 'sqrt'"):
        kind("sqrt", *operands)


def test_fold_gives_left_before_right() -> None:
    tree = Binary("-", Binary("/", X, Constant(2)), Unary("exp", Terminal("t")))
    names = fold(tree, lambda node, below: [*(name for names in below for name in names), type(node).__name__])
    assert names == ["Terminal", "Constant", "Binary", "Terminal", "Unary", "Binary"]


def test_size_and_depth_count_nodes_and_levels() -> None:
    assert measure(X) == (1, 1)
    assert measure(Binary("pow", X, Unary("neg", Constant(2)))) == (4, 3)


def test_a_tree_may_have_100_levels_and_no_more() -> None:
    assert Formula(chain(MAX_DEPTH)).depth == MAX_DEPTH == 100
    with pytest.raises(ValueError, match="at most 100 levels, found 101"):
        Formula(chain(MAX_DEPTH + 1))
    with pytest.raises(ValueError, match="found 4000"):
        Formula(chain(4000))


def test_a_tree_may_have_4096_nodes_and_no_more() -> None:
    """4095 nodes in 12 levels and one sign on top; sharing makes a tree of 2**60 nodes from 60."""
    full = doubled(11)
    assert Formula(Unary("neg", full)).size == MAX_SIZE == 4096
    with pytest.raises(ValueError, match="at most 4096 nodes"):
        Formula(Unary("neg", Unary("neg", full)))
    with pytest.raises(ValueError, match="at most 4096 nodes"):
        Formula(doubled(60))
