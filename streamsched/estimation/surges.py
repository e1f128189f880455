"""Surges: bulk edits and releases, which change many pages of one group at once (SPEC 4).

A group is a URL pattern that enough pages share, or a host; each page belongs to its deepest. Time is cut into windows
of a cycle, for each group from a visit on. A page that was last visited before a window began and is visited in it is
evidence of whether the group was hit. The group keeps the probability that a surge has hit each of `SHARES` of its
pages. A visit multiplies each by its likelihood: a change has the probability 1 - q·(1 - s), no change q·(1 - s), where
q is the probability that neither the page itself nor another surge has changed it.

The expected share beyond the hazard, which is the share that undetected surges hit in an ordinary window, is published:
it applies at once to every page not visited since. A window with a surge is kept after its end and still receives
evidence. Other windows only count towards how common surges are in the group, starting from a prior of one in a
hundred. So groups whose pages change independently come to publish nothing. The hazard makes scores rise while no surge
is known; surge probes look for the others.

The published share moves in steps; each step invalidates the scores of the group's pages: O(pages of the group). A
visit costs O(1).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from streamsched.numerics.jit import bare_kernel, inlined_kernel
from streamsched.numerics.vector_math import expm1, log1p
from streamsched.records.group_schema import SURGE_SHARES
from streamsched.records.page_schema import LONGEST_INTERVAL, SHORTEST_INTERVAL
from streamsched.records.score_invalidation import InvalidationBuffer, invalidate_group

if TYPE_CHECKING:
    from streamsched.estimation.observed_interval import ObservedInterval
    from streamsched.numerics.arrays import Floats, Record, Records

__all__ = [
    "FEWEST_PAGES",
    "FIRST_SURGES",
    "FIRST_WINDOWS",
    "LEAST_SHOWN",
    "MEAN_SHARE",
    "SHARES",
    "share_not_hit",
    "surge_probability",
    "unseen_surge_value",
    "update_surges",
]

SHARES: Final = (0.1, 0.3, 0.5, 0.7, 0.9)  # midpoints of equal intervals: a uniform prior
FIRST_SURGES: Final = 1.0  # prior of how common surges are: one surge ...
FIRST_WINDOWS: Final = 100.0  # ... in this many windows
WINDOW_MEMORY: Final = 1_000.0  # windows: time constant of how common surges are
FEWEST_PAGES: Final = 2  # of a group: a single page changes by itself
STEP: Final = 1 / 16  # least change of a share for which it is published again
LEAST_SHOWN: Final = 1 / 32  # least share published; the hazard counts lower ones
HAZARD_STEP: Final = 2.0**0.25  # least factor by which the hazard moves before it is published again

MEAN_SHARE: Final = math.fsum(SHARES) / len(SHARES)
_LEAST_DOUBT: Final = 1e-6  # least probability that there was no surge, so that it can recover
_UNLIKELIEST: Final = 1e-12  # least distance of the probability of a page's own change from 0 and 1

assert len(SHARES) == SURGE_SHARES


@inlined_kernel
def update_surges(
    groups: Records, invalidated: InvalidationBuffer, page: Record, observed: ObservedInterval, due: float
) -> float:
    """Update the surges of a page's group by an observed interval; the page's record is as before the visit. O(1).

    `due`: the probability of a change by the page's models of seasonality, NaN if unknown. Returns the probability that
    the page changed by itself, not by a surge alone: 1 if no change was seen. Frequent bulk changes are attributed to
    the pages: the more common surges are in the group, the more of what they explain counts as the page's own.
    """
    number = np.int64(page.group)
    group: Record = groups[number]
    if group.pages < FEWEST_PAGES:
        return 1.0
    if abs(observed.end_s - group.open_s) >= observed.cycle_s:  # or a clock was set back by that much
        _begin_window(group, invalidated, number, observed.end_s)
    in_open = page.last_visit_s < group.open_s <= observed.end_s
    in_kept = page.last_visit_s < group.kept_s <= observed.end_s and group.kept_share > 0.0
    own = 1.0
    if observed.changed:
        own = _attribute_change(group, page, observed.cycles, due, in_open, in_kept)
        own += (1.0 - own) * surge_probability(group)
    else:
        if in_open:
            _update_on_no_change(group.open_weights)
        if in_kept:
            _update_on_no_change(group.kept_weights)
    if in_open:
        group.open_unvisited -= min(group.open_unvisited, np.uint32(1))
        _publish_open(invalidated, number, group)
    if in_kept:
        group.kept_unvisited -= min(group.kept_unvisited, np.uint32(1))
        _publish_kept(invalidated, number, group)
    return own


@inlined_kernel
def share_not_hit(group: Record, last_visit_s: float) -> float:
    """Return the share of a group's pages last visited at that time that no published surge has hit since. O(1)."""
    # Both are read in any case, so that there is no branch to mispredict.
    open_share, kept_share = float(group.open_share), float(group.kept_share)
    untouched = 1.0 - (open_share if last_visit_s < group.open_s else 0.0)
    return untouched * (1.0 - (kept_share if last_visit_s < group.kept_s else 0.0))


@inlined_kernel
def surge_probability(group: Record) -> float:
    """Return the prior probability that a window of a group has a surge. O(1)."""
    return float((FIRST_SURGES + group.surge_sum) / (FIRST_WINDOWS + group.window_count))


@inlined_kernel
def unseen_surge_value(group: Record) -> float:
    """Return the probability that the open window of a group has a surge, by the visits so far. O(1)."""
    return 1.0 - _doubt(group.open_weights)


@bare_kernel
def _begin_window(group: Record, invalidated: InvalidationBuffer, number: int, at_s: float) -> None:
    """Begin a window of a group at `at_s`, after learning from the one before."""
    if group.open_s > -np.inf:
        _end_window(invalidated, number, group)
    chance = surge_probability(group)
    hazard = (FIRST_WINDOWS * chance * MEAN_SHARE + group.missed_sum) / (FIRST_WINDOWS + group.window_count)
    if not group.hazard <= hazard * HAZARD_STEP or not hazard <= group.hazard * HAZARD_STEP:
        group.hazard = hazard
        invalidate_group(invalidated, number, np.inf)
    for i in range(SURGE_SHARES):
        group.open_weights[i] = chance / SURGE_SHARES
    group.open_s = at_s
    group.open_share = 0.0
    group.open_unvisited = group.pages


@inlined_kernel
def _end_window(invalidated: InvalidationBuffer, number: int, group: Record) -> None:
    """Learn from the open window how common surges are, and keep it if it weighs no less than the one kept.

    A window weighs its published share times the pages not visited since it began.
    """
    group.surge_sum += 1.0 - _doubt(group.open_weights) - group.surge_sum / WINDOW_MEMORY
    group.missed_sum -= group.missed_sum / WINDOW_MEMORY
    group.window_count += 1.0 - group.window_count / WINDOW_MEMORY
    if group.open_share == 0.0:
        group.missed_sum += _expect(group.open_weights)
    elif group.kept_share * float(group.kept_unvisited) > group.open_share * float(group.open_unvisited):
        invalidate_group(invalidated, number, group.open_s)
    else:
        if group.kept_share > 0.0:
            invalidate_group(invalidated, number, group.kept_s)
        group.kept_s, group.kept_share, group.kept_unvisited = group.open_s, group.open_share, group.open_unvisited
        for i in range(SURGE_SHARES):
            group.kept_weights[i] = group.open_weights[i]


@bare_kernel
def _attribute_change(group: Record, page: Record, interval: float, due: float, in_open: bool, in_kept: bool) -> float:
    """Update the windows by a change to a page; return the probability that the page changed by itself.

    `in_open`, `in_kept`: whether the visit is evidence about that window.
    """
    shape, exposure = page.prior_shape + page.own_shape, page.prior_exposure + page.own_exposure
    interval = min(max(interval, SHORTEST_INTERVAL), LONGEST_INTERVAL)
    own = 0.0 - expm1(-shape * log1p(interval / exposure)) if np.isnan(due) else due
    own = min(max(own, _UNLIKELIEST), 1.0 - _UNLIKELIEST)
    untouched_open = 1.0 - _expect(group.open_weights) if in_open else 1.0
    untouched_kept = 1.0 - _expect(group.kept_weights) if in_kept else 1.0
    if in_open:
        _update_on_change(group.open_weights, (1.0 - own) * untouched_kept)
    if in_kept:
        _update_on_change(group.kept_weights, (1.0 - own) * untouched_open)
    return float(own / (1.0 - (1.0 - own) * untouched_open * untouched_kept))


@inlined_kernel
def _update_on_no_change(weights: Floats) -> None:
    """Apply Bayes' rule to a visit that found no change."""
    total = _doubt(weights)
    for i in range(SURGE_SHARES):
        total += weights[i] * (1.0 - SHARES[i])
    for i in range(SURGE_SHARES):
        weights[i] = weights[i] * (1.0 - SHARES[i]) / total


@inlined_kernel
def _update_on_change(weights: Floats, quiet: float) -> None:
    """Apply Bayes' rule to a change; `quiet`: the probability that nothing else would have changed the page."""
    total = _doubt(weights) * (1.0 - quiet)
    for i in range(SURGE_SHARES):
        total += weights[i] * (1.0 - quiet * (1.0 - SHARES[i]))
    for i in range(SURGE_SHARES):
        weights[i] = weights[i] * (1.0 - quiet * (1.0 - SHARES[i])) / total


@inlined_kernel
def _doubt(weights: Floats) -> float:
    """Return the probability that there was no surge."""
    doubt = 1.0
    for i in range(SURGE_SHARES):
        doubt -= weights[i]
    return max(doubt, _LEAST_DOUBT)


@inlined_kernel
def _expect(weights: Floats) -> float:
    """Return the expected share of the group's pages hit."""
    expected = 0.0
    for i in range(SURGE_SHARES):
        expected += weights[i] * SHARES[i]
    return expected


@inlined_kernel
def _publish_open(invalidated: InvalidationBuffer, number: int, group: Record) -> None:
    """Publish the open window's share if it has moved far enough."""
    share = _choose_share(_expect(group.open_weights), group.hazard, group.open_share)
    if share != group.open_share:
        group.open_share = share
        invalidate_group(invalidated, number, group.open_s)


@inlined_kernel
def _publish_kept(invalidated: InvalidationBuffer, number: int, group: Record) -> None:
    """Publish the kept window's share if it has moved far enough."""
    share = _choose_share(_expect(group.kept_weights), group.hazard, group.kept_share)
    if share != group.kept_share:
        group.kept_share = share
        invalidate_group(invalidated, number, group.kept_s)


@inlined_kernel
def _choose_share(expected: float, hazard: float, share: float) -> np.float32:
    """Return the share to publish, given the expected one and the one published now."""
    excess = (expected - hazard) / (1.0 - hazard)
    if abs(excess - share) > STEP or (share > 0.0 and excess < LEAST_SHOWN):
        return np.float32(excess if excess >= LEAST_SHOWN else 0.0)
    return np.float32(share)
