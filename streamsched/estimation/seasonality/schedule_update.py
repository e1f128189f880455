"""Learning a page's schedule from its visits, and how far to trust it.

Before a visit's outcome is used, the schedule and the page's rate under its group's profile both predict it. The page
sums up the logarithm of the ratio of the two likelihoods: the posterior odds of the schedule are e to the power of the
sum, times the odds of pages of its group. At each visit the page may have left its schedule or taken one up (the fixed
share of Herbster & Warmuth, 1998), so odds can always recover.

The sum without that step is kept as well (``log_evidence``). For a Poisson page, e to the power of it is a martingale,
whenever visits come, also if the schedule chose them; by Ville's inequality it reaches 20 with probability 1/20 at
most. `periodicity` uses it.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from streamsched.estimation.seasonality.page_schedules import (
    OBSERVATION,
    QUIET,
    SPARE,
    DayCover,
    ScheduleView,
    count_passes,
    cover_days,
    empty_by_hour,
    hour_overlap,
    hour_weight,
    hourly_chance,
    probability_empty,
    quiet_by_stretch,
    set_weight,
    split_by_hour,
    to_misfits,
)
from streamsched.estimation.seasonality.regions import DAY_HOURS, HOUR_S
from streamsched.numerics.arrays import Record
from streamsched.numerics.jit import bare_kernel, inlined_kernel
from streamsched.numerics.vector_math import exp, log
from streamsched.records.seasonality_schema import DAY_SETS, SeasonalityArrays

LEAST_RATE: Final = 1 / 28  # changes per day: a page with fewer shows no weekday within months
LEAST_CHANGES: Final = 2  # nor does a page with a single change
LEAVING: Final = 1 / 64  # probability per visit that a page leaves its schedule, or takes one up
_LEAST_FIT: Final = 0.02  # likelihood of an outcome that a set or hour does not explain: updates off schedule
_CLOSEST: Final = 0.01  # least distance of a predicted probability from 0 and 1
_MOST_HOURLY: Final = 12.0  # hours: longer intervals are no evidence about hourly schedules
_DITHER: Final = 0.6180339887498949  # golden ratio: the fractions of its multiples are spread evenly
_LATEST_S: Final = 4294967295.0  # the greatest time that uint32 holds
_FITS: Final = 1_023  # steps of a likelihood in the table of misfits
_MISFITS: Final = to_misfits(np.maximum(np.arange(_FITS + 1) / _FITS, _LEAST_FIT))


@inlined_kernel
def earns_schedule(page: Record, rate_per_day: float) -> bool:
    """Return whether a page changes often enough to show a schedule. O(1)."""
    return bool(page.changes >= LEAST_CHANGES) and bool(rate_per_day >= LEAST_RATE)


@inlined_kernel
def open_schedule(seasonality: SeasonalityArrays, row: int, most: int) -> None:
    """Give a page an empty schedule of its own, if fewer than `most` are in use. O(1)."""
    state = seasonality.state[0]
    if state.schedules < most:
        state.schedules += 1
        seasonality.links[row].schedule = state.schedules


@bare_kernel
def add_beliefs(view: ScheduleView, trust: float) -> None:
    """Add a page's probabilities of sets of days and of hours to its profile's sums, times `trust`. O(128).

    This is the M step of expectation-maximisation over the pages: it learns what is common.
    """
    profile: Record = view.profiles[view.profile]
    whole = 0.0
    for i in range(DAY_SETS):
        whole += set_weight(view, i)
    for i in range(DAY_SETS):
        profile.sets_sum[i] += trust / whole * set_weight(view, i)
    whole = 0.0
    for hour in range(DAY_HOURS):
        whole += hour_weight(view, hour)
    for hour in range(DAY_HOURS):
        profile.hours_sum[hour] += trust / whole * hour_weight(view, hour)


@bare_kernel
def update_schedule(  # noqa: PLR0913, PLR0917  a kernel
    view: ScheduleView, start: float, end: float, changed: bool, predicted: float, visits: int, changes: int
) -> None:
    """Update a schedule by what a visit at `end` found of the time since `start`, local hours. O(128).

    `predicted`: the probability of a change by the page's rate and by surges; `visits`: how many it had;
    `changes`: how many of them saw one. The evidence counts the schedule against the better of `predicted` and the
    running share of changes.
    """
    if not end > start:
        return
    schedule: Record = view.schedules[view.schedule]
    predicted = min(max(predicted, 1e-6), 1.0 - 1e-6)
    counted = (changes + 0.5) / (visits + 1.0)  # Krichevsky & Trofimov, 1981: as good as any rate, but for √visits
    if end - start <= _MOST_HOURLY:
        empty = empty_by_hour(schedule, start, end)
        gain = _gain(empty, predicted, changed)
        schedule.hourly_log_odds = _mix_odds(schedule.hourly_log_odds + gain)
        schedule.hourly_log_evidence += min(gain, _gain(empty, counted, changed))
        _weigh_parts(schedule, start, end, changed)
        _count_hours(schedule, end - start, changed, empty, visits)
    cover = cover_days(start, end)
    split, quiet = split_by_hour(view, cover), quiet_by_stretch(view, cover)
    empty = probability_empty(cover, split, quiet)
    gain = _gain(empty, predicted, changed)
    schedule.log_odds = _mix_odds(schedule.log_odds + gain)
    schedule.log_evidence += min(gain, _gain(empty, counted, changed))
    if cover.weeks == 0.0:
        _weigh_sets(schedule.sets, cover, split, changed)
        _weigh_hours(schedule, cover, quiet, changed)


@inlined_kernel
def _gain(empty: float, predicted: float, changed: bool) -> float:
    """Return ln of the likelihood ratio of the outcome under the schedule and under the rate."""
    seen = min(max(1.0 - empty, _CLOSEST), 1.0 - _CLOSEST)
    return log(seen / predicted if changed else (1.0 - seen) / (1.0 - predicted))


@inlined_kernel
def _mix_odds(edge: float) -> float:
    """Return ln odds after the page may have left its schedule or taken one up."""
    odds = exp(min(max(edge, -30.0), 30.0))
    return log(((1.0 - LEAVING) * odds + LEAVING) / ((1.0 - LEAVING) + LEAVING * odds))


@inlined_kernel
def _misfit(empty: float, changed: bool) -> int:
    """Return the misfit of an outcome, in 1/16 nat, given the probability of no update."""
    return int(np.int64(_MISFITS[int(_FITS * min(max(1.0 - empty if changed else empty, 0.0), 1.0))]))


@inlined_kernel
def _weigh_sets(sets: npt.NDArray[np.uint8], cover: DayCover, split: tuple[float, float, float], changed: bool) -> None:
    """Reduce the weight of sets of days by how badly they explain the outcome."""
    before, within, behind = split
    least = 255
    for days in range(1, DAY_SETS):
        empty = before * QUIET[days & cover.before] + within * QUIET[days & cover.within]
        empty += behind * QUIET[days & cover.behind]
        misfit = min(int(np.int64(sets[days])) + _misfit(empty, changed), 255)
        least = min(least, misfit)
        sets[days] = misfit
    if least > SPARE:
        for days in range(1, DAY_SETS):
            sets[days] -= least


@inlined_kernel
def _weigh_hours(schedule: Record, cover: DayCover, quiet: tuple[float, float, float], changed: bool) -> None:
    """Reduce the weight of hours by how badly they explain the outcome."""
    before, within, behind = quiet
    least = 1 << 20
    for hour in range(DAY_HOURS):
        first, second = hour_overlap(hour, 0.0, cover.low), hour_overlap(hour, cover.low, cover.high)
        empty = first * before + second * within + (1.0 - first - second) * behind
        least = min(least, int(np.int64(schedule.hours[hour])) + _misfit(empty, changed))
    for hour in range(DAY_HOURS):
        first, second = hour_overlap(hour, 0.0, cover.low), hour_overlap(hour, cover.low, cover.high)
        empty = first * before + second * within + (1.0 - first - second) * behind
        schedule.hours[hour] = min(int(np.int64(schedule.hours[hour])) + _misfit(empty, changed) - least, 255)


@inlined_kernel
def _count_hours(schedule: Record, hours: float, changed: bool, empty: float, visits: int) -> None:
    """Add the expected hours with and without updates in the interval, given the outcome."""
    dither = visits * _DITHER
    dither -= np.floor(dither)
    had = min(hourly_chance(schedule) * hours / max(1.0 - empty, 1e-9), max(hours, 1.0)) if changed else 0.0
    yes = int(np.int64(schedule.hours_updated)) + int(OBSERVATION * had + dither)
    no = int(np.int64(schedule.hours_quiet)) + int(OBSERVATION * max(hours - had, 0.0) + dither)
    while yes > 255 or no > 255:
        yes, no = yes // 2, no // 2
    schedule.hours_updated = yes
    schedule.hours_quiet = no


@inlined_kernel
def _weigh_parts(schedule: Record, start: float, end: float, changed: bool) -> None:
    """Reduce the weight of quarters of the hour by how badly they explain the outcome."""
    quiet = log(max(1.0 - hourly_chance(schedule), 1e-9))
    least = 1 << 20
    for part in range(4):
        empty = exp(max(quiet * count_passes(part, start, end), -700.0))
        least = min(least, int(np.int64(schedule.parts[part])) + _misfit(empty, changed))
    for part in range(4):
        empty = exp(max(quiet * count_passes(part, start, end), -700.0))
        schedule.parts[part] = min(int(np.int64(schedule.parts[part])) + _misfit(empty, changed) - least, 255)


@bare_kernel
def count_change(schedule: Record, at_s: float, step_hours: float) -> None:
    """Count the gap since the last change seen, given that `step_hours` passed since the last visit. O(1)."""
    now_s = min(max(at_s, 0.0), _LATEST_S)
    if schedule.first_change_s == 0:
        schedule.first_change_s = schedule.last_change_s = int(now_s)
        return
    gap = (now_s - schedule.last_change_s) / HOUR_S
    if schedule.gaps == 255:  # halve all, so the mean gap stays as it is
        schedule.gaps //= 2
        schedule.near_hour //= 2
        schedule.near_day //= 2
        schedule.near_week //= 2
        schedule.first_change_s += (schedule.last_change_s - schedule.first_change_s) // 2
    schedule.last_change_s = int(now_s)
    schedule.gaps += 1
    schedule.near_hour += int(abs(gap - 1.0) <= step_hours <= 1.0)
    schedule.near_day += int(abs(gap - 24.0) <= step_hours <= 12.0)
    schedule.near_week += int(abs(gap - 168.0) <= step_hours <= 84.0)
