"""When in the week pages change, by region: Grimes & O'Brien (2008), Figure 3."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from streamsched.estimation.seasonality.timezones import ZoneOffsets, offsets_between
from streamsched.numerics.arrays import Floats, Ints
from streamsched.numerics.jit import kernel
from streamsched.replay.analysis.statistics.analysis_settings import HOUR_S, WEEK_S, AnalysisSettings, Span
from streamsched.replay.analysis.statistics.observation import find_arrivals
from streamsched.replay.analysis.statistics.site_regions import OTHERS, find_domains
from streamsched.replay.truth.ground_truth import ChangeLog

__all__ = ["DAYS", "HOURS", "Arrivals", "WeekPart", "count_arrivals", "count_by_weekday", "smooth"]

HOURS: Final = 168
DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_SMOOTHED: Final = 5  # hours, as the paper's
_MONDAY_S: Final = 259_200.0  # from Monday to the Thursday of epoch 0


@dataclass(frozen=True, slots=True, eq=False)
class WeekPart:
    """The week of one region: ``changes`` in all, of ``pages`` pages.

    ``arrivals``: float64[168], changes in each hour of the week from Monday, a change seen over an interval spread over
    it; ``exposure_h``: float64[168], how many hours of the span fell into each.
    """

    region: str
    pages: int
    changes: int
    arrivals: Floats
    exposure_h: Floats

    def relative(self, hours: int = _SMOOTHED) -> Floats:
        """Return changes an hour in the `hours` around each, 1 for the region's mean: float64[168].

        NaN where the span has nothing of these hours. O(168 · hours).
        """
        exposure = smooth(self.exposure_h, hours)
        rates = np.divide(smooth(self.arrivals, hours), exposure, out=np.full(HOURS, np.nan), where=exposure > 0)
        mean = self.arrivals.sum() / max(self.exposure_h.sum(), 1e-9)
        return np.asarray(rates / mean if mean > 0 else rates)

    def by_day(self) -> Floats:
        """Return changes on each weekday, 1 for the region's mean: float64[7], NaN for a day the span lacks."""
        arrivals, exposure = (hours.reshape(7, 24).sum(1) for hours in (self.arrivals, self.exposure_h))
        rates = np.divide(arrivals, exposure, out=np.full(7, np.nan), where=exposure > 0)
        mean = arrivals.sum() / max(exposure.sum(), 1e-9)
        return np.asarray(rates / mean if mean > 0 else rates)


@dataclass(frozen=True, slots=True)
class Arrivals:
    """The weeks of all regions that have pages which change, and by which clock each goes."""

    parts: tuple[WeekPart, ...]
    zone: str
    local: bool


def smooth(hours: Floats, width: int) -> Floats:
    """Return the sum of the `width` (odd) hours around each, the week's end joined to its begin. O(168 · width).

    >>> smooth(np.array([1.0, 0, 0, 0, 2.0, 0, 0]), 3).tolist()
    [1.0, 1.0, 0.0, 2.0, 2.0, 2.0, 1.0]
    """
    reach = width // 2
    return np.asarray(np.sum([np.roll(hours, shift) for shift in range(-reach, reach + 1)], axis=0))


def count_arrivals(log: ChangeLog, span: Span, settings: AnalysisSettings) -> Arrivals:
    """Return when in the week the changes of `log` within `span` came, by region. O(changes log) and O(days)."""
    regions = settings.regions
    domains = [(name, domain) for name, region in regions.items() for domain in region.domains]
    place = find_domains(log.urls, [domain for _, domain in domains])
    zones = [*(settings.clock_of(domain, regions[name]) for name, domain in domains), settings.zone]
    owner = np.repeat(place, np.diff(log.offsets))
    changed = ~find_arrivals(log) & (log.times_s >= span[0]) & (log.times_s < span[1])
    until_s = log.times_s
    since_s = until_s if log.crawls is None else np.maximum(log.crawls.since_s, span[0])
    parts = []
    for name, group in _group(regions, domains):
        arrivals, exposure, count, pages = np.zeros(HOURS), np.zeros(HOURS), 0, 0
        for zone in dict.fromkeys(zones[at] for at in group):
            clock = offsets_between(zone, *span)
            members = [at for at in group if zones[at] == zone]
            mine = changed & np.isin(owner, members)
            arrivals += _spread(clock.read(since_s[mine]), clock.read(until_s[mine]), np.ones(np.count_nonzero(mine)))
            share = int(np.count_nonzero(np.isin(place, members)))
            exposure += share * _expose(clock, span)
            count, pages = count + int(np.count_nonzero(mine)), pages + share
        if count:
            parts.append(WeekPart(name, pages, count, arrivals, exposure / pages))
    return Arrivals(tuple(parts), settings.zone, settings.local)


def _group(regions: Iterable[str], domains: Sequence[tuple[str, str]]) -> list[tuple[str, list[int]]]:
    """Return each region's places in `domains`, then those of the rest."""
    groups = [(name, [at for at, (own, _) in enumerate(domains) if own == name]) for name in regions]
    return [*groups, (OTHERS, [len(domains)])]


def _expose(clock: ZoneOffsets, span: Span) -> Floats:
    """Return how many hours of the span fell into each hour of the week, by `clock`: float64[168]. O(shifts)."""
    inner = clock.starts_s[(clock.starts_s > span[0]) & (clock.starts_s < span[1])]
    edges = np.concatenate([[span[0]], inner, [span[1]]])
    begins = clock.read(edges[:-1])
    lengths = np.diff(edges)
    return _spread(begins, begins + lengths, lengths / HOUR_S)


@kernel
def _spread(begin_s: Floats, end_s: Floats, weights: Floats) -> Floats:
    """Return weights spread evenly over their intervals, by hour of the week: float64[168]. O(hours), 336 at most each.

    ``begin_s``, ``end_s``: float64[k], seconds since 1970 by the clock on the wall; no interval is a point.
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


def count_by_weekday(part: WeekPart) -> Ints:
    """Return a region's changes on each weekday, to whole changes: int64[7]."""
    return np.asarray(np.rint(part.arrivals.reshape(7, 24).sum(1)), np.int64)
