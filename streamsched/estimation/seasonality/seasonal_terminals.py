"""Seasonal terminals: weighted time (`tau`), factor of the current hour (`rhythm`), probability of an update (`due`).

Each is a mean of three models of the page, weighted by how well they have predicted its visits: Poisson changes at the
page's rate under its group's profile, its own daily schedule, and an hourly schedule.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from streamsched.estimation.gamma_posterior import convert_to_posterior
from streamsched.estimation.seasonality.group_profiles import (
    WeekPlace,
    hour_factor,
    hours_between,
    week_place,
    weighted_hours,
)
from streamsched.estimation.seasonality.page_schedules import (
    ScheduleView,
    empty_by_day,
    empty_by_hour,
    schedule_scale,
    scheduled_factor,
    scheduled_hours,
)
from streamsched.estimation.seasonality.regions import HOUR_S, hour_in_week, local_hours, week_of
from streamsched.numerics.arrays import Floats, Ints, Record, Records
from streamsched.numerics.compilation.machine_operations import prefetch_whole
from streamsched.numerics.jit import bare_kernel, inlined_kernel
from streamsched.numerics.vector_math import exp, expm1, log1p
from streamsched.records.page_schema import LONGEST_INTERVAL
from streamsched.records.seasonality_schema import WEEK_HOURS, SeasonalityArrays

# Codes of these terminals in kernels: their positions in the vocabulary.
TAU: Final = 12
RHYTHM: Final = 13
DUE: Final = 14

_AHEAD: Final = 8  # pages between prefetching a schedule and reading it
HOURLY_ODDS: Final = 1 / 99  # prior odds that a page is updated hourly: few pages visited often enough to tell are
DAY_S: Final = 86_400.0


class SeasonalityView(NamedTuple):
    """The links of some pages, and all profiles and schedules."""

    links: Records  # SEASONAL_LINK[m]
    schedules: Records  # SCHEDULE[...]
    profiles: Records  # PROFILE[...]


class ScheduleOdds(NamedTuple):
    """The posterior probability of each model of a page."""

    rate: float
    days: float
    hours: float


def seasonality_view(seasonality: SeasonalityArrays, rows: slice | Ints) -> SeasonalityView:
    """Return what scores read of the seasonality of the pages of `rows`. O(1), O(m) for int64[m]."""
    links = seasonality.links[rows] if isinstance(rows, slice) else seasonality.links.take(rows)  # 30 times faster
    return SeasonalityView(links, seasonality.schedules, seasonality.profiles)


@inlined_kernel
def _model_weights(view: SeasonalityView, link: Record) -> ScheduleOdds:
    """Return the posterior probabilities of a page's models."""
    if link.schedule == 0:
        return ScheduleOdds(1.0, 0.0, 0.0)
    schedule: Record = view.schedules[link.schedule]
    profile: Record = view.profiles[link.profile]
    days = float(profile.odds[link.version]) * exp(float(schedule.log_odds))
    hours = HOURLY_ODDS * exp(float(schedule.hourly_log_odds))
    whole = 1.0 + days + hours
    return ScheduleOdds(1.0 / whole, days / whole, hours / whole)


@inlined_kernel
def _schedule_view(view: SeasonalityView, link: Record) -> ScheduleView:
    return ScheduleView(
        view.schedules,
        int(np.int64(link.schedule)),
        view.profiles,
        int(np.int64(link.profile)),
        int(np.int64(link.version)),
    )


@inlined_kernel
def _weighted(view: SeasonalityView, link: Record, start: float, end: float) -> float:
    return weighted_hours(view.profiles[link.profile], int(np.int64(link.version)), start, end)


@bare_kernel
def tau_since(view: SeasonalityView, link: Record, since_s: float, at_s: float, cycle_s: float) -> float:
    """Return the cycles between a page's last visit, at `since_s`, and `at_s`, hours weighted by busyness. O(24)."""
    start = local_hours(since_s, link.quarters)
    end = max(local_hours(at_s, link.quarters), start)
    hours = _weighted(view, link, start, end)
    if link.schedule:
        weights = _model_weights(view, link)
        own = scheduled_hours(_schedule_view(view, link), start, end)
        hours = weights.rate * hours + weights.days * own + weights.hours * (end - start)
    return min(hours * (HOUR_S / cycle_s), LONGEST_INTERVAL)


@inlined_kernel
def changed_since(page: Record, weighted_hours: float, cycle_s: float) -> float:
    """Return the probability of a change at the page's rate, in hours weighted by its group's profile. O(1)."""
    cycles = min(weighted_hours * (HOUR_S / cycle_s), LONGEST_INTERVAL)
    shape, exposure = page.prior_shape + page.own_shape, page.prior_exposure + page.own_exposure
    return 0.0 - expm1(-(shape * log1p(cycles / exposure)))


@bare_kernel
def due_since(view: SeasonalityView, link: Record, page: Record, since_s: float, at_s: float, cycle_s: float) -> float:
    """Return the probability that a page was updated after its last visit, at `since_s`, and by `at_s`. O(24)."""
    start = local_hours(since_s, link.quarters)
    end = max(local_hours(at_s, link.quarters), start)
    seen = changed_since(page, _weighted(view, link, start, end), cycle_s)
    if link.schedule:
        weights, schedule_view = _model_weights(view, link), _schedule_view(view, link)
        seen = weights.rate * seen + weights.days * (1.0 - empty_by_day(schedule_view, start, end))
        seen += weights.hours * (1.0 - empty_by_hour(view.schedules[link.schedule], start, end))
    return min(max(seen, 0.0), 1.0)


class _FactorScale(NamedTuple):
    """The part of a page's factors that is the same for all hours."""

    weights: ScheduleOdds
    scale: float


@inlined_kernel
def _factor_scale(view: SeasonalityView, link: Record) -> _FactorScale:
    return _FactorScale(
        _model_weights(view, link), schedule_scale(_schedule_view(view, link)) if link.schedule else 0.0
    )


@inlined_kernel
def _factor(view: SeasonalityView, link: Record, scale: _FactorScale, hours: float) -> float:
    """Return the factor of the hour of the week that begins at local `hours`."""
    hour = min(int(hour_in_week(hours, week_of(hours))), WEEK_HOURS - 1)
    factor = hour_factor(view.profiles[link.profile], int(np.int64(link.version)), hour)
    if link.schedule == 0:
        return factor
    own = scheduled_factor(_schedule_view(view, link), hour, scale.scale)
    return scale.weights.rate * factor + scale.weights.days * own + scale.weights.hours


@inlined_kernel
def _hours_passed(link: Record, at_s: float) -> float:
    """Return the whole local hours by `at_s`."""
    return float(np.floor(local_hours(at_s, link.quarters)))


@inlined_kernel
def prefetch_schedule(view: SeasonalityView, i: int) -> None:
    """Prefetch the schedule of a page that is read soon."""
    if i < view.links.size and view.links[i].schedule:
        prefetch_whole(view.schedules, np.int64(view.links[i].schedule))


@bare_kernel
def fill_seasonal_terminal(
    code: int, view: SeasonalityView, pages: Records, now: float, cycle_s: float, out: Floats
) -> None:
    """Fill `out`: float64[m] with TAU, DUE or RHYTHM, as `code` says, of each page at `now`. O(m)."""
    if code == RHYTHM:
        for i in range(out.size):
            link: Record = view.links[i]
            out[i] = _factor(view, link, _factor_scale(view, link), _hours_passed(link, now))
        return
    for i in range(out.size):
        out[i] = now
    _fill_without_schedules(code, view, pages, out, cycle_s, out)
    for i in range(out.size):
        prefetch_schedule(view, i + _AHEAD)
        if view.links[i].schedule:
            out[i] = _by_schedule(code, view, view.links[i], pages[i], now, cycle_s)


@bare_kernel
def fill_seasonal_terminal_at(
    code: int, view: SeasonalityView, pages: Records, times: Floats, cycle_s: float, out: Floats
) -> None:
    """Fill `out`: float64[m] with TAU or DUE of each page at its own of ``times``: float64[m]. O(m)."""
    _fill_without_schedules(code, view, pages, times, cycle_s, out)
    for i in range(out.size):
        prefetch_schedule(view, i + _AHEAD)
        if view.links[i].schedule:
            out[i] = _by_schedule(code, view, view.links[i], pages[i], times[i], cycle_s)


@inlined_kernel
def _by_schedule(code: int, view: SeasonalityView, link: Record, page: Record, at_s: float, cycle_s: float) -> float:
    """Return TAU or DUE of a page at `at_s`."""
    if code == TAU:
        return tau_since(view, link, page.last_visit_s, at_s, cycle_s)
    return due_since(view, link, page, page.last_visit_s, at_s, cycle_s)


@bare_kernel
def _fill_without_schedules(
    code: int, view: SeasonalityView, pages: Records, times: Floats, cycle_s: float, out: Floats
) -> None:
    """Fill `out` with TAU or DUE of each page at its time, as if no page had a schedule; `out` may be `times`. O(m).

    Column by column, which takes a quarter of the time of `due_since` for each page. Few pages have schedules.
    """
    fill_cycles_by_profile(view, pages, times, cycle_s, out)
    if code == DUE:
        convert_to_posterior(pages, out)


@bare_kernel
def fill_cycles_by_profile(view: SeasonalityView, pages: Records, times: Floats, cycle_s: float, out: Floats) -> None:
    """Fill `out` with TAU of each page at its time, as if no page had a schedule; `out` may be `times`. O(m)."""
    number, version, quarters, at_s, end = -1, 0, 0, np.nan, 0.0  # of the page before: its end is used again
    until = WeekPlace(0.0, 0.0)
    for i in range(out.size):
        link: Record = view.links[i]
        profile: Record = view.profiles[link.profile]
        if times[i] != at_s or link.quarters != quarters or link.profile != number or link.version != version:
            number, version = int(np.int64(link.profile)), int(np.int64(link.version))
            quarters = int(np.int64(link.quarters))
            at_s = times[i]
            end = local_hours(at_s, quarters)
            until = week_place(profile, version, end)
        start = local_hours(pages[i].last_visit_s, quarters)
        hours = hours_between(profile, version, week_place(profile, version, start), until) if start < end else 0.0
        out[i] = min(hours * (HOUR_S / cycle_s), LONGEST_INTERVAL)


@bare_kernel
def bound_seasonal_terminal(view: SeasonalityView, since: float, ends: Floats, upwards: bool, out: Floats) -> None:
    """Fill `out`: float64[m] with each page's greatest or least factor from `since` to its end. O(m hours).

    `upwards`: the greatest.
    """
    for i in range(out.size):
        link: Record = view.links[i]
        scale = _factor_scale(view, link)
        first, last = _hours_passed(link, since), _hours_passed(link, max(ends[i], since))
        found = _factor(view, link, scale, first)
        for step in range(1, int(min(last - first, WEEK_HOURS - 1.0)) + 1):
            factor = _factor(view, link, scale, first + step)
            found = max(found, factor) if upwards else min(found, factor)
        out[i] = found
