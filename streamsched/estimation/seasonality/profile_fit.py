"""Publishing profiles at the end of a prior sweep: the M step that `group_profiles` collects the counts for.

Each profile is shrunk towards the one above it: a URL pattern's towards its host's, a host's towards its region's, a
region's towards that of all pages, which is shrunk towards none. This is done for the days of the week, then for the
hours of the day, then for the remainder, each with a strength learned from its own counts: the variance of the hours'
factors beyond what Poisson counts vary by (empirical Bayes by moments), less one standard error, so that chance alone
does not make hours differ.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from streamsched.estimation.seasonality.group_profiles import (
    FIRST_ODDS,
    UNIT,
    assign_profiles,
    begin_profile,
    hour_factor,
    most_profiles,
)
from streamsched.estimation.seasonality.page_schedules import FIRST_SETS, NAT, RAREST, WEIGHTS, ScheduleView
from streamsched.estimation.seasonality.regions import DAY_HOURS
from streamsched.estimation.seasonality.schedule_update import add_beliefs
from streamsched.numerics.arrays import Floats, Record, Records
from streamsched.numerics.jit import bare_kernel, inlined_kernel
from streamsched.numerics.vector_math import exp, log
from streamsched.records.group_schema import GroupArrays
from streamsched.records.seasonality_schema import DAY_SETS, WEEK_HOURS, SeasonalityArrays

EARN_CHANGES: Final = 64  # changes seen of a group's pages before it gets its own profile: nine per weekday
MEMORY_S: Final = 56 * 86_400.0  # time constant of the decay of counts: eight of each hour of the week
LEAST_WEIGHT: Final = 16.0  # of an hour without changes: rare, not impossible
BELIEF_STRIDE: Final = 4  # only every fourth row adds its schedule to the sums: one takes as long as forty outcomes
ODDS_STRENGTH: Final = 8.0  # pages that the odds of the profile above count for
LEAST_SCHEDULED: Final = 0.02  # share of pages with a schedule, kept from 0 and 1


@inlined_kernel
def sum_schedules(seasonality: SeasonalityArrays, row: int, sweep: int) -> None:
    """Add how likely a page has its own schedule to its profile's sums, and every fourth row's schedule. O(1)."""
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


@bare_kernel
def publish_profiles(seasonality: SeasonalityArrays, groups: GroupArrays, corpus: Record) -> None:
    """Publish all profiles for the sweep that begins, and create profiles of groups that have enough changes.

    O(groups + profiles · 168).
    """
    _fade(seasonality, int(corpus.sweep) & 1)
    _pool(seasonality, groups.records, int(corpus.groups))
    version = int(corpus.sweep + 1) & 1
    first = seasonality.state[0].regions + 1
    for i in range(first + corpus.groups):
        number = i if i < first else int(np.int64(seasonality.of_group[i - first]))
        if i < first or seasonality.profiles[number].group == i - first:
            above = -1 if i == 0 else 0 if i < first else _above(seasonality, groups.records, i - first)
            _publish(seasonality, number, above, version)
    _admit_groups(seasonality, groups, corpus)


@inlined_kernel
def _above(seasonality: SeasonalityArrays, groups: Records, group: int) -> int:
    """Return the number of the profile above a group's own."""
    record: Record = groups[group]
    if record.depth > 0:
        return int(seasonality.of_group[record.parent])
    profile: Record = seasonality.profiles[seasonality.of_group[group]]
    return int(profile.region)


@bare_kernel
def _fade(seasonality: SeasonalityArrays, version: int) -> None:
    """Close the sweep's counts, made under that `version`, and decay all counts by the time since they last did."""
    state = seasonality.state[0]
    passed = state.newest_s - state.published_s
    kept = exp(-min(max(passed, 0.0), MEMORY_S) / MEMORY_S) if np.isfinite(passed) else 1.0
    state.published_s = state.newest_s
    for number in range(state.profiles):
        profile, pooled = seasonality.profiles[number], seasonality.pooled[number]
        _settle(profile, version)
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


@inlined_kernel
def _settle(profile: Record, version: int) -> None:
    """Add the sweep's differences by hour to the counts."""
    base = version * (WEEK_HOURS + 1)
    share, watch = float(profile.weekly_changes), float(profile.weekly_exposure)
    profile.weekly_changes = profile.weekly_exposure = 0.0
    for hour in range(WEEK_HOURS):
        share += profile.changes_steps[hour]
        watch += profile.exposure_steps[hour]
        profile.changes_steps[hour] = profile.exposure_steps[hour] = 0.0
        weight = float(profile.cumulative[base + hour + 1]) - float(profile.cumulative[base + hour])
        profile.changes[hour] = max(profile.changes[hour] + share * weight, 0.0)
        profile.exposure[hour] = max(profile.exposure[hour] + watch, 0.0)


@bare_kernel
def _pool(seasonality: SeasonalityArrays, groups: Records, count: int) -> None:
    """Add to each profile's counts those of all profiles below it."""
    for i in range(count):
        group = count - 1 - i  # parents have lower numbers: this visits children first
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
def _publish(seasonality: SeasonalityArrays, number: int, above: int, version: int) -> None:
    """Write the version that a profile's pages use from the next sweep on; ``above``: the profile above it, or -1."""
    profile, pooled = seasonality.profiles[number], seasonality.pooled[number]
    factors, expected = seasonality.work[:WEEK_HOURS], seasonality.work[WEEK_HOURS:]
    changes = weighed = 0.0
    for hour in range(WEEK_HOURS):
        factors[hour] = hour_factor(seasonality.profiles[above], version, hour) if above >= 0 else 1.0
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
    base = version * (WEEK_HOURS + 1)
    for hour in range(WEEK_HOURS):
        profile.cumulative[base + hour] = weight
        weight += int(max(UNIT * WEEK_HOURS * factors[hour] / total + 0.5, LEAST_WEIGHT))
    profile.cumulative[base + WEEK_HOURS] = weight
    share = FIRST_ODDS / (1.0 + FIRST_ODDS)
    if above >= 0:
        odds = float(seasonality.profiles[above].odds[version])
        share = odds / (1.0 + odds)
    share = (ODDS_STRENGTH * share + pooled.scheduled_sum) / (ODDS_STRENGTH + pooled.scheduled_count)
    share = min(max(share, LEAST_SCHEDULED), 1.0 - LEAST_SCHEDULED)
    profile.odds[version] = share / (1.0 - share)
    _publish_beliefs(seasonality, number, above, version)


@bare_kernel
def _publish_beliefs(seasonality: SeasonalityArrays, number: int, above: int, version: int) -> None:
    """Write which sets of days and which hours are common among a profile's pages: their means, shrunk."""
    profile, pooled, higher = (
        seasonality.profiles[number],
        seasonality.pooled[number],
        seasonality.profiles[max(above, 0)],
    )
    sets, hours = seasonality.work[:DAY_SETS], seasonality.work[DAY_SETS : DAY_SETS + DAY_HOURS]
    for i in range(DAY_SETS):
        sets[i] = WEIGHTS[higher.sets_rarity[version * DAY_SETS + i] if above >= 0 else FIRST_SETS[i]]
    for i in range(DAY_HOURS):
        hours[i] = WEIGHTS[higher.hours_rarity[version * DAY_HOURS + i]] if above >= 0 else 1.0
    _blend(sets, pooled.sets_sum)
    _blend(hours, pooled.hours_sum)
    profile.sets_rarity[version * DAY_SETS] = FIRST_SETS[0]
    for i in range(1, DAY_SETS):
        profile.sets_rarity[version * DAY_SETS + i] = _rarity(sets[i])
    for i in range(DAY_HOURS):
        profile.hours_rarity[version * DAY_HOURS + i] = _rarity(hours[i])


@inlined_kernel
def _blend(weights: Floats, sums: Floats) -> None:
    """Replace weights from above by the means of pages' probabilities, shrunk towards them; the greatest becomes 1."""
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
    """Return how much rarer a weight of at most 1 is than 1, in 1/16 nat, at most `RAREST`."""
    return int(min(0.5 - NAT * log(max(weight, 1e-9)), float(RAREST)))


@bare_kernel
def _shrink(pooled: Record, expected: Floats, factors: Floats, split: int) -> None:
    """Multiply the factors by those of days of the week, hours of the day or single hours, for `split` = 0, 1, 2.

    As far as their counts vary more than by chance. With c changes where m are expected, the factor is (c + s)/(m + s),
    of shape s: 1/s is the sum of (c - m)² - m over that of m², less one standard error, at least 0.
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
    """Return a cell's first hour, the step to the next one, and the stop."""
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
    """Give groups with enough changes profiles of their own, each a copy of the one above."""
    state = seasonality.state[0]
    most = state.regions + 1 + most_profiles(corpus.pages)
    before = state.profiles
    for group in range(corpus.groups):
        if state.profiles >= most:
            break
        above = int(seasonality.of_group[group])
        if groups.records[group].changes >= EARN_CHANGES and seasonality.profiles[above].group != group:
            number = int(state.profiles)
            begin_profile(seasonality, group, int(np.int64(seasonality.profiles[above].region)))
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
