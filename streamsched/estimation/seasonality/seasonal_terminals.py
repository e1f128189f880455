"""What scores read of when a page changes: time weighted by its rhythm, the present hour's factor, and what is due.

Each is made of three readings of the page, weighed by how well they have foretold its visits: Poisson changes at the
page's rate under its group's profile, its own schedule by days and hours, and one by the hour.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from streamsched.estimation.seasonality.group_profiles import hour_factor, weighted_hours
from streamsched.estimation.seasonality.local_time import HOUR_S, hour_in_week, local_hours, week_of
from streamsched.estimation.seasonality.page_schedules import (
    ScheduleView,
    empty_by_day,
    empty_by_hour,
    schedule_scale,
    scheduled_factor,
    scheduled_hours,
)
from streamsched.numerics.arrays import Floats, Ints, Record, Records
from streamsched.numerics.jit import bare_kernel, inlined_kernel, prefetch_whole
from streamsched.numerics.vector_math import exp, expm1, log1p
from streamsched.records.page_schema import LONGEST_INTERVAL
from streamsched.records.seasonality_schema import WEEK_HOURS, SeasonalityArrays

__all__ = [
    "DUE",
    "HOURLY_ODDS",
    "RHYTHM",
    "TAU",
    "SeasonalityView",
    "bound_seasonal_terminal",
    "changed_since",
    "due_since",
    "fill_seasonal_terminal",
    "fill_seasonal_terminal_at",
    "seasonality_view",
    "tau_since",
]

# What kernels call these terminals: their places in the vocabulary.
TAU: Final = 12
RHYTHM: Final = 13
DUE: Final = 14

_AHEAD: Final = 8  # pages between asking the memory for a schedule and reading it
HOURLY_ODDS: Final = 1 / 99  # that a page is updated by the hour, before its visits told: few are that can be told
DAY_S: Final = 86_400.0


class SeasonalityView(NamedTuple):
    """The links of some pages, and what all links name."""

    links: Records  # LINK[m]
    schedules: Records  # SCHEDULE[...]
    profiles: Records  # PROFILE[...]


class ScheduleOdds(NamedTuple):
    """How likely each reading of a page is."""

    rate: float
    days: float
    hours: float


def seasonality_view(seasonality: SeasonalityArrays, rows: slice | Ints) -> SeasonalityView:
    """Return what scores read of the rhythm of the pages of `rows`. O(1), O(m) for int64[m]."""
    return SeasonalityView(seasonality.links[rows], seasonality.schedules, seasonality.profiles)


@inlined_kernel
def _trust(beats: SeasonalityView, link: Record) -> ScheduleOdds:
    """Return the posterior probabilities of a page's readings."""
    if link.schedule == 0:
        return ScheduleOdds(1.0, 0.0, 0.0)
    schedule: Record = beats.schedules[link.schedule]
    profile: Record = beats.profiles[link.profile]
    days = float(profile.odds[link.version]) * exp(float(schedule.log_odds))
    hours = HOURLY_ODDS * exp(float(schedule.hourly_log_odds))
    whole = 1.0 + days + hours
    return ScheduleOdds(1.0 / whole, days / whole, hours / whole)


@inlined_kernel
def _sheet(beats: SeasonalityView, link: Record) -> ScheduleView:
    return ScheduleView(
        beats.schedules,
        int(np.int64(link.schedule)),
        beats.profiles,
        int(np.int64(link.profile)),
        int(np.int64(link.version)),
    )


@inlined_kernel
def _weighted(beats: SeasonalityView, link: Record, start: float, end: float) -> float:
    return weighted_hours(beats.profiles[link.profile], int(np.int64(link.version)), start, end)


@bare_kernel
def tau_since(beats: SeasonalityView, link: Record, since_s: float, at_s: float, cycle_s: float) -> float:
    """Return the cycles since a page's last visit, at `since_s`, each hour weighted by how busy it is. O(24)."""
    start = local_hours(since_s, link.quarters)
    end = max(local_hours(at_s, link.quarters), start)
    hours = _weighted(beats, link, start, end)
    if link.schedule:
        trust = _trust(beats, link)
        own = scheduled_hours(_sheet(beats, link), start, end)
        hours = trust.rate * hours + trust.days * own + trust.hours * (end - start)
    return min(hours * (HOUR_S / cycle_s), LONGEST_INTERVAL)


@inlined_kernel
def changed_since(page: Record, weighted_hours: float, cycle_s: float) -> float:
    """Return the probability of a change at the page's rate, in so many hours weighted by its group's profile. O(1)."""
    cycles = min(weighted_hours * (HOUR_S / cycle_s), LONGEST_INTERVAL)
    shape, exposure = page.prior_shape + page.own_shape, page.prior_exposure + page.own_exposure
    return 0.0 - expm1(-(shape * log1p(cycles / exposure)))


@bare_kernel
def due_since(beats: SeasonalityView, link: Record, page: Record, since_s: float, at_s: float, cycle_s: float) -> float:
    """Return the probability that a page was updated after its last visit, at `since_s`, and by `at_s`. O(24)."""
    start = local_hours(since_s, link.quarters)
    end = max(local_hours(at_s, link.quarters), start)
    seen = changed_since(page, _weighted(beats, link, start, end), cycle_s)
    if link.schedule:
        trust, sheet = _trust(beats, link), _sheet(beats, link)
        seen = trust.rate * seen + trust.days * (1.0 - empty_by_day(sheet, start, end))
        seen += trust.hours * (1.0 - empty_by_hour(beats.schedules[link.schedule], start, end))
    return max(seen, 0.0)


class _Pace(NamedTuple):
    """What a page's factors of all hours have in common."""

    trust: ScheduleOdds
    scale: float


@inlined_kernel
def _pace(beats: SeasonalityView, link: Record) -> _Pace:
    return _Pace(_trust(beats, link), schedule_scale(_sheet(beats, link)) if link.schedule else 0.0)


@inlined_kernel
def _factor(beats: SeasonalityView, link: Record, pace: _Pace, hours: float) -> float:
    """Return how busy the hour of the week is for a page that begins after so many local `hours`."""
    hour = min(int(hour_in_week(hours, week_of(hours))), WEEK_HOURS - 1)
    factor = hour_factor(beats.profiles[link.profile], int(np.int64(link.version)), hour)
    if link.schedule == 0:
        return factor
    own = scheduled_factor(_sheet(beats, link), hour, pace.scale)
    return pace.trust.rate * factor + pace.trust.days * own + pace.trust.hours


@inlined_kernel
def _hours_passed(link: Record, at_s: float) -> float:
    """Return how many whole hours have passed by `at_s`, by the page's clock."""
    return float(np.floor(local_hours(at_s, link.quarters)))


@inlined_kernel
def _look_ahead(beats: SeasonalityView, i: int) -> None:
    """Ask the memory for the schedule of a page that is soon to be read."""
    if i < beats.links.size and beats.links[i].schedule:
        prefetch_whole(beats.schedules, np.int64(beats.links[i].schedule))


@bare_kernel
def fill_seasonal_terminal(
    code: int, beats: SeasonalityView, pages: Records, now: float, cycle_s: float, out: Floats
) -> None:
    """Fill `out`: float64[m] with TAU, DUE or RHYTHM, as `code` says, of each page at `now`. O(m)."""
    if code == TAU:
        for i in range(out.size):
            _look_ahead(beats, i + _AHEAD)
            out[i] = tau_since(beats, beats.links[i], pages[i].last_visit_s, now, cycle_s)
    elif code == DUE:
        for i in range(out.size):
            _look_ahead(beats, i + _AHEAD)
            out[i] = due_since(beats, beats.links[i], pages[i], pages[i].last_visit_s, now, cycle_s)
    else:
        for i in range(out.size):
            link: Record = beats.links[i]
            out[i] = _factor(beats, link, _pace(beats, link), _hours_passed(link, now))


@bare_kernel
def fill_seasonal_terminal_at(
    code: int, beats: SeasonalityView, pages: Records, times: Floats, cycle_s: float, out: Floats
) -> None:
    """Fill `out`: float64[m] with TAU or DUE of each page at its own of ``times``: float64[m]. O(m)."""
    if code == TAU:
        for i in range(out.size):
            _look_ahead(beats, i + _AHEAD)
            out[i] = tau_since(beats, beats.links[i], pages[i].last_visit_s, times[i], cycle_s)
    else:
        for i in range(out.size):
            _look_ahead(beats, i + _AHEAD)
            out[i] = due_since(beats, beats.links[i], pages[i], pages[i].last_visit_s, times[i], cycle_s)


@bare_kernel
def bound_seasonal_terminal(beats: SeasonalityView, since: float, ends: Floats, upwards: bool, out: Floats) -> None:
    """Fill `out`: float64[m] with each page's greatest factor from `since` to its end, or its least. O(m hours)."""
    for i in range(out.size):
        link: Record = beats.links[i]
        pace = _pace(beats, link)
        first, last = _hours_passed(link, since), _hours_passed(link, max(ends[i], since))
        found = _factor(beats, link, pace, first)
        for step in range(1, int(min(last - first, WEEK_HOURS - 1.0)) + 1):
            factor = _factor(beats, link, pace, first + step)
            found = max(found, factor) if upwards else min(found, factor)
        out[i] = found
