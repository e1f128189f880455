"""The Gamma posterior agrees with exact arithmetic over its whole domain, and sequences of visits keep it sound."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsched.estimation.gamma_posterior import after_change, after_no_change, probability_changed
from tests.reference import estimators

shapes = st.floats(-6, 9).map(lambda power: 10.0**power)
exposures = st.floats(-9, 9).map(lambda power: 10.0**power)
ratios = st.floats(-12, 12).map(lambda power: 10.0**power)
visits = st.lists(st.tuples(ratios, st.booleans()), max_size=50)


@given(shapes, exposures, ratios)
def test_change_is_the_moment_match_of_the_spec(shape: float, exposure: float, ratio: float) -> None:
    found = after_change(shape, exposure, exposure * ratio)
    assert found == pytest.approx(estimators.after_change(shape, exposure, exposure * ratio), rel=1e-14)


@given(shapes, exposures, visits)
def test_no_visit_takes_anything_away(shape: float, exposure: float, steps: list[tuple[float, bool]]) -> None:
    for interval, changed in steps:
        before = shape, exposure
        shape, exposure = (after_change if changed else after_no_change)(shape, exposure, interval)
        assert math.isfinite(shape)
        assert math.isfinite(exposure)
        assert shape >= before[0]
        assert exposure >= before[1]


@given(shapes, exposures, ratios, ratios)
def test_probability_grows_with_time_and_stays_one(shape: float, exposure: float, sooner: float, later: float) -> None:
    sooner, later = sorted((sooner, later))
    low = probability_changed(shape, exposure, sooner)
    high = probability_changed(shape, exposure, later)
    assert 0.0 <= low <= high <= 1.0
    assert high == pytest.approx(estimators.probability_changed(shape, exposure, later), rel=1e-13)
