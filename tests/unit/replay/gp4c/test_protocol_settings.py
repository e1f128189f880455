"""What the experiment refuses to be asked, and which cycles of a log it takes."""

from __future__ import annotations

from typing import Any

import pytest

from streamsched import ReplayError
from streamsched.evolution.evolution_settings import EvolutionSettings
from streamsched.replay import ChangeLog
from streamsched.replay.gp4c import ProtocolSettings
from streamsched.replay.gp4c.protocol_settings import choose_spans
from tests.support.gp4c_logs import DAY, START, made_log


def test_the_defaults_are_the_paper_s() -> None:
    settings = ProtocolSettings("log")
    evolution = settings.evolution
    assert (evolution.population, evolution.generations, evolution.seeds, evolution.elites) == (300, 50, 5, 50)
    assert (settings.budget, settings.warmup) == (0.05, 2)
    assert settings.cuts == pytest.approx((0.01, 0.02, 0.03, 0.04, 0.05))


def test_the_last_57_cycles_are_taken_unless_a_start_or_an_end_is_said() -> None:
    log = made_log(days=100)
    window = choose_spans(log, ProtocolSettings("log"))
    assert (window.start_s, window.cycles) == (START + 43 * DAY, 57)
    window = choose_spans(log, ProtocolSettings("log", start_s=START + 10 * DAY))
    assert (window.start_s, window.cycles) == (START + 10 * DAY, 57)
    window = choose_spans(log, ProtocolSettings("log", end_s=START + 60.5 * DAY))
    assert (window.start_s, window.cycles) == (START + 3 * DAY, 57)


def test_a_window_said_in_full_is_cut_in_thirds() -> None:
    window = choose_spans(made_log(), ProtocolSettings("log", start_s=START + DAY, end_s=START + 24.5 * DAY))
    assert (window.start_s, window.cycles) == (START + DAY, 21)
    hourly = ProtocolSettings("log", start_s=START, end_s=START + 2 * DAY, cycle_s=3600.0)
    assert choose_spans(made_log(), hourly).cycles == 48


def test_a_longer_warm_up_makes_longer_spans() -> None:
    settings = ProtocolSettings("log", evolution=EvolutionSettings(warmup=24))
    assert choose_spans(made_log(days=80), settings).cycles == 75


@pytest.mark.parametrize(
    ("log", "settings", "said"),
    [
        (made_log(days=40), {}, r"there are 40 whole cycles: expected 57 or more, 3 spans of 19, 2 of them to warm up"),
        (made_log(), {"start_s": START + 30 * DAY}, r"from 2024-11-03 to 2024-12-03 there are 30 whole cycles"),
        (made_log(), {"start_s": START, "end_s": START + 8 * DAY}, r"there are 8 whole cycles: expected 9 or more"),
        (made_log(), {"start_s": START + 90 * DAY}, r"there are 0 whole cycles"),
        (made_log(), {"end_s": START + 70 * DAY}, r"after the end of the log: the log runs from 2024-10-04 to"),
        (made_log(days=100), {"start_s": START - DAY, "end_s": START + 60 * DAY}, "no page is alive"),
    ],
)
def test_logs_that_are_too_short_say_how_many_cycles_are_needed(
    log: ChangeLog, settings: dict[str, Any], said: str
) -> None:
    with pytest.raises(ReplayError, match=said):
        choose_spans(log, ProtocolSettings("log", **settings))


def test_milliseconds_are_not_taken_for_seconds() -> None:
    log = made_log()
    log = ChangeLog(log.urls, log.times_s * 1e3, log.offsets, log.gone, None, log.first_s * 1e3, log.last_s * 1e3)
    with pytest.raises(ReplayError, match="expected epoch seconds"):
        choose_spans(log, ProtocolSettings("log"))
