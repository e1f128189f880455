"""Changes by hour of the week and region: Grimes & O'Brien (2008), Figure 3."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from streamsched.estimation.seasonality.regions import ZoneOffsets, offsets_between
from streamsched.numerics.arrays import Floats, Ints
from streamsched.numerics.jit import kernel
from streamsched.replay.analysis.analysis_settings import HOUR_S, OTHERS, WEEK_S, AnalysisSettings, Span, find_domains
from streamsched.replay.analysis.observation import find_appearances
from streamsched.replay.ground_truth import ChangeLog

HOURS: Final = 168
DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_SMOOTHED: Final = 5  # hours, as the paper's
_MONDAY_S: Final = 259_200.0  # from Monday to the Thursday of epoch 0


@dataclass(frozen=True, slots=True, eq=False)
class RegionWeek:
    """The week of one region: ``changes`` in total, of ``pages`` pages.

    ``changes_by_hour``: float64[168], changes in each hour of the week from Monday; a change seen over an interval is
    spread over it. ``exposure_h``: float64[168], hours of the span in each hour of the week.
    """

    region: str
    pages: int
    changes: int
    changes_by_hour: Floats
    exposure_h: Floats

    def relative(self, hours: int = _SMOOTHED) -> Floats:
        """Return changes per hour in the `hours` around each hour, relative to the region's mean: float64[168].

        NaN if the span does not contain these hours. O(168 · hours).
        """
        exposure = smooth(self.exposure_h, hours)
        rates = np.divide(smooth(self.changes_by_hour, hours), exposure, out=np.full(HOURS, np.nan), where=exposure > 0)
        mean = self.changes_by_hour.sum() / max(self.exposure_h.sum(), 1e-9)
        return np.asarray(rates / mean if mean > 0 else rates)

    def by_day(self) -> Floats:
        """Return changes per weekday, relative to the region's mean: float64[7], NaN for days not in the span."""
        changes, exposure = (hours.reshape(7, 24).sum(1) for hours in (self.changes_by_hour, self.exposure_h))
        rates = np.divide(changes, exposure, out=np.full(7, np.nan), where=exposure > 0)
        mean = changes.sum() / max(exposure.sum(), 1e-9)
        return np.asarray(rates / mean if mean > 0 else rates)


@dataclass(frozen=True, slots=True)
class WeekProfile:
    """The weeks of all regions with changing pages; ``local``: in each region's time zone, else all in ``zone``."""

    regions: tuple[RegionWeek, ...]
    zone: str
    local: bool


def smooth(hours: Floats, width: int) -> Floats:
    """Return the sum of the `width` (odd) hours around each, treating the week as circular. O(168 · width).

    >>> smooth(np.array([1.0, 0, 0, 0, 2.0, 0, 0]), 3).tolist()
    [1.0, 1.0, 0.0, 2.0, 2.0, 2.0, 1.0]
    """
    reach = width // 2
    return np.asarray(np.sum([np.roll(hours, shift) for shift in range(-reach, reach + 1)], axis=0))


def count_week(log: ChangeLog, span: Span, settings: AnalysisSettings) -> WeekProfile:
    """Return the changes of `log` within `span` by hour of the week and region. O(changes log) and O(days)."""
    regions = settings.regions
    domains = [(name, domain) for name, region in regions.items() for domain in region.domains]
    domain_of = find_domains(log.urls, [domain for _, domain in domains])
    zones = [*(settings.clock_of(domain, regions[name]) for name, domain in domains), settings.zone]
    owner = np.repeat(domain_of, np.diff(log.offsets))
    changed = ~find_appearances(log) & (log.times_s >= span[0]) & (log.times_s < span[1])
    until_s = log.times_s
    since_s = until_s if log.crawls is None else np.maximum(log.crawls.since_s, span[0])
    weeks = []
    for name, group in _group_domains(regions, domains):
        changes_by_hour, exposure, count, pages = np.zeros(HOURS), np.zeros(HOURS), 0, 0
        for zone in dict.fromkeys(zones[at] for at in group):
            clock = offsets_between(zone, *span)
            members = [at for at in group if zones[at] == zone]
            mine = changed & np.isin(owner, members)
            ones = np.ones(np.count_nonzero(mine))
            changes_by_hour += _spread(clock.read(since_s[mine]), clock.read(until_s[mine]), ones)
            share = int(np.count_nonzero(np.isin(domain_of, members)))
            exposure += share * _exposure_h(clock, span)
            count, pages = count + int(np.count_nonzero(mine)), pages + share
        if count:
            weeks.append(RegionWeek(name, pages, count, changes_by_hour, exposure / pages))
    return WeekProfile(tuple(weeks), settings.zone, settings.local)


def _group_domains(regions: Iterable[str], domains: Sequence[tuple[str, str]]) -> list[tuple[str, list[int]]]:
    """Return each region's indices in `domains`, then the index of pages of no region."""
    groups = [(name, [at for at, (own, _) in enumerate(domains) if own == name]) for name in regions]
    return [*groups, (OTHERS, [len(domains)])]


def _exposure_h(clock: ZoneOffsets, span: Span) -> Floats:
    """Return the hours of the span in each hour of the week, by `clock`: float64[168]. O(shifts)."""
    inner = clock.starts_s[(clock.starts_s > span[0]) & (clock.starts_s < span[1])]
    edges = np.concatenate([[span[0]], inner, [span[1]]])
    begins = clock.read(edges[:-1])
    lengths = np.diff(edges)
    return _spread(begins, begins + lengths, lengths / HOUR_S)


@kernel
def _spread(begin_s: Floats, end_s: Floats, weights: Floats) -> Floats:
    """Return weights spread evenly over their intervals, by hour of the week: float64[168]. O(hours), 336 at most each.

    ``begin_s``, ``end_s``: float64[k], seconds since 1970 in local time; an empty interval is a point.
    """
    hours = np.zeros(HOURS)
    for i in range(begin_s.size):
        begin = np.mod(begin_s[i] + _MONDAY_S, WEEK_S)
        length = end_s[i] - begin_s[i]
        if length <= 0.0:
            hours[int(begin / HOUR_S) % HOURS] += weights[i]
            continue
        whole = np.floor(length / WEEK_S)
        hours += weights[i] * whole * HOUR_S / length
        left, at = length - whole * WEEK_S, begin
        while left > 0.0:
            hour = int(at / HOUR_S)
            part = min(left, (hour + 1) * HOUR_S - at)
            if part <= 0.0:
                break
            hours[hour % HOURS] += weights[i] * part / length
            left -= part
            at += part
    return hours


def count_by_weekday(region: RegionWeek) -> Ints:
    """Return a region's changes on each weekday, rounded: int64[7]."""
    return np.asarray(np.rint(region.changes_by_hour.reshape(7, 24).sum(1)), np.int64)
