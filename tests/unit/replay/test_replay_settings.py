"""What a replay refuses to be asked, and which window it takes of a log."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from streamsched import FormulaError, PackedUrls, ReplayError
from streamsched.replay import STEADY, ChangeLog, ReplaySettings, Window
from streamsched.replay.replay_settings import choose_window, format_time

DAY = 86_400.0
NOON = 20_000.5 * DAY  # 2024-10-04


def make_log(*days: float) -> ChangeLog:
    """One page that appears, and changes after some days."""
    times = NOON + DAY * np.array([0.0, *days])
    return ChangeLog.collect(PackedUrls.pack(["https://a/"]), np.zeros(times.size, int), times, times < 0)


def choose(log: ChangeLog, **settings: Any) -> Window:
    return choose_window(log, ReplaySettings("log", **settings))


@pytest.mark.parametrize("days", [0, 1, 400])
def test_learning_begins_before_what_is_measured(days: int) -> None:
    start = NOON + DAY / 2
    with pytest.raises(ReplayError, match=r"learn_from: expected a day before --from, 2024-10-05, found '202"):
        ReplaySettings("log", start_s=start, learn_from_s=start + days * DAY)


def test_an_unknown_policy_is_told_which_are_known_and_a_formula_where_it_fails() -> None:
    with pytest.raises(ReplayError, match=r"unknown policy 'gp4d': expected a formula in quotes or one of rand, age"):
        ReplaySettings("log", policies=("nad", "gp4d"))
    with pytest.raises(FormulaError) as caught:
        ReplaySettings("log", policies=("1 - exp(-NAD * )",))
    assert caught.value.column == 16
    assert ReplaySettings("log", policies=("X / n", "NAD")).policies == ("X / n", "NAD")
    assert ReplaySettings("log").policies == STEADY


def test_the_window_is_the_log_in_whole_cycles_from_its_first_midnight() -> None:
    window = choose(make_log(3.0, 9.25))
    assert (window.start_s, window.cycles) == (NOON + DAY / 2, 8)
    assert choose(make_log(3.0, 9.25), cycle_s=3600.0).cycles == 8 * 24 + 18
    assert choose(make_log(3.0, 9.5)).cycles == 9


def test_the_window_can_be_said() -> None:
    start = NOON + 2.5 * DAY
    window = choose(make_log(3.0, 9.25), start_s=start, end_s=start + 4.9 * DAY)
    assert (window.start_s, window.cycles) == (start, 4)
    assert choose(make_log(3.0, 9.25), end_s=NOON + 9.5 * DAY).cycles == 9


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (
            {"warmup": 8},
            "holds 8 whole cycles: expected more than the 8 of the warm-up; the log runs from 2024-10-04T12",
        ),
        ({"end_s": NOON - 90 * DAY}, "holds 0 whole cycles"),
        ({"end_s": NOON + 11 * DAY}, "2024-10-15T12:00:00Z, after the end of the log"),
        ({"start_s": NOON - 0.5 * DAY}, "no page is alive at 2024-10-04: the log runs"),
        (
            {"learn_from_s": NOON - 0.5 * DAY, "start_s": NOON + 0.5 * DAY},
            "no page is alive at 2024-10-04: the log runs",
        ),
        (
            {"learn_from_s": NOON + 0.5 * DAY, "start_s": NOON + 5.5 * DAY, "end_s": NOON + 5.5 * DAY},
            "from 2024-10-05 to 2024-10-10 holds 5 whole cycles: expected more than the 5 of the learning before 2024",
        ),
    ],
)
def test_windows_that_the_log_does_not_hold_are_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ReplayError, match=said):
        choose(make_log(3.0, 9.25), **settings)


def test_the_cycles_of_learning_come_before_those_measured() -> None:
    first, start = NOON + 0.5 * DAY, NOON + 4.5 * DAY
    settings = ReplaySettings("log", learn_from_s=first, start_s=start)
    assert (settings.learned_cycles, settings.schedule.unmeasured) == (4, 4)
    window = choose_window(make_log(3.0, 9.25), settings)
    assert (window.start_s, window.cycles, window.edge(settings.learned_cycles)) == (first, 8, start)
    by_3_days = ReplaySettings("log", learn_from_s=first, start_s=start, cycle_s=3 * DAY, warmup=0)
    assert by_3_days.learned_cycles == 2  # the second begins on day 3, before what is measured
    assert ReplaySettings("log", learn_from_s=first, start_s=start, warmup=6).schedule.unmeasured == 6
    assert ReplaySettings("log", start_s=start).learned_cycles == 0


def test_milliseconds_are_not_taken_for_seconds() -> None:
    with pytest.raises(ReplayError, match="expected epoch seconds"):
        choose(make_log(1e9))


@pytest.mark.parametrize("wrong", [-17_000.0, 80_000.0, 175_000.0])  # 1978, 2243 and 2503
def test_time_with_a_wrong_digit_does_not_make_thousands_of_empty_cycles(wrong: float) -> None:
    log = make_log(*sorted([wrong, *range(1, 60)]))
    year = format_time(log.first_s if wrong < 0 else log.last_s)
    with pytest.raises(ReplayError, match=r"--from and --to") as caught:
        choose(log)
    assert year in str(caught.value)
    start = NOON + 0.5 * DAY
    assert choose(log, start_s=start, end_s=start + 50 * DAY).cycles == 50
    with pytest.raises(ReplayError, match=r"--from and --to"):
        choose(log, **({"start_s": start} if wrong > 0 else {"end_s": start}))
    whole = choose(log, start_s=math.ceil(log.first_s / DAY) * DAY, end_s=log.last_s)
    assert whole.cycles > 10_000  # as asked for


def test_many_short_cycles_are_a_window() -> None:
    assert choose(make_log(*range(1, 60)), cycle_s=60.0).cycles > 80_000
