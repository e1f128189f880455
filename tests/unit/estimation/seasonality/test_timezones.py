"""UTC offsets agree with the time zone database, with every clock change."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from streamsched.errors import SettingsError
from streamsched.estimation.seasonality.timezones import find_zone, offsets_between

DAY = 86_400


@pytest.mark.parametrize(
    ("zone", "year"),
    [
        ("Europe/Berlin", 2024),
        ("America/New_York", 2024),
        ("Asia/Shanghai", 1986),  # it had summer time
        ("Asia/Kolkata", 2024),
        ("Asia/Kathmandu", 1986),  # from 5:30 to 5:45
        ("Australia/Sydney", 2024),
        ("Australia/Lord_Howe", 2024),  # by half an hour
        ("Africa/Casablanca", 2024),  # a month of winter in spring
        ("America/Recife", 2000),  # forth and back within a week
        ("Pacific/Apia", 2011),  # a day was left out
    ],
)
def test_every_hour_of_a_year_is_the_databases(zone: str, year: int) -> None:
    first, last = (int(datetime(at, 1, 1, tzinfo=UTC).timestamp()) for at in (year, year + 1))
    times = [time + more for time in range(first, last, 1_800) for more in (-1, 0)]
    clock = offsets_between(zone, first, last)
    expected = [datetime.fromtimestamp(at, ZoneInfo(zone)).replace(tzinfo=UTC).timestamp() for at in times]
    assert clock.read(np.array(times, np.float64)).tolist() == expected


def test_a_clock_without_switches_is_one_offset() -> None:
    clock = offsets_between("-03:30", 0.0, 4e9)
    assert (clock.starts_s.tolist(), clock.offsets_s.tolist()) == ([-np.inf], [-3.5 * 3_600])
    assert offsets_between(None, 0.0, 1.0).offsets_s.tolist() == [0.0]


@pytest.mark.parametrize(
    "zone", ["Mars/Olympus", "../etc/passwd", "Europe", "", "+15:00", "+05:07", 0.1, 14.25, np.inf]
)
def test_what_is_no_zone_is_named(zone: Any) -> None:
    with pytest.raises(SettingsError, match="zone: expected a zone such as Europe/Paris"):
        find_zone(zone)
