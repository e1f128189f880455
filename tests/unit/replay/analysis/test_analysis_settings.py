"""What an analysis may be asked, and what it answers to what it may not."""

from __future__ import annotations

import numpy as np
import pytest

from streamsched import PackedUrls, ReplayError, SettingsError
from streamsched.estimation.seasonality.regions import REGIONS, TimeRegion, offsets_between
from streamsched.replay import ChangeLog
from streamsched.replay.analysis import ZONES, AnalysisSettings, merge_regions, parse_region
from streamsched.replay.analysis.analysis_settings import choose_span
from streamsched.replay.analysis.observation import find_grid, find_typical

DAY = 86_400.0
START = 1_755_820_800.0


def log_of(*times: float) -> ChangeLog:
    zeros = np.zeros(len(times), np.int64)
    return ChangeLog.collect(PackedUrls.pack(["a"]), zeros, np.array(times), zeros.astype(np.bool_))


@pytest.mark.parametrize("text", ["UK", "=uk", "UK=uk,", "UK=uk@", "<b>=uk", "UK=", "UK=u k", "other=uk"])
def test_what_spells_no_region_is_named(text: str) -> None:
    with pytest.raises(SettingsError, match="region: expected NAME=DOMAIN,DOMAIN@ZONE"):
        parse_region(text)


def test_given_regions_replace_and_take_domains() -> None:
    regions, zones = merge_regions([parse_region("DACH=de,AT@Europe/Vienna,.ch"), parse_region("CJK=cn@+08:00")])
    domains = {name: region.domains for name, region in regions.items()}
    assert domains == {"FIGS": ("fr", "it", "es"), "DACH": ("de", "at", "ch"), "CJK": ("cn",)}
    assert (zones["at"], zones["cn"], zones["fr"], zones.get("de")) == ("Europe/Vienna", "+08:00", "Europe/Paris", None)
    assert merge_regions([]) == (REGIONS, ZONES)
    assert list(merge_regions([parse_region("EU=fr,it,de,es")])[0]) == ["CJK", "EU"]
    with pytest.raises(SettingsError, match="region: expected each name once"):
        merge_regions([parse_region("A=b"), parse_region("A=c")])


def test_the_analysis_has_the_regions_that_are_learned() -> None:
    assert AnalysisSettings("log").regions is REGIONS
    assert set(ZONES) == {domain for region in REGIONS.values() for domain in region.domains}


def test_pages_go_by_their_domains_clock_then_their_regions() -> None:
    region = TimeRegion(("b", "c"), "Asia/Tokyo")
    asked = AnalysisSettings("log", regions={"A": region}, zones={"b": "+03:00"}, zone="-01:00", local=True)
    assert [asked.clock_of(domain, region) for domain in ("b", "c")] == ["+03:00", "Asia/Tokyo"]
    assert asked.clock_of("d", TimeRegion(("d",))) == "-01:00"
    assert AnalysisSettings("log", zones={"b": "+03:00"}).clock_of("b", region) == "UTC"


def test_the_span_is_the_logs_or_the_part_asked_for() -> None:
    log = log_of(START, START + 9 * DAY)
    start, end = choose_span(log, AnalysisSettings("log"))
    assert start == START
    assert START + 9 * DAY < end < START + 9 * DAY + 1e-3
    part = AnalysisSettings("log", start_s=START - DAY, end_s=START + DAY)
    assert choose_span(log, part) == (START, START + DAY)
    for settings in (AnalysisSettings("log", start_s=START + 10 * DAY), AnalysisSettings("log", end_s=START)):
        with pytest.raises(ReplayError, match=r"nothing to analyze from .* the log runs from 2025-08-22 to 2025-08-31"):
            choose_span(log, settings)
    with pytest.raises(ReplayError, match="expected epoch seconds"):
        choose_span(log_of(1e15, 1.1e15), AnalysisSettings("log"))


@pytest.mark.parametrize(
    ("times", "grid_s"),
    [
        (np.arange(50) * DAY, DAY),
        (np.arange(50) * DAY + 7200, DAY),  # midnight somewhere
        (np.arange(50) * DAY - 3600 * (np.arange(50) > 20), DAY),  # summer time
        (np.arange(50) * 4 * 3600.0, 4 * 3600.0),
        (np.arange(50) * 3600.0 + 1800, 3600.0),
        (np.arange(50) * DAY + 60, 60.0),  # updated at one minute past: no dates
        (np.arange(50) * 61.0, 1.0),
        (np.append(np.arange(50) * DAY, [5.0, 7.0, 11.0]), 1.0),  # more than one in a hundred is off
        (np.append(np.arange(500) * DAY, 5.0), DAY),
        (np.arange(7) * DAY, 1.0),  # too few to say
        (np.arange(50) * 0.25, 1.0),
    ],
)
def test_the_grid_of_a_logs_times(times: np.ndarray, grid_s: float) -> None:
    assert find_grid(START + times) == grid_s


def test_the_typical_step_is_that_of_most_visits() -> None:
    assert find_typical(np.array([3600.0, 86400.0, 60.0]), np.array([500, 20, 30])) == 3600.0
    assert find_typical(np.array([3600.0]), np.array([0])) == 1.0


def test_clocks_reach_the_ends_of_the_calendar() -> None:
    for at in (-62_135_596_800.0, 253_402_300_799.0):
        assert np.isfinite(offsets_between("Europe/Paris", at, at).read(np.array([at]))).all()
