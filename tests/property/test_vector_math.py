"""Elementary functions against the C library's, within a few units in the last place, over all they are asked."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.reference import estimators
from tests.support.cases import examples
from tests.unit.numerics.test_vector_math import raise_all, run

positive = st.floats(5e-324, 1.7976931348623157e308) | st.floats(0.5, 2.0) | st.floats(1e-3, 1e3)


@examples(ordinary=60, whole=200)
@given(st.lists(st.floats(-700, 700) | st.floats(-1, 1), min_size=1, max_size=30))
def test_exp(column: list[float]) -> None:
    for found, x in zip(run("exp", *column), column, strict=True):
        assert estimators.ulps_between(found, math.exp(x)) <= 2


@examples(ordinary=60, whole=200)
@given(st.lists(st.floats(-1e4, 709) | st.floats(-2, 2) | st.floats(-1e-6, 1e-6), min_size=1, max_size=30))
def test_expm1(column: list[float]) -> None:
    for found, x in zip(run("expm1", *column), column, strict=True):
        assert estimators.ulps_between(found, math.expm1(x)) <= 3


@examples(ordinary=60, whole=200)
@given(st.lists(positive, min_size=1, max_size=30))
def test_log(column: list[float]) -> None:
    for found, x in zip(run("log", *column), column, strict=True):
        assert estimators.ulps_between(found, math.log(x)) <= 2


@examples(ordinary=60, whole=200)
@given(st.lists(positive | st.floats(-0.999, 1.0) | st.floats(-1e-6, 1e-6), min_size=1, max_size=30))
def test_log1p(column: list[float]) -> None:
    for found, x in zip(run("log1p", *column), column, strict=True):
        assert estimators.ulps_between(found, math.log1p(x)) <= 3


@examples(ordinary=60, whole=200)
@given(st.lists(positive, min_size=1, max_size=30), st.floats(-80, 80) | st.integers(-80, 80).map(float))
def test_power(bases: list[float], exponent: float) -> None:
    for found, base in zip(raise_all(np.array(bases), exponent).tolist(), bases, strict=True):
        assert estimators.ulps_between(found, estimators.power(base, exponent)) <= 3
