"""Schedules: at which hour and on which days a page's updates come, for pages that change often enough to tell (SPEC 4).

A page by the day is updated at one hour of the day, or on none but some of the days at that hour: which hour is not
known, and stands as 24 weights; with what chance a day of the week has its update, as counts for each. Every visit
says something of both, whether it saw a change or not: hours by Bayes' rule, days by expectation-maximisation. A page
by the hour is updated at one quarter of the hour, with one chance for all hours.

How far a schedule is to be trusted is learned as well. Before a visit's outcome is taken in, the schedule and the
page's rate under its group's profile foretell it; the page keeps the logarithm of the ratio of what they gave to what
came, added up: the posterior odds of the schedule are e to the power of it times the odds of pages of its group.
Were the page Poisson, e to the power of it would be a martingale, whenever visits come, also where the schedule chose
them: by Ville's inequality it then reaches 20 with a chance of 1/20 at the most. `regularity` tests by that.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from streamsched.arrays import Record
from streamsched.clock import DAY_HOURS, HOUR_S
from streamsched.elementary import exp, log
from streamsched.jit import bare_kernel, inlined
from streamsched.tables import Rhythms

__all__ = [
    "HIGHEST_EDGE",
    "LOWEST_EDGE",
    "MOST_HOURS",
    "chance_by_hour",
    "daily_chance",
    "earns_schedule",
    "empty_by_day",
    "empty_by_hour",
    "give_schedule",
    "learn_schedule",
    "most_schedules",
    "note_change",
    "schedule_scale",
    "scheduled_factor",
    "scheduled_hours",
]

MOST_HOURS: Final = 192.0  # an interval of more than eight days says nothing of hours and days
LEAST_RATE: Final = 1 / 28  # changes a day: a rarer page shows no weekday within months
LEAST_CHANGES: Final = 2  # ... nor one that changed but once
FEWEST_SCHEDULES: Final = 64  # that a shard has room for, beside 7 for each 16 pages: 28 bytes a page
HIGHEST_EDGE: Final = 12.0  # so that a page that leaves its schedule is given up within a few visits
LOWEST_EDGE: Final = -6.0  # ... and one that takes up a schedule is found

_ONE: Final = 16  # an observation, in the bytes of counts: 15 at the most, then both are halved
_NAT: Final = 16.0  # of a misfit, in bytes: 16 nats at the most
_LEAST_FIT: Final = 0.02  # of an hour that does not explain a visit: chance updates, clocks that are off
_CLOSEST: Final = 0.01  # that what is foretold comes to 0 and to 1
_PRIOR_DAYS: Final = 1.0  # observations that the mean of all days counts for, for each of them
_PRIOR_MEAN: Final = 2.0  # ... that the page's rate counts for in that mean
_LEAST_CHANCE: Final = 1 / 4096
_WEIGHT: Final = 16_384.0  # of the best hour: weights are whole numbers, so that sums of them are exact
_MOST_HOURLY: Final = 12.0  # hours: a longer interval says nothing of a page by the hour
_DITHER: Final = 0.6180339887498949  # multiples of it are spread evenly below 1
_LATEST_S: Final = 4294967295.0

_WEIGHTS: Final = np.round(_WEIGHT * np.exp(-np.arange(256) / _NAT))


@bare_kernel
def most_schedules(pages: int) -> int:
    """Return how many pages of so many may have schedules of their own. O(1)."""
    return FEWEST_SCHEDULES + pages * 7 // 16


@inlined
def earns_schedule(page: Record, rate_per_day: float) -> bool:
    """Return whether a page changes often enough to show a schedule. O(1)."""
    return bool(page.changes >= LEAST_CHANGES) and bool(rate_per_day >= LEAST_RATE)


@inlined
def give_schedule(rhythm: Rhythms, row: int, most: int) -> None:
    """Give a page a schedule of its own, of which nothing is known yet, as long as there are less than `most`. O(1)."""
    tempo = rhythm.tempo[0]
    if tempo.schedules < most:
        tempo.schedules += 1
        rhythm.links[row].schedule = tempo.schedules


@inlined
def daily_chance(schedule: Record, rate_per_day: float) -> float:
    """Return with what chance a day has an update, all days of the week alike. O(1).

    Before anything is seen r/(1 + r), for a rate of which nothing but its mean r is known.
    """
    yes = no = 0.0
    for day in range(7):
        yes += schedule.yes[day]
        no += schedule.no[day]
    prior = _PRIOR_MEAN * rate_per_day / (1.0 + rate_per_day)
    return (yes / _ONE + prior) / ((yes + no) / _ONE + _PRIOR_MEAN)


@inlined
def _chance(schedule: Record, day: int, mean: float) -> float:
    """Return with what chance a day of the week has an update."""
    yes, no = schedule.yes[day] / _ONE, schedule.no[day] / _ONE
    return max((yes + _PRIOR_DAYS * mean) / (yes + no + _PRIOR_DAYS), _LEAST_CHANCE)


@inlined
def _day_of(hours: float) -> float:
    return float(np.floor(hours / DAY_HOURS))


@inlined
def _weekday(day: float) -> int:
    return int(day - 7.0 * np.floor(day / 7.0))


@inlined
def _covered(hour: int, low: float, high: float) -> float:
    """Return which part of an hour of the day lies between `low` and `high`."""
    return max(min(hour + 1.0, high) - max(float(hour), low), 0.0)


@inlined
def _empty_between(schedule: Record, first: float, last: float, mean: float) -> float:
    """Return with what chance all days after number `first` and before `last` have no update."""
    days = last - first - 1.0
    weeks = np.floor(max(days, 0.0) / 7.0)
    empty = 1.0
    if weeks > 0.0:
        for weekday in range(7):
            empty *= 1.0 - _chance(schedule, weekday, mean)
        empty = exp(max(weeks * log(max(empty, 1e-300)), -700.0))
    for i in range(int(days - 7.0 * weeks)):
        empty *= 1.0 - _chance(schedule, _weekday(first + 1.0 + i), mean)
    return empty


@inlined
def empty_by_day(schedule: Record, start: float, end: float, mean: float) -> float:
    """Return the probability of no update from `start` to `end`, local hours, by the page's days and hours. O(24).

    `mean`: its `daily_chance`. Falls as `end` rises, but for some 1e-15.
    """
    first, last = _day_of(start), _day_of(end)
    low, high = start - DAY_HOURS * first, end - DAY_HOURS * last
    one, other = _chance(schedule, _weekday(first), mean), _chance(schedule, _weekday(last), mean)
    between = _empty_between(schedule, first, last, mean)
    empty = weights = 0.0
    for hour in range(DAY_HOURS):
        weight = _WEIGHTS[schedule.hours[hour]]
        weights += weight
        if first == last:
            empty += weight * (1.0 - one * _covered(hour, low, high))
        else:
            before = 1.0 - one * _covered(hour, low, 24.0)
            empty += weight * between * before * (1.0 - other * _covered(hour, 0.0, high))
    return empty / weights


@inlined
def _marks(part: int, start: float, end: float) -> float:
    """Return how many times that quarter of the hour has passed from `start` to `end`, the last in part."""
    at = 4.0 * start - part
    to = 4.0 * end - part
    before, after = np.floor(at / 4.0), np.floor(to / 4.0)
    return (after + min(to - 4.0 * after, 1.0)) - (before + min(at - 4.0 * before, 1.0))


@inlined
def chance_by_hour(schedule: Record) -> float:
    """Return with what chance an hour has an update, as far as visits told; 1/2 before. O(1)."""
    yes, no = schedule.marks_yes / _ONE, schedule.marks_no / _ONE
    return (yes + 0.5) / (yes + no + 1.0)


@inlined
def empty_by_hour(schedule: Record, start: float, end: float) -> float:
    """Return the probability of no update from `start` to `end` at the page's quarter of each hour. O(1)."""
    quiet = log(max(1.0 - chance_by_hour(schedule), 1e-9))
    empty = weights = 0.0
    for part in range(4):
        weight = _WEIGHTS[schedule.parts[part]]
        weights += weight
        empty += weight * exp(max(quiet * _marks(part, start, end), -700.0))
    return empty / weights


@inlined
def scheduled_hours(schedule: Record, start: float, end: float, mean: float) -> float:
    """Return the hours from `start` to `end`, each weighted by how many updates it has; the mean weighs 1. O(24).

    Rises with `end`, as rounded: chances and weights are whole numbers here, of which sums are exact.
    """
    whole = 0.0
    for weekday in range(7):
        whole += _whole_chance(schedule, weekday, mean)
    weights = 0.0
    for hour in range(DAY_HOURS):
        weights += _WEIGHTS[schedule.hours[hour]]
    first, last = np.floor(start / 168.0), np.floor(end / 168.0)
    passed = (last - first) * whole * weights + _passed_in_week(schedule, end - 168.0 * last, weights, mean)
    passed -= _passed_in_week(schedule, start - 168.0 * first, weights, mean)
    return max(passed, 0.0) * (168.0 / (whole * weights))


@inlined
def _whole_chance(schedule: Record, weekday: int, mean: float) -> float:
    return float(np.floor(4096.0 * _chance(schedule, weekday, mean)))


@inlined
def _passed_in_week(schedule: Record, hour: float, weights: float, mean: float) -> float:
    """Return the weight of a week's first hours."""
    hour = min(max(hour, 0.0), 168.0)
    today = min(int(hour / 24.0), 6)
    passed = 0.0
    for weekday in range(today):
        passed += _whole_chance(schedule, weekday, mean) * weights
    rest = hour - 24.0 * today
    below = 0.0
    for i in range(DAY_HOURS):
        below += _WEIGHTS[schedule.hours[i]] * min(max(rest - i, 0.0), 1.0)
    return passed + _whole_chance(schedule, today, mean) * below


@inlined
def schedule_scale(schedule: Record, mean: float) -> float:
    """Return what makes the mean of a schedule's factors 1. O(24)."""
    whole = weights = 0.0
    for weekday in range(7):
        whole += _whole_chance(schedule, weekday, mean)
    for hour in range(DAY_HOURS):
        weights += _WEIGHTS[schedule.hours[hour]]
    return 168.0 / (whole * weights)


@inlined
def scheduled_factor(schedule: Record, hour: int, mean: float, scale: float) -> float:
    """Return how many updates an hour of the week, 0 to 167, has; by its `schedule_scale` 1 is the mean. O(1)."""
    return _whole_chance(schedule, hour // 24, mean) * _WEIGHTS[schedule.hours[hour % 24]] * scale


@bare_kernel
def learn_schedule(
    schedule: Record, start: float, end: float, changed: bool, foretold: float, rate_per_day: float, visits: int
) -> None:
    """Take in what a visit found at `end` of the time since `start`, local hours. O(24).

    `foretold`: the probability of a change by the page's rate; ``visits``: how many it had, for rounding.
    """
    hours = end - start
    if not 0.0 < hours <= MOST_HOURS:
        return
    foretold = min(max(foretold, 1e-6), 1.0 - 1e-6)
    dither = visits * _DITHER
    dither -= np.floor(dither)
    if hours <= _MOST_HOURLY:
        empty = empty_by_hour(schedule, start, end)
        edge = schedule.hourly_edge + _gain(empty, foretold, changed)
        schedule.hourly_edge = min(max(edge, LOWEST_EDGE), HIGHEST_EDGE)
        _count_marks(schedule, start, end, changed, empty, dither)
        _weigh_parts(schedule, start, end, changed)
    mean = daily_chance(schedule, rate_per_day)
    empty = empty_by_day(schedule, start, end, mean)
    edge = schedule.edge + _gain(empty, foretold, changed)
    schedule.edge = min(max(edge, LOWEST_EDGE), HIGHEST_EDGE)
    _count_days(schedule, start, end, changed, mean, dither)
    _weigh_hours(schedule, start, end, changed, mean)


@inlined
def _gain(empty: float, foretold: float, changed: bool) -> float:
    """Return ln of how much likelier a schedule made what came than the rate did."""
    seen = min(max(1.0 - empty, _CLOSEST), 1.0 - _CLOSEST)
    return log(seen / foretold if changed else (1.0 - seen) / (1.0 - foretold))


@inlined
def _count_days(schedule: Record, start: float, end: float, changed: bool, mean: float, dither: float) -> None:
    """Add to each day of the interval with what probability it had its update, and none, given what was seen."""
    first, last = _day_of(start), _day_of(end)
    low, high = start - DAY_HOURS * first, end - DAY_HOURS * last
    one, other = _chance(schedule, _weekday(first), mean), _chance(schedule, _weekday(last), mean)
    between = _empty_between(schedule, first, last, mean)
    weights = empty = met_first = met_last = still_first = still_last = 0.0
    for hour in range(DAY_HOURS):
        weight = _WEIGHTS[schedule.hours[hour]]
        here = _covered(hour, low, high if first == last else 24.0)
        there = 0.0 if first == last else _covered(hour, 0.0, high)
        quiet = weight * between * (1.0 - one * here) * (1.0 - other * there)
        weights += weight
        empty += quiet
        met_first += weight * here
        met_last += weight * there
        still_first += quiet * here
        still_last += quiet * there
    chance = max(weights - empty, 1e-9 * weights)
    for i in range(int(last - first) + 1):
        day = first + i
        weekday = _weekday(day)
        at_edge = day == first or day == last
        met = (met_first if day == first else met_last) if at_edge else weights
        still = (still_first if day == first else still_last) if at_edge else empty
        if changed:
            had = min(_chance(schedule, weekday, mean) * met / chance, 1.0)
            missed = max(min((met - still) / chance, 1.0) - had, 0.0)
        else:
            had, missed = 0.0, still / max(empty, 1e-9 * weights)
        _add(schedule, weekday, had, missed, dither)


@inlined
def _add(schedule: Record, weekday: int, had: float, missed: float, dither: float) -> None:
    yes = int(schedule.yes[weekday]) + int(_ONE * had + dither)
    no = int(schedule.no[weekday]) + int(_ONE * missed + dither)
    if yes > 255 or no > 255:
        yes, no = yes // 2, no // 2
    schedule.yes[weekday] = yes
    schedule.no[weekday] = no


@inlined
def _fit_by_day(hour: int, low: float, high: float, same: bool, ends: tuple[float, float, float]) -> float:
    """Return the probability of no update, were that the hour."""
    one, other, between = ends
    if same:
        return 1.0 - one * _covered(hour, low, high)
    return between * (1.0 - one * _covered(hour, low, 24.0)) * (1.0 - other * _covered(hour, 0.0, high))


@inlined
def _weigh_hours(schedule: Record, start: float, end: float, changed: bool, mean: float) -> None:
    """Let hours that do not explain what was seen weigh less."""
    first, last = _day_of(start), _day_of(end)
    low, high = start - DAY_HOURS * first, end - DAY_HOURS * last
    one, other = _chance(schedule, _weekday(first), mean), _chance(schedule, _weekday(last), mean)
    ends = (one, other, _empty_between(schedule, first, last, mean))
    best = 0.0
    for hour in range(DAY_HOURS):
        empty = _fit_by_day(hour, low, high, first == last, ends)
        best = max(best, 1.0 - empty if changed else empty)
    best = max(best, _LEAST_FIT)
    least = 1 << 20
    before, misfit = -1.0, 0
    for hour in range(DAY_HOURS):
        empty = _fit_by_day(hour, low, high, first == last, ends)
        if empty != before:
            before, misfit = empty, _misfit(1.0 - empty if changed else empty, best)
        least = min(least, int(schedule.hours[hour]) + misfit)
    before = -1.0
    for hour in range(DAY_HOURS):
        empty = _fit_by_day(hour, low, high, first == last, ends)
        if empty != before:
            before, misfit = empty, _misfit(1.0 - empty if changed else empty, best)
        schedule.hours[hour] = min(int(schedule.hours[hour]) + misfit - least, 255)


@inlined
def _misfit(fit: float, best: float) -> int:
    return int(_NAT * log(best / max(fit, _LEAST_FIT)) + 0.5)


@inlined
def _count_marks(schedule: Record, start: float, end: float, changed: bool, empty: float, dither: float) -> None:
    """Add with what probability the hours of the interval had updates, given what was seen."""
    marks = end - start
    had = min(chance_by_hour(schedule) * marks / max(1.0 - empty, 1e-9), max(marks, 1.0)) if changed else 0.0
    missed = max(marks - had, 0.0)
    yes = int(schedule.marks_yes) + int(_ONE * had + dither)
    no = int(schedule.marks_no) + int(_ONE * missed + dither)
    while yes > 255 or no > 255:
        yes, no = yes // 2, no // 2
    schedule.marks_yes = yes
    schedule.marks_no = no


@inlined
def _weigh_parts(schedule: Record, start: float, end: float, changed: bool) -> None:
    """Let quarters of the hour that do not explain what was seen weigh less."""
    quiet = log(max(1.0 - chance_by_hour(schedule), 1e-9))
    best = _LEAST_FIT
    for part in range(4):
        empty = exp(max(quiet * _marks(part, start, end), -700.0))
        best = max(best, 1.0 - empty if changed else empty)
    least = 1 << 20
    for part in range(4):
        empty = exp(max(quiet * _marks(part, start, end), -700.0))
        least = min(least, int(schedule.parts[part]) + _misfit(1.0 - empty if changed else empty, best))
    for part in range(4):
        empty = exp(max(quiet * _marks(part, start, end), -700.0))
        misfit = _misfit(1.0 - empty if changed else empty, best)
        schedule.parts[part] = min(int(schedule.parts[part]) + misfit - least, 255)


@inlined
def note_change(schedule: Record, at_s: float, step_hours: float) -> None:
    """Count the time since the last change that was seen, after `step_hours` without a visit. O(1)."""
    now_s = min(max(at_s, 0.0), _LATEST_S)
    if schedule.begun_s == 0:
        schedule.begun_s = schedule.changed_s = int(now_s)
        return
    gap = (now_s - schedule.changed_s) / HOUR_S
    if schedule.gaps == 255:  # the mean stays as it is
        schedule.gaps //= 2
        schedule.near_hour //= 2
        schedule.near_day //= 2
        schedule.near_week //= 2
        schedule.begun_s += (schedule.changed_s - schedule.begun_s) // 2
    schedule.changed_s = int(now_s)
    schedule.gaps += 1
    schedule.near_hour += int(abs(gap - 1.0) <= step_hours <= 1.0)
    schedule.near_day += int(abs(gap - 24.0) <= step_hours <= 12.0)
    schedule.near_week += int(abs(gap - 168.0) <= step_hours <= 84.0)
