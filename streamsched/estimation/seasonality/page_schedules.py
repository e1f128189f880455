"""Schedules: on which days of the week and at which hour a page's updates come, for pages that change often (SPEC 4).

A page by the day is updated on some days of the week, the same every week, at one hour of the day. Which days is one of
127 sets, and what visits say of each, whether they saw a change or not, is taken in by Bayes' rule: the page keeps a
weight for each set, and one for each hour. A day of the set brings its update nearly always (`CHANCE`). A page by
the hour is updated at one quarter of each hour, with a chance of its own.

How far a schedule is to be trusted is learned as well. Before a visit's outcome is taken in, the schedule and the
page's rate under its group's profile foretell it; the page keeps the logarithm of the ratio of what they gave to what
came, added up: the posterior odds of the schedule are e to the power of it times the odds of pages of its group. At
each visit the page may have left its schedule, or taken one up (the fixed share of Herbster & Warmuth, 1998), so that
no odds get out of reach. What it was without that is kept as well: were the page Poisson, e to the power of it would be
a martingale, whenever visits come, also where the schedule chose them, and by Ville's inequality reach 20 with a chance
of 1/20 at the most. `regularity` tests by that.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from streamsched.estimation.seasonality.local_time import DAY_HOURS, HOUR_S
from streamsched.numerics.arrays import Bytes, Floats, Record, Records
from streamsched.numerics.jit import bare_kernel, inlined_kernel
from streamsched.numerics.vector_math import exp, log
from streamsched.records.seasonality_schema import DAY_SETS, WEEK_HOURS, SeasonalityArrays

__all__ = [
    "CHANCE",
    "FIRST_SETS",
    "LEAVING",
    "NAT",
    "RAREST",
    "SPARE",
    "WEIGHTS",
    "ScheduleView",
    "add_beliefs",
    "count_change",
    "earns_schedule",
    "empty_by_day",
    "empty_by_hour",
    "most_schedules",
    "open_schedule",
    "schedule_scale",
    "scheduled_factor",
    "scheduled_hours",
    "update_schedule",
]

CHANCE: Final = 0.97  # that a day of the set brings its update
LEAST_RATE: Final = 1 / 28  # changes a day: a rarer page shows no weekday within months
LEAST_CHANGES: Final = 2  # ... nor one that changed but once
FEWEST_SCHEDULES: Final = 4_096  # that a shard has room for, beside 3 for each 64 pages: 9 bytes, 0.2 µs a visit
LEAVING: Final = 1 / 64  # chance at each visit that a page leaves its schedule, or takes one up

_ONE: Final = 16  # an observation, in the bytes of counts: 15 at the most, then both are halved
NAT: Final = 16.0  # of a misfit, in bytes: 16 nats at the most
_LEAST_FIT: Final = 0.02  # of what does not explain a visit: chance updates, clocks that are off
_CLOSEST: Final = 0.01  # that what is foretold comes to 0 and to 1
_WEIGHT: Final = float(1 << 20)  # of what fits best: weights are whole numbers, so that sums of them are exact
_MOST_HOURLY: Final = 12.0  # hours: a longer interval says nothing of a page by the hour
_DITHER: Final = 0.6180339887498949  # multiples of it are spread evenly below 1
_LATEST_S: Final = 4294967295.0
SPARE: Final = 32  # as far may all sets misfit before they are made to fit better alike
RAREST: Final = 128  # nothing is rarer among pages, 8 nats: what fits a page best of all keeps a weight
_FITS: Final = 1_023  # steps of a fit in the table of misfits
_ALL_DAYS: Final = DAY_SETS - 1

# A priori a set of so many days has this probability, each such set the same; of five days, a run of five has half.
_SIZES: Final = (0.0, 0.2, 0.1, 0.1, 0.05, 0.2, 0.05, 0.3)


def _prior(days: int) -> float:
    """Return the prior probability of a set of days, as bits from Monday."""
    size = days.bit_count()
    if size != 5:
        return _SIZES[size] / math.comb(7, size)
    runs = {sum(1 << (first + i) % 7 for i in range(5)) for first in range(7)}
    return _SIZES[5] / 2 / (7 if days in runs else 14)


def _misfits(fits: Floats) -> Bytes:
    return np.minimum(np.round(-NAT * np.log(fits)), 255).astype(np.uint8)


FIRST_SETS: Final = _misfits(np.array([1e-9, *(_prior(days) / _prior(_ALL_DAYS) for days in range(1, DAY_SETS))]))
_MISFITS: Final = _misfits(np.maximum(np.arange(_FITS + 1) / _FITS, _LEAST_FIT))
# Of a misfit, or of two added up; 255 is as bad as any, and weighs something still: all may misfit.
WEIGHTS: Final = np.maximum(np.floor(_WEIGHT * np.exp(-np.minimum(np.arange(511), 255) / NAT)), 1.0)
_QUIET: Final = np.array([(1.0 - CHANCE) ** days.bit_count() for days in range(DAY_SETS)])  # all of the days without


class ScheduleView(NamedTuple):
    """A page's schedule, and the profile whose published state says what is common among pages, by their numbers."""

    schedules: Records  # SCHEDULE[...]
    schedule: int
    profiles: Records  # PROFILE[...]
    profile: int
    version: int


@inlined_kernel
def _set_weight(sheet: ScheduleView, days: int) -> float:
    misfit = int(np.int64(sheet.schedules[sheet.schedule].sets[days]))
    misfit += int(np.int64(sheet.profiles[sheet.profile].sets_rarity[sheet.version * DAY_SETS + days]))
    return float(WEIGHTS[misfit])


@inlined_kernel
def _hour_weight(sheet: ScheduleView, hour: int) -> float:
    misfit = int(np.int64(sheet.schedules[sheet.schedule].hours[hour]))
    misfit += int(np.int64(sheet.profiles[sheet.profile].hours_rarity[sheet.version * DAY_HOURS + hour]))
    return float(WEIGHTS[misfit])


class _Cover(NamedTuple):
    """Which days an interval covers, by the hour of the updates: three stretches of the day from 0 to 24."""

    low: float  # where the second stretch begins
    high: float  # ... and ends
    before: int  # the days covered where the hour is in the first stretch, as bits
    within: int
    behind: int
    weeks: float  # whole weeks in it; from one on, all days are covered


@bare_kernel
def most_schedules(pages: int) -> int:
    """Return how many pages of so many may have schedules of their own. O(1)."""
    return FEWEST_SCHEDULES + pages * 3 // 64


@inlined_kernel
def earns_schedule(page: Record, rate_per_day: float) -> bool:
    """Return whether a page changes often enough to show a schedule. O(1)."""
    return bool(page.changes >= LEAST_CHANGES) and bool(rate_per_day >= LEAST_RATE)


@inlined_kernel
def open_schedule(seasonality: SeasonalityArrays, row: int, most: int) -> None:
    """Give a page a schedule of its own, of which nothing is known yet, as long as there are less than `most`. O(1)."""
    state = seasonality.state[0]
    if state.schedules < most:
        state.schedules += 1
        seasonality.links[row].schedule = state.schedules


@inlined_kernel
def _cover(start: float, end: float) -> _Cover:
    """Return which days lie between `start` and `end`, local hours."""
    first, last = np.floor(start / DAY_HOURS), np.floor(end / DAY_HOURS)
    low, high = start - DAY_HOURS * first, end - DAY_HOURS * last
    weeks = np.floor((end - start) / WEEK_HOURS)
    if weeks > 0.0:
        return _Cover(0.0, 24.0, _ALL_DAYS, _ALL_DAYS, _ALL_DAYS, weeks)
    weekday = int(first - 7.0 * np.floor(first / 7.0))
    if first == last:
        return _Cover(low, high, 0, 1 << weekday, 0, 0.0)
    between = 0
    for i in range(1, int(last - first)):
        between |= 1 << ((weekday + i) % 7)
    begun = 1 << weekday
    ended = 1 << ((weekday + int(last - first)) % 7)
    if low <= high:
        return _Cover(low, high, between | ended, between | begun | ended, between | begun, 0.0)
    return _Cover(high, low, between | ended, between, between | begun, 0.0)


@inlined_kernel
def _part(hour: int, low: float, high: float) -> float:
    """Return which part of an hour of the day lies between `low` and `high`."""
    return max(min(hour + 1.0, high) - max(float(hour), low), 0.0)


@inlined_kernel
def _split(sheet: ScheduleView, cover: _Cover) -> tuple[float, float, float]:
    """Return how likely the update's hour is in each stretch of the day."""
    before = within = whole = 0.0
    for hour in range(DAY_HOURS):
        weight = _hour_weight(sheet, hour)
        whole += weight
        before += weight * _part(hour, 0.0, cover.low)
        within += weight * _part(hour, cover.low, cover.high)
    return before / whole, within / whole, max(1.0 - (before + within) / whole, 0.0)


@bare_kernel
def _quiet(sheet: ScheduleView, cover: _Cover) -> tuple[float, float, float]:
    """Return for each stretch of the day the probability that no day covered there brings an update. O(128)."""
    before = within = behind = whole = 0.0
    for days in range(DAY_SETS):
        weight = _set_weight(sheet, days)
        whole += weight
        before += weight * _QUIET[days & cover.before]
        within += weight * _QUIET[days & cover.within]
        behind += weight * _QUIET[days & cover.behind]
    return before / whole, within / whole, behind / whole


@inlined_kernel
def _empty(cover: _Cover, split: tuple[float, float, float], quiet: tuple[float, float, float]) -> float:
    """Return the probability of no update within what is covered."""
    if cover.weeks > 0.0:
        return quiet[1] * exp(max((cover.weeks - 1.0) * log(1.0 - CHANCE), -700.0))
    return split[0] * quiet[0] + split[1] * quiet[1] + split[2] * quiet[2]


@bare_kernel
def empty_by_day(sheet: ScheduleView, start: float, end: float) -> float:
    """Return the probability of no update from `start` to `end`, local hours, by the page's days and hour. O(128).

    Falls as `end` rises, but for some 1e-15.
    """
    cover = _cover(start, end)
    return _empty(cover, _split(sheet, cover), _quiet(sheet, cover))


@inlined_kernel
def _marks(part: int, start: float, end: float) -> float:
    """Return how many times that quarter of the hour has passed from `start` to `end`, the last in part."""
    at = 4.0 * start - part
    to = 4.0 * end - part
    before, after = np.floor(at / 4.0), np.floor(to / 4.0)
    return float((after + min(to - 4.0 * after, 1.0)) - (before + min(at - 4.0 * before, 1.0)))


@inlined_kernel
def _chance_by_hour(schedule: Record) -> float:
    """Return with what chance an hour has an update, as far as visits told; 1/2 before."""
    yes, no = schedule.hours_updated / _ONE, schedule.hours_quiet / _ONE
    return float((yes + 0.5) / (yes + no + 1.0))


@bare_kernel
def empty_by_hour(schedule: Record, start: float, end: float) -> float:
    """Return the probability of no update from `start` to `end`, local hours, at the page's quarter of each hour. O(1).

    Falls as `end` rises, but for some 1e-15.
    """
    quiet = log(max(1.0 - _chance_by_hour(schedule), 1e-9))
    empty = whole = 0.0
    for part in range(4):
        weight = WEIGHTS[schedule.parts[part]]
        whole += weight
        empty += weight * exp(max(quiet * _marks(part, start, end), -700.0))
    return float(empty / whole)


@inlined_kernel
def _day_weight(sheet: ScheduleView, weekday: int) -> float:
    """Return the weight of all sets that have a day of the week: a whole number. O(128)."""
    weight = 0.0
    for i in range(DAY_SETS):
        weight += _set_weight(sheet, i) * (i >> weekday & 1)
    return max(weight, 1.0)


@inlined_kernel
def _day_weights(sheet: ScheduleView) -> tuple[float, float, float, float, float, float, float]:
    """Return `_day_weight` of all days of the week: sums of sums, in one go. O(128)."""
    first = second = third = fourth = fifth = sixth = seventh = 0.0
    for i in range(0, DAY_SETS, 16):
        whole = 0.0
        for j in range(i, i + 16, 4):
            none, one = _set_weight(sheet, j), _set_weight(sheet, j + 1)
            two, three = _set_weight(sheet, j + 2), _set_weight(sheet, j + 3)
            first += one + three
            second += two + three
            four = (none + one) + (two + three)
            third += four * (j >> 2 & 1)
            fourth += four * (j >> 3 & 1)
            whole += four
        fifth += whole * (i >> 4 & 1)
        sixth += whole * (i >> 5 & 1)
        seventh += whole * (i >> 6 & 1)
    return first, second, third, fourth, fifth, sixth, seventh


@bare_kernel
def schedule_scale(sheet: ScheduleView) -> float:
    """Return what makes the mean of a schedule's factors 1. O(7 · 128)."""
    days = hours = 0.0
    weights = _day_weights(sheet)
    for weekday in range(7):
        days += weights[weekday]
    for hour in range(DAY_HOURS):
        hours += _hour_weight(sheet, hour)
    return WEEK_HOURS / (days * hours)


@bare_kernel
def scheduled_factor(sheet: ScheduleView, hour: int, scale: float) -> float:
    """Return how many updates an hour of the week, 0 to 167, has; by its `schedule_scale` 1 is the mean. O(128)."""
    return _day_weight(sheet, hour // DAY_HOURS) * _hour_weight(sheet, hour % DAY_HOURS) * scale


@bare_kernel
def scheduled_hours(sheet: ScheduleView, start: float, end: float) -> float:
    """Return the hours from `start` to `end`, each weighted by how many updates it has; the mean weighs 1. O(7 · 128).

    Rises with `end`, as rounded: weights are whole numbers, of which sums are exact.
    """
    first, last = np.floor(start / WEEK_HOURS), np.floor(end / WEEK_HOURS)
    since, until = _place(start - WEEK_HOURS * first), _place(end - WEEK_HOURS * last)
    weights = _day_weights(sheet)
    week = earlier = later = 0.0  # days: in the week, before `start` and before `end`
    for weekday in range(7):
        week += weights[weekday]
        earlier += weights[weekday] * (weekday < since.day)
        later += weights[weekday] * (weekday < until.day)
    day = earliest = latest = 0.0  # hours: in a day, before `start` and before `end` on theirs
    for i in range(DAY_HOURS):
        weight = _hour_weight(sheet, i)
        day += weight
        earliest += weight * min(max(since.hour - i, 0.0), 1.0)
        latest += weight * min(max(until.hour - i, 0.0), 1.0)
    before = earlier * day + weights[since.day] * earliest
    passed = (last - first) * (week * day) + (later * day + weights[until.day] * latest)
    return float(max(passed - before, 0.0) * (WEEK_HOURS / (week * day)))


class _Place(NamedTuple):
    """A day of the week, from Monday, and how many of its hours are over."""

    day: int
    hour: float


@inlined_kernel
def _place(hours: float) -> _Place:
    """Return where in a week so many of its hours are over."""
    hours = min(max(hours, 0.0), float(WEEK_HOURS))
    day = min(int(hours / DAY_HOURS), 6)
    return _Place(day, hours - DAY_HOURS * day)


@bare_kernel
def add_beliefs(sheet: ScheduleView, trust: float) -> None:
    """Add to its profile's sums on which sets of days and at which hour a page is updated, as likely as `trust`.

    So is learned what is common: the M step of expectation-maximisation over the pages.
    """
    profile: Record = sheet.profiles[sheet.profile]
    whole = 0.0
    for i in range(DAY_SETS):
        whole += _set_weight(sheet, i)
    for i in range(DAY_SETS):
        profile.sets_sum[i] += trust / whole * _set_weight(sheet, i)
    whole = 0.0
    for hour in range(DAY_HOURS):
        whole += _hour_weight(sheet, hour)
    for hour in range(DAY_HOURS):
        profile.hours_sum[hour] += trust / whole * _hour_weight(sheet, hour)


@bare_kernel
def update_schedule(  # noqa: PLR0913, PLR0917  a kernel
    sheet: ScheduleView, start: float, end: float, changed: bool, foretold: float, visits: int, changes: int
) -> None:
    """Take in what a visit found at `end` of the time since `start`, local hours. O(128).

    `foretold`: the probability of a change by the page's rate and by surges; `visits`: how many it had, of which
    `changes` saw one. A schedule is proved as far as it foretold better than that, and than the count of changes.
    """
    if not end > start:
        return
    schedule: Record = sheet.schedules[sheet.schedule]
    foretold = min(max(foretold, 1e-6), 1.0 - 1e-6)
    counted = (changes + 0.5) / (visits + 1.0)  # Krichevsky & Trofimov, 1981: as good as any rate, but for √visits
    if end - start <= _MOST_HOURLY:
        empty = empty_by_hour(schedule, start, end)
        gain = _gain(empty, foretold, changed)
        schedule.hourly_log_odds = _change_ways(schedule.hourly_log_odds + gain)
        schedule.hourly_log_evidence += min(gain, _gain(empty, counted, changed))
        _weigh_parts(schedule, start, end, changed)
        _count_marks(schedule, end - start, changed, empty, visits)
    cover = _cover(start, end)
    split, quiet = _split(sheet, cover), _quiet(sheet, cover)
    empty = _empty(cover, split, quiet)
    gain = _gain(empty, foretold, changed)
    schedule.log_odds = _change_ways(schedule.log_odds + gain)
    schedule.log_evidence += min(gain, _gain(empty, counted, changed))
    if cover.weeks == 0.0:
        _weigh_sets(schedule.sets, cover, split, changed)
        _weigh_hours(schedule, cover, quiet, changed)


@inlined_kernel
def _gain(empty: float, foretold: float, changed: bool) -> float:
    """Return ln of how much likelier a schedule made what came than the rate did."""
    seen = min(max(1.0 - empty, _CLOSEST), 1.0 - _CLOSEST)
    return log(seen / foretold if changed else (1.0 - seen) / (1.0 - foretold))


@inlined_kernel
def _change_ways(edge: float) -> float:
    """Return ln of odds after the page may have left its schedule or taken one up."""
    odds = exp(min(max(edge, -30.0), 30.0))
    return log(((1.0 - LEAVING) * odds + LEAVING) / ((1.0 - LEAVING) + LEAVING * odds))


@inlined_kernel
def _misfit(empty: float, changed: bool) -> int:
    """Return by how much what gives that chance of no update misfits what was seen, in 1/16 nat."""
    return int(np.int64(_MISFITS[int(_FITS * min(max(1.0 - empty if changed else empty, 0.0), 1.0))]))


@inlined_kernel
def _weigh_sets(sets: npt.NDArray[np.uint8], cover: _Cover, split: tuple[float, float, float], changed: bool) -> None:
    """Let sets of days that do not explain what was seen weigh less."""
    before, within, behind = split
    least = 255
    for days in range(1, DAY_SETS):
        empty = before * _QUIET[days & cover.before] + within * _QUIET[days & cover.within]
        empty += behind * _QUIET[days & cover.behind]
        misfit = min(int(np.int64(sets[days])) + _misfit(empty, changed), 255)
        least = min(least, misfit)
        sets[days] = misfit
    if least > SPARE:
        for days in range(1, DAY_SETS):
            sets[days] -= least


@inlined_kernel
def _weigh_hours(schedule: Record, cover: _Cover, quiet: tuple[float, float, float], changed: bool) -> None:
    """Let hours that do not explain what was seen weigh less."""
    before, within, behind = quiet
    least = 1 << 20
    for hour in range(DAY_HOURS):
        first, second = _part(hour, 0.0, cover.low), _part(hour, cover.low, cover.high)
        empty = first * before + second * within + (1.0 - first - second) * behind
        least = min(least, int(np.int64(schedule.hours[hour])) + _misfit(empty, changed))
    for hour in range(DAY_HOURS):
        first, second = _part(hour, 0.0, cover.low), _part(hour, cover.low, cover.high)
        empty = first * before + second * within + (1.0 - first - second) * behind
        schedule.hours[hour] = min(int(np.int64(schedule.hours[hour])) + _misfit(empty, changed) - least, 255)


@inlined_kernel
def _count_marks(schedule: Record, marks: float, changed: bool, empty: float, visits: int) -> None:
    """Add with what probability the hours of the interval had updates, given what was seen."""
    dither = visits * _DITHER
    dither -= np.floor(dither)
    had = min(_chance_by_hour(schedule) * marks / max(1.0 - empty, 1e-9), max(marks, 1.0)) if changed else 0.0
    yes = int(np.int64(schedule.hours_updated)) + int(_ONE * had + dither)
    no = int(np.int64(schedule.hours_quiet)) + int(_ONE * max(marks - had, 0.0) + dither)
    while yes > 255 or no > 255:
        yes, no = yes // 2, no // 2
    schedule.hours_updated = yes
    schedule.hours_quiet = no


@inlined_kernel
def _weigh_parts(schedule: Record, start: float, end: float, changed: bool) -> None:
    """Let quarters of the hour that do not explain what was seen weigh less."""
    quiet = log(max(1.0 - _chance_by_hour(schedule), 1e-9))
    least = 1 << 20
    for part in range(4):
        empty = exp(max(quiet * _marks(part, start, end), -700.0))
        least = min(least, int(np.int64(schedule.parts[part])) + _misfit(empty, changed))
    for part in range(4):
        empty = exp(max(quiet * _marks(part, start, end), -700.0))
        schedule.parts[part] = min(int(np.int64(schedule.parts[part])) + _misfit(empty, changed) - least, 255)


@bare_kernel
def count_change(schedule: Record, at_s: float, step_hours: float) -> None:
    """Count the time since the last change that was seen, after `step_hours` without a visit. O(1)."""
    now_s = min(max(at_s, 0.0), _LATEST_S)
    if schedule.first_change_s == 0:
        schedule.first_change_s = schedule.last_change_s = int(now_s)
        return
    gap = (now_s - schedule.last_change_s) / HOUR_S
    if schedule.gaps == 255:  # the mean stays as it is
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
