"""Settings and rules of politeness: what they take, what they refuse, and what JSON keeps of them."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from streamsched import SettingsError
from streamsched.politeness.politeness_settings import HostRule, Politeness, Rule
from tests.support.cases import grouped


@grouped(
    ("kind", "setting", "found"),
    {
        (Politeness, "delay"): [-1],
        (Politeness, "in_flight"): [0],
        (Politeness, "per_batch"): [-1],
        (Politeness, "backoff_most"): [0],
        (Politeness, "retire_after"): [0, 256],
        (Politeness, "probe_every"): ["0d"],
        (Politeness, "retry_after_most"): [0],
        (Politeness, "host_backoff_429"): [0],
        (Politeness, "host_backoff_503"): [256],
        (Politeness, "max_revisit"): [0],
        (Rule, "max_revisit"): [0],
        (HostRule, "delay"): [-0.5],
        (HostRule, "in_flight"): [65_535],
        (HostRule, "per_batch"): [0],
    },
)
def test_setting_that_cannot_work(kind: type[Any], setting: str, found: object) -> None:
    with pytest.raises(SettingsError, match=f"^{setting}: expected ") as caught:
        kind(**{setting: found})
    assert (caught.value.setting, caught.value.found) == (setting, found)


@pytest.mark.parametrize("kind", [Politeness, Rule])
def test_least_interval_beyond_the_greatest(kind: type[Any]) -> None:
    with pytest.raises(SettingsError, match=r"min_revisit: expected at most max_revisit, which is 3600 seconds, found"):
        kind(min_revisit="2h", max_revisit="1h")
    assert kind(min_revisit="1h", max_revisit="1h").min_revisit == 3_600.0


def test_first_rest_beyond_the_longest() -> None:
    with pytest.raises(SettingsError, match=r"^backoff_most: expected at least backoff, which is 86400 seconds, found"):
        Politeness(backoff="1d", backoff_most="1h")
    result = Politeness(backoff="1h", backoff_most="1h").to_json()
    assert Politeness.from_json(result | {"backoff": 86_400.0}) == Politeness.from_json(result)  # of older states


@pytest.mark.parametrize("zero", ["0s", " 0.0 d", 0, 0.0, np.int32(0), np.float32(0.0)])
def test_no_time_at_all(zero: str | float) -> None:
    politeness = Politeness(delay=zero, backoff=zero, min_revisit=zero)
    assert (politeness.delay, politeness.backoff, politeness.min_revisit) == (0.0, 0.0, 0.0)
    assert Rule(min_revisit=zero).min_revisit == HostRule(delay=zero).delay == 0.0
    assert type(HostRule(delay=zero).delay) is float


def test_lengths_of_time_are_kept_as_seconds() -> None:
    politeness = Politeness(delay="1.5s", backoff=60, probe_every=np.float64(9.0), max_revisit="1w")
    assert (politeness.delay, politeness.backoff, politeness.probe_every, politeness.max_revisit) == (
        1.5,
        60.0,
        9.0,
        604_800.0,
    )
    assert Politeness(backoff="1h", backoff_most="7d", probe_every="30d") == Politeness()
    assert Rule(min_revisit=0).min_revisit == 0.0
    assert HostRule(delay=0).delay == 0.0


@pytest.mark.parametrize(
    "settings",
    [
        Politeness(),
        Politeness(delay=2, in_flight=3, per_batch=4, retire_after=None, min_revisit="1h", max_revisit="1d"),
        Politeness(retry_after_most="2h", host_backoff_429=None, host_backoff_503=255),
        Rule(),
        Rule(never=True),
        Rule(min_revisit=0, max_revisit="1d"),
        HostRule(),
        HostRule(delay=0, in_flight=1, per_batch=65_534),
    ],
)
def test_json_keeps_all(settings: Any) -> None:
    result = json.loads(json.dumps(settings.to_json()))
    assert type(settings).from_json(result) == settings


def test_numbers_as_numpy_has_them() -> None:
    """And then they can still be saved as JSON."""
    numbers: dict[str, Any] = {"in_flight": np.int64(3), "per_batch": np.uint8(4), "delay": np.float64(2.0)}
    assert json.dumps(HostRule(**numbers).to_json()) == '{"delay": 2.0, "in_flight": 3, "per_batch": 4}'


def test_json_of_a_rule_is_what_it_sets() -> None:
    assert Rule(min_revisit=0).to_json() == {"min_revisit": 0.0}
    assert HostRule(delay=0).to_json() == {"delay": 0.0}
