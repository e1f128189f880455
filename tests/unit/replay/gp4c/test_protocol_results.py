"""Paired comparisons across folds, against cases worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from streamsched.replay.gp4c.protocol_results import (
    Contest,
    by_fold,
    compare_cycles,
    compare_folds,
    estimate_cycles,
    estimate_folds,
)

T4 = 2.7764451051977987  # Student's t at 97.5 %, 4 degrees of freedom


def test_folds_are_averaged_over_the_cycles_that_count() -> None:
    series = np.array([[0.2, np.nan, 0.4], [0.5, 0.5, 0.8]])
    assert by_fold(series).tolist() == pytest.approx([0.3, 0.6])
    assert np.isnan(by_fold(np.array([[np.nan, np.nan]]))).all()


def test_the_interval_is_students_over_the_folds() -> None:
    series = np.array([[0.1], [0.2], [0.3], [0.4], [0.5]])
    figure = estimate_folds(series)
    error = np.sqrt(0.025 / 5)
    assert figure.value == pytest.approx(0.3)
    assert figure.low == pytest.approx(0.3 - T4 * error)
    assert figure.high == pytest.approx(0.3 + T4 * error)


def test_differences_are_paired_before_they_are_spread() -> None:
    theirs = np.array([[0.1], [0.2], [0.3], [0.4], [0.5]])
    ours = theirs + np.array([[0.01], [0.02], [0.03], [0.02], [0.02]])
    difference = compare_folds(ours, theirs)
    deviation = np.sqrt(0.0002 / 4)
    assert difference.value == pytest.approx(0.02 / 0.3)
    assert difference.high == pytest.approx((0.02 + T4 * deviation / np.sqrt(5)) / 0.3)
    assert difference.low is not None
    assert difference.low > 0  # though the two overlap by far


def test_nothing_is_above_nothing() -> None:
    assert compare_folds(np.full((5, 2), 0.1), np.zeros((5, 2))).value is None


def test_cycles_are_won_lost_and_tied_with_their_mean_relative_differences() -> None:
    theirs = np.full((5, 4), 0.5)
    sway = np.array([-0.01, 0.0, 0.01, 0.005, -0.005])
    ours = np.stack([0.6 + sway, 0.55 + sway, 0.4 + sway, 0.5 + sway], axis=1)
    contest = compare_cycles(ours, theirs)
    assert (contest.victories, contest.losses, contest.ties) == (2, 1, 1)
    assert contest.gain == pytest.approx((0.2 + 0.1) / 2)
    assert contest.drop == pytest.approx(-0.2)


def test_the_same_lead_in_every_fold_is_a_victory_and_equality_a_tie() -> None:
    ours = np.full((5, 2), 0.5)
    assert compare_cycles(ours, ours) == Contest(0, 0, 2, None, None)
    contest = compare_cycles(ours, ours - 0.25)
    assert (contest.victories, contest.gain) == (2, 1.0)
    assert compare_cycles(ours, np.zeros((5, 2))) == Contest(2, 0, 0, None, None)


def test_a_cycle_without_changes_in_a_fold_is_left_out_of_that_fold() -> None:
    ours = np.array([[0.6, np.nan], [0.7, np.nan], [np.nan, 0.9]])
    first, second = estimate_cycles(ours)
    assert first.value == pytest.approx(0.65)
    assert (second.value, second.low) == (0.9, None)
    assert compare_cycles(ours, ours - 0.1).ties == 1
