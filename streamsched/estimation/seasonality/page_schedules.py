"""Schedules: the weekdays and the hour at which a page is updated, for pages that change often.

A daily schedule is a set of weekdays, one of 127, and one hour of the day. The page keeps a weight for each set and for
each hour, updated by Bayes' rule with every visit, whether it saw a change or not. A day of the set brings an update
with probability `CHANCE`. An hourly schedule is one quarter of each hour, with a probability of its own.

This module has the likelihoods; `schedule_update` learns from visits.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np

from streamsched.estimation.seasonality.regions import DAY_HOURS
from streamsched.numerics.arrays import Bytes, Floats, Record, Records
from streamsched.numerics.jit import bare_kernel, inlined_kernel
from streamsched.numerics.vector_math import exp, log
from streamsched.records.seasonality_schema import DAY_SETS, WEEK_HOURS

CHANCE: Final = 0.97  # probability that a day of the set brings an update
FEWEST_SCHEDULES: Final = 4_096  # capacity of a shard, beside 3 per 64 pages: 9 bytes a page, 0.2 µs a visit

OBSERVATION: Final = 16  # one observed hour, in counts of one byte: at most 15 hours, then both counts are halved
NAT: Final = 16.0  # units of a misfit per nat; a byte holds 16 nats
_WEIGHT: Final = float(1 << 20)  # weight of a misfit of 0; weights are whole numbers, so sums of them are exact
SPARE: Final = 32  # smallest misfit of all sets above which it is subtracted from each
RAREST: Final = 128  # greatest rarity among pages, 8 nats: what fits a page best always keeps a weight
_ALL_DAYS: Final = DAY_SETS - 1

# Prior probability of a set by its number of days, equal for each such set; of five days, runs of five have half.
_SIZES: Final = (0.0, 0.2, 0.1, 0.1, 0.05, 0.2, 0.05, 0.3)


def _prior(days: int) -> float:
    """Return the prior probability of a set of days, as bits from Monday."""
    size = days.bit_count()
    if size != 5:
        return _SIZES[size] / math.comb(7, size)
    runs = {sum(1 << (first + i) % 7 for i in range(5)) for first in range(7)}
    return _SIZES[5] / 2 / (7 if days in runs else 14)


def to_misfits(fits: Floats) -> Bytes:
    """Return -ln of ``fits``: float64[n] in 1/16 nat, at most 255: uint8[n]."""
    return np.minimum(np.round(-NAT * np.log(fits)), 255).astype(np.uint8)


FIRST_SETS: Final = to_misfits(np.array([1e-9, *(_prior(days) / _prior(_ALL_DAYS) for days in range(1, DAY_SETS))]))
# Weight of a misfit, or of the sum of two; beyond 255 it stays as it is, above 0, in case everything misfits.
WEIGHTS: Final = np.maximum(np.floor(_WEIGHT * np.exp(-np.minimum(np.arange(511), 255) / NAT)), 1.0)
QUIET: Final = np.array(
    [(1.0 - CHANCE) ** days.bit_count() for days in range(DAY_SETS)]
)  # P(no update on any of the days)


class ScheduleView(NamedTuple):
    """A page's schedule and its profile, whose published version says what is common among pages, by number."""

    schedules: Records  # SCHEDULE[...]
    schedule: int
    profiles: Records  # PROFILE[...]
    profile: int
    version: int


@inlined_kernel
def set_weight(view: ScheduleView, days: int) -> float:
    """Return the weight of a set of days, as bits: a whole number. O(1)."""
    misfit = int(np.int64(view.schedules[view.schedule].sets[days]))
    misfit += int(np.int64(view.profiles[view.profile].sets_rarity[view.version * DAY_SETS + days]))
    return float(WEIGHTS[misfit])


@inlined_kernel
def hour_weight(view: ScheduleView, hour: int) -> float:
    """Return the weight of an hour of the day: a whole number. O(1)."""
    misfit = int(np.int64(view.schedules[view.schedule].hours[hour]))
    misfit += int(np.int64(view.profiles[view.profile].hours_rarity[view.version * DAY_HOURS + hour]))
    return float(WEIGHTS[misfit])


class DayCover(NamedTuple):
    """Which days an interval covers, by the hour of the updates: three stretches of the day from 0 to 24."""

    low: float  # start of the second stretch
    high: float  # ... and its end
    before: int  # the days covered if the hour is in the first stretch, as bits
    within: int
    behind: int
    weeks: float  # whole weeks; from one on, all days are covered


@bare_kernel
def most_schedules(pages: int) -> int:
    """Return how many of that many pages may have schedules of their own. O(1)."""
    return FEWEST_SCHEDULES + pages * 3 // 64


@inlined_kernel
def cover_days(start: float, end: float) -> DayCover:
    """Return which days lie between `start` and `end`, local hours. O(1)."""
    first, last = np.floor(start / DAY_HOURS), np.floor(end / DAY_HOURS)
    low, high = start - DAY_HOURS * first, end - DAY_HOURS * last
    weeks = np.floor((end - start) / WEEK_HOURS)
    if weeks > 0.0:
        return DayCover(0.0, 24.0, _ALL_DAYS, _ALL_DAYS, _ALL_DAYS, weeks)
    weekday = int(first - 7.0 * np.floor(first / 7.0))
    if first == last:
        return DayCover(low, high, 0, 1 << weekday, 0, 0.0)
    between = 0
    for i in range(1, int(last - first)):
        between |= 1 << ((weekday + i) % 7)
    begun = 1 << weekday
    ended = 1 << ((weekday + int(last - first)) % 7)
    if low <= high:
        return DayCover(low, high, between | ended, between | begun | ended, between | begun, 0.0)
    return DayCover(high, low, between | ended, between, between | begun, 0.0)


@inlined_kernel
def hour_overlap(hour: int, low: float, high: float) -> float:
    """Return the part of an hour of the day that lies between `low` and `high`. O(1)."""
    return max(min(hour + 1.0, high) - max(float(hour), low), 0.0)


@inlined_kernel
def split_by_hour(view: ScheduleView, cover: DayCover) -> tuple[float, float, float]:
    """Return the probabilities that the update's hour lies in each stretch of the day. O(24)."""
    before = within = whole = 0.0
    for hour in range(DAY_HOURS):
        weight = hour_weight(view, hour)
        whole += weight
        before += weight * hour_overlap(hour, 0.0, cover.low)
        within += weight * hour_overlap(hour, cover.low, cover.high)
    return before / whole, within / whole, max(1.0 - (before + within) / whole, 0.0)


@bare_kernel
def quiet_by_stretch(view: ScheduleView, cover: DayCover) -> tuple[float, float, float]:
    """Return for each stretch of the day the probability that no covered day brings an update. O(128)."""
    before = within = behind = whole = 0.0
    for days in range(DAY_SETS):
        weight = set_weight(view, days)
        whole += weight
        before += weight * QUIET[days & cover.before]
        within += weight * QUIET[days & cover.within]
        behind += weight * QUIET[days & cover.behind]
    return before / whole, within / whole, behind / whole


@inlined_kernel
def probability_empty(cover: DayCover, split: tuple[float, float, float], quiet: tuple[float, float, float]) -> float:
    """Return the probability of no update in the covered days. O(1)."""
    if cover.weeks > 0.0:
        return quiet[1] * exp(max((cover.weeks - 1.0) * log(1.0 - CHANCE), -700.0))
    return split[0] * quiet[0] + split[1] * quiet[1] + split[2] * quiet[2]


@bare_kernel
def empty_by_day(view: ScheduleView, start: float, end: float) -> float:
    """Return the probability of no update from `start` to `end`, local hours, by the page's days and hour. O(128).

    Non-increasing in `end` up to some 1e-15.
    """
    cover = cover_days(start, end)
    return probability_empty(cover, split_by_hour(view, cover), quiet_by_stretch(view, cover))


@inlined_kernel
def count_passes(part: int, start: float, end: float) -> float:
    """Return how many times that quarter of the hour passes from `start` to `end`, the last one in part. O(1)."""
    at = 4.0 * start - part
    to = 4.0 * end - part
    before, after = np.floor(at / 4.0), np.floor(to / 4.0)
    return float((after + min(to - 4.0 * after, 1.0)) - (before + min(at - 4.0 * before, 1.0)))


@inlined_kernel
def hourly_chance(schedule: Record) -> float:
    """Return the probability that an hour has an update, by the visits so far; 1/2 before any. O(1)."""
    yes, no = schedule.hours_updated / OBSERVATION, schedule.hours_quiet / OBSERVATION
    return float((yes + 0.5) / (yes + no + 1.0))


@bare_kernel
def empty_by_hour(schedule: Record, start: float, end: float) -> float:
    """Return the probability of no update from `start` to `end`, local hours, at the page's quarter of each hour. O(1).

    Non-increasing in `end` up to some 1e-15.
    """
    quiet = log(max(1.0 - hourly_chance(schedule), 1e-9))
    empty = whole = 0.0
    for part in range(4):
        weight = WEIGHTS[schedule.parts[part]]
        whole += weight
        empty += weight * exp(max(quiet * count_passes(part, start, end), -700.0))
    return float(empty / whole)


@inlined_kernel
def _day_weight(view: ScheduleView, weekday: int) -> float:
    """Return the weight of all sets that contain a day of the week: a whole number. O(128)."""
    weight = 0.0
    for i in range(DAY_SETS):
        weight += set_weight(view, i) * (i >> weekday & 1)
    return max(weight, 1.0)


@inlined_kernel
def _day_weights(view: ScheduleView) -> tuple[float, float, float, float, float, float, float]:
    """Return `_day_weight` of all days of the week, by shared partial sums. O(128)."""
    first = second = third = fourth = fifth = sixth = seventh = 0.0
    for i in range(0, DAY_SETS, 16):
        whole = 0.0
        for j in range(i, i + 16, 4):
            none, one = set_weight(view, j), set_weight(view, j + 1)
            two, three = set_weight(view, j + 2), set_weight(view, j + 3)
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
def schedule_scale(view: ScheduleView) -> float:
    """Return the factor that makes the mean of `scheduled_factor` 1. O(7 · 128)."""
    days = hours = 0.0
    weights = _day_weights(view)
    for weekday in range(7):
        days += weights[weekday]
    for hour in range(DAY_HOURS):
        hours += hour_weight(view, hour)
    return WEEK_HOURS / (days * hours)


@bare_kernel
def scheduled_factor(view: ScheduleView, hour: int, scale: float) -> float:
    """Return the expected updates in an hour of the week, 0 to 167, relative to the mean. O(128).

    `scale`: what `schedule_scale` returned.
    """
    return _day_weight(view, hour // DAY_HOURS) * hour_weight(view, hour % DAY_HOURS) * scale


@bare_kernel
def scheduled_hours(view: ScheduleView, start: float, end: float) -> float:
    """Return the hours from `start` to `end`, each weighted by its expected updates; the mean weight is 1. O(7 · 128).

    Monotone in `end` also after rounding: weights are whole numbers, so sums of them are exact.
    """
    first, last = np.floor(start / WEEK_HOURS), np.floor(end / WEEK_HOURS)
    since, until = _place(start - WEEK_HOURS * first), _place(end - WEEK_HOURS * last)
    weights = _day_weights(view)
    week = earlier = later = 0.0  # days: in the week, before `start` and before `end`
    for weekday in range(7):
        week += weights[weekday]
        earlier += weights[weekday] * (weekday < since.day)
        later += weights[weekday] * (weekday < until.day)
    day = earliest = latest = 0.0  # hours: in a day, before `start` and before `end` on theirs
    for i in range(DAY_HOURS):
        weight = hour_weight(view, i)
        day += weight
        earliest += weight * min(max(since.hour - i, 0.0), 1.0)
        latest += weight * min(max(until.hour - i, 0.0), 1.0)
    before = earlier * day + weights[since.day] * earliest
    passed = (last - first) * (week * day) + (later * day + weights[until.day] * latest)
    return float(max(passed - before, 0.0) * (WEEK_HOURS / (week * day)))


class _Place(NamedTuple):
    """A day of the week, from Monday, and how many of its hours have passed."""

    day: int
    hour: float


@inlined_kernel
def _place(hours: float) -> _Place:
    """Return the place in a week after that many of its hours."""
    hours = min(max(hours, 0.0), float(WEEK_HOURS))
    day = min(int(hours / DAY_HOURS), 6)
    return _Place(day, hours - DAY_HOURS * day)
