"""Intervals: against scipy, and whether they hold what they claim."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from streamsched.replay.confidence_intervals import (
    FEWEST_BATCHES,
    Estimate,
    cut_batches,
    jackknife,
    over_seeds,
    replicate_figure,
    replicate_mean,
)

DAY = 86_400.0


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


@pytest.mark.parametrize(
    ("cycles", "cycle_s", "edges"),
    [
        (27, DAY, [0, 27]),
        (55, DAY, [0, 55]),
        (56, DAY, [0, 28, 56]),
        (363, DAY, [0, 30, 60, 90, 121, 151, 181, 211, 242, 272, 302, 332, 363]),
        (2 * 672, DAY / 24, [0, 672, 1344]),
        (5, 7 * DAY, [0, 5]),
        (9, 7 * DAY, [0, 4, 9]),
        (3, 60 * DAY, [0, 1, 2, 3]),
    ],
)
def test_batches_have_28_days_or_more_and_cover_all_cycles(cycles: int, cycle_s: float, edges: list[int]) -> None:
    assert cut_batches(cycles, cycle_s).tolist() == edges


def test_the_jackknife_of_a_mean_of_equal_batches_is_their_t_interval() -> None:
    series = np.random.default_rng(3).normal(size=140)
    found = jackknife(replicate_mean(series, np.ones(140), cut_batches(140, DAY)))
    means = series.reshape(5, 28).mean(1)
    assert found.value == pytest.approx(series.mean())
    assert (found.low, found.high) == pytest.approx(stats.t.interval(0.95, 4, means.mean(), stats.sem(means)))


@pytest.mark.parametrize("batches", [1, 2, 3, 4])
def test_fewer_than_five_batches_have_no_interval_alike_or_not(batches: int) -> None:
    assert FEWEST_BATCHES == 5
    for series in (np.arange(batches, dtype=np.float64), np.ones(batches)):
        found = jackknife(replicate_mean(series, np.ones(batches), np.arange(batches + 1)))
        assert found == Estimate(series.mean())


def test_what_is_not_counted_has_no_weight_and_what_rests_on_one_batch_has_no_interval() -> None:
    series, edges = np.repeat([1.0, 3.0, 3.0, 3.0, 3.0], 28), np.arange(6) * 28
    counted = np.ones(140, bool)
    assert jackknife(replicate_mean(series, counted, edges)).half_width is not None
    counted[28:] = False
    assert jackknife(replicate_mean(series, counted, edges)) == Estimate(1.0)
    assert jackknife(replicate_mean(series, np.zeros(140, bool), edges)) == Estimate(None)
    assert jackknife(replicate_mean(series, np.ones(140), np.array([0, 140]))) == Estimate(2.6)


def test_intervals_widen_for_what_lasts_and_hold_the_truth_about_as_often_as_they_say() -> None:
    rng = np.random.default_rng(7)
    hits = 0
    for _ in range(400):
        noise = rng.normal(size=378)
        lasting = np.convolve(noise, np.ones(14), "valid")  # of two weeks each
        found = jackknife(replicate_mean(lasting, np.ones(lasting.size), cut_batches(lasting.size, DAY)))
        assert found.low is not None
        assert found.high is not None
        hits += found.low <= 0.0 <= found.high
    assert 0.88 <= hits / 400 <= 0.97  # batches of 7 days: 0.75


def test_a_figure_of_detections_is_taken_without_each_batch() -> None:
    delays, cycles = np.array([1.0, 3.0, 10.0, 20.0]), np.array([0, 6, 7, 14])
    edges = np.array([0, 7, 14, 21])
    assert replicate_figure(delays, cycles, edges, lambda part: float(part.max())).tolist() == [20.0, 20.0, 20.0, 10.0]
    nothing = replicate_figure(np.empty(0), np.empty(0, np.int64), edges, lambda part: float(part.max()))
    assert jackknife(nothing) == Estimate(None)
