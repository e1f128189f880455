"""Lengths of time, read and written."""

from __future__ import annotations

import math

import numpy as np
import pytest

from streamsched import SettingsError
from streamsched.numerics.durations import format_duration, parse_duration
from tests.support.cases import grouped


@grouped(
    ("seconds", "written"),
    {
        90: ["90", "90s"],
        600: ["10m"],
        5_400: ["1.5h"],
        0.5: ["500ms", np.float32(0.5)],
        30: [np.int64(30), 30],
        86_400: ["1d"],
        1_209_600: [" 2 w "],
        0.25: [0.25],
    },
)
def test_units(written: str | float, seconds: float) -> None:
    assert parse_duration(written) == seconds


@pytest.mark.parametrize(
    "written",
    [
        "",
        "d",
        "-1d",
        "1 d 2 h",
        "1y",
        "1e3s",
        "0s",
        "0.0",
        ".5h",
        0,
        -1.0,
        math.nan,
        math.inf,
        10**400,
        True,
        None,
        b"1d",
        np.True_,
    ],
)
def test_anything_else_names_the_setting(written: object) -> None:
    with pytest.raises(SettingsError, match=r"^lease: expected a duration, for example 500ms, 90s") as caught:
        parse_duration(written, "lease")  # type: ignore[arg-type]
    assert caught.value.setting == "lease"
    assert caught.value.found is written


def test_a_number_too_large_is_no_length_of_time() -> None:
    with pytest.raises(SettingsError):
        parse_duration("9" * 400 + "w")


@pytest.mark.parametrize(
    ("seconds", "written"),
    [
        (0, "0 s"),
        (59.94, "59.9 s"),
        (60, "1 min"),
        (3_600, "1 h"),
        (86_400, "1 d"),
        (8.64e7, "1,000 d"),
        (-5_400, "-1.5 h"),
    ],
)
def test_largest_fitting_unit(seconds: float, written: str) -> None:
    assert format_duration(seconds) == written


@pytest.mark.parametrize("size", [1, 60, 3_600, 86_400])
def test_what_is_written_short_reads_back(size: int) -> None:
    assert parse_duration(format_duration(1.5 * size).replace("min", "m").replace(" ", "")) == 1.5 * size
