"""The Gamma posterior against numerical integration, SciPy's special functions and a million visits."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import integrate

from streamsched.estimation.gamma_posterior import (
    after_change,
    after_no_change,
    mean_of_intervals,
    probabilities_changed,
    probability_changed,
)
from streamsched.numerics.arrays import Bools, Floats
from streamsched.numerics.jit import kernel
from tests.reference import estimators

RATIOS = 10.0 ** np.arange(-12, 13)  # interval over exposure
SHAPES = [1e-6, 1e-3, 0.05, 0.3, 1.0, 2.0, 17.0, 1e3, 1e6, 1e9]


def integrated(shape: float, exposure: float, interval: float) -> tuple[float, float]:
    """Return shape and exposure by the mean and variance of the posterior density, integrated over x = ln λ.

    Left of every bend the density falls as e^((shape + 1)x), on the right as e^(-e^x); the trapezoidal rule converges
    exponentially on such a density.
    """
    low = -math.log(max(interval, exposure)) - 45.0
    high = math.log((shape + 60.0 + 40.0 * math.sqrt(shape)) / exposure)
    x = np.linspace(low, high, 20_000)
    rate = np.exp(x)
    log_density = shape * x - exposure * rate + np.log(-np.expm1(-rate * interval))
    density = np.exp(log_density - log_density.max())
    mass = integrate.trapezoid(density, x)
    mean = integrate.trapezoid(rate * density, x) / mass
    variance = integrate.trapezoid((rate - mean) ** 2 * density, x) / mass
    return mean * mean / variance, mean / variance


@pytest.mark.parametrize("shape", [0.05, 0.3, 1.0, 2.5, 40.0, 1e4])
def test_change_matches_numerical_integration(shape: float) -> None:
    for ratio in RATIOS:
        found = after_change(shape, 3.0, 3.0 * ratio)
        assert found == pytest.approx(integrated(shape, 3.0, 3.0 * ratio), rel=1e-10), ratio


@pytest.mark.parametrize("exposure", [1e-9, 1.0, 7e11])
def test_change_matches_exact_arithmetic_over_the_whole_grid(exposure: float) -> None:
    for shape in SHAPES:
        for ratio in RATIOS:
            found = after_change(shape, exposure, exposure * ratio)
            assert found == pytest.approx(estimators.after_change(shape, exposure, exposure * ratio), rel=1e-14)


def test_change_never_takes_away_and_adds_at_most_one_change() -> None:
    for shape in SHAPES:
        for ratio in RATIOS:
            after, exposure = after_change(shape, 1.0, ratio)
            assert shape <= after <= (shape + 1.0) * (1.0 + 1e-15)
            assert 1.0 <= exposure <= (1.0 + ratio / 2.0) * (1.0 + 1e-15)


@pytest.mark.parametrize("interval", [0.0, -1.0, math.nan, 1e-320])
def test_change_at_once_counts_in_full(interval: float) -> None:
    assert after_change(2.0, 5.0, interval) == (3.0, 5.0)


@pytest.mark.parametrize(
    ("shape", "exposure", "interval"),
    [(1.0, 1.0, 1e308), (1e-6, 1e-300, 1e300), (1e9, 1e-300, 1e300), (1e-300, 1.0, 1.0), (1e-6, 1e300, 1e308)],
)
def test_change_stays_finite_far_outside_the_grid(shape: float, exposure: float, interval: float) -> None:
    after = after_change(shape, exposure, interval)
    assert all(map(math.isfinite, after))
    assert after[0] >= shape
    assert after[1] >= exposure


@kernel
def visit_all(shape: float, exposure: float, intervals: Floats, changed: Bools) -> tuple[float, float]:
    for i in range(intervals.size):
        if changed[i]:
            shape, exposure = after_change(shape, exposure, intervals[i])
        else:
            shape, exposure = after_no_change(shape, exposure, intervals[i])
    return shape, exposure


@pytest.mark.parametrize("rate", [1e-3, 0.1, 3.0])
def test_million_visits_find_the_rate(rate: float) -> None:
    draw = np.random.default_rng(7)
    intervals = draw.gamma(2.0, 0.5, 1_000_000)
    changed = draw.random(intervals.size) < -np.expm1(-rate * intervals)
    shape, exposure = visit_all(0.5, 5.0, intervals, changed)
    assert shape / exposure == pytest.approx(rate, rel=5.0 / math.sqrt(changed.sum()))
    assert 0.1 * changed.sum() < shape < changed.sum() + 1.0


@pytest.mark.parametrize("interval", [1e-12, 1e12])
def test_million_changes_over_extreme_intervals_stay_sound(interval: float) -> None:
    shape, exposure = visit_all(0.5, 1.0, np.full(1_000_000, interval), np.ones(1_000_000, np.bool_))
    assert math.isfinite(exposure)
    if interval < 1.0:  # each visit has the mean of its prior plus one change, and half its interval of watching
        assert shape == pytest.approx(1_000_000.5, rel=1e-6)
        assert exposure == pytest.approx(1.0 + 0.5e-6, rel=1e-9)
    else:  # changes that had to be there teach next to nothing
        assert shape < 30.0


def test_probability_is_exact_where_it_is_tiny_and_where_it_is_certain() -> None:
    assert probability_changed(2.0, 1.0, 1e-18) == pytest.approx(2e-18, rel=1e-15)
    assert probability_changed(1e9, 1.0, 1e12) == 1.0
    assert probability_changed(1.0, 1.0, math.inf) == 1.0
    assert probability_changed(3.0, 2.0, 4.0) == pytest.approx(1.0 - (2.0 / 6.0) ** 3)
    assert probability_changed(3.0, 2.0, 0.0) == probability_changed(3.0, 2.0, -1.0) == 0.0


def test_probabilities_of_a_block_are_those_of_its_rows_and_allocate_nothing() -> None:
    draw = np.random.default_rng(3)
    shape, exposure = 10.0 ** draw.uniform(-6, 9, 1000), 10.0 ** draw.uniform(-9, 9, 1000)
    elapsed = np.where(draw.random(1000) < 0.1, -1.0, 10.0 ** draw.uniform(-12, 12, 1000))
    expected = [probability_changed(*row) for row in zip(shape, exposure, elapsed, strict=True)]
    out = np.full(1000, np.nan)
    assert probabilities_changed(shape, exposure, elapsed, out) is out
    np.testing.assert_allclose(out, expected, rtol=1e-14)
    assert not np.signbit(out).any()
    assert probabilities_changed(shape, exposure, elapsed, elapsed) is elapsed
    np.testing.assert_array_equal(elapsed, out)


@pytest.mark.parametrize("shape", [0.3, 2.0, 50.0])
@pytest.mark.parametrize("mean", [1e-3, 0.1, 2.0])
def test_mean_of_intervals_is_the_likeliest(mean: float, shape: float) -> None:
    """The log-likelihood falls on both sides of it."""
    draw = np.random.default_rng(3)
    cycles = np.array([0.25, 1.0, 7.0])
    intervals = np.array([50.0, 200.0, 30.0])
    changed = draw.binomial(intervals.astype(np.int64), 1.0 - (1.0 + mean * cycles / shape) ** -shape) * 1.0
    found = mean_of_intervals(intervals - changed, changed, cycles * intervals, shape, 0.1, 1e-9)

    def fit(rate: float) -> float:
        quiet = -shape * np.log1p(rate * cycles / shape)
        return float(np.sum((intervals - changed) * quiet + changed * np.log(-np.expm1(quiet))))

    if changed.any():
        assert fit(found) > max(fit(found * 1.001), fit(found / 1.001))


@pytest.mark.parametrize(("changed", "most"), [(0.0, 1e-2), (1e6, 1e30)])
def test_mean_of_intervals_is_finite_and_above_0(changed: float, most: float) -> None:
    found = mean_of_intervals(np.array([1e6 - changed]), np.array([changed]), np.array([1e6]), 2.0, 0.1, 4.0)
    assert 0.0 < found < most


def test_mean_of_intervals_is_the_guess_while_nothing_is_known() -> None:
    none = np.zeros(3)
    assert mean_of_intervals(none, none, none, 2.0, 0.03, 4.0) == pytest.approx(0.03)
