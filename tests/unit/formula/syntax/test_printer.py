"""Printing: the shortest digits and no bracket too many."""

from __future__ import annotations

import pytest

from streamsched.formula import MAX_LENGTH, MAX_SIZE, Binary, Constant, Formula, Node, Terminal, Unary
from streamsched.formula.syntax.printer import print_number, print_tree


@pytest.mark.parametrize(
    "text",
    [
        "1 - exp(-X / n * t)",
        "X - (n - t)",
        "X + (n + t)",
        "X / (n * t)",
        "X * (n / t)",
        "(X + n) * t",
        "-(X + n)",
        "-(X * n)",
        "-X * n",
        "--X",
        "-(3)",
        "--3",
        "X - -3",
        "X * -n",
        "-3 / X",
        "pow(X + n, -t)",
        "log(exp(X) - 1)",
    ],
)
def test_canonical_texts_print_as_they_are(text: str) -> None:
    assert str(Formula.parse(text)) == text


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("((X)+(n))+(t)", "X + n + t"),
        ("(X*n)/(t)", "X * n / t"),
        ("(X*n)-(t/n)", "X * n - t / n"),
        ("-(X)", "-X"),
        ("(-X)*n", "-X * n"),
        ("X*(-n)", "X * -n"),
        ("X-(-3)", "X - -3"),
        ("log((X))", "log(X)"),
        ("pow((X),(n+t))", "pow(X, n + t)"),
    ],
)
def test_brackets_that_say_nothing_go(text: str, printed: str) -> None:
    assert str(Formula.parse(text)) == printed


@pytest.mark.parametrize(
    ("value", "printed"),
    [
        (1000.0, "1000"),
        (0.001, "0.001"),
        (-2.5, "-2.5"),
        (0.1, "0.1"),
        (0.1 + 0.2, "0.30000000000000004"),
        (100000.0, "100000"),
        (1e15, "1000000000000000"),
        (1e16, "1e16"),
        (-1.5e300, "-1.5e300"),
        (0.00001, "1e-5"),
        (5e-324, "5e-324"),
        (1.7976931348623157e308, "1.7976931348623157e308"),
    ],
)
def test_numbers_print_shortest(value: float, printed: str) -> None:
    assert print_number(value) == printed
    assert float(printed) == value


def test_the_longest_formula_still_parses() -> None:
    """Of all trees with 4095 nodes, one of powers or grouped differences over the longest constants prints longest."""
    tree: Node = Constant(-2.2250738585072014e-308)
    for level in range(11):
        tree = Binary("pow" if level < 1 else "-", tree, tree)
    formula = Formula(Unary("log", tree))
    assert formula.size == MAX_SIZE
    assert 60_000 < len(str(formula)) <= MAX_LENGTH
    assert Formula.parse(str(formula)) == formula


def test_terminals_of_any_name_print_as_they_are() -> None:
    assert print_tree(Terminal("_age2")) == "_age2"
