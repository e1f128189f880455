"""Each rule of simplification, and what looks like one and is not."""

from __future__ import annotations

import pytest

from streamsched.formula import Formula
from streamsched.formula.evaluation.simplify import Claims, claims_of
from tests.support.cases import grouped


@grouped(
    ("simple", "text"),
    {
        "10": ["2 * 3 + 4"],
        "0": [
            *["1 / 0", "log(-5)", "pow(-2, 2)", "-(0)", "X - X", "log(X) - log(X)", "0 * exp(X * n)", "(X - n) * 0"],
            *["0 / (X * n)", "X * n / 0", "log(-X)", "pow(-2, X)"],
        ],
        "5.54062238439351e34": ["exp(1000)"],
        "X": ["X + 0", "0 + X", "X - 0", "X * 1", "1 * X", "X / 1", "--X", "X * (n - n + 1) - -(2 - 2)"],
        "-X": ["0 - X", "X * -1", "-1 * X", "X / -1", "---X"],
        "X - n": ["X + -n"],
        "X - 2": ["X + -2"],
        "X + n": ["X - -n"],
        "X + 2": ["X - -2"],
        "n - X": ["-X + n", "-(X - n)"],
        "n - 2": ["-2 + n"],
        "X * n": ["-X * -n"],
        "X / n": ["-X / -n"],
        "X * -2": ["-X * 2"],
        "-2 / X": ["2 / -X"],
        "1": ["pow(1, X)", "pow(X * n, 0)"],
        "1 + t": ["exp(log(1) * X) + t"],
    },
)
def test_rules(text: str, simple: str) -> None:
    assert str(Formula.parse(text).simplify()) == simple


@pytest.mark.parametrize(
    "text",
    [
        "X / X",
        "X / n * n",
        "X * n - X * n",
        "0 * (X * n)",
        "0 / (X * n - X * n)",
        "(X * n - X * n) / 0",
        "exp(log(X))",
        "log(exp(X))",
        "log(X - n)",
        "log(-(X * n * t))",
        "pow(X, 1)",
        "pow(X, 2)",
        "pow(X - n, 0)",
        "pow(X * n * t, 0)",
        "pow(1, X * n - X * n)",
        "pow(0, X)",
        "X + 1 + 2",
        "X * 2 * 3",
        "X + X",
        "-X - n",
        "-X * n",
        "1e308 * 10",
        "X * 1e308 * 10",
        "1 - exp(-X / n * t)",
    ],
)
def test_what_would_change_a_value_stays(text: str) -> None:
    formula = Formula.parse(text)
    assert formula.simplify() == formula


def test_a_deep_chain_collapses() -> None:
    assert str(Formula.parse("X" + " - X + X" * 49).simplify()) == "X"


@grouped(
    ("claims", "text"),
    {
        "finite defined nonnegative": ["3", "X", "exp(X)", "exp(X + n)"],
        "finite defined": ["-3", "-X", "log(X)", "X - n"],
        "defined nonnegative": ["X + n", "X * n", "X / n", "pow(X, n)", "X * n + X * n", "X * n / t", "pow(X * n, -t)"],
        "defined": ["X - -n", "X * n - X"],
        "": ["X * n - X * n", "-X * n + X * n"],
        "nonnegative": ["X * n * t", "X * n / (X * t)", "exp(X * n - X * n)"],
    },
)
def test_claims(text: str, claims: str) -> None:
    assert claims_of(Formula.parse(text).root) == Claims(*(name in claims.split() for name in Claims._fields))
