"""Seasonality in a simulated crawl: visits update a class's own schedule, as in a scheduler.

Group profiles are constant: those last published by the scheduler that supplied the history. Schedules of single pages
start empty with the crawl, as rates do, because the scheduler learned them from the same changes that they would have
to predict.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from streamsched.estimation.seasonality.group_profiles import weighted_hours
from streamsched.estimation.seasonality.local_time import local_hours
from streamsched.estimation.seasonality.page_schedules import ScheduleView
from streamsched.estimation.seasonality.schedule_update import earns_schedule, update_schedule
from streamsched.estimation.seasonality.seasonal_terminals import (
    DAY_S,
    RHYTHM,
    TAU,
    SeasonalityView,
    changed_since,
    due_since,
    fill_seasonal_terminal,
    tau_since,
)
from streamsched.numerics.jit import inlined_kernel

if TYPE_CHECKING:
    from streamsched.evolution.simulation.arena import CycleClocks
    from streamsched.numerics.arrays import Floats, Record, Records

__all__ = [
    "SeasonalityInputs",
    "cycle_end_s",
    "fill_simulated_seasonal_terminal",
    "set_quarters",
    "update_class_seasonality",
]


class SeasonalityInputs(NamedTuple):
    """The classes' links and schedules, and the matching cycle times."""

    links: Records  # LINK[g]
    schedules: Records  # SCHEDULE[1 + g]: class i's is number 1 + i, if its link refers to one
    clock: CycleClocks


@inlined_kernel
def cycle_end_s(clock: CycleClocks, cycle: float) -> float:
    """Return the end of a cycle in seconds. O(1)."""
    return clock.start_s + (cycle + 1.0) * clock.cycle_s


@inlined_kernel
def set_quarters(link: Record, clock: CycleClocks, cycle: int) -> None:
    """Store the UTC offset for the hours since a visit at the end of `cycle`. O(1)."""
    link.quarters = clock.quarters[link.profile, cycle + 1]


@inlined_kernel
def update_class_seasonality(inputs: SeasonalityInputs, class_id: int, page: Record, cycle: int, changed: bool) -> None:
    """Update class `class_id` with the result of visits at the end of `cycle`, before its `page` is updated. O(128)."""
    links, schedules, clock = inputs
    link: Record = links[class_id]
    profiles = clock.profiles
    rate = (page.prior_shape + page.own_shape) / (page.prior_exposure + page.own_exposure)
    if link.schedule == 0 and changed and earns_schedule(page, rate * (DAY_S / clock.cycle_s)):
        link.schedule = class_id + 1
        schedules[class_id + 1] = schedules[0]
    if link.schedule:
        profile: Record = profiles[link.profile]
        start = local_hours(cycle_end_s(clock, page.last_visit_s), link.quarters)
        end = local_hours(cycle_end_s(clock, float(cycle)), link.quarters)
        predicted = changed_since(page, weighted_hours(profile, 0, start, end), clock.cycle_s)
        view = ScheduleView(schedules, class_id + 1, profiles, int(np.int64(link.profile)), 0)
        visits, changes = int(np.int64(page.visits)), int(np.int64(page.changes))
        update_schedule(view, start, end, changed, predicted, visits, changes)
    set_quarters(link, clock, cycle)


@inlined_kernel
def fill_simulated_seasonal_terminal(
    code: int, inputs: SeasonalityInputs, pages: Records, cycle: int, out: Floats
) -> None:
    """Fill `out`: float64[m] with TAU, RHYTHM or DUE, selected by `code`, of m classes at the end of `cycle`. O(m).

    ``inputs``: with the links of these classes only.
    """
    clock = inputs.clock
    view = SeasonalityView(inputs.links, inputs.schedules, clock.profiles)
    now = cycle_end_s(clock, float(cycle))
    if code == RHYTHM:
        fill_seasonal_terminal(code, view, pages, now, clock.cycle_s, out)
        return
    for i in range(out.size):
        page: Record = pages[i]
        since = cycle_end_s(clock, page.last_visit_s)
        if code == TAU:
            out[i] = tau_since(view, view.links[i], since, now, clock.cycle_s)
        else:
            out[i] = due_since(view, view.links[i], page, since, now, clock.cycle_s)
