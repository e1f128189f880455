"""Settings of evolutions, and the final selection."""

from __future__ import annotations

import dataclasses
import json
import math
from typing import Any

import numpy as np
import pytest

from streamsched.errors import SettingsError
from streamsched.evolution.evolution_settings import MAX_LEVELS, EvolutionSettings, Selection, measure, select
from streamsched.evolution.genomes import full_tree, to_formula
from streamsched.evolution.symbols import SymbolSet
from tests.support.cases import grouped

TRAIN = np.array([0.8, 0.5, 0.7])
VALIDATION = np.array([0.4, 0.6, 0.7])


def test_the_defaults_are_the_paper_s() -> None:
    assert EvolutionSettings().to_json() == {
        "population": 300,
        "generations": 50,
        "max_depth": 10,
        "initial_depth": [2, 6],
        "tournament": 2,
        "parents": "elites",
        "crossover": 90.0,
        "reproduction": 15.0,
        "replacement": 5.0,
        "swap": 5.0,
        "crossover_depth": 9,
        "elites": 50,
        "seeds": 5,
        "selection": "best",
        "terminals": "paper",
        "constants": [0.001, 0.01, 0.1, 0.5, 1.0, 10.0, 100.0, 1000.0],
        "metric": "ndcg",
        "budget": 0.05,
        "warmup": 2,
        "reading": "since_visit",
        "workers": None,
        "seconds": None,
    }


def test_every_setting_is_documented() -> None:
    text = EvolutionSettings.__doc__ or ""
    assert [field.name for field in dataclasses.fields(EvolutionSettings) if f"``{field.name}``" not in text] == []


@grouped(
    ("name", "value"),
    {
        "population": [0, 1_000_000_000],
        "generations": [0],
        "max_depth": [0, MAX_LEVELS + 1],
        "initial_depth": [(0, 6), (6, 2), (2, 11), (2,), (2, 6.0)],
        "tournament": [0, 10**9],
        "crossover_depth": [MAX_LEVELS + 1, 0],
        "workers": [10**6, 0],
        "parents": ["all"],
        "crossover": [-1.0],
        "elites": [0],
        "seeds": [0],
        "selection": ["max"],
        "terminals": ["all"],
        "constants": [(1.0, 1.0), (math.nan,), ("1",), tuple(map(float, range(300)))],
        "metric": ["NDCG"],
        "budget": [0.0, 1.01],
        "warmup": [0],
        "reading": ["that day"],
        "seconds": [0.0],
    },
)
def test_invalid_values_are_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(SettingsError) as caught:
        EvolutionSettings(**{name: value})
    assert (caught.value.setting, caught.value.found) == (name, value)
    assert caught.value.expected


def test_all_rates_zero_is_refused() -> None:
    with pytest.raises(SettingsError, match="one of crossover, reproduction, replacement, swap above 0"):
        EvolutionSettings(crossover=0.0, reproduction=0.0, replacement=0.0, swap=0.0)
    assert EvolutionSettings(crossover=0, reproduction=0, replacement=1, swap=0).replacement == 1


def test_settings_survive_json() -> None:
    settings = EvolutionSettings(population=7, initial_depth=(1, 3), constants=(2.0,), workers=2, seconds=1.5)
    again = EvolutionSettings.from_json(json.loads(json.dumps(settings.to_json())))
    assert again == settings
    assert hash(again) == hash(settings)


def test_missing_json_fields_have_defaults() -> None:
    assert EvolutionSettings.from_json({"swap": 0}) == EvolutionSettings(swap=0)


@pytest.mark.parametrize("wrong", [None, 7, "WARM", ["population"]])
def test_json_that_is_no_mapping_is_refused(wrong: Any) -> None:
    with pytest.raises(SettingsError, match="settings: expected settings by name"):
        EvolutionSettings.from_json(wrong)


@pytest.mark.parametrize(("terminals", "room"), [("basic", 246), ("full", 227)])
def test_the_number_of_constants_is_limited_by_name(terminals: Any, room: int) -> None:
    numbers = tuple(map(float, range(room + 1)))
    with pytest.raises(SettingsError, match=f"constants: expected at most {room} finite numbers, each once"):
        EvolutionSettings(terminals=terminals, constants=numbers)
    assert len(EvolutionSettings(terminals=terminals, constants=numbers[:-1]).symbol_set.symbols) == 256


def test_json_with_an_unknown_name_is_refused() -> None:
    with pytest.raises(SettingsError) as caught:
        EvolutionSettings.from_json({"poplation": 7})
    assert "poplation" in caught.value.setting
    assert "population" in caught.value.expected


def test_the_symbol_set_is_that_of_terminals_and_constants() -> None:
    settings = EvolutionSettings(terminals="basic", constants=(2.0,))
    assert settings.symbol_set == SymbolSet(("n", "X", "t"), (2.0,))


def test_the_deepest_tree_allowed_is_still_a_formula() -> None:
    class Lowest:
        def random(self) -> float:
            return 0.0  # the first function, +, and the first leaf

    symbol_set = EvolutionSettings(max_depth=MAX_LEVELS).symbol_set
    formula = to_formula(full_tree(symbol_set, MAX_LEVELS, Lowest()), symbol_set)  # type: ignore[arg-type]
    assert (formula.size, formula.depth) == (2**MAX_LEVELS - 1, MAX_LEVELS)


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
