"""Settings of a scheduler: validated once, saved as they are, and in force after loading."""

from __future__ import annotations

import json
from dataclasses import FrozenInstanceError, replace
from pathlib import Path
from typing import Any

import pytest

from streamsched import FormulaError, Politeness, Scheduler, SettingsError
from streamsched.estimation.seasonality.regions import TimeRegion
from streamsched.scheduler.settings import SchedulerSettings, parse_cycle
from tests.support.random_calls import settings_of

OTHERS: dict[str, Any] = {"surges": False, "formula": "t * X"}


@pytest.mark.parametrize("regions", [None, {"east": TimeRegion(("jp",), "Asia/Tokyo")}])
def test_settings_come_back_from_json(regions: dict[str, TimeRegion] | None) -> None:
    settings = Scheduler(**settings_of() | OTHERS, regions=regions).core.settings
    fields = json.loads(json.dumps(settings.to_json()))
    assert SchedulerSettings.from_json(fields, threads=1) == settings
    assert SchedulerSettings.from_json(fields).threads is None


def test_settings_are_frozen_and_checked_again_in_a_copy() -> None:
    settings = Scheduler().core.settings
    with pytest.raises(FrozenInstanceError):
        settings.seed = 3  # type: ignore[misc]
    wrong: dict[str, Any] = {"cycle_s": 0.5, "panel": 1.0, "threads": 300, "regions": "none"}
    for name, value in wrong.items():
        with pytest.raises(SettingsError):
            replace(settings, **{name: value})


def test_settings_follow_what_was_set_later(tmp_path: Path) -> None:
    scheduler = Scheduler(seed=4, panel=0.25)
    scheduler.set_politeness(Politeness(delay=2.0, per_batch=3))
    scheduler.use("t")
    scheduler.save(tmp_path)
    settings = Scheduler.load(tmp_path, threads=2).core.settings
    assert settings == replace(scheduler.core.settings, threads=2)
    assert (settings.formula.text, settings.politeness) == ("t", Politeness(delay=2.0, per_batch=3))
    assert (settings.seed, settings.panel) == (4, 0.25)


def test_formula_of_another_release_is_named() -> None:
    fields = Scheduler().core.settings.to_json() | {"formula": "t * dew"}
    with pytest.raises(FormulaError, match="dew"):
        SchedulerSettings.from_json(fields)


def test_cycle_is_a_duration() -> None:
    assert parse_cycle("12h") == 43_200.0
    with pytest.raises(SettingsError) as caught:
        parse_cycle("0.5s")
    assert (caught.value.setting, caught.value.found) == ("cycle", "0.5s")
