"""The settings of an evolution: the paper's defaults, validation, and JSON."""

from __future__ import annotations

import dataclasses
import json
import math
from typing import Any

import pytest

from streamsched.errors import SettingsError
from streamsched.evolution.gp.evolution_settings import MAX_LEVELS, EvolutionSettings
from streamsched.evolution.gp.genomes import full_tree, to_formula
from streamsched.evolution.gp.symbols import SymbolSet


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


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("population", 0),
        ("population", 1_000_000_000),
        ("population", 2.5),
        ("population", True),
        ("population", "300"),
        ("generations", 0),
        ("max_depth", 0),
        ("max_depth", MAX_LEVELS + 1),
        ("initial_depth", (0, 6)),
        ("initial_depth", (6, 2)),
        ("initial_depth", (2, 11)),
        ("initial_depth", (2,)),
        ("initial_depth", 6),
        ("initial_depth", (2, 6.0)),
        ("tournament", 0),
        ("tournament", 10**9),
        ("crossover_depth", MAX_LEVELS + 1),
        ("workers", 10**6),
        ("parents", "all"),
        ("crossover", -1.0),
        ("crossover", math.nan),
        ("reproduction", math.inf),
        ("replacement", "5"),
        ("swap", None),
        ("crossover_depth", 0),
        ("elites", 0),
        ("seeds", 0),
        ("selection", "max"),
        ("terminals", "all"),
        ("terminals", None),
        ("constants", (1.0, 1.0)),
        ("constants", (math.nan,)),
        ("constants", ("1",)),
        ("constants", 1.0),
        ("constants", tuple(map(float, range(300)))),
        ("metric", "NDCG"),
        ("metric", ["ndcg"]),
        ("budget", 0.0),
        ("budget", 1.01),
        ("budget", math.nan),
        ("budget", True),
        ("warmup", 0),
        ("reading", "that day"),
        ("workers", 0),
        ("seconds", 0.0),
        ("seconds", math.inf),
    ],
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
