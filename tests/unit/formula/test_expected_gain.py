"""The expected gain of a visit: by a page's rate, by its `due`, and by its definition."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsched.formula.expected_gain import convert_to_gain, expected_gain
from streamsched.numerics.jit import kernel


@kernel
def _by_due(due: float, shape: float, unseen: float, spared: float) -> float:
    return expected_gain(due, shape, unseen, spared)


def by_rate(ratio: float, shape: float, unseen: float, spared: float) -> float:
    out = np.array([ratio])
    convert_to_gain(out, np.array([shape]), np.array([unseen]), np.array([spared]))
    return float(out[0])


@given(
    ratio=st.floats(0.0, 1e6),
    shape=st.floats(1e-3, 1e4),
    unseen=st.floats(0.0, 1e6),
    spared=st.floats(0.0, 1.0),
)
def test_both_ways_give_the_probability_less_what_waiting_adds(
    ratio: float, shape: float, unseen: float, spared: float
) -> None:
    quiet = spared * math.exp(-min(shape * math.log1p(ratio) + unseen, 745.0))
    gain = 1.0 - quiet * (1.0 + shape * ratio / (1.0 + ratio) + unseen)  # t·P' is quiet times the pace
    expected = min(max(gain, 0.0), 1.0)
    assert by_rate(ratio, shape, unseen, spared) == pytest.approx(expected, abs=1e-12)
    due = -math.expm1(-shape * math.log1p(ratio))
    if due < 1.0 - 1e-9:  # closer to 1, `due` has lost the digits of 1 - due
        assert _by_due(due, shape, unseen, spared) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("shape", [1e-3, 1.0, 1e6])
def test_gain_rises_with_time_to_one(shape: float) -> None:
    gains = [by_rate(10.0**power, shape, 1e-3 * 10.0**power, 1.0) for power in range(-8, 9)]
    assert gains == sorted(gains)
    assert gains[-1] == 1.0
