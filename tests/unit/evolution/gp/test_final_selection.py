"""Final selection against cases computed by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from streamsched.evolution.gp.final_selection import Selection, measure, select

TRAIN = np.array([0.8, 0.5, 0.7])
VALIDATION = np.array([0.4, 0.6, 0.7])


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ("best", [0.4, 0.6, 0.7]),
        ("avg", [0.6 - 0.2, 0.55 - 0.05, 0.7]),  # deviations of (0.8, 0.4), (0.5, 0.6), (0.7, 0.7): 0.2, 0.05, 0
        ("sum", [1.2 - 0.2, 1.1 - 0.05, 1.4]),
    ],
)
def test_measures_by_hand(how: Selection, expected: list[float]) -> None:
    assert measure(TRAIN, VALIDATION, how).tolist() == pytest.approx(expected, abs=1e-15)


@pytest.mark.parametrize("how", ["avg", "sum"])
def test_the_deviation_is_the_population_s(how: Selection) -> None:
    rng = np.random.default_rng(3)
    train, validation = rng.random(50), rng.random(50)
    both = np.stack([train, validation])
    expected = (both.mean(axis=0) if how == "avg" else both.sum(axis=0)) - both.std(axis=0, ddof=0)
    assert measure(train, validation, how) == pytest.approx(expected, abs=1e-15)


def test_the_three_selections_can_differ() -> None:
    train, validation = np.array([0.80, 0.62, 0.59]), np.array([0.55, 0.60, 0.61])
    assert [select(train, validation, how) for how in ("best", "avg", "sum")] == [2, 1, 0]


@pytest.mark.parametrize("how", ["best", "avg", "sum"])
def test_the_first_of_equals_is_selected(how: Selection) -> None:
    assert select(np.array([0.1, 0.5, 0.5]), np.array([0.2, 0.5, 0.5]), how) == 1


@pytest.mark.parametrize("how", ["best", "avg", "sum"])
def test_nan_ranks_last(how: Selection) -> None:
    assert select(np.array([0.9, 0.0]), np.array([math.nan, -1.0]), how) == 1
    with pytest.raises(ValueError, match="found none among 2"):
        select(np.array([0.9, 0.8]), np.array([math.nan, math.nan]), how)


def test_a_missing_training_fitness_matters_if_it_is_used() -> None:
    train, validation = np.array([math.nan, 0.1]), np.array([0.9, 0.2])
    assert [select(train, validation, how) for how in ("best", "avg", "sum")] == [0, 1, 1]


def test_an_empty_selection_is_refused() -> None:
    with pytest.raises(ValueError, match="found none among 0"):
        select(np.empty(0), np.empty(0), "best")
    with pytest.raises(ValueError, match="found 2 and 1"):
        select(np.zeros(2), np.zeros(1), "avg")


def test_the_measure_is_a_copy() -> None:
    validation = np.array([0.5])
    measure(np.array([0.5]), validation, "best")[0] = 9.0
    assert validation.tolist() == [0.5]
