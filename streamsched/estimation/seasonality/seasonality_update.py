"""What a visit teaches of when pages change: its page's schedule, and the profile of its group."""

from __future__ import annotations

from typing import Final

import numpy as np

from streamsched.estimation.seasonality.group_profiles import count_changes, learn_profile, weighted_hours
from streamsched.estimation.seasonality.local_time import HOUR_S, local_hours
from streamsched.estimation.seasonality.page_schedules import (
    Sheet,
    earns_schedule,
    give_schedule,
    learn_schedule,
    most_schedules,
    note_change,
)
from streamsched.estimation.seasonality.seasonal_terminals import DAY_S, Beats, changed_since, due_since
from streamsched.estimation.surges import spared_share
from streamsched.numerics.arrays import Record
from streamsched.numerics.jit import inlined, prefetch
from streamsched.numerics.vector_math import exp
from streamsched.records.schema import LONGEST_INTERVAL, WEEK_HOURS, Rhythms, Tables

__all__ = ["learn_rhythm", "prefetch_rhythm"]

_LATEST_S: Final = 1e12  # later visits are clock errors, that the fading of profiles must not go by


@inlined
def learn_rhythm(tables: Tables, row: int, at_s: float, changed: bool, cycle_s: float) -> float:
    """Take in what a visit at `at_s` found of the time since the page's last visit, before its rate does. O(hours).

    Returns how probable a change was by the page's schedule, as far as that is trusted, and by its rate; NaN where it
    has no schedule, or no change was seen.
    """
    rhythm = tables.rhythm
    tempo = rhythm.tempo[0]
    if tempo.off:
        return np.nan
    page: Record = tables.pages[row]
    link: Record = rhythm.links[row]
    profile: Record = rhythm.profiles[link.profile]
    age = int(np.int64(link.age))
    tempo.newest_s = max(tempo.newest_s, min(at_s, _LATEST_S))
    start = local_hours(page.last_visit_s, link.quarters)
    end = local_hours(at_s, link.quarters)
    rate = (page.prior_shape + page.own_shape) / (page.prior_exposure + page.own_exposure)
    if 0.0 < end - start <= WEEK_HOURS:
        hours = weighted_hours(profile, age, start, end)
        cycles = min(hours * (HOUR_S / cycle_s), LONGEST_INTERVAL)
        learn_profile(profile, age, start, end, count_changes(rate * cycles) if changed else 0.0)
    rate_per_day = rate * (DAY_S / cycle_s)
    if link.schedule == 0 and changed and earns_schedule(page, rate_per_day):
        give_schedule(rhythm, row, most_schedules(tables.corpus[0].sorted))
    due = np.nan
    if link.schedule:
        if changed:
            due = due_since(
                Beats(rhythm.links, rhythm.schedules, rhythm.profiles), link, page, page.last_visit_s, at_s, cycle_s
            )
        foretold = changed_since(page, weighted_hours(profile, age, start, end), cycle_s)
        foretold = 1.0 - (1.0 - foretold) * _unhit(tables, page, at_s, cycle_s)
        schedule: Record = rhythm.schedules[link.schedule]
        sheet = Sheet(rhythm.schedules, int(np.int64(link.schedule)), rhythm.profiles, int(np.int64(link.profile)), age)
        visits, changes = int(np.int64(page.visits)), int(np.int64(page.changes))
        learn_schedule(sheet, start, end, changed, foretold, visits, changes)
        if changed:
            note_change(schedule, at_s, end - start)
    return due


@inlined
def _unhit(tables: Tables, page: Record, at_s: float, cycle_s: float) -> float:
    """Return the probability that no surge has hit a page since its last visit: what schedules do not explain."""
    group: Record = tables.groups[page.group]
    cycles = min(max((at_s - page.last_visit_s) / cycle_s, 0.0), LONGEST_INTERVAL)
    return float(spared_share(group, page.last_visit_s) * exp(-(group.hazard * cycles)))


@inlined
def prefetch_rhythm(rhythm: Rhythms, row: int) -> None:
    """Ask the memory for what `learn_rhythm` will read of a page's schedule. O(1)."""
    number = int(np.int64(rhythm.links[row].schedule))
    if number:
        prefetch(rhythm.schedules, number)
