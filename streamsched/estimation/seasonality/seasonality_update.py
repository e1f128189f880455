"""Update of seasonality by one visit: the page's own schedule, and the profile of its group."""

from __future__ import annotations

from typing import Final

import numpy as np

from streamsched.estimation.forgetting import has_shadow
from streamsched.estimation.gamma_posterior import ObservedInterval
from streamsched.estimation.related_pages import is_claimed, unclaimed
from streamsched.estimation.seasonality.group_profiles import (
    count_changes,
    prefetch_profile,
    update_profile,
    weighted_hours,
)
from streamsched.estimation.seasonality.page_schedules import (
    ScheduleView,
    most_schedules,
)
from streamsched.estimation.seasonality.regions import HOUR_S, local_hours
from streamsched.estimation.seasonality.schedule_update import (
    LEAST_CHANGES,
    count_change,
    earns_schedule,
    open_schedule,
    update_schedule,
)
from streamsched.estimation.seasonality.seasonal_terminals import DAY_S, SeasonalityView, changed_since, due_since
from streamsched.estimation.surges import share_not_hit
from streamsched.numerics.arrays import Record
from streamsched.numerics.compilation.machine_operations import call_for_float, prefetch
from streamsched.numerics.jit import bare_kernel, inlined_kernel
from streamsched.numerics.vector_math import exp
from streamsched.records.page_schema import LONGEST_INTERVAL
from streamsched.records.schema import ShardArrays
from streamsched.records.seasonality_schema import WEEK_HOURS, SeasonalityArrays

OUTCOMES_OF_SCHEDULE: Final = LEAST_CHANGES + 2  # a page gets one after its first visit, the changes and one more


@inlined_kernel
def update_seasonality(shard: ShardArrays, row: int, observed: ObservedInterval, updater: int) -> float:
    """Update the page's schedule and profile by an observed interval, before its rate is updated. O(hours).

    `updater`: the address of `update_own_schedule`. Returns the probability of the change by the page's models,
    weighted; NaN if the page has no schedule, or no shadow and there was neither a change nor a claim on it.
    """
    seasonality = shard.seasonality
    state = seasonality.state[0]
    if state.off:
        return np.nan
    page: Record = shard.pages.records[row]
    link: Record = seasonality.links[row]
    profile: Record = seasonality.profiles[link.profile]
    version = int(np.int64(link.version))
    state.newest_s = max(state.newest_s, observed.end_s)
    start = local_hours(page.last_visit_s, link.quarters)
    end = local_hours(observed.end_s, link.quarters)
    rate = (page.prior_shape + page.own_shape) / (page.prior_exposure + page.own_exposure)
    if 0.0 < end - start <= WEEK_HOURS:
        hours = weighted_hours(profile, version, start, end)
        cycles = min(hours * (HOUR_S / observed.cycle_s), LONGEST_INTERVAL)
        update_profile(profile, version, start, end, count_changes(rate * cycles) if observed.changed else 0.0)
    rate_per_day = rate * (DAY_S / observed.cycle_s)
    if link.schedule == 0 and observed.changed and earns_schedule(page, rate_per_day):
        open_schedule(seasonality, row, most_schedules(int(shard.corpus[0].pages)))
    return call_for_float(updater, (shard, row, observed)) if link.schedule else np.nan


@bare_kernel
def update_own_schedule(shard: ShardArrays, row: int, observed: ObservedInterval) -> float:
    """Update the schedule of a page that has one; return as `update_seasonality` does. O(hours)."""
    seasonality = shard.seasonality
    page: Record = shard.pages.records[row]
    group: Record = shard.groups.records[page.group]
    link: Record = seasonality.links[row]
    profile: Record = seasonality.profiles[link.profile]
    version = int(np.int64(link.version))
    start = local_hours(page.last_visit_s, link.quarters)
    end = local_hours(observed.end_s, link.quarters)
    due = np.nan
    if observed.changed or is_claimed(link) or has_shadow(shard.corpus[0], row):
        models = SeasonalityView(seasonality.links, seasonality.schedules, seasonality.profiles)
        due = due_since(models, link, page, page.last_visit_s, observed.end_s, observed.cycle_s)
    predicted = changed_since(page, weighted_hours(profile, version, start, end), observed.cycle_s)
    predicted = 1.0 - (1.0 - predicted) * _unhit(group, page, observed) * unclaimed(link)
    schedule: Record = seasonality.schedules[link.schedule]
    view = ScheduleView(
        seasonality.schedules,
        int(np.int64(link.schedule)),
        seasonality.profiles,
        int(np.int64(link.profile)),
        version,
    )
    visits, changes = int(np.int64(page.visits)), int(np.int64(page.changes))
    update_schedule(view, start, end, observed.changed, predicted, visits, changes)
    if observed.changed:
        count_change(schedule, observed.end_s, end - start)
    return due


@inlined_kernel
def _unhit(group: Record, page: Record, observed: ObservedInterval) -> float:
    """Return the probability that no surge has hit a page since its last visit: schedules do not explain surges."""
    cycles = min(max(observed.cycles, 0.0), LONGEST_INTERVAL)
    return float(share_not_hit(group, page.last_visit_s) * exp(-(group.hazard * cycles)))


@inlined_kernel
def prefetch_seasonality(seasonality: SeasonalityArrays, row: int, page: Record, end_s: float) -> None:
    """Prefetch what `update_seasonality` will use of a schedule, and of a profile that few pages share. O(1)."""
    link: Record = seasonality.links[row]
    if link.schedule:
        prefetch(seasonality.schedules, np.int64(link.schedule))
    if link.profile > seasonality.state[0].regions:
        prefetch_profile(seasonality, link, page.last_visit_s)
        prefetch_profile(seasonality, link, end_s)
