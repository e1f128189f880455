"""Profiles: how busy each hour of the week is for the pages of a group, a region and the corpus.

A change seen over an interval is spread over its hours in proportion to the published profile. It counts as the mean
number of changes that a Poisson process of that intensity has given at least one: the E step of
expectation-maximisation for intensities; visits show only whether an interval was empty. Exposure is the time observed.
Intervals of more than a week do not distinguish hours and are left out.

A profile is published in two versions. A page uses the version that was current at its last outcome, or when the prior
sweep last passed it, as with priors. Between these moments nothing that happens to other pages moves a page's score.
`profile_fit` publishes profiles (the M step). A group has its own profile, else its parent's, else that of its region.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from streamsched.estimation.seasonality.page_schedules import FIRST_SETS
from streamsched.estimation.seasonality.regions import hour_in_week, local_hours, quarters_at, week_of
from streamsched.numerics.arrays import Record, field_offset
from streamsched.numerics.compilation.machine_operations import prefetch_field
from streamsched.numerics.jit import bare_kernel, inlined_kernel
from streamsched.numerics.url_bytes import hash_bytes
from streamsched.numerics.url_syntax import find_domain
from streamsched.numerics.vector_math import expm1
from streamsched.records.group_schema import GroupArrays
from streamsched.records.seasonality_schema import (
    DAY_SETS,
    MOST_PROFILES,
    NO_GROUP,
    PROFILE,
    WEEK_HOURS,
    RegionClocks,
    SeasonalityArrays,
)

UNIT: Final = 65_536.0  # published weight of an hour as busy as the mean
MOST_CHANGES: Final = 50.0  # expected changes of an interval are clipped to this
FIRST_ODDS: Final = 1 / 9  # initial odds that a page has a schedule of its own

# Bytes from the start of a profile to these fields.
_CUMULATIVE_AT, _EXPOSURE_AT, _STEPS_AT, _WEEKLY_AT = (
    field_offset(PROFILE, name) for name in ("cumulative", "exposure", "exposure_steps", "weekly_exposure")
)
PAGES_PER_PROFILE: Final = 2_048  # one profile for each, at most: 6 bytes a page
FEWEST_PROFILES: Final = 64  # ... in addition to these
MOST_GROUPS: Final = MOST_PROFILES // 2  # groups with one; the others are for regions and for all pages


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


@bare_kernel
def most_profiles(pages: int) -> int:
    """Return how many groups may have a profile of their own in a shard of that many pages. O(1)."""
    return min(FEWEST_PROFILES + pages // PAGES_PER_PROFILE, MOST_GROUPS)


@bare_kernel
def init_profiles(seasonality: SeasonalityArrays, regions: int) -> None:
    """Create the uniform profiles of all pages and of each region."""
    state = seasonality.state[0]
    state.regions = regions
    state.profiles = 0
    state.spare = 1
    state.newest_s = state.published_s = -np.inf
    for region in range(regions + 1):
        begin_profile(seasonality, NO_GROUP, region)


@inlined_kernel
def begin_profile(seasonality: SeasonalityArrays, group: int, region: int) -> None:
    """Add a uniform profile of `group`, NO_GROUP for that of a region or of all pages. O(168)."""
    state = seasonality.state[0]
    profile: Record = seasonality.profiles[state.profiles]
    profile.group = group
    profile.region = region
    for version in range(2):
        profile.odds[version] = FIRST_ODDS
        for hour in range(WEEK_HOURS + 1):
            profile.cumulative[version * (WEEK_HOURS + 1) + hour] = int(UNIT) * hour
        for days in range(DAY_SETS):
            profile.sets_rarity[version * DAY_SETS + days] = FIRST_SETS[days]
    state.profiles += 1


@bare_kernel
def assign_profiles(seasonality: SeasonalityArrays, groups: GroupArrays, count: int) -> None:
    """Set the profile of each of the first `count` groups: its own, else its parent's, else its region's. O(groups).

    The assignment follows from the profiles' groups, so it is not saved.
    """
    for group in range(count):
        inherit_profile(seasonality, groups, group)
    for number in range(seasonality.state[0].profiles):
        owner = seasonality.profiles[number].group
        if owner != NO_GROUP:
            seasonality.of_group[owner] = number
    for group in range(count):  # parents have lower numbers
        followed: Record = seasonality.profiles[seasonality.of_group[group]]
        if groups.records[group].depth > 0 and followed.group != group:
            seasonality.of_group[group] = seasonality.of_group[groups.records[group].parent]


@bare_kernel
def inherit_profile(seasonality: SeasonalityArrays, groups: GroupArrays, group: int) -> None:
    """Assign to a new group its parent's profile, to a new host that of its region. O(1), O(name) for a host."""
    record: Record = groups.records[group]
    if record.depth > 0:
        seasonality.of_group[group] = seasonality.of_group[record.parent]
    else:
        seasonality.of_group[group] = region_of_name(seasonality.calendar, groups, group)


@bare_kernel
def region_of_name(calendar: RegionClocks, groups: GroupArrays, group: int) -> int:
    """Return the region of the host `group` by the last label of its name; 0 if no region has it. O(name)."""
    span = groups.records[group].name_span
    start = int(np.int64(span >> np.uint64(16)))
    first, stop = find_domain(groups.names, start, start + int(np.int64(span & np.uint64(0xFFFF))))
    key = hash_bytes(groups.names, first, stop)
    for i in range(calendar.domains.size):
        if calendar.domains[i] == key:
            return int(calendar.regions[i])
    return 0
