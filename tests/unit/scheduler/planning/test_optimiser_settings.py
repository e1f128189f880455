"""Settings of an optimiser: budgets in their units, and values that are none."""

from __future__ import annotations

from typing import Any

import pytest

from streamsched import OptimiserSettings, SettingsError
from streamsched.scheduler.planning.optimiser_settings import parse_budget
from tests.support.cases import grouped


@grouped(
    ("visits_per_s", "budget"),
    {
        2.0: [2, "2/s"],
        0.5: [0.5, "30 / m", "1800/h"],
        1.0: ["86400/d"],
        0.01: ["864%"],
        3.0: ["3"],
    },
)
def test_budgets(budget: str | float, visits_per_s: float) -> None:
    assert parse_budget(budget).visits_of(100) == pytest.approx(visits_per_s, rel=1e-15)


@pytest.mark.parametrize(
    "budget", [0, -1.0, 5e-324, float("nan"), float("inf"), 1e300, "0%", "-5%", "", "none", "1e9/s", "5%/d"]
)
def test_no_budgets(budget: str | float) -> None:
    with pytest.raises(SettingsError) as caught:
        OptimiserSettings(budget=budget)
    assert caught.value.setting == "budget"


@grouped(
    ("name", "value"),
    {
        "policy": ["lambda", None],
        "every": [0, "soon"],
        "floor": [1.5, -0.1, float("nan")],
        "complete_from": [0.0, 1.1],
    },
)
def test_wrong_settings(name: str, value: Any) -> None:
    with pytest.raises(SettingsError) as caught:
        OptimiserSettings(**{name: value})
    assert caught.value.setting == name


def test_floors_from_0_to_1() -> None:
    assert [OptimiserSettings(floor=floor).floor for floor in (0, 0.4, 1)] == [0, 0.4, 1]
