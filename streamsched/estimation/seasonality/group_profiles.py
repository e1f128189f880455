"""Profiles: how busy each hour of the week is for the pages of a group, a region and the corpus (SPEC 4).

A change that was seen over an interval is spread over its hours in proportion to the profile as it stands, and counts
for as many changes as a Poisson process of that intensity has on average where it has any: the E step of
expectation-maximisation for intensities of which visits see only whether an interval was empty. Exposure is what was
watched. Intervals of more than a week tell no hour from another, and are left out.

When the sweep of `priors` is round, profiles are published anew (the M step), each shrunk towards what stands above it:
a URL pattern's towards its host's, that towards its region's, and that towards the corpus', which is shrunk towards
none at all. This is done for the days of the week, then for the hours of the day, then for what is left, each by a
strength learned from its own counts: the variance of the hours' factors beyond what Poisson counts vary by (empirical
Bayes by moments), less one standard error, so that nothing is told apart by chance.

A published profile stands twice: pages go by the one that they were last told of, with their own outcomes or by the
sweep, as with priors. So between these moments nothing that happens to other pages moves a page's score.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from streamsched.estimation.seasonality.local_time import DAY_HOURS, hour_in_week, quarters_at, region_of_name, week_of
from streamsched.estimation.seasonality.page_schedules import (
    FIRST_SETS,
    NAT,
    RAREST,
    WEIGHTS,
    ScheduleView,
    add_beliefs,
)
from streamsched.numerics.arrays import Floats, Record, Records
from streamsched.numerics.jit import bare_kernel, inlined_kernel
from streamsched.numerics.vector_math import exp, expm1, log
from streamsched.records.group_schema import GroupArrays
from streamsched.records.seasonality_schema import DAY_SETS, NO_GROUP, WEEK_HOURS, SeasonalityArrays

__all__ = [
    "EARN_CHANGES",
    "FIRST_ODDS",
    "assign_profiles",
    "count_changes",
    "hour_factor",
    "inherit_profile",
    "init_profiles",
    "most_profiles",
    "publish_profiles",
    "refresh_link",
    "store_utc_offset",
    "sum_trust",
    "update_profile",
    "weighted_hours",
]

EARN_CHANGES: Final = 64  # changes seen of a group's pages before it has a profile of its own: nine for each weekday
PAGES_PER_PROFILE: Final = 1_024  # at the most: 12 bytes a page
FEWEST_PROFILES: Final = 64  # ... beside so many
MEMORY_S: Final = 56 * 86_400.0  # of counts, until they have faded to a third: eight of each hour of the week
UNIT: Final = 65_536.0  # a published hour's weight where it is as busy as the mean
LEAST_WEIGHT: Final = 16.0  # of an hour without changes: rare, not impossible
MOST_CHANGES: Final = 50.0  # that one visit may count for
FIRST_ODDS: Final = 1 / 9  # that a page has a schedule of its own, before anything is learned
ODDS_STRENGTH: Final = 8.0  # pages that the odds above count for
BELIEF_STRIDE: Final = 4  # rows for each whose schedule itself is summed up: it takes as long as forty outcomes
LEAST_TRUST: Final = 0.02  # share of pages with a schedule, kept from 0 and 1


@bare_kernel
def most_profiles(pages: int) -> int:
    """Return how many groups may have a profile of their own in a shard of so many pages. O(1)."""
    return FEWEST_PROFILES + pages // PAGES_PER_PROFILE


@bare_kernel
def init_profiles(seasonality: SeasonalityArrays, regions: int) -> None:
    """Begin with the profiles of all pages and of each region, all even."""
    state = seasonality.state[0]
    state.regions = regions
    state.profiles = 0
    state.spare = 1
    state.newest_s = state.published_s = -np.inf
    for region in range(regions + 1):
        _begin_profile(seasonality, NO_GROUP, region)


@inlined_kernel
def _begin_profile(seasonality: SeasonalityArrays, group: int, region: int) -> None:
    state = seasonality.state[0]
    profile: Record = seasonality.profiles[state.profiles]
    profile.group = group
    profile.region = region
    for age in range(2):
        profile.odds[age] = FIRST_ODDS
        for hour in range(WEEK_HOURS + 1):
            profile.cumulative[age * (WEEK_HOURS + 1) + hour] = int(UNIT) * hour
        for days in range(DAY_SETS):
            profile.sets_rarity[age * DAY_SETS + days] = FIRST_SETS[days]
    state.profiles += 1


@bare_kernel
def assign_profiles(seasonality: SeasonalityArrays, groups: GroupArrays, count: int) -> None:
    """Set by which profile each group's pages go: its own, else that of the group above, else its region's. O(groups).

    It follows from who has a profile alone, so it need not be saved.
    """
    for group in range(count):
        inherit_profile(seasonality, groups, group)
    for number in range(seasonality.state[0].profiles):
        owner = seasonality.profiles[number].group
        if owner != NO_GROUP:
            seasonality.of_group[owner] = number
    for group in range(count):  # a group stands after its parent
        followed: Record = seasonality.profiles[seasonality.of_group[group]]
        if groups.records[group].depth > 0 and followed.group != group:
            seasonality.of_group[group] = seasonality.of_group[groups.records[group].parent]


@bare_kernel
def inherit_profile(seasonality: SeasonalityArrays, groups: GroupArrays, group: int) -> None:
    """Let the pages of a new group go by the profile of the group above, those of a host by that of its region."""
    record: Record = groups.records[group]
    if record.depth > 0:
        seasonality.of_group[group] = seasonality.of_group[record.parent]
    else:
        seasonality.of_group[group] = region_of_name(seasonality.calendar, groups, group)


@inlined_kernel
def refresh_link(seasonality: SeasonalityArrays, row: int, page: Record, sweep: int) -> None:
    """Let a page go by the present profile of its group. O(1)."""
    link: Record = seasonality.links[row]
    link.profile = seasonality.of_group[page.group]
    link.version = sweep & 1


@inlined_kernel
def store_utc_offset(seasonality: SeasonalityArrays, row: int, at_s: float) -> None:
    """Note by which clock the hours since a page's visit at `at_s` are counted. O(log switches)."""
    link: Record = seasonality.links[row]
    profile: Record = seasonality.profiles[link.profile]
    link.quarters = quarters_at(seasonality.calendar, int(np.int64(profile.region)), at_s)


@inlined_kernel
def weighted_hours(profile: Record, age: int, start: float, end: float) -> float:
    """Return the hours from `start` to `end`, both local, each weighted by how busy it is; the mean weighs 1. O(1).

    Rises with `end`, as rounded: weights are whole numbers, of which sums are exact.
    """
    base = age * (WEEK_HOURS + 1)
    end = max(start, end)
    first, last = week_of(start), week_of(end)
    whole = float(profile.cumulative[base + WEEK_HOURS])
    weight = (last - first) * whole + _weight_before(profile, base, hour_in_week(end, last))
    return max(weight - _weight_before(profile, base, hour_in_week(start, first)), 0.0) * (WEEK_HOURS / whole)


@inlined_kernel
def _weight_before(profile: Record, base: int, hour: float) -> float:
    """Return the weight of a week's first hours."""
    place = min(int(hour), WEEK_HOURS - 1)
    before = float(profile.cumulative[base + place])
    return before + (float(profile.cumulative[base + place + 1]) - before) * (hour - place)


@inlined_kernel
def hour_factor(profile: Record, age: int, hour: int) -> float:
    """Return how busy an hour of the week, 0 to 167, is; 1 is the mean. O(1)."""
    base = age * (WEEK_HOURS + 1)
    weight = float(profile.cumulative[base + hour + 1]) - float(profile.cumulative[base + hour])
    return weight * (WEEK_HOURS / float(profile.cumulative[base + WEEK_HOURS]))


@inlined_kernel
def update_profile(profile: Record, age: int, start: float, end: float, changes: float) -> None:
    """Add an interval from `start` to `end`, local hours, to a profile's exposure and `changes` to its hours. O(1).

    `changes`: how many the visit counts for; they are spread by the profile that is published. Whole hours are noted
    by where they begin and end, to be summed up when profiles are published: see `_settle`.
    """
    base = age * (WEEK_HOURS + 1)
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
def _settle(profile: Record, age: int) -> None:
    """Sum up what intervals have added to hours since the last time."""
    base = age * (WEEK_HOURS + 1)
    share, watch = float(profile.weekly_changes), float(profile.weekly_exposure)
    profile.weekly_changes = profile.weekly_exposure = 0.0
    for hour in range(WEEK_HOURS):
        share += profile.changes_steps[hour]
        watch += profile.exposure_steps[hour]
        profile.changes_steps[hour] = profile.exposure_steps[hour] = 0.0
        weight = float(profile.cumulative[base + hour + 1]) - float(profile.cumulative[base + hour])
        profile.changes[hour] = max(profile.changes[hour] + share * weight, 0.0)
        profile.exposure[hour] = max(profile.exposure[hour] + watch, 0.0)


@inlined_kernel
def sum_trust(seasonality: SeasonalityArrays, row: int, sweep: int) -> None:
    """Add to its profile how likely a page's own schedule is, and of every fourth row what it says. O(1)."""
    link: Record = seasonality.links[row]
    if link.schedule:
        profile: Record = seasonality.profiles[link.profile]
        schedule: Record = seasonality.schedules[link.schedule]
        odds = float(profile.odds[link.version]) * exp(float(schedule.log_odds))
        trust = odds / (1.0 + odds)
        profile.scheduled_sum += trust
        profile.scheduled_count += 1.0
        if (row + sweep) % BELIEF_STRIDE == 0:
            number, profiles = int(np.int64(link.profile)), seasonality.profiles
            add_beliefs(
                ScheduleView(
                    seasonality.schedules, int(np.int64(link.schedule)), profiles, number, int(np.int64(link.version))
                ),
                trust * BELIEF_STRIDE,
            )


@inlined_kernel
def count_changes(expected: float) -> float:
    """Return how many changes an interval has on average that has any, where so many are expected. O(1)."""
    expected = min(expected, MOST_CHANGES)
    return 1.0 if expected < 1e-9 else max(expected / -expm1(-expected), 1.0)


@bare_kernel
def publish_profiles(seasonality: SeasonalityArrays, groups: GroupArrays, corpus: Record) -> None:
    """Publish all profiles anew, for the sweep that begins; give groups that have earned one their own.

    O(groups + profiles · 168).
    """
    _fade(seasonality, int(corpus.sweep) & 1)
    _pool(seasonality, groups.records, int(corpus.groups))
    age = int(corpus.sweep + 1) & 1
    first = seasonality.state[0].regions + 1
    for i in range(first + corpus.groups):
        number = i if i < first else int(np.int64(seasonality.of_group[i - first]))
        if i < first or seasonality.profiles[number].group == i - first:
            above = -1 if i == 0 else 0 if i < first else _above(seasonality, groups.records, i - first)
            _publish(seasonality, number, above, age)
    _admit_groups(seasonality, groups, corpus)


@inlined_kernel
def _above(seasonality: SeasonalityArrays, groups: Records, group: int) -> int:
    """Return the profile that stands above a group's."""
    record: Record = groups[group]
    if record.depth > 0:
        return int(seasonality.of_group[record.parent])
    profile: Record = seasonality.profiles[seasonality.of_group[group]]
    return int(profile.region)


@bare_kernel
def _fade(seasonality: SeasonalityArrays, age: int) -> None:
    """Sum up the sweep's counts, which went by that `age`, and let all fade by the time since they did last."""
    state = seasonality.state[0]
    passed = state.newest_s - state.published_s
    kept = exp(-min(max(passed, 0.0), MEMORY_S) / MEMORY_S) if np.isfinite(passed) else 1.0
    state.published_s = state.newest_s
    for number in range(state.profiles):
        profile, pooled = seasonality.profiles[number], seasonality.pooled[number]
        _settle(profile, age)
        for hour in range(WEEK_HOURS):
            profile.changes[hour] *= kept
            profile.exposure[hour] *= kept
            pooled.changes[hour] = profile.changes[hour]
            pooled.exposure[hour] = profile.exposure[hour]
        pooled.scheduled_sum, pooled.scheduled_count = profile.scheduled_sum, profile.scheduled_count
        profile.scheduled_sum = profile.scheduled_count = 0.0
        for days in range(DAY_SETS):
            pooled.sets_sum[days] = profile.sets_sum[days]
            profile.sets_sum[days] = 0.0
        for hour in range(DAY_HOURS):
            pooled.hours_sum[hour] = profile.hours_sum[hour]
            profile.hours_sum[hour] = 0.0


@bare_kernel
def _pool(seasonality: SeasonalityArrays, groups: Records, count: int) -> None:
    """Add to each profile's counts those of all profiles below it."""
    for i in range(count):
        group = count - 1 - i  # a group stands after its parent: children come first here
        number = int(seasonality.of_group[group])
        if seasonality.profiles[number].group == group:
            _add_pooled(seasonality, number, _above(seasonality, groups, group))
    for number in range(1, seasonality.state[0].regions + 1):
        _add_pooled(seasonality, number, 0)


@inlined_kernel
def _add_pooled(seasonality: SeasonalityArrays, number: int, to: int) -> None:
    below, above = seasonality.pooled[number], seasonality.pooled[to]
    for hour in range(WEEK_HOURS):
        above.changes[hour] += below.changes[hour]
        above.exposure[hour] += below.exposure[hour]
    above.scheduled_sum += below.scheduled_sum
    above.scheduled_count += below.scheduled_count
    for days in range(DAY_SETS):
        above.sets_sum[days] += below.sets_sum[days]
    for hour in range(DAY_HOURS):
        above.hours_sum[hour] += below.hours_sum[hour]


@bare_kernel
def _publish(seasonality: SeasonalityArrays, number: int, above: int, age: int) -> None:
    """Write what a profile's pages go by from the next sweep on; ``above``: the profile it is shrunk towards, or -1."""
    profile, pooled = seasonality.profiles[number], seasonality.pooled[number]
    factors, expected = seasonality.work[:WEEK_HOURS], seasonality.work[WEEK_HOURS:]
    changes = weighed = 0.0
    for hour in range(WEEK_HOURS):
        factors[hour] = hour_factor(seasonality.profiles[above], age, hour) if above >= 0 else 1.0
        changes += pooled.changes[hour]
        weighed += pooled.exposure[hour] * factors[hour]
    rate = changes / weighed if weighed > 0.0 else 0.0
    for hour in range(WEEK_HOURS):
        expected[hour] = rate * pooled.exposure[hour] * factors[hour]
    for split in range(3):
        _shrink(pooled, expected, factors, split)
    total = 0.0
    for hour in range(WEEK_HOURS):
        total += factors[hour]
    weight = 0
    base = age * (WEEK_HOURS + 1)
    for hour in range(WEEK_HOURS):
        profile.cumulative[base + hour] = weight
        weight += int(max(UNIT * WEEK_HOURS * factors[hour] / total + 0.5, LEAST_WEIGHT))
    profile.cumulative[base + WEEK_HOURS] = weight
    share = FIRST_ODDS / (1.0 + FIRST_ODDS)
    if above >= 0:
        odds = float(seasonality.profiles[above].odds[age])
        share = odds / (1.0 + odds)
    share = (ODDS_STRENGTH * share + pooled.scheduled_sum) / (ODDS_STRENGTH + pooled.scheduled_count)
    share = min(max(share, LEAST_TRUST), 1.0 - LEAST_TRUST)
    profile.odds[age] = share / (1.0 - share)
    _publish_beliefs(seasonality, number, above, age)


@bare_kernel
def _publish_beliefs(seasonality: SeasonalityArrays, number: int, above: int, age: int) -> None:
    """Write which sets of days and which hours are common among a profile's pages: their means, shrunk."""
    profile, pooled, higher = (
        seasonality.profiles[number],
        seasonality.pooled[number],
        seasonality.profiles[max(above, 0)],
    )
    sets, hours = seasonality.work[:DAY_SETS], seasonality.work[DAY_SETS : DAY_SETS + DAY_HOURS]
    for i in range(DAY_SETS):
        sets[i] = WEIGHTS[higher.sets_rarity[age * DAY_SETS + i] if above >= 0 else FIRST_SETS[i]]
    for i in range(DAY_HOURS):
        hours[i] = WEIGHTS[higher.hours_rarity[age * DAY_HOURS + i]] if above >= 0 else 1.0
    _blend(sets, pooled.sets_sum)
    _blend(hours, pooled.hours_sum)
    profile.sets_rarity[age * DAY_SETS] = FIRST_SETS[0]
    for i in range(1, DAY_SETS):
        profile.sets_rarity[age * DAY_SETS + i] = _rarity(sets[i])
    for i in range(DAY_HOURS):
        profile.hours_rarity[age * DAY_HOURS + i] = _rarity(hours[i])


@inlined_kernel
def _blend(weights: Floats, sums: Floats) -> None:
    """Turn weights from above into the means of pages' probabilities, shrunk towards them; the greatest is 1."""
    whole = most = 0.0
    for i in range(weights.size):
        whole += weights[i]
    for i in range(weights.size):
        weights[i] = ODDS_STRENGTH * weights[i] / whole + sums[i]
        most = max(most, weights[i])
    for i in range(weights.size):
        weights[i] /= most


@inlined_kernel
def _rarity(weight: float) -> int:
    """Return by how much a weight of 1 at the most is rarer than 1, in 1/16 nat, `RAREST` at the most."""
    return int(min(0.5 - NAT * log(max(weight, 1e-9)), float(RAREST)))


@bare_kernel
def _shrink(pooled: Record, expected: Floats, factors: Floats, split: int) -> None:
    """Let days of the week, hours of the day or single hours have factors of their own, as `split` says: 0, 1, 2.

    As far as their counts vary more than chance lets them. With c changes where m are expected, the factor is
    (c + s)/(m + s), of shape s: 1/s is the sum of (c - m)² - m over that of m², less one standard error, 0 at the
    least.
    """
    cells = 7 if split == 0 else DAY_HOURS if split == 1 else WEEK_HOURS
    beyond = squares = 0.0
    for cell in range(cells):
        seen, mean = _sum_cell(pooled, expected, cell, split)
        beyond += (seen - mean) * (seen - mean) - mean
        squares += mean * mean
    looseness = (beyond - np.sqrt(2.0 * squares)) / squares if squares > 0.0 else 0.0
    if not looseness > 0.0:
        return
    for cell in range(cells):
        seen, mean = _sum_cell(pooled, expected, cell, split)
        factor = (seen * looseness + 1.0) / (mean * looseness + 1.0)
        start, step, stop = _hours_of(cell, split)
        for hour in range(start, stop, step):
            factors[hour] *= factor
            expected[hour] *= factor


@bare_kernel
def _hours_of(cell: int, split: int) -> tuple[int, int, int]:
    """Return the first hour of a cell, the step to its next one, and where it stops."""
    if split == 0:
        return DAY_HOURS * cell, 1, DAY_HOURS * (cell + 1)
    return (cell, DAY_HOURS, WEEK_HOURS) if split == 1 else (cell, 1, cell + 1)


@bare_kernel
def _sum_cell(pooled: Record, expected: Floats, cell: int, split: int) -> tuple[float, float]:
    """Return the changes seen in a cell's hours, and those expected."""
    seen = mean = 0.0
    start, step, stop = _hours_of(cell, split)
    for hour in range(start, stop, step):
        seen += pooled.changes[hour]
        mean += expected[hour]
    return seen, mean


@bare_kernel
def _admit_groups(seasonality: SeasonalityArrays, groups: GroupArrays, corpus: Record) -> None:
    """Give groups of which enough changes were seen profiles of their own, which begin as that above stands."""
    state = seasonality.state[0]
    most = state.regions + 1 + most_profiles(corpus.sorted)
    before = state.profiles
    for group in range(corpus.groups):
        if state.profiles >= most:
            break
        above = int(seasonality.of_group[group])
        if groups.records[group].changes >= EARN_CHANGES and seasonality.profiles[above].group != group:
            number = int(state.profiles)
            _begin_profile(seasonality, group, int(np.int64(seasonality.profiles[above].region)))
            profile = seasonality.profiles[number]
            for i in range(2 * (WEEK_HOURS + 1)):
                profile.cumulative[i] = seasonality.profiles[above].cumulative[i]
            for i in range(2 * DAY_SETS):
                profile.sets_rarity[i] = seasonality.profiles[above].sets_rarity[i]
            for i in range(2 * DAY_HOURS):
                profile.hours_rarity[i] = seasonality.profiles[above].hours_rarity[i]
            for i in range(2):
                profile.odds[i] = seasonality.profiles[above].odds[i]
    if state.profiles > before:
        assign_profiles(seasonality, groups, int(corpus.groups))
