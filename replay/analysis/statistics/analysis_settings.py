"""Settings of an analysis, validated on construction, and the span of the log that they select."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from streamsched.errors import ReplayError, SettingsError
from streamsched.estimation.seasonality.regions import REGIONS, TimeRegion, check_regions
from streamsched.estimation.seasonality.timezones import find_zone
from streamsched.replay.analysis.statistics.site_regions import ZONES
from streamsched.replay.replay_settings import format_time, is_dated

if TYPE_CHECKING:
    from streamsched.replay.truth.ground_truth import ChangeLog

__all__ = ["DAY_S", "HOUR_S", "WEEK_S", "AnalysisSettings", "Span", "choose_span"]

HOUR_S: Final = 3_600.0
DAY_S: Final = 86_400.0
WEEK_S: Final = 604_800.0

Span = tuple[float, float]
"""Start and end (exclusive), epoch seconds."""


@dataclass(frozen=True, slots=True)
class AnalysisSettings:
    """One analysis: a log, a span of it, and how its changes are observed.

    ``log``: file name for `read_truth`. ``start_s`` and ``end_s``, exclusive: epoch seconds, by default the extent of
    the log. ``step_s``: seconds between visits of a simulated crawl of a log of changes, by default an hour or the
    log's resolution, whichever is longer; a log of crawl outcomes has its own visits. ``near_s``: mean interval of the
    pages compared with exponential intervals, by default a day or another mean with enough pages. ``level``: the
    largest share of Poisson pages that may be misclassified. ``regions``: groups of pages by top-level domain.
    ``zone``: time zone of the hours of the week, a name of the time zone database or an offset such as ``+08:00``. With
    ``local``, pages use the zone that ``zones`` has for their domain, else that of their region.

    Raises SettingsError if a value is invalid.
    """

    log: str
    start_s: float | None = None
    end_s: float | None = None
    step_s: float | None = None
    near_s: float | None = None
    level: float = 0.01
    regions: Mapping[str, TimeRegion] = field(default_factory=lambda: REGIONS)
    zones: Mapping[str, str] = field(default_factory=lambda: ZONES)
    zone: str = "UTC"
    local: bool = False

    def __post_init__(self) -> None:
        for edge, time_s in (("from", self.start_s), ("to", self.end_s)):
            _require(time_s is None or is_dated(time_s), edge, time_s, "epoch seconds of the years 1 to 9999")
        if self.start_s is not None and self.end_s is not None:
            _require(self.start_s < self.end_s, "to", format_time(self.end_s), "a time after --from")
        _require(self.step_s is None or 1 <= self.step_s <= WEEK_S, "step", self.step_s, "a time from 1s to 1w")
        _require(self.near_s is None or HOUR_S <= self.near_s < math.inf, "near", self.near_s, "a time of 1h or more")
        _require(0 < self.level < 0.5, "level", self.level, "a share above 0 and below 0.5, such as 0.01")
        check_regions(self.regions)
        for zone in (self.zone, *self.zones.values()):
            find_zone(zone)

    def clock_of(self, domain: str, region: TimeRegion) -> str | float:
        """Return the time zone for the pages of a domain of `region`."""
        own = self.zones.get(domain, region.zone)
        return own if self.local and own is not None else self.zone


def choose_span(log: ChangeLog, settings: AnalysisSettings) -> Span:
    """Return the span of `log` that `settings` select. Raises ReplayError if the log holds nothing of it. O(1)."""
    if not (is_dated(log.first_s) and is_dated(log.last_s)):
        raise ReplayError(f"the log's times run from {log.first_s:.0f} to {log.last_s:.0f}: expected epoch seconds")
    start_s = log.first_s if settings.start_s is None else settings.start_s
    end_s = math.nextafter(log.last_s, math.inf) if settings.end_s is None else settings.end_s
    if start_s >= end_s or start_s > log.last_s or end_s <= log.first_s:
        asked = f"{format_time(start_s)} to {format_time(end_s)}"
        extent = f"{format_time(log.first_s)} to {format_time(log.last_s)}"
        raise ReplayError(f"nothing to analyze from {asked}: the log runs from {extent}")
    return max(start_s, log.first_s), min(end_s, math.nextafter(log.last_s, math.inf))


def _require(fits: bool, setting: str, found: object, expected: str) -> None:
    if not fits:
        raise SettingsError(setting, found, expected)
