"""Surges and seasonality in a simulated crawl.

Visits update a class's rate as in a scheduler: what is old fades, and a change in a surge is not all the page's own.
Claims of related pages and signals are not simulated.

The terminal `surge` is computed from the cumulative surge hazard of each page group by cycle. A live crawl infers
surges from its own visits. A simulated crawl takes them from all pages of the group, one cycle later, as a crawl would
have detected them: the share of pages hit in excess of their mean rates, on the grid of `estimation.surges`. So surges
do not depend on what the program visits, and pages of one group that were last visited in the same cycle stay equal.
Small groups have no surges, because a single page's change would appear as one.

Visits update a class's own schedule, as in a scheduler. Group profiles are constant: those last published by the
scheduler that supplied the history. Schedules of single pages start empty with the crawl, as rates do, because the
scheduler learned them from the same changes that they would have to predict.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from streamsched.estimation.forgetting import fade
from streamsched.estimation.gamma_posterior import probability_changed, update_page
from streamsched.estimation.seasonality.group_profiles import weighted_hours
from streamsched.estimation.seasonality.page_schedules import ScheduleView
from streamsched.estimation.seasonality.regions import local_hours
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
from streamsched.estimation.surges import FIRST_DAYS, FIRST_SURGES, LEAST_SHOWN, SHARES
from streamsched.evolution.simulation.arena import CrawlHistory, CycleClocks
from streamsched.numerics.arrays import Bools, Floats, Ints, Record, Records
from streamsched.numerics.jit import inlined_kernel
from streamsched.numerics.vector_math import expm1

_LEAST_RATE: Final = 1e-6  # changes per page and cycle


def find_surges(changed: Bools, numbers: Ints) -> tuple[Floats, Floats]:
    """Return the cumulative hazard of each group's surges, and how many it has per cycle.

    The first is -ln of the share of the group that no surge has hit up to and including each cycle: float64[C, groups],
    the second float64[groups]. ``changed``: bool[n, C]; ``numbers``: int64[n] from `number_large_groups`; group 0 has
    no surges. O(n C).
    """
    sizes = np.bincount(numbers)
    sums = np.stack([np.bincount(numbers, weights=column, minlength=sizes.size) for column in changed.T])
    rates = np.clip(sums.mean(axis=0) / np.maximum(sizes, 1), _LEAST_RATE, 1.0 - _LEAST_RATE)
    chance = FIRST_SURGES / FIRST_DAYS
    likely = {0.0: np.zeros_like(sums)}
    for share in SHARES:  # log likelihood ratio to no surge
        change = np.log1p(share * (1.0 - rates) / rates)
        likely[share] = sums * change + (sizes - sums) * np.log1p(-share)
    top = np.max(list(likely.values()), axis=0)
    weights = {share: np.exp(log - top) * (chance / len(SHARES)) for share, log in likely.items()}
    none = np.exp(likely[0.0] - top) * (1.0 - chance)
    total = none + sum(weights[share] for share in SHARES)
    expected = sum(share * weights[share] for share in SHARES) / total
    shown = np.where(expected >= LEAST_SHOWN, expected, 0.0)
    shown[:, 0] = 0.0
    return np.ascontiguousarray(np.cumsum(-np.log1p(-shown), axis=0)), (1.0 - none / total).mean(axis=0)


@inlined_kernel
def fill_surge(surge_hazard: Floats, pages: Records, cycle: int, out: Floats) -> None:
    """Fill `out`: float64[m] with `surge` of m pages in `cycle`; their groups are numbers, their times cycles. O(m)."""
    for i in range(out.size):
        out[i] = simulated_surge(surge_hazard, pages[i], cycle)


@inlined_kernel
def simulated_surge(surge_hazard: Floats, page: Record, cycle: int) -> float:
    """Return `surge` of a page in `cycle`, as for `fill_surge`. O(1)."""
    group, last = np.int64(page.group), np.int64(page.last_visit_s)
    return 0.0 - expm1(surge_hazard[last, group] - surge_hazard[cycle - 1, group])


@inlined_kernel
def update_rate(page: Record, trace: Record, cycle: int, changed: bool, history: CrawlHistory) -> None:
    """Update a class's PAGE and TRACE by the result of a visit in `cycle`, as a scheduler does. O(1).

    What earlier visits taught fades. A change that a surge may have made counts as the page's own in part, the more the
    more frequent surges are.
    """
    interval = cycle - page.last_visit_s
    own = 1.0
    if changed and history.surge_hazard.size:
        surge = simulated_surge(history.surge_hazard, page, cycle + 1)
        if surge > 0.0:
            shape, exposure = page.prior_shape + page.own_shape, page.prior_exposure + page.own_exposure
            quiet = 1.0 - probability_changed(shape, exposure, interval)
            own = (1.0 - quiet) / (1.0 - quiet * (1.0 - surge))
            own += (1.0 - own) * (0.0 - expm1(-history.surge_frequency[np.int64(page.group)]))
    counted = fade(page, interval, history.fading) if history.fading > 0.0 else interval
    update_page(page, trace, counted, changed, own)


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
