"""The table of protected operations, corner by corner, in columns, against numbers and in place."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from streamsched.formula.protected import OPERATIONS, Scratch, apply
from streamsched.formula.vocabulary import BinaryOp, UnaryOp

INF, NAN = math.inf, math.nan
E80 = math.exp(80)


@pytest.mark.parametrize(
    ("op", "operands", "value"),
    [
        ("+", (INF, -INF), NAN),
        ("-", (INF, INF), NAN),
        ("*", (0, INF), NAN),
        ("*", (1e200, 1e200), INF),
        ("neg", (-INF,), INF),
        ("/", (1, 4), 0.25),
        ("/", (1, 0), 0),
        ("/", (0, 0), 0),
        ("/", (-1, -0.0), 0),
        ("/", (INF, 0), 0),
        ("/", (NAN, 0), NAN),
        ("/", (NAN, 1), NAN),
        ("/", (1, NAN), NAN),
        ("/", (1, INF), 0),
        ("/", (INF, INF), NAN),
        ("/", (1e308, 1e-308), INF),
        ("log", (1,), 0),
        ("log", (math.e,), 1),
        ("log", (0,), 0),
        ("log", (-0.0,), 0),
        ("log", (-1,), 0),
        ("log", (-INF,), 0),
        ("log", (INF,), INF),
        ("log", (NAN,), NAN),
        ("log", (5e-324,), math.log(5e-324)),
        ("exp", (0,), 1),
        ("exp", (80,), E80),
        ("exp", (81,), E80),
        ("exp", (INF,), E80),
        ("exp", (-81,), 1 / E80),
        ("exp", (-INF,), 1 / E80),
        ("exp", (NAN,), NAN),
        ("pow", (2, 10), 1024),
        ("pow", (2, 0.5), math.sqrt(2)),
        ("pow", (2, 100), 2.0**80),
        ("pow", (2, INF), 2.0**80),
        ("pow", (2, -INF), 2.0**-80),
        ("pow", (0, 0), 1),
        ("pow", (-0.0, 0), 1),
        ("pow", (0, 3), 0),
        ("pow", (0, -1), 0),
        ("pow", (-0.0, -3), 0),
        ("pow", (-2, 2), 0),
        ("pow", (-2, 0), 0),
        ("pow", (-INF, 1), 0),
        ("pow", (INF, 0), 1),
        ("pow", (INF, 2), INF),
        ("pow", (INF, -2), 0),
        ("pow", (1e10, 80), INF),
        ("pow", (1e-10, 80), 0),
        ("pow", (NAN, 0), NAN),
        ("pow", (NAN, 1), NAN),
        ("pow", (1, NAN), NAN),
        ("pow", (0, NAN), NAN),
        ("pow", (-1, NAN), NAN),
    ],
)
def test_corners(op: UnaryOp | BinaryOp, operands: tuple[float, ...], value: float) -> None:
    assert apply(op, *operands) == pytest.approx(value, rel=1e-14, abs=0, nan_ok=True)
    for row in range(3):
        for harmless in ((1.0, 2.0), (0.0, 0.0)):
            columns = [np.full(3, other) for other in harmless[: len(operands)]]
            for column, operand in zip(columns, operands, strict=True):
                column[row] = operand
            assert run(op, columns)[row] == pytest.approx(value, rel=1e-14, abs=0, nan_ok=True)


def run(op: UnaryOp | BinaryOp, operands: Sequence[np.ndarray | float], out: np.ndarray | None = None) -> list[float]:
    result = np.empty(3) if out is None else out
    with np.errstate(all="ignore"):
        OPERATIONS[op](*operands, result, Scratch(3))
    return list(result.tolist())


@pytest.mark.parametrize("op", ["+", "-", "*", "/", "pow"])
@pytest.mark.parametrize("number", [0.0, 2.0, 0.5, -1.0, -90.0, INF, NAN])
def test_a_number_is_a_column_of_it(op: BinaryOp, number: float) -> None:
    column = np.array([0.0, 3.7, NAN])
    filled = np.full(3, number)
    np.testing.assert_array_equal(run(op, [column, number]), run(op, [column, filled]))
    np.testing.assert_array_equal(run(op, [number, column]), run(op, [filled, column]))


@pytest.mark.parametrize("op", ["+", "-", "*", "/", "pow"])
@pytest.mark.parametrize(("left", "right"), [([0.0, NAN, -1.0], [0.0, 0.0, 2.0]), ([1.5, 2.0, 3.0], [0.1, 90.0, 7.0])])
def test_binary_operations_work_in_place_of_either_operand(op: BinaryOp, left: list[float], right: list[float]) -> None:
    expected = run(op, [np.array(left), np.array(right)])
    for place in (0, 1):
        columns = [np.array(left), np.array(right)]
        np.testing.assert_array_equal(run(op, columns, columns[place]), expected)
    twice = np.array(left)
    np.testing.assert_array_equal(run(op, [twice, twice], twice), run(op, [np.array(left), np.array(left)]))
    target = np.array(right)
    np.testing.assert_array_equal(run(op, [2.0, target], target), run(op, [2.0, np.array(right)]))


@pytest.mark.parametrize("op", ["neg", "log", "exp"])
def test_unary_operations_work_in_place(op: UnaryOp) -> None:
    column = np.array([-1.0, NAN, 90.0])
    np.testing.assert_array_equal(run(op, [column], column), run(op, [np.array([-1.0, NAN, 90.0])]))


@pytest.mark.parametrize("exponent", [-1.0, 0.5, 1.0, 2.0, 3.0])
def test_powers_of_one_exponent_have_the_bits_of_a_column_of_exponents(exponent: float) -> None:
    """NumPy squares where the exponent is the number 2, which differs in the last bit for some bases."""
    bases = np.random.default_rng(0).lognormal(0, 20, 5000)
    number, column = np.empty(5000), np.empty(5000)
    OPERATIONS["pow"](bases, exponent, number, Scratch(5000))
    OPERATIONS["pow"](bases, np.full(5000, exponent), column, Scratch(5000))
    assert number.tobytes() == column.tobytes()
