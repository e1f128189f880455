"""Surges: bulk edits and releases, which change many pages of one URL pattern at once (SPEC 4).

Groups are those of `groups`: URL patterns that enough pages share, each page in its deepest, or in its host. Time is
cut into windows of a cycle, for each group from a visit on: a page that was last visited before a window began and is
visited in it tells whether the group was hit. The group keeps how probable it is that a surge has hit each of `SHARES`
of its pages; a visit multiplies each by its likelihood: a change has the probability 1 - q·(1 - s), where q is that of
no change by the page itself or by another surge that it bears, and no change has q·(1 - s). What is expected beyond the
hazard, the share that surges hit unseen in an ordinary window, is shown: every page not visited since bears it, at
once. A window that showed a surge is kept after its end, its evidence still coming in; other windows only say how
common surges are in this group, from a guess of one in a hundred on. So groups whose pages change each for itself come
to show nothing. The hazard makes pages be looked at that no surge is known of: surge_probes for the others.

What is shown moves in steps, each told to rankings, and costs them O(pages of the group); a visit costs O(1).
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from streamsched.estimation.observed_interval import ObservedInterval
from streamsched.numerics.arrays import Floats, Record, Records
from streamsched.numerics.jit import bare_kernel, inlined_kernel
from streamsched.numerics.vector_math import expm1, log1p
from streamsched.records.group_schema import SURGE_SHARES
from streamsched.records.page_schema import LONGEST_INTERVAL, SHORTEST_INTERVAL
from streamsched.records.score_invalidation import InvalidationBuffer, invalidate_group

__all__ = [
    "FEWEST_PAGES",
    "FIRST_SURGES",
    "FIRST_WINDOWS",
    "LEAST_SHOWN",
    "MEAN_SHARE",
    "SHARES",
    "init_surges",
    "share_not_hit",
    "surge_probability",
    "unseen_surge_value",
    "update_surges",
]

SHARES: Final = (0.1, 0.3, 0.5, 0.7, 0.9)  # middles of equal parts: any share is as likely as another at first
FIRST_SURGES: Final = 1.0  # what is believed of how common they are before anything is learned: one surge ...
FIRST_WINDOWS: Final = 100.0  # ... in so many windows
WINDOW_MEMORY: Final = 1_000.0  # windows until what one said of surges' chance has faded to a third
FEWEST_PAGES: Final = 2  # of a group: a page alone changes by itself
STEP: Final = 1 / 16  # by so much must a share have moved to be shown anew: evidence comes in smaller pieces
LEAST_SHOWN: Final = 1 / 32  # share; a lower one is no surge, though the hazard counts it
HAZARD_STEP: Final = 2.0**0.25  # factor by which the hazard must have moved

MEAN_SHARE: Final = math.fsum(SHARES) / len(SHARES)
_LEAST_DOUBT: Final = 1e-6  # probability that there was no surge, whatever visits say: numbers end somewhere
_UNLIKELIEST: Final = 1e-12  # own change of a page: it must not take a change for certain, nor for impossible

assert len(SHARES) == SURGE_SHARES


def init_surges(groups: Records) -> None:
    """Let groups know of no surge yet: those that come from a state that did not hold what surges teach. O(groups)."""
    groups["open_s"] = groups["kept_s"] = -np.inf


@inlined_kernel
def update_surges(
    groups: Records, noted: InvalidationBuffer, page: Record, observed: ObservedInterval, due: float
) -> float:
    """Update the page's group by an observed interval; the page's record is as before the visit. O(1).

    `due`: how probable a change was by the page's schedule, which no surge is needed for; NaN where it has none.
    Returns how probable it is that the page itself changed, no surge alone: 1 where no change was seen. What comes in
    nearly every window is no surge, but how the group's pages change: as common as surges are, as much of what they
    explain is the page's own all the same.
    """
    number = np.int64(page.group)
    group: Record = groups[number]
    if group.pages < FEWEST_PAGES:
        return 1.0
    if abs(observed.end_s - group.open_s) >= observed.cycle_s:  # or a clock was set back by as much
        _begin_window(group, noted, number, observed.end_s)
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
        _show_open(noted, number, group)
    if in_kept:
        group.kept_unvisited -= min(group.kept_unvisited, np.uint32(1))
        _show_kept(noted, number, group)
    return own


@inlined_kernel
def share_not_hit(group: Record, last_visit_s: float) -> float:
    """Return the share of a group's pages last visited at that time that no surge shown since has hit. O(1)."""
    spared = 1.0
    if last_visit_s < group.open_s:
        spared -= group.open_share
    if last_visit_s < group.kept_s:
        spared *= 1.0 - group.kept_share
    return spared


@inlined_kernel
def surge_probability(group: Record) -> float:
    """Return the probability that a window of a group has a surge, before it is seen. O(1)."""
    return float((FIRST_SURGES + group.surge_sum) / (FIRST_WINDOWS + group.window_count))


@inlined_kernel
def unseen_surge_value(group: Record) -> float:
    """Return the probability that the present window of a group has a surge, by what visits have told so far. O(1)."""
    return 1.0 - _doubt(group.open_weights)


@bare_kernel
def _begin_window(group: Record, noted: InvalidationBuffer, number: int, at_s: float) -> None:
    """Let a window of a group begin now; learn from the one before it."""
    if group.open_s > -np.inf:
        _end_window(noted, number, group)
    chance = surge_probability(group)
    hazard = (FIRST_WINDOWS * chance * MEAN_SHARE + group.missed_sum) / (FIRST_WINDOWS + group.window_count)
    if not group.hazard <= hazard * HAZARD_STEP or not hazard <= group.hazard * HAZARD_STEP:
        group.hazard = hazard
        invalidate_group(noted, number, np.inf)
    for i in range(SURGE_SHARES):
        group.open_weights[i] = chance / SURGE_SHARES
    group.open_s = at_s
    group.open_share = 0.0
    group.open_unvisited = group.pages


@inlined_kernel
def _end_window(noted: InvalidationBuffer, number: int, group: Record) -> None:
    """Learn from the present window how common surges are, and keep it if it weighs no less than the one kept.

    A window weighs the pages that bear its surge still, as far as is known.
    """
    group.surge_sum += 1.0 - _doubt(group.open_weights) - group.surge_sum / WINDOW_MEMORY
    group.missed_sum -= group.missed_sum / WINDOW_MEMORY
    group.window_count += 1.0 - group.window_count / WINDOW_MEMORY
    if group.open_share == 0.0:
        group.missed_sum += _expect(group.open_weights)
    elif group.kept_share * float(group.kept_unvisited) > group.open_share * float(group.open_unvisited):
        invalidate_group(noted, number, group.open_s)
    else:
        if group.kept_share > 0.0:
            invalidate_group(noted, number, group.kept_s)
        group.kept_s, group.kept_share, group.kept_unvisited = group.open_s, group.open_share, group.open_unvisited
        for i in range(SURGE_SHARES):
            group.kept_weights[i] = group.open_weights[i]


@bare_kernel
def _attribute_change(group: Record, page: Record, interval: float, due: float, in_open: bool, in_kept: bool) -> float:
    """Take in that a page changed that bears the windows named; return how probable it is that it would have itself."""
    shape, exposure = page.prior_shape + page.own_shape, page.prior_exposure + page.own_exposure
    interval = min(max(interval, SHORTEST_INTERVAL), LONGEST_INTERVAL)
    own = 0.0 - expm1(-shape * log1p(interval / exposure)) if np.isnan(due) else due
    own = min(max(own, _UNLIKELIEST), 1.0 - _UNLIKELIEST)
    spared_open = 1.0 - _expect(group.open_weights) if in_open else 1.0
    spared_kept = 1.0 - _expect(group.kept_weights) if in_kept else 1.0
    if in_open:
        _update_on_change(group.open_weights, (1.0 - own) * spared_kept)
    if in_kept:
        _update_on_change(group.kept_weights, (1.0 - own) * spared_open)
    return float(own / (1.0 - (1.0 - own) * spared_open * spared_kept))


@inlined_kernel
def _update_on_no_change(weights: Floats) -> None:
    total = _doubt(weights)
    for i in range(SURGE_SHARES):
        total += weights[i] * (1.0 - SHARES[i])
    for i in range(SURGE_SHARES):
        weights[i] = weights[i] * (1.0 - SHARES[i]) / total


@inlined_kernel
def _update_on_change(weights: Floats, quiet: float) -> None:
    """Take in a change to a page that nothing else would have changed with the probability `quiet`."""
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
    """Return the share of the group's pages that are expected to be hit."""
    expected = 0.0
    for i in range(SURGE_SHARES):
        expected += weights[i] * SHARES[i]
    return expected


@inlined_kernel
def _show_open(noted: InvalidationBuffer, number: int, group: Record) -> None:
    shown = _choose_shown(_expect(group.open_weights), group.hazard, group.open_share)
    if shown != group.open_share:
        group.open_share = shown
        invalidate_group(noted, number, group.open_s)


@inlined_kernel
def _show_kept(noted: InvalidationBuffer, number: int, group: Record) -> None:
    shown = _choose_shown(_expect(group.kept_weights), group.hazard, group.kept_share)
    if shown != group.kept_share:
        group.kept_share = shown
        invalidate_group(noted, number, group.kept_s)


@inlined_kernel
def _choose_shown(expected: float, hazard: float, shown: float) -> np.float32:
    """Return what to show of an expected share, now that `shown` is."""
    excess = (expected - hazard) / (1.0 - hazard)
    if abs(excess - shown) > STEP or (shown > 0.0 and excess < LEAST_SHOWN):
        return np.float32(excess if excess >= LEAST_SHOWN else 0.0)
    return np.float32(shown)
