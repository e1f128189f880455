"""How simulated sources are written, named and refused."""

from __future__ import annotations

import pytest

from streamsched import SettingsError
from streamsched.replay import SimulatedSource
from streamsched.replay.simulation.signals.simulated_source import name_sources, parse_source


def test_every_setting_can_be_written() -> None:
    text = "kind=feed,share=.5,recall=.7,precision=.3,late=6h,start=30d"
    assert parse_source(text) == SimulatedSource("feed", 0.5, 0.7, 0.3, 21_600.0, 2_592_000.0)
    assert parse_source("share=.5,flood=1d") == SimulatedSource(share=0.5, flood_s=86_400.0)
    assert parse_source("late=0").late_s == 0.0


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("share=.5,size=2", "known are share, recall, precision"),
        ("share", "settings such as"),
        ("share=", "settings such as"),
        ("share=half", "share: a number such as .5"),
        ("share=1.5", "share: more than 0, at most 1"),
        ("precision=0", "precision: more than 0, at most 1"),
        ("recall=nan", "recall: more than 0, at most 1"),
        ("late=soon", "late: a duration such as 6h"),
        ("flood=0", "flood: a duration such as 6h"),
        ("flood=1d,recall=.5", "flood: no recall, precision or lateness beside it"),
        ("share=.5,share=.6", "share once"),
        ("kind=" + "x" * 65, "kind: at most 64 bytes"),
    ],
)
def test_what_is_wrong_is_named(text: str, expected: str) -> None:
    with pytest.raises(SettingsError) as caught:
        parse_source(text)
    assert expected in caught.value.expected
    assert caught.value.found == text


@pytest.mark.parametrize("seconds", [-1.0, float("inf"), float("nan")])
def test_a_delay_is_finite(seconds: float) -> None:
    with pytest.raises(SettingsError, match="late_s"):
        SimulatedSource(late_s=seconds)


def test_sources_without_names_are_numbered_by_their_place() -> None:
    named = name_sources([SimulatedSource(), SimulatedSource(kind="feed"), SimulatedSource(share=0.5)])
    assert [one.kind for one in named] == ["source-1", "feed", "source-3"]
    assert named[2].share == 0.5
