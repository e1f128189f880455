"""The table of protected operations, corner by corner, alone and in columns."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from streamsched.formula import Binary, Formula, Terminal, Unary
from streamsched.formula.evaluation.protected import apply
from streamsched.formula.syntax.nodes import BinaryOp, UnaryOp

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


def run(op: UnaryOp | BinaryOp, operands: Sequence[np.ndarray]) -> list[float]:
    """The operation over columns, by a formula."""
    left, right = Terminal("X"), Terminal("t")
    tree = Binary(op, left, right) if len(operands) == 2 else Unary(op, left)  # type: ignore[arg-type]
    return list(Formula(tree).evaluate(dict(zip("Xt", operands, strict=False))).tolist())
