"""The table of protected operations, corner by corner, alone and in columns."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from streamsched.formula import Binary, Formula, Terminal, Unary
from streamsched.formula.evaluation.protected import apply
from streamsched.formula.syntax.nodes import BinaryOp, UnaryOp
from tests.support.cases import grouped

INF, NAN = math.inf, math.nan
E80 = math.exp(80)


@grouped(
    ("op", "operands", "value"),
    {
        "+": [((INF, -INF), NAN)],
        "-": [((INF, INF), NAN)],
        "*": [((0, INF), NAN), ((1e200, 1e200), INF)],
        "neg": [((-INF,), INF)],
        "/": [
            *[((1, 4), 0.25), ((1, 0), 0), ((0, 0), 0), ((-1, -0.0), 0), ((INF, 0), 0), ((NAN, 0), NAN)],
            *[((NAN, 1), NAN), ((1, NAN), NAN), ((1, INF), 0), ((INF, INF), NAN), ((1e308, 1e-308), INF)],
        ],
        "log": [
            *[((1,), 0), ((math.e,), 1), ((0,), 0), ((-0.0,), 0), ((-1,), 0), ((-INF,), 0), ((INF,), INF)],
            *[((NAN,), NAN), ((5e-324,), math.log(5e-324))],
        ],
        "exp": [
            *[((0,), 1), ((80,), E80), ((81,), E80), ((INF,), E80), ((-81,), 1 / E80), ((-INF,), 1 / E80)],
            *[((NAN,), NAN)],
        ],
        "pow": [
            *[((2, 10), 1024), ((2, 0.5), math.sqrt(2)), ((2, 100), 2.0**80), ((2, INF), 2.0**80)],
            *[((2, -INF), 2.0**-80), ((0, 0), 1), ((-0.0, 0), 1), ((0, 3), 0), ((0, -1), 0), ((-0.0, -3), 0)],
            *[((-2, 2), 0), ((-2, 0), 0), ((-INF, 1), 0), ((INF, 0), 1), ((INF, 2), INF), ((INF, -2), 0)],
            *[((1e10, 80), INF), ((1e-10, 80), 0), ((NAN, 0), NAN), ((NAN, 1), NAN), ((1, NAN), NAN), ((0, NAN), NAN)],
            *[((-1, NAN), NAN)],
        ],
    },
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
