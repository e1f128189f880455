"""Intervals: against scipy, and whether they hold what they claim."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from streamsched.replay.confidence_intervals import Estimate, over_cycles, over_detections, over_seeds


@pytest.mark.parametrize("count", [2, 3, 10, 200])
def test_over_seeds_is_the_t_interval(count: int) -> None:
    figures = np.random.default_rng(count).normal(5.0, 2.0, count)
    found = over_seeds(list(figures))
    expected = stats.t.interval(0.95, count - 1, figures.mean(), stats.sem(figures))
    assert (found.low, found.high) == pytest.approx(expected)
    assert found.value == pytest.approx(figures.mean())


def test_a_seed_without_a_figure_is_left_out_and_one_figure_has_no_interval() -> None:
    assert over_seeds([None, 3.0]) == Estimate(3.0)
    assert over_seeds([None, None]) == Estimate(None)
    assert over_seeds([1.0, None, 3.0]).value == 2.0
    assert Estimate(3.0).half_width is None


def test_batch_means_leave_a_shorter_last_batch_and_uncounted_cycles_out_of_the_spread() -> None:
    series = np.concatenate([np.full(7, 1.0), np.full(7, 3.0), np.full(6, 100.0)])
    counted = np.ones(20, bool)
    found = over_cycles(series, counted)
    assert found.value == pytest.approx(series.mean())
    assert found.half_width == pytest.approx(stats.t.ppf(0.975, 1) * stats.sem([1.0, 3.0]))
    counted[7:14] = False
    assert over_cycles(series, counted).half_width is None
    assert over_cycles(series, np.zeros(20, bool)) == Estimate(None)
    assert over_cycles(series[:5], np.ones(5, bool)) == Estimate(1.0)


def test_batch_means_widen_for_what_lasts_and_hold_the_truth_about_as_often_as_they_say() -> None:
    rng = np.random.default_rng(7)
    hits = 0
    for _ in range(400):
        noise = rng.normal(size=200)
        lasting = noise[2:] + noise[1:-1] + noise[:-2]  # of three days each
        found = over_cycles(lasting, np.ones(lasting.size, bool))
        assert found.low is not None
        assert found.high is not None
        hits += found.low <= 0.0 <= found.high
    assert 0.88 <= hits / 400 <= 0.97  # single cycles as if independent: 0.74


def test_over_detections_takes_a_figure_of_each_batch_of_cycles() -> None:
    delays, cycles = np.array([1.0, 3.0, 10.0, 20.0]), np.array([0, 6, 7, 14])
    found = over_detections(delays, cycles, 20, lambda part: float(part.max()))
    assert found.value == 20.0
    assert found.half_width == pytest.approx(stats.t.ppf(0.975, 1) * stats.sem([3.0, 10.0]))
    assert over_detections(np.empty(0), np.empty(0, np.int64), 20, lambda part: float(part.max())) == Estimate(None)
