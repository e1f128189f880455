"""What a synthetic corpus may be asked to be."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import asdict, replace
from typing import Any

import pytest

from streamsched import SettingsError
from streamsched.replay import KINDS, SyntheticSettings


def test_the_defaults_are_of_the_published_size() -> None:
    settings = SyntheticSettings()
    assert (settings.pages, settings.days, settings.hosts) == (417_000, 57, 10_000)
    assert sum(settings.shares) == pytest.approx(1)
    assert len(settings.shares) == len(KINDS)


def test_settings_are_values() -> None:
    settings = SyntheticSettings(pages=7)
    assert settings == SyntheticSettings(pages=7) != replace(settings, days=3)
    assert len({settings, SyntheticSettings(pages=7)}) == 1
    assert SyntheticSettings(**deepcopy(asdict(settings))) == settings


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("pages", 0),
        ("pages", 1.5),
        ("pages", 2**31),
        ("days", 0),
        ("days", 100_000),
        ("start_s", 0.5),
        ("start_s", float("nan")),
        ("start_s", float("inf")),
        ("start_s", 1e300),
        ("zone_hours", 15.0),
        ("zone_hours", float("nan")),
        ("pages_per_host", 0.5),
        ("host_tail", 0.0),
        ("pages_per_prefix", 0.0),
        ("host_accord", 1.1),
        ("domain", ""),
        ("domain", "exämple"),
        ("domain", "a b"),
        ("rate_per_day", -1.0),
        ("rate_per_day", float("inf")),
        ("prefix_shape", 0.0),
        ("weekday_chance", -0.1),
        ("weekday_chance", float("nan")),
        ("office_hours", (18.0, 8.0)),
        ("office_hours", (8.0, 25.0)),
        ("burst_days", 0.0),
        ("burst_regularity", 0.0),
        ("jitter_s", 3_600),
        ("bulk_reach", 2.0),
        ("bulk_s", -1),
    ],
)
def test_what_cannot_work_is_refused_by_name(setting: str, value: Any) -> None:
    with pytest.raises(SettingsError) as refused:
        SyntheticSettings(**{setting: value})
    assert refused.value.setting == setting


@pytest.mark.parametrize("shares", [{"dead": 0.5}, {"poisson": 0.9}, dict.fromkeys(KINDS, 0.0)])
def test_shares_must_sum_to_one(shares: dict[str, float]) -> None:
    with pytest.raises(SettingsError, match=r"kinds: expected shares of poisson, weekday, .* that sum to 1"):
        SyntheticSettings(**shares)  # type: ignore[arg-type]
