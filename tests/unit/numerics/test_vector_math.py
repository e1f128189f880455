"""Elementary functions: the numbers that people know by heart, the ends of the range, and order."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from streamsched.numerics import vector_math
from streamsched.numerics.arrays import Floats
from streamsched.numerics.jit import bare_kernel
from tests.support.cases import grouped

INF, NAN = math.inf, math.nan


@bare_kernel
def _exp(x: Floats) -> None:
    for i in range(x.size):
        x[i] = vector_math.exp(x[i])


@bare_kernel
def _expm1(x: Floats) -> None:
    for i in range(x.size):
        x[i] = vector_math.expm1(x[i])


@bare_kernel
def _log(x: Floats) -> None:
    for i in range(x.size):
        x[i] = vector_math.log(x[i])


@bare_kernel
def _log1p(x: Floats) -> None:
    for i in range(x.size):
        x[i] = vector_math.log1p(x[i])


@bare_kernel
def _power(x: Floats, y: Floats) -> None:
    for i in range(x.size):
        x[i] = vector_math.power(x[i], y[i])


FUNCTIONS: dict[str, Callable[[Floats], None]] = {"exp": _exp, "expm1": _expm1, "log": _log, "log1p": _log1p}


def run(name: str, *values: float) -> list[float]:
    column = np.array(values)
    FUNCTIONS[name](column)
    return list(column.tolist())


def raise_all(bases: Floats, exponent: float) -> Floats:
    result = bases.copy()
    _power(result, np.full(bases.size, exponent))
    return result


@grouped(
    ("name", "x", "value"),
    {
        "exp": [(0.0, 1.0), (-0.0, 1.0), (5e-324, 1.0), (NAN, NAN)],
        "expm1": [
            *[(0.0, 0.0), (5e-324, 5e-324), (-1e-300, -1e-300), (-40.0, -1.0), (-INF, -1.0)],
            *[(709.5, math.expm1(709.5)), (710.0, INF), (INF, INF), (NAN, NAN)],
        ],
        "log": [(1.0, 0.0), (5e-324, math.log(5e-324)), (INF, INF), (NAN, NAN)],
        "log1p": [(0.0, 0.0), (5e-324, 5e-324), (-1e-300, -1e-300), (1e300, math.log(1e300)), (INF, INF), (NAN, NAN)],
    },
)
def test_corners(name: str, x: float, value: float) -> None:
    for place in range(9):  # of a vector, and left over
        column = [1.0] * 9
        column[place] = x
        found = run(name, *column)[place]
        assert found == pytest.approx(value, rel=3e-16, abs=0, nan_ok=True)


def test_powers_known_by_heart() -> None:
    bases = np.random.default_rng(0).lognormal(0, 30, 2000)
    np.testing.assert_array_equal(raise_all(bases, 0.0), 1.0)
    np.testing.assert_array_max_ulp(raise_all(bases, 1.0), bases, 1)
    np.testing.assert_array_max_ulp(raise_all(bases, 2.0), bases * bases, 2)
    np.testing.assert_array_max_ulp(raise_all(bases, 0.5), np.sqrt(bases), 2)
    np.testing.assert_array_max_ulp(raise_all(bases, -1.0), 1.0 / bases, 2)
    np.testing.assert_array_equal(raise_all(np.ones(9), 3.7), 1.0)


def test_powers_beyond_the_range() -> None:
    assert raise_all(np.array([1e300, 1e-300, 5e-324]), 80.0).tolist() == [INF, 0.0, 0.0]
    assert raise_all(np.array([1e300, 1e-300, 5e-324]), -80.0).tolist() == [0.0, INF, INF]
    subnormal = raise_all(np.array([2.0**-40, 10.0**-40]), 8.0)
    assert raise_all(np.array([2.0**-214]), 5.0).tolist() == [2.0**-1070]
    assert subnormal == pytest.approx([2.0**-320, 10.0**-320], rel=1e-3)


@pytest.mark.parametrize(("name", "first", "last"), [("exp", -80.0, 80.0), ("log", 1e-3, 1e3), ("log1p", -0.9, 1e3)])
def test_no_step_down(name: str, first: float, last: float) -> None:
    """Neighbouring floats around many places, and around where the range is cut into pieces."""
    cuts = [(k + 0.5) * math.log(2) for k in range(-100, 100)] + [math.sqrt(0.5) * 2.0**k for k in range(-10, 10)]
    cuts += [math.sqrt(0.5) * 2.0**k - 1 for k in range(-3, 10)]
    places = [*np.random.default_rng(0).uniform(first, last, 300), *(cut for cut in cuts if first < cut < last)]
    for place in places:
        column = place + np.arange(-20, 21) * math.ulp(place)
        assert (np.diff(run(name, *np.sort(column))) >= 0).all()
