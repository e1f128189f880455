"""Time zones, regions and local time."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from streamsched import Outcome, Scheduler
from streamsched.errors import SettingsError
from streamsched.estimation.seasonality.group_profiles import region_of_name
from streamsched.estimation.seasonality.regions import (
    REGIONS,
    TimeRegion,
    check_regions,
    find_zone,
    local_hours,
    make_region_clocks,
    offsets_between,
    quarters_at,
)
from tests.reference.seasonality import utc
from tests.support.cases import grouped

DAY = 86_400.0


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


@grouped(
    ("region", "host"),
    {
        1: ["a.jp", "A.CO.JP:8080", "a.jp."],
        2: ["x.fr"],
        0: ["x.example", "jp", "[::1]", "fr.example"],
    },
)
def test_hosts_are_of_the_region_of_their_domain(host: str, region: int) -> None:
    scheduler = Scheduler()
    scheduler.discover([f"https://{host}/1"], now=0.0)
    shard = scheduler.core.pages.arrays
    assert region_of_name(shard.seasonality.calendar, shard.groups, 0) == region
    assert scheduler.core.pages.arrays.seasonality.links["profile"][0] == region


def test_a_clock_is_put_forward_and_back() -> None:
    calendar = make_region_clocks({"north": TimeRegion(("de",), "Europe/Berlin"), "fixed": TimeRegion(("np",), 5.75)})
    switch_s = utc(2024, 3, 31, 1)
    assert [quarters_at(calendar, 1, at_s) for at_s in (switch_s - 1.0, switch_s)] == [4, 8]
    assert quarters_at(calendar, 1, utc(2024, 10, 27, 1)) == 4
    assert [quarters_at(calendar, 2, at_s) for at_s in (-1e308, switch_s, 1e308)] == [23, 23, 23]
    assert quarters_at(calendar, 0, switch_s) == 0


def test_the_hour_of_a_local_morning_is_the_same_in_summer_and_winter() -> None:
    calendar = make_region_clocks({"north": TimeRegion(("de",), "Europe/Berlin")})
    nine_s = [utc(2024, 1, 15, 8), utc(2024, 7, 15, 7)]  # Mondays, 9:00 in Berlin
    hours = [local_hours(at_s, quarters_at(calendar, 1, at_s)) % 168 for at_s in nine_s]
    assert hours == [9.0, 9.0]


def test_pages_keep_the_clock_of_their_last_visit() -> None:
    scheduler = Scheduler(regions={"north": TimeRegion(("de",), "Europe/Berlin")})
    for day in (utc(2024, 3, 30), utc(2024, 4, 1)):
        scheduler.observe([Outcome("https://a.de/", day, changed=True), Outcome("https://a.example/", day)])
        scheduler.next_batch(2, now=day)
    assert scheduler.core.pages.arrays.seasonality.links["quarters"][:2].tolist() == [8, 0]


def test_regions_are_saved_with_the_state(tmp_path: object) -> None:
    regions = {"Nepal": TimeRegion(("np",), 5.75)}
    scheduler = Scheduler(regions=regions)
    scheduler.observe([Outcome("https://a.np/", at_s, changed=True) for at_s in (0.0, DAY, 2 * DAY, 3 * DAY)])
    scheduler.save(str(tmp_path))
    loaded = Scheduler.load(str(tmp_path))
    assert loaded.core.pages.regions == regions
    assert loaded.digest() == scheduler.digest()
    np.testing.assert_array_equal(loaded.core.pages.arrays.seasonality.links["quarters"][:1], [23])


def test_without_regions_no_rhythm_is_learned() -> None:
    scheduler = Scheduler(regions=None)
    scheduler.observe([Outcome("https://a.jp/", day * DAY, changed=True) for day in range(20)])
    terminals = scheduler.explain("https://a.jp/", now=21 * DAY).terminals
    assert terminals["tau"] == pytest.approx(terminals["t"])
    assert terminals["rhythm"] == 1.0
    assert terminals["due"] == pytest.approx(terminals["posterior"])
    assert scheduler.core.pages.arrays.seasonality.state["schedules"][0] == 0


@pytest.mark.parametrize(
    "regions",
    [
        [],
        {"a": 1},
        {"a": TimeRegion(("fr",)), "b": TimeRegion(("de", "fr"))},
        {str(i): TimeRegion((f"d{i}",)) for i in range(65)},
    ],
)
def test_regions_that_cannot_work(regions: object) -> None:
    with pytest.raises(SettingsError, match="regions"):
        check_regions(regions)


@pytest.mark.parametrize(
    ("domains", "zone"),
    [((), None), ("fr", None), (("co.uk",), None), (("fr",), "Europe/Atlantis"), (("fr",), 0.1), (("fr",), 15)],
)
def test_a_region_that_cannot_work(domains: tuple[str, ...], zone: str | float | None) -> None:
    with pytest.raises(SettingsError):
        TimeRegion(domains, zone)


def test_regions_of_the_paper() -> None:
    assert {name: region.domains for name, region in REGIONS.items()} == {
        "CJK": ("cn", "jp", "kr", "tw", "hk"),
        "FIGS": ("fr", "it", "de", "es"),
    }


@pytest.mark.parametrize("zone", ["+05:45", "UTC+5:45", 5.75])
def test_offsets_are_spelled_as_hours_or_as_clocks_are(zone: str | float) -> None:
    assert make_region_clocks({"fixed": TimeRegion(("np",), zone)}).quarters.tolist() == [0, 23]
