"""Profiles: how busy each hour of the week is for the pages of a group, a region and the corpus.

A change seen over an interval is spread over its hours in proportion to the published profile. It counts as the mean
number of changes that a Poisson process of that intensity has given at least one: the E step of
expectation-maximisation for intensities; visits show only whether an interval was empty. Exposure is the time
observed. Intervals of more than a week do not distinguish hours and are left out.

A profile is published in two versions. A page uses the version that was current at its last outcome, or when the prior
sweep last passed it, as with priors. Between these moments nothing that happens to other pages moves a page's score.
`profile_fit` publishes profiles (the M step).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from streamsched.estimation.seasonality.local_time import hour_in_week, local_hours, quarters_at, week_of
from streamsched.numerics.arrays import field_offset
from streamsched.numerics.compilation.machine_operations import prefetch_field
from streamsched.numerics.jit import inlined_kernel
from streamsched.numerics.vector_math import expm1
from streamsched.records.seasonality_schema import PROFILE, WEEK_HOURS, SeasonalityArrays

if TYPE_CHECKING:
    from streamsched.numerics.arrays import Record

__all__ = [
    "FIRST_ODDS",
    "UNIT",
    "WeekPlace",
    "count_changes",
    "hour_factor",
    "hours_between",
    "prefetch_profile",
    "refresh_link",
    "store_utc_offset",
    "update_profile",
    "week_place",
    "weighted_hours",
]

UNIT: Final = 65_536.0  # published weight of an hour as busy as the mean
MOST_CHANGES: Final = 50.0  # expected changes of an interval are clipped to this
FIRST_ODDS: Final = 1 / 9  # initial odds that a page has a schedule of its own

# Bytes from the start of a profile to these fields.
_CUMULATIVE_AT, _EXPOSURE_AT, _STEPS_AT, _WEEKLY_AT = (
    field_offset(PROFILE, name) for name in ("cumulative", "exposure", "exposure_steps", "weekly_exposure")
)


@inlined_kernel
def refresh_link(seasonality: SeasonalityArrays, row: int, page: Record, sweep: int) -> None:
    """Link a page to the current version of its group's profile. O(1)."""
    link: Record = seasonality.links[row]
    link.profile = seasonality.of_group[page.group]
    link.version = sweep & 1


@inlined_kernel
def store_utc_offset(seasonality: SeasonalityArrays, row: int, at_s: float) -> None:
    """Store the UTC offset of a page's region at `at_s`, used until the page's next visit. O(log switches)."""
    link: Record = seasonality.links[row]
    profile: Record = seasonality.profiles[link.profile]
    link.quarters = quarters_at(seasonality.calendar, int(np.int64(profile.region)), at_s)


@inlined_kernel
def weighted_hours(profile: Record, version: int, start: float, end: float) -> float:
    """Return the hours from `start` to `end`, both local, each weighted by its busyness; the mean weight is 1. O(1).

    Monotone in `end` also after rounding: weights are whole numbers, so sums of them are exact.
    """
    first = week_place(profile, version, start)
    return hours_between(profile, version, first, week_place(profile, version, max(start, end)))


class WeekPlace(NamedTuple):
    """A time as a profile sees it."""

    week: float  # the number of its week
    weight: float  # the sum of the weights of the week's hours before it


@inlined_kernel
def week_place(profile: Record, version: int, hours: float) -> WeekPlace:
    """Return the place of local `hours` in its week, by a version of a profile. O(1)."""
    week = week_of(hours)
    return WeekPlace(week, _weight_before(profile, version * (WEEK_HOURS + 1), hour_in_week(hours, week)))


@inlined_kernel
def hours_between(profile: Record, version: int, start: WeekPlace, end: WeekPlace) -> float:
    """Return `weighted_hours` from `start` to `end`, which is not before, by the same version of the profile. O(1)."""
    whole = float(profile.cumulative[version * (WEEK_HOURS + 1) + WEEK_HOURS])
    weight = (end.week - start.week) * whole + end.weight
    return max(weight - start.weight, 0.0) * (WEEK_HOURS / whole)


@inlined_kernel
def _weight_before(profile: Record, base: int, hour: float) -> float:
    """Return the sum of the weights of a week's first hours."""
    place = min(int(hour), WEEK_HOURS - 1)
    before = float(profile.cumulative[base + place])
    return before + (float(profile.cumulative[base + place + 1]) - before) * (hour - place)


@inlined_kernel
def hour_factor(profile: Record, version: int, hour: int) -> float:
    """Return how busy an hour of the week, 0 to 167, is; 1 is the mean. O(1)."""
    base = version * (WEEK_HOURS + 1)
    weight = float(profile.cumulative[base + hour + 1]) - float(profile.cumulative[base + hour])
    return weight * (WEEK_HOURS / float(profile.cumulative[base + WEEK_HOURS]))


@inlined_kernel
def update_profile(profile: Record, version: int, start: float, end: float, changes: float) -> None:
    """Add an interval from `start` to `end`, local hours, to a profile's exposure, and `changes` to its hours. O(1).

    `changes`: the number that the visit counts for, spread by the published profile. Whole hours are stored as
    differences at their first and last hour, which `profile_fit` sums up when it publishes profiles.
    """
    base = version * (WEEK_HOURS + 1)
    week, other = week_of(start), week_of(end)
    at, to = hour_in_week(start, week), hour_in_week(end, other)
    first, last = min(int(at), WEEK_HOURS - 1), min(int(to), WEEK_HOURS - 1)
    turns = other - week
    profile.exposure_steps[first] += 1.0
    profile.exposure_steps[last] -= 1.0
    profile.weekly_exposure += turns
    profile.exposure[first] -= at - first
    profile.exposure[last] += to - last
    if changes > 0.0:
        before, after = _weight_before(profile, base, at), _weight_before(profile, base, to)
        weight = turns * float(profile.cumulative[base + WEEK_HOURS]) + after - before
        share = changes / max(weight, 1e-300)
        profile.changes_steps[first] += share
        profile.changes_steps[last] -= share
        profile.weekly_changes += share * turns
        profile.changes[first] -= share * (before - float(profile.cumulative[base + first]))
        profile.changes[last] += share * (after - float(profile.cumulative[base + last]))


@inlined_kernel
def prefetch_profile(seasonality: SeasonalityArrays, link: Record, at_s: float) -> None:
    """Prefetch what `weighted_hours` and `update_profile` use of a page's profile at one end of an interval. O(1)."""
    number = np.int64(link.profile)
    hours = local_hours(at_s, link.quarters)
    hour = min(int(hour_in_week(hours, week_of(hours))), WEEK_HOURS - 1)
    prefetch_field(seasonality.profiles, number, _WEEKLY_AT)
    prefetch_field(seasonality.profiles, number, _STEPS_AT + 8 * hour)
    prefetch_field(seasonality.profiles, number, _EXPOSURE_AT + 8 * hour)
    place = np.int64(link.version) * (WEEK_HOURS + 1) + hour
    prefetch_field(seasonality.profiles, number, _CUMULATIVE_AT + 4 * place)


@inlined_kernel
def count_changes(expected: float) -> float:
    """Return E[N given N ≥ 1] for N ~ Poisson(expected), at most for MOST_CHANGES expected. O(1)."""
    expected = min(expected, MOST_CHANGES)
    return 1.0 if expected < 1e-9 else max(expected / -expm1(-expected), 1.0)
